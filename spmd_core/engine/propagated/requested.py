"""Returns the collectives that a program requests, by Shardy's propagation alone."""

from collections import OrderedDict
from dataclasses import replace
from typing import Any

from jax._src.interpreters import mlir
from jaxlib.mlir import ir

from spmd_core.engine.exported.lower import complete, kept_leaves, meshed, output_spec, quoted_files
from spmd_core.engine.exported.module import Main
from spmd_core.engine.lower import execute, structs
from spmd_core.engine.propagated.as_xla import as_xla
from spmd_core.engine.propagated.passes import propagate
from spmd_core.engine.propagated.read import Reader
from spmd_core.experiment import Experiment, Program
from spmd_core.program import file_name
from spmd_core.results import Requested
from spmd_core.script import program_text

MOST_KEPT = 8  # programs of which all but the specs of arguments is ready
_ready: "OrderedDict[object, bytes]" = OrderedDict()


def propagated(experiment: Experiment, strategy: str) -> tuple[Requested, ...]:
    """Returns the collectives that the program of a strategy requests.

    Raises:
      RequestError: the passes of this jaxlib refuse it.
    """
    files = quoted_files(experiment, strategy)
    own = (files,) if isinstance(files, str) else files
    reader = Reader(experiment.mesh, own, experiment.place.is_simulated)
    program = experiment.exported
    key = experiment.id, strategy
    if program:
        key = (
            experiment.target,
            program.described.program,
            program.mesh,
            program.sizes,
            program.constraints,
        )
    with mlir.make_ir_context():
        module = ir.Module.parse(_kept(repr(key), experiment, strategy))
        if program:
            main = Main(module)
            main.shard_arguments([program.spec(leaf) for leaf in kept_leaves(program)])
            main.shard_results([output_spec(program, leaf) for leaf in program.described.outputs])
        propagate(module)
        return tuple(reader.inside(module.operation))


def _kept(key: str, experiment: Experiment, strategy: str) -> bytes:
    """The module as XLA propagates it, but for the specs of an exported program's ends."""
    if key not in _ready:
        if program := experiment.exported:
            module = _open(program, experiment)
            with module.context:
                _ready[key] = _bytecode(as_xla(module))
        else:
            with mlir.make_ir_context():
                module = ir.Module.parse(_lowered(experiment, strategy))
                _ready[key] = _bytecode(as_xla(module))
        while len(_ready) > MOST_KEPT:
            _ready.popitem(last=False)
    _ready.move_to_end(key)
    return _ready[key]


def _open(program: Program, experiment: Experiment) -> ir.Module:
    """The module of an exported program, constrained, with no spec at its ends."""
    place = experiment.place
    platform = place.kind if place.is_absent else "cpu"
    held = tuple((pattern, spec) for pattern, spec in program.specs if pattern.startswith("@"))
    module = meshed(replace(program, specs=held), platform, runs=False)
    with module.context:
        Main(module).leave_open()
    return module


def _bytecode(module: ir.Module) -> bytes:
    given: Any = mlir.module_to_bytecode(module)
    return given


def _lowered(experiment: Experiment, strategy: str) -> str:
    names = execute(program_text(experiment, strategy), file_name(experiment.workload, strategy))
    lowered = complete(names, experiment)["program"].trace(*structs(experiment, names)).lower()
    return lowered.as_text(debug_info=True)
