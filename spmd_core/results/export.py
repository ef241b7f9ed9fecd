"""Results as JSON and CSV."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from spmd_core.base import mesh_text
from spmd_core.results.ranking import best_rows, compare_rows, of_rows
from spmd_core.results.result import Result, StrategyResult


def json_text(result: Result) -> str:
    """The result, as `python -m spmd_core run --json` prints it, indented."""
    return json.dumps(result_json(result), indent=2) + "\n"


def result_json(result: Result) -> dict[str, object]:
    """A result as plain JSON values; of a study the results of its variants, and how all rows
    (`variant/strategy`), and the best one of each variant, compare.
    """
    if not result.experiment.variants:
        return result.model_dump(mode="json")
    fields = result.model_dump(mode="json", exclude={"strategies", "experiment"})
    variants = [
        {"name": each.name} | _ranked(result.of_variant(each.name)).model_dump(mode="json")
        for each in result.experiment.variants
    ]
    best = of_rows(result, best_rows(result))
    ranked = best.model_dump(mode="json", include={"comparison", "predicted"})
    return {"run": result.run, "variants": variants, "best_of_variants": ranked} | fields


def _ranked(alone: Result) -> Result:
    return alone.model_copy(update={"comparison": compare_rows(alone, alone.strategies)})


CSV_COLUMNS = (
    "run",
    "experiment",
    "workload",
    "target",
    "mesh",
    "strategy",
    "status",
    "operands",
    "sample",
    "seconds",
    "outlier",
    "fits",
    "peak_bytes",
    "predicted_low_s",
    "predicted_s",
    "predicted_high_s",
)
POINT_COLUMNS = (
    "run",
    "target",
    "mesh",
    "collective",
    "axes",
    "devices",
    "dtype",
    "bytes",
    "seconds",
    "seconds_low",
    "seconds_high",
    "algorithm_bytes_per_s",
    "bus_bytes_per_s",
    "predicted_s",
    "correct",
)


def csv_text(*results: Result) -> str:
    """One row per sample, in the order taken; a strategy without samples has one row, its sample
    and seconds empty.

    Of a study the first column is the variant. `operands` is `unsharded` for the second timing of
    `constrained`; seconds are per call.
    """
    text = io.StringIO()
    writer = _Sheet(text)
    if results and all(result.experiment.what.has_formula for result in results):
        writer.writerow(POINT_COLUMNS)
        writer.writerows(_point_rows(results))
        return text.getvalue()
    of_study = any(result.experiment.variants for result in results)
    writer.writerow(("variant", *CSV_COLUMNS) if of_study else CSV_COLUMNS)
    for result in results:
        for name, outcome in result.strategies.items():
            row = result.row(name)
            experiment = row.experiment
            head = (
                *([row.variant] if of_study else []),
                result.run,
                experiment.id,
                experiment.workload,
                experiment.target,
                mesh_text(experiment.mesh, " "),
                row.strategy,
                outcome.status,
            )
            predicted = _predicted(outcome)
            for number, seconds in enumerate(outcome.samples_s):
                writer.writerow(
                    (*head, "placed", number, seconds, number in outcome.outliers, *predicted)
                )
            again_s = outcome.from_unsharded.samples_s if outcome.from_unsharded else ()
            for number, seconds in enumerate(again_s):
                writer.writerow((*head, "unsharded", number, seconds, "", *predicted))
            if not outcome.samples_s:
                writer.writerow((*head, "", "", "", "", *predicted))
    return text.getvalue()


class _Sheet:
    def __init__(self, text: io.StringIO):
        self._writer = csv.writer(text, lineterminator="\n")

    def writerow(self, row: Iterable[Any]) -> None:
        self._writer.writerow(map(safe_cell, row))

    def writerows(self, rows: Iterable[Iterable[Any]]) -> None:
        for row in rows:
            self.writerow(row)


def _point_rows(results: Sequence[Result]) -> Iterator[tuple[Any, ...]]:
    for result in results:
        mesh = mesh_text(result.experiment.mesh, " ")
        for point in next(iter(result.strategies.values())).points:
            low, high = point.ci95_s or ("", "")
            yield (
                result.run,
                result.experiment.target,
                mesh,
                point.kind,
                "+".join(point.axes),
                point.devices,
                point.dtype,
                point.bytes,
                point.time_s,
                low,
                high,
                point.algbw,
                point.busbw,
                point.predicted_s,
                point.correct,
            )


def safe_cell(value: Any) -> Any:
    """A cell of a table: a text that a spreadsheet would run as a formula is led by an apostrophe.

    >>> safe_cell("=1+1"), safe_cell("fsdp=16"), safe_cell(-1.5)
    ("'=1+1", 'fsdp=16', -1.5)
    """
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula else value


def _predicted(outcome: StrategyResult) -> tuple[Any, ...]:
    """Whether it fits, its peak in bytes per device, and the predicted interval in seconds; empty
    without a prediction.
    """
    prediction, time = outcome.prediction, outcome.predicted_s
    fits = (prediction.fits, prediction.memory_bytes.peak) if prediction else ("", "")
    return (*fits, *((time.low, time.estimate, time.high) if time else ("", "", "")))
