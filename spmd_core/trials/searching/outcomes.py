"""The candidates that a run's result answers; how that is stored and restored."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spmd_core.experiment import Experiment
from spmd_core.facts import PROGRAM, Estimate, Prediction, StoredFact
from spmd_core.results import INEXPRESSIBLE, Result, StrategyResult
from spmd_core.search import Candidate, Rule, too_large, with_constraint

_STORED = ("stage", "reason", "detail", "memory_bytes", "run", "measured_s", "fingerprint", "study")
_KEYS = {"stage": "fate"}  # stored under the name that older versions gave it


def answered(candidates: Sequence[Candidate], result: Result) -> list[Candidate]:
    """The candidates, each with the numbers of the result's strategy of its name."""
    return [_one(each, result.run, result.strategies.get(each.strategy)) for each in candidates]


def within(candidate: Candidate, most: int | None) -> Candidate:
    """A candidate, pruned where its program holds more bytes per device than are allowed."""
    held = candidate.memory_bytes
    if (
        most is None
        or held is None
        or held <= most
        or candidate.stage not in ("compiled", "measured")
    ):
        return candidate
    detail = too_large(held, most, None, "as compiled")
    return replace(candidate, stage="pruned", reason="does not fit", detail=detail, fits="no")


def failed(candidates: Sequence[Candidate], why: Rule, run: str | None = None) -> list[Candidate]:
    """The candidates, each failed for one reason."""
    detail = " ".join(why.split())[:400] if isinstance(why, str) else why
    return [replace(each, stage="failed", detail=detail, run=run) for each in candidates]


def _one(candidate: Candidate, run: str, outcome: StrategyResult | None) -> Candidate:
    if outcome is None or outcome.error is not None:
        error = outcome.error if outcome else None
        if error and error.kind == INEXPRESSIBLE:  # a rule of the strategy, and no failure
            return replace(
                candidate,
                stage="pruned",
                reason="not expressible under its strategy",
                detail=error.message,
                run=run,
            )
        ended = StoredFact(kind="ended before it")
        return failed([candidate], f"{error.kind}: {error.message}" if error else ended, run)[0]
    if outcome.prediction is not None:
        return _predicted(candidate, run, outcome.prediction)
    if outcome.median_s is None:
        return failed([candidate], StoredFact(kind="nothing measured"), run)[0]
    if outcome.correct is False:
        return failed([candidate], StoredFact(kind="wrong result"), run)[0]
    memory = outcome.memory_bytes.peak if outcome.memory_bytes else None
    return replace(
        candidate,
        stage="measured",
        run=run,
        measured_s=outcome.median_s,
        interval_s=outcome.ci95_s,
        memory_bytes=memory or candidate.memory_bytes,
        predicted=outcome.predicted_s or candidate.predicted,
    )


def _predicted(candidate: Candidate, run: str, prediction: Prediction) -> Candidate:
    memory = prediction.memory_bytes
    if not prediction.fits or prediction.predicted_s is None:
        limit, room = memory.capacity, prediction.host_capacity_bytes
        detail = too_large(memory.peak or 0, limit, limit, "as compiled")
        if prediction.host_missing and room is not None:
            detail = too_large(memory.host or 0, room, room, "in host memory")
        return replace(
            candidate,
            stage="pruned",
            reason="does not fit",
            detail=detail,
            run=run,
            memory_bytes=memory.peak,
            memory_span=None,
            host_bytes=memory.host,
            fits="no",
        )
    program, shares = prediction.compile.get(PROGRAM), tuple(prediction.shares_s.items())
    return replace(
        candidate,
        stage="compiled",
        run=run,
        predicted=prediction.predicted_s,
        memory_bytes=memory.peak or candidate.memory_bytes,
        memory_span=None,
        host_bytes=memory.host,
        fits="yes",
        fingerprint=str(program) if program else None,
        parts=shares if candidate.step else candidate.parts,  # which later estimates are scaled by
        shares=() if candidate.step else shares,
    )


def to_stored(candidate: Candidate) -> dict[str, object]:
    """What a search keeps of a candidate that is further than estimated."""
    body = {_KEYS.get(name, name): getattr(candidate, name) for name in _STORED}
    span, rule = candidate.predicted, candidate.detail
    return body | {
        "host_bytes": candidate.host_bytes,
        "detail": rule if isinstance(rule, str) else rule.model_dump(),
        "interval_s": candidate.interval_s,
        "predicted": span.model_dump() if span else None,
        "partitioned": candidate.partitioned,
        "constrained": candidate.constrained,
        "parts": candidate.parts if candidate.step or candidate.partitioned else (),
        "shares": candidate.shares,
    }


def restored(candidate: Candidate, stored: dict[str, Any]) -> Candidate:
    """A candidate as it was when it was stored."""
    predicted, interval = stored.get("predicted"), stored.get("interval_s")
    if isinstance(stored["detail"], dict):  # else a message, or a sentence of an older version
        stored = stored | {"detail": StoredFact(**stored["detail"])}
    return replace(
        candidate,
        **{name: stored.get(_KEYS.get(name, name)) for name in _STORED},  # pyrefly: ignore
        memory_span=None,
        host_bytes=stored.get("host_bytes", candidate.host_bytes),
        fits=stored.get("fits") or ("no" if stored.get("reason") == "does not fit" else "yes"),
        partitioned=bool(stored.get("partitioned")),
        interval_s=tuple(interval) if interval else None,
        predicted=Estimate(**predicted) if predicted else candidate.predicted,
        parts=tuple((name, value) for name, value in stored.get("parts") or candidate.parts),
        shares=tuple((name, value) for name, value in stored.get("shares") or ()),
    )


def restored_constraints(
    outcomes: Mapping[int, Mapping[str, Any]], candidates: Sequence[Candidate]
) -> list[Candidate]:
    """The candidates that were added to these as constraints on values, as they were."""
    by_number, added = {each.number: each for each in candidates}, list[Candidate]()
    for number, stored in sorted(outcomes.items()):
        if value := stored.get("constrained"):
            base, source, spec = value
            if base in by_number:
                spec = tuple(map(tuple, spec))
                made = with_constraint(by_number[base], number, source, spec)
                added.append(restored(made, dict(stored)))
    return added


def run_key(candidate: Candidate) -> object:
    """What one run answers."""
    return candidate.point.key if candidate.point else candidate.number


def experiment_of(group: Sequence[Candidate]) -> Experiment:
    """What one run of these candidates is: a sharding under their strategies."""
    first = group[0]
    if first.point is None:
        return first.experiment
    return first.point.experiment(tuple(each.strategy for each in group))
