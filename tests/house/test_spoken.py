"""No text of others reaches a screen as Markdown."""

from tests.spoken import Speech, speech

DOOR = "from spmd_lab.ui.markdown import plain\nimport streamlit as st\n"


def found(code: str, **others: str) -> list[str]:
    sources = {"spmd_lab/ui/a.py": DOOR + code} | {
        f"spmd_lab/ui/{name}.py": text for name, text in others.items()
    }
    return [place.text for place in Speech(sources).unspoken_for()]


def test_every_text_of_the_screens_is_ours_or_made_plain():
    assert list(map(str, speech().unspoken_for())) == []


def test_a_text_of_others_is_found_wherever_it_goes_in():
    assert found("def f(name):\n    st.error(plain(name))") == []
    assert (
        found("def f(run):\n    st.error(f'{plain(run.name)} of {len(run.rows)}, {run.s:.1f}')")
        == []
    )
    assert found("def f(run):\n    st.error(run.name)") == ["run.name"]
    assert found("def f(run):\n    st.button('ok', help=run.name)") == ["run.name"]
    assert found("def f(run):\n    st.pills('ok', run.names)") == ["run.names"]
    assert found("def f(run):\n    st.table(run.rows)") == ["run.rows"]
    assert found("try: pass\nexcept ValueError as error:\n    st.error(str(error))") == [
        "str(error)"
    ]


def test_a_text_that_is_handed_on_is_followed():
    helper = "def tell(place, words):\n    place.caption(words)\n"
    assert found(f"{helper}def f(run):\n    tell(st, run.name)") == ["run.name"]
    assert found(f"{helper}def f(run):\n    tell(st, words=run.name)") == ["run.name"]
    assert found(f"{helper}def f(run):\n    tell(st, plain(run.name))") == []
    other = "from spmd_lab.ui import b\ndef f(run):\n    b.tell(st, run.name)"
    assert found(other, b=helper) == ["run.name"]
    assert found("def f(run):\n    said = 'a'\n    said += run.name\n    st.write(said)") == [
        "said"
    ]
    assert found("def g(run):\n    return run.name\ndef f(run):\n    st.write(g(run))") == [
        "g(run)"
    ]
    assert found("def g(run):\n    return plain(run.name)\ndef f(run):\n    st.write(g(run))") == []
