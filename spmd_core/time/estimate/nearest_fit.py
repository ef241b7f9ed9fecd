"""The smallest change to a plan that makes it fit, by the instant estimate.

What the reader gives up decides the order, the least first:

1. **Time only.** The same chips train on the same batch: parameters sharded in place of
   replicated, within each slice or over all, or the optimizer's state alone (ZeRO-1), full
   rematerialization, saved activations offloaded, gradients of microbatches added up.
2. **Batch.** The same chips take fewer sequences in a step, as many as fit; where one per shard is
   still too much, each sequence or each layer is sharded over more devices.
3. **Chips.** The smallest slice of the same generation, else the fewest of its largest slices, on
   which the plan fits as it is, or with what 1 and 2 change.

Within each, the fewest changes win, and among these the most tokens per second per chip.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spmd_core.base import RequestError
from spmd_core.experiment import Experiment, experiment_of, resized
from spmd_core.facts import Prediction
from spmd_core.plan import DATA_AXES, MICROBATCHES, NAMES, Plan
from spmd_core.time.estimate.in_parts import estimate_memory, estimate_step
from spmd_core.workloads import DECODER, changed_plan

_SPLITS = {"tensor": (4, 8), "sequence": (2, 4, 8, 16, 32, 64)}  # devices to a layer, a sequence
_PROJECTIONS = ("query", "key", "value", "out", "mlp_up", "mlp_gate")  # saved by remat minimal

Change = Mapping[str, Any]  # of fields of a plan's JSON form


@dataclass(frozen=True, slots=True)
class NearestFit:
    """A plan that fits near one that does not, and its instant estimate."""

    plan: Plan
    prediction: Prediction

    @property
    def experiment(self) -> Experiment:
        """What predicts it."""
        return experiment_of(self.plan)


def nearest_fit(plan: Plan) -> NearestFit | None:
    """The nearest plan that fits, with all of its estimate's interval, to one that does not, by the
    order above; None where no slices of this generation hold one. Tens of milliseconds.

    Of a plan that fits by the estimate, though not as compiled, another one.
    """
    for candidates in (_same_batch(plan), _smaller_batch(plan)):
        if nearest := _best(candidates):
            return nearest
    for topology in plan.topology.larger():
        mesh = resized(plan.mesh, topology, workload=DECODER.name, slices=plan.topology.slices).mesh
        moved = _varied(plan, {"target": topology.target, "mesh": mesh})
        if moved is None or _is_hopeless(moved):
            continue
        tries = ([(0, moved)] if _fits(moved) else [], _same_batch(moved), _smaller_batch(moved))
        for candidates in tries:
            if nearest := _best(candidates):
                return nearest
    return None


def _best(candidates: Iterable[tuple[int, Plan]]) -> NearestFit | None:
    """The fastest per chip of those that fit with the fewest changes; they come sorted by these."""
    best: NearestFit | None = None
    fewest = None
    for changes, plan in candidates:
        if fewest is not None and changes > fewest:
            break
        fewest, estimate = changes, estimate_step(plan)
        rate = estimate.tokens_per_s_per_chip or 0.0
        if best is None or rate > (best.prediction.tokens_per_s_per_chip or 0.0):
            best = NearestFit(plan, estimate)
    return best


def _same_batch(plan: Plan) -> Iterator[tuple[int, Plan]]:
    for changes, change in _combined(plan, splits=False):
        if (tried := _varied(plan, change)) is not None and _fits(tried):
            yield changes, tried


def _smaller_batch(plan: Plan) -> Iterator[tuple[int, Plan]]:
    yield from (
        (changes, tried)
        for changes, change in [(0, {}), *_combined(plan, splits=True)]
        if (tried := _with_room(plan, change)) is not None and tried != plan
    )


def _is_hopeless(plan: Plan) -> bool:
    """Whether nothing but more chips makes a plan fit: its parameters alone are too much however
    they are sharded, or it is with as little saved as may be and one sequence per shard, over
    whatever axes.
    """
    sharded = [change for _, change in _less_replicated(plan)]
    if all(
        _parameters(plan, each) > plan.topology.chip.device_hbm_bytes for each in ({}, *sharded)
    ):
        return True
    least = {"remat": "full", "save": (), "offload": _with_input(plan.offload)}
    meshes = [{}, *sharded, *_splits(plan)]
    return all(_with_room(plan, {**mesh, **least}, one=True) is None for mesh in meshes)


def _parameters(plan: Plan, change: Change) -> float:
    """Bytes of parameters and optimizer on a device under another mesh; infinite of no plan."""
    varied = _varied(plan, change)
    parts = estimate_memory(varied).parts if varied else {}
    return parts.get("parameters and optimizer", math.inf)


def _with_room(plan: Plan, change: Change, *, one: bool = False) -> Plan | None:
    """The changed plan with the most sequences that fit, at most as many as it has; `one` per shard
    is enough where requested. None where not even that fits.
    """
    mesh = dict(change.get("mesh", plan.mesh))
    shards = math.prod(mesh.get(name, 1) for name in DATA_AXES)

    def of(each: int) -> Plan | None:
        return _varied(plan, {**change, "batch_per_device": each * shards / plan.devices})

    least = of(1)
    if least is None or not _fits(least) or one:
        return least if least is not None and _fits(least) else None
    # where nothing else is changed, fewer sequences than now
    low, high, best = 1, max(1, plan.batch // shards) + bool(change), least
    while high - low > 1:  # more sequences never take less memory
        middle = (low + high) // 2
        tried = of(middle)
        if tried is not None and _fits(tried):
            low, best = middle, tried
        else:
            high = middle
    return best


def _combined(plan: Plan, *, splits: bool) -> list[tuple[int, Change]]:
    meshes = [(0, {}), *_less_replicated(plan)]
    if splits:
        meshes += [(2, each) for each in _splits(plan)]
    combined = [
        (of_mesh + of_saved, {**mesh, **saved})
        for of_mesh, mesh in meshes
        for of_saved, saved in [(0, {}), *_saved_changes(plan)]
        if mesh or saved
    ]
    return sorted(combined, key=lambda each: each[0])


def _less_replicated(plan: Plan) -> Iterator[tuple[int, Change]]:
    """The mesh whose `fsdp` has all of `data` but the slices, or the optimizer's state over `data`;
    then, as two changes, meshes whose `fsdp` spans the slices too, which gathers parameters over the
    network between them: all of `data`, and as much of it as divides embed.
    """
    sizes, slices = dict(plan.mesh), plan.topology.slices
    data, fsdp = sizes.get("data", 1), sizes.get("fsdp", 1)

    def over(outer: int) -> Change:
        sharded = [("data", outer)] * (outer > 1) + [("fsdp", fsdp * data // outer)]
        others = [(name, size) for name, size in plan.mesh if name not in ("data", "fsdp")]
        at = [name for name, _ in plan.mesh if name != "fsdp"].index("data")
        return {"mesh": (*others[:at], *sharded, *others[at:])}

    if data > slices and data % slices == 0:
        yield 1, over(slices)
    if data > 1 and not plan.shard_optimizer_over_data:
        yield 1, {"shard_optimizer_over_data": True}
    if slices > 1 and data > 1:
        yield 2, over(1)
    rest = data // math.gcd(data, plan.size.embed)
    if rest not in (1, slices, data):
        yield 1 + bool(rest % slices), over(rest)


def _splits(plan: Plan) -> Iterator[Change]:
    """Meshes in which each layer's matrices, or each sequence, are over more devices of `fsdp`: of the
    plan's own, or of that which has all of `data`.
    """
    sharded = [change["mesh"] for _, change in _less_replicated(plan) if "mesh" in change]
    pairs = [(axis, count) for axis, counts in _SPLITS.items() for count in counts]
    for sizes, (axis, count) in itertools.product(map(dict, (plan.mesh, *sharded)), pairs):
        more, rest = divmod(count, sizes.get(axis, 1))
        fsdp, left = divmod(sizes.get("fsdp", 1), max(1, more))
        divides = axis != "sequence" or plan.size.heads % count == 0  # attention is over heads
        if more > 1 and not rest and not left and fsdp >= 1 and divides:
            yield {"mesh": tuple((sizes | {"fsdp": fsdp, axis: count}).items())}


def _saved_changes(plan: Plan) -> Iterator[tuple[int, Change]]:
    """Ways to save less on the device than the plan does, each with its number of changes."""
    if not plan.is_in_parts:
        yield from ((1, {"microbatches": count}) for count in MICROBATCHES)
    remats = ["minimal", "full"] if plan.remat == "none" else ["full"]
    is_over = estimate_memory(plan).host > plan.topology.chip.capacity.host
    less: tuple[tuple[str, ...], ...] = (("input",), ()) if is_over else ()
    for remat in remats:
        if plan.remat != remat or plan.save:
            yield 1, {"remat": remat, "save": ()}
    for remat in ("minimal", "full"):
        if plan.remat == "full" and remat == "minimal":
            continue
        changed = int(plan.remat != remat or bool(plan.save and remat == "full"))
        kept = {
            "input",
            *(plan.save if not changed else ()),
            *(_PROJECTIONS if remat == "minimal" else ()),
        } | set(plan.offload)
        offload = tuple(name for name in NAMES if name in kept)
        for names in dict.fromkeys((_with_input(plan.offload), offload, *less)):
            if set(names) != set(plan.offload):
                save = tuple(name for name in plan.save if name not in names and not changed)
                yield 1 + changed, {"remat": remat, "save": save, "offload": names}


def _with_input(offload: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in NAMES if name in (*offload, "input"))


def _varied(plan: Plan, change: Change) -> Plan | None:
    try:
        return changed_plan(plan, change)
    except RequestError:
        return None


def _fits(plan: Plan) -> bool:
    return estimate_memory(plan).fits(plan.topology.chip.capacity) == "yes"
