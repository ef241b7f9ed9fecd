"""What a training step is estimated to take, in a line; the nearest plan that fits, and what it
changes.
"""

import shlex
from collections.abc import Iterator

from spmd_core.base import bytes_text, count_text, mesh_text, numbered, seconds_text
from spmd_core.plan import PLAN_FIELDS, Plan
from spmd_core.terms import listed
from spmd_core.time import NearestFit

_SAVED = {"input": "block inputs"}  # the words of a plan's field in a sentence
_QKV = ("query", "key", "value")


def nearest_words(plan: Plan, nearest: NearestFit | None) -> str:
    """The change with which a plan fits, or that no plan on this generation does."""
    if nearest is None:
        chip = plan.topology.chip.title
        return (
            f"Nothing on {chip} is sure to fit, however many chips, with block inputs alone kept, in host "
            "memory. Use chips with more HBM, or a smaller model."
        )
    memory, time = nearest.prediction.memory_bytes, nearest.prediction.predicted_s
    step = f", about {seconds_text(time.estimate)} a step" if time else ""
    return (
        f"Nearest that {nearest.prediction.fit}: {change_words(plan, nearest)}. "
        f"{bytes_text(memory.peak)} of {bytes_text(memory.capacity)} per device{step}."
    )


def change_words(plan: Plan, nearest: NearestFit) -> str:
    """Returns the changes of the nearest plan as one clause."""
    return "; ".join(changes(plan, nearest))


def changes(plan: Plan, nearest: NearestFit) -> Iterator[str]:
    """Each change of the nearest plan, in words."""
    near = nearest.plan
    if near.target != plan.target:
        chips = "GPUs" if near.topology.chip.is_gpu else "chips"
        yield f"{count_text(near.topology.chips)} {chips} ({near.topology.name})"
    if near.mesh != plan.mesh:
        yield f"mesh {mesh_text(near.mesh)}"
    if near.shard_optimizer_over_data and not plan.shard_optimizer_over_data:
        yield "optimizer sharded over data (ZeRO-1)"
    if near.batch_per_device != plan.batch_per_device:
        yield _batch(plan, near)
    if near.remat != plan.remat:
        yield f"{'no' if near.remat == 'none' else near.remat} rematerialization"
    elif plan.save and not near.save and not set(plan.save) <= set(near.offload):
        yield "save nothing by name"
    elif less := [name for name in plan.save if name not in (*near.save, *near.offload)]:
        yield f"no longer save {_saved(less)}"
    if saved := [name for name in near.save if name not in plan.save]:
        yield f"save {_saved(saved)}"
    if back := [name for name in plan.offload if name not in (*near.offload, *near.save)]:
        yield f"no longer offload {_saved(back)}"
    if more := [name for name in near.offload if name not in plan.offload]:
        held = bytes_text(nearest.prediction.memory_bytes.host)
        yield f"offload {_saved(more)} ({held} per device on the host)"
    if near.microbatches != plan.microbatches:
        yield f"{numbered(near.parts, 'microbatch')}, whose gradients are added up"
    if plan.makes_rings and not near.makes_rings:
        yield f"`{near.compiler_flags[-1]}`, which turns collective matmuls off"


def _saved(names: list[str]) -> str:
    """Returns arrays of a block in words.

    >>> _saved(["query", "key", "value"]), _saved(["input", "mlp"])
    ('q, k, v', 'block inputs and mlp')
    """
    if not {*_QKV} <= {*names}:
        return listed([_SAVED.get(name, name) for name in names])
    return ", ".join(("q, k, v", *(_SAVED.get(each, each) for each in names if each not in _QKV)))


def _batch(plan: Plan, near: Plan) -> str:
    each, before = near.batch_per_device, plan.batch_per_device
    if float(each).is_integer():
        return f"{numbered(each, 'sequence')} per device, not {before:g}"
    in_all = "" if near.devices != plan.devices else f", not {count_text(plan.batch)}"
    return f"{numbered(near.batch, 'sequence')} a step{in_all}"


def arguments(plan: Plan, near: Plan) -> str:
    """The arguments of `predict` that the nearest plan changes."""
    changed = {
        flag: text for flag, text in _placed(near).items() if text != _placed(plan).get(flag)
    }
    words = [f"{flag} {text}" for flag, text in changed.items()]
    for name, row in PLAN_FIELDS.items():
        if (value := getattr(near, name)) != getattr(plan, name):
            words.append(" ".join(each or '""' for each in row.arguments(value)))
    return " ".join(words)


def _placed(plan: Plan) -> dict[str, str]:
    return {
        "--target": plan.target,
        "--model": plan.model,
        "--mesh": mesh_text(plan.mesh, ","),
        "--batch-per-device": f"{plan.batch_per_device:.15g}",
    }


# The instant estimate of a training step in one line, to compare several


def predict_command(plan: Plan) -> str:
    """The command that predicts a plan."""
    given = _placed(plan) | {"--sequence": str(plan.sequence)}
    sizes = dict(plan.sizes) | ({"layers": plan.layers} if plan.layers else {})
    given |= {f"--{name.replace('_', '-')}": str(size) for name, size in sizes.items()}
    words = [word for pair in given.items() for word in pair]
    for name, row in PLAN_FIELDS.items():
        if (value := getattr(plan, name)) != row.value or row.always:
            words += row.arguments(value)
    return shlex.join(["python", "-m", "spmd_core", "predict", *words])
