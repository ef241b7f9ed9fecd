"""The equations of a traced step, those of inner functions too, with its callbacks among them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jax._src import callback, core, debugging, dispatch, source_info_util
from jax._src.interpreters import mlir
from jaxlib.mlir.dialects import stablehlo

from spmd_core.engine.step.step_collectives import FUNCTION, scope_of
from spmd_core.results import Place


def equations(jaxpr: Any, outer: str = "") -> Iterator[tuple[Any, str]]:
    """Yields each equation, and the path of the scopes that it is in."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        scopes = f"{outer}/{equation.source_info.name_stack}"
        yield equation, scopes
        for inner in core.jaxprs_in_params(equation.params):
            yield from equations(inner, scopes)


def places_of(jaxpr: Any) -> frozenset[Place]:
    """Returns scope, qualified function and full path of the lines that a step is made of."""
    return frozenset(
        Place(
            scope_of(f"step/{scopes.strip('/')}/op"),
            FUNCTION.sub("", frame.function_name),
            f"{frame.file_name}:{frame.start_line}",
        )
        for equation, scopes in equations(jaxpr)
        for frame in source_info_util.user_frames(equation.source_info.traceback)
    )


_LEFT_OUT = tuple(
    primitive
    for name in ("debug_callback_p", "debug_print_p")
    if (primitive := getattr(debugging, name, None)) is not None
)
_REPLACED = (callback.pure_callback_p, callback.io_callback_p)
_WORDS = {
    "debug_callback": "jax.debug.callback",
    "debug_print": "jax.debug.print",
    "pure_callback": "jax.pure_callback",
    "io_callback": "jax.experimental.io_callback",
}


def callbacks_of(jaxpr: Any) -> tuple[tuple[str, int], ...]:
    """Returns the name of each kind of callback in a jaxpr, and how often it is written there."""
    known = {str(primitive) for primitive in (*_LEFT_OUT, *_REPLACED)}
    counts: Counter[str] = Counter()
    for equation, _ in equations(jaxpr):
        if (name := str(equation.primitive)) in known:
            counts[_WORDS.get(name, name)] += 1
    return tuple(counts.items())


def lowering_rules() -> tuple[tuple[Any, Any], ...]:
    """Returns rules by which a module is lowered without callbacks: a debug callback is nothing, and
    of others there are results of their shapes, which the compiler cannot fold.
    """
    return tuple(
        [(primitive, _nothing) for primitive in _LEFT_OUT]
        + [(primitive, _results) for primitive in _REPLACED]
    )


def _nothing(ctx: Any, *args: Any, **params: Any) -> list[Any]:
    _pass_tokens(ctx)
    return []


def _results(ctx: Any, *args: Any, **params: Any) -> list[Any]:
    _pass_tokens(ctx)
    values = [mlir.full_like_aval(ctx, 0, aval) for aval in ctx.avals_out]
    return list(stablehlo.OptimizationBarrierOp(values).results) if values else []


def _pass_tokens(ctx: Any) -> None:
    if ctx.tokens_in is not None and ctx.tokens_in.effects():
        ctx.set_tokens_out(ctx.tokens_in)


@contextmanager
def without_devices() -> Iterator[None]:
    """Has JAX lower callbacks that are replaced without the devices that it calls them from."""
    kept = dispatch.prim_requires_devices_during_lowering
    there = [primitive for primitive in _REPLACED if primitive in kept]
    kept.difference_update(there)
    try:
        yield
    finally:
        kept.update(there)
