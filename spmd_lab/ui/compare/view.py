"""What is drawn of a finished run, made once: charts and tables in memory, for the few runs looked
at last.
"""

from dataclasses import dataclass

from spmd_core.answers import collectives_table, strategies_table
from spmd_core.base import seconds_text
from spmd_core.results import Result, of_rows
from spmd_core.roofline import calibration, with_roofline
from spmd_core.sheets import Table
from spmd_core.terms import title
from spmd_lab.ui.charts import by_strategy
from spmd_lab.ui.charts.base import Spec
from spmd_lab.ui.charts.times import times_alt, times_chart
from spmd_lab.ui.lab import kept, lab


def _predicted(result: Result) -> list[tuple[Spec, str]]:
    shown = [name for name in result.order if name in result.only_predicted_s]
    times = (f"{title(name)} {seconds_text(result.only_predicted_s[name])}" for name in shown)
    chart = by_strategy.side_by_side_chart([("predicted", of_rows(result, shown))])
    return [(chart, f"Predicted time by row: {', '.join(times)}")] if shown and chart else []


_KEPT_RUNS = 8  # a view is at most a few hundred kB


@dataclass(frozen=True, slots=True)
class View:
    """The parts of a result that a rerun draws again and again. A chart is None where nothing was
    measured; `times` has one of what was measured, and one of what was predicted, each with its
    words.
    """

    result: Result
    times: tuple[tuple[Spec, str], ...]
    times_table: Table
    collectives: Table
    phases: Spec | None
    memory: Spec | None


def forget() -> None:
    """Drop what is kept: runs were deleted."""
    view.cache_clear()


@kept(_KEPT_RUNS)
def view(run: str) -> View | None:
    """The view of a run; None where it left no result."""
    result = lab().result(run)
    if result is None:
        return None
    if lab().notebook.origin(run) is None:  # a calibration of this machine is of no other
        result = result.by_variant(
            lambda each: with_roofline(
                each, calibration(each.experiment, lab().latest, lab().result)
            )
        )
    of_study = bool(result.experiment.variants)
    times = [(chart, times_alt(result))] if (chart := times_chart(result)) else []
    if of_study or len(result.only_predicted_s) > 1:
        times += _predicted(result)
    return View(
        result,
        tuple(times),
        strategies_table(result, "study" if of_study else "screen"),
        collectives_table(result, programs=lab().program_texts(result)),
        by_strategy.phases_chart(result),
        by_strategy.memory_chart(result),
    )
