"""Turns a program text into a compiled program, with the time and the text of every step."""

import linecache
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp

from spmd_core.engine.operands import Operands
from spmd_core.engine.stderr import captured, compiler_warnings
from spmd_core.experiment import Experiment
from spmd_core.program import file_name as file_name

RUNS_REMEMBERED = 10
RECORD = "|shardy-verbose"  # a flag of Shardy's: write the record of the propagation
_PASSES = "xla_dump_hlo_pass_re"  # the option with the passes of which the program is written
_MANUAL = "manual_computation"  # a shard_map, as Shardy has it
_RUNS = count(1)


@dataclass(slots=True)
class Lowered:
    """What is to be called, with its arguments placed as it takes them, and the record of how it
    came to be.
    """

    call: Any
    compiled: Any  # None where the call is not one program
    arguments: tuple[Any, ...]
    unsharded: tuple[Any, ...] | None  # uncommitted arguments, where the program takes such
    seconds: dict[str, float]
    texts: dict[str, str]
    warnings: tuple[str, ...] = ()
    names: Mapping[str, Any] = field(default_factory=dict)  # the namespace of the executed text
    lowered: Any = None  # what was compiled, where something was


def execute(text: str, name: str) -> dict[str, Any]:
    """Run a program text as a module of that file name; tracebacks and compiled programs quote its
    lines. The module's names.
    """
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": name.removesuffix(".py"), "__file__": name}
    exec(compile(text, name, "exec"), names)
    return names


def place(operands: Mapping[str, Any], placed: Mapping[str, Any]) -> tuple[Any, ...]:
    """Operands as arrays placed by `placed`; None there means uncommitted on the default device."""
    if not isinstance(operands, Operands):  # arranged for one strategy alone
        operands = Operands(operands)
    return tuple(jax.block_until_ready([operands.place(name, placed[name]) for name in operands]))


@dataclass(slots=True)
class Steps:
    """Times one step after the other by `clock`, in seconds, calling `phase` with each step."""

    phase: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)
    clock: Callable[[], float] = perf_counter

    def __call__(self, name: str, step: Callable[[], Any]) -> Any:
        """The outcome of a step; its seconds are kept under its name."""
        self.phase(name)
        start = self.clock()
        outcome = step()
        self.seconds[name] = self.clock() - start
        return outcome


def jaxpr_text(jaxpr: Any) -> str:
    """A jaxpr as JAX prints it, each equation followed by the line that it comes from; JAX pads
    those comments to a column far to the right.
    """
    return re.sub(
        r" +# ?(.*)$",
        lambda comment: f"  # {comment[1]}" if comment[1] else "",
        jaxpr.pretty_print(source_info=True),
        flags=re.MULTILINE,
    )


def _arguments(operands: Mapping[str, Any], names: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a program is traced with: shapes alone where an operand is left to the compiler, and
    there is no device that all processes have.
    """
    placed = names["placed"]
    is_open = any(sharding is None for sharding in placed.values())
    if not is_open or jax.process_count() == 1 or "mesh" not in names:
        return place(operands, placed)
    return tuple(
        jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=placed[name])
        for name, value in operands.items()
    )


def compile_with(lowered: Any, options: Mapping[str, object] | None) -> Any:
    """Compiles a lowered program with options of the compiler.

    Of a program with a shard_map the compiler writes no record of its propagation: while it does,
    propagation may end the process (jaxlib 0.10.2, SIGSEGV).
    """
    given = {**options} if options else None
    passes = str(given.get(_PASSES, "")) if given else ""
    if given and RECORD in passes and _MANUAL in lowered.as_text():
        given[_PASSES] = passes.replace(RECORD, "")
    return lowered.compile(compiler_options=given)


def lower(
    text: str,
    names: Mapping[str, Any],
    operands: Mapping[str, Any],
    phase: Callable[[str], None],
    options: dict[str, object] | None = None,
) -> Lowered:
    """Trace, lower and compile `program` ahead of time: the compiled program is what is called.
    `options` are the compiler's.
    """
    arguments, steps = _arguments(operands, names), Steps(phase)
    with captured() as log:
        traced = steps("trace", lambda: names["program"].trace(*arguments))
        lowered = steps("lower", traced.lower)
        compiled = steps("compile", partial(compile_with, lowered, options))
    texts = {
        "program": text,
        "jaxpr": traced.jaxpr and jaxpr_text(traced.jaxpr),
        "stablehlo": lowered.as_text(debug_info=True),
        "hlo": compiled.as_text(),
    }
    unsharded = None
    if any(sharding is None for sharding in names["placed"].values()):
        unsharded = arguments if isinstance(arguments[0], jax.Array) else None
        arguments = place(operands, dict(zip(operands, compiled.input_shardings[0], strict=True)))
    return Lowered(
        names["calling"](compiled) if "calling" in names else compiled,
        compiled,
        arguments,
        unsharded,
        steps.seconds,
        texts,
        compiler_warnings(log[0]),
        names,
        lowered,
    )


def look_into(
    text: str,
    names: Mapping[str, Any],
    operands: Mapping[str, Any],
    phase: Callable[[str], None],
    options: dict[str, object] | None = None,
) -> Lowered:
    """Make ready a `program` that is called as it is, and look into it: the steps that it has, and
    their texts.

    vmap by itself dispatches one operation after the other: there is no program of it to lower.
    pmap is lowered in one step,
    tracing included.
    """
    arranged = names["arrange"](operands) if "arrange" in names else operands
    arguments, steps, program = place(arranged, names["placed"]), Steps(phase), names["program"]
    lowered, compiled, texts = None, None, {"program": text}
    with captured() as log:
        traced = (
            steps("trace", lambda: program.trace(*arguments)) if hasattr(program, "trace") else None
        )
        texts["jaxpr"] = jaxpr_text(traced.jaxpr if traced else jax.make_jaxpr(program)(*arguments))
        if hasattr(program, "lower"):
            lowered = steps("lower", traced.lower if traced else lambda: program.lower(*arguments))
            compiled = steps("compile", partial(compile_with, lowered, options))
            texts |= {"stablehlo": lowered.as_text(debug_info=True), "hlo": compiled.as_text()}
    return Lowered(
        program,
        compiled,
        arguments,
        None,
        steps.seconds,
        texts,
        compiler_warnings(log[0]),
        names,
        lowered,
    )


def memory_account(compiled: Any) -> dict[str, int]:
    """The compiler's account of memory in bytes, by its own names without their endings."""
    analysis = compiled.memory_analysis()
    return {
        name.removesuffix("_size_in_bytes").removesuffix("_in_bytes"): int(getattr(analysis, name))
        for name in dir(analysis)
        if name.endswith("_in_bytes")
    }


def structs(experiment: Experiment, names: Mapping[str, Any]) -> list[jax.ShapeDtypeStruct]:
    """Operands as shapes; one without a placement is replicated over the mesh, since an
    absent device holds no array.
    """
    return [
        jax.ShapeDtypeStruct(
            experiment.shape(array.name),
            jnp.dtype(array.dtype or experiment.dtype),
            sharding=names["placed"][array.name],
        )
        for array in experiment.what.operands
    ]


def forget_now_and_then() -> None:
    """Drop what JAX keeps of programs of past runs, about 5 MB a run; not each time, since the next
    run has to trace more.
    """
    if next(_RUNS) % RUNS_REMEMBERED == 0:
        jax.clear_caches()
