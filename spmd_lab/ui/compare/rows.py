"""The chart of the predicted rows of a study."""

from spmd_core.base import seconds_text
from spmd_core.results import Result, of_rows
from spmd_core.words import title
from spmd_lab.ui.charts import by_strategy
from spmd_lab.ui.charts.base import Spec


def chart(result: Result) -> Spec | None:
    """Predicted times by row with their intervals, the fastest first; None without any."""
    predicted = [name for name in result.order if name in result.only_predicted_s]
    if not predicted:
        return None
    return by_strategy.side_by_side_chart([("predicted", of_rows(result, predicted))])


def chart_alt(result: Result) -> str:
    """That chart in words."""
    return "Predicted time by row: " + ", ".join(
        f"{title(name)} {seconds_text(seconds)}"
        for name, seconds in result.only_predicted_s.items()
    )
