"""Each kind of chips of a question of serving: its best sharding, or why none."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from spmd_core.answers.serving_sheet import (
    left_out,
    limits_kept,
    served_chips,
    served_mesh,
    served_output,
)
from spmd_core.base import RequestError
from spmd_core.search import ServingAnswer, ServingQuestion, ServingRow, serve
from spmd_core.sheets import Column, Sheet, Table, number, seconds, text
from spmd_core.terms import chip_title, money_text


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind of chips: the best of its rows, else the nearest; None where none serves, and `why`."""

    kind: str
    row: ServingRow | None
    why: str = ""


def served_kinds(answer: ServingAnswer) -> tuple[ServedKind, ...]:
    """Returns the kinds of chips of a question: that of the answer first, those left out last."""
    return tuple(_kinds(answer))


def _kinds(answer: ServingAnswer) -> Iterator[ServedKind]:
    rows: dict[str, list[ServingRow]] = {}
    for row in answer.rows:
        rows.setdefault(row.plan.topology.chip.generation, []).append(row)
    leads = {
        kind: replace(answer, rows=tuple(each), by_load=()).lead for kind, each in rows.items()
    }
    places = {id(row): at for at, row in enumerate(answer.rows)}
    last = len(places)
    for kind in sorted(rows, key=lambda kind: places.get(id(leads[kind]), last)):
        yield ServedKind(kind, leads[kind], "" if leads[kind] else rows[kind][0].verdict)
    yield from (ServedKind(kind, None, why) for kind, why in left_out(answer))


_KINDS: Sheet[ServedKind] = Sheet(
    (
        text(
            "Chips",
            lambda each: (
                f"{each.row.chips:,} {chip_title(each.kind)}" if each.row else chip_title(each.kind)
            ),
        ),
        text("Mesh", lambda each: each.row and served_mesh(each.row)),
        text("Limits", lambda each: each.why or (each.row and limits_kept(each.row))),
        seconds("Time per token", lambda e: e.row and e.row.served and e.row.served.tpot_s),
        seconds("First token", lambda e: e.row and e.row.served and e.row.served.ttft_s),
        number("Tokens/s per chip", lambda each: each.row and (each.row.per_chip or None)),
        Column("$ a million", lambda each: each.row and each.row.per_million(), money_text),
    )
)


_DOUBLED = 5  # times at most


def enough_chips(
    answer: ServingAnswer, answered: Callable[[ServingQuestion], ServingAnswer] = serve
) -> ServingAnswer | None:
    """Returns the answer of the first of twice, four times and so on as many chips that hold the load;
    None where none of these does, or those of the question do.
    """
    question, row = answer.question, answer.emptiest
    if answer.lead or row is None:
        return None
    kind = row.plan.topology.chip.generation
    most = max(each.chips for each in question.topologies if each.chip.generation == kind)
    priced = tuple(each for each in question.price if each[0] == kind)
    for power in range(1, _DOUBLED + 1):
        with suppress(RequestError):
            more = replace(question, chips=(f"{kind}:{most << power}",), price=priced)
            held = answered(more)
            if held.best and held.best.served and not held.best.served.waiting:
                return held
    return None


def enough_words(held: ServingAnswer) -> str:
    """Returns the sharding that serves on enough chips, and its output, in a sentence."""
    row = held.best
    assert row is not None
    return f"Fits on {served_chips(row.plan)}: {served_mesh(row)}, {served_output(row)}."


def kinds_table(answer: ServingAnswer) -> Table:
    """Returns a row for each kind of chips of a question of several."""
    return _KINDS.table(served_kinds(answer), "screen")
