"""Why a collective of a training step is there, in a sentence, from its kind, its mesh axes and the operation that it belongs to."""

from spmd_core.cost.comm import Communication
from spmd_core.plan.plan import DATA_AXES

_BECAME = {("reduce-scatter", "all-reduce"): "; the compiler adds it up whole on every device, and each keeps its part",
           ("all-gather", "all-reduce"): "; the compiler puts each part among zeros and adds them up"}


def reason(comm: Communication, axes: tuple[str, ...]) -> str | None:
    """The sentence; None where the axes tell nothing."""
    if comm.kind == "send":
        along = f" along {' and '.join(axes)}" if axes else ""
        added = comm.asked in ("all-reduce", "reduce-scatter")
        return f"each slice holds sums of its own part, which are added between slices{along}" if added else f"values move between slices{along}"
    if not axes:
        return None
    kind, along = comm.asked or comm.kind, " and ".join(axes)
    why = _of_rows(kind, along, comm.op_name or "") if set(axes) <= set(DATA_AXES) else _of_parts(kind, along)
    return why + _BECAME.get((kind, comm.kind), "")


def _of_rows(kind: str, along: str, op_name: str) -> str:
    """Axes that cut the batch, and with it the parameters."""
    if kind in ("all-reduce", "reduce-scatter"):
        keeps = ", and each device keeps its part" if kind == "reduce-scatter" else ""
        what = "gradients" if "transpose(" in op_name else "sums"
        return f"each device holds {what} of its own rows, which are added over {along}{keeps}"
    if kind == "all-gather":
        return f"parameters are stored cut over {along}, but a matmul needs them whole"
    return f"values move between devices along {along}"


def _of_parts(kind: str, along: str) -> str:
    """Axes that cut a matmul's dims, or those of a program that is no decoder."""
    if kind in ("all-reduce", "reduce-scatter"):
        keeps = ", and each device keeps its part" if kind == "reduce-scatter" else ""
        return f"devices along {along} hold parts of a sum, which are added{keeps}"
    if kind == "all-gather":
        return f"a value is cut over {along}, but the next step needs it whole"
    if kind == "collective-permute":
        return f"parts pass from neighbour to neighbour along {along}, while a matmul works on those that are there"
    return f"a value is cut otherwise than the next step needs: its parts move along {along}"
