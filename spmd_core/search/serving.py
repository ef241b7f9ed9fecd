"""Which sharding serves a model: meshes, replicas and dtypes on chips, for a load and its limits."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from spmd_core.base import RequestError, refuse
from spmd_core.machine import Topology
from spmd_core.plan import ServedPlan, get_model
from spmd_core.search.serving_question import WEIGHT_DTYPES, ServingQuestion
from spmd_core.time import (
    Lengths,
    Pool,
    Served,
    ServingLoad,
    check_dtypes,
    pool_of,
    simulate,
)

_LARGEST = 128  # devices of a replica
_DOUBLED = 5  # times at most
_AT_ONCE = (1, 4, 16, 64, 256)  # of the table by concurrency
_LENGTHS = ((1024, 1024), (8192, 1024))  # of the same, beside those of the question
# requests that are simulated at most, about 8 us each, as many as the steps of a plan take, and of those
# at once so many waves
_MOST_WORK, _PER_PLAN, _WAVES = 2_500_000, 1000, 3
_SECONDS_PER_HOUR = 3600.0
_ALIKE = 0.99  # of the most tokens: fewer are not as many
KEEPS, EVEN, WAITS = "keeps", "about even", "requests wait"
NO_ROOM, NO_REQUEST = "does not fit", "holds no request"


@dataclass(frozen=True, slots=True)
class CompiledDecode:
    """A decode step as it was compiled, with a contiguous cache of full sequences in plain XLA.

    Attributes:
      seconds: of the step; `estimate`, of the same program before it is compiled. Their ratio is
        also taken for that of a paged engine's step.
      peak: bytes of a device.
      fits: False where a device does not hold it.
    """

    seconds: float
    estimate: float
    peak: int | None
    fits: bool


@dataclass(frozen=True, slots=True)
class ServingRow:
    """A plan, and what the load takes on it.

    Attributes:
      served: None where it does not fit.
      verdict: how it meets the question.
      keeps: True if all requests run at once within the limits.
      even: True if a limit is inside of its interval, so that it may keep it or not.
      pool: what its memory holds.
      price: dollars per chip-hour.
      compiled: its decode step as a program.
    """

    plan: ServedPlan
    verdict: str
    keeps: bool = False
    even: bool = False
    served: Served | None = None
    pool: Pool | None = None
    price: float | None = None
    compiled: CompiledDecode | None = None

    @property
    def chips(self) -> int:
        """Chips of all replicas."""
        return self.plan.topology.chips

    @property
    def per_chip(self) -> float:
        """Output tokens a second and chip; 0 where it cannot serve."""
        return self.served.output_per_s / self.chips if self.served else 0.0

    @property
    def cache_used(self) -> float:
        """Bytes of a device's cache when each request that runs has all of its tokens."""
        if self.served is None or self.pool is None:
            return 0.0
        shards = self.plan.replicas * self.plan.along("data")
        return -(-self.served.running // shards) * self.pool.sequence

    @property
    def per_hour(self) -> float | None:
        """Dollars an hour; None without a price."""
        return None if self.price is None else self.price * self.chips

    def per_million(self, *, prompts: bool = False) -> float | None:
        """Returns the dollars of all chips for a million output tokens, or for as many of prompts."""
        if self.served is None or self.per_hour is None:
            return None
        rate = self.served.input_per_s if prompts else self.served.output_per_s
        return self.per_hour / _SECONDS_PER_HOUR / rate * 1e6

    @property
    def speed(self) -> float:
        """Tokens a second of one user; 0 where it cannot serve."""
        return 1 / self.served.tpot_s if self.served else 0.0


@dataclass(frozen=True, slots=True)
class ServingAnswer:
    """All rows, the best first, and the best sharding by concurrency and lengths on its chips."""

    question: ServingQuestion
    rows: tuple[ServingRow, ...]
    by_load: tuple[tuple[ServingLoad, ServingRow], ...] = field(default=())

    @property
    def best(self) -> ServingRow | None:
        """The least dollars an hour, or the fewest chips, that keep the limits, else that may; without
        limits, the most tokens for each. None where nothing may keep them.
        """
        first = self.rows[0] if self.rows else None
        return first if first and (first.keeps or first.even) else None

    @property
    def nearest(self) -> ServingRow | None:
        """The row that misses by least, where none may keep the limits; None where none can serve."""
        serving = [row for row in self.rows if row.served]
        return min(serving, key=lambda row: missed(self.question, row), default=None)

    @property
    def lead(self) -> ServingRow | None:
        """The best row, else the nearest."""
        return self.best or self.nearest

    @property
    def emptiest(self) -> ServingRow | None:
        """The row whose weights leave the most of a device, or exceed it by the least."""
        rows = [row for row in self.rows if row.pool]
        return max(rows, key=lambda row: row.pool.cache if row.pool else 0.0, default=None)

    def would_fit_on_more(self) -> bool:
        """Returns True if twice, four times and so on as many chips hold a request: a model's weights
        are sharded over no more than its heads and experts, and over one host of GPUs, divide.
        """
        for more in self.doubled():
            with suppress(RequestError):
                if any(_holds(plan, more.load.longest) for plan in plans_of(more)):
                    return True
        return False

    def doubled(self) -> Iterator[ServingQuestion]:
        """Yields the question on twice, four times and so on as many chips of its fullest kind."""
        question, row = self.question, self.emptiest
        if row is None:
            return
        kind = row.plan.topology.chip.generation
        most = max(each.chips for each in question.topologies if each.chip.generation == kind)
        priced = tuple(each for each in question.price if each[0] == kind)
        for power in range(1, _DOUBLED + 1):
            with suppress(RequestError):
                yield replace(question, chips=(f"{kind}:{most << power}",), price=priced)

    def narrower(self) -> tuple[str, ...]:
        """Returns the other dtypes of weights in which the chips and meshes of rows hold a request."""
        length, rows = self.question.load.longest, [row.plan for row in self.rows]
        return tuple(
            dtype
            for dtype in WEIGHT_DTYPES
            if any(
                _holds(plan.model_copy(update={"weights_dtype": dtype}), length) for plan in rows
            )
        )

    @property
    def front(self) -> tuple[ServingRow, ...]:
        """Rows than which none has both more tokens a chip and a faster user, the fastest first; where
        some run all requests at once, of those alone.
        """
        kept: list[ServingRow] = []
        served = [row for row in self.rows if row.served]
        at_once = [row for row in served if row.served and not row.served.waiting]
        for row in sorted(at_once or served, key=lambda row: (-row.speed, -row.per_chip)):
            if not kept or row.per_chip > kept[-1].per_chip:
                kept.append(row)
        return tuple(kept)


def _holds(plan: ServedPlan, length: int) -> bool:
    try:
        check_dtypes(plan)
        plan.check()
    except RequestError:
        return False
    return pool_of(plan, length).requests > 0


def missed(question: ServingQuestion, row: ServingRow) -> tuple[int, float]:
    """Returns how many requests wait, and how many times over its limits a row is, at most."""
    served = row.served
    assert served is not None
    over = [
        value / limit
        for value, limit in ((served.ttft_s, question.ttft_s), (served.tpot_s, question.tpot_s))
        if limit
    ]
    return served.waiting, max([*over, 1.0])


def serve(question: ServingQuestion) -> ServingAnswer:
    """Returns how the load is served on each mesh.

    Raises:
      RequestError: the question has no answer: an unknown model or chip, a length of 0, a dtype
        that a chip lacks, a mesh that no sizes divide over, more than is simulated in half a minute.
    """
    question.check()
    plans = tuple(plans_of(question))
    _check_work(question, plans)
    return _ranked(question, (served_row(question, plan) for plan in plans), {})


def _ranked(
    question: ServingQuestion,
    rows: Iterable[ServingRow],
    compiled: Mapping[ServedPlan, CompiledDecode],
) -> ServingAnswer:
    answer = _in_order(question, rows)
    if answer.lead is None:
        return answer
    return replace(answer, by_load=tuple(_by_load(question, answer.lead, compiled)))


def _in_order(question: ServingQuestion, rows: Iterable[ServingRow]) -> ServingAnswer:
    """The rows by their order; of those that make as many tokens as the first, to 1%, the fastest for
    a user is first.
    """
    ordered = sorted(rows, key=lambda row: _order(question, row))
    if not ordered or ordered[0].served is None:
        return ServingAnswer(question, tuple(ordered))
    first = _order(question, ordered[0])
    alike = [
        row
        for row in ordered
        if (own := _order(question, row))[:2] == first[:2] and own[2] <= _ALIKE * first[2]
    ]
    fastest = min(alike, key=lambda row: _order(question, row)[3])
    rest = (row for row in ordered if row is not fastest)
    return ServingAnswer(question, (fastest, *rest))


def _check_work(question: ServingQuestion, plans: tuple[ServedPlan, ...]) -> None:
    load, at_once = question.load, question.load.concurrency
    each = max(_WAVES * at_once, load.requests or 0)
    if sum(_PER_PLAN + each // plan.replicas for plan in plans) > _MOST_WORK:
        what = f"{len(plans):,} plans for {at_once:,} requests at once"
        raise refuse(what, "are too many to simulate", "name fewer chips, dtypes or requests")


def _order(question: ServingQuestion, row: ServingRow) -> tuple[float, ...]:
    """The best first: of limits the cheapest, else the most tokens for a dollar or a chip; of those
    that make as many, as at a rate, the fastest.
    """
    if row.served is None:
        return 3.0, float(row.chips), row.pool.weights if row.pool else math.inf, 0.0
    spent = row.per_hour if question.price and row.per_hour else float(row.chips)
    least = spent if question.ttft_s or question.tpot_s else 0.0
    kept = 0.0 if row.keeps else 2.0 - row.even
    return kept, least, -row.served.output_per_s / spent, row.served.tpot_s


def plans_of(question: ServingQuestion) -> Iterator[ServedPlan]:
    """Every plan whose sizes divide; RequestError where there is none."""
    reason, several = "", False
    for topology in question.topologies:
        for mesh in _meshes(question, topology):
            for weights in question.weights_dtypes:
                for cache in question.kv_dtypes:
                    plan = ServedPlan(
                        model=question.model,
                        target=topology.target,
                        mesh=mesh,
                        weights_dtype=weights,
                        kv_dtype=cache,
                    )
                    try:
                        check_dtypes(plan)
                        plan.check()
                    except RequestError as error:
                        reason = str(error)  # of the most chips
                        continue
                    several = True
                    yield plan
    if not several:
        raise RequestError(reason or "no mesh of these chips serves this model: use others")


def _meshes(question: ServingQuestion, topology: Topology) -> Iterator[tuple[tuple[str, int], ...]]:
    """The mesh of the question; else those of a replica that divides a slice."""
    if question.mesh:
        yield question.mesh
        return
    experts, within = get_model(question.model).experts, topology.devices // topology.slices
    sizes = [size for size in range(1, min(_LARGEST, within) + 1) if within % size == 0]
    # as many replicas as requests at most, or as few as there can be
    most = max(question.load.concurrency, topology.devices // sizes[-1])
    for devices in sizes:
        if topology.devices // devices > most:
            continue
        for tensor in range(1, devices + 1):
            if devices % tensor:
                continue
            pairs = (("data", devices // tensor), ("tensor", tensor))
            # a shard of an expert is narrower than a matrix unit
            expert = devices if devices <= experts else math.gcd(experts, devices)
            mesh = tuple(each for each in (*pairs, ("expert", expert)) if each[1] > 1)
            yield mesh or (("tensor", 1),)


def with_compiled(
    answer: ServingAnswer, compiled: Mapping[ServedPlan, CompiledDecode]
) -> ServingAnswer:
    """Returns the answer with compiled steps in the place of estimates, ranked again."""
    question = answer.question
    rows = (
        served_row(question, row.plan, compiled[row.plan]) if row.plan in compiled else row
        for row in answer.rows
    )
    # fewer requests may fit
    return _ranked(question, rows, {plan: step for plan, step in compiled.items() if step.fits})


def served_row(
    question: ServingQuestion, plan: ServedPlan, step: CompiledDecode | None = None
) -> ServingRow:
    """Returns what the load of a question takes on a plan; `step`: its compiled decode step."""
    price = dict(question.price).get(plan.topology.chip.generation)
    pool = pool_of(plan, question.load.longest)
    if pool.requests < 1 or (step and not step.fits):
        verdict = NO_REQUEST if pool.cache > 0 and not step else NO_ROOM
        return ServingRow(plan, verdict, pool=pool, price=price, compiled=step)
    scale = step.seconds / step.estimate if step else 1.0
    served = simulate(plan, question.load, (scale, 1.0))
    assert served is not None
    limits = (
        ("ttft", served.ttft, question.ttft_s),
        ("tpot", served.tpot, question.tpot_s),
    )
    over = [name for name, each, limit in limits if limit and each.estimate > limit]
    known = [(each, limit) for _, each, limit in limits if limit]
    could = all(each.low <= limit for each, limit in known) and not served.waiting
    even = could and any(limit <= each.high for each, limit in known)
    missing = f"misses {over[0]}" if over else KEEPS
    late = WAITS if served.waiting else missing
    return ServingRow(
        plan,
        EVEN if even else late,
        not over and not served.waiting,
        even,
        served,
        pool,
        price,
        step,
    )


def _by_load(
    question: ServingQuestion, lead: ServingRow, compiled: Mapping[ServedPlan, CompiledDecode]
) -> Iterator[tuple[ServingLoad, ServingRow]]:
    """The best sharding on the chips and in the dtypes of a row, by requests at once and lengths."""
    here = replace(
        question,
        chips=(lead.plan.topology.name,),
        weights_dtypes=(lead.plan.weights_dtype,),
        kv_dtypes=(lead.plan.kv_dtype,),
    )
    asked, sees = question.load, get_model(question.model).context or math.inf
    usual = (tuple(Lengths(n, n) for n in each) for each in _LENGTHS if sum(each) <= sees)
    for given, made in dict.fromkeys([(asked.input, asked.output), *usual]):
        for at_once in sorted({*_AT_ONCE, asked.concurrency}):
            load = replace(
                asked, input=given, output=made, concurrency=at_once, rate=None, requests=None
            )
            asks = replace(here, load=load)
            looked = (served_row(asks, plan, compiled.get(plan)) for plan in plans_of(asks))
            answer = _in_order(asks, looked)
            yield load, answer.lead or answer.rows[0]
