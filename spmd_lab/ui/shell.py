"""What every screen has in common: configuration, menu, banners, the link to share, and how a
refusal looks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.answers import Figure
from spmd_core.base import LabError, StorageError, agreed
from spmd_core.machine import parse_target
from spmd_core.sheets import Table
from spmd_core.terms import experiment_words
from spmd_core.workloads import files
from spmd_lab.ui import choices, forms, links, state, style
from spmd_lab.ui.entrance import door, version
from spmd_lab.ui.lab import as_viewer, lab, may_act, take_examples
from spmd_lab.ui.markdown import as_sentence, coded, plain
from spmd_lab.ui.tables import escaped

PAGES = {
    "overview": ("home.py", "Overview", ":material/home:"),
    "layout": ("pages/layout.py", "Layout", ":material/grid_view:"),
    "compare": ("pages/compare.py", "Compare", ":material/speed:"),
    "predict": ("pages/predict.py", "Predict", ":material/online_prediction:"),
    "search": ("pages/search.py", "Find a sharding", ":material/travel_explore:"),
    "collectives": ("pages/collectives.py", "Collectives", ":material/network_check:"),
    "recipes": ("pages/recipes.py", "Recipes", ":material/menu_book:"),
    "programs": ("pages/programs.py", "Programs", ":material/deployed_code:"),
    # Add a screen above this line.
    "notebook": ("pages/notebook.py", "Notebook", ":material/import_contacts:"),
    "history": ("pages/history.py", "History", ":material/history:"),
}
# screen -> the question that it answers, which is its title
QUESTIONS = {
    "overview": "What do you want to know?",
    "layout": "Who holds what?",
    "compare": "What runs fastest here, and why?",
    "predict": "Does it fit, and how long does it take?",
    "search": "Which sharding trains fastest?",
    "serving": "Which sharding serves best?",
    "collectives": "How long does a collective take?",
    "recipes": "Where do I begin?",
    "programs": "What is wrong with my step?",
    "notebook": "What did we learn?",
    "history": "What ran, and what came out?",
}
_FIRST = 6  # rows in sight of a table whose others fold away
# group of the menu -> its screens; those of no group are in _YOURS
_GROUPS = {
    "Explore": ("layout", "compare", "collectives"),
    "Plan": ("predict", "search"),
    "Yours": (),
    "Keep": ("history", "notebook"),
    "Learn": ("recipes",),
}
_YOURS = "Yours"
# a link of the menu beside the screen of which it shows another view: its name and its query
_VIEWS = {"search": ("predict", "Serving", {choices.SHOWN: "serving"})}
# an icon by name would be fetched from the network
_ICON = str(Path(__file__).with_name("icon.png"))
# screen -> label of the button for its sidebar
_SIDEBARS = {
    "layout": "Change the array",
    "compare": "Change what runs",
    "predict": "Change the question",
    "search": "Change the question",
    "collectives": "Change what is timed",
    "programs": "Change mesh and specs",
    "notebook": "Pages",
}
_EXPERIMENT_SCREENS = ("layout", "compare", "predict", "collectives", "programs")
# for files of the user's own, when the first screen is drawn; later ones name what takes
# longer
_OWN_WAIT_S = 3.0
_OWN_LOOK_S = 0.5
_OWN_SCREENS = ("overview", "compare")  # where the user's own workloads are looked for


def open_page(screen: str) -> DeltaGenerator:
    """First line of every screen: page configuration, menu, banners, and the address bar's
    experiment taken into the state.

    Returns the place in the menu row for `links.share_box`, which a screen fills last, when it
    knows what it shows.
    """
    _, title, _ = PAGES[screen]
    st.set_page_config(
        page_title=f"{title} · SPMD Lab", page_icon=_ICON, layout="wide", initial_sidebar_state=340
    )
    style.draw(_SIDEBARS.get(screen, ""))
    _require_login()
    share = _menu(screen)
    _address_banner()
    if version.source.has_changed():
        st.warning(version.START_AGAIN, icon=":material/restart_alt:")
    if not may_act():
        st.caption("You may look and estimate here. Running takes more: ask whoever runs this.")
    try:
        take_examples()
    except StorageError as error:
        refusal(str(error))
        st.stop()
    if problem := lab().problem:
        refusal(f"The queue stands still. {problem}")
    if exposed := lab().readable_by_others:
        st.warning(plain(exposed), icon=":material/lock_open:")
    if screen in _OWN_SCREENS:
        late = files.late(_OWN_WAIT_S)
        for sentence in files.problems(0.0):
            st.warning(plain(sentence), icon=":material/extension_off:")
        if late:
            _until_loaded(late)
    choices.unread(screen)
    if screen in _EXPERIMENT_SCREENS:
        links.from_query(screen)
        _link_notice(screen)
    return share


def _menu(here: str) -> DeltaGenerator:
    row = partial(st.container, horizontal=True, vertical_alignment="bottom", gap="small")
    with row(key="menu"):
        st.markdown("**SPMD Lab**", width="content")
        with row(key="screens"):
            _menu_links(here, "menu")
        shown = (st.query_params.get(choices.SHOWN), here)
        views = (
            label for to, label, query in _VIEWS.values() if (query[choices.SHOWN], to) == shown
        )
        name = next(views, PAGES[here][1])
        with st.popover(name, icon=":material/menu:", key=f"screens-of-{here}"):
            _menu_links(here, "list")
        if door.is_login_set_up():
            _log_out()
        return st.container(width="content")


def _menu_links(here: str, place: str) -> None:
    """Draws the links of the menu: in the row (`menu`), and where that has no room, in a `list`."""
    _menu_link("overview", here, "Overview", {}, place)
    grouped = {"overview", *(each for group in _GROUPS.values() for each in group)}
    for group, screens in _GROUPS.items():
        rest = tuple(PAGES.keys() - grouped) if group == _YOURS else ()
        _menu_group(group, (*screens, *sorted(rest)), here, place)


def _menu_group(group: str, screens: Iterable[str], here: str, place: str) -> None:
    with st.container(key=f"{place}-{group}", gap=None, width="content"):
        st.caption(group)
        with st.container(horizontal=True, gap=None, width="content"):
            for screen in screens:
                _menu_link(screen, here, PAGES[screen][1], {}, place)
                if screen in _VIEWS:
                    other, label, query = _VIEWS[screen]
                    _menu_link(other, here, label, query, place)


def _menu_link(screen: str, here: str, label: str, query: Mapping[str, str], place: str) -> None:
    """Draws a link to a screen, marked by Streamlit where that is `here`; not where another of its
    views is.
    """
    script, _, icon = PAGES[screen]
    shown = st.query_params.get(choices.SHOWN) if screen == "predict" else None
    if query and shown != state.aside(screen, choices.SHOWN):
        # a link from a screen to itself: the browser takes up the query, but does not show it
        state.set_aside(screen, choices.SHOWN, shown)
        st.query_params.update({choices.SHOWN: shown} if shown else {})
    is_other = (shown == "serving") != bool(query) and screen == "predict"
    mark = "other" if is_other else "here"
    marked = st.container(key=f"{place}-{mark}-{label}", width="content")
    with marked if screen == here else nullcontext():
        st.page_link(script, label=label, icon=icon, width="content", query_params=query or None)


@st.fragment(run_every=_OWN_LOOK_S)
def _until_loaded(late: tuple[str, ...]) -> None:
    if files.late(0.0) != late:
        st.rerun()
    verb = agreed(len(late), "is")
    st.info(
        plain(f"{', '.join(late)} {verb} being loaded: the workloads show here when that is done."),
        icon=":material/hourglass_top:",
    )


def refusal(sentence: str) -> None:
    """One sentence: what cannot be done, why, and what to do."""
    st.error(coded(sentence), icon=":material/error:")


def refused(
    screen: str,
    sentence: str,
    has_answer: bool = True,
    offer: Callable[[str], object] | None = None,
) -> None:
    """Why a screen's fields have no answer, and what `offer` draws for the screen. What is drawn below
    it, if it has one, is gray: it answers others.
    """
    forms.reveal(screen, sentence)
    refusal(sentence)
    if offer is not None:
        offer(screen)
    if not has_answer:
        return
    with st.container(key="refused"):
        st.caption("What you see below is of the last fields that were valid.")


def failure(sentence: str, message: str) -> None:
    """What failed, and below it in full what was reported."""
    refusal(sentence)
    reported(message)


def reported(message: str) -> None:
    """What a run or a program reported, in full and not in our voice: others may have written it."""
    st.caption("Reported, word for word:")
    st.code(message, language=None, wrap_lines=True)


def attempt(action: Callable[..., object], *arguments: object) -> str | None:
    """Do something that may be refused: the sentence of the refusal, or None."""
    try:
        action(*arguments)
    except LabError as error:
        return str(error)
    return None


def done(action: Callable[..., object], *arguments: object) -> bool:
    """Do something that may be refused, and show the refusal in place; whether it was done."""
    sentence = attempt(action, *arguments)
    if sentence is not None:
        refusal(sentence)
    return sentence is None


def query_devices(target: str) -> None:
    """Query a target's devices; a refusal is shown in place."""
    done(as_viewer, lab().probe, target)


def offer_nearest(screen: str, notice: state.Notice, opening: str = "") -> None:
    """Show why something cannot be had here, and offer the nearest experiment that can."""
    refusal(opening + as_sentence(notice.sentence) if opening else notice.sentence)
    if notice.nearest is not None:
        left, right = st.columns([2, 5], vertical_alignment="center")
        right.markdown(f"Nearest: {plain(experiment_words(notice.nearest))}")
        if left.button(
            "Use the nearest experiment",
            key=f"{screen}:nearest:{opening}",
            icon=":material/near_me:",
        ):
            state.replace(screen, notice.nearest)
            state.set_notice(screen, None)
            st.rerun()


def _link_notice(screen: str) -> None:
    if notice := state.notice(screen):
        offer_nearest(screen, notice, "This link cannot be opened as it is. ")
        if notice.elsewhere is not None:
            place, query = links.elsewhere(notice.elsewhere)
            script, title, icon = PAGES[place]
            st.page_link(script, label=f"**Open it on {title}**", icon=icon, query_params=query)


def _address_banner() -> None:
    """Anyone who can reach an unprotected address can run programs on these devices: a warning."""
    address = st.get_option("server.address") or ""
    if address in door.LOOPBACK or not door.is_exposed():
        return
    st.warning(
        f"This dashboard answers on {plain(address or 'every address of this machine')} without a login: whoever can reach it "
        f"{'can use these devices' if may_act() else 'sees all runs'}. Bind it to 127.0.0.1 and use ssh -L, or set up a login, as docs/security.md says.",
        icon=":material/lock_open:",
    )


def _require_login() -> None:
    entry = door.entry()
    if entry.may_enter:
        return
    refusal(entry.closed or entry.turned_away or door.FIRST)
    if not entry.closed:
        _log_out()
    st.stop()


def _log_out() -> None:
    st.button(
        "Log out", on_click=st.logout, icon=":material/logout:", key="logout", type="tertiary"
    )


def draw_table(
    table: Table | pd.DataFrame | Mapping[str, Sequence[str]],
    place: DeltaGenerator | None = None,
    named: Callable[[str], str] | None = None,
) -> None:
    """Draw a table without an index, on the page or at `place`; `named` writes its first column."""
    (place or st).table(escaped(table, named), hide_index=True, border="horizontal")


def draw_first(table: Table, key: str) -> None:
    """Draws the first rows of a table, the others folded away where they are several."""
    first = len(table.rows) if len(table.rows) <= _FIRST + 1 else _FIRST
    if table.rows:
        draw_table(replace(table, rows=table.rows[:first]))
    if more := len(table.rows) - first:
        with st.expander(f"{more} more", key=key):
            draw_table(replace(table, rows=table.rows[first:]))


def draw_figure(value: str, words: str, marker: str = "", color: str = "inherit") -> None:
    """Draws the lead figure of a card, with what it is of after the marker of that row."""
    marked = f'<b style="color: {color}">{escape(marker)}</b> ' if marker else ""
    st.html(f'<div class="figure">{escape(value)} <small>{marked}{escape(words)}</small></div>')


def draw_figures(figures: Iterable[Figure], beside: Iterable[Figure] = ()) -> None:
    """Draws figures side by side, the first of them large; all of them where a line below has what
    they are of, `beside`.
    """
    large, small = (
        "".join(
            f'<div><span>{escape(each.title)}</span><b class="figure">{escape(each.value)}</b>'
            f"<small>{escape(each.more)}</small>{_gauge(each)}</div>"
            for each in row
        )
        for row in (figures, beside)
    )
    if not large:
        return
    st.html(f'<div class="five">{large}</div><div class="beside">{small}</div>')


def _gauge(figure: Figure) -> str:
    width = f'<i style="width: {min(figure.filled, 1):.1%}"></i>'
    doubt = {"may not fit": " unsure", "does not fit": " over"}.get(figure.fit, "")
    return f'<i class="gauge{doubt}">{width}</i>' if figure.filled else ""


def screen_title(screen: str) -> str:
    """Returns what a screen is called."""
    return PAGES[screen][1]


def not_placed_words(target: str, sentence: str) -> str:
    """Why the array of the picture is not put on devices here; `sentence`: why those that are here
    cannot hold it.
    """
    if parse_target(target).is_absent:
        return (
            f"{target} is not attached: this is where JAX places the shards there, and "
            "nothing is placed here."
        )
    return f"It cannot be placed here: {sentence}"
