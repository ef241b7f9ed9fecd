"""A plan kept as a file, and what a new compile of it changed: collectives, bytes, buffers."""

import json
from collections import Counter
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictBool, StrictInt, ValidationError, model_validator

from spmd_core.base import Frozen, RequestError, bytes_text, refuse, seconds_text, shorten
from spmd_core.facts import SAME_ESTIMATE, SAME_PEAK, Prediction
from spmd_core.plan import Plan
from spmd_core.workloads import parse_plan

VERSION = 1

_Name = Annotated[str, Field(max_length=2000)]
_ANEW = "write one with `predict --keep FILE`"
_Integer = Annotated[StrictInt, Field(ge=0, le=2**62)]


class Baseline(Frozen):
    """A plan, and of its prediction what a change would show in: bytes per device, seconds,
    collectives as (kind, axes, bytes, count).
    """

    MAX_BYTES: ClassVar = 2**20  # of a file; those that are written have a few kilobytes

    baseline: Literal[1] = VERSION
    plan: Plan
    fits: StrictBool
    peak: _Integer | None
    estimate_s: Annotated[float, Field(gt=0)] | None
    collectives: tuple[tuple[_Name, tuple[_Name, ...], _Integer, _Integer], ...]
    buffers: dict[_Name, _Integer]

    @model_validator(mode="after")
    def _check(self) -> "Baseline":
        # else there was nothing to compare, and all would be well
        if self.fits and (self.peak is None or self.estimate_s is None):
            raise RequestError("a program that fits has a peak and an estimate")
        return self

    @classmethod
    def of(cls, plan: Plan, prediction: Prediction) -> "Baseline":
        """Returns what is kept of a plan's prediction."""
        counts = tuple(
            (kind, axes, size, count)
            for (kind, axes, size), count in sorted(_collectives(prediction).items())
        )
        return cls(
            plan=plan,
            fits=prediction.fits,
            peak=prediction.memory_bytes.peak,
            estimate_s=prediction.predicted_s.estimate if prediction.predicted_s else None,
            collectives=counts,
            buffers={
                f"{buffer.shape} {buffer.op or buffer.name}"[:2000]: buffer.bytes
                for buffer in prediction.buffers
            },
        )

    @classmethod
    def read(cls, content: bytes) -> "Baseline":
        """Returns the baseline that a file holds.

        Raises:
            RequestError: the file holds none, whatever it holds instead.
        """
        if len(content) > cls.MAX_BYTES:
            raise refuse(f"a file of {len(content):,} bytes", "is larger than any baseline", _ANEW)
        try:
            data = json.loads(content)
        except (ValueError, RecursionError):
            raise refuse("this file", "is not JSON", _ANEW) from None
        if not isinstance(data, dict) or data.get("baseline") != VERSION:
            raise refuse("this file", "is not a baseline that `predict --keep` wrote", _ANEW)
        plan = parse_plan(data.get("plan"))
        try:
            return cls.model_validate(data | {"plan": plan})
        except ValidationError as error:
            place = next(
                (str(part) for part in error.errors(include_url=False)[0]["loc"]),
                "peak or estimate_s",
            )
            raise refuse(
                "this baseline", f"is incomplete or not what was written ({shorten(place)})", _ANEW
            ) from None

    def to_text(self) -> str:
        """Returns the file of the baseline."""
        return json.dumps(self.model_dump(mode="json"), indent=1) + "\n"

    def changes(self, now: "Baseline") -> list[str]:
        """Returns a sentence for each difference to `now` that matters, none where the two agree."""
        listed = []
        if self.fits != now.fits:
            listed.append(f"it {'fits now' if now.fits else 'does not fit any more'}")
        listed += _collective_changes(self, now)
        if self.peak and now.peak and abs(now.peak - self.peak) > SAME_PEAK * self.peak:
            listed.append(
                f"peak memory went from {bytes_text(self.peak)} to {bytes_text(now.peak)}"
            )
            listed += _buffer_changes(self.buffers, now.buffers)
        old, new = self.estimate_s, now.estimate_s
        if old and new and abs(new - old) > SAME_ESTIMATE * old:
            listed.append(f"the estimate went from {seconds_text(old)} to {seconds_text(new)}")
        return listed


def _collectives(prediction: Prediction) -> Counter[tuple[str, tuple[str, ...], int]]:
    counts: Counter[tuple[str, tuple[str, ...], int]] = Counter()
    for each in prediction.collectives:
        counts[(each.kind, each.axes, each.bytes)] += each.times
    return counts


def _collective_changes(before: Baseline, now: Baseline) -> list[str]:
    old = {(kind, axes, size): count for kind, axes, size, count in before.collectives}
    new = {(kind, axes, size): count for kind, axes, size, count in now.collectives}
    listed = []
    for key in sorted(old.keys() | new.keys()):
        if old.get(key, 0) != new.get(key, 0):
            kind, axes, size = key
            listed.append(
                f"{kind} over {', '.join(axes) or 'no axis'} of {bytes_text(size)}: "
                f"{old.get(key, 0)} before, {new.get(key, 0)} now"
            )
    return listed


def _buffer_changes(old: dict[str, int], new: dict[str, int]) -> list[str]:
    gone = [
        f"buffer {name} ({bytes_text(size)}) is gone"
        for name, size in old.items()
        if name not in new
    ]
    other = [
        f"buffer {name} went from {bytes_text(size)} to {bytes_text(new[name])}"
        for name, size in old.items()
        if new.get(name, size) != size
    ]
    return (
        gone
        + other
        + [
            f"buffer {name} ({bytes_text(size)}) is new"
            for name, size in new.items()
            if name not in old
        ]
    )
