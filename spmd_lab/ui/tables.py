"""Values to data frames, one function per table, in the words and units of the screen."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import pandas as pd
import pyarrow as pa
import streamlit as st
from pandas.io.formats.style import Styler
from streamlit.elements.lib.column_types import ColumnConfig

from spmd_core.results import Result, safe_cell
from spmd_core.sheets import NONE, Table
from spmd_lab.ui.markdown import coded, unbroken

# pixels of a column: of a character, and beside the text
_CHARACTER, _PADDING = 6.2, 20


def escaped(
    table: Table | pd.DataFrame | Mapping[str, Sequence[str]],
    named: Callable[[str], str] | None = None,
) -> pa.Table:
    """What `st.table` is given: it reads cells and headings as Markdown, and these show as they
    are; what is between backticks is code. In Arrow's form, which is what is sent: pandas took an
    eighth of a rerun's time on the way there. `named` writes the cells of the first column.
    """
    if isinstance(table, Table):
        table = table_frame(table)
    columns = [
        pa.array([*map(shown, pd.Series(table[name], dtype=object))], from_pandas=True)
        for name, shown in zip(
            map(str, table), chain([named or _shown], repeat(_shown)), strict=False
        )
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
    styler.format(dict(formats), na_rep=NONE)  # pyrefly: ignore[bad-argument-type]
    return styler


def sortable(table: Table) -> Styler:
    """Returns what `st.dataframe` shows of a sheet's table: columns of numbers sort by their values."""
    numbers = [name for name in table.columns if table.is_number(name)]
    frame = table_frame(table)
    for name in numbers:
        frame[name] = pd.Series([cell.value for cell in table.column(name)], dtype="float64")

    def as_written(name: str) -> Callable[[float], str]:
        texts = {cell.value: cell.text for cell in table.column(name)}
        return lambda value: texts[value]

    return formatted(frame, {name: as_written(name) for name in numbers})


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
    """Returns the cells of a sheet's table as texts."""
    rows = [[unbroken(cell.text) for cell in row] for row in table.rows]
    return pd.DataFrame(rows, columns=pd.Index(table.columns))


def _shown(cell: object) -> object:
    return coded(cell) if isinstance(cell, str) else cell


def samples_frame(table: Table) -> pd.DataFrame:
    """Every sample in microseconds: one row per round, one column per strategy."""
    names = [name for name in table.columns if name != "Round"]
    return pd.DataFrame(
        {
            name: [
                None if cell.value is None else float(f"{cell.value * 1e6:.4g}")
                for cell in table.column(name)
            ]
            for name in names
        },
        index=pd.RangeIndex(1, len(table.rows) + 1, name="Round"),
    )


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
