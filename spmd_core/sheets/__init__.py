"""Sheets: columns over rows of one kind, and the tables and lines that show them."""

from spmd_core.sheets.columns import sheet_lines, table
from spmd_core.sheets.sheet import (
    EMPTY,
    EVERYWHERE,
    NONE,
    Cell,
    Column,
    Place,
    Sheet,
    Table,
    between,
    chosen_columns,
    count,
    number,
    seconds,
    size,
    text,
    turned,
)

__all__ = [
    "EMPTY",
    "EVERYWHERE",
    "NONE",
    "Cell",
    "Column",
    "Place",
    "Sheet",
    "Table",
    "between",
    "chosen_columns",
    "count",
    "number",
    "seconds",
    "sheet_lines",
    "size",
    "table",
    "text",
    "turned",
]
