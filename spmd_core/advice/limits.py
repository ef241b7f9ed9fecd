"""What limits a program in which nothing is wrong."""

from typing import get_args

from spmd_core.base import numbered
from spmd_core.facts import Accident, Prediction
from spmd_core.results import CompiledStep, StrategyResult
from spmd_core.terms import listed
from spmd_core.words import predictions
from spmd_core.workloads import FindingKind, Program

KINDS = (*get_args(FindingKind), "lost_batch", *get_args(Accident.model_fields["kind"].annotation))

_WAITS = 0.1  # of a step: waits for collectives that are worth a change


def clean_words(compiled: StrategyResult | CompiledStep | None) -> str:
    """Returns the answer for a program that has no finding: what its step takes the longest for,
    where it was predicted.
    """
    if compiled is None:
        return "Nothing wrong in its arguments."
    limit = limit_of(compiled)
    return f"Nothing wrong{'; ' * bool(limit)}{limit}."


def limit_of(compiled: StrategyResult | CompiledStep) -> str:
    """Returns `limit_words` of a compiled program; "" where it was not predicted."""
    prediction = compiled.prediction if isinstance(compiled, StrategyResult) else None
    return limit_words(prediction) if prediction else ""


def checked_words(program: Program, compiled: StrategyResult | CompiledStep | None) -> str:
    """Returns what was compared for the answer that nothing is wrong with a program."""
    arguments, outputs = len(program.arguments()), len(program.outputs())
    parts = [numbered(arguments, "argument"), numbered(outputs, "output")]
    kinds, more = len(KINDS), ""
    if compiled is None:
        kinds = len(get_args(FindingKind))
        more = f". Compile it to check {len(KINDS) - kinds} more, of its batch and its work"
    elif compiled.collectives is not None:
        parts.append(f"{numbered(len(compiled.collectives), 'collective')} of the compiled program")
    return f"None of {kinds} kinds of mistakes in {listed(parts)}{more}."


def waiting(prediction: Prediction) -> float:
    """Returns the share of a step that waits for collectives; 0 where it is too small for a change."""
    total = sum(prediction.shares_s.values()) or 1.0
    share = sum(_waits(prediction).values()) / total
    return share if share > _WAITS else 0.0


def limit_words(prediction: Prediction) -> str:
    """Returns what a step takes the longest for: what it waits for where that is worth a change."""
    if not prediction.fits:
        held = predictions.held_words(prediction)
        return f"{held[:1].lower()}{held[1:]}"
    if share := waiting(prediction):
        kinds = _most(_waits(prediction))
        exposed = "exposed: "
        by_axis = {
            name.removeprefix(exposed): seconds
            for name, seconds in prediction.shares_by_axis.items()
            if name.startswith(exposed)
        }
        axes = dict.fromkeys(axis for axes in _most(by_axis) for axis in axes.split())
        over = f" over {listed([*axes])}" if axes else ""
        return f"{share:.0%} of the step waits for {listed(kinds)}{over}"
    bound = predictions.bound_by(prediction)
    largest = "largest share "
    if bound.startswith(largest):
        return f"the largest share of the step is {bound.removeprefix(largest)}"
    return f"the step is {bound}"


def _waits(prediction: Prediction) -> dict[str, float]:
    """Returns the seconds of a step that wait for collectives, by kind."""
    kinds = {each.kind for each in prediction.collectives}
    of = {f"wait: {kind}": kind for kind in kinds}
    return {of[name]: s for name, s in prediction.shares_s.items() if name in of}


def _most(seconds: dict[str, float]) -> list[str]:
    """Returns what takes at least a tenth of all, the longest first."""
    least = sum(seconds.values()) / 10
    return sorted((e for e in seconds if seconds[e] >= least), key=lambda each: -seconds[each])
