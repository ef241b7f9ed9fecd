"""Lines that a stored run quotes are those of the program that ran, on the screen and in reports; the program that
is made today may have others.
"""

import pytest

from bench.values import result, strategy
from spmd_core.lab import Lab
from spmd_core.reports import report_document
from spmd_core.script import program_text
from spmd_core.sheets import Table
from spmd_lab.ui.compare import view
from tests.ui.predictions import store

RUN = "20260101-000000-abcdef"
WHY = "Why, and where"
RAN = "the_line = before(the, change)"
SUM = {
    "kind": "all-reduce",
    "axes": ["x"],
    "bytes": 16,
    "count": 1,
    "source": "layer_auto.py:2",
    "reason": "the parts are added over x",
}
FOUND = result({"auto": strategy(1e-5, collectives=[SUM])}, run=RUN)


def _cell(table):
    """Returns where its only collective is, as a table says it."""
    (row,) = table.rows
    return row[table.columns.index(WHY)].text


def _of_screen(folder):
    view.forget()
    return _cell(view.view(RUN).collectives)


def _of_report(folder):
    lab = Lab.open(folder, serve=False)
    (stored,) = lab.history(runs=[RUN])
    blocks = report_document([lab.subject(stored)]).blocks
    return next(_cell(each) for each in blocks if isinstance(each, Table) and WHY in each.columns)


@pytest.mark.parametrize("say", [_of_screen, _of_report])
@pytest.mark.parametrize("is_stored", [True, False])
def test_the_line_that_is_quoted_is_of_the_program_that_ran(data_folder, say, is_stored):
    today = program_text(FOUND.experiment, "auto").splitlines()[1].strip()
    assert today not in RAN
    texts = {"auto": {"program": f"import jax\n{RAN}\n"}} if is_stored else None
    store(data_folder, FOUND, texts)
    said = say(data_folder)
    assert today not in said
    assert (f"Line 2: `{RAN}`" if is_stored else "layer_auto.py:2") in said
