"""What `python -m spmd_core predict` prints."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from spmd_core.advice import arguments, changes, nearest_words
from spmd_core.answers import (
    CONTEXT_ROWS,
    context_headline,
    five_figures,
    step_collectives,
    training_headline,
    training_tables,
    tried_words,
    ways_headline,
    ways_json,
    ways_table,
)
from spmd_core.base import (
    RequestError,
    WorkerError,
    bytes_text,
    number_text,
    seconds_text,
    span_text,
)
from spmd_core.facts import Prediction
from spmd_core.plan import Plan
from spmd_core.results import Result
from spmd_core.sheets import sheet_lines, table
from spmd_core.sweeps import (
    TrainingAnswer,
    TrainingQuestion,
    TrainingRow,
    WayOut,
    context_rows,
    training_run,
    ways_out,
)
from spmd_core.terms import (
    convention_words,
    cost_of,
    cost_words,
    ignored_words,
    mfu_words,
    parameters_words,
)
from spmd_core.time import estimate_step, nearest_fit
from spmd_core.trials import remedy_lines
from spmd_core.words import bound_by, in_sentences, parts, predictions, tokens_text

_TOKENS = 1e12  # that ways out are compared by where none are given
_BAR, _SMALL = 40, 0.005  # characters of a bar, and the share that is worth one


@dataclass(frozen=True, slots=True)
class PredictAnswer:
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """What else is to be shown of a prediction: dollars per chip-hour, and tokens to train on."""

    price: float | None = None
    tokens: float | None = None

    def json(self, prediction: Prediction, plan: Plan | None) -> dict[str, object]:
        """Returns the costs in the JSON form of a prediction."""
        run = plan and training_run(prediction, plan, self.tokens, self.price)
        costs: dict[str, object] = dict(cost_of(prediction, self.price).to_json())
        return costs | {"training_run": run and run.model_dump()}


def only(result: Result) -> Prediction:
    """The prediction of a result of one strategy; WorkerError, with its words, where it failed."""
    (outcome,) = result.strategies.values()
    if outcome.prediction is None:
        raise WorkerError(
            outcome.error.message if outcome.error else f"run {result.run} has no prediction"
        )
    return outcome.prediction


def print_predicted(
    answer: PredictAnswer, as_json: bool, what: dict[str, object], wanted: Wanted
) -> None:
    """Print a prediction, with `what` it is of in its JSON form, and its costs."""
    plan = answer.result.experiment.plan
    lines = [*_lines(answer.prediction, plan, wanted), *remedy_lines(answer.result)]
    if "model" in what:
        lines += ignored(cast(Mapping[str, object], what["model"]))
    if as_json:
        spent = wanted.json(answer.prediction, plan)
        known = answer.prediction.model_dump(mode="json") | {"fit": answer.prediction.fit}
        print(json.dumps({**what, **known, **spent}))
    else:
        print("\n".join(lines + [f"note: {answer.origin}"] * bool(answer.origin)))


def _reached(prediction: Prediction) -> list[str]:
    """What it reaches of the chip; tokens only of a model."""
    parts = [mfu_words(prediction.mfu, prediction.mfu_causal)]
    if prediction.tflops_per_chip is not None:
        parts.append(f"{prediction.tflops_per_chip:.0f} TFLOP/s/chip")
    if prediction.tokens_per_s_per_chip is not None:
        parts.append(f"{prediction.tokens_per_s_per_chip:,.0f} tokens/s/chip")
    return parts


def _lines(prediction: Prediction, plan: Plan | None, wanted: Wanted) -> list[str]:
    """The answer first, as on the screen; then time, memory, model and collectives."""
    memory, time = prediction.memory_bytes, prediction.predicted_s
    step = plan is not None
    lines = [predictions.headline(prediction, step, plan)]
    if time:
        span = span_text(time.low, time.high)
        lines.append(f"time: {seconds_text(time.estimate)} ({span})")
        lines.append(f"cost: {cost_words(cost_of(prediction, wanted.price), step)}")
    lines += _run(prediction, plan, wanted)
    if memory.host:
        of = f" of {bytes_text(room)}" if (room := prediction.host_capacity_bytes) else ""
        lines.append(f"host memory: {bytes_text(memory.host)}{of} per device")
    if prediction.mfu is not None:
        lines.append(f"model: {', '.join(_reached(prediction))}")
    if plan:
        lines.append(_counted(plan, prediction))
    lines += _tables(prediction)
    return lines + [f"note: {note}" for note in prediction.notes]


def _run(prediction: Prediction, plan: Plan | None, wanted: Wanted) -> list[str]:
    words = plan and predictions.run_words(prediction, plan, wanted.tokens or 0, wanted.price)
    return [f"{number_text(wanted.tokens or 0)} tokens: {words}"] if words else []


def _tables(prediction: Prediction) -> list[str]:
    shares = parts(prediction)
    lines = bars("Where the time goes", shares, sum(shares.values()))
    if prediction.collectives:
        lines += ["", *sheet_lines(step_collectives(prediction))]
    return lines


def bars(title: str, shares: Mapping[str, float], total: float) -> list[str]:
    """An empty line, and a bar for each share of a total that is worth one; nothing without any."""
    rows = [
        (name, f"{share / total:.0%}", "█" * max(1, round(_BAR * share / total)))
        for name, share in shares.items()
        if share > _SMALL * total
    ]
    return ["", *table([(title, "Share", ""), *rows], numbers=(1,))] if rows else []


def _counted(plan: Plan, prediction: Prediction) -> str:
    convention = convention_words(plan, prediction)
    return ". ".join([parameters_words(plan.size), *([convention] if convention else [])])


def ignored(model: Mapping[str, object]) -> list[str]:
    """A note on the fields of a config that were not needed."""
    names = cast(Sequence[str], model.get("ignored"))
    return [f"note: {ignored_words(names)}"] if names else []


def print_estimate(plan: Plan, as_json: bool, model: Mapping[str, object], wanted: Wanted) -> None:
    """The instant estimate: memory by the sizes, and the step's time, in the form of a prediction."""
    estimate = in_sentences(estimate_step(plan), plan)
    if as_json:
        known = estimate if estimate.is_timed else estimate.without_time
        spent = wanted.json(known, plan)
        print(
            json.dumps(
                {
                    "plan": plan.to_json(),
                    "model": model,
                    **known.model_dump(mode="json"),
                    "fit": estimate.fit,
                    "nearest": None if estimate.fits else nearest_json(plan),
                    "ways_out": ways_json(_ways(plan, estimate, wanted)),
                    **spent,
                }
            )
        )
        return
    words = estimate.before_compiling
    lines = [predictions.estimate(estimate, plan), *_ways_lines(plan, estimate, wanted)]
    is_timed = estimate.is_timed
    if is_timed:
        lines.append(predictions.step_estimate(estimate))
        lines.append(f"cost: {cost_words(cost_of(estimate, wanted.price))}")
        lines += _run(estimate, plan, wanted)
    lines.append(_counted(plan, estimate) if is_timed else parameters_words(plan.size))
    lines.append(f"per device: {predictions.parts_words(words['parts'])}")
    if is_timed:
        lines += _tables(estimate)
        rows = context_rows(plan)
        lines += (
            ["", context_headline(rows), *sheet_lines(CONTEXT_ROWS.table(rows, "terminal")), ""]
            if rows
            else []
        )
    above = (note for note in words["notes"] if note not in lines[0])
    notes = [f"note: {note}" for note in (*above, *estimate.notes)]
    print("\n".join(lines + notes + ignored(model)))


def _ways(plan: Plan, estimate: Prediction, wanted: Wanted) -> tuple[WayOut, ...]:
    """The plans that fit near one that is not sure to, as the screen has them; none near one that is."""
    if estimate.fit == "fits":
        return ()
    topology = plan.topology
    kinds, tokens = (topology.chip.generation,), wanted.tokens or _TOKENS
    question = TrainingQuestion(plan.to_json(), tokens, plan.batch, kinds, topology.chips)
    try:
        return ways_out(question, plan)
    except RequestError:
        return ()


def _ways_lines(plan: Plan, estimate: Prediction, wanted: Wanted) -> list[str]:
    """The ways out of a plan that is not sure to fit, and the arguments of the first that is."""
    if estimate.fit == "fits":
        return []
    ways = _ways(plan, estimate, wanted)
    if not ways:
        return [nearest_words(plan, None)]
    tried = [f"try: {arguments(plan, way.plan)}" for way in ways if way.is_sure][:1]
    days = f"Days of {tokens_text(wanted.tokens or _TOKENS)}."
    return [ways_headline(plan, ways), *tried, "", *sheet_lines(ways_table(ways, "terminal")), days]


def print_training(answer: TrainingAnswer, as_json: bool) -> None:
    """Print the best plan of each kind of chip: the answer, five figures of the best, the table."""
    if as_json:
        print(json.dumps(training_json(answer)))
        return
    lines, best = [training_headline(answer)], answer.best
    if best and best.plan and best.step:
        figures = five_figures(best.plan, best.step, best.run, best.price)
        rows = [(each.title, each.value, each.more) for each in figures]
        lines += ["", *table([("", "", ""), *rows])[1:]]
        lines += _tables(best.step)[: len(parts(best.step)) + 2]
    for shown in training_tables(answer):
        lines += ["", *sheet_lines(shown)]
    print("\n".join([*lines, tried_words(answer)]))


def nearest_json(plan: Plan) -> dict[str, Any] | None:
    """`nearest` of the JSON form of an estimate that does not fit; None if no plan does."""
    nearest = nearest_fit(plan)
    if nearest is None:
        return None
    memory, time = nearest.prediction.memory_bytes, nearest.prediction.predicted_s
    return {
        "changes": list(changes(plan, nearest)),
        "plan": nearest.plan.to_json(),
        "fit": nearest.prediction.fit,
        "peak_bytes": memory.peak,
        "host_bytes": memory.host,
        "step_s": time.estimate if time else None,
    }


def training_json(answer: TrainingAnswer) -> dict[str, object]:
    """Returns the answer for machines: seconds, bytes, days, dollars; None where not known."""
    question = answer.question
    return {
        "answer": training_headline(answer),
        "model": question.form.get("model"),
        "tokens": question.tokens,
        "global_batch": question.sequences,
        "chips": question.chips,
        "deadline_days": question.days,
        "budget": question.budget,
        "best": answer.best.kind if answer.best else None,
        "best_by": answer.by,
        "about_even": [row.kind for row in answer.even],
        "rows": [_row_json(row) for row in answer.rows],
    }


def _row_json(row: TrainingRow) -> Mapping[str, Any]:
    plan, step, run = row.plan, row.step, row.run
    return {
        "kind": row.kind,
        "meets": row.meets,
        "refusal": row.refusal or None,
        "target": plan and plan.target,
        "chips": plan and plan.topology.chips,
        "mesh": plan and dict(plan.mesh),
        "step_s": run and step and step.predicted_s and step.predicted_s.model_dump(),
        "training_run": run and run.model_dump(),
        "price_per_chip_hour": row.price,
        "binds": run and step and bound_by(step),
        "mfu_causal": step.mfu_causal if run and step else None,
        "peak_bytes": step and step.memory_bytes.peak,
        "fit": step and step.fit,
        "plan": plan and plan.to_json(),
        "plans_tried": row.plans,
        "pipelines_tried": row.pipelines,
        "tried": [
            {"chips": each.chips, "days": each.days, "dollars": each.run.money}
            for each in row.tried
        ],
    }
