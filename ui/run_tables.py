"""Tables of stored runs: the rows of History, what differs between runs, and their answers."""

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from spmd_core.experiment import Experiment
from spmd_core.results import Result, RunSummary, StrategyResult
from spmd_core.words import (
    cost_of,
    difference_rows,
    fastest_words,
    labels_words,
    operand_bytes,
    outcome_words,
    peak_words,
    row_title,
    rows as cost_rows,
    shape_words,
    time_words,
)
from ui.tables import NONE

# of a run in the history
WHEN, TIME, LABELS, OPERANDS_KIB = "When", "Time", "Name and tags", "Operands, KiB"
FASTEST = "Time of"  # whose it is: of a study the best variant's, which a baseline may be below
# which experiment a row is of, before what can be looked up once it is ticked
_FIRST = (WHEN, TIME, LABELS, "Workload", "Outcome", "Target", "Mesh", "Dims", FASTEST)
NAMES = "ABCDEFGH"  # of runs that stand side by side


def runs_table(runs: Sequence[RunSummary]) -> pd.DataFrame:
    """Stored runs, newest first: what tells them apart comes first, and moments, seconds and KiB
    are values, so that they sort as such.
    """
    answers = [run.answer or (None, None, None) for run in runs]
    shapes = [shape_words(run.experiment) for run in runs]
    sizes = [operand_bytes(run.experiment) for run in runs]
    labels = list(dict.fromkeys(label for shape in shapes for label in shape))
    table = pd.DataFrame(
        {
            WHEN: pd.to_datetime([run.submitted_at for run in runs], unit="s", utc=True),
            TIME: pd.Series([time for _, time, _ in answers], dtype="float64"),
            **_added(runs),
            FASTEST: [fastest_words(run) or NONE for run in runs],
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


def _added(runs: Sequence[RunSummary]) -> dict[str, list[str]]:
    """The column of names and tags, where any run has some."""
    words = [labels_words(run) for run in runs]
    return {LABELS: [each or NONE for each in words]} if any(words) else {}


def differences_table(
    experiments: Sequence[Experiment], names: Sequence[str] = NAMES
) -> pd.DataFrame:
    """What differs between experiments, in words: a row for each part, a column for each of them."""
    columns = ["", *names[: len(experiments)]]
    rows = [[label, *texts] for label, texts in difference_rows(experiments)]
    return pd.DataFrame(rows, columns=pd.Index(columns))


def answers_table(
    results: Sequence[tuple[str, Result]], price: float | None = None
) -> pd.DataFrame:
    """Times, peak memory and costs of several runs, measured or predicted, one row per strategy and
    one column per run; `results` pairs each run's name with its result, and `price` is in dollars
    per chip-hour."""
    outcomes = {
        run: {row_title(result, name): outcome for name, outcome in result.ordered}
        for run, result in results
    }
    names = dict.fromkeys(name for rows in outcomes.values() for name in rows)
    # a step has no strategies to choose from: what is the answer's alone needs no name of one
    are_steps = all(result.experiment.plan for _, result in results)
    lead = {name: "" if are_steps else f"{name}, " for name in names}
    costs: dict[str, dict[str, dict[str, str]]] = {each: {} for each in names}
    for each in names:
        for run, result in results:
            outcome = outcomes[run].get(each)
            if outcome is not None and outcome.prediction is not None:
                costs[each][run] = cost_rows(
                    cost_of(outcome.prediction, price), result.experiment.what.unit == "step"
                )
    rows = [
        row
        for name in names
        for row in (
            *(
                _row_of(f"{lead[name]}{label}", name, outcomes, words)
                for label, words in (("time", time_words), ("memory", peak_words))
            ),
            *_cost_rows(lead[name], results, costs[name]),
        )
    ]
    return pd.DataFrame([row for row in rows if set(list(row.values())[1:]) != {NONE}])


def _cost_rows(
    lead: str, results: Sequence[tuple[str, Result]], costs: Mapping[str, Mapping[str, str]]
) -> list[dict[str, str]]:
    """A row for each kind of cost that any run has; `costs` by run and label."""
    labels = dict.fromkeys(label for outcome in costs.values() for label in outcome)
    return [
        {"": f"{lead}{label if label == 'MFU' else label[0].lower() + label[1:]}"}
        | {run: costs.get(run, {}).get(label, NONE) for run, _ in results}
        for label in labels
    ]


def _row_of(
    label: str,
    name: str,
    outcomes: Mapping[str, Mapping[str, StrategyResult]],
    words: Callable[[StrategyResult], str | None],
) -> dict[str, str]:
    texts = {
        run: words(outcome) if (outcome := rows.get(name)) else None
        for run, rows in outcomes.items()
    }
    return {"": label} | {run: text or NONE for run, text in texts.items()}
