"""Reads the tables of sheets."""


def records(table):
    """Returns each row as texts by column."""
    return [
        dict(zip(table.columns, (cell.text for cell in row), strict=True)) for row in table.rows
    ]


def texts(table, column):
    """Returns the texts of a column."""
    return [cell.text for cell in table.column(column)]
