"""What a sheet leaves out, and what its renderers make of a table."""

import pytest

from spmd_core.sheets import Cell, Sheet, Table, sheet as printed, text
from spmd_core.sheets.sheet import between, seconds, size

SHEET = Sheet(
    (
        text("Name", lambda row: row[0]),
        seconds("Time", lambda row: row[1]),
        *between("Interval", lambda row: row[2]),
        size("Bytes", lambda row: row[3]),
    )
)
ROWS = [("a", 2e-6, (1e-6, 3e-6), None), ("b", None, None, None)]


def test_a_column_that_is_empty_in_every_row_is_left_out():
    table = SHEET.table(ROWS, "screen")
    assert table.columns == ("Name", "Time", "Interval")
    assert table.rows[0] == (Cell("a"), Cell("2.00 µs", 2e-6), Cell("1.00 to 3.00 µs"))
    assert [cell.text for cell in table.rows[1]] == ["b", "–", "–"]


def test_a_document_has_the_exact_ends_of_an_interval():
    table = SHEET.table(ROWS, "document")
    assert table.columns == ("Name", "Time", "Low", "High")
    assert table.rows[0][2:] == (Cell("1.00 µs", 1e-6), Cell("3.00 µs", 3e-6))


def test_no_rows_leave_no_columns():
    assert SHEET.table([], "screen") == Table((), ())


@pytest.mark.parametrize("room", [200, 30, 5])
def test_a_table_is_as_wide_as_the_terminal_and_breaks_no_word(monkeypatch, room):
    monkeypatch.setattr(printed, "_room", lambda: room)
    rows = [("run", "what it did"), ("20260101-000000-aaaaab", "all-reduce over x and y " * 3)]
    lines = printed.table(rows)
    assert all("20260101-000000-aaaaab" in line for line in lines if "2026" in line)
    widest = max(map(len, lines))
    longest_words = len("20260101-000000-aaaaab") + 2 + len("all-reduce")
    assert widest <= max(room, longest_words)
    assert " ".join(lines).split().count("all-reduce") == 3


def test_numbers_are_right_aligned(monkeypatch):
    table = SHEET.table([("a", 2e-6, None, 5), ("bb", 1.25e-6, None, 2**20)], "terminal")
    assert printed.sheet_lines(table) == [
        "Name     Time    Bytes",
        "a     2.00 µs      5 B",
        "bb    1.25 µs  1.0 MiB",
    ]
