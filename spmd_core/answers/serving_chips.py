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
from spmd_core.search import SERVING_FORM, ServingAnswer, ServingQuestion, ServingRow, serve
from spmd_core.sheets import Column, Sheet, Table, per_second, seconds, text
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
        per_second("Tokens/s per chip", lambda each: each.row and (each.row.per_chip or None)),
        Column("$ a million", lambda each: each.row and each.row.per_million(), money_text),
    )
)


def enough_chips(
    answer: ServingAnswer, answered: Callable[[ServingQuestion], ServingAnswer] = serve
) -> ServingAnswer | None:
    """Returns the answer of the first of twice, four times and so on as many chips that hold the load;
    None where none of these does, or those of the question do.
    """
    if answer.lead:
        return None
    for more in answer.doubled():
        with suppress(RequestError):
            held = answered(more)
            if held.best and held.best.served and not held.best.served.waiting:
                return held
    return None


def narrower_weights(
    answer: ServingAnswer, answered: Callable[[ServingQuestion], ServingAnswer] = serve
) -> ServingAnswer | None:
    """Returns the answer on the same chips with weights in the first dtype in which they hold the load;
    None where there is none, or those of the question do.
    """
    for dtype in () if answer.lead else answer.narrower():
        with suppress(RequestError):
            held = answered(replace(answer.question, weights_dtypes=(dtype,)))
            if held.best and held.best.served and not held.best.served.waiting:
                return held
    return None


def enough_words(held: ServingAnswer) -> str:
    """Returns the sharding that holds the load, and its output, in a sentence."""
    row = held.best
    assert row is not None
    if row.plan.weights_dtype != SERVING_FORM["weights_dtype"]:
        fits = f"Fits with weights in {row.plan.weights_dtype} on"
        return f"{fits} {served_chips(row.plan)}: {served_mesh(row)}, {served_output(row)}."
    return f"Fits on {served_chips(row.plan)}: {served_mesh(row)}, {served_output(row)}."


def kinds_table(answer: ServingAnswer) -> Table:
    """Returns a row for each kind of chips of a question of several."""
    return _KINDS.table(served_kinds(answer), "screen")
