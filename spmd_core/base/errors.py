"""The errors of SPMD Lab, each a sentence that a user can act on."""

import contextlib
import reprlib
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from pathlib import Path

MOST_LISTED = 32  # names in a refusal: of more, those that are spelled most alike
NEAREST = 3


class LabError(Exception):
    """Base of every error whose message is written for the user."""


class RequestError(LabError, ValueError):
    """A request that cannot be carried out: names the value, the rule and a fix."""


class StorageError(LabError):
    """The data folder cannot be read or written."""


class MovedFolder(StorageError):
    """The data folder is not at its path any more; what this process had open is untouched."""


@contextlib.contextmanager
def storage_errors(path: Path, kept: str) -> Iterator[None]:
    """Raise StorageError for an OSError at a path. `kept`: its contents, such as "a login is"."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path}: {error.strerror}: {kept} kept there, so name a folder that can be read and "
            "written in SPMD_LAB_DATA"
        ) from error


class UnreadableRun(RequestError):
    """A stored run that this version cannot read: made by another one, or damaged."""

    def __init__(self, message: str, run: str):
        super().__init__(message)
        self.run = run


class WorkerError(LabError):
    """The worker process could not be started, or does not have the requested devices."""


class Alone(BaseException):
    """What failed in one member of a run on several hosts, and not in the others, which would wait
    for it: the run ends. No Exception, so that no handler takes it for a strategy's own result.
    """


def member_words(number: int, hosts: int, target: str, host: str, process: int | str) -> str:
    """Which member of a run on several hosts, for a message."""
    where = f"host {shorten(host)[1:-1]}, process {process}"
    return f"member {number} of {target} (members 0 to {hosts - 1}; {where})"


def refuse(value: str, rule: str, fix: str) -> RequestError:
    """The refusal `value rule: fix`, to be raised by the caller.

    >>> str(refuse("batch=30", "does not divide over mesh axis y=4", "use 28 or 32"))
    'batch=30 does not divide over mesh axis y=4: use 28 or 32'
    """
    return RequestError(f"{value} {rule}: {fix}")


def check_known(kind: str, name: str, known: Collection[str], rule: str) -> None:
    """RequestError, which lists those that are known, where a name of some kind is none of them; of
    many the nearest.
    """
    if name not in known:
        listed = (
            [*known]
            if len(known) <= MOST_LISTED
            else get_close_matches(str(name), known, NEAREST, 0.0)
        )
        raise refuse(f"{kind} {shorten(name)}", rule, f"use {', '.join(listed) or 'none'}")


def shorten(value: object, limit: int = 60) -> str:
    """A value as one line of at most `limit` characters, for quoting it in a message; a text that
    is truncated keeps both quotation marks, so that what follows is not taken for a part of it.

    >>> shorten("x" * 80, 8), shorten([1, 2, 3], 5)
    ("'xxxxx…'", '[1, …')
    """
    try:
        text = " ".join(_SHORT.repr(value).split())
    except ValueError:  # Python writes no number of more than 4,300 digits
        text = "a number of thousands of digits"
    if len(text) <= limit:
        return text
    end = text[0] if isinstance(value, str) else ""
    return f"{text[: limit - 1 - len(end)]}…{end}"


def capital(text: str) -> str:
    """A text with a capital; as it is where it begins with a name, such as `batch=30`.

    >>> capital("all-reduce over x"), capital("batch=30 is odd"), capital("")
    ('All-reduce over x', 'batch=30 is odd', '')
    """
    first = text.partition(" ")[0]
    return text if "=" in first or "_" in first else text[:1].upper() + text[1:]


_SHORT = reprlib.Repr()  # looks at the beginning of a value only, however large or deep it is
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 20


class Inexpressible(LabError):
    """A strategy cannot express this sharding; the message names the reason."""


class WrongResult(LabError):
    """A function returned something else than it declares; the message names that, and what was
    declared.
    """
