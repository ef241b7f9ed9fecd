"""A question of serving over values of one of its texts: requests at once, lengths, chips, dtypes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from spmd_core.base import RequestError, mesh_text, refuse, shorten
from spmd_core.experiment import Experiment, step_experiment
from spmd_core.plan import ServedPlan
from spmd_core.search import (
    CompiledDecode,
    ServingAnswer,
    ServingQuestion,
    ServingRow,
    read_serving,
    with_compiled,
)
from spmd_core.sweeps.curves import Numbers
from spmd_core.sweeps.sweep import MAX_POINTS, SweepPoint
from spmd_core.time import contiguous_time

# names of `SERVING_FORM` that are varied, and values worth starting with
SERVED_SWEPT = {
    "concurrency": "1,4,16,64,256",
    "input": "512,2048,8192",
    "output": "256,1024,4096",
    "chips": "v6e:4;v6e:8;v6e:16",
    "rate": "1,2,4,8",
    "tpot": "10ms,20ms,40ms,80ms",
    "ttft": "500ms,1s,2s",
    "model": "qwen3-8b,qwen3-14b,qwen3-32b",
    "mesh": "tensor=4;data=2,tensor=2",
    "weights_dtype": "bf16,fp8,int8",
    "kv_dtype": "bf16,fp8",
    "chunk": "512,2048,8192",
    "accepted": "1,2,3",
}


@dataclass(frozen=True, slots=True)
class ServedPoint:
    """One value of a sweep: its answer, or the sentence why there is none."""

    value: str
    answer: ServingAnswer | None = None
    refusal: str | None = None

    @property
    def lead(self) -> ServingRow | None:
        """Its best row, else the nearest."""
        return self.answer.lead if self.answer else None


def served_points(
    asked: ServingQuestion, text: str, answered: Callable[[ServingQuestion], ServingAnswer]
) -> tuple[ServedPoint, ...]:
    """Returns a point for each value, as of `concurrency=1,16,64`; values that have commas themselves
    are between semicolons.

    Raises:
      RequestError: the text names nothing to vary, or no values, or too many.
    """
    name, _, listed = text.partition("=")
    name = name.strip().lower().replace("-", "_")
    example = f"write for example concurrency={SERVED_SWEPT['concurrency']}"
    if name not in SERVED_SWEPT:
        rule = f"does not say what to vary, of {', '.join(SERVED_SWEPT)}"
        raise refuse(f"sweep {shorten(text)}", rule, example)
    values = listed.split(";" if ";" in listed else ",")
    values = list(dict.fromkeys(filter(None, map(str.strip, values))))
    if not 0 < len(values) <= MAX_POINTS:
        raise refuse(f"sweep of {len(values)} values", f"is not of 1 to {MAX_POINTS}", example)
    return tuple(_point(asked, name, value, answered) for value in values)


def _point(
    asked: ServingQuestion,
    name: str,
    value: str,
    answered: Callable[[ServingQuestion], ServingAnswer],
) -> ServedPoint:
    try:
        question = read_serving({**asked.form, name: value, "price": ""})
        kinds = {each.chip.generation for each in question.topologies}
        price = tuple(each for each in asked.price if each[0] in kinds)
        return ServedPoint(value, answered(replace(question, price=price)))
    except RequestError as error:
        return ServedPoint(value, refusal=str(error))


def decode_points(answer: ServingAnswer, count: int) -> dict[ServedPlan, SweepPoint]:
    """Returns the decode steps of so many rows, the best first, to be compiled."""
    return {
        row.plan: _decode_point(answer, row)
        for row in [row for row in answer.rows if row.served][:count]
    }


def _decode_point(answer: ServingAnswer, row: ServingRow) -> SweepPoint:
    label = f"{row.plan.topology.name}, {mesh_text(row.plan.mesh, ' ')}"
    try:
        experiment = decode_experiment(answer.question, row)
    except RequestError as error:
        return SweepPoint(label, row.plan.target, refusal=str(error))
    return SweepPoint(label, row.plan.target, experiment, chips=row.chips)


def with_steps(
    answer: ServingAnswer,
    points: Mapping[ServedPlan, SweepPoint],
    numbers: Iterable[Numbers | None],
) -> ServingAnswer:
    """Returns the answer with those of its steps that are compiled, beside their estimates."""
    steps = dict[ServedPlan, CompiledDecode]()
    for (plan, point), known in zip(points.items(), numbers, strict=True):
        if known and point.experiment and (step := point.experiment.served):
            estimate = contiguous_time(step).seconds
            seconds = known.step_s or estimate
            steps[plan] = CompiledDecode(seconds, estimate, known.peak_bytes, known.fits)
    return with_compiled(answer, steps) if steps else answer


def decode_experiment(question: ServingQuestion, row: ServingRow) -> Experiment:
    """Returns the decode step that is compiled of a row: as many requests of each shard as run at
    once, with as many tokens as each has at its end.

    Raises:
      RequestError: no program of a step has such a mesh, or such layers.
    """
    assert row.served
    shards = row.plan.replicas * row.plan.along("data")
    requests = max(1, row.served.running // shards) * shards
    return step_experiment(row.plan, requests, question.load.longest)
