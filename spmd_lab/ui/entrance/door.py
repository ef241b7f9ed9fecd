"""Whether the dashboard is open, and to this visitor. Every look is fresh: secrets may change."""

import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec

import streamlit as st
from starlette.requests import HTTPConnection
from starlette.types import Scope
from streamlit.errors import StreamlitSecretNotFoundError
from streamlit.runtime.secrets import Secrets as SecretsReader, secrets_singleton

from spmd_core.base import (
    LabError,
    MovedFolder,
    RequestError,
    StorageError,
    default_data_folder,
    held_folder,
    login,
    read_settings,
)
from spmd_lab.ui.entrance import cookies

# of Streamlit's reader: it does not parse, cannot be opened, is no text, is nested too deep
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# A screen is hundreds of messages: a look at the files for each took a quarter of a rerun's time.
LOOK_S = 0.25
FIRST = "Log in first: load the page again."
_entered = threading.local()  # when this thread's visitor was last let in
_UNREADABLE = (StreamlitSecretNotFoundError, OSError, ValueError, RecursionError)


@dataclass(frozen=True, slots=True)
class Entry:
    """How a visitor stands: `closed` and `turned_away` are sentences; `providers` are the logins to
    choose from, where one is still to be made.
    """

    closed: str | None = None
    turned_away: str | None = None
    providers: tuple[str, ...] = ()

    @property
    def may_enter(self) -> bool:
        """Whether screens may be shown."""
        return not (self.closed or self.turned_away or self.providers)


def entry() -> Entry:
    """How the visitor of this session stands; nothing is shown of a data folder that was moved."""
    visitor = _visitor()
    try:
        if visitor.may_enter:
            held_folder.check(default_data_folder())
    except MovedFolder as error:
        return Entry(closed=str(error))
    return visitor


def _visitor() -> Entry:
    secrets = _secrets()
    if not secrets.is_login and st.secrets.load_if_toml_exists() and "auth" in st.secrets:
        # what this app was given otherwise, or has not yet noticed to be gone
        secrets = replace(secrets, auth=st.secrets["auth"], is_login=True)
    if sentence := _closed(secrets):
        return Entry(closed=sentence)
    if secrets.auth is None:
        return Entry()
    sent = dict(st.context.cookies)  # of when the tab was opened
    is_over = cookies.COOKIE in sent and member_of(sent) is None
    if st.user.get("is_logged_in") is not True or is_over:
        return Entry(providers=login.providers(secrets.auth))
    return Entry(turned_away=login.turned_away(st.user, read_settings().members))


def entry_of(scope: Scope) -> Entry:
    """How the visitor stands whom a request comes from."""
    secrets = _secrets()
    if sentence := _closed(secrets):
        return Entry(closed=sentence)
    if secrets.auth is None:
        return Entry()
    if (visitor := member_of(HTTPConnection(scope).cookies)) is None:
        return Entry(providers=login.providers(secrets.auth))
    return Entry(turned_away=login.turned_away(visitor.claims, read_settings().members))


def member_of(sent: Mapping[str, str]) -> cookies.Login | None:
    """Whose login the cookies of a request hold; None where it is none, or over."""
    auth = _secrets().auth
    if not isinstance(auth, Mapping) or not isinstance(secret := auth.get("cookie_secret"), str):
        return None
    member, lasts_s = cookies.login_of(sent, secret), read_settings().login_s
    if member is None or member.claims.get("provider") not in login.providers(auth):
        return None
    folder = default_data_folder()
    is_over = login.is_over(folder, auth, member.person, member.made_at, lasts_s)
    return None if is_over else member


def check() -> None:
    """AccessError where the visitor of this session may not come in. A run of a script has a thread
    of its own, and comes here a dozen times: it looks again after `LOOK_S`.
    """
    now = time.monotonic()
    if now - getattr(_entered, "at", float("-inf")) < LOOK_S:
        return
    visitor = entry()
    if not visitor.may_enter:
        raise AccessError(visitor.closed or visitor.turned_away or FIRST)
    _entered.at = now


def closed() -> str | None:
    """Why nothing at all may be served now; None where screens may be."""
    return _closed(_secrets())


def is_login_set_up() -> bool:
    """Whether secrets.toml requires a login now."""
    return _secrets().auth is not None


def login_address() -> str:
    """Returns the address that a login leads back to; empty without a login."""
    auth = _secrets().auth
    address = auth.get("redirect_uri") if isinstance(auth, Mapping) else None
    return address if isinstance(address, str) else ""


def _closed(secrets: login.Secrets) -> str | None:
    try:
        read_settings()
        folder = default_data_folder()
    except RequestError as error:  # of which a door that is shut may be one
        return str(error)
    kept = login.is_kept(folder)
    if secrets.is_login and not kept:
        try:
            login.keep(folder)
        except StorageError as error:
            return str(error)
    has_library = secrets.auth is None or all(  # a search of files, at every look
        find_spec(name) is not None for name in ("authlib", "httpx")
    )
    if (sentence := login.closed(secrets, kept, has_library)) or secrets.auth is None:
        return sentence
    try:
        login.end_before(folder, secrets.auth)
    except StorageError as error:
        return str(error)
    return None


def _secrets() -> login.Secrets:
    """What is on disk now. Streamlit's own view may be seconds late, stops following a file that
    was once damaged, and takes a damaged file for none.
    """
    paths = tuple(st.get_option("secrets.files"))
    if any(os.path.isdir(path) for path in paths):  # of files that change without it
        return _read(paths)
    return _read_once(paths, tuple(_state(path) for path in paths))


def is_exposed() -> bool:
    """Whether visitors from elsewhere may come in without a login: it listens beyond this machine,
    or a proxy is named, which brings them in.
    """
    is_reached = st.get_option("server.address") not in LOOPBACK or read_settings().proxies
    return bool(is_reached) and not is_login_set_up()


def _state(path: str) -> object:
    try:
        state = os.stat(path)
    except OSError as error:
        return error.errno, os.path.lexists(path)
    return state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


@lru_cache(maxsize=4)
def _read_once(paths: tuple[str, ...], _: tuple[object, ...]) -> login.Secrets:
    return _read(paths)


def _read(paths: tuple[str, ...]) -> login.Secrets:
    """As Streamlit reads them: a later file's section replaces that of one before. Streamlit is to
    read them again too, whose own look may be seconds late.
    """
    secrets_singleton._reset()
    sections: dict[str, object] = {}
    problems = []
    for path in paths:
        try:
            if not os.path.lexists(path):
                continue
            if path.endswith(".toml"):
                os.stat(path)  # a link to nowhere is not the same as no file
            sections.update(SecretsReader()._parse_file_path(path)[0])
        except _UNREADABLE as error:
            problems.append(_why(error))
    return login.Secrets(
        sections.get("auth"),
        problems[0] if problems else None,
        "auth" in sections or bool(problems and any(_mentions_login(path) for path in paths)),
    )


def _why(error: Exception) -> str:
    """In a few words without the file's content, which visitors must not see."""
    if isinstance(error, OSError) and error.strerror:  # Streamlit's own has none
        return f"cannot be read ({error.strerror})"
    line = re.search(r"at line (\d+)", str(error))
    return f"does not parse{f' (line {line[1]})' if line else ''}"


def _mentions_login(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"auth" in file.read()
    except OSError:
        return False


class AccessError(LabError):
    """Somebody may not come in, or may not do this."""
