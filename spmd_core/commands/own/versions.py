"""Explains a step under several releases of JAX, and prints what changed from one to the next."""

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from spmd_core.base import bytes_text, numbered, refuse, seconds_text
from spmd_core.machine import parse_target
from spmd_core.own.versions import (
    JaxEnvironment,
    Seen,
    changes_between,
    environments,
    side_by_side,
)
from spmd_core.results import StepDescription
from spmd_core.sheets import table

ARGUMENTS = {
    "function": {
        "metavar": "PACKAGE.MODULE:FUNCTION",
        "nargs": "?",
        "help": "a function without arguments that returns (step, arguments)",
    },
    "--jax": {
        "metavar": "VERSION",
        "action": "append",
        "default": [],
        "help": "a release of JAX; several, in order",
    },
    "--requirements": {
        "metavar": "FILE",
        "action": "append",
        "default": [],
        "help": "packages, or several files to compare (default: uv.lock or pylock.toml)",
    },
    "--bisect": {
        "metavar": ("GOOD", "BAD"),
        "nargs": 2,
        "help": "the first release of JAX between two in which the step is another one",
    },
    "--target": {"help": "tpu:v5e:4x4, gpu:h100:8 or cpu:8 (default: simulated devices)"},
    "--mesh": {"metavar": "AXIS=SIZE,…", "help": "other sizes of the step's mesh axes"},
    "--devices": {
        "type": int,
        "default": 8,
        "help": "simulated devices that there are (default 8)",
    },
    "--allow-build": {"action": "store_true", "help": "build packages that have no wheel"},
    "--clean": {"action": "store_true", "help": "remove the environments that are kept"},
}
_FIGURES = ("", "jax", "jaxlib", "Collectives", "Bytes a step", "Peak", "Predicted")


def main(arguments: Namespace) -> int:
    """Compare, or bisect; 1 where something changed or failed."""
    if arguments.clean:
        print(environments.clean())
        return 0
    if not arguments.function:
        raise refuse("versions", "names no function", "write package.module:function")
    code = _bisected(arguments) if arguments.bisect else _compared(arguments)
    print(environments.kept_words(), file=sys.stderr)
    return code


def _compared(arguments: Namespace) -> int:
    files = arguments.requirements
    if max(len(arguments.jax), len(files)) < 2:
        raise refuse("versions", "compares two or more", "give --jax twice, or --bisect GOOD BAD")
    of_files = [(file, environments.file_requirements(Path(file))) for file in files]
    of_files = of_files or [("", environments.project_requirements(Path.cwd()))]
    look = _look(arguments)
    rows = []
    for file, lines in of_files:
        for version in arguments.jax or [None]:
            parts = [file] * (len(files) > 1) + [f"jax {version}"] * (version is not None)
            rows.append(look(", ".join(parts), lines, version))
    changes = [(before, after, changes_between(before, after)) for before, after in pairwise(rows)]
    if arguments.json:
        compared = [
            {"from": one.name, "to": other.name, "changed": each.changed, "renamed": each.renamed}
            for one, other, each in changes
        ]
        answer = {
            "schema": 1,
            "function": arguments.function,
            "versions": [row.json() for row in rows],
        }
        print(json.dumps({**answer, "changes": compared}))
    else:
        print("\n".join(_lines(rows)))
        for one, other, each in changes:
            print("\n".join(["", *_changed(one, other, (*each.changed, *each.renamed))]))
    return 1 if any(row.error for row in rows) or any(each.changed for *_, each in changes) else 0


def _bisected(arguments: Namespace) -> int:
    if len(arguments.requirements) > 1 or arguments.jax:
        raise refuse("--bisect", "takes one set of requirements, and no --jax", "leave them out")
    file = next(iter(arguments.requirements), None)
    lines = environments.file_requirements(Path(file)) if file else environments.project_requirements(Path.cwd())  # fmt: skip
    look = _look(arguments)
    names = environments.releases(*arguments.bisect)
    print(f"{numbered(len(names), 'release')}: {', '.join(names)}", file=sys.stderr)
    before, after = side_by_side.first_changed(
        names,
        lambda version: look(f"jax {version}", lines, version),
        lambda words: print(words, file=sys.stderr),
    )
    changes = changes_between(before, after)
    if arguments.json:
        differs = {"from": before.json(), "to": after.json(), "changed": changes.changed, "renamed": changes.renamed}  # fmt: skip
        print(
            json.dumps({"schema": 1, "function": arguments.function, "releases": names, **differs})
        )
    else:
        print(f"{after.name} is the first of {len(names)} releases in which it changed.")
        print("\n".join(_changed(before, after, (*changes.changed, *changes.renamed))))
    return 1


def _look(arguments: Namespace) -> Callable[[str, tuple[str, ...], str | None], Seen]:
    target = parse_target(arguments.target) if arguments.target else None
    extra = "tpu" if target and target.is_absent and not target.is_gpu else ""
    words = [f"--target={arguments.target}"] * bool(target) + [f"--mesh={arguments.mesh}"] * bool(arguments.mesh)  # fmt: skip

    def look(name: str, lines: tuple[str, ...], version: str | None) -> Seen:
        print(f"{name}: tracing and compiling", file=sys.stderr)
        environment = JaxEnvironment(name, lines, version, extra, arguments.allow_build)
        return side_by_side.seen(environment, arguments.function, words, arguments.devices)

    return look


def _lines(rows: Sequence[Seen]) -> Iterator[str]:
    yield from table([_FIGURES, *(_row(row.name, row.step) for row in rows)], numbers=(3, 4, 5, 6))
    for row in rows:
        if row.error:
            yield f"{row.name} failed: {row.error}"


def _row(name: str, step: StepDescription | None) -> tuple[str, ...]:
    if step is None:
        return (name, *["–"] * (len(_FIGURES) - 1))
    collectives = step.collectives or ()
    total = sum(each.bytes_total or each.bytes for each in collectives)
    time = step.predicted_s and step.predicted_s.estimate
    versions = (step.versions.get(each, "–") for each in ("jax", "jaxlib"))
    return (name, *versions, str(len(collectives)), bytes_text(total), bytes_text(step.peak_bytes), seconds_text(time))  # fmt: skip


def _changed(before: Seen, after: Seen, lines: Sequence[str]) -> Iterator[str]:
    count = numbered(len(lines), "change") if lines else "nothing changed"
    if before.error and after.error:
        count = "both failed, and cannot be compared"
    yield f"From {before.name} to {after.name}: {count}"
    yield from (f"  {line}" for line in lines)
