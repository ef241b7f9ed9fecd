"""Values to data frames, one function per table, in the words and units of the screen."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import streamlit as st
from pandas.io.formats.style import Styler
from streamlit.elements.lib.column_types import ColumnConfig

from spmd_core.base import bytes_text, seconds_text
from spmd_core.reports import Table
from spmd_core.results import Result, StrategyResult, safe_cell
from spmd_core.words import (
    PAIRED,
    off_words,
    row_title,
    studies,
    timed_in,
    verdict_words,
)
from ui.markdown import coded

NONE = "–"
_RATE = "GB/s"
_PREDICTED = "Predicted"
PAIRED_RATIO = PAIRED
# pixels of a column: of a character, and beside the text
_CHARACTER, _PADDING = 6.2, 20


def escaped(table: pd.DataFrame | Mapping[str, Sequence[str]]) -> pa.Table:
    """What `st.table` is given: it reads cells and headings as Markdown, and these show as they
    are; what is between backticks is code. In Arrow's form, which is what is sent: pandas took an
    eighth of a rerun's time on the way there.
    """
    columns = [
        pa.array([_shown(cell) for cell in pd.Series(table[name], dtype=object)], from_pandas=True)
        for name in table
    ]
    return pa.Table.from_arrays(columns, names=[str(_shown(name)) for name in table])


def sheet(table: pd.DataFrame | Mapping[str, Sequence[Any]] | Sequence[Any]) -> pd.DataFrame:
    """What `st.dataframe` is given: its menu saves cells and headings as CSV, which no spreadsheet
    may run.
    """
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
    return frame.map(safe_cell).rename(columns=safe_cell)


def formatted(table: pd.DataFrame, formats: Mapping[str, Callable[[float], str]]) -> Styler:
    """As `sheet`, with columns of numbers that read so and sort by their values."""
    styler = sheet(table).style
    styler.format(dict(formats), na_rep=NONE)
    return styler


def wide_enough(table: pd.DataFrame, widest: int = 420) -> dict[str, ColumnConfig]:
    """Of `st.dataframe` the columns of texts, each as wide as its longest one needs, and at most
    `widest` pixels.
    """
    return {
        str(label): st.column_config.TextColumn(
            width=min(
                widest, int(_CHARACTER * max(map(len, [str(label), *table[label]])) + _PADDING)
            )
        )
        for label in table.columns
        if pd.api.types.is_string_dtype(table[label])
    }


def table_frame(table: Table) -> pd.DataFrame:
    """A table of a report, as the screens draw one."""
    rows = [[cell.text for cell in row] for row in table.rows]
    return pd.DataFrame(rows, columns=pd.Index(table.columns))


def _shown(cell: object) -> object:
    return coded(cell) if isinstance(cell, str) else cell


def times_table(result: Result) -> pd.DataFrame:
    """Median, interval, ratio to the fastest and verdict on the values, one row per strategy, the
    fastest first (two for `constrained`)."""
    compared = studies.against(result)
    rows = []
    for name, strategy in result.ordered:
        rows.append(
            _times_row(row_title(result, name), strategy.median_s, strategy, timed_in(result, name))
            | {
                "95 % interval": interval_text(strategy.ci95_s),
                _RATE: _rate(strategy),
                _PREDICTED: _predicted(strategy),
                PAIRED_RATIO: compared.get(name, NONE),
            }
        )
        if strategy.from_unsharded is not None:
            rows.append(
                _times_row(
                    f"{row_title(result, name)}, from unsharded operands",
                    strategy.from_unsharded.median_s,
                    strategy,
                )
            )
    return without_empty(pd.DataFrame(rows), _RATE, _PREDICTED, PAIRED_RATIO)


def _times_row(
    label: str, median_s: float | None, strategy: StrategyResult, timed: str = ""
) -> dict[str, str]:
    return {
        "Strategy": label,
        "Median per call": f"{time_text(median_s)}{timed}",
        "95 % interval": NONE,
        _RATE: NONE,
        _PREDICTED: NONE,
        PAIRED_RATIO: NONE,
        "Values": verdict_words(strategy),
    }


def _rate(strategy: StrategyResult) -> str:
    """Of a transfer: how fast the array moved."""
    return NONE if strategy.bytes_per_s is None else f"{strategy.bytes_per_s / 1e9:.3g}"


def _predicted(strategy: StrategyResult) -> str:
    """What the cost model predicts for the program that was timed, and its error."""
    if strategy.predicted_s is None:
        return NONE
    error, time = strategy.prediction_error, time_text(strategy.predicted_s.estimate)
    return time if error is None else f"{time}, {off_words(error)}"


def without_empty(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Without those of the columns that are empty for every strategy."""
    return frame.drop(
        columns=[column for column in columns if column in frame and set(frame[column]) == {NONE}]
    )


def measuring_table(result: Result) -> pd.DataFrame:
    """How each strategy was measured: samples, calls in each, outliers (flagged, never dropped),
    spread.
    """
    return pd.DataFrame(
        [
            {
                "Strategy": row_title(result, name),
                "Samples": " + ".join(
                    f"{len(taken):,}"
                    for taken in (strategy.samples_s, strategy.remeasured_s)
                    if taken
                ),
                "Calls per sample": NONE
                if strategy.calls_per_sample is None
                else f"{strategy.calls_per_sample:,}",
                "Outliers, kept": str(len(strategy.outliers)),
                "Spread (inter-quartile range)": _spread(strategy),
            }
            for name, strategy in result.ordered
            if strategy.samples_s
        ]
    )


def hosts_table(result: Result) -> pd.DataFrame:
    """The median of each host of a run on several, in each strategy; the slowest is the result."""
    return pd.DataFrame(
        [
            {
                "Strategy": row_title(result, name),
                "Host": each.host,
                "Process": str(each.process),
                "Devices": str(each.devices),
                "Its median per call": time_text(each.median_s),
            }
            for name, strategy in result.ordered
            for each in strategy.hosts
            if len(strategy.hosts) > 1
        ]
    )


def roofs_table(result: Result) -> pd.DataFrame:
    """The least time of each strategy by each ceiling of the machine; empty where it was not
    calibrated.
    """
    rows = []
    for name, strategy in result.ordered:
        if strategy.roofline is None or strategy.predicted_s is None:
            continue
        roofs = strategy.roofline
        rows.append(
            {
                "Strategy": row_title(result, name),
                "Measured": time_text(strategy.median_s),
                "Expected": time_text(strategy.predicted_s.estimate),
                **{
                    f"{what.capitalize()}, at least": time_text(seconds)
                    for what, seconds in roofs.roofs_s.items()
                },
                "Binds": roofs.binds,
                "Share reached": NONE if roofs.share is None else f"{roofs.share:.0%}",
            }
        )
    return pd.DataFrame(rows)


def time_text(seconds: float | None) -> str:
    """A duration that a narrow column does not break between number and unit."""
    return seconds_text(seconds).replace(" ", "\u00a0")


def interval_text(interval: tuple[float, float] | None) -> str:
    """The low and the high end of a duration."""
    return NONE if interval is None else f"{time_text(interval[0])} to {time_text(interval[1])}"


def _spread(strategy: StrategyResult) -> str:
    if strategy.iqr_s is None or not strategy.median_s:
        return NONE
    return f"{time_text(strategy.iqr_s)} ({strategy.iqr_s / strategy.median_s:.0%})"


def samples_table(result: Result) -> pd.DataFrame:
    """Every sample in microseconds: one row per round, one column per strategy."""
    samples = {
        row_title(result, name): strategy.samples_s + strategy.remeasured_s
        for name, strategy in result.strategies.items()
        if strategy.samples_s
    }
    samples |= {
        f"{row_title(result, name)}, from unsharded": strategy.from_unsharded.samples_s
        for name, strategy in result.strategies.items()
        if strategy.from_unsharded is not None
    }
    frame = pd.DataFrame(
        {
            name: pd.Series([float(f"{seconds * 1e6:.4g}") for seconds in taken])
            for name, taken in samples.items()
        }
    )
    frame.index = pd.RangeIndex(1, len(frame) + 1, name="Round")
    return frame


def phases_table(result: Result) -> pd.DataFrame:
    """Seconds of every phase before the steady state."""
    return pd.DataFrame(
        [
            {
                "Strategy": row_title(result, name),
                "Trace": time_text(strategy.phases_s.trace),
                "Lower": time_text(strategy.phases_s.lower),
                "Compile": time_text(strategy.phases_s.compile),
                "First run": time_text(strategy.phases_s.first_run),
                "Then, per call": time_text(strategy.median_s),
            }
            for name, strategy in result.ordered
        ]
    )


def memory_table(result: Result) -> pd.DataFrame:
    """Bytes per device, by the compiler's account."""
    parts = {
        "Arguments": "argument",
        "Results": "output",
        "Temporaries": "temp",
        "Peak": "peak",
        "Host memory": "host",
    }
    return pd.DataFrame(
        [
            {"Strategy": row_title(result, name)}
            | {
                label: bytes_text(getattr(strategy.memory_bytes, part))
                for label, part in parts.items()
            }
            for name, strategy in result.ordered
            if strategy.memory_bytes is not None
        ]
    )


def errors_table(result: Result) -> pd.DataFrame:
    """Error of every strategy against the reference: NumPy in float64."""
    return pd.DataFrame(
        [
            {
                "Strategy": row_title(result, name),
                "Largest error": _number(strategy.max_abs_error),
                "Relative to the largest value": _number(strategy.max_rel_error),
                "Wrong elements": NONE
                if strategy.wrong is None
                else f"{strategy.wrong.count:,} of {strategy.wrong.of:,}",
                "Values": verdict_words(strategy),
            }
            for name, strategy in result.ordered
        ]
    )


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.3g}"


def arrays_table(result: Result, strategy: str) -> pd.DataFrame:
    """Operands and results of a strategy as JAX reports them."""
    of_strategy = result.strategies[strategy]
    rows = [
        (kind, name, report)
        for kind, reports in (("operand", of_strategy.operands), ("result", of_strategy.outputs))
        for name, report in reports.items()
    ]
    return pd.DataFrame(
        [
            {
                "Array": name,
                "Is": kind,
                "Shape": " × ".join(map(str, report.shape)) or "scalar",
                "dtype": report.dtype,
                "Spec": "one device" if report.spec is None else spec_words(report.spec),
                "Memory": report.memory or NONE,
                "Shard shape": _shard_shape(report.shards),
                "Devices": str(len(report.shards)) if report.shards else NONE,
            }
            for kind, name, report in rows
        ]
    )


def _shard_shape(shards: Iterable[object] | None) -> str:
    first = next(iter(shards or ()), None)
    return (
        NONE
        if first is None
        else " × ".join(str(stop - start) for start, stop in first.index) or "scalar"  # pyright: ignore[reportAttributeAccessIssue]
    )


def spec_words(spec: tuple[object, ...]) -> str:
    """A spec as JAX writes it: P('x', None, ('y', 'z'))."""
    return (
        "P("
        + ", ".join(
            "None" if entry is None else repr(tuple(entry) if isinstance(entry, list) else entry)
            for entry in spec
        )
        + ")"
    )
