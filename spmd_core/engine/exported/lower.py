"""An exported program on the mesh of an experiment, lowered as `jax.jit` would lower its Python."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax._src.interpreters import mlir
from jax._src.lax import linalg
from jaxlib.mlir import ir, passmanager

from spmd_core.engine.exported import module as modules
from spmd_core.engine.exported.allowed import check_module, check_runs
from spmd_core.engine.exported.by_hand import renumber
from spmd_core.engine.exported.constrained import constrain
from spmd_core.experiment import Experiment
from spmd_core.fields import Mesh, Spec
from spmd_core.program import file_name
from spmd_core.workloads import Leaf, Program, programs

Names = Mapping[str, Any]


@dataclass(frozen=True)
class ProgramFile:
    """What the text of another workload defines as `program`: to be traced and lowered. There is no
    jaxpr: the file holds what was lowered.
    """

    experiment: Experiment
    outputs: Sequence[Any]  # shardings, None where the compiler decides
    jaxpr: str = ""

    def trace(self, *arguments: Any) -> "ProgramFile":
        """Itself, with the arguments that it is lowered for."""
        return _Traced(self.experiment, self.outputs, arguments=arguments)


@dataclass(frozen=True)
class _Traced(ProgramFile):
    arguments: tuple[Any, ...] = ()

    def lower(self) -> Any:
        """Lowered by JAX with the module of the file: what JAX lowers is a function of the same
        arguments and results, whose module is then replaced.
        """
        program = self.experiment.exported
        assert program is not None
        platform = self.arguments[0].sharding.mesh.devices.flat[0].platform
        if platform == "cpu":
            # as tracing would, for calls of its functions
            getattr(linalg, "initialize_lapack", lambda: None)()  # not before JAX 0.9
        return lowered_with(
            program,
            meshed(program, platform, runs=not self.experiment.place.is_absent),
            self.arguments,
            donate_argnums=[at for at, leaf in enumerate(kept_leaves(program)) if leaf.is_donated],
            out_shardings=tuple(self.outputs),
        )


def lowered_with(
    program: Program,
    module: Any,
    arguments: Sequence[Any],
    more: Sequence[tuple[tuple[int, ...], Any]] = (),
    **options: Any,
) -> jax.stages.Lowered:
    """What JAX lowers of a function of zeros with the program's outputs, and `more` (shape, dtype),
    with `module` in the place of its own. `options` are those of `jax.jit`.
    """
    outputs = [(program.shape(leaf), jnp.dtype(leaf.dtype)) for leaf in program.described.outputs]
    outputs += more
    jitted = jax.jit(
        lambda *arrays: tuple(jnp.zeros(shape, dtype) for shape, dtype in outputs),
        keep_unused=True,
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of donations that a function of zeros cannot use
        lowered = jitted.trace(*arguments).lower()
    # which is private: `tests/engine/exported` watches it on both versions of JAX
    lowering: Any = lowered._lowering
    lowering._hlo = module
    return lowered


def complete(names: Names, experiment: Experiment) -> Names:
    """The names of an executed text that the engine calls, of an exported program."""
    program = experiment.exported
    if program is None:
        return names
    outputs = [
        jax.sharding.NamedSharding(
            names["mesh"],
            jax.sharding.PartitionSpec(*spec),
            memory_kind=experiment.memory_kind(leaf.path),
        )
        if (spec := output_spec(program, leaf)) is not None
        else None
        for leaf in program.described.outputs
    ]
    return {
        **names,
        "program": ProgramFile(experiment, outputs),
        "make_operands": partial(draw, program, experiment.seed),
        "calling": partial(Fed, program),
    }


class Fed:
    """A compiled program that donates arguments, called again and again: what an output replaces is
    the next call's argument, and what is donated for nothing is copied first.
    """

    def __init__(self, program: Program, compiled: Any) -> None:
        self._compiled = compiled
        self._held: list[jax.Array] = []
        kept = kept_leaves(program)
        places = {leaf.path: place for place, leaf in enumerate(kept)}
        self._donated = [place for place, leaf in enumerate(kept) if leaf.is_donated]
        self._fed = {
            places[leaf.replaces]: place
            for place, leaf in enumerate(program.described.outputs)
            if leaf.replaces in places
        }

    def __call__(self, *arguments: jax.Array) -> Any:
        """Its outputs; `arguments` count the first time, and are not donated themselves."""
        fresh = self._donated if not self._held else set(self._donated) - set(self._fed)
        self._held = self._held or list(arguments)
        given = [jnp.copy(each) if at in fresh else each for at, each in enumerate(self._held)]
        outputs = self._compiled(*given)
        for place in set(self._donated) & set(self._fed):
            output, like = outputs[self._fed[place]], self._held[place].sharding
            is_alike = output.sharding.is_equivalent_to(like, output.ndim)
            self._held[place] = output if is_alike else jax.device_put(output, like)
        return outputs


def quoted_files(experiment: Experiment, strategy: str) -> str | tuple[str, ...]:
    """The files that source lines are quoted of: the program's text, or what its author wrote."""
    if program := experiment.exported:
        return program.described.files
    return file_name(experiment.workload, strategy)


def meshed(program: Program, platform: str, inlined: bool = False, runs: bool = True) -> ir.Module:
    """The module of a program on its mesh, with its specs and sizes, for one platform; `inlined`:
    as a single function; `runs`: to be run, not only compiled. RequestError for one that is not
    allowed, or not exported for it.
    """
    described = program.described
    programs.check_platform(described, platform)
    programs.check_held(described.program)
    with mlir.make_ir_context():
        given = described.program, described.mesh, program.mesh, platform
        module = ir.Module.parse(_prepared(*given, is_final=not described.symbols))
        main = modules.Main(module)
        kept = kept_leaves(program)
        specs = [program.spec(leaf) for leaf in kept]
        results = [output_spec(program, leaf) for leaf in described.outputs]
        main.shard_arguments(specs)
        for source, spec in program.constraints:
            constrain(module, described.files, source, spec)
        main.shard_results(results)
        main.free_donations(specs, results)
        if described.symbols:
            main.resize([program.shape(leaf) for leaf in kept])
        if inlined or described.symbols:  # which JAX refines too
            module = mlir.refine_polymorphic_shapes(module)
            check_module(module, is_final=True)
        if runs:
            check_runs(module)
        return module


@lru_cache(maxsize=4)  # the next question about a program differs in specs alone, as a rule
def _prepared(sha256: str, own: Mesh, mesh: Mesh, platform: str, is_final: bool) -> bytes:
    """The module of a program on a mesh, for one platform, as bytecode: its own specs stay."""
    exported = export.deserialize(bytearray(programs.artifact(sha256)))
    with mlir.make_ir_context():
        module = modules.module_of(exported)
        check_module(module)
        if mesh != own:
            module = modules.parsed(modules.on_mesh(modules.printed(module), mesh))
            if own:
                renumber(module, own, mesh)
        modules.Main(module).choose_platform(exported.platforms, platform)
        # without the functions of other platforms
        passmanager.PassManager.parse("builtin.module(symbol-dce)").run(module.operation)
        check_module(module, is_final)
        return mlir.module_to_bytecode(module)


def draw(program: Program, seed: int) -> dict[str, np.ndarray]:
    """An array for each argument that the program uses: floats from a normal distribution, small
    enough to stay finite; integers within the smallest dim that they index.
    """
    rng = np.random.default_rng(seed)
    return {leaf.path: _drawn(rng, leaf, program.shape(leaf)) for leaf in kept_leaves(program)}


def _drawn(rng: np.random.Generator, leaf: Leaf, shape: tuple[int, ...]) -> np.ndarray:
    dtype = jnp.dtype(leaf.dtype)
    if leaf.dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if jnp.issubdtype(dtype, jnp.integer):
        return rng.integers(0, leaf.index_below or 2, shape).astype(dtype)
    return np.asarray(np.abs(rng.normal(size=shape)) * 0.02).astype(dtype)


def output_spec(program: Program, leaf: Leaf) -> Spec | None:
    """The spec that an output is compiled with; None where the compiler decides. Of a file without
    a mesh, state keeps the spec that it is given: it can be donated then.
    """
    is_given = leaf.spec is not None or not program.described.mesh
    return program.output_spec(leaf) if is_given else None


def kept_leaves(program: Program) -> list[Leaf]:
    """Returns the arguments that the program uses, which its module has."""
    return [leaf for leaf in program.described.arguments if leaf.is_kept]
