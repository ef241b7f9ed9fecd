"""The sheet of collectives: one folding of those that are alike, for every renderer."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial

from spmd_core.base import Inexpressible, capital, count_text
from spmd_core.experiment import Experiment
from spmd_core.facts import Collective, Prediction
from spmd_core.program import CollectiveRow, file_name, rows
from spmd_core.results import Result
from spmd_core.script import program_text
from spmd_core.sheets import NONE, Cell, Column, Place, Sheet, Table, seconds, size, text
from spmd_core.surveys import whose
from spmd_core.terms import row_title
from spmd_core.words import all_set_by_words, predictions
from spmd_core.workloads import sources

SMALL_WORDS = "together under 1% of the communication"

_LINE = re.compile(r"\d{1,9}")  # a number that people write
_CODE_CHARACTERS = 72  # of a line of a program in a table
_WHY = "Why, and where"
_MOST_PLACES = 3  # of a step with many layers every matmul is one
_WIDE: tuple[Place, ...] = ("screen", "document")  # of columns that a terminal leaves out


@dataclass(frozen=True, slots=True)
class CommunicationRow:
    """Collectives that share a row of the sheet, and the strategies that have them alike.

    Attributes:
      row: the collectives of the first of these strategies; None where they communicate nothing.
      strategies: their names, as the table writes them.
      places: where they are in the programs, in words.
      rows: the same of each of these strategies, by its name; () of one.
      is_model: of the lab's own program of a model, whose lines the viewer does not have.
    """

    row: CollectiveRow | None
    strategies: str | None = None
    places: tuple[str, ...] = ()
    rows: tuple[tuple[str, CollectiveRow], ...] = ()
    is_model: bool = False


def _seconds(of: Callable[[CollectiveRow], float]) -> Callable[[CommunicationRow], float | None]:
    return lambda each: of(each.row) if each.row and each.row.seconds else None


def _reason(each: CommunicationRow) -> str:
    if each.row is None:
        return ""
    return SMALL_WORDS if each.row.rest else why_words(each.row.named)


def _where(each: CommunicationRow) -> str:
    more = len(each.places) - _MOST_PLACES
    return ", ".join(each.places[:_MOST_PLACES]) + (f" and {more} more" if more > 0 else "")


def _set_by(each: CommunicationRow, *, is_brief: bool = False) -> str:
    """Who sharded the axes of a row's collectives, after the strategies where these differ; those of
    a model's layers are one.
    """
    if each.row is None or each.row.rest:
        return ""
    words: dict[str, list[str]] = {}
    for name, row in each.rows or (("", each.row),):
        by = ". ".join(all_set_by_words(row.members, is_brief=is_brief))
        words.setdefault(by, []).append(name)
    if len(words) == 1:
        return next(iter(words))
    return ". ".join(
        f"{', '.join(dict.fromkeys(names))}: {by or NONE}" for by, names in words.items()
    )


def _brief(each: CommunicationRow) -> str:
    by = "" if each.is_model else _set_by(each, is_brief=True)
    return by and f"Set by {by}"


COLLECTIVES = Sheet[CommunicationRow](
    (
        text("Strategy", lambda each: each.strategies),
        text("Collective", lambda each: each.row.what if each.row else "no communication"),
        text("Over", lambda each: ", ".join(each.row.axes) if each.row else None),
        text(
            "Route",
            lambda each: (
                predictions.route_words(each.row.first.route or "")
                if each.row and not each.row.rest
                else None
            ),
            *_WIDE,
        ),
        Column(  # of one execution, exact where all of a row have the same
            "Bytes",
            lambda each: (
                Cell(
                    row.size,
                    row.first.bytes if len({one.bytes for one in row.members}) == 1 else None,
                )
                if (row := each.row)
                else None
            ),
        ),
        Column(
            "Count",
            lambda each: (
                Cell("unknown" if row.count is None else count_text(row.count), row.count)
                if (row := each.row)
                else None
            ),
        ),
        size("In total", lambda each: each.row and each.row.bytes_total, *_WIDE),
        seconds("Time", _seconds(lambda row: row.seconds), *_WIDE),
        seconds("Exposed", _seconds(lambda row: row.exposed_s), *_WIDE),
        text("Set by", _set_by, "terminal", "document"),
        text(  # one for all: a screen beside its fields has no room for more
            _WHY,
            lambda each: ". ".join(
                filter(
                    None,
                    (
                        _where(each),
                        capital(_reason(each)),  # first: a cell has four lines
                        _brief(each),
                    ),
                )
            ),
            "screen",
        ),
        text(
            _WHY,
            lambda each: ". ".join(filter(None, (_reason(each), _where(each)))),
            "document",
        ),
    )
)


def step_collectives(prediction: Prediction, experiment: Experiment | None = None) -> Table:
    """Returns the collectives of one prediction; seconds and bytes are per step and device."""
    known = experiment.exported if experiment else None
    quoted = partial(_quoted, known.described.program) if known else lambda source: None
    of = lambda row: {q for one in row.members if (q := quoted(one.source))}  # noqa: E731
    is_model = experiment is not None and not known
    listed = (
        CommunicationRow(row, None, tuple(sorted(of(row))), is_model=is_model)
        for row in rows(prediction.collectives)
    )
    table = COLLECTIVES.table(listed, "screen")
    named = tuple("Why" if is_model and name == _WHY else name for name in table.columns)
    return replace(table, columns=named)


def _quoted(program: str, source: str | None) -> str | None:
    """A line of an exported program, where its text is kept: `model.py:12: code`."""
    file, _, number = (source or "").rpartition(":")
    lines = sources.lines(program, file) if _LINE.fullmatch(number) else ()
    if not lines or not 0 < int(number) <= len(lines):
        return None
    return f"{source}: `{_short(lines[int(number) - 1])}`"


def _short(line: str) -> str:
    code = line.strip().replace("`", "'")
    return code if len(code) <= _CODE_CHARACTERS else code[: _CODE_CHARACTERS - 1] + "…"


@dataclass(slots=True)
class _Alike:
    """A row of the table while it is gathered: by place, the strategies that have it there."""

    row: CollectiveRow | None
    rows: dict[str, CollectiveRow | None] = field(default_factory=dict)
    places: dict[tuple[str, str], list[str]] = field(default_factory=dict)


def collectives_table(
    result: Result, place: Place = "screen", programs: Mapping[str, str] | None = None
) -> Table:
    """Returns the communication of each compiled program, for a renderer. Strategies that
    communicate alike for the same reason share a row. Lines are quoted of `programs`, the stored
    text of each strategy (today's may have other lines), or, of what is not stored, of today's.
    """
    gathered: dict[object, _Alike] = {}
    # each collective of a program looks for its line
    lines_of = cache(partial(_lines, result, programs))
    for name, outcome in result.ordered:
        if outcome.collectives is None:
            continue
        for row in rows(outcome.collectives) or (None,):
            key = None if row is None else (*row.key, row.count, row.bytes_total, row.rest)
            alike = gathered.setdefault(key, _Alike(row))
            alike.rows[name] = row
            for each in row.members if row else ():
                own = alike.places.setdefault(_place(result, name, each, lines_of), [])
                own += [] if name in own else [name]

    def named(names: Iterable[str]) -> str:
        titles = dict.fromkeys(row_title(result, name) for name in names)
        several = result.experiment.variants and len(titles) > 1
        return whose(list(names), result) if several else ", ".join(titles)

    several = len(result.strategies) > 1
    return COLLECTIVES.table(
        [
            CommunicationRow(
                each.row,
                named(each.rows) if several else None,
                tuple(_places_words(each.places, named)),
                tuple((row_title(result, name), row) for name, row in each.rows.items() if row),
            )
            for each in gathered.values()
        ],
        place,
    )


def _lines(result: Result, programs: Mapping[str, str] | None, name: str) -> tuple[str, ...]:
    if programs is not None:
        return tuple(programs.get(name, "").splitlines())
    row = result.row(name)
    return program_lines(row.experiment, row.strategy)


def _place(
    result: Result, name: str, item: Collective, lines_of: Callable[[str], tuple[str, ...]]
) -> tuple[str, str]:
    """The number and the text of the line of the program that is shown; else what is known, and no
    number.
    """
    row = result.row(name)
    file, _, number = (item.source or "").rpartition(":")
    own = file == file_name(row.experiment.workload, row.strategy)
    lines = lines_of(name) if own else ()
    if _LINE.fullmatch(number) and 0 < int(number) <= len(lines):
        return number, _short(lines[int(number) - 1])
    program = row.experiment.exported
    quoted = _quoted(program.described.program, item.source) if program else None
    return "", quoted or item.source or item.op or ""


def _places_words(
    places: dict[tuple[str, str], list[str]], named: Callable[[Iterable[str]], str]
) -> Iterator[str]:
    """`Line 28: code` where all strategies have it there, else `Line 28 (Automatic), 30 (Explicit):
    code`; once for each text.
    """
    by_code: dict[str, dict[str, list[str]]] = {}
    for (number, code), names in places.items():
        by_code.setdefault(code, {})[number] = names
    for code, numbers in by_code.items():
        if "" in numbers:
            yield code
        numbered = {number: names for number, names in numbers.items() if number}
        if numbered:
            alone = len(numbered) == len(by_code) == 1
            where = ", ".join(
                number if alone else f"{number} ({named(names)})"
                for number, names in numbered.items()
            )
            yield f"Line {where}" + (f": `{code}`" if code else "")


def program_lines(experiment: Experiment, strategy: str) -> tuple[str, ...]:
    """Returns the lines of the program that a strategy runs; none where it cannot express the
    sharding.
    """
    try:
        return tuple(program_text(experiment, strategy).splitlines())
    except Inexpressible:
        return ()


def why_words(each: Collective) -> str:
    """Why a collective is there, and the compiler's warning; "" if unknown."""
    return ". ".join(part.rstrip(".") for part in (each.reason, each.warning) if part)
