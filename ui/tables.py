"""Values to data frames, one function per table, in the words and units of the screen."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from spmd_core.base import bytes_text, seconds_text
from spmd_core.results import Result, StrategyResult, safe_cell
from spmd_core.words import (
    PAIRED,
    off_words,
    studies,
    title,
    verdict_words,
)
from ui.markdown import coded

NONE = "–"
_RATE = "GB/s"
_PREDICTED = "Predicted"
PAIRED_RATIO = PAIRED


def escaped(table: pd.DataFrame | Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """What `st.table` is given: it reads cells and headings as Markdown, and these show as they
    are; what stands between backticks is code.
    """
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(dict(table))
    return frame.map(_shown).rename(columns=_shown, index=_shown)


def sheet(table: pd.DataFrame | Mapping[str, Sequence[Any]] | Sequence[Any]) -> pd.DataFrame:
    """What `st.dataframe` is given: its menu saves cells and headings as CSV, which no spreadsheet
    may run.
    """
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
    return frame.map(safe_cell).rename(columns=safe_cell)


def _shown(cell: object) -> object:
    return coded(cell) if isinstance(cell, str) else cell


def times_table(result: Result) -> pd.DataFrame:
    """Median, interval, ratio to the fastest and verdict on the values, one row per strategy, the
    fastest first (two for `constrained`)."""
    compared = studies.against(result)
    rows = []
    for name, found in result.ordered:
        rows.append(
            _times_row(title(name), found.median_s, found)
            | {
                "95 % interval": interval_text(found.ci95_s),
                _RATE: _rate(found),
                _PREDICTED: _predicted(found),
                PAIRED_RATIO: compared.get(name, NONE),
            }
        )
        if found.from_unsharded is not None:
            rows.append(
                _times_row(
                    f"{title(name)}, from unsharded operands", found.from_unsharded.median_s, found
                )
            )
    return without_empty(pd.DataFrame(rows), _RATE, _PREDICTED, PAIRED_RATIO)


def _times_row(label: str, median_s: float | None, found: StrategyResult) -> dict[str, str]:
    return {
        "Strategy": label,
        "Median per call": time_text(median_s),
        "95 % interval": NONE,
        _RATE: NONE,
        _PREDICTED: NONE,
        PAIRED_RATIO: NONE,
        "Values": verdict_words(found),
    }


def _rate(found: StrategyResult) -> str:
    """Of a transfer: how fast the whole array moved."""
    return NONE if found.bytes_per_s is None else f"{found.bytes_per_s / 1e9:.3g}"


def _predicted(found: StrategyResult) -> str:
    """What the cost model says of the program that was timed, and by how much it is off."""
    if found.predicted_s is None:
        return NONE
    error, time = found.prediction_error, time_text(found.predicted_s.estimate)
    return time if error is None else f"{time}, {off_words(error)}"


def without_empty(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Without those of the columns that say nothing of any strategy."""
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
                "Strategy": title(name),
                "Samples": f"{len(found.samples_s):,}",
                "Calls per sample": NONE
                if found.calls_per_sample is None
                else f"{found.calls_per_sample:,}",
                "Outliers, kept": str(len(found.outliers)),
                "Spread (inter-quartile range)": _spread(found),
            }
            for name, found in result.ordered
            if found.samples_s
        ]
    )


def roofs_table(result: Result) -> pd.DataFrame:
    """The least time of each strategy by each ceiling of the machine; empty where it was not
    calibrated.
    """
    rows = []
    for name, found in result.ordered:
        if found.roofline is None or found.predicted_s is None:
            continue
        roofs = found.roofline
        rows.append(
            {
                "Strategy": title(name),
                "Measured": time_text(found.median_s),
                "Expected": time_text(found.predicted_s.estimate),
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
    """From where to where a duration is known to lie."""
    return NONE if interval is None else f"{time_text(interval[0])} to {time_text(interval[1])}"


def _spread(found: StrategyResult) -> str:
    if found.iqr_s is None or not found.median_s:
        return NONE
    return f"{time_text(found.iqr_s)} ({found.iqr_s / found.median_s:.0%})"


def samples_table(result: Result) -> pd.DataFrame:
    """Every sample in microseconds: one row per round, one column per strategy."""
    samples = {
        title(name): found.samples_s for name, found in result.strategies.items() if found.samples_s
    }
    samples |= {
        f"{title(name)}, from unsharded": found.from_unsharded.samples_s
        for name, found in result.strategies.items()
        if found.from_unsharded is not None
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
                "Strategy": title(name),
                "Trace": time_text(found.phases_s.trace),
                "Lower": time_text(found.phases_s.lower),
                "Compile": time_text(found.phases_s.compile),
                "First run": time_text(found.phases_s.first_run),
                "Then, per call": time_text(found.median_s),
            }
            for name, found in result.ordered
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
            {"Strategy": title(name)}
            | {
                label: bytes_text(getattr(found.memory_bytes, part))
                for label, part in parts.items()
            }
            for name, found in result.ordered
            if found.memory_bytes is not None
        ]
    )


def errors_table(result: Result) -> pd.DataFrame:
    """Error of every strategy against the reference: NumPy in float64."""
    return pd.DataFrame(
        [
            {
                "Strategy": title(name),
                "Largest error": _number(found.max_abs_error),
                "Relative to the largest value": _number(found.max_rel_error),
                "Wrong elements": NONE
                if found.wrong is None
                else f"{found.wrong.count:,} of {found.wrong.of:,}",
                "Values": verdict_words(found),
            }
            for name, found in result.ordered
        ]
    )


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.3g}"


def arrays_table(result: Result, strategy: str) -> pd.DataFrame:
    """Operands and results of a strategy as JAX reports them."""
    found = result.strategies[strategy]
    rows = [
        (kind, name, report)
        for kind, reports in (("operand", found.operands), ("result", found.outputs))
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
