"""Tables of stored runs: the rows of History, what differs between runs, and their answers."""

from collections.abc import Sequence

import pandas as pd

from spmd_core.experiment import Experiment
from spmd_core.history import (
    difference_rows,
    fastest_words,
    labels_words,
    operand_bytes,
    shape_words,
)
from spmd_core.runs import RunSummary
from spmd_core.sheets import NONE
from spmd_core.terms import outcome_words
from spmd_lab.ui import cards

# of a run in the history
WHEN, TIME, LABELS, OPERANDS_KIB = "When", "Time", "Name and tags", "Operands, KiB"
VERDICT = "Verdict"
FASTEST = "Time of"  # whose it is: of a study the best variant's, which a baseline may be below
_FIRST = (WHEN, "Workload", "Dims", TIME, VERDICT, LABELS, "Target", "Mesh", "Sharding")  # columns
NAMES = "ABCDEFGH"  # of runs that stand side by side


def runs_table(runs: Sequence[RunSummary]) -> pd.DataFrame:
    """Stored runs, newest first: first what differs between them, and moments, seconds and KiB
    are values, so that they sort as such.
    """
    answers = [run.answer or (None, None, None) for run in runs]
    shapes = [shape_words(run.experiment) for run in runs]
    sizes = [operand_bytes(run.experiment) for run in runs]
    named = [labels_words(run) for run in runs]
    labels = list(dict.fromkeys(label for shape in shapes for label in shape))
    table = pd.DataFrame(
        {
            WHEN: pd.to_datetime([run.submitted_at for run in runs], unit="s", utc=True),
            TIME: pd.Series([time for _, time, _ in answers], dtype="float64"),
            **({LABELS: [each or NONE for each in named]} if any(named) else {}),
            FASTEST: [fastest_words(run) or NONE for run in runs],
            VERDICT: [", ".join(filter(None, cards.outcome(run)[1:])) or NONE for run in runs],
            "Outcome": [outcome_words(run) for run in runs],
            **{label: [shape[label] or NONE for shape in shapes] for label in labels},
            OPERANDS_KIB: pd.Series(
                [None if size is None else size / 2**10 for size in sizes], dtype="float64"
            ),
            "Run": [run.run for run in runs],
        }
    )
    first = [label for label in _FIRST if label in table]
    return table.reindex(columns=[*first, *table.columns.difference(first, sort=False)])


def differences_table(
    experiments: Sequence[Experiment], names: Sequence[str] = NAMES
) -> pd.DataFrame:
    """What differs between experiments, in words: a row for each part, a column for each of them."""
    columns = ["", *names[: len(experiments)]]
    rows = [[label, *texts] for label, texts in difference_rows(experiments)]
    return pd.DataFrame(rows, columns=pd.Index(columns))
