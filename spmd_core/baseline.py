"""A plan kept as a file, and what a new compile of it changed: collectives, bytes, buffers."""

from collections import Counter
from typing import Any

from spmd_core.errors import refuse
from spmd_core.plan import Plan, parse_plan
from spmd_core.prediction import Prediction
from spmd_core.units import bytes_text, seconds_text

VERSION = 1
MEMORY_TOLERANCE = 0.01  # of the peak; the same program compiled twice differs by less
TIME_TOLERANCE = 0.02  # of the estimate


def baseline_json(plan: Plan, prediction: Prediction) -> dict[str, Any]:
    """What is kept: the plan, and of its prediction what a change would show in."""
    return {"baseline": VERSION, "plan": plan.to_json(), "fits": prediction.fits, "peak": prediction.memory_bytes.peak,
            "estimate_s": prediction.predicted_s.estimate if prediction.predicted_s else None,
            "collectives": [[kind, list(axes), size, count] for (kind, axes, size), count in sorted(_collectives(prediction).items())],
            "buffers": {f"{buffer.shape} {buffer.op or buffer.name}": buffer.bytes for buffer in prediction.buffers}}


def plan_of(data: Any) -> Plan:
    """The plan of a baseline file; RequestError where it is none."""
    if not isinstance(data, dict) or data.get("baseline") != VERSION:
        raise refuse("baseline", "is not a file that `predict --keep` wrote", "write one with --keep FILE")
    return parse_plan(data.get("plan"))


def changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A sentence for each difference that matters, none where the two agree."""
    found = []
    if before["fits"] != now["fits"]:
        found.append(f"it {'fits now' if now['fits'] else 'does not fit any more'}")
    found += _collective_changes(before, now)
    old, new = before["peak"], now["peak"]
    if old and new and abs(new - old) > MEMORY_TOLERANCE * old:
        found.append(f"peak memory went from {bytes_text(old)} to {bytes_text(new)}")
        found += _buffer_changes(before["buffers"], now["buffers"])
    old, new = before["estimate_s"], now["estimate_s"]
    if old and new and abs(new - old) > TIME_TOLERANCE * old:
        found.append(f"the estimate went from {seconds_text(old)} to {seconds_text(new)}")
    return found


def _collectives(prediction: Prediction) -> Counter[tuple[str, tuple[str, ...], int]]:
    found: Counter[tuple[str, tuple[str, ...], int]] = Counter()
    for each in prediction.collectives:
        found[(each.kind, each.axes, each.bytes)] += each.count
    return found


def _collective_changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    old = {(kind, tuple(axes), size): count for kind, axes, size, count in before["collectives"]}
    new = {(kind, tuple(axes), size): count for kind, axes, size, count in now["collectives"]}
    found = []
    for key in sorted(old.keys() | new.keys()):
        if old.get(key, 0) != new.get(key, 0):
            kind, axes, size = key
            found.append(f"{kind} over {', '.join(axes) or 'no axis'} of {bytes_text(size)}: {old.get(key, 0)} before, {new.get(key, 0)} now")
    return found


def _buffer_changes(old: dict[str, int], new: dict[str, int]) -> list[str]:
    gone = [f"buffer {name} ({bytes_text(size)}) is gone" for name, size in old.items() if name not in new]
    return gone + [f"buffer {name} ({bytes_text(size)}) is new" for name, size in new.items() if name not in old]
