"""Compares the steps that a repository names with their goldens, as Markdown for a pull request."""

import json
import os
import tomllib
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import ValidationError

from spmd_core.base import Frozen, LabError, RequestError, numbered, refuse, shorten
from spmd_core.commands.own.explain import made
from spmd_core.lab import simulated_devices
from spmd_core.own import expect, goldens_of

ARGUMENTS = {
    "--update": {"action": "store_true", "help": "write the goldens instead"},
}
SETTINGS = Path("pyproject.toml")
_EXAMPLE = '[tool.spmd-lab]\nsteps = ["package.module:function"]'


class Checked(Frozen):
    """The table `tool.spmd-lab` of pyproject.toml.

    `steps` are functions that return a step with its arguments; each has a golden of its request,
    and one for each of `targets`. `devices` are the simulated devices that there are.
    """

    steps: tuple[str, ...]
    targets: tuple[str, ...] = ()
    devices: int = 8
    compare: tuple[str, ...] | None = None


@dataclass(frozen=True)
class _CheckedStep:
    """What a step and its golden differ in; `error` is why they were not compared."""

    step: str
    target: str | None
    golden: str = ""
    changed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""

    @property
    def is_good(self) -> bool:
        return not self.changed and not self.error


def main(arguments: Namespace) -> int:
    """Compare every step, and print what changed; 1 where something did."""
    given = _settings()
    # before the modules of the steps import jax
    os.environ.update(simulated_devices(given.devices, os.cpu_count() or 1))
    rows = [
        _row(step, target, given, arguments.update)
        for step in given.steps
        for target in (None, *given.targets)
    ]
    print(json.dumps([asdict(row) for row in rows]) if arguments.json else _markdown(rows))
    return 0 if all(row.is_good for row in rows) else 1


def _settings() -> Checked:
    try:
        table = tomllib.loads(SETTINGS.read_text("utf-8")).get("tool", {}).get("spmd-lab")
    except FileNotFoundError:
        table = None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RequestError(f"{SETTINGS} cannot be read ({error}): correct it") from error
    if table is None:
        raise refuse(f"{SETTINGS} here", "names no steps", f"add `{' '.join(_EXAMPLE.split())}`")
    try:
        return Checked.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        rule = f"is not valid ({first['msg']})"
        raise refuse(f"{name} in [tool.spmd-lab]", rule, "see docs/ci.md") from None


def _row(name: str, target: str | None, given: Checked, is_updating: bool) -> _CheckedStep:
    """Compares one step. Whatever it raises is of this step alone: others are compared."""
    notes: list[str] = []
    try:
        step, arguments = made(name)
        by_place, by_name = ((), arguments) if isinstance(arguments, dict) else (arguments, {})
        described = expect(step)(*by_place, **by_name).on(target)
        kept = goldens_of(SETTINGS.absolute(), name, is_updating, notes.append)
        fields = {"compare": given.compare} if given.compare else {}
        golden, compared = kept.compared(described, "", target, **fields)
        return _CheckedStep(name, target, golden, compared.changed, tuple(notes))
    except LabError as error:
        return _CheckedStep(name, target, error=str(error))
    except Exception as error:  # of the step itself
        return _CheckedStep(
            name, target, error=f"{type(error).__name__}: {shorten(str(error), 200)}"
        )


def _markdown(rows: Sequence[_CheckedStep]) -> str:
    changed = sum(not row.is_good for row in rows)
    head = (
        f"{changed} of {len(rows)} changed"
        if changed
        else f"{len(rows)} as their goldens have them"
    )
    return "\n".join([f"### Steps: {head}", "", *(line for row in rows for line in _lines(row))])


def _lines(row: _CheckedStep) -> list[str]:
    name = _code(row.step) + (f" on {_code(row.target)}" if row.target else "")
    count = len(row.changed)
    if row.error:
        return [f"- {name}: not compared", f"  - {_code(row.error)}"]
    changes = f"**{numbered(count, 'change')}** since {_code(row.golden)}"
    state = changes if count else "no change"
    return [f"- {name}: {state}", *(f"  - {_code(words)}" for words in (*row.changed, *row.notes))]


def _code(text: str) -> str:
    """A text as code of Markdown, on one line: it comes from the repository's own files."""
    return f"`` {' '.join(text.replace('``', '` `').split())} ``"
