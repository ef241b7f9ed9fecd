"""Turns a program text into a compiled program, with the time and the text of every step."""

import linecache
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import jax

from spmd_core.engine.stderr import captured, compiler_warnings


@dataclass(slots=True)
class Lowered:
    """A compiled program with its arguments placed as compiled, and the record of how it came to be."""

    compiled: Any
    arguments: tuple[Any, ...]
    unsharded: tuple[Any, ...] | None  # uncommitted arguments, where the program takes such
    seconds: dict[str, float]
    texts: dict[str, str]
    warnings: tuple[str, ...] = ()
    names: dict[str, Any] = field(default_factory=dict)  # the namespace of the executed text


def file_name(workload: str, strategy: str) -> str:
    """The name under which a program text is executed, as source lines quote it."""
    return f"{workload}_{strategy}.py"


def execute(text: str, name: str) -> dict[str, Any]:
    """Run a program text as a module of that file name; tracebacks and compiled programs quote its lines. The module's names."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": name.removesuffix(".py"), "__file__": name}
    exec(compile(text, name, "exec"), names)
    return names


def place(operands: dict[str, Any], placed: dict[str, Any]) -> tuple[Any, ...]:
    """Operands as arrays placed by `placed`; None there means uncommitted on the default device."""
    arrays = [jax.numpy.asarray(value) if placed[name] is None else jax.device_put(value, placed[name]) for name, value in operands.items()]
    return tuple(jax.block_until_ready(arrays))


def lower(text: str, names: dict[str, Any], operands: dict[str, Any], phase: Callable[[str], None]) -> Lowered:
    """Trace, lower and compile `program` ahead of time, telling `phase` what begins."""
    arguments = place(operands, names["placed"])
    seconds: dict[str, float] = {}

    def timed(name: str, step: Callable[[], Any]) -> Any:
        phase(name)
        start = perf_counter()
        outcome = step()
        seconds[name] = perf_counter() - start
        return outcome

    with captured() as log:
        traced = timed("trace", lambda: names["program"].trace(*arguments))
        lowered = timed("lower", traced.lower)
        compiled = timed("compile", lowered.compile)
    texts = {"program": text, "jaxpr": str(traced.jaxpr), "stablehlo": lowered.as_text(debug_info=True), "hlo": compiled.as_text()}
    unsharded = None
    if any(sharding is None for sharding in names["placed"].values()):
        unsharded = arguments
        shardings = compiled.input_shardings[0]
        arguments = tuple(jax.block_until_ready([jax.device_put(value, sharding) for value, sharding in zip(arguments, shardings, strict=True)]))
    return Lowered(compiled, arguments, unsharded, seconds, texts, compiler_warnings(log[0]), names)
