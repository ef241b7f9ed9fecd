"""Why a collective of a training step is there, in a sentence, from its kind, its mesh axes and the operation that it belongs to."""

from spmd_core.cost.comm import Communication
from spmd_core.plan.plan import DATA_AXES

_BECAME = {("reduce-scatter", "all-reduce"): "; the compiler uses an all-reduce, and each device keeps its shard",
           ("all-gather", "all-reduce"): "; the compiler pads each shard with zeros and adds them in an all-reduce"}


def reason(comm: Communication, axes: tuple[str, ...]) -> str | None:
    """The sentence; None where the axes tell nothing."""
    if comm.kind == "send":
        along = f" along {' and '.join(axes)}" if axes else ""
        added = comm.asked in ("all-reduce", "reduce-scatter")
        return f"each slice holds partial sums, which are added between slices{along}" if added else f"values move between slices{along}"
    if not axes:
        return None
    kind, along = comm.asked or comm.kind, " and ".join(axes)
    why = _of_rows(kind, along, comm.op_name or "") if set(axes) <= set(DATA_AXES) else _of_parts(kind, along)
    return why + _BECAME.get((kind, comm.kind), "")


def _of_rows(kind: str, along: str, op_name: str) -> str:
    """Axes that cut the batch, and with it the parameters."""
    if kind in ("all-reduce", "reduce-scatter"):
        keeps = ", and each device keeps its shard" if kind == "reduce-scatter" else ""
        what = "gradients" if "transpose(" in op_name else "sums"
        return f"each device holds {what} of its own rows, which are added over {along}{keeps}"
    if kind == "all-gather":
        return f"parameters are stored sharded over {along}, but a matmul needs them replicated"
    return f"values move between devices along {along}"


def _of_parts(kind: str, along: str) -> str:
    """Axes that cut a matmul's dims, or those of a program that is no decoder."""
    if kind in ("all-reduce", "reduce-scatter"):
        keeps = ", and each device keeps its shard" if kind == "reduce-scatter" else ""
        return f"devices along {along} hold partial sums, which are added{keeps}"
    if kind == "all-gather":
        return f"an intermediate value is sharded over {along}, but the next op needs it replicated"
    if kind == "collective-permute":
        return f"shards pass from neighbor to neighbor over {along}, while a matmul works on those that have arrived"
    return f"an intermediate value is resharded for the next op: its shards move over {along}"
