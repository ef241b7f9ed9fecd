"""Sheets of what is varied: the points of a sweep, and sizes on one device and sharded."""

from collections.abc import Callable, Sequence

from spmd_core.answers.training_sheet import Figure, plan_policy
from spmd_core.base import bytes_text, capital, firsts_by_key, mesh_text, three_digits
from spmd_core.plan import Plan
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
from spmd_core.surveys import (
    Price,
    axis_title,
    is_unseen,
    mfu_title,
    of_one_kind,
    point_size_words,
    point_title,
    row_cost,
    row_run,
    step_tokens,
    wins_words,
)
from spmd_core.sweeps import SizePoint, Sweep, SweepRow, TrainingCost
from spmd_core.terms import StepCost, money_text, title
from spmd_core.words import (
    apart_words,
    bound_cell,
    days_text,
    even_words,
    mark_of,
    ratio_words,
    tokens_text,
)

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
    """Returns the state of a point: where nothing was compiled yet the verdict of its estimate, if it
    is not sure to fit.
    """
    state, fit = row.outcome.state, row.numbers.fit
    if not (row.is_estimated and state == "not compiled"):
        return _STATES.get(state, state)
    return "estimate" if fit in ("", "fits") else f"{fit}, by its sizes"


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
    price: Price = None,
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
        for each in (*_of_point(sweep), *_of_run(tokens, price), *_costs(price), _BOUND)
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
        *([text("Remat", _remat, "screen")] if sweep is not None and sweep.base.plan else []),
        text("State", point_state),
        *([text("Tokens a step", _tokens)] if scales else []),
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


def _of_run(tokens: float | None, price: Price) -> tuple[Column[SweepRow], ...]:
    def run(row: SweepRow, of: Callable[[TrainingCost], float | None]) -> float | None:
        cost = row_run(row, tokens, price)
        return of(cost) if cost else None

    return (
        Column("Days", lambda row: run(row, lambda cost: cost.days.estimate), three_digits),
        Column("Dollars", lambda row: run(row, lambda cost: cost.money), money_text),
        Column("Chip-hours", lambda row: run(row, lambda cost: cost.chip_hours), "{:,.0f}".format),
    )


_Runs = Sequence[tuple[SweepRow, TrainingCost]]


def best_figures(
    sweep: Sweep, rows: Sequence[SweepRow], tokens: float | None, price: Price = None
) -> tuple[Figure, ...]:
    """Returns the point that trains on so many tokens in the fewest days, and that of the fewest
    dollars, or chip-hours of one kind of chip where a price is missing; none of what is no plan, nor
    of fewer than two points.
    """
    known = {row.point.experiment: row for row in reversed(rows) if row.numbers.step_s}
    timed = of_one_kind([*known.values()][::-1])
    runs = [(row, run) for row in timed if (run := row_run(row, tokens, price))]
    if len(runs) < 2:
        return ()
    kinds = {plan.topology.chip.generation for row, _ in runs if (plan := _plan(row))}
    days = f"days for {tokens_text(runs[0][1].tokens)}"
    figures = [_least(sweep, runs, days, lambda run: run.days.estimate, days_text)]
    if all(run.money is not None for _, run in runs):
        figures.append(_least(sweep, runs, "dollars", lambda run: run.money or 0.0, money_text))
    elif len(kinds) == 1:
        hours = "{:,.0f}".format
        figures.append(_least(sweep, runs, "chip-hours", lambda run: run.chip_hours, hours))
    return tuple(figures)


def _least(
    sweep: Sweep,
    runs: Sequence[tuple[SweepRow, TrainingCost]],
    unit: str,
    of: Callable[[TrainingCost], float],
    words: Callable[[float], str],
) -> Figure:
    """Returns the point that needs least, and how many others have a range that meets its own."""
    (best, least), *others = sorted(runs, key=lambda each: of(each[1]))
    most = of(least) * least.days.high / least.days.estimate
    own = point_title(sweep, best.point)
    near = [each for each in others if of(each[1]) * _lowest(each[1]) <= most]
    by_title = firsts_by_key((point_title(sweep, each[0].point), each) for each in near)
    even = [each for title, each in by_title.items() if title != own]  # no other plan there
    parts = [f"at {own}"]
    if (plan := _plan(best)) and len({each.tokens for row, _ in runs if (each := _plan(row))}) > 1:
        parts.append(f"{step_tokens(plan)}{', beyond any published run' * is_unseen(plan)}")
    if even:
        named = point_title(sweep, even[0][0].point) if len(even) == 1 else f"{len(even)} more"
        last = of(even[-1][1])
        up_to = "up to " * (len(even) > 1)
        apart = f", {up_to}{apart_words(of(least), last)}"
        parts.append(even_words(mark_of(of(least), last), named) + apart)
    return Figure(f"Fewest {unit}", words(of(least)), ", ".join(parts))


def _lowest(run: TrainingCost) -> float:
    return run.days.low / run.days.estimate


def _plan(row: SweepRow) -> Plan | None:
    return row.point.experiment.plan if row.point.experiment else None


def _remat(row: SweepRow) -> str | None:
    plan = _plan(row)
    return plan_policy(plan) if plan else None


def _tokens(row: SweepRow) -> str | None:
    plan = _plan(row)
    return step_tokens(plan).removesuffix(" tokens a step") if plan else None


def _costs(price: Price) -> tuple[Column[SweepRow], ...]:
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
    lambda row: bound_cell(row.numbers.shares_s) if row.numbers.step_s else None,
    *_WIDE,
)
SIZES = Sheet[SizePoint](
    (
        text("Size", point_size_words),
        size("Operands", lambda point: point.operand_bytes),
        seconds("One device", lambda point: point.alone_s),
        text("Best sharded", lambda point: point.best and title(point.best)),
        seconds("Its time", lambda point: point.best_s),
        text("Speedup", lambda point: point.ratio and ratio_words(point.ratio, point.quotient)),
        text("Verdict", wins_words),
    )
)
