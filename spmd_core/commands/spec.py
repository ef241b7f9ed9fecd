"""From a word of the command line to an experiment: a spec file, standard input, a link or a
recipe.
"""

import re
import sys
from typing import IO, Any

from spmd_core.base import RequestError, read_file, refuse, shorten
from spmd_core.experiment import MAX_TEXT_BYTES, Experiment, link, parse_experiment_text
from spmd_core.fields import load_json

_SHORT = re.compile(r"(?:\S*/)?[rsc]/([A-Za-z0-9_-]{1,64})/?")  # a link to what is stored
HELP = "a spec file, - for standard input, a link, or recipe:NAME"


# the positional argument that names an experiment
SPEC = {"spec": {"metavar": "SPEC", "help": HELP}}
OPTIONAL_SPEC = {"spec": {"metavar": "SPEC", "nargs": "?", "help": HELP}}


def read_spec(word: str) -> Experiment:
    """The experiment that a word names; RequestError where it names none."""
    if word == "-":
        return _from_bytes(_read(sys.stdin.buffer))
    if word.startswith("recipe:"):
        from spmd_core.recipes import get_recipe

        return get_recipe(word.removeprefix("recipe:")).experiment
    stored = _file(word)
    if stored is not None:
        return _from_bytes(stored)
    if linked := _linked(word):
        return linked
    raise refuse(f"spec file {shorten(word)}", "does not exist", f"name {HELP}")


def stored_id(word: str) -> str:
    """The id that a link to something stored names, such as `/r/RUN`; any other word as it is."""
    short = _SHORT.fullmatch(word)
    return short[1] if short else word


def _linked(word: str) -> Experiment | None:
    """The experiment of a link, or of the stored run that a link names; None of another word."""
    if (run := stored_id(word)) != word:
        from spmd_core.lab import Lab

        return Lab.open(serve=False).status(run).experiment
    return link.decode(word) if link.looks_like_link(word) else None


def read_one(word: str) -> Experiment:
    """The experiment that a word names; RequestError for a study of several."""
    return _one(read_spec(word))


def _one(experiment: Experiment) -> Experiment:
    if experiment.variants:
        raise _several(len(experiment.variants))
    return experiment


def _several(count: int) -> RequestError:
    return refuse(
        f"a study of {count} variants",
        "is several experiments, and this takes one",
        "name one of them, or run the study with `run`",
    )


def read_open_spec(word: str) -> Any:
    """The JSON value of a spec file or of standard input, which need not be an experiment: a search
    leaves fields open. Of a link or recipe, the experiment's JSON form with mesh and sharding open.
    """
    data = _read(sys.stdin.buffer) if word == "-" else _file(word)
    if data is None:
        return _opened(read_one(word))
    if data.strip()[:1] != b"{":  # what was read is not there to be read again
        return _opened(_one(_from_bytes(data)))
    if len(data) > MAX_TEXT_BYTES:
        return _from_bytes(data)
    spec = load_json(data)
    for field in ("study", "variants"):
        if isinstance(spec, dict) and isinstance(spec.get(field), list):
            raise _several(len(spec[field]))
    return spec


def _opened(experiment: Experiment) -> Any:
    shardings = "specs" if experiment.exported else "sharding"
    return experiment.to_json() | {"mesh": None, shardings: None}


def _file(word: str) -> bytes | None:
    """The beginning of the file of that name; None where there is none. RequestError where it
    cannot be read.
    """
    try:
        return read_file(word, MAX_TEXT_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (
        OSError,
        ValueError,
    ) as error:  # a folder, not allowed; a name too long or with a NUL, as a link may be
        if link.looks_like_link(word):
            return None
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise refuse(
            f"spec file {shorten(word)}", f"cannot be read ({reason.lower()})", f"name {HELP}"
        ) from None


def _read(file: IO[bytes]) -> bytes:
    """At most one byte more than a spec may have: enough to see that it is too long."""
    return file.read(MAX_TEXT_BYTES + 1)


def _from_bytes(data: bytes) -> Experiment:
    if len(data) > MAX_TEXT_BYTES:
        raise refuse(
            f"spec of more than {MAX_TEXT_BYTES} bytes",
            "is too long",
            "leave out what is at its default",
        )
    text = data.strip()
    linked = None if text[:1] == b"{" else _linked(text.decode("utf-8", "replace"))
    return linked or parse_experiment_text(text)


def with_option(experiment: Experiment, option: str, lacks: str) -> Experiment:
    """The experiment with its option `trace` or `shardings`; RequestError where it has no steps, by
    what it `lacks`.
    """
    if not experiment.what.is_traceable:
        fix = f"leave --{option} out, or use a computation such as layer"
        raise refuse(f"workload {experiment.workload}", f"has no {lacks}", fix)
    return experiment.vary(options=dict(experiment.options) | {option: True})
