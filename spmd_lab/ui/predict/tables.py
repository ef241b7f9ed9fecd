"""Predictions to tables for the screen; no Streamlit here."""

from spmd_core.base import bytes_text
from spmd_core.facts import Prediction
from spmd_core.plan import Plan, sharding
from spmd_core.sheets import NONE


def buffers_table(prediction: Prediction) -> dict[str, list[str]]:
    """The arrays that matter to memory, and the operation that they come from."""
    return {
        "Array": [each.shape for each in prediction.buffers],
        "Bytes": [nowrap(bytes_text(each.bytes)) for each in prediction.buffers],
        "From": [operation(each.op) or each.name for each in prediction.buffers],
    }


def memory_table(prediction: Prediction) -> dict[str, list[str]]:
    """The compiler's account, per device."""
    held = prediction.memory_bytes
    rows = {
        "Peak": held.peak,
        "Arguments (parameters, optimizer, data)": held.argument,
        "Temporaries": held.temp,
        "Results": held.output,
        "of which reuse arguments (donated)": held.alias,
        "Program": held.code,
        "In host memory": held.host or None,
        "Host memory that a device may take": prediction.host_capacity_bytes if held.host else None,
    }
    rows = {name: size for name, size in rows.items() if size is not None}
    return {
        "Memory per device": list(rows),
        "Bytes": [nowrap(bytes_text(size)) for size in rows.values()],
    }


def sharding_table(plan: Plan) -> dict[str, list[str]]:
    """Dim -> mesh axes of a model, for activations and for parameters with their optimizer state."""
    rows = sharding.by_dim(plan)

    def words(choices: tuple[tuple[str, ...], ...] | None) -> str:
        if choices is None:
            return NONE
        return " or ".join(" and ".join(axes) if axes else "replicated" for axes in choices)

    return {
        "Dim": list(rows),
        "of activations": [words(groups.get("activations")) for groups in rows.values()],
        "of parameters and optimizer": [
            words(groups.get("parameters")) for groups in rows.values()
        ],
    }


def arrays_table(plan: Plan) -> dict[str, list[str]]:
    """Every array that matters: its dims with the axes that shard them, and the shape that one
    device holds.
    """
    arrays = sharding.stored_arrays(plan)
    rename = sharding.WORDS

    def dims(array: sharding.ShardedArray) -> str:
        return ", ".join(
            f"{rename.get(dim, dim)} {size:,}" + (f" over {' and '.join(axes)}" if axes else "")
            for (dim, size), axes in zip(array.dims, array.axes, strict=True)
        )

    return {
        "Array": [f"{array.name} ({array.group[:-1]})" for array in arrays],
        "Dims and mesh axes": [dims(array) for array in arrays],
        "On each device": [
            " × ".join(f"{size:,}" for size in array.held(plan.axis_sizes)) for array in arrays
        ],
    }


def percent(new: float | None, old: float | None) -> str:
    """The change from old to new.

    >>> percent(1.1, 1.0), percent(None, 1.0)
    ('+10.0%', '–')
    """
    return NONE if new is None or not old else f"{new / old - 1:+.1%}"


def nowrap(text: str) -> str:
    """Text that a narrow column does not break."""
    return text.replace(" ", "\u00a0")


def operation(op: str | None) -> str:
    """The last parts of an operation's path, without what JAX wraps around.

    >>> operation("jit(train_step)/transpose(jvp())/while/body/bse,ehd->bshd/dot_general")
    'bse,ehd->bshd/dot_general'
    """
    last = "/".join((op or "").split("/")[-2:])
    return last if len(last) <= 44 else f"…{last[-43:]}"
