"""Explains a step in one call: traced as it is, compiled here, or for a target in another process."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from spmd_core.base import RequestError, package_version, refuse
from spmd_core.machine import Target, parse_target

if TYPE_CHECKING:
    from spmd_core.own.explanation import Explanation
    from spmd_core.results import CompiledStep

OLDEST_JAX = (0, 8)
_COMPILERS = {
    "gpu": ("jax-cuda12-plugin", "jax-cuda13-plugin"),
    "tpu": ("libtpu", "libtpu-nightly"),
}
# Returns a compiled step, given what identifies it and what compiles it.
Answers = Callable[[Callable[[], bytes], Callable[[], "CompiledStep"]], "CompiledStep"]


def _compile(key: Callable[[], bytes], compiled: Callable[[], "CompiledStep"]) -> "CompiledStep":
    return compiled()


@dataclass(frozen=True)
class Explainer:
    """A step that is explained once it is called with its arguments."""

    step: Callable[..., Any]
    target: Target | None
    mesh: Mapping[str, int] | None
    specs: tuple[tuple[str, Any], ...]
    answers: Answers = _compile

    def __call__(self, *args: Any, **kwargs: Any) -> "Explanation":
        """Trace and compile the step; nothing runs.

        Args:
            *args: the step's own arguments: arrays or `jax.ShapeDtypeStruct`, in pytrees of any
                kind.
            **kwargs: the same by name.

        Raises:
            RequestError: the arguments do not fit the mesh, or the step cannot be taken.
            WorkerError: the target's compiler is missing, or refuses the step.
            Exception: whatever the step or JAX raises while it is traced.
        """
        _check_jax()
        if self.target is not None and self.target.is_absent:
            _check_compiler(self.target)
        # JAX loads here: whoever imports this module may have no use for it yet
        from spmd_core.engine.step import capture, equations, here, tracing
        from spmd_core.own.explanation import Explanation, More

        traced = tracing.trace(self.step, args, kwargs)
        more = More(
            partial(capture.exported, traced, "tpu", "cpu"),
            partial(equations.places_of, traced.traced.jaxpr),
            partial(capture.named_values, traced),
        )
        target = self.target or _simulated(self.mesh or tracing.abstract_mesh((args, kwargs)))
        if target is None:
            text = partial(capture.text_of, traced)
            return Explanation.of(self.answers(text, partial(here.compiled_step, traced)), more)
        from spmd_core.own.elsewhere import compiled_elsewhere  # and the lab with it

        data = capture.exported(traced, _platform(target))
        elsewhere = (traced.function, target.text, self.mesh, self.specs)
        compiled = self.answers(
            lambda: data + repr(elsewhere).encode(), partial(compiled_elsewhere, data, *elsewhere)
        )
        compiled = compiled.model_copy(update=tracing.more_facts(traced))
        return Explanation.of(compiled, more)


def explain(
    step: Callable[..., Any],
    *,
    target: str | None = None,
    mesh: Mapping[str, int] | None = None,
    specs: Mapping[str, Any] | None = None,
) -> Explainer:
    """Explain what a step communicates, holds and costs.

    `explain(step)(*args, **kwargs)` traces the step in this process and compiles it once, on the
    devices of its arguments. With a target it is compiled in another process, and no backend is
    started in this one.

    Args:
        step: a function, jitted or not, by `jax.jit`, `eqx.filter_jit` or `nnx.jit`.
        target: `tpu:v5e:4x4`, `gpu:h100:8` or `cpu:8`; None for the devices that are here.
        mesh: sizes of the step's mesh axes, where these are other than its own; axes of any name
            for a step without shardings.
        specs: path pattern -> `PartitionSpec`, such as `{"params/*/up": P("fsdp", "tensor")}`: the
            first that matches an argument counts.

    Returns:
        A function of the step's own arguments, which returns an `Explanation`.

    Raises:
        RequestError: there is no such target.
    """
    parsed = parse_target(target) if target is not None else None
    if parsed is not None and parsed.is_attached:
        parsed = None
    given = tuple(
        (path, [list(dim) if isinstance(dim, tuple) else dim for dim in spec])
        for path, spec in (specs or {}).items()
    )
    if given and parsed is None and mesh is None:
        raise refuse("specs=", "change a step for a target", 'name one, such as target="cpu:8"')
    return Explainer(step, parsed, mesh, given)


def _simulated(mesh: Mapping[str, int] | None) -> Target | None:
    return None if mesh is None else parse_target(f"cpu:{prod(mesh.values())}")


def _platform(target: Target) -> str:
    if target.is_gpu:
        return "cuda"
    return "tpu" if target.is_absent else "cpu"


def _check_compiler(target: Target) -> None:
    extra = "gpu" if target.is_gpu else "tpu"
    packages = _COMPILERS[extra]
    if not any(map(package_version, packages)) and "TPU_LIBRARY_PATH" not in os.environ:
        rule = f"needs {packages[0]}, which is not installed"
        raise refuse(f"target {target.text}", rule, f'run `pip install "spmd-lab[{extra}]"`')


def _check_jax() -> None:
    if (version := package_version("jax")) is None:
        raise RequestError("jax is not installed: run `pip install jax`")
    if tuple(_numbers(version))[:2] < OLDEST_JAX:
        oldest = ".".join(map(str, OLDEST_JAX))
        raise refuse(f"JAX {version}", f"is older than {oldest}", "install a newer one")


def _numbers(version: str) -> Iterator[int]:
    for part in version.split("."):
        if not part.isdigit():
            return
        yield int(part)
