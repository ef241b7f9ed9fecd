"""Parameters of links: each screen tells of one that it does not read, or cannot."""

import ast

import pytest
from streamlit.testing.v1 import AppTest

from spmd_core.base import RequestError, parsed
from spmd_lab.ui import choices
from spmd_lab.ui.choices import number
from tests.cover import cover
from tests.layers import ROOT
from tests.ui import opened, said

PAGES = {name: None if name == "overview" else name for name in choices.READ if name != "serving"}


@pytest.mark.parametrize(
    ("page", "value"), cover(PAGES.values(), ["1", "<script>alert(1)</script>", "x" * 5000])
)
def test_every_screen_names_a_parameter_that_it_does_not_read(data_folder, page, value):
    assert "'no_such_thing' in the link is not read on this screen" in said(
        opened(page, no_such_thing=value)
    )


@pytest.mark.parametrize("screen", PAGES)
def test_every_screen_refuses_each_value_that_it_cannot_read(data_folder, screen):
    strict = sorted({*choices._PATTERNS, *choices.MOST, "price"} & {*choices.READ[screen]})
    for at in range(0, len(strict), choices._SENTENCES):
        names = strict[at : at + choices._SENTENCES]
        words = said(opened(PAGES[screen], **dict.fromkeys(names, "-<b>inf")))
        for name in names:
            assert f"{name}='-<b>inf' in the link cannot be read: use" in words


def keys_of_links(path):
    """Yields the key of each widget that a link fills: of `bind=` and of `choices.one_of`."""
    for call in ast.walk(parsed(path.read_text("utf-8"))):
        if not isinstance(call, ast.Call):
            continue
        words = {each.arg: each.value for each in call.keywords}
        key = words.get("key") if "bind" in words else None
        if isinstance(call.func, ast.Attribute) and call.func.attr == "one_of":
            key = call.args[2]
        if isinstance(key, ast.Constant):
            yield key.value
        elif isinstance(key, ast.Attribute):
            yield getattr(choices, key.attr)


def test_every_widget_that_a_link_fills_is_of_a_parameter_that_its_screen_reads():
    known = {name for names in choices.READ.values() for name in names}
    modules = [
        each for folder in ("spmd_lab/ui", "pages") for each in (ROOT / folder).rglob("*.py")
    ]
    bound = [key for path in modules for key in keys_of_links(path)]
    assert {"bytes", "kind", "view", "form"} <= set(bound) <= known
    here = ROOT / "spmd_lab/ui/collectives/bandwidths.py"
    assert set(keys_of_links(here)) <= set(choices.READ["collectives"])


@pytest.mark.parametrize(("screen", "name"), [("compare", "tab"), ("predict", "strategy")])
def test_a_choice_of_an_answer_that_is_not_there_is_told(data_folder, screen, name):
    told = said(opened(screen, **{name: "foo"}))
    assert f"{name}='foo' in the link is of an answer, and there is none here" in told


def test_a_value_that_is_there_twice_or_endless_is_told(data_folder):
    assert "tab in the link is there 2 times" in said(opened("compare", tab=["Why", "Fastest"]))
    assert "is too long: use at most 2,000" in said(opened("compare", tab="x" * 9000))


def test_a_price_that_is_none_is_told_where_a_model_is_served(data_folder):
    told = said(opened("predict", show="serving", price="v6e=inf"))
    assert "price='v6e=inf' in the link cannot be read: use 4.20 or v5p=4.20" in told


def test_a_parameter_of_another_view_is_told_with_the_nearest_that_is_read(data_folder):
    done = said(opened("compare", done="x"))  # of Programs: no name of this screen is meant
    assert "'done' in the link is not read on this screen: leave it out" in done
    assert "'exprement' in the link is not read on this screen: use experiment" in said(
        opened("programs", exprement="x")
    )


def _texts() -> None:
    from spmd_lab.ui import choices as under_test
    from spmd_lab.ui.ir.words import TEXTS

    under_test.one_of("Text", list(TEXTS), "text", TEXTS.__getitem__)


@pytest.mark.parametrize("value", ["hlo", "Compiled HLO"])
def test_a_choice_is_named_as_it_is_shown_or_as_the_commands_name_it(value):
    screen = AppTest.from_function(_texts)
    screen.query_params["text"] = value
    assert "in the link" not in said(screen.run()) and screen.session_state["text"] == "hlo"


def test_a_choice_that_is_not_offered_is_told_with_those_that_are():
    screen = AppTest.from_function(_texts)
    screen.query_params["text"] = "ptx"
    assert (
        "text='ptx' in the link is not offered here: choose Program, jaxpr, StableHLO, Compiled HLO"
    ) in said(screen.run())


@pytest.mark.parametrize("text", ["", "-1", "0", "inf", "nan", "1e99", "<script>", "1;2"])
def test_a_hostile_number_of_a_link_is_refused(text):
    with pytest.raises(RequestError, match="measured="):
        number("measured", text)
