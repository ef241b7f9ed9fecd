"""When the dashboard stays closed: a login that is set up, or was, is never left out in silence."""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spmd_core.base import held_folder
from spmd_core.base.errors import storage_errors

FOLDER_NAME = "logins"
_ALL = "all"
_AHEAD_S = 60  # a cookie of a clock that was further ahead would last longer than it may
_KEPT_S = 400 * 24 * 3600  # longer than any login lasts: the end of a person's is forgotten then


def end_all(folder: Path) -> None:
    """End every login made until now on a data folder, of each dashboard there.

    Raises:
        StorageError: the folder cannot be written.
    """
    _write(folder, _ALL)


def end_of(folder: Path, person: str) -> None:
    """End the logins that a person, `issuer#sub`, made until now in any browser.

    Raises:
        StorageError: the folder cannot be written.
    """
    _write(folder, _name("of", person))
    for path in (folder / FOLDER_NAME).glob("of-*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - _KEPT_S:
                path.unlink()


def end_before(folder: Path, auth: Mapping[str, Any]) -> None:
    """End the logins made before an [auth] section was as it is: another secret or provider.

    Raises:
        StorageError: the folder cannot be read or written.
    """
    text = json.dumps(auth, sort_keys=True, default=str)
    name, digest = _of_address(auth), hashlib.sha256(text.encode()).hexdigest()
    with storage_errors(folder / FOLDER_NAME, "the ends of logins are"):
        path = folder / FOLDER_NAME / name
        if not path.exists() or path.read_text("utf-8") != digest:
            _write(folder, name, digest)


def is_over(
    folder: Path, auth: Mapping[str, Any], person: str, made_at: int, lasts_s: float
) -> bool:
    """Returns True if a login of `made_at`, in seconds since 1970, has ended: by its age, by a
    log-out of that person, by `end_all`, or by a change of [auth].
    """
    if not made_at - _AHEAD_S <= time.time() <= made_at + lasts_s:
        return True
    names = (_ALL, _name("of", person), _of_address(auth))
    return any(made_at <= _ended_at(folder / FOLDER_NAME / name) for name in names)


def _ended_at(path: Path) -> int:
    """The second in which the logins of before ended: those of the same second count to them."""
    try:
        return int(path.stat().st_mtime)
    except FileNotFoundError:
        return 0


def _of_address(auth: Mapping[str, Any]) -> str:
    """Dashboards on one folder that are reached at different addresses have an [auth] each."""
    return _name("at", str(auth.get("redirect_uri")))


def _name(kind: str, of: str) -> str:
    return f"{kind}-{hashlib.sha256(of.encode()).hexdigest()[:32]}"


def _write(folder: Path, name: str, text: str = "") -> None:
    with storage_errors(folder / FOLDER_NAME, "the ends of logins are"):
        kept = folder / FOLDER_NAME
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = kept / f".{name}.{os.getpid()}"
        part.touch(mode=0o600)
        part.write_text(text, "utf-8")
        now = time.time()
        os.utime(part, (now, now))  # not the clock of the file system, which lags by milliseconds
        part.replace(kept / name)


FILE_NAME = "login"  # of the data folder: there once a login was seen
OFF = "python -m spmd_core login --off"
EVERYBODY = "*"  # of the members: whoever the provider knows
_OF_A_PROVIDER = ("client_id", "client_secret", "server_metadata_url")
_LEAST_SECRET = 16  # characters of what signs the cookies: with an empty one anyone can sign


@dataclass(frozen=True, slots=True)
class Secrets:
    """What the files of secrets hold of a login. `auth`: the section, None where there is none;
    `problem`: why a file cannot be read; `is_login`: whether they mention a login, even a damaged
    one.
    """

    auth: Any = None
    problem: str | None = None
    is_login: bool = False


def is_kept(folder: Path) -> bool:
    """Whether a login was ever set up on a data folder, and not ended by the command."""
    return (folder / FILE_NAME).exists()


def keep(folder: Path) -> None:
    """Remember that a login is set up on a data folder; StorageError where that is not possible."""
    with storage_errors(folder / FILE_NAME, "a login is"):
        held_folder.make(folder)
        (folder / FILE_NAME).touch(mode=0o600)


def end(folder: Path) -> bool:
    """Forget that a login was set up; whether one was. StorageError where that is not possible."""
    with storage_errors(folder / FILE_NAME, "a login is"):
        kept = is_kept(folder)
        (folder / FILE_NAME).unlink(missing_ok=True)
        return kept


def closed(secrets: Secrets, kept: bool, has_library: bool) -> str | None:
    """Why nothing may be served; None where the dashboard may open, with a login or without.

    `kept`: a login was seen on this data folder; `has_library`: Authlib is installed.
    """
    if secrets.problem:
        return (
            f"secrets.toml {secrets.problem}, and may describe a login, so nothing is served: "
            "repair it, or remove it where there was never a login."
        )
    if secrets.auth is None and not kept:
        return None
    if secrets.auth is None:
        return (
            "A login was set up here, and secrets.toml has no [auth] any more, so nothing is "
            f"served: put it back, or end the login with `{OFF}`."
        )
    if missing := _missing(secrets.auth):
        return f"[auth] in secrets.toml {missing}, so nothing is served: complete it."
    if not has_library:
        return (
            "[auth] in secrets.toml asks for a login, and the package for it is not installed, so "
            "nothing is served: install streamlit[auth] and start the dashboard again."
        )
    return None


def providers(auth: Any) -> tuple[str, ...]:
    """Names of the identity providers of an [auth] section, as `st.login` takes them."""
    if not isinstance(auth, Mapping):
        return ()
    named = [
        name
        for name, value in auth.items()
        if isinstance(value, Mapping) and any(key in value for key in _OF_A_PROVIDER)
    ]
    return tuple((["default"] if any(key in auth for key in _OF_A_PROVIDER) else []) + named)


def _missing(auth: Any) -> str | None:
    """What keeps an [auth] section from working: `st.login` would refuse, or sign with nothing."""
    if not isinstance(auth, Mapping):
        return "is not a section"
    if not _is_text(auth.get("redirect_uri")):
        return "has no redirect_uri"
    if not _is_text(auth.get("cookie_secret"), _LEAST_SECRET):
        return f"has no cookie_secret of at least {_LEAST_SECRET} characters"
    names = providers(auth)
    if not names:
        return "names no identity provider"
    for name in names:
        section = auth if name == "default" and name not in auth else auth[name]
        for key in _OF_A_PROVIDER:
            if not _is_text(section.get(key)):
                return f"has no {key}"
    return None


def _is_text(value: Any, least: int = 1) -> bool:
    return isinstance(value, str) and len(value.strip()) >= least


def is_confirmed(user: Mapping[str, Any]) -> bool:
    """Whether the identity provider verified that an e-mail address is the user's own."""
    return user.get("email_verified") in (True, "true")  # a text with some providers


def turned_away(user: Mapping[str, Any], members: tuple[str, ...]) -> str | None:
    """Why somebody who is logged in may not come in; None where they may.

    `user`: the claims of the identity provider; `members`: e-mail addresses and domains, or `*`.
    """
    if EVERYBODY in members:
        return None
    if not members:
        return (
            "Nobody may come in yet: whoever starts the dashboard lists e-mail addresses or "
            "domains in SPMD_LAB_MEMBERS."
        )
    email = str(user.get("email") or "").strip().lower()
    if not is_confirmed(user):
        return "The identity provider does not confirm your e-mail address: confirm it there."
    name, at, domain = email.rpartition("@")
    if name and at and (email in members or domain in members):
        return None
    return (
        "Your e-mail address is not among those that may come in: ask whoever runs this "
        "dashboard to add it to SPMD_LAB_MEMBERS."
    )
