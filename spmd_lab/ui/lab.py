"""The handle to the Lab; the only importer of it in the user interface."""

import hashlib
import ipaddress
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Generic, ParamSpec, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from spmd_core.advice import Check
from spmd_core.base import LabError, RequestError, login, read_settings
from spmd_core.lab import VIEWER, Asker, Batch, Lab, Room, doctor, examples, role_of
from spmd_core.runs import RunStatus
from spmd_core.workloads import programs
from spmd_lab.ui.entrance import door

P = ParamSpec("P")
T = TypeVar("T")
_COOKIE = "_streamlit_xsrf"  # one for each browser, which all its tabs share
_HOST_NETWORK = 64  # bits of an IPv6 address that a provider gives to one host


def lab() -> Lab:
    """The Lab of this process and data folder; StorageError where the folder cannot be used.

    AccessError where the visitor may not come in: a part of a screen that draws itself again does
    not begin where the screen does.
    """
    if get_script_run_ctx(suppress_warning=True) is not None:
        door.check()
    return Lab.open()


Stop, stops = examples.Stop, examples.stops
_with_examples: set[Path] = set()  # data folders that were offered them


def take_examples() -> None:
    """Give a data folder, once, the results that came with the program."""
    here = lab()
    if here.folder not in _with_examples:
        _with_examples.add(here.folder)
        with suppress(LabError, OSError):  # the dashboard is there without them
            here.archives.take_examples()


def find(run: str) -> RunStatus | None:
    """The status of a run; None where this machine has none of that id."""
    try:
        return lab().status(run)
    except RequestError:
        return None


def as_viewer(action: Callable[..., T], *arguments: object, **named: object) -> T:
    """Call a method of the Lab that changes something for whoever looks at this page: the Lab
    itself refuses those who may only look.
    """
    return action(*arguments, asker=asker(), **named)


def takes_files() -> bool:
    """Whether the server takes files from whoever looks at this page."""
    return read_settings().allowed_uploads(door.is_exposed()) != "off"


def prepare_parser() -> None:
    """Have what reads a program ready, where the server takes them."""
    if takes_files():
        programs.prepare()


def self_test() -> Iterator[Check]:
    """Test this machine, line by line; RequestError as `begin`."""
    begin("the self-test")
    return doctor.examine()


def begin(what: str) -> Asker:
    """Who requests many runs at once, such as a search; RequestError where they may only look."""
    who = asker()
    lab().allow(who, what)
    return who


def end(what: str) -> None:
    """Note that work such as a search is about to be stopped; RequestError as `begin`."""
    lab().allow(asker(), f"cancel {what}")


def room() -> Room:
    """What is taken of what whoever looks at this page may take."""
    return lab().room(viewer(), _address())


def active_of_others() -> frozenset[str]:
    """Returns the ids of the runs that are not over, of whoever does not look at this page."""
    return lab().active_of_others(viewer())


def may_act() -> bool:
    """Whether whoever looks at this page may do more than look and estimate."""
    return role_of(read_settings(), asker()) != VIEWER


def batch(name: str | None = None) -> Batch:
    """Runs that whoever looks at this page requests at once, such as a sweep."""
    return Batch(lab(), asker(), name)


def viewer() -> str:
    """Who looks: by login, else by browser, else by session. A hash, since it is stored."""
    name = _login_name() or st.context.cookies.get(_COOKIE)
    if not name:
        context = get_script_run_ctx(suppress_warning=True)
        name = context.session_id if context else "nobody"
    return hashlib.sha256(str(name).encode()).hexdigest()[:16]


def asker() -> Asker:
    """Who looks at this page."""
    address, known = _address(), viewer()
    who = _login_name() or f"{address}, browser {known}"
    is_exposed = door.is_exposed()
    return Asker(known, None, address, who, _is_logged_in(), is_exposed, _names())


def _names() -> tuple[str, ...]:
    """`issuer#sub` of who is logged in, and their e-mail address where the provider confirms it."""
    if not _is_logged_in():
        return ()
    email = st.user.get("email") if login.is_confirmed(st.user) else None
    return (f"{st.user.get('iss')}#{st.user.get('sub')}", *([str(email)] if email else []))


def _is_logged_in() -> bool:
    return st.user.get("is_logged_in") is True


def _login_name() -> str | None:
    """The e-mail address of who is logged in, or what the provider calls them where it does not
    confirm one: anybody could choose another's.
    """
    if not _is_logged_in():
        return None
    if login.is_confirmed(st.user) and (email := st.user.get("email")):
        return str(email)
    return f"{st.user.get('iss')} {st.user.get('sub')}"


def _address() -> str | None:
    """The network address of who has not logged in, of IPv6 its network: one host has all of it."""
    if _is_logged_in():
        return None
    host = str(st.context.ip_address or "127.0.0.1")  # None: this machine
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and not address.ipv4_mapped:
        return str(ipaddress.ip_network((address, _HOST_NETWORK), strict=False))
    return str(getattr(address, "ipv4_mapped", None) or address)


class _NotStored(Exception):
    """Raised through the cache, which keeps what is returned but not what is raised."""


class Kept(Generic[P, T]):
    """A reader of stored runs whose last answers are kept, but for None: what is not stored yet may
    still come.
    """

    def __init__(self, read: Callable[P, T | None], size: int) -> None:
        def read_stored(*args: P.args, **kwargs: P.kwargs) -> T:
            if (value := read(*args, **kwargs)) is None:
                raise _NotStored
            return value

        self._cached = lru_cache(maxsize=size)(read_stored)
        self.cache_clear = self._cached.cache_clear

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The answer, read now or before; None where nothing is stored."""
        try:
            return self._cached(*args, **kwargs)
        except _NotStored:
            return None


def kept(size: int) -> Callable[[Callable[P, T | None]], Kept[P, T]]:
    """A decorator: keep the last `size` answers of a reader."""
    return lambda read: Kept(read, size)
