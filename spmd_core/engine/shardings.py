"""How every step of a program is sharded: read after propagation and before partitioning, from what
the compiler writes of a compile of its own; the program that is timed is left alone.
"""

import linecache
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spmd_core.hlo.shardings import Mesh
from spmd_core.hlo.text import parse_module
from spmd_core.ir.shardings import steps_of
from spmd_core.machine.dump_folder import dump_folder
from spmd_core.results.collective import Collective
from spmd_core.results.shardings import Shardings
from spmd_core.words.shardings import NO_DUMP

# The passes that propagate: Shardy's, and XLA's own where Shardy is off
PASSES = "shardy-xla|sharding-propagation"
_FILES = ("*after_shardy-xla*", "*after_sharding-propagation*")


def compiler_options(folder: Path) -> dict[str, Any]:
    """Have the compiler write the program there as propagation leaves it."""
    return {"xla_dump_to": str(folder), "xla_dump_hlo_as_text": True, "xla_dump_hlo_pass_re": PASSES}


def compiled_again(lowered: Any, mesh: Mesh, collectives: Sequence[Collective]) -> Shardings:
    """The steps of a program, by compiling it once more."""
    with dump_folder() as folder:
        lowered.compile(compiler_options=compiler_options(folder))
        return of_folder(folder, mesh, collectives)


def of_folder(folder: Path, mesh: Mesh, collectives: Sequence[Collective] = ()) -> Shardings:
    """The steps of the program that a compile has written to a folder."""
    files = [file for pattern in _FILES for file in sorted(folder.glob(pattern))]
    if not files:
        return Shardings(reason=NO_DUMP)
    try:
        module = parse_module(files[0].read_text())
        return steps_of(module, mesh, linecache.getlines, collectives)
    except Exception as error:  # a reader that meets what it does not know costs no run
        return Shardings(reason=" ".join(str(error).split())[:300] or type(error).__name__)
