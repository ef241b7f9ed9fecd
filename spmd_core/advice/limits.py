"""What limits a program in which nothing is wrong."""

from typing import get_args

from spmd_core.base import numbered
from spmd_core.facts import Accident
from spmd_core.results import CompiledStep, StrategyResult
from spmd_core.terms import listed
from spmd_core.words import limit_words
from spmd_core.workloads import FindingKind, Program

KINDS = (*get_args(FindingKind), "lost_batch", *get_args(Accident.model_fields["kind"].annotation))


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
