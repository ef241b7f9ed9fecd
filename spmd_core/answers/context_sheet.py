"""Attention over `context` by kind and length: the answer in a sentence, and a sheet."""

from collections.abc import Sequence
from itertools import groupby

from spmd_core.base import count_text
from spmd_core.sheets import Sheet, count, seconds, size, text
from spmd_core.sweeps import ContextRow, fastest_kinds

CONTEXT_ROWS = Sheet[ContextRow](
    (
        count("Tokens of a sequence", lambda row: row.tokens),
        text("Attention over context", lambda row: row.kind),
        seconds("Step", lambda row: row.seconds),
        seconds("Exposed", lambda row: row.exposed_s),
        size("Memory", lambda row: row.step and row.step.memory_bytes.peak),
        text("Fits", lambda row: row.step and ("no", "yes")[row.step.fits]),
        text(
            "Mesh",
            lambda row: row.plan and ",".join(f"{axis}={size}" for axis, size in row.plan.mesh),
            "terminal",
            "document",
        ),
        text("Refused", lambda row: row.refusal),
    )
)


def context_headline(rows: Sequence[ContextRow]) -> str:
    """Returns the fastest kind that fits at each length, in a sentence; "" without rows."""
    parts = []
    for kind, alike in groupby(fastest_kinds(rows).items(), lambda each: each[1]):
        lengths = [count_text(tokens) for tokens, _ in alike]
        parts.append(f"{kind} at {' to '.join(dict.fromkeys((lengths[0], lengths[-1])))} tokens")
    return f"Fastest that fits: {', '.join(parts)}." if parts else ""
