"""Takes a program that `jax.export` wrote, and prints what each device holds of it, and what in it
is hardly meant: by its file, and with a target as it is compiled for that.
"""

import json
import shlex
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from spmd_core.advice import (
    KINDS,
    all_findings,
    checked_words,
    clean_words,
    compiled_beside,
    compiled_findings,
    grouped_findings,
    held_spec,
    program_headline,
    step_arrays,
    unchecked_words,
    what_if_words,
)
from spmd_core.base import bytes_text, check_known, mesh_text, read_named, refuse
from spmd_core.commands.run import ended_words
from spmd_core.commands.waiting import interrupt, run_to_end
from spmd_core.experiment import parse_experiment, shape_text
from spmd_core.lab import Lab
from spmd_core.results import StepFinding, StrategyResult
from spmd_core.sheets import table
from spmd_core.workloads import Described, Held, Program, programs

ANY = "any"
ARGUMENTS = {
    "file": {"metavar": "FILE", "nargs": "?", "help": "what `Exported.serialize()` returned"},
    "--declared": {
        "action": "store_true",
        "help": "instead: the steps that the files of SPMD_LAB_WORKLOADS declare with a mesh",
    },
    "--name": {"default": "", "help": "how it is called in lists"},
    "--target": {"help": "compile it for this target, and judge the compiled program too"},
    "--fail-on": {
        "metavar": "KIND,…",
        "default": "",
        "help": "end with 1 where it has a finding of these kinds, or of any",
    },
    "--accept": {
        "metavar": "KIND[:PATH]",
        "action": "append",
        "default": [],
        "help": "a finding that --fail-on lets pass: replicated:params/embed, or all of a kind",
    },
}


def main(arguments: Namespace) -> int:
    """Take the program, or those that are declared, and print them."""
    if arguments.declared == (arguments.file is not None):
        raise refuse("program", "takes a FILE or --declared", "give one of them")
    if arguments.declared and arguments.target:
        raise refuse("--target with --declared", "means nothing", "give one FILE")
    if arguments.declared:
        return _declared(arguments)
    kinds = set(filter(None, arguments.fail_on.split(",")))
    for kind in kinds - {ANY}:
        check_known("--fail-on", kind, (ANY, *KINDS), "is no kind of finding")
    for word in arguments.accept:
        check_known("--accept", word.partition(":")[0], KINDS, "is no kind of finding")
    lab = Lab.open(serve=False)
    program = _on_mesh(taken(lab, arguments.file, arguments.name))
    compiled = _compiled(lab, program, arguments.target) if arguments.target else None
    findings = compiled_findings(compiled, program) if compiled else ()
    if arguments.json:
        beside = compiled_beside(program, compiled) if compiled else ()
        print(json.dumps(program_json(program, beside)))
    else:
        print("\n".join(_lines(program, compiled, arguments.file, arguments.target)))
    left = {
        each.kind
        for each in (*grouped_findings(program), *findings)
        if not each.is_note
        if not {each.kind, f"{each.kind}:{each.path}"} & {*arguments.accept}
    }
    is_bad = bool(left & kinds or (left and ANY in kinds))
    return int(is_bad or (bool(arguments.target) and compiled is None))


def taken(lab: Lab, file: str, name: str = "") -> Described:
    """The program of a file, taken into the lab; RequestError where it cannot be read."""
    return lab.take_program(read_program(file), name or Path(file).stem)


def read_program(file: str) -> bytes:
    """Returns what a file holds; RequestError where it cannot be read."""
    return read_named("file", file, programs.MOST_BYTES + 1, programs.HOW)


def _on_mesh(described: Described) -> Program:
    return Program(described, described.mesh)


def _compiled(lab: Lab, program: Program, target: str) -> StrategyResult | None:
    given = {"workload": "program_file", "program": program.described.program, "target": target}
    mesh = {"mesh": dict(program.mesh)} if program.mesh else {}
    signal.signal(signal.SIGTERM, interrupt)
    experiment = parse_experiment(given | mesh)
    is_here = not experiment.place.is_absent
    status, _ = run_to_end(lab, experiment, compile_only=is_here)
    result = lab.result(status.run)
    (outcome,) = result.strategies.values() if result else (None,)
    if is_here:
        lab.delete([status.run])  # which is in no list
    if outcome is not None and outcome.status == "ok":
        return outcome
    error = outcome.error if outcome else None
    why = error.message if error else ended_words(status, result)
    print(f"not compiled for {target}: {' '.join(why.split())}", file=sys.stderr)
    return None


def _declared(arguments: Namespace) -> int:
    listed = list(map(_on_mesh, Lab.open(serve=False).take_declared_programs()))
    if arguments.json:
        print(json.dumps([program_json(program) for program in listed]))
    else:
        print(
            "\n\n".join("\n".join(_lines(program)) for program in listed) or "No step is declared."
        )
    return 0


def _lines(
    program: Program,
    compiled: StrategyResult | None = None,
    file: str = "FILE",
    target: str | None = None,
) -> list[str]:
    rows = [("argument", "shape", "dtype", "spec", "a device", "copies")]
    rows += [_row(each) for each in program.arguments()]
    listed = all_findings(program, compiled)
    return [
        f"{program.described.name}: {program_headline(program)}",
        *([f"with {mesh_text(program.sizes)}"] if program.sizes else []),
        *(line for each in listed for line in _finding(each, file, target)),
        *(
            []
            if any(not each.is_note for each in listed)
            else [clean_words(compiled, program=program), checked_words(program, compiled)]
        ),
        *filter(None, [unchecked_words(compiled)] if listed else []),
        "",
        *table(rows, numbers=(4, 5)),
        "",
        f'{{"workload": "program_file", "program": "{program.described.program}"}}',
    ]


def _finding(each: StepFinding, file: str, target: str | None) -> Iterator[str]:
    yield f"{'note, ' * each.is_note}{each.kind}: {each.sentence}"
    if each.specs:
        words = f"{shlex.quote(file)} {what_if_words(dict(each.specs))}"
        where = f" --target {target}" if target else ""
        yield f"  try it: python -m spmd_core what-if {words}{where}"


def _row(held: Held) -> tuple[str, ...]:
    spec = held_spec(held)
    copies = "–" if held.copies is None else str(held.copies)
    shape = shape_text(held.shape)
    return held.leaf.path, shape, held.leaf.dtype, spec, bytes_text(held.bytes_per_device), copies


def program_json(program: Program, compiled: tuple[StepFinding, ...] = ()) -> dict[str, object]:
    """A program as plain JSON values, with its findings in sentences; `compiled`: those of it
    compiled."""
    described = program.described
    return {
        "program": described.program,
        "name": described.name,
        "platforms": list(described.platforms),
        "devices": described.devices,
        "mesh": [list(axis) for axis in program.mesh],
        "symbols": list(described.symbols),
        "arguments": [array.model_dump(mode="json") for array in step_arrays(program.arguments())],
        "outputs": [array.model_dump(mode="json") for array in step_arrays(program.outputs())],
        "findings": [finding.model_dump() for finding in (*grouped_findings(program), *compiled)],
    }
