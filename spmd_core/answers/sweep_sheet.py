"""Sheets of what is varied: the points of a sweep, and sizes on one device and sharded."""

from collections.abc import Callable, Mapping, Sequence

from spmd_core.base import bytes_text, capital, mesh_text
from spmd_core.facts import Estimate
from spmd_core.sheets import (
    Cell,
    Column,
    Place,
    Sheet,
    Table,
    between,
    number,
    seconds,
    size,
    text,
)
from spmd_core.surveys import axis_title, mfu_title, point_size_words, row_cost, wins_words
from spmd_core.sweeps import SizePoint, Sweep, SweepRow, TrainingCost, run_of
from spmd_core.terms import StepCost, money_text, title
from spmd_core.words import bound_words, ratio_words

_STATES = {
    "refused": "cannot be",
    "too large": "does not fit, by its sizes",
    "not compiled": "not compiled yet",
    "waiting": "in the queue",
    "running": "compiling",
    "predicted": "compiled",
}
_SHARE = "{:.1%}".format
_WIDE: tuple[Place, ...] = ("screen", "terminal")  # with room beside the columns of a study


def point_state(row: SweepRow) -> str:
    """Returns how a point stands: an estimate where nothing was compiled yet."""
    state = row.outcome.state
    guessed = row.is_estimated and state == "not compiled"
    return "estimate" if guessed else _STATES.get(state, state)


def _held(row: SweepRow) -> Cell | None:
    held, expected = row.numbers.peak_bytes, row.point.expected_bytes
    is_guess = expected is not None and (held is None or row.is_estimated)
    held = expected if is_guess else held
    if held is None:
        return None
    text, of = bytes_text(held), bytes_text(row.point.capacity_bytes)
    if text.split()[1] == of.split()[1]:
        text = text.split()[0]
    return Cell(f"{'about ' * is_guess}{text} of {of}", held)


def _span(row: SweepRow) -> tuple[float, float] | None:
    low, high = row.numbers.low_s, row.numbers.high_s
    return (low, high) if low and high else None


def points_table(
    rows: Sequence[SweepRow],
    place: Place,
    price: float | Mapping[str, float] | None = None,
    sweep: Sweep | None = None,
    tokens: float | None = None,
) -> Table:
    """Returns a row for each point of a sweep, or for each plan of a study; `price` in dollars per
    chip-hour, or by kind of chip; `tokens` to train on.
    """
    head = capital(axis_title(sweep)) if sweep else "Plan"
    first: Column[SweepRow] = text(head, lambda row: row.point.label)
    others = (
        each
        for each in (*_of_point(sweep), *_of_run(tokens), *_costs(price), _BOUND)
        if each.title != head
    )
    return Sheet((first, *others)).table(rows, place)


def _of_point(sweep: Sweep | None) -> tuple[Column[SweepRow], ...]:
    scales = sweep is not None and sweep.variable.scales
    return (
        text(
            "Topology",
            lambda row: row.point.experiment and row.point.experiment.target.removeprefix("tpu:"),
            *(_WIDE if scales else ("terminal",)),
        ),
        text(
            "Mesh",
            lambda row: row.point.experiment and mesh_text(row.point.experiment.mesh, " "),
            *_WIDE,
        ),
        text("State", point_state),
        seconds("Step", lambda row: row.numbers.step_s),
        *between("Interval", _span),
        Column(
            mfu_title(sweep) if sweep else "Causal MFU",
            lambda row: row.shown_mfu and row.shown_mfu[0],
            _SHARE,
        ),
        Column(
            "Tokens/s/chip", lambda row: row.numbers.tokens_per_s_per_chip or None, "{:,.0f}".format
        ),
        Column(
            "Efficiency" if scales else "Work/chip/s", lambda row: row.efficiency, _SHARE, _WIDE
        ),
        Column("Memory", _held),
        Column("Exposed", lambda row: row.exposed_share, _SHARE, _WIDE),
    )


def _of_run(tokens: float | None) -> tuple[Column[SweepRow], ...]:
    def run(row: SweepRow) -> TrainingCost | None:
        plan = row.point.experiment.plan if row.point.experiment else None
        span, step_s = _span(row), row.numbers.step_s
        if plan is None or span is None or not step_s:
            return None
        return run_of(Estimate(low=span[0], estimate=step_s, high=span[1]), plan, tokens)

    def days(row: SweepRow) -> float | None:
        cost = run(row)
        return cost.days.estimate if cost else None

    def chip_hours(row: SweepRow) -> float | None:
        cost = run(row)
        return cost.chip_hours if cost else None

    return number("Days", days), Column("Chip-hours", chip_hours, "{:,.0f}".format)


def _costs(price: float | Mapping[str, float] | None) -> tuple[Column[SweepRow], ...]:
    wide: tuple[Place, ...] = ("terminal",) if price else _WIDE
    cost: Callable[[SweepRow], StepCost] = lambda row: row_cost(row, price)  # noqa: E731
    return (
        number("Chip-seconds per step", lambda row: cost(row).chip_seconds, *wide),
        number(
            "Chip-hours per billion tokens",
            lambda row: None if price else cost(row).chip_hours_per_billion_tokens,
            "screen",
            "study",
        ),
        Column("Cost per step", lambda row: cost(row).money_per_step, money_text, _WIDE),
        Column(
            "Cost per billion tokens", lambda row: cost(row).money_per_billion_tokens, money_text
        ),
    )


_BOUND: Column[SweepRow] = text(
    "Bound by",
    lambda row: bound_words(row.numbers.shares_s) if row.numbers.step_s else None,
    *_WIDE,
)
SIZES = Sheet[SizePoint](
    (
        text("Size", point_size_words),
        size("Operands", lambda point: point.operand_bytes),
        seconds("One device", lambda point: point.alone_s),
        text("Best sharded", lambda point: point.best and title(point.best)),
        seconds("Its time", lambda point: point.best_s),
        text("Speedup", lambda point: point.ratio and ratio_words(point.ratio)),
        text("Verdict", wins_words),
    )
)
