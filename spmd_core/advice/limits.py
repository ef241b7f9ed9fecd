"""What limits a program in which nothing is wrong."""

from math import prod
from typing import get_args

from spmd_core.base import bytes_text, numbered
from spmd_core.facts import Accident
from spmd_core.results import CompiledStep, StrategyResult
from spmd_core.terms import listed
from spmd_core.words import counted_words, limit_words
from spmd_core.workloads import FindingKind, Program, device_bytes

KINDS = (*get_args(FindingKind), "lost_batch", *get_args(Accident.model_fields["kind"].annotation))

_OF_FILE = len(get_args(FindingKind))  # kinds that are checked without a compile


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
    kinds = len(KINDS) if compiled else _OF_FILE
    if compiled and compiled.collectives is not None:
        parts.append(counted_words([each.count for each in compiled.collectives]))
    checked = f"None of {kinds} kinds of mistakes in {listed(parts)}."
    return " ".join(filter(None, (checked, replicated_words(program), unchecked_words(compiled))))


def unchecked_words(compiled: StrategyResult | CompiledStep | None) -> str:
    """Returns what a compile checks of a program beside its file; "" where it was compiled."""
    more = f"Compile it to check {len(KINDS) - _OF_FILE} more, of its batch and its work."
    return "" if compiled else more


def replicated_words(program: Program) -> str:
    """Returns how much of a device replicated weights take where no weight is sharded, which is meant;
    "" of others.
    """
    paths = {leaf.path for leaf in program.described.weights}
    weights = [each for each in program.arguments() if each.leaf.path in paths]
    if not weights or any(any(each.divided or ()) or (each.copies or 1) == 1 for each in weights):
        return ""
    size, devices = bytes_text(device_bytes(weights)[0]), prod(size for _, size in program.mesh)
    return f"Each of {devices} devices holds all weights, {size}, as data parallelism does."
