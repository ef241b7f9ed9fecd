"""The table and the chart of a study: what measured and predicted rows have in common."""

import pandas as pd

from spmd_core.results.result import Result, StrategyResult
from spmd_core.units import bytes_text, seconds_text
from spmd_core.words import runs as words
from spmd_core.words.costs import mfu_text
from spmd_core.words.names import title
from ui import tables
from ui.charts import base
from ui.markdown import plain

NONE = tables.NONE


def rows_table(result: Result) -> pd.DataFrame:
    """Time with its interval, how it compares, memory, communication and MFU of every row, the
    fastest first; columns that say nothing are left out.
    """
    compared = tables.against(result)
    frame = pd.DataFrame([{
        "Variant": plain(result.row(name).variant), "Strategy": title(result.row(name).strategy),
        **_time(found), tables.PAIRED_RATIO: compared.get(name, NONE),
        "Peak per device": _peak(found), "Communication": words.collectives_words(found),
        "MFU": mfu_text(result.row(name), found),
        "Values": words.verdict_words(found) if found.median_s is not None else _fits(found)}
        for name, found in result.ordered])
    if len(set(frame["Strategy"])) == 1:  # as the answer above says
        frame = frame.drop(columns="Strategy")
    return tables.without_empty(frame, tables.PAIRED_RATIO, "MFU")


def _time(found: StrategyResult) -> dict[str, str]:
    """Measured with its 95 % interval, else predicted with the interval that it stands for."""
    if found.median_s is not None:
        return {"Time": tables.time_text(found.median_s),
                "Interval": tables.interval_text(found.ci95_s)}
    if found.predicted_s is None:
        return {"Time": NONE, "Interval": NONE}
    span = found.predicted_s.low, found.predicted_s.high
    return {"Time": f"{tables.time_text(found.predicted_s.estimate)}, predicted",
            "Interval": tables.interval_text(span)}


def _peak(found: StrategyResult) -> str:
    peak = found.prediction.memory_bytes.peak if found.prediction else \
        found.memory_bytes.peak if found.memory_bytes else None
    return bytes_text(peak).replace(" ", "\u00a0")


def _fits(found: StrategyResult) -> str:
    if found.prediction is None:
        return words.verdict_words(found)
    return "fits" if found.prediction.fits else "does not fit"


def chart(result: Result) -> base.Spec | None:
    """Predicted times by row with their intervals, where nothing was measured."""
    if not words.is_predicted(result):
        return None
    return base.side_by_side_chart([("predicted", result)])


def chart_alt(result: Result) -> str:
    """That chart in words."""
    return "Predicted time by row: " + ", ".join(
        f"{title(name)} {seconds_text(seconds)}"
        for name, seconds in result.only_predicted_s.items())
