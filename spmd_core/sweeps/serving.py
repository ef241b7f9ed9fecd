"""A question of serving over values of one of its texts: requests at once, lengths, chips, dtypes."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from spmd_core.base import RequestError, refuse, shorten
from spmd_core.search import ServingAnswer, ServingQuestion, ServingRow, read_serving
from spmd_core.sweeps.sweep import MAX_POINTS

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
        return (self.answer.best or self.answer.nearest) if self.answer else None


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
