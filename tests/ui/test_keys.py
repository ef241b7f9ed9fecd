"""No two widgets of different kinds share a key, on whatever screens. Streamlit keeps the value of a
widget that a link is bound to under its key when the screen changes: a button of that key would
read it as a click in every run.
"""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import product

import pytest

from spmd_lab.ui import choices
from spmd_lab.ui.compare.communication import PROGRAMS
from spmd_lab.ui.shell import PAGES
from tests.labs import ROOT

# Elements that have a value only when they are given one of these
_VALUED_BY = {
    "dataframe": "on_select",
    "expander": "on_change",
    "popover": "on_change",
    "tabs": "on_change",
    "vega_lite_chart": "on_select",
}
_WITHOUT_VALUE = ("container",)
# what the names at the beginning of a key stand for
_BEGIN = {
    "screen": tuple(PAGES),
    "key": (PROGRAMS,),  # of the viewer of programs
    "here": (f"{PROGRAMS}:RUN:STRATEGY:KIND",),
    "key in spmd_lab/ui/timeline/view.py": ("timeline:*",),
}
_FORMS = tuple(f"{screen}:0:*" for screen in PAGES)  # of `state.key`
tree_of = cache(ast.parse)  # three tests read every module of the screens
Key = tuple[str, str, str]  # kind of widget, pattern (`*`: any characters), place in the source


def keys(source: str, place: str) -> Iterator[Key]:
    """The keys that a module writes out. Those that it has from `state.key` are `_FORMS`."""
    tree = tree_of(source)
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        kind, given = call.func.attr, {word.arg: word.value for word in call.keywords}
        if kind in _WITHOUT_VALUE or _VALUED_BY.get(kind, "key") not in given:
            continue
        for pattern in _patterns(given.get("key"), constants, place):
            yield kind, pattern, f"{place}:{call.lineno}"


def _patterns(key: ast.expr | None, constants: dict[str, str], place: str) -> Iterator[str]:
    if isinstance(key, ast.Constant):
        yield str(key.value)
    elif isinstance(key, ast.Name) and key.id in constants:
        yield str(constants[key.id])
    elif isinstance(key, ast.Attribute):
        yield str(getattr(choices, key.attr))
    elif isinstance(key, ast.JoinedStr):
        parts = [(part.value,) if isinstance(part, ast.Constant) else ("*",) for part in key.values]
        if isinstance(first := key.values[0], ast.FormattedValue):
            name = ast.unparse(first.value)
            parts[0] = _BEGIN.get(f"{name} in {place}") or _BEGIN[name]
        yield from ("".join(map(str, chosen)) for chosen in product(*parts))


def meet(one: str, other: str) -> bool:
    """Whether some key fits both patterns."""
    if not one or not other:
        return not (one or other).strip("*")
    if one[0] == "*":
        return meet(one[1:], other) or meet(one, other[1:])
    if other[0] == "*":
        return meet(other, one)
    return one[0] == other[0] and meet(one[1:], other[1:])


def shared(found: list[Key]) -> list[str]:
    """Keys that widgets of two kinds have."""
    forms = [("field", pattern, "state.key") for pattern in _FORMS]
    return [
        f"{kind} {key} ({place}) and {other_kind} {other} ({other_place})"
        for number, (kind, key, place) in enumerate(found)
        for other_kind, other, other_place in (*found[:number], *forms)
        if kind != other_kind and meet(key, other)
    ]


def sources() -> dict[str, str]:
    """The text of every module of the screens, by its path."""
    files = [ROOT / "home.py", *(ROOT / "pages").glob("*.py"), *(ROOT / "spmd_lab").rglob("*.py")]
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in sorted(files)}


def test_widgets_of_different_kinds_share_no_key():
    found = [key for place, source in sources().items() for key in keys(source, place)]
    assert not shared(found)


def test_every_button_has_a_key_that_is_compared():
    for place, source in sources().items():
        buttons = [
            call
            for call in ast.walk(tree_of(source))
            if isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in ("button", "download_button")
        ]
        compared = {line for *_, line in keys(source, place)}
        assert {f"{place}:{call.lineno}" for call in buttons} <= compared


@pytest.mark.parametrize(
    ("modules", "collide"),
    [
        (('st.text_input("", key="search")', 'st.button("", key="search")'), True),
        (('st.text_input("", key="search")', 'st.text_input("", key="search")'), False),
        (('st.toggle("", key=f"cancel:{run}")', 'st.button("", key="cancel:mine")'), True),
        (("st.tabs([], key=choices.TAB)", 'st.button("", key="tab")'), False),
        (('st.tabs([], key=choices.TAB, on_change="rerun")', 'st.button("", key="tab")'), True),
        (('st.button("", key=f"{screen}:0:size")',), True),
        (('KEY = "a"', 'KEY = "a"\nst.toggle("", key=KEY); st.button("", key="a")'), True),
        (('st.container(key="row")', 'st.button("", key="row")'), False),
    ],
)
def test_a_shared_key_is_found(modules, collide):
    found = [key for place, source in enumerate(modules) for key in keys(source, str(place))]
    assert bool(shared(found)) is collide
