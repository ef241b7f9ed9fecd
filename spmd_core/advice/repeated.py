"""Sentences about work that several devices of a program do alike."""

from spmd_core.advice.fixes import Specs
from spmd_core.experiment import spec_code
from spmd_core.facts import Accident
from spmd_core.results import CompiledStep, StrategyResult
from spmd_core.runs import Partitioned
from spmd_core.terms import listed
from spmd_core.words import named_words, own_words
from spmd_core.workloads import VALUE

LITTLE = 0.05  # of a predicted step: of minor work that takes less there is no note
Known = StrategyResult | CompiledStep | Partitioned  # that has been judged
_PRODUCTS = ("matmul", "kernel", "grouped kernel")  # parts of a step with the FLOPs of products


def repeated_words(each: Accident, specs: Specs, batch: str) -> str:
    """Which devices compute the same, where, what that costs, and what to change. `specs`: that mend it;
    `batch`: the arguments that these shard.
    """
    at = f" at {each.source}" if each.source else ""
    where = " in a shard_map" * each.in_map
    return (
        f"devices along {_over(each)} compute the same{at}{where}: {each.work:.2g} times the work, "
        f"{_surplus(each):.0%} of a device's matmul FLOPs are surplus; {_cause(each, specs, batch)}"
    )


def surplus_words(each: Accident, of: Known) -> str:
    """What repeated work costs: times the work, and about which part of a predicted step."""
    share = _of_step(each, of)
    step = "" if share is None else f", about {share:.0%} of the step"
    return f"{each.work:.2g} times the work{step}"


def is_listed(each: Accident, of: Known) -> bool:
    """Returns False of minor work that takes little of the step, or of one that was not predicted."""
    return not each.is_minor or (_of_step(each, of) or 0.0) >= LITTLE


def _of_step(each: Accident, of: Known) -> float | None:
    parts = of.shares_s if isinstance(of, Partitioned) else None
    if isinstance(of, StrategyResult) and of.prediction:
        parts = of.prediction.shares_s
    if not parts or not (total := sum(parts.values())):
        return None
    products = sum(parts.get(name, 0.0) for name in _PRODUCTS)
    return _surplus(each) * products / total


def _surplus(each: Accident) -> float:
    return 1 - 1 / each.work


def _cause(each: Accident, specs: Specs, batch: str) -> str:
    over = _over(each)
    if each.in_map:
        return f"divide an operand over {over} in in_specs, and the result in out_specs"
    if each.dropped_at:
        cause = f"the constraint of {each.dropped_at} drops it"
        if specs or not each.spec:  # else its spec is known to be worse
            put = f"constrain it to {spec_code(each.spec)}" if specs else "name it there"
            cause += f": {put}"
        return cause
    if each.lost_by:
        who = own_words([one.model_copy(update={"steps": ()}) for one in each.origin or ()])
        who = who or "an operand of it"
        fix = f": constrain its result to {spec_code(each.spec)}" if specs else ""
        return f"{who} has {over}, `{each.lost_by}` at {each.lost_at} loses it{fix}"
    if specs and next(iter(specs)).startswith(VALUE):
        return f"no dim of its result is sharded over {over}: try {spec_code(each.spec)}"
    if specs:
        return f"no dim of {batch}, the batch, is sharded over it: try {spec_code(next(iter(specs.values())))}"
    return f"{named_words(each.origin)}shard a dim of their operands over it"


def _over(each: Accident) -> str:
    return listed([f"`{axis}`" for axis in each.axes])
