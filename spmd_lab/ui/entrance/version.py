"""Whether the source of this server was changed since it was started: old and new code do not mix."""

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

START_AGAIN = (
    "SPMD Lab was updated while this dashboard ran, and its screens may fail: start it again. "
    "Stored runs stay."
)
_EVERY_S = 5.0  # between two looks at all files, which take milliseconds


class Source:
    """The source files below a folder, as they were when this was made."""

    def __init__(self, root: Path):
        self._root = root
        self._states, self._made_of = self._look(), self._digest()
        self._looked, self._changed = time.monotonic(), False

    def has_changed(self, now: bool = False) -> bool:
        """Whether any file holds something else; a look of a moment ago counts, but for `now`."""
        if now or time.monotonic() > self._looked + _EVERY_S:
            states = self._look()
            if states != self._states:  # touched at least
                self._changed = self._digest() != self._made_of
            self._states, self._looked = states, time.monotonic()
        return self._changed

    def _files(self) -> Iterator[str]:
        yield from (f"{self._root}/{name}" for name in ("app.py", "home.py"))
        for folder in ("pages", "spmd_core", "spmd_lab"):
            # a fifth of rglob's time
            for where, folders, names in os.walk(self._root / folder):
                folders[:] = sorted(each for each in folders if each != "__pycache__")
                yield from (f"{where}/{name}" for name in sorted(names) if name.endswith(".py"))

    def _look(self) -> list[tuple[str, int, int]]:
        states = []
        for path in self._files():
            try:
                state = os.stat(path)
            except OSError:  # it has just been deleted
                continue
            states.append((path, state.st_mtime_ns, state.st_size))
        return states

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for path in map(Path, self._files()):
            content = path.read_bytes() if path.is_file() else b""
            digest.update(f"{path.relative_to(self._root)} {len(content)}\n".encode() + content)
        return digest.hexdigest()


source = Source(Path(__file__).resolve().parents[3])
