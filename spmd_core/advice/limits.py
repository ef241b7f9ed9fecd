"""What limits a program in which nothing is wrong."""

from contextlib import suppress
from math import prod
from typing import get_args

from spmd_core.advice.repeated import Known
from spmd_core.advice.ring_words import RING_KINDS
from spmd_core.base import RequestError, agreed, bytes_text, capital, numbered
from spmd_core.experiment import Experiment
from spmd_core.facts import Accident
from spmd_core.machine import get_topology
from spmd_core.results import CompiledStep, StrategyResult
from spmd_core.runs import Partitioned
from spmd_core.terms import listed
from spmd_core.words import counted_words, limit_words, waits_words
from spmd_core.workloads import FindingKind, Program, device_bytes

KINDS = (
    *get_args(FindingKind),
    "lost_batch",
    *(
        each
        for each in get_args(Accident.model_fields["kind"].annotation)
        if each not in RING_KINDS
    ),
)

_OF_FILE = len(get_args(FindingKind))  # kinds that are checked without a compile


def clean_words(
    compiled: StrategyResult | CompiledStep | None,
    partitioned: Partitioned | None = None,
    program: Program | None = None,
) -> str:
    """Returns the answer for a program that has no finding: what its step takes the longest for,
    where it was predicted. `partitioned`: the same program, not compiled.

    What kernels inside of a `program`'s shard_map do is not read.
    """
    described = program.described if program else None
    has_kernels = bool(described and described.kernels and described.manual_axes)
    nothing = f"Nothing wrong{' outside of the kernels in its shard_map' * has_kernels}"
    if compiled is not None:
        limit = limit_of(compiled)
        return f"{nothing}{'; ' * bool(limit)}{limit}."
    if partitioned is None:
        return "Nothing wrong in its arguments."
    waits = waits_words(partitioned.shares_s or {}, partitioned.collectives)
    nothing += " in its arguments" if partitioned.accidents is None else ""
    return f"{capital(waits)}{'. ' * bool(waits)}{nothing}."


def limit_of(compiled: StrategyResult | CompiledStep) -> str:
    """Returns `limit_words` of a compiled program; "" where it was not predicted."""
    prediction = compiled.prediction if isinstance(compiled, StrategyResult) else None
    return limit_words(prediction) if prediction else ""


def checked_words(program: Program, known: Known | None) -> str:
    """Returns what was compared for the answer that nothing is wrong with a program."""
    arguments, outputs = len(program.arguments()), len(program.outputs())
    parts = [numbered(arguments, "argument"), numbered(outputs, "output")]
    kinds = len(KINDS) if _is_judged(known) else _OF_FILE
    if known and _is_judged(known) and known.collectives is not None:
        parts.append(counted_words([each.count for each in known.collectives]))
    checked = f"None of {kinds} kinds of mistakes in {listed(parts)}."
    return " ".join(filter(None, (checked, replicated_words(program), unchecked_words(known))))


def unchecked_words(known: Known | None) -> str:
    """Returns what a compile checks of a program beside its file; "" where that is checked."""
    more = f"Compile it to check {len(KINDS) - _OF_FILE} more, of its batch and its work."
    return "" if _is_judged(known) else more


def _is_judged(known: Known | None) -> bool:
    return known is not None and known.accidents is not None


def replicated_words(program: Program, of_some: bool = False) -> str:
    """Returns how much of a device replicated weights take where no weight is sharded, which is meant;
    "" of others, unless `of_some`.
    """
    paths = {leaf.path for leaf in program.described.weights}
    weights = [each for each in program.arguments() if each.leaf.path in paths]
    alone = [each for each in weights if (each.copies or 1) > 1 and not any(each.divided or ())]
    devices = prod(size for _, size in program.mesh)
    if not alone or (len(alone) < len(weights) and not of_some):
        return ""
    size = bytes_text(device_bytes(alone)[0])
    if len(alone) == len(weights):
        return f"Each of {devices} devices holds all weights, {size}, as data parallelism does."
    some = f"{len(alone)} of {numbered(len(weights), 'weight')}"
    return f"{some} {agreed(len(alone), 'is')} replicated: {size} on each of {devices} devices."


def idle_words(experiment: Experiment) -> str:
    """Returns how much of an absent target its mesh leaves idle, in a sentence; "" of others."""
    if not experiment.place.is_absent:
        return ""
    topology = get_topology(experiment.target)
    idle = topology.devices - experiment.device_count
    of = "chips" if topology.chip.devices_per_chip == 1 else "devices"
    used = numbered(experiment.device_count, "device")
    return f"{idle} of {topology.devices} {of} are idle: the mesh has {used}." * (idle > 0)


def without_idle(experiment: Experiment) -> Experiment | None:
    """Returns a program on a mesh that uses what an absent target has idle: an axis of its batch is
    longer, else the longest that may be; None where no mesh uses all.
    """
    program = experiment.exported
    if program is None or not idle_words(experiment):
        return None
    factor, rest = divmod(get_topology(experiment.target).devices, experiment.device_count)
    sizes = {axis: size for axis, size in program.mesh if axis not in program.described.manual_axes}
    batch = {axis for each in program.arguments() if each.leaf.path in program.described.batch
             for axes in each.divided or () for axis in axes}  # fmt: skip
    for axis in sorted(sizes, key=lambda each: (each not in batch, -sizes[each])) * (not rest):
        longer = dict(program.mesh) | {axis: factor * sizes[axis]}
        with suppress(RequestError):
            return experiment.vary(mesh=longer)
    return None
