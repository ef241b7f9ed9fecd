"""Which logins are over: by the moments, kept in the data folder, that end those made before.

A dashboard that starts again, and each other one on the folder, knows them too.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
