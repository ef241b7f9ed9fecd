"""What `python -m spmd_core predict` prints."""

import json
from dataclasses import dataclass
from typing import Any

from spmd_core.base import WorkerError, bytes_text, seconds_text
from spmd_core.commands import remedies
from spmd_core.commands.printed.table import table
from spmd_core.experiment import Plan
from spmd_core.program import SMALL_WORDS, rows
from spmd_core.results import Prediction, Result
from spmd_core.time import estimate_step, nearest_fit
from spmd_core.words import (
    arguments,
    cost_of,
    cost_words,
    nearest_json,
    nearest_words,
    parts,
    predictions,
    why_words,
)


@dataclass(frozen=True, slots=True)
class Found:
    """A prediction, and where it comes from if it was not compiled now."""

    prediction: Prediction
    result: Result
    origin: str = ""
    trace: str | None = None  # of its timeline, for Perfetto, where that was stored
    interrupted: bool = False  # before it was complete

    @property
    def code(self) -> int:
        """The exit code."""
        return 130 if self.interrupted else 0


def only(result: Result) -> Prediction:
    """The prediction of a result of one strategy; WorkerError, with its words, where it failed."""
    (outcome,) = result.strategies.values()
    if outcome.prediction is None:
        raise WorkerError(
            outcome.error.message if outcome.error else f"run {result.run} has no prediction"
        )
    return outcome.prediction


def print_found(
    found: Found, as_json: bool, what: dict[str, Any], price: float | None = None
) -> None:
    """Print a prediction, with `what` it is of in its JSON form, and its costs."""
    lines = [*_lines(found.prediction, "plan" in what, price), *remedies.lines(found.result)]
    if as_json:
        spent = cost_of(found.prediction, price).to_json()
        print(json.dumps({**what, **found.prediction.model_dump(mode="json"), **spent}))
    else:
        print("\n".join(lines + [f"note: {found.origin}"] * bool(found.origin)))


def _reached(prediction: Prediction) -> list[str]:
    """What it reaches of the chip; tokens only of a model."""
    found = [f"{prediction.mfu:.1%} MFU"]
    if prediction.tflops_per_chip is not None:
        found.append(f"{prediction.tflops_per_chip:.0f} TFLOP/s/chip")
    if prediction.tokens_per_s_per_chip is not None:
        found.append(f"{prediction.tokens_per_s_per_chip:,.0f} tokens/s/chip")
    return found


def _lines(prediction: Prediction, step: bool, price: float | None) -> list[str]:
    """The answer first, as on the screen; then time, memory, model and collectives."""
    memory, time = prediction.memory_bytes, prediction.predicted_s
    lines = [predictions.headline(prediction, step)]
    if time:
        span = f"{seconds_text(time.low)} to {seconds_text(time.high)}"
        lines.append(f"time: {seconds_text(time.estimate)} ({span})")
        lines.append(f"cost: {cost_words(cost_of(prediction, price), step)}")
    if memory.host:
        lines.append(f"host memory: {bytes_text(memory.host)} per device")
    if prediction.mfu is not None:
        lines.append(f"model: {', '.join(_reached(prediction))}")
    if prediction.shares_s and time:
        shares = parts(prediction)
        large = [
            f"{name} {share / time.estimate:.0%}"
            for name, share in shares.items()
            if share > 0.005 * time.estimate
        ]
        lines.append(f"where: {', '.join(large)}")
    if prediction.collectives:
        lines += ["", *table(_collectives(prediction), numbers=(2, 3, 4, 5))]
    return lines + [f"note: {note}" for note in prediction.notes]


def _collectives(prediction: Prediction) -> list[tuple[str, ...]]:
    """A line for each row of the screen's table."""
    lines: list[tuple[str, ...]] = [
        ("collective", "axes", "bytes", "count", "total", "exposed", "over", "why")
    ]
    for row in rows(prediction.collectives):
        route = "" if row.rest else predictions.route_words(row.first.route or "")
        why = SMALL_WORDS if row.rest else why_words(row.first).replace("`", "")
        lines.append(
            (
                row.what,
                " ".join(row.axes),
                row.size,
                "–" if row.count is None else f"{row.count:,}",
                seconds_text(row.seconds),
                seconds_text(row.exposed_s),
                route,
                why,
            )
        )
    return lines


def print_estimate(plan: Plan, as_json: bool, price: float | None = None) -> None:
    """The instant estimate: memory by the sizes, and the step's time, in the form of a prediction."""
    found = estimate_step(plan)
    if as_json:
        near = {} if found.fits else nearest_json(plan)
        spent = cost_of(found, price).to_json()
        print(
            json.dumps({"plan": plan.to_json(), **found.model_dump(mode="json"), **near, **spent})
        )
        return
    said = found.before_compiling
    exposed = predictions.exposed_words(found)
    lines = [
        predictions.estimate(said, plan),
        *_nearest(plan, found.fits),
        predictions.step_estimate(found),
        f"cost: {cost_words(cost_of(found, price))}",
        f"per device: {predictions.parts_words(said['parts'])}",
        *([exposed] if exposed else []),
        "",
        *table(_collectives(found), numbers=(2, 3, 4, 5)),
    ]
    print("\n".join(lines + [f"note: {note}" for note in (*said["notes"], *found.notes)]))


def _nearest(plan: Plan, fits: bool) -> list[str]:
    """What to change where a plan does not fit, in words and as arguments."""
    if fits:
        return []
    found = nearest_fit(plan)
    tried = [f"try: {arguments(plan, found.plan)}"] if found else []
    return [nearest_words(plan, found), *tried]
