"""What is drawn of a finished run, made once: charts and tables in memory, for the few runs looked
at last.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pandas as pd

from spmd_core.answers import (
    NONE,
    Table,
    errors_table,
    memory_table,
    phases_table,
    strategies_table,
)
from spmd_core.base import Inexpressible, bytes_text
from spmd_core.experiment import Experiment, Row
from spmd_core.program import file_name, is_ring, kind_words
from spmd_core.results import Collective, Result
from spmd_core.script import program
from spmd_core.time import calibration, with_roofline
from spmd_core.words import title, whose, why_words
from ui.charts import by_strategy
from ui.charts.base import Spec
from ui.charts.times import times_alt, times_chart
from ui.compare import rows
from ui.lab import kept, lab

_CODE_CHARACTERS = 72  # of a line of a program in a table


@dataclass(slots=True)
class _Row:
    """A collective and its reason: the strategies that have it, and for each place the strategies
    of that place.
    """

    strategies: dict[str, None] = field(default_factory=dict)
    # (line number or "", text) -> strategies
    places: dict[tuple[str, str], list[str]] = field(default_factory=dict)


_KEPT_RUNS = 8  # a view is at most a few hundred kB


@dataclass(frozen=True, slots=True)
class View:
    """The parts of a result that a rerun draws again and again. A chart is None where nothing was
    measured; `times` has one of what was measured, and one of what was predicted, each with its
    words.
    """

    result: Result
    times: tuple[tuple[Spec, str], ...]
    times_table: Table
    collectives: pd.DataFrame
    phases: Spec | None
    phases_table: Table
    memory: Spec | None
    memory_table: Table
    errors: Table


def forget() -> None:
    """Drop what is kept: runs were deleted."""
    view.cache_clear()


@kept(_KEPT_RUNS)
def view(run: str) -> View | None:
    """The view of a run; None where it left no result."""
    result = lab().result(run)
    if result is None:
        return None
    if lab().notebook.origin(run) is None:  # a calibration of this machine is of no other
        result = result.by_variant(
            lambda each: with_roofline(
                each, calibration(each.experiment, lab().latest, lab().result)
            )
        )
    of_study = bool(result.experiment.variants)
    measured, predicted = times_chart(result), rows.chart(result) if of_study else None
    times = [
        *([(measured, times_alt(result))] if measured else []),
        *([(predicted, rows.chart_alt(result))] if predicted else []),
    ]
    return View(
        result,
        tuple(times),
        strategies_table(result, "study" if of_study else "screen"),
        collectives_table(result),
        by_strategy.phases_chart(result),
        phases_table(result),
        by_strategy.memory_chart(result),
        memory_table(result),
        errors_table(result),
    )


def collectives_table(result: Result) -> pd.DataFrame:
    """The communication of every compiled program. Strategies that communicate alike for the same
    reason share a row.
    """
    rows: dict[tuple[str, str], _Row] = {}
    for name, strategy in result.ordered:
        if strategy.collectives is None:
            continue
        if not strategy.collectives:
            rows.setdefault(("no communication", ""), _Row()).strategies[name] = None
        for item in summed(strategy.collectives):
            row = rows.setdefault((_what(item), _reason(item)), _Row())
            row.strategies[name] = None
            row.places.setdefault(_place(result.row(name), item), []).append(name)
    of_study = bool(result.experiment.variants)

    def names_text(names: Iterable[str]) -> str:
        return (
            whose(list(names), result) if of_study else ", ".join(dict.fromkeys(map(title, names)))
        )

    return pd.DataFrame(
        [
            {
                "Variant" if of_study else "Strategy": names_text(row.strategies),
                "Collective, bytes per device": what,
                "Why, and where": ". ".join(
                    part for part in (reason, *_places_words(row, names_text)) if part
                )
                or NONE,
            }
            for (what, reason), row in rows.items()
        ]
    )


def summed(collectives: Sequence[Collective]) -> list[Collective]:
    """Collectives that are alike in all that the table shows, as one that runs as often as all of
    them; unknown where one is.
    """
    alike: dict[tuple[object, ...], Collective] = {}
    for item in collectives:
        key = (
            item.kind,
            item.asked,
            item.axes,
            item.reason,
            item.source,
            item.op if item.source is None else None,
            item.count is None,
            item.warning,
        )
        if not is_ring(item):
            key = (*key, item.bytes)
        before = alike.get(key)
        if before is None or before.count is None or item.count is None:
            alike[key] = item
            continue
        total = (before.bytes_total or 0) + (item.bytes_total or 0)
        alike[key] = item.model_copy(
            update={"count": before.count + item.count, "bytes_total": total}
        )
    return list(alike.values())


def _what(item: Collective) -> str:
    over = f" over {', '.join(item.axes)}" if item.axes else ""
    if is_ring(item) and item.bytes_total is not None:
        size = f"{bytes_text(item.bytes_total)} in all".replace(" ", "\u00a0")
        return f"{kind_words(item)}{over}, {size}, {item.count:,} steps"
    if item.count is None:
        times = ", count unknown"
    elif item.count == 1:
        times = ""
    else:
        times = f" × {item.count:,}"
    return kind_words(item) + over + ", " + bytes_text(item.bytes).replace(" ", "\u00a0") + times


def _reason(item: Collective) -> str:
    return why_words(item).replace("`", "")


def _place(row: Row, item: Collective) -> tuple[str, str]:
    """The number and the text of the line of the program that is shown; else what is known, and no
    number.
    """
    file, _, number = (item.source or "").rpartition(":")
    lines = program_lines(row.experiment, row.strategy)
    if (
        file == file_name(row.experiment.workload, row.strategy)
        and number.isdigit()
        and 0 < int(number) <= len(lines)
    ):
        code = lines[int(number) - 1].strip().replace("`", "'")
        return number, code if len(code) <= _CODE_CHARACTERS else code[: _CODE_CHARACTERS - 1] + "…"
    return "", item.source or item.op or ""


def _places_words(row: _Row, names_text: Callable[[Iterable[str]], str]) -> Iterable[str]:
    """`Line 28: code` where all strategies have it there, else `Line 28 (Automatic), 30 (Explicit):
    code`; once for each text.
    """
    by_code: dict[str, dict[str, list[str]]] = {}
    for (number, code), names in row.places.items():
        by_code.setdefault(code, {})[number] = names
    for code, numbers in by_code.items():
        if "" in numbers:
            yield code
        numbered = {number: names for number, names in numbers.items() if number}
        if numbered:
            alone = len(numbered) == len(by_code) == 1
            where = ", ".join(
                number if alone else f"{number} ({names_text(names)})"
                for number, names in numbered.items()
            )
            yield f"Line {where}" + (f": `{code}`" if code else "")


def program_lines(experiment: Experiment, strategy: str) -> tuple[str, ...]:
    """Lines of the program that a strategy runs; none where it cannot express the sharding."""
    try:
        return tuple(program.program_text(experiment, strategy).splitlines())
    except Inexpressible:
        return ()
