"""A lower bound of a sharding's time: it is made of what no program can do without, at rates that
no device passes, and it alone may rule out.
"""

import math

from spmd_core.experiment import Experiment, Sharded
from spmd_core.roofline.formula import Formula, is_one_contraction
from spmd_core.roofline.sharded_formula import ShardedFormula, pairs
from spmd_core.workloads import STRATEGIES, Array


def bound_s(case: ShardedFormula, strategy: str) -> float:
    """Seconds that no program of this sharding can stay below: the largest of three roofs.

    All FLOPs over the devices that the sharding uses, each operand's and result's shard through
    memory once, and what some device has to be sent.
    """
    if STRATEGIES[strategy].is_single_device:
        return 0.0  # one device may use all of the machine, where devices are simulated
    limits = case.formula.limits
    sent = received(case) * limits.sent_share
    return max(
        case.formula.flops / (used(case) * limits.flops_per_s),
        case.held / limits.bytes_per_s,
        (limits.collective_s + sent / limits.link_bytes_per_s) if sent else 0.0,
    )


def closed_form_s(formula: Formula, experiment: Experiment, strategy: str) -> float:
    """Seconds that the formula expects of an experiment that is sharded like this, never below its
    bound.
    """
    case = _of(formula, experiment)
    return max(bound_s(case, strategy), sum(case.seconds(strategy).values()))


def least_s(formula: Formula, experiment: Experiment, strategy: str) -> float:
    """Seconds that no program of the experiment can stay below."""
    return bound_s(_of(formula, experiment), strategy)


def _of(formula: Formula, experiment: Experiment) -> ShardedFormula:
    overrides = experiment.overrides and tuple(
        (array.name, experiment.spec(array.name)) for array in experiment.what.arrays
    )
    sharded = Sharded(experiment.target, experiment.mesh, experiment.sharding, tuple(overrides))
    return ShardedFormula(formula, sharded)


def used(case: ShardedFormula) -> int:
    """Devices along the axes that shard something: along the others every device does the same,
    since a partitioner splits work over axes that it finds and invents none.
    """
    arrays = case.formula.experiment.what.arrays
    axes = {axis for array in arrays for entry in case.specs[array] for axis in entry}
    return case.parts(tuple(axes | {axis for _, entry in case.sharded.table for axis in entry}))


def received(case: ShardedFormula) -> float:
    """The least bytes that some device has to be sent, as the arrays are stored; 0 where nothing is
    known of what is between operands and results.
    """
    what = case.formula.experiment.what
    if is_one_contraction(what):
        return _of_contraction(case)
    return max(
        (
            _of_operand(case, what.array(name), through)
            for names, through in what.program.passes
            for name in names
        ),
        default=0.0,
    )


def _of_contraction(case: ShardedFormula) -> float:
    """Of a single contraction.

    A device ends with its shard R of the result. Of an operand it misses what R needs and it does
    not hold: a share of R depends on that, all of R if a contracted dim is missing. For each part
    of R either the missing operand is sent, or the part (or a partial sum of it) is: at least the
    smaller of the two.
    """
    what = case.formula.experiment.what
    result = what.results[0]
    wanted = pairs(result, case.specs[result])
    size = case.formula.bytes[result] / math.prod(case.parts((axis,)) for _, axis in wanted)
    most = 0.0
    for array in what.operands:
        stored = pairs(array, case.specs[array])
        needs = {pair for pair in wanted if pair[0] in array.dims}
        needed = case.formula.bytes[array] / math.prod(case.parts((axis,)) for _, axis in needs)
        both = needed / math.prod(case.parts((axis,)) for _, axis in stored - needs)
        share = 1 - both / needed
        most = max(most, min(needed - both, share * size))
    return most


def _of_operand(case: ShardedFormula, operand: Array, through: tuple[Array, ...]) -> float:
    """Of a chain of contractions, by one operand.

    Every part of the result depends on all of the operand along the dims that are summed over. A
    device misses a share of it, and either that is sent, or what is made of it elsewhere, at any
    of the arrays that it passes through, the result the last of them: of each at least what belongs
    to the device's part of the result.
    """
    formula, result = case.formula, case.formula.experiment.what.results[0]
    # along these each part of the result needs all of the operand
    missing = 1 - 1 / math.prod(
        case.parts((axis,))
        for dim, axis in pairs(operand, case.specs[operand])
        if dim in formula.experiment.what.contracted
        or (dim not in result.dims and formula.tied.get(dim) not in result.dims)
    )
    wanted = pairs(result, case.specs[result])

    def part(array: Array) -> float:
        parts = [case.parts((axis,)) for dim, axis in wanted if dim in array.dims]
        return case.formula.bytes[array] / math.prod(parts)

    return missing * min(map(part, (operand, *through, result)))
