"""What to try next: findings, remedies, the nearest plan, what hinders the lab."""

from spmd_core.advice.arrays import ONE_DEVICE_WINS
from spmd_core.advice.doctor import Check, check
from spmd_core.advice.fixes import (
    COST_TIME,
    Specs,
    by_cost,
    copied_bytes,
    held_bytes,
    held_twice,
    in_front,
    over_most,
    saved_bytes,
    what_if_words,
)
from spmd_core.advice.nearest import (
    arguments,
    changes,
    nearest_words,
    predict_command,
)
from spmd_core.advice.programs import (
    KINDS,
    all_findings,
    compiled_beside,
    compiled_findings,
    grouped_findings,
    held_spec,
    program_headline,
    step_arrays,
    step_findings,
)
from spmd_core.advice.remedies import (
    GUESSED,
    change_words,
    doing_words,
    removal_parts,
    removal_words,
    what_words,
    with_sentence,
)
from spmd_core.advice.results import CONFIRM, confirmation, gain_words, in_words, next_step

__all__ = [
    "CONFIRM",
    "COST_TIME",
    "GUESSED",
    "KINDS",
    "ONE_DEVICE_WINS",
    "Check",
    "Specs",
    "all_findings",
    "arguments",
    "by_cost",
    "change_words",
    "changes",
    "check",
    "compiled_beside",
    "compiled_findings",
    "confirmation",
    "copied_bytes",
    "doing_words",
    "gain_words",
    "grouped_findings",
    "held_bytes",
    "held_spec",
    "held_twice",
    "in_front",
    "in_words",
    "nearest_words",
    "next_step",
    "over_most",
    "predict_command",
    "program_headline",
    "removal_parts",
    "removal_words",
    "saved_bytes",
    "step_arrays",
    "step_findings",
    "what_if_words",
    "what_words",
    "with_sentence",
]
