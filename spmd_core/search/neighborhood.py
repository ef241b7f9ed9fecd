"""What a search changes of a plan: the policies that it tries, and the plans one change away."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from spmd_core.base import RequestError
from spmd_core.plan import (
    AXES,
    CONTEXT,
    LONG_SEQUENCE,
    MICROBATCHES,
    NAMES,
    WITHOUT_RINGS,
    Plan,
    option_words,
    remat_words,
)
from spmd_core.search.question import REMATS
from spmd_core.time import MeshEstimates
from spmd_core.workloads import changed_plan

Remat = Literal["none", "minimal", "full"]
# Arrays that one decision is made of: alone none of them spares a matmul of its own kind.
GROUPS: tuple[tuple[str, ...], ...] = (
    ("query", "key", "value"),
    ("out",),
    ("attention",),
    ("mlp_up", "mlp_gate"),
)


Options = tuple[tuple[str, Any], ...]  # fields of a plan


@dataclass(frozen=True, slots=True)
class Policy:
    """Fields of a plan for what the forward pass saves, and where; `options`: others that are tried,
    of a pipeline its schedule.
    """

    remat: Remat
    save: tuple[str, ...] = ()
    offload: tuple[str, ...] = ()
    options: Options = ()

    @property
    def fields(self) -> dict[str, object]:
        """As a plan has them."""
        saved = {"remat": self.remat, "save": self.save, "offload": self.offload}
        return saved | dict(self.options)

    @property
    def words(self) -> str:
        """As a name of a candidate has it."""
        saved = remat_words(self.remat, self.save, self.offload)
        return "; ".join([saved, *option_words(dict(self.options))])


def policies(
    remat: tuple[str, ...], offloads: bool, gated: bool, post_norms: bool = False
) -> tuple[Policy, ...]:
    """Every policy: none, minimal, and full with each group recomputed, saved or offloaded, and the
    block's input on the device or offloaded. Fewest bytes last: the order has no other meaning.
    With `post_norms` minimal saves one projection more than any of full: with attention too.
    """
    tried = [Policy("none")] if "none" in remat else []
    if "minimal" in remat:
        tried.append(Policy("minimal"))
    more = [Policy("minimal", ("attention",))] if post_norms and "minimal" in remat else []
    if "full" not in remat:
        return (*tried, *more)
    ways = ("", "save", "offload") if offloads else ("", "save")
    for place in ("", "offload") if offloads else ("",):
        for chosen in itertools.product(ways, repeat=len(GROUPS)):
            named = {"input": place} | {
                name: way
                for way, group in zip(chosen, GROUPS, strict=True)
                for name in group
                if gated or name != "mlp_gate"
            }
            tried.append(Policy("full", _named(named, "save"), _named(named, "offload")))
    return (*tried[:-1], *more, tried[-1])


def step_options(given: Mapping[str, Any], may_pass_in_rings: bool) -> tuple[Options, ...]:
    """Returns what may make a step without stages faster on any mesh, of what is not `given`, the
    plainest first: no collective matmuls, where the compiler makes some; gradients of microbatches
    that are added up, whose activations take less memory.
    """
    flags = (*(given.get("compiler_flags") or ()), WITHOUT_RINGS)
    without: list[Options] = [(("compiler_flags", flags),)] if may_pass_in_rings else []
    counts: list[Options] = [(("microbatches", count),) for count in MICROBATCHES]
    return tuple(
        (*count, *flag)
        for count in ((), *(counts if given.get("microbatches") is None else ()))
        for flag in ((), *without)
    )


def under_options(tried: Sequence[Policy], options: Sequence[Options]) -> tuple[Policy, ...]:
    """Returns policies under each of the options but the empty ones; microbatches in place of what is
    offloaded.
    """
    return tuple(
        replace(policy, options=each)
        for each in options
        for policy in tried
        if each and not (policy.offload and "microbatches" in dict(each))
    )


def smallest(tried: Sequence[Policy]) -> list[Policy]:
    """Returns the policies of which one holds the least on a device and in its host's memory: of the
    rematerializations the one that saves least, under each schedule; its input, and all else that it
    may offload, on either side.
    """
    least = max((each.remat for each in tried), key=REMATS.index)
    ends = ((), ("input",), tried[-1].offload)
    return [
        each for each in tried if each.remat == least and not each.save and each.offload in ends
    ]


# schedules that a pipeline is tried with where none is given; the plainest last
SCHEDULES_TRIED: tuple[Options, ...] = (
    (("schedule", "zb-h1"),),
    (("schedule", "interleaved"), ("repeats", 2)),
    (("schedule", "1f1b"),),
)


def pipeline_policies(remat: tuple[str, ...], is_given: bool) -> tuple[Policy, ...]:
    """Policies of a pipeline, under each schedule unless one is given; fewest bytes last."""
    schedules = ((),) if is_given else SCHEDULES_TRIED
    return tuple(
        Policy(each, options=schedule)
        for schedule in schedules
        for each in ("none", "minimal", "full")
        if each in remat
    )


def _named(ways: dict[str, str], way: str) -> tuple[str, ...]:
    return tuple(name for name in NAMES if ways.get(name) == way)


Mesh = dict[str, int]


def neighbors(plan: Plan) -> Iterator[Plan]:
    """Plans one change away on the same chips, each once: part or all of an axis moved to any
    other, another policy of a search or of one name, twice or half the sequences.
    """
    seen: set[Plan] = set()
    seen.add(plan)
    for change in _changes(plan):
        try:
            other = changed_plan(plan, change)
        except RequestError:
            continue
        if other not in seen:
            seen.add(other)
            yield other


@lru_cache(64)  # each view of a result needs it
def best_neighbors(plan: Plan) -> tuple[tuple[float, Plan], ...]:
    """(estimated seconds per token, neighbor) of those that are sure to fit, the fastest first; of
    equal ones that which offloads and saves less.
    """
    capacity = plan.topology.chip.capacity
    of_mesh: dict[tuple[object, ...], MeshEstimates] = {}
    fitting = []
    for other in neighbors(plan):
        key = other.mesh, other.batch
        estimates = of_mesh[key] = of_mesh.get(key) or MeshEstimates(other)
        memory = estimates.memory(other)
        if memory.fits(capacity) == "yes":
            seconds = estimates.time(other, memory.host).estimate
            fitting.append((seconds / other.tokens, other))
    fitting.sort(key=lambda pair: (pair[0], len(pair[1].offload), len(pair[1].save)))
    return tuple(fitting)


def _changes(plan: Plan) -> Iterator[dict[str, Any]]:
    for policy in policies(
        ("none", "minimal", "full"), True, plan.size.gated, plan.size.post_norms
    ):
        yield policy.fields
    for name in NAMES if plan.remat != "none" else ():
        save, offload = set(plan.save) - {name}, set(plan.offload) - {name}
        for more in ({"save": save}, {"save": save | {name}}, {"offload": offload | {name}}):
            now = {"save": save, "offload": offload} | more
            yield {field: tuple(names) for field, names in now.items()}
    yield from ({"batch_per_device": plan.batch_per_device * by} for by in (2, 0.5))
    if plan.stages == 1:
        yield from ({"microbatches": count} for count in (1, *MICROBATCHES))
    yield from ({"mesh": tuple(mesh.items())} for mesh in _meshes(plan))


def _meshes(plan: Plan) -> Iterator[Mesh]:
    """Meshes in which a factor of one axis moves to another; slices stay on the first axis."""
    sizes, slices = dict(plan.mesh), plan.topology.slices
    idle = {"expert"} if plan.size.experts == 1 else set[str]()
    idle |= {CONTEXT} if plan.sequence < LONG_SEQUENCE else set()
    names = [name for name in AXES if name not in idle]
    for source, size in sizes.items():
        for factor in _factors(size):
            for other in names:
                if other != source:
                    mesh = {name: sizes.get(name, 1) for name in names}
                    mesh |= {source: size // factor, other: mesh[other] * factor}
                    kept = {name: each for name, each in mesh.items() if each > 1}
                    if next(iter(kept.values()), 1) % slices == 0:
                        yield kept or {"fsdp": 1}


def _factors(size: int) -> list[int]:
    """The least factor of a size, and the size.

    >>> _factors(12), _factors(2), _factors(1)
    ([2, 12], [2], [])
    """
    least = next((each for each in range(2, math.isqrt(size) + 1) if size % each == 0), size)
    return sorted({least, size} - {1})
