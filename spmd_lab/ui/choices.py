"""Parameters of a link: which ones a screen reads, choices and numbers among them, and the sentence
on one that cannot be read.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.errors import StreamlitAPIException

from spmd_core.base import RequestError, refuse, shorten
from spmd_core.runs import COLLECTION_ID
from spmd_core.search import SERVING_FORM
from spmd_core.terms import read_prices_by_kind
from spmd_lab.ui import state
from spmd_lab.ui.entrance import cookies
from spmd_lab.ui.markdown import plain

TAB, STRATEGY, TEXT, VIEW = "tab", "strategy", "text", "view"  # in the query string
SHOWN = "show"  # one of a screen's views, such as the sweep
ARROWS = "arrows"  # whose bytes the mesh with arrows shows
ONCE = "once"  # each of them as often as it runs, or one execution
RANKED = "by"  # the strategy by which a study ranks its variants
TO = "to"  # the spec that Layout reshards to
KIND = "kind"  # the collective that is shown
SIZE = "bytes"  # its bytes per device
ELEMENT = "element"  # of the array on Layout, whose devices are named
BASELINE = "baseline"  # the run that those side by side are compared with
DETAIL = "detail"  # the table of a run that is open
BESIDE = "beside"  # what a sweep is compared with
DONE = "done"  # arguments of a program that its author donates by now
PANEL = "panel"  # that is open on Programs
NAMES = r"[\w./\[\]' -]{1,80}(,[\w./\[\]' -]{1,80}){0,15}"
_ESCAPED = re.compile(r"(?<=\w)\\([-_.])(?=\w)")  # in labels of older links
RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
MOST = {"measured": 1e6, "tokens": 1e7, "days": 36_500.0, "dollars": 1e12}  # of a number
_EXPERIMENT = ("experiment", "run")
_PROGRAM = (TAB, STRATEGY, TEXT, VIEW, ARROWS, ONCE, "at")
# screen -> what it reads of an address; Predict while it serves has a row of its own
READ = {
    "overview": (),
    "layout": (*_EXPERIMENT, TO, ELEMENT),
    "compare": (*_EXPERIMENT, *_PROGRAM, RANKED, DETAIL, "price"),
    "predict": (
        *_EXPERIMENT,
        *_PROGRAM,
        *(SHOWN, "sweep", "scaling", "meshes", "with", "price"),
        *MOST,
    ),
    "serving": (*_EXPERIMENT, SHOWN, "sweep", *SERVING_FORM),
    "search": ("search", "candidate"),
    "collectives": (*_EXPERIMENT, KIND, SIZE, VIEW, TAB, BESIDE),
    "recipes": ("search",),
    "programs": (*_EXPERIMENT, *_PROGRAM, DETAIL, DONE, PANEL),
    "notebook": ("collection", "edit"),
    "history": (
        *("search", "workload", "state", "searched", "runs", "searches", "open"),
        *("baseline", "columns", "form", "price", VIEW),
    ),
}
EXAMPLE_PAGE = "example"  # in the address of the notebook: no collection has this id
# of those that have no reader of their own: values that can be read, and what to use
_PATTERNS = {
    ARROWS: (r"all|\d{1,6}", "all, or the number of a collective"),
    "at": (r"\d{1,6}:.*", "what Share writes"),
    "candidate": (r"\d{1,6}", "the number of a candidate"),
    **dict.fromkeys((ONCE, "edit", "searched"), ("true|false", "true or false")),
    SHOWN: ("step|sweep|serving", "step, sweep or serving"),
    DONE: (NAMES, "names of arguments, joined by commas"),
    PANEL: ("search", "search"),
    "scaling": ("weak|strong", "weak or strong"),
    "meshes": ("kept|best", "kept or best"),
    **dict.fromkeys(("with", "baseline", "open", BESIDE), (RUN_ID.pattern, "the id of a run")),
    "collection": (rf"{COLLECTION_ID.pattern}|{EXAMPLE_PAGE}", "the id of a collection"),
}
_LONGEST = 2000  # characters of a value
_UNBOUNDED = ("experiment", "search", "runs", "searches")  # they have refusals of their own
UNBOUND = (ARROWS, "with")  # choices of an answer that no widget is bound to
_SENTENCES, _NAMED = 3, 8  # at once: sentences, and options in a sentence


def unread(screen: str) -> None:
    """Draws a sentence on each parameter of the address that a screen does not read."""
    if st.query_params.get(SHOWN) == "serving" and screen == "predict":
        screen = "serving"
    for name in [each for each in st.query_params if each != cookies.PARAMETER][:_SENTENCES]:
        try:
            _check(screen, name, st.query_params.get_all(name))
        except RequestError as error:
            _draw(error)


def undrawn(screen: str) -> None:
    """Draws a sentence on each choice of an answer in the address where there is no answer."""
    for name in {TAB, STRATEGY, TEXT, VIEW, RANKED, DETAIL, ONCE, *UNBOUND} & {*READ[screen]}:
        if (text := st.query_params.get(name)) and name not in st.session_state:
            value = f"{name}={shorten(text, 40)} in the link"
            _draw(refuse(value, "is of an answer, and there is none here", "run it first"))


def _check(screen: str, name: str, values: Sequence[str]) -> None:
    known, text = READ[screen], values[-1] if values else ""
    if name not in known and not ("at" in known and name.startswith("at_")):
        is_of_another = any(name in each for each in READ.values())
        near = [] if is_of_another else get_close_matches(name, known, 1)
        fix = f"use {near[0]}" if near else "leave it out, or copy all of the link"
        raise refuse(f"{shorten(name, 40)} in the link", "is not read on this screen", fix)
    if len(values) > 1 and name != "columns":
        raise refuse(f"{name} in the link", f"is there {len(values)} times", "copy the link again")
    _check_value(name, text)


def _check_value(name: str, text: str) -> None:
    if len(text) > _LONGEST and name not in _UNBOUNDED:
        fix = f"use at most {_LONGEST:,} characters"
        raise refuse(f"{name}={shorten(text, 40)} in the link", "is too long", fix)
    pattern, fix = _PATTERNS.get(name.partition("_")[0], (".*", ""))
    if text and not re.fullmatch(pattern, text, re.DOTALL):
        raise refuse(f"{name}={shorten(text, 40)} in the link", "cannot be read", f"use {fix}")
    if text and name in MOST:
        number(name, text)
    if name == "price":
        try:
            read_prices_by_kind(text)
        except RequestError as error:
            value = f"price={shorten(text, 40)} in the link"
            raise refuse(value, "cannot be read", "use 4.20 or v5p=4.20") from error


def _draw(error: RequestError) -> None:
    st.info(plain(str(error)), icon=":material/link_off:")


def number(name: str, text: str) -> float:
    """Returns a number of a link; RequestError for anything else.

    >>> number("days", "0.25")
    0.25
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= MOST[name]:
        fix = f"use a number above 0, at most {MOST[name]:,.0f}"
        raise refuse(f"{name}={shorten(text, 40)} in the link", "cannot be read", fix)
    return value


def offered(key: str, options: Iterable[str]) -> None:
    """Draws a sentence where the link names what is not among the options of a choice."""
    wanted, known = st.query_params.get(key, ""), list(dict.fromkeys(options))
    if wanted and wanted not in known and st.session_state.get(key) not in known:
        names = ", ".join(known[:_NAMED]) + (" …" if len(known) > _NAMED else "")
        value = f"{key}={shorten(wanted, 40)} in the link"
        _draw(refuse(value, "is not offered here", f"choose {names}"))


def now(key: str) -> str:
    """Returns what a choice that is drawn further down is at, by a click or else by a link."""
    return str(st.session_state.get(key) or st.query_params.get(key, ""))


def collective(count: int) -> int:
    """Returns the place of the selected collective of so many, 0 where none of them is named."""
    number = now(ARROWS)
    return int(number) - 1 if number.isdecimal() and 0 < int(number) <= count else 0


def rename_tab(old: Mapping[str, str]) -> None:
    """Open the tab that has now what the tab of a link had, by its name of before."""
    if (name := st.query_params.get(TAB, "")) in old:
        turn(TAB, old[name])


def turn(key: str, value: str) -> None:
    """Set a choice before it is drawn. Streamlit writes the address itself, and refuses to have it
    written, once the choice was drawn in a session.
    """
    st.session_state[key] = value
    with suppress(StreamlitAPIException):
        st.query_params[key] = value


def forget(key: str) -> None:
    """Leave a choice at its default, before it is drawn."""
    st.session_state.pop(key, None)
    with suppress(StreamlitAPIException):
        st.query_params.pop(key, None)


def open_detail(names: Iterable[str]) -> None:
    """Open the table of details that a link names as a tab, which it was."""
    if (name := st.query_params.get(TAB, "")) in names:
        turn(DETAIL, name)


def opened_tab(names: Sequence[str], default: str | None = None) -> tuple[str, DeltaGenerator]:
    """Tabs, and the one that is open: only its content is made."""
    offered(TAB, names)
    tabs = st.tabs(list(names), default=default, key=TAB, on_change="rerun", bind="query-params")
    opened = [(name, tab) for name, tab in zip(names, tabs, strict=True) if tab.open]
    return opened[0] if opened else (names[0], tabs[0])


def one_of(
    label: str,
    options: Sequence[str],
    key: str,
    words: Callable[[str], str] = str,
    list_px: int = 0,
    first: str = "",
    is_named: bool = False,
) -> str:
    """One of the options, side by side or in a list that is so wide; the first, until a click names another of them,
    or a link, by the label that is shown or by the name that the commands have. `first`: which one
    that is, in a list that takes what is typed; `is_named`: with the label above.
    """
    if (old := st.query_params.get(key, "")) != (named := _ESCAPED.sub(r"\1", old)):
        with suppress(StreamlitAPIException):
            st.query_params[key] = named
    offered(key, [*(shown(words(each)) for shown in (plain, str) for each in options), *options])
    if st.session_state.get(key) not in options:
        wanted = st.query_params.get(key)
        st.session_state[key] = wanted if wanted in options else first or options[0]
    typed = partial(st.selectbox, accept_new_options=bool(first))
    draw: Any = typed if list_px else partial(st.segmented_control, required=True)
    chosen = draw(
        label,
        list(options),
        # the options of a list are no Markdown
        format_func=words if list_px else lambda each: plain(words(each)),
        key=key,
        bind="query-params",
        label_visibility="visible" if is_named else "collapsed",
        width=list_px or "content",
    )
    return str(chosen) if chosen in options else first or options[0]


@dataclass(frozen=True, slots=True)
class Linked:
    """A text of a screen that links carry by a `name`, unless it is what the screen has `first`."""

    screen: str
    name: str
    first: str = ""

    def now(self) -> str:
        """Returns the text."""
        return state.aside(self.screen, self.name) or self.first

    def number(self) -> float | None:
        """Returns the text as a number; None where none was given."""
        return float(self.now()) if self.now() else None

    def from_query(self) -> bool:
        """Takes the text of a link that was just opened, once; True if there was one."""
        text, read = st.query_params.get(self.name, ""), f"{self.name}.read"
        if not text or text == state.aside(self.screen, read):
            return False
        state.set_aside(self.screen, read, text)
        state.set_aside(self.screen, self.name, "")
        with suppress(RequestError):  # `unread` draws its sentence
            _check_value(self.name, text)
            state.set_aside(self.screen, self.name, text)
        return True

    def keep(self, text: str) -> str:
        """Remembers a text, and writes it to the address bar; returns it."""
        state.set_aside(self.screen, self.name, text)
        state.set_aside(self.screen, f"{self.name}.read", text)
        if not text or text == self.first:
            st.query_params.pop(self.name, None)
        elif st.query_params.get(self.name) != text:
            st.query_params[self.name] = text
        return text
