"""Sheets of the candidates of a search: its ranking, the best of each target, and every candidate."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from spmd_core.base import between, seconds_text, span_text
from spmd_core.search import (
    Answer,
    Candidate,
    Goal,
    KeptCandidate,
    KeptSearch,
    Ranked,
    link,
    price_per_billion,
)
from spmd_core.sheets import Cell, Column, Place, Sheet, Table, count, number, size, text
from spmd_core.surveys import search as words
from spmd_core.terms import money_text, share_text

_BILLION = 1e9  # tokens, for which steps of different batches are compared
_CHOSEN = ("Time", "Low", "High")  # columns that commands name, kept where they are empty
_PARTS = ("Mesh", "Remat", "Per device", "Chips"), ("Mesh", "Sharding", "Strategy", "Target")


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """A candidate of a live search, or of one that is kept.

    Attributes:
      kept: what is known of it.
      place: its place in the ranking, from 1.
      per_billion: True if its time is shown for a billion tokens, as beside other batches.
      cost_title: the title of what is minimized.
      candidate: the candidate of a live search.
      price: dollars for a billion tokens, where that is not what is minimized.
      could_win: True if nothing puts the winner of a live search ahead of it.
    """

    kept: KeptCandidate
    place: int | None = None
    per_billion: bool = False
    cost_title: str = ""
    candidate: Candidate | None = None
    price: float | None = None
    could_win: bool = False

    @property
    def is_estimate(self) -> bool:
        """True if it was neither compiled nor measured."""
        return self.kept.stage not in ("compiled", "measured")

    def time(self, seconds: float | None) -> Cell | None:
        """Returns seconds of a step or call, or hours of a billion tokens."""
        if not seconds:
            return None
        if not self.per_billion:
            return Cell(seconds_text(seconds), seconds)
        value = seconds * _BILLION / self.kept.tokens
        return Cell(words.hours_text(value / 3600), value)

    def interval(self) -> str | None:
        """Returns both ends of its interval."""
        low, high = self.time(self.kept.low_s), self.time(self.kept.high_s)
        return between(low.text, high.text) if low and high else None


def _part(title: str) -> Column[CandidateRow]:
    def of(row: CandidateRow) -> str | None:
        if row.candidate is None:
            return None
        titles = _PARTS[row.candidate.point is not None]
        parts = row.kept.name.replace(" per device", "").split(" · ")
        return dict(zip(titles, parts, strict=False)).get(title)

    return text(title, of, "screen")


def _times(is_estimate: bool, per_billion: bool) -> Iterator[Column[CandidateRow]]:
    """The columns of one kind of time, which no other kind shares: with its interval in a terminal,
    with its exact ends in a document.
    """
    title = ("Estimate" if is_estimate else "Time") + " of 1B" * per_billion
    kind = "Estimate " * is_estimate

    def column(
        title: str, of: Callable[[CandidateRow], Any], *places: Place
    ) -> Column[CandidateRow]:
        def cell(row: CandidateRow) -> Any:
            shown = (row.is_estimate, row.per_billion) == (is_estimate, per_billion)
            return of(row) if shown else None

        return Column(title, cell, places=places)

    yield column(title, lambda row: row.time(row.kept.seconds), "screen", "terminal", "document")
    yield column("Between" if is_estimate else "Interval", CandidateRow.interval, "terminal")
    yield column(f"{kind}low".capitalize(), lambda row: row.time(row.kept.low_s), "document")
    yield column(f"{kind}high".capitalize(), lambda row: row.time(row.kept.high_s), "document")


_NAME: Column[CandidateRow] = text("Candidate", lambda row: row.kept.name, "terminal", "document")
_OUTPUT = "Output"  # of a question of serving
_COSTS: tuple[Column[CandidateRow], ...] = tuple(
    text(title, lambda row, title=title: row.kept.cost if row.cost_title == title else None)
    for title in (*words.COST_TITLES, _OUTPUT)
)
_PRICE: Column[CandidateRow] = Column("Price", lambda row: row.price, money_text)
TIMES = tuple(
    column
    for per_billion in (False, True)
    for is_estimate in (False, True)
    for column in _times(is_estimate, per_billion)
)
_MEMORY: Column[CandidateRow] = size("Memory", lambda row: row.kept.memory_bytes)
_HOST: Column[CandidateRow] = size("Host memory", lambda row: row.kept.host_bytes or None)
_CAUSAL: Column[CandidateRow] = Column(
    "Causal MFU", lambda row: row.kept.mfu_causal or None, share_text
)
_MFU: Column[CandidateRow] = Column(
    "MFU", lambda row: row.kept.mfu or None, share_text, ("document",)
)
_KNOWN_BY: Column[CandidateRow] = text("Known by", lambda row: row.kept.known_by)
_FITS: Column[CandidateRow] = text(
    "Fits", lambda row: words.FIT_WORDS.get(row.kept.fits, row.kept.fits)
)
RANKING = Sheet[CandidateRow](
    (
        count("", lambda row: row.place),
        _NAME,
        *_COSTS,
        *TIMES,
        _PRICE,
        text("Could win", lambda row: "yes" if row.could_win else None, "screen"),
        _part("Mesh"),
        _part("Chips"),
        _part("Per device"),
        _MEMORY,
        _CAUSAL,
        _MFU,
        *map(_part, ("Remat", "Sharding", "Strategy", "Target")),
        _HOST,
        _FITS,
        _KNOWN_BY,
        count("Others", lambda row: row.kept.alike or None, "terminal", "document"),
        # Add a column above this line.
    )
)
_NAMED = "Sharding"


def _per_token(row: CandidateRow) -> Cell:
    """Returns the time of an output token with its interval, and that its step was compiled."""
    kept = row.kept
    span = f" ({span_text(kept.low_s, kept.high_s)})" if kept.low_s and kept.high_s else ""
    known = ", compiled" * (not row.is_estimate)
    return Cell(f"{seconds_text(kept.seconds)}{span}{known}", kept.seconds)


_SERVED = Sheet[CandidateRow](
    (
        count("", lambda row: row.place),
        text(_NAMED, lambda row: row.kept.name),
        text(_OUTPUT, lambda row: row.kept.cost),
        Column("Time per token", _per_token),
        size("Memory per device", lambda row: row.kept.memory_bytes),
        text("Limits", lambda row: row.kept.fits),
    )
)
BEST = Sheet[CandidateRow](
    (
        text("Target", lambda row: row.kept.target.removeprefix("tpu:")),
        *_COSTS,
        _PRICE,
        *TIMES,
        _CAUSAL,
        number(
            "Tokens/s per chip", lambda row: row.candidate and row.candidate.tokens_per_s_per_chip
        ),
        _MEMORY,
        _KNOWN_BY,
        text("Plan", lambda row: row.kept.name.rpartition(" · ")[0]),
    )
)
EVERY = Sheet[CandidateRow](
    (
        *map(_part, dict.fromkeys((*_PARTS[0], *_PARTS[1]))),
        text("Stage", lambda row: words.STAGES[row.kept.stage]),
        text("Why", lambda row: row.candidate and row.candidate.reason),
        text("Rule", lambda row: row.candidate and words.rule_words(row.candidate.detail)),
        *TIMES,
        text("Memory", lambda row: row.candidate and words.memory_words(row.candidate)),
        _PRICE,
        _CAUSAL,
    )
)


def ranking_table(answer: Answer, place: Place, most: int) -> Table:
    """Returns the first `most` meshes and batches of a ranking, each under its best policy."""
    return RANKING.table(_ranked(answer.listed(most), answer), place)


def _ranked(groups: Sequence[Sequence[Ranked]], answer: Answer) -> Iterator[CandidateRow]:
    per_billion = len({group[0].candidate.tokens for group in groups}) > 1
    for place, group in enumerate(groups, 1):
        others = sum(1 + len(entry.alike) for entry in group) - 1
        yield _row(group[0].candidate, answer, per_billion, place, others)


def _row(
    each: Candidate, answer: Answer, per_billion: bool, place: int | None = None, others: int = 0
) -> CandidateRow:
    question, of_steps = answer.question, each.step is not None
    goal = words.paid_goal(question.minimize, bool(question.price), of_steps)
    price = price_per_billion(each, dict(question.price)) if goal != "price" else None
    kept, title = words.kept_candidate(each, answer, others), words.cost_title(goal, of_steps)
    could_win = each.number in answer.open_numbers
    return CandidateRow(kept, place, per_billion, title, each, price, could_win)


def kept_ranking(kept: KeptSearch) -> Table:
    """Returns the ranking of a kept search."""
    per_billion = len({each.tokens for each in kept.ranking}) > 1
    rows = [kept_row(kept, each, place, per_billion) for place, each in enumerate(kept.rows, 1)]
    if kept.question.get("kind") != link.SERVING:
        return RANKING.table(rows, "document")
    table = _SERVED.table(rows, "document")
    ends = {each.name.rpartition(" · ")[2] for each in kept.ranking}
    (end,) = ends if len(ends) == 1 else ("",)  # the dtypes, which are those of the question

    def cell(column: str, each: Cell) -> Cell:
        return replace(each, text=each.text.removesuffix(f" · {end}")) if column == _NAMED else each

    return Table(table.columns, tuple(tuple(map(cell, table.columns, row)) for row in table.rows))


def kept_row(
    kept: KeptSearch, each: KeptCandidate, place: int | None = None, per_billion: bool = False
) -> CandidateRow:
    """Returns the row of a candidate of a kept search."""
    asked, of_steps = kept.question, kept.question.get("kind") == "model"
    if asked.get("kind") == link.SERVING:
        return CandidateRow(each, place, cost_title=_OUTPUT)
    goal = words.paid_goal(cast(Goal, asked.get("minimize")), bool(asked.get("price")), of_steps)
    return CandidateRow(each, place, per_billion, words.cost_title(goal, of_steps))


@dataclass(frozen=True, slots=True)
class SearchRow:
    """A kept search beside others.

    Attributes:
      letter: its name in the comparison.
      whence: where it was carried out.
      against: how its winner compares with that of the baseline.
    """

    letter: str
    kept: KeptSearch
    whence: str
    against: str

    @property
    def winner(self) -> CandidateRow | None:
        """The row of its winner."""
        won = self.kept.winner
        return kept_row(self.kept, won) if won else None


def _of_winner(column: Column[CandidateRow], is_kept: bool = False) -> Column[SearchRow]:
    def cell(row: SearchRow) -> Any:
        return column.of(won) if (won := row.winner) else None

    return Column(column.title, cell, column.form, column.places, is_kept)


SEARCHES = Sheet[SearchRow](
    (
        text("", lambda row: row.letter),
        text("Search", lambda row: row.kept.id),
        text("Question", lambda row: row.kept.title),
        text("Ended", lambda row: time.strftime("%Y-%m-%d %H:%M", time.localtime(row.kept.at))),
        text("From", lambda row: row.whence),
        _of_winner(replace(_NAME, title="Winner")),
        *(_of_winner(each, each.title in _CHOSEN) for each in _times(False, False)),
        *map(_of_winner, _times(True, False)),
        _of_winner(_KNOWN_BY),
        text("Against the baseline", lambda row: row.against),
        _of_winner(replace(_MEMORY, title="Memory per device")),
        _of_winner(_CAUSAL),
        _of_winner(_MFU),
        *map(_of_winner, _COSTS),
        count("Candidates", lambda row: row.kept.space),
        text("Complete", lambda row: "yes" if row.kept.complete else "no"),
    )
)


def best_table(answer: Answer) -> Table:
    """Returns the best candidate of each target, for a billion tokens."""
    best = answer.best_by_target.values()
    return BEST.table((_row(each, answer, each.step is not None) for each in best), "screen")


def every_table(candidates: Iterable[Candidate], answer: Answer) -> Table:
    """Returns a row for each candidate, with what became of it and why."""
    return EVERY.table((_row(each, answer, per_billion=False) for each in candidates), "screen")
