"""A lower bound of a sharding's time: it is made of what no program can do without, at rates that no
device passes, and it alone may rule out.
"""

import math

from spmd_core.experiment import STRATEGIES, Array
from spmd_core.search.array_space import Sharded
from spmd_core.search.costs.formula import Formula, is_one_contraction, pairs


def bound_s(formula: Formula, sharded: Sharded, strategy: str) -> float:
    """Seconds that no program of this sharding can stay below: the largest of three roofs.

    All FLOPs over the devices that the sharding uses, each operand's and result's shard through
    memory once, and what some device has to be sent.
    """
    if STRATEGIES[strategy].is_single_device:
        return 0.0  # one device may use all of the machine, where devices are simulated
    rates, experiment = formula.rates, formula.experiment
    flops = experiment.what.flops(experiment.sizes)
    sent = received(formula, sharded) * rates.sent_share(experiment.dtype)
    return max(
        flops / (used(formula, sharded) * rates.most_flops),
        formula.held(sharded) / rates.most_bandwidth,
        (rates.least_collective_s + sent / rates.most_link) if sent else 0.0,
    )


def used(formula: Formula, sharded: Sharded) -> int:
    """Devices along the axes that shard something: along the others every device does the same,
    since a partitioner splits work over axes that it finds and invents none.
    """
    what = formula.experiment.what
    axes = {
        axis for array in what.arrays for entry in formula.spec(array, sharded) for axis in entry
    }
    return sharded.parts(tuple(axes | {axis for _, entry in sharded.table for axis in entry}))


def received(formula: Formula, sharded: Sharded) -> float:
    """The least bytes that some device has to be sent, as the arrays are stored; 0 where nothing is
    known of what lies between operands and results.
    """
    what = formula.experiment.what
    if is_one_contraction(what):
        return _of_contraction(formula, sharded)
    return max(
        (
            _of_operand(formula, sharded, what.array(name), through)
            for names, through in what.program.passes
            for name in names
        ),
        default=0.0,
    )


def _of_contraction(formula: Formula, sharded: Sharded) -> float:
    """Of a single contraction.

    A device ends with its shard R of the result. Of an operand it misses what R needs and it does
    not hold: a share of R depends on that, all of R if a contracted dim is missing. For each part
    of R either the missing operand is sent, or the part (or a partial sum of it) is: at least the
    smaller of the two.
    """
    what = formula.experiment.what
    result = what.results[0]
    wanted = pairs(result, formula.spec(result, sharded))
    size = formula.bytes(result) / math.prod(sharded.parts((axis,)) for _, axis in wanted)
    most = 0.0
    for array in what.operands:
        stored = pairs(array, formula.spec(array, sharded))
        needs = {pair for pair in wanted if pair[0] in array.dims}
        needed = formula.bytes(array) / math.prod(sharded.parts((axis,)) for _, axis in needs)
        both = needed / math.prod(sharded.parts((axis,)) for _, axis in stored - needs)
        share = 1 - both / needed
        most = max(most, min(needed - both, share * size))
    return most


def _of_operand(
    formula: Formula, sharded: Sharded, operand: Array, through: tuple[Array, ...]
) -> float:
    """Of a chain of contractions, by one operand.

    Every part of the result depends on all of the operand along the dims that are summed over. A
    device misses a share of it, and either that is sent, or what is made of it elsewhere, at any
    of the arrays that it passes through, the result the last of them: of each at least what belongs
    to the device's part of the result.
    """
    what = formula.experiment.what
    result = what.results[0]
    stored = pairs(operand, formula.spec(operand, sharded))
    missing = 1 - 1 / math.prod(
        sharded.parts((axis,)) for dim, axis in stored if _is_summed(formula, dim, result)
    )
    wanted = pairs(result, formula.spec(result, sharded))

    def part(array: Array) -> float:
        cuts = [sharded.parts((axis,)) for dim, axis in wanted if dim in array.dims]
        return formula.bytes(array) / math.prod(cuts)

    return missing * min(map(part, (operand, *through, result)))


def _is_summed(formula: Formula, dim: str, result: Array) -> bool:
    """Whether each part of the result needs all of an operand along this dim."""
    return dim in formula.experiment.what.contracted or (
        dim not in result.dims and formula.tied.get(dim) not in result.dims
    )
