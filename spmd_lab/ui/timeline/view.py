"""The timeline on a screen: stored ones, the component, its table, its download for Perfetto."""

import math
from pathlib import Path

import streamlit as st
from streamlit.components import v2

from spmd_core.pictures import NAME, Timeline, from_text, traces_text
from spmd_core.words import names_of, row_words
from spmd_lab.ui import exports
from spmd_lab.ui.lab import kept, lab
from spmd_lab.ui.tables import sheet
from spmd_lab.ui.timeline.data import Lanes, component_data, table

AT = "at"  # of the query string: the scene that is open, what is picked, and the seconds in sight
_FOLDER = Path(__file__).parent
_SCRIPTS = ("drawing.js", "picked.js", "input.js", "timeline.js")


def _text(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")


_component = v2.component(
    "spmd_timeline",
    html=_text("timeline.html"),
    css=_text("timeline.css"),
    js="\n".join(_text(name) for name in _SCRIPTS),
)


@kept(8)
def of_run(run: str, strategy: str, name: str = NAME) -> Timeline | None:
    """A timeline of a strategy of a run, the predicted one unless named; None where it left none.
    RequestError where another version wrote it.
    """
    text = lab().text(run, strategy, name)
    return None if text is None else from_text(text)


@st.fragment
def show(
    timeline: Timeline,
    name: str,
    title: str,
    at: str = AT,
    picked: str = "",
    lanes: Lanes = (),
    named: tuple[str, ...] = (),
) -> None:
    """Draw a timeline; `name` identifies it, `title` is that of its file, and `at` the part of the
    query string with the place in it that the viewer is at. `picked` is the operation that is
    marked until the viewer picks one; `lanes` and `named` are of `component_data`.
    """
    scene, pick, window = place_of(st.query_params.get(at, ""), timeline)
    key = f"timeline:{name}"
    place = {"at": scene, "pick": pick or picked, "window": window}
    data = {**component_data(timeline, name, lanes, named), **place}
    _component(data=data, key=key, on_place_change=lambda: _keep(key, at))
    with st.container(horizontal=True, vertical_alignment="center"):
        exports.download(
            "Trace for Perfetto",
            lambda: traces_text({title: timeline}, names_of, row_words),
            f"{title}.trace.json",
            "Open it at ui.perfetto.dev or in chrome://tracing",
            key,
        )
    with st.expander("As a table", key=f"{key}:table", on_change="rerun") as fold:
        if fold.open:
            st.dataframe(sheet(table(timeline, scene)), hide_index=True, key=f"{key}:rows:{scene}")


def place_of(text: str, timeline: Timeline) -> tuple[int, str, tuple[float, float] | None]:
    """The scene, the picked operation and the seconds in sight (None: all) that a link names; the
    first scene where there are none such.

    >>> from spmd_core.pictures import TimelineScene
    >>> one = Timeline((TimelineScene("", (), (), 1.0),))
    >>> place_of("7:x", one), place_of("0:x:0.25~0.5", one)
    ((0, '', None), (0, 'x', (0.25, 0.5)))
    """
    number, _, rest = text[:200].partition(":")
    if not number.isascii() or not number.isdigit() or int(number[:6]) >= len(timeline.scenes):
        return 0, "", None
    pick, _, window = rest.partition(":")
    return int(number), pick, _window(window)


def _window(text: str) -> tuple[float, float] | None:
    begin, _, end = text.partition("~")
    try:
        seconds = float(begin), float(end)
    except ValueError:
        return None
    return seconds if all(map(math.isfinite, seconds)) and seconds[0] < seconds[1] else None


def _keep(key: str, at: str) -> None:
    place = str(st.session_state.get(key, {}).get("place") or "")
    if place in ("", "0:"):
        st.query_params.pop(at, None)
    else:
        st.query_params[at] = place
