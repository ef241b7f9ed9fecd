"""Files of goldens: where a test's is, and how it is read, compared and written."""

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from spmd_core.base import RequestError, refuse
from spmd_core.own.changed.changes import Changes, changes
from spmd_core.own.changed.golden import FIELDS, REQUEST, UPDATE, golden_of, read_golden
from spmd_core.own.sources import relative
from spmd_core.results import StepDescription

FOLDER = "spmd_goldens"
_ODD = re.compile(r"[^A-Za-z0-9_.=,\[\]-]+")


@dataclass(frozen=True)
class Goldens:
    """Where the goldens of a test are.

    Attributes:
        folder: the folder that they are in.
        test: the id of the test.
        is_updating: whether they are written.
        note: receives a line for each golden that is written, and for each rename.
    """

    folder: Path
    test: str
    is_updating: bool
    note: Callable[[str], object]

    def compared(
        self, step: StepDescription, name: str, on: str | None, compare: Sequence[str] = FIELDS
    ) -> tuple[str, Changes]:
        """Returns the path of a golden, relative to its repository, and what changed since.

        Args:
            step: the description of the step.
            name: the name of this golden, where a test has several.
            on: the target that the step is compiled for; None for a request.
            compare: the fields that are compared.

        Raises:
            RequestError: there is no golden, or it cannot be compared with this step.
        """
        __tracebackhide__ = True  # of pytest: the sentence of a refusal is enough
        path = self.folder / f"{file_name(self.test, name, on or '')}.toml"
        shown = relative(str(path.absolute()))
        if self.is_updating:
            self._write(path, shown, step, on)
            return shown, Changes((), ())
        try:
            text = path.read_text("utf-8")
        except FileNotFoundError:
            raise refuse(f"golden {shown}", "is not there", f"{UPDATE}, and commit it") from None
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError(f"golden {shown} cannot be read ({error}): {UPDATE}") from error
        golden = read_golden(text, shown)
        self._check(shown, golden.test)
        if golden.of != (on or REQUEST):
            rule = f"is of {golden.of}, and this expectation of {on or REQUEST}"
            raise refuse(f"golden {shown}", rule, UPDATE)
        compared = changes(golden, step, shown, compare)
        for words in compared.renamed:
            self.note(f"{shown}: {words}")
        return shown, compared

    def _check(self, shown: str, test: str) -> None:
        if test != self.test:
            fix = "give one of them another `name=`"
            raise refuse(f"golden {shown}", f"is of {test}, and this is {self.test}", fix)

    def _write(self, path: Path, shown: str, step: StepDescription, on: str | None) -> None:
        text = golden_of(step, self.test, on or REQUEST).to_text()
        try:
            with _alone(path, shown):
                if path.exists() and path.read_text("utf-8") == text:
                    return
                path.parent.mkdir(parents=True, exist_ok=True)
                with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                    file.write(text.encode())
                os.chmod(file.name, 0o644)
                os.replace(file.name, path)
        except OSError as error:
            fix = "make its folder writable"
            raise refuse(f"golden {shown}", f"cannot be written ({error})", fix) from error
        self.note(f"{shown}: written")


def file_name(test: str, *parts: str) -> str:
    """Returns a file name for a test id: of its file and its own name; an odd one has a hash.

    >>> file_name("tests/test_a.py::TestA::test_b[4]", "", "tpu:v5e:4x4"), file_name("test_b.py::test[x/y]")
    ('test_a.TestA.test_b[4].tpu-v5e-4x4', 'test_b.test[x-y].1250fe')
    """
    file, *names = test.split("::")
    more = (part.replace(":", "-") for part in parts if part)
    plain = ".".join([Path(file).stem if names else file.replace(":", "."), *names, *more])
    name = _ODD.sub("-", plain)[:150]
    return name if name == plain else f"{name}.{sha256(plain.encode()).hexdigest()[:6]}"


@contextmanager
def _alone(path: Path, shown: str) -> Iterator[None]:
    """Holds the lock of a golden, which another process may be writing."""
    name = sha256(str(path.absolute()).encode()).hexdigest()[:16]
    with open(Path(tempfile.gettempdir()) / f"spmd-golden-{os.getuid()}-{name}.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fix = "update goldens in one run at a time"
            raise refuse(f"golden {shown}", "is written by another process", fix) from None
        yield
