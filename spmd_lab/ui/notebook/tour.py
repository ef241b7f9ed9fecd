"""The tour: a few clicks over results that came with the program; nothing runs for it."""

from collections.abc import Sequence

import streamlit as st

from spmd_lab.ui import cards, state
from spmd_lab.ui.choices import TAB, turn
from spmd_lab.ui.lab import Stop, find, stops
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import PAGES

_ICON = ":material/tour:"
_TOUR, _HIDDEN = "tour", ("tour", "hidden")
_STOP = "tour", "stop"  # that is shown, or was last
_AFTER = -2  # beside no stop: the tour was left
_TAKE = "Take the tour"
_ICONS = {"Back": ":material/arrow_back:", "Next": ":material/arrow_forward:"}


def begin() -> bool:
    """Draws the first click, and how many there are; returns False once the tour is over."""
    if not (shown := _offered()):
        state.set_aside(*_STOP, _AFTER)
        return False
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        with st.container(key="main-link-tour", width="content"):
            _link(0, _TAKE)
        _hide()
    st.caption(plain(f"{len(shown)} clicks through stored results."))
    return True


def again() -> None:
    """Draws the first click beside what else there is to begin with, also after the tour is over."""
    if stored():
        state.set_aside(*_HIDDEN, False)
        with st.container(key="next", width="content"):
            _link(0, _TAKE)


def _hide() -> None:
    st.button(
        "Hide",
        key="tour:dismiss",
        type="tertiary",
        help="Hide the tour. Recipes goes on offering it.",
        on_click=_hidden,
    )


def _hidden() -> None:
    end(_TOUR)
    state.set_aside(*_HIDDEN, True)


def _offered() -> Sequence[Stop]:
    return () if is_over(_TOUR) else stored()


def is_over(offer: str) -> bool:
    """Returns True if this viewer ended the tour or another offer, in an earlier session, too."""
    cookie = f"spmd_lab_{offer}"
    if not state.aside(offer, "over"):
        return st.context.cookies.get(cookie) == "over"
    kept = f'document.cookie = "{cookie}=over; path=/; max-age=31536000; samesite=lax"'
    st.html(f"<script>{kept}</script>", unsafe_allow_javascript=True)
    return True


def end(offer: str) -> None:
    """Make the tour or another offer to this viewer no more."""
    state.set_aside(offer, "over", True)


def at(runs: Sequence[str]) -> int | None:
    """Returns the index of the stop of the tour that shows these runs; None where none does."""
    return next((at for at, stop in enumerate(stops()) if set(stop.runs) == set(runs)), None)


def guide(*runs: str) -> bool:
    """Where what is shown is a stop of the tour, what to look at, and the next click and the one
    before; whether it is.
    """
    every, place = stops(), at(runs)
    if place is None or not stored() or state.aside(*_HIDDEN) or _is_left(place):
        return False
    _open_tab(place)
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="tour"):
        st.markdown(
            f"{_ICON} **{plain(f'Tour, {place + 1} of {len(every)}:')}** {plain(every[place].look)}",
            width="stretch",
        )
        if place:
            with st.container(key="tour-back", width="content"):
                _link(place - 1, "Back")
        if place + 1 < len(every):
            _link(place + 1, f"Next: {every[place + 1].title}")
        else:
            end(_TOUR)
            is_over(_TOUR)
            _finish()
        _hide()
    return True


def _is_left(place: int) -> bool:
    """Returns True if the tour is over and a stop is neither its first nor beside the last one shown:
    the screen still has its fields, and the viewer goes on with them.
    """
    last = state.aside(*_STOP)
    return bool(place and state.aside(_TOUR, "over") and last is not None and abs(place - last) > 1)


def _open_tab(place: int) -> None:
    """Open the tab that a stop is about, once; a link that names another has it."""
    before, tab = state.aside(*_STOP), stops()[place].tab
    state.set_aside(*_STOP, place)
    if tab and place != before and not (before is None and TAB in st.query_params):
        turn(TAB, tab)


def _finish() -> None:
    """Draws links to the questions of Overview, and to a step of the viewer's own, the main one."""
    with st.container(key="tour-back-finish", width="content"):
        label = "Finish: what do you want to know?"
        st.page_link(PAGES["overview"][0], label=f"**{plain(label)}**", width="content")
    label, icon = "Next: a step of your own", _ICONS["Next"]
    st.page_link(PAGES["programs"][0], label=f"**{plain(label)}**", icon=icon, width="content")


def stored(part: str = "tour") -> tuple[Stop, ...]:
    """The stops, or the sections of the example `page`, where the results of all are stored here."""
    every = stops(part)
    return every if all(find(run) for stop in every for run in stop.runs) else ()


def _link(at: int, label: str) -> None:
    stop = stops()[at]
    status = find(stop.runs[0])
    if status is None:
        return
    alone = len(stop.runs) == 1
    query = cards.query(status.experiment, status.run)
    st.page_link(
        cards.page_of(status.experiment) if alone else "pages/history.py",
        label=f"**{plain(label)}**",
        icon=_ICONS.get(label.partition(":")[0]),
        query_params=query if alone else {"runs": ",".join(stop.runs)},
        width="content",
    )
