"""Takes a program that `jax.export` wrote, and prints what each device holds of it, and what in it
is hardly meant.
"""

import json
from argparse import Namespace
from pathlib import Path

from spmd_core.base import bytes_text, mesh_text, read_file, refuse, shorten
from spmd_core.commands.printed.table import table
from spmd_core.experiment import Held, Program, programs, shape_text
from spmd_core.lab import Lab
from spmd_core.words import findings_lines, held_spec, program_headline, program_json

ARGUMENTS = {
    "file": {"metavar": "FILE", "nargs": "?", "help": "what `Exported.serialize()` returned"},
    "--declared": {
        "action": "store_true",
        "help": "instead: the steps that the files of SPMD_LAB_WORKLOADS declare with a mesh",
    },
    "--name": {"default": "", "help": "how it is called in lists"},
}


def main(arguments: Namespace) -> int:
    """Take the program, or those that are declared, and print them."""
    if arguments.declared == (arguments.file is not None):
        raise refuse("program", "takes a FILE or --declared", "give one of them")
    if arguments.declared:
        return _declared(arguments)
    path = Path(arguments.file)
    try:
        data = read_file(path, programs.MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # a name with a NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise refuse(
            f"file {shorten(arguments.file)}", f"cannot be read ({reason.lower()})", programs.HOW
        ) from None
    described = Lab.open(serve=False).take_program(data, arguments.name or path.stem)
    program = Program(described, described.mesh)
    if arguments.json:
        print(json.dumps(program_json(program)))
        return 0
    print("\n".join(_lines(program)))
    return 0


def _declared(arguments: Namespace) -> int:
    taken = Lab.open(serve=False).take_declared_programs()
    listed = [Program(described, described.mesh) for described in taken]
    if arguments.json:
        print(json.dumps([program_json(program) for program in listed]))
    else:
        print(
            "\n\n".join("\n".join(_lines(program)) for program in listed) or "No step is declared."
        )
    return 0


def _lines(program: Program) -> list[str]:
    rows = [("argument", "shape", "dtype", "spec", "a device", "copies")]
    rows += [_row(each) for each in program.arguments()]
    return [
        f"{program.described.name}: {program_headline(program)}",
        *([f"with {mesh_text(program.sizes)}"] if program.sizes else []),
        *(f"{kind}: {sentence}" for kind, sentence in findings_lines(program)),
        "",
        *table(rows, numbers=(4, 5)),
        "",
        f'{{"workload": "program_file", "program": "{program.described.program}"}}',
    ]


def _row(held: Held) -> tuple[str, ...]:
    spec = held_spec(held)
    copies = "–" if held.copies is None else str(held.copies)
    shape = shape_text(held.shape)
    return held.leaf.path, shape, held.leaf.dtype, spec, bytes_text(held.bytes_per_device), copies
