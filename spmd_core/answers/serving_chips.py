"""Each kind of chips of a question of serving: its best sharding, or why none."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from spmd_core.answers.serving_sheet import left_out, limits_kept, served_mesh
from spmd_core.search import ServingAnswer, ServingRow
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


def kinds_table(answer: ServingAnswer) -> Table:
    """Returns a row for each kind of chips of a question of several."""
    return _KINDS.table(served_kinds(answer), "screen")
