"""What readers need to know beside numbers, as it is stored: `words/facts.py` makes sentences of it."""

from spmd_core.base import Frozen

SAME_PROGRAM = "same program"  # `row`, the first whose compiled program is the same
RINGS = "may become rings"  # an estimate's: the compiler may split matmuls among few devices


class StoredFact(Frozen):
    """A kind of `words/facts.py`, and the values that its sentence names."""

    kind: str
    values: dict[str, int | float | str] = {}
