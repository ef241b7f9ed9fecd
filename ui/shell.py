"""What every screen has in common: configuration, menu, banners, the link to share, and how a
refusal looks.
"""

from collections.abc import Callable
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.base import LabError, StorageError
from spmd_core.experiment import Experiment, files
from spmd_core.words import experiment_words
from ui import heap, links, state, style
from ui.lab import lab
from ui.markdown import as_sentence, plain

PAGES = {
    "overview": ("home.py", "Overview", ":material/home:"),
    "layout": ("pages/layout.py", "Layout", ":material/grid_view:"),
    "compare": ("pages/compare.py", "Compare", ":material/speed:"),
    "predict": ("pages/predict.py", "Predict", ":material/online_prediction:"),
    "search": ("pages/search.py", "Search", ":material/travel_explore:"),
    "collectives": ("pages/collectives.py", "Collectives", ":material/network_check:"),
    "recipes": ("pages/recipes.py", "Recipes", ":material/menu_book:"),
    # Add a screen above this line.
    "history": ("pages/history.py", "History", ":material/history:"),
}
# an icon by name would be fetched from the network
_ICON = str(Path(__file__).with_name("icon.png"))
_EXPERIMENT_SCREENS = ("layout", "compare", "predict", "collectives")
# for files of the user's own, when the first screen is drawn; later ones are told of what takes
# longer
_OWN_WAIT_S = 3.0
_OWN_SCREENS = ("overview", "compare")  # where the user's own workloads are looked for
_LOOPBACK = ("127.0.0.1", "localhost", "::1", "")


def open_page(screen: str) -> DeltaGenerator:
    """First line of every screen: page configuration, menu, banners, and the address bar's
    experiment taken into the state.

    Returns the place in the menu row for `links.share_box`, which a screen fills last, when it
    knows what it shows.
    """
    heap.leave_imports_out()
    _, title, _ = PAGES[screen]
    st.set_page_config(
        page_title=f"{title} · SPMD Lab", page_icon=_ICON, layout="wide", initial_sidebar_state=340
    )
    style.draw()
    _require_login()
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="menu"):
        st.markdown("**SPMD Lab**", width="content")
        for script, label, icon in PAGES.values():
            st.page_link(script, label=label, icon=icon)
        st.space("stretch")
        share = st.container(width="content")
    _address_banner()
    try:
        lab()
    except StorageError as error:
        refusal(str(error))
        st.stop()
    if problem := lab().problem:
        refusal(f"The queue stands still. {problem}")
    for sentence in files.problems(_OWN_WAIT_S) if screen in _OWN_SCREENS else ():
        st.warning(plain(sentence), icon=":material/extension_off:")
    if screen in _EXPERIMENT_SCREENS:
        links.from_query(screen)
        _link_notice(screen)
    return share


def refusal(sentence: str) -> None:
    """One sentence that says what cannot be done, why, and what to do."""
    st.error(plain(sentence), icon=":material/error:")


def attempt(action: Callable[..., object], *arguments: object) -> str | None:
    """Do something that may be refused: the sentence of the refusal, or None."""
    try:
        action(*arguments)
    except LabError as error:
        return str(error)
    return None


def offer_nearest(screen: str, notice: state.Notice, opening: str = "") -> None:
    """Say why something cannot be had here, and offer the nearest experiment that can."""
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


def _offer_elsewhere(experiment: Experiment) -> None:
    """A link to the screen that shows an experiment which this one does not."""
    screen, query = links.elsewhere(experiment)
    script, title, icon = PAGES[screen]
    st.page_link(script, label=f"**Open it on {title}**", icon=icon, query_params=query)


def _link_notice(screen: str) -> None:
    if notice := state.notice(screen):
        offer_nearest(screen, notice, "This link cannot be opened as it is. ")
        if notice.elsewhere is not None:
            _offer_elsewhere(notice.elsewhere)


def _address_banner() -> None:
    """Anyone who can reach an unprotected address can run programs on these devices: say so."""
    address = st.get_option("server.address") or ""
    if st.get_option("server.address") in _LOOPBACK[:3] or "auth" in _secrets():
        return
    st.warning(
        f"This dashboard answers on {plain(address or 'every address of this machine')} without a login: whoever can reach it can use "
        "these devices. Bind it to 127.0.0.1 and use ssh -L, or set up a login, as docs/security.md says.",
        icon=":material/lock_open:",
    )


def _require_login() -> None:
    """Where a login is set up ([auth] in secrets.toml), nothing is shown before it."""
    if "auth" in _secrets() and not getattr(st.user, "is_logged_in", False):
        st.button("Log in", on_click=st.login, icon=":material/login:", key="login")
        st.stop()


def _secrets() -> set[str]:
    """Sections of secrets.toml; none where there is no such file."""
    return set(st.secrets) if st.secrets.load_if_toml_exists() else set()
