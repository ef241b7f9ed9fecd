"""The Notebook screen without a browser: a collection is begun, read and edited; History's cards tick."""

from urllib.parse import parse_qs

import pytest

from bench.values import result, strategy
from spmd_core.base import RequestError
from spmd_core.history import when_words
from spmd_core.search import KeptSearch
from spmd_lab.ui import exports
from tests.ui import opened, said
from tests.ui.predictions import predicted, store

RUN, OTHER = "20260101-000000-aaaaaa", "20260101-000001-bbbbbb"
THIRD = "20260101-000002-cccccc"
ODD = "# A [link](javascript:x)\n- **fast** <b>\nplain :material/home:"


@pytest.fixture
def lab(lab, data_folder):
    store(data_folder, result({"auto": strategy(1e-5)}, run=RUN))
    store(data_folder, result({"auto": strategy(2e-5)}, run=OTHER))
    return lab


def test_a_collection_is_begun_and_found(lab):
    screen = opened("notebook")
    # an example is offered where the results that came with the program are stored
    assert not [each for each in screen.button if each.key == "collection:example"]
    lab.collections.create("Week 47")
    screen.run()
    labels = [link.proto.label.replace("\\", "") for link in screen.get("page_link")]
    assert "Week 47" in labels


def test_a_page_is_begun_with_a_recent_run_or_search_by_one_press(lab, monkeypatch):
    kept = KeptSearch(search="a", title="8 chips", words="fsdp=8 is fastest.")
    monkeypatch.setattr(lab.searches, "listed", lambda: (kept,))
    first = opened("notebook")
    assert {f"begin:{OTHER}", "begin:a"} <= {each.key for each in first.button}
    for key, kind in ((OTHER, "run"), ("a", "search")):
        screen = opened("notebook")
        screen.button(key=f"begin:{key}").click().run()
        (page,) = [each for each in lab.collections.listed() if each.items[0].kind == kind]
        assert page.items[0].text == key and page.title
        assert screen.toggle(key="edit").value and not screen.exception


def test_a_run_on_a_page_names_its_chips(lab, data_folder):
    there = predicted(run=THIRD)
    store(data_folder, there)
    page = lab.collections.add_runs(lab.collections.create("Week 47").id, RUN, THIRD)
    text = said(opened("notebook", collection=page.id))
    assert there.experiment.target.removeprefix("tpu:") in text


def test_an_edited_text_is_read_until_its_field_is_opened(lab):
    page = lab.collections.add_text(lab.collections.create("Week 47").id, "**rows** win")
    (text,) = page.items
    screen = opened("notebook", collection=page.id, edit="true")
    area = f"rewriting:text:{text.id}"
    fields = lambda: {each.key for each in screen.text_area}  # noqa: E731
    assert area not in fields() and "**rows** win" in said(screen)
    screen.button(key=f"part:Write:{text.id}").click().run()
    assert area in fields() and "**rows** win" in said(screen)
    screen.button(key=f"part:Done:{text.id}").click().run()
    assert area not in fields()


def test_a_collection_shows_text_as_it_is_and_the_answers_of_its_runs(lab):
    page = lab.collections.create("Week 47")
    lab.collections.add_text(page.id, ODD)
    lab.collections.add_runs(page.id, RUN)
    screen = opened("notebook", collection=page.id)
    raw = "\n".join(part.value for part in (*screen.header, *screen.markdown))
    assert "\\[link\\]" in raw and "**fast** \\<b\\>" in raw and r"plain \:material\/home\:" in raw
    assert "10\u00a0µs" in screen.table[0].value.to_numpy().ravel().tolist()
    assert f"/c/{page.id}" in screen.code[0].value


def test_a_page_shows_the_cards_of_its_runs_as_its_editor_does(lab):
    page = lab.collections.add_runs(lab.collections.create("Week 47").id, RUN, OTHER)
    read, edited = (opened("notebook", collection=page.id, edit=on) for on in ("false", "true"))
    tables = [
        [each.value.to_numpy().tolist() for each in screen.table] for screen in (read, edited)
    ]
    assert tables[0] == tables[1] and len(tables[0]) == 1, "one card of both"
    for screen in (read, edited):
        links = [e for e in screen.get("page_link") if "side by side" in e.proto.label]
        charts = screen.get("vega_lite_chart")
        assert len(links) == len(charts) == 1, "on one axis, also while it is edited"
    assert len([e for e in edited.button if "part:Remove:" in (e.key or "")]) == 2


def test_runs_are_offered_by_the_names_and_moments_of_history(lab):
    lab.notebook.label(OTHER, name="Ring of 8")
    page = lab.collections.create("Week 47")
    screen = opened("notebook", collection=page.id, edit="true")
    (offered,) = (each.options for each in screen.multiselect)
    moments = {each.run: when_words(each.submitted_at) for each in lab.history()}
    assert any(text.startswith("Ring of 8") and text.endswith(moments[OTHER]) for text in offered)
    assert not any(run in text for text in offered for run in (RUN, OTHER))


def test_runs_in_one_card_say_what_failed_and_have_the_notes_of_people(lab, data_folder):
    failed = {"status": "error", "error": {"kind": "value_error", "message": "a dim is odd"}}
    rows = {"auto": strategy(1e-5), "pmap": failed, "single": strategy(2e-5, correct=False)}
    store(data_folder, result(rows, run=THIRD))
    lab.notebook.label(THIRD, note="it was full")
    page = lab.collections.add_runs(lab.collections.create("Week 47").id, OTHER, THIRD)
    text = said(opened("notebook", collection=page.id))
    assert "pmap failed" in text and "wrong" in text and "it was full" in text


def test_it_is_edited_in_place(lab):
    page = lab.collections.add_runs(lab.collections.create("Week 47").id, RUN, OTHER)
    screen = opened("notebook", collection=page.id, edit="true")
    screen.button(key=f"part:Down:{page.items[0].id}").click().run()
    assert lab.collections.find(page.id).runs == (OTHER, RUN)
    screen.button(key=f"part:Remove:{page.items[1].id}").click().run()
    assert lab.collections.find(page.id).runs == (RUN,) and not screen.exception


def test_the_first_text_of_a_page_is_written_and_put_above_its_runs(lab):
    page = lab.collections.add_runs(lab.collections.create("Week 47").id, RUN, OTHER)
    screen = opened("notebook", collection=page.id, edit="true")
    assert next(iter(screen.text_area)).label == "Begin with text"
    screen.text_area[0].set_value("what we tried")
    next(each for each in screen.button if each.label == "Add the text").click().run()
    kinds = [each.kind for each in lab.collections.find(page.id).items]
    assert kinds == ["text", "run", "run"] and not screen.exception


def test_a_text_is_stored_as_its_field_is_left_and_undoes_nothing_of_others(lab):
    page = lab.collections.add_text(lab.collections.create("Week 47").id, "as it was")
    (text,) = page.items
    stored = lambda: lab.collections.find(page.id).items[0].text  # noqa: E731
    screen = opened("notebook", collection=page.id, edit="true")
    area = f"rewriting:text:{text.id}"
    screen.button(key=f"part:Write:{text.id}").click().run()
    screen.text_area(key=area).set_value("mine")
    screen.toggle(key="edit").set_value(False).run()  # in one run with the text
    assert stored() == "mine" and not screen.exception
    screen.toggle(key="edit").set_value(True).run()
    lab.collections.rewrite(page.id, text.id, "of others")
    screen.text_area(key=area).set_value("mine again").run()
    assert stored() == "of others" and "of others" in said(screen)
    screen.button(key=f"over:{text.id}").click().run()
    assert stored() == "mine again" and "of others" not in said(screen)


def test_a_link_to_one_that_is_not_stored_offers_its_archive(lab):
    assert "drop it on History" in said(opened("notebook", collection="c-gone"))


def test_a_search_that_a_collection_has_is_not_offered_again(lab, monkeypatch):
    here, there = KeptSearch(search="a", title="8 chips"), KeptSearch(search="b", title="16 chips")
    monkeypatch.setattr(lab.searches, "listed", lambda: (here, there))
    page = lab.collections.add_search(lab.collections.create("Week 47").id, here)
    screen = opened("notebook", collection=page.id, edit="true")
    (offered,) = screen.multiselect
    searches = [each for each in offered.options if " chips:" in each]
    assert [option.split(":")[0] for option in searches] == ["16 chips"]
    offered.set_value([there.id, OTHER])
    next(each for each in screen.button if each.label == "Add them").click().run()
    assert [each.text for each in lab.collections.find(page.id).items] == ["a", "b", OTHER]


def test_a_note_has_bold_and_code_and_no_other_markup(lab):
    lab.notebook.label(RUN, note="try **in** over `y`\n# [no](http://a.b) heading")
    (shown,) = (each.value for each in opened("history", runs=RUN).markdown if "try" in each.value)
    first, second = shown.split("  \n")
    assert first == "try **in** over `y`" and second.startswith("\\# \\[no\\]")


def test_a_run_with_a_name_has_it_on_overview(lab):
    lab.notebook.label(OTHER, name="Ring of 8")
    labels = [link.proto.label for link in opened().get("page_link")]
    assert "Ring of 8" in labels and any("Dense layer" in label for label in labels)


def test_no_cancelled_run_is_among_the_last_on_overview(lab, data_folder):
    store(data_folder, result({"auto": strategy(3e-5)}, run=THIRD), state="cancelled")
    overview = opened()
    runs = [parse_qs(each.proto.query_string).get("run") for each in overview.get("page_link")]
    assert [RUN] in runs or [OTHER] in runs
    assert [THIRD] not in runs
    assert "times of simulated devices" in said(overview)


@pytest.mark.parametrize("sender", [None, "ana"])
def test_a_page_of_more_than_a_file_carries_is_still_printed_and_not_sent(monkeypatch, lab, sender):
    made = []
    monkeypatch.setattr(exports, "download", lambda _, make, *a, **named: made.append(make))
    monkeypatch.setattr("spmd_core.lab.archive.contents.MOST_BYTES", 100)
    exports.run_page(RUN, sender)
    if sender is None:
        assert "</html>" in made[0]() and "spmd-lab-archive" not in made[0]()
    else:
        with pytest.raises(RequestError, match="send the archive itself"):
            made[0]()
