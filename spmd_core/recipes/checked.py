"""What an example expects beside what a run of it gave, a row for each number."""

from collections.abc import Iterable, Iterator

from spmd_core.base import shorten
from spmd_core.recipes.catalog import recipe_of
from spmd_core.recipes.recipe import Expected
from spmd_core.results import Result, StrategyResult
from spmd_core.sheets import Sheet, Table, text
from spmd_core.terms import listed, title
from spmd_core.words import values_text

_LONGEST, _MOST_VALUES = 60, 8  # characters of a cell; values of an array
Row = tuple[str, str, str]  # what, of the example, of the run

_SHEET: Sheet[Row] = Sheet(
    (
        text("What", lambda row: row[0]),
        text("The example", lambda row: row[1]),
        text("This run", lambda row: row[2]),
    )
)


def checked(result: Result) -> Table:
    """Returns what the example of a result expects, and what the run gave; no rows where it has no
    example, or one that expects no numbers.
    """
    recipe = None if result.partial else recipe_of(result.experiment)
    rows = () if recipe is None or recipe.claims else _rows(recipe.expected, result)
    return _SHEET.table(rows, "screen")


def _rows(expected: Expected, result: Result) -> Iterator[Row]:
    alike: dict[tuple[str, str], list[str]] = {}  # strategies with the same pair of cells
    for strategy, kinds in expected.collectives.items():
        if (outcome := result.strategies.get(strategy)) and outcome.collectives is not None:
            cells = _kinds(kinds), _kinds(each.kind for each in outcome.collectives)
            alike.setdefault(cells, []).append(title(strategy))
    yield from ((f"Collectives, {listed(names)}", *cells) for cells, names in alike.items())
    done = [each for each in result.strategies.values() if each.status == "ok"]
    for name, wanted in {**expected.values, **expected.exact}.items():
        yield name, _numbers(wanted), _each(_values(each, name) for each in done)
    for name, wanted in expected.printed.items():
        yield name, _short(wanted), _each(_short(each.printed.get(name, "–")) for each in done)


def _kinds(kinds: Iterable[str]) -> str:
    return ", ".join(sorted({*kinds})) or "none"


def _numbers(values: tuple[float, ...]) -> str:
    more = " …" if len(values) > _MOST_VALUES else ""
    return ", ".join(f"{value:.6g}" for value in values[:_MOST_VALUES]) + more


def _values(outcome: StrategyResult, name: str) -> str:
    report = outcome.outputs.get(name)
    if report is None or report.values is None:
        return "–"
    numbers = tuple(float(each) for each in report.values if isinstance(each, int | float))
    if len(numbers) == len(report.values):
        return _numbers(numbers)
    return values_text(report, _MOST_VALUES)


def _each(texts: Iterable[str]) -> str:
    """The texts of all strategies, those that are alike once."""
    return "; ".join(dict.fromkeys(texts)) or "–"


def _short(words: str) -> str:
    return shorten(words, _LONGEST).strip("'")
