"""Lists the sharding type errors of a step, which a process of our own finds, as text."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from spmd_core.base import bytes_text, mesh_text, numbered, refuse
from spmd_core.facts import ExplicitError, ExplicitFix, ExplicitReport
from spmd_core.machine import dump_folder, parse_target
from spmd_core.own.elsewhere import answer_of

_MODULE = "spmd_core.engine.explicit.converted"


def explicit(name: str, target: str = "cpu:8") -> ExplicitReport:
    """Finds every sharding type error that a step has under Explicit axes.

    Args:
        name: `package.module:function`, `path.py:function`, or `path.py`, whose function `step`
            is taken where it declares none.
        target: simulated devices, such as `cpu:16`.

    Raises:
        RequestError: there is no such step, it does not trace under Auto axes, or has no mesh.
        WorkerError: the process ended.
    """
    if not parse_target(target).is_simulated:
        raise refuse(f"target {target}", "is not of simulated devices", "use one such as cpu:8")
    request = json.dumps({"name": name, "folder": os.getcwd()})
    with dump_folder() as folder:
        return ExplicitReport.model_validate_json(answer_of(_MODULE, request, target, folder))


def write_explicit(report: ExplicitReport) -> tuple[str, ...]:
    """Write the patched files in the place of the user's; their paths.

    Raises:
        RequestError: the patch does not trace, or changes results.
    """
    if not report.traces or report.wrong:
        rule = "changes results" if report.traces else "does not trace"
        raise refuse("the patch", rule, "mend what is listed, and ask again")
    for path, text in report.texts.items():
        Path(path).write_bytes(text.encode())
    return tuple(report.texts)


def explicit_headline(report: ExplicitReport) -> str:
    """The answer in one sentence."""
    if not report.errors and report.traces:
        return f"{report.function} traces under Explicit axes as it is"
    typed = sum(each.accepted for each in report.errors)
    kinds = {"sharding type error": len(report.errors) - typed, "costlier type": typed}
    listed = {name: number for name, number in kinds.items() if number} or {
        "sharding type error": 0
    }
    words = " and ".join(numbered(number, name) for name, number in listed.items())
    if not report.traces:
        left = sum(1 for each in report.errors if each.refused)
        ending = f"{left} left to you" if left else "another error is left"
        return f"{words} listed; {ending}: the patched step does not trace"
    equal = "the results are not compared" if report.wrong is None else "equal results"
    equal = f"{report.wrong} wrong elements" if report.wrong else equal
    more = f"more {', '.join(report.beyond)}" if report.beyond else "no new collective"
    return f"{words}; the patch traces: {equal}, {more}"


def explicit_lines(report: ExplicitReport) -> list[str]:
    """The errors with their fixes, and the patch, as lines of text."""
    lines = [explicit_headline(report), f"mesh {mesh_text(report.mesh)}"]
    for number, error in enumerate(report.errors, 1):
        lines += ["", *_error(number, error)]
    lines += ["", *(f"note: {each}" for each in report.notes)]
    return [*lines, "", *report.patch.splitlines()] if report.patch else lines


def _error(number: int, error: ExplicitError) -> Iterator[str]:
    yield f"{number}. {error.source}  {error.line}".rstrip()
    if error.operands:
        yield f"   {', '.join(error.operands)}"
    yield f"   {error.message}"
    if error.refused:
        yield f"   not patched: {error.refused}"
    for at, fix in enumerate(error.fixes):
        yield f"   {'*' if at == 0 else '-'} {fix.how}: {' '.join(fix.lines.split())}"
        yield f"     {cost_words(fix)}"


def cost_words(fix: ExplicitFix) -> str:
    """What a fix communicates, a device and step."""
    if fix.bytes is None:
        return "the step needs further changes with it"
    if not fix.collectives:
        return "no collective on this line"
    has = "as under Auto axes" if fix.in_auto else "more than under Auto axes"
    return f"{bytes_text(fix.bytes)} a device and step, {', '.join(fix.collectives)}: {has}"
