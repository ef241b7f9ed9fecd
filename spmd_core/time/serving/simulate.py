"""Continuous batching of a load on one replica: a small discrete-event simulation, seeded."""

import heapq
import math
import random
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice, repeat
from operator import attrgetter
from statistics import fmean

from spmd_core.facts import Estimate
from spmd_core.plan import ServedPlan
from spmd_core.time.serving.assumed import CHUNK
from spmd_core.time.serving.held import Pool, pool_of
from spmd_core.time.serving.step import StepLoad, StepTime, cache_s, interval, step_time

_COUNTED = 512  # requests of a replica whose times are kept, of a load that goes on
_BLOCKS = 100  # of as many, that may come before these have all ended
_GRID = 1.5  # between numbers of requests whose steps are worked out; others are between


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of a request: each number drawn evenly from a range, ends included."""

    low: int
    high: int

    @property
    def mean(self) -> float:
        """The mean."""
        return (self.low + self.high) / 2

    @property
    def text(self) -> str:
        """As they are typed: 1024, or 512..2048."""
        return f"{self.low}" if self.low == self.high else f"{self.low}..{self.high}"

    def drawn(self, chance: random.Random, count: int) -> list[int]:
        """Returns so many in any order, one of each part of the range, so that their mean is its own."""
        wide = self.high - self.low + 1
        if wide == 1:
            return [self.low] * count
        lengths = [self.low + int(wide * (n + chance.random()) / count) for n in range(count)]
        chance.shuffle(lengths)
        return lengths


@dataclass(frozen=True, slots=True)
class ServingLoad:
    """Requests: so many at once, or so many a second that arrive by chance.

    Attributes:
      input: tokens of a prompt.
      output: tokens that are made.
      concurrency: requests at once; each that ends begins another.
      rate: requests a second; None for a fixed concurrency, which is the most at once otherwise.
      requests: in all, the first with nothing before them; None for a load that goes on.
      chunk: tokens of prompts in a step, on each shard of `data`.
      accepted: tokens of a request that a step makes, with speculation; 1 without.
      seed: of lengths and arrivals.
    """

    input: Lengths
    output: Lengths
    concurrency: int
    rate: float | None = None
    requests: int | None = None
    chunk: int = CHUNK
    accepted: float = 1.0
    seed: int = 0

    @property
    def longest(self) -> int:
        """Tokens of the longest request."""
        return self.input.high + self.output.high

    @property
    def context(self) -> float:
        """Tokens in the cache of a request that decodes, on average."""
        return self.input.mean + self.output.mean / 2


@dataclass(frozen=True, slots=True)
class Served:
    """A load on all replicas.

    Attributes:
      tpot: (end - first token) / (output - 1), mean over requests.
      ttft: from arrival to the first token, mean, and `ttft_p99_s`. At a rate the intervals are
        those of steps at either end of theirs, with other arrivals.
      step_s: of one decode step with all requests that run at once, nothing beside it.
      output_per_s: output tokens a second, of all replicas; `input_per_s` of prompts.
      running: requests at once, of all replicas; `waiting` those that the pool has no room for, or
        with a rate, by how many each second falls behind.
      step: the decode step by part; `prompt`, of one chunk of prompts alone.
    """

    tpot: Estimate
    ttft: Estimate
    ttft_p99_s: float
    step_s: float
    output_per_s: float
    input_per_s: float
    running: int
    waiting: int
    step: StepTime
    prompt: StepTime
    chunk: int
    pool: Pool

    @property
    def tpot_s(self) -> float:
        """The mean."""
        return self.tpot.estimate

    @property
    def ttft_s(self) -> float:
        """The mean."""
        return self.ttft.estimate

    def output_times(self, load: ServingLoad) -> tuple[float, ...]:
        """Returns the interval of `output_per_s`, in times of it: from requests that take as long as
        the intervals of their tokens allow. Empty where a rate of arrivals bounds it.
        """
        if load.rate is not None and not self.waiting:
            return ()
        more = max(load.output.mean - 1, 0)
        takes = self.ttft_s + more * self.tpot_s
        low, high = self.ttft.low + more * self.tpot.low, self.ttft.high + more * self.tpot.high
        return takes / high, takes / low


def prompt_time(plan: ServedPlan, load: ServingLoad, shards: int) -> StepTime:
    """Returns a step of a chunk of prompts alone on each of so many shards."""
    before = load.input.mean / 2
    return step_time(plan, StepLoad(prompt=shards * load.chunk, before=before, prompts=shards))


class _StepTimes:
    """Seconds of steps of a plan, worked out at a grid of requests, and between."""

    def __init__(self, plan: ServedPlan, load: ServingLoad, scale: tuple[float, float]) -> None:
        self.plan, self.load, self.scale = plan, load, scale
        self.between: dict[tuple[int, int, int], tuple[float, float]] = {}
        self.before, self.data = load.input.mean / 2, plan.along("data")

    @cached_property
    def contexts(self) -> tuple[float, float]:
        """Two contexts, between which a step's seconds are linear."""
        return self.load.input.mean, self.load.input.mean + self.load.output.mean

    def seconds(self, decoding: int, context: float, prompt: int = 0, prompts: int = 1) -> float:
        """Returns the seconds of a step with so many requests of that mean context, and tokens of so
        many prompts, which the shards of `data` take one by one.
        """
        prompts = min(prompts, self.data) if prompt else 0
        key = decoding, prompt, prompts
        if key not in self.between:
            self.between[key] = self._between(*key)
        start, more = self.between[key]
        return start + more * context

    def _between(self, decoding: int, prompt: int, prompts: int) -> tuple[float, float]:
        """(seconds, and for each token of context) of a step that the grid may not have."""
        start, more, times, (near, far) = 0.0, 0.0, self.scale[prompt > 0], self.contexts
        for requests, share in self._around(decoding):
            for tokens, part in _levels(prompt):
                at = self.plan, (requests, near, tokens, self.before, prompts), far
                seconds, least, rest = _ends(*at)
                start += share * part * max(times * seconds, least)
                more += share * part * times * rest
        return start - more * near, more

    def shards(self, prompts: int) -> int:
        """Returns the shards of `data` that so many prompts are on."""
        return min(prompts, self.data)

    def _around(self, decoding: int) -> tuple[tuple[int, float], ...]:
        """Numbers of requests of the grid on either side, with their shares; a step waits for its
        fullest shard.
        """
        data = self.data
        if decoding <= 4 * data:
            return ((decoding, 1.0),)
        power = math.floor(math.log(decoding / data, _GRID))
        low, high = (math.ceil(_GRID**each) * data for each in (power, power + 1))
        share = (decoding - low) / (high - low)
        return ((low, 1 - share), (high, share)) if 0 <= share <= 1 else ((decoding, 1.0),)


@lru_cache(maxsize=2**15)  # the ends of an interval, and the next question, have many of them again
def _ends(
    plan: ServedPlan, load: tuple[int, float, int, float, int], far: float
) -> tuple[float, float, float]:
    """(seconds of a step, the least of them, seconds more for each token of context up to `far`)."""
    step, (decoding, near, *_) = step_time(plan, StepLoad(*load)), load
    more = cache_s(plan, decoding, far) - cache_s(plan, decoding, near)
    return step.seconds, step.least, more / (far - near)


def _levels(prompt: int) -> tuple[tuple[int, float], ...]:
    """Powers of two on either side of so many tokens, with their shares.

    >>> _levels(1024), _levels(1536)
    (((1024, 1.0),), ((1024, 0.5), (2048, 0.5)))
    """
    low = 1 << max(0, prompt.bit_length() - 1)
    if prompt in (0, low):
        return ((prompt, 1.0),)
    share = prompt / low - 1
    return ((low, 1 - share), (2 * low, share))


@dataclass(slots=True)
class _Request:
    arrival: float
    input: int
    output: int
    left: int  # of the prompt
    is_counted: bool
    placed: float = 0.0
    first: float = 0.0
    began: float = 0.0  # the turn before its first decode step
    end: float = 0.0


@lru_cache(maxsize=2**11)  # tables and screens of one question share loads
def simulate(
    plan: ServedPlan,
    load: ServingLoad,
    scale: tuple[float, float] = (1.0, 1.0),
    is_end: bool = False,
) -> Served | None:
    """Returns what a load takes on a plan; None where the pool holds no request.

    `scale`: of compiled steps over estimates, decode and prompts. `is_end`: of an interval, with half the requests.
    """
    pool = pool_of(plan, load.longest)
    if pool.requests < 1:
        return None
    places = min(-(-load.concurrency // plan.replicas), pool.requests)
    steps = _StepTimes(plan, load, scale)
    replica = _run(steps, places, _COUNTED >> is_end)
    kept, input, output, later = _kept_per_s(plan, load, scale, replica)
    lacking = load.concurrency - places * plan.replicas if load.rate is None else load.rate - kept
    waits = sorted(each.first - each.arrival + later for each in replica.done)
    step = step_time(plan, StepLoad(places, load.context)).scaled(scale[0])
    many = (each for each in replica.done if each.output > 1)
    tpots = [(each.end - each.first) / (each.output - 1) for each in many]
    prompt = prompt_time(plan, load, min(places, plan.along("data"))).scaled(scale[1])
    tpot = fmean(tpots or [step.seconds / load.accepted])
    served = Served(
        tpot=interval(step.parts, tpot, min(step.least, tpot)),
        ttft=interval(prompt.parts, fmean(waits), 0.0),
        ttft_p99_s=waits[min(len(waits) - 1, int(0.99 * len(waits)))],
        step_s=step.seconds / load.accepted,
        output_per_s=kept * output,
        input_per_s=kept * input,
        running=min(places * plan.replicas, load.concurrency),
        waiting=max(0, math.ceil(lacking)),
        step=step,
        prompt=prompt,
        chunk=load.chunk,
        pool=pool,
    )
    is_alone = load.rate is None or is_end or served.waiting
    return served if is_alone else _with_arrivals(served, steps)


def _run(steps: _StepTimes, places: int, most: int) -> "_Replica":
    """A replica that has served all requests, or so many of a load that goes on: more at once than
    twice its places only wait longer.
    """
    plan, load, scale = steps.plan, steps.load, steps.scale
    asked = -(-load.concurrency // plan.replicas)
    at_once = asked if load.requests else min(asked, 2 * places)
    skipped, count = 0, -(-(load.requests or 0) // plan.replicas) or most
    if not load.requests and load.rate is None:
        skipped, count = at_once, max(at_once, min(2 * at_once, most))
    requests = _requests(load, plan.replicas, skipped, count)
    replica = _Replica(steps, places, requests, at_once)
    replica.run(count, 0 if load.requests else _in_flight(plan, load, scale, places))
    return replica


def _with_arrivals(served: Served, steps: _StepTimes) -> Served:
    """The same with intervals of two further simulations: steps as fast, and as slow, as theirs."""
    step = served.step.estimate
    ends, scale = [], steps.scale
    for place, end in enumerate((step.low, step.high), 1):
        times = end / step.estimate
        other = replace(steps.load, seed=steps.load.seed + place)
        scaled = scale[0] * times, scale[1] * times
        ends.append(simulate(steps.plan, other, scaled, is_end=True))
    named = {}
    for name in ("tpot", "ttft"):
        values = [getattr(each, name).estimate for each in (served, *ends)]
        named[name] = Estimate(low=min(values), estimate=values[0], high=max(values))
    return replace(served, **named)  # pyrefly: ignore


def _kept_per_s(
    plan: ServedPlan, load: ServingLoad, scale: tuple[float, float], replica: "_Replica"
) -> tuple[float, float, float, float]:
    """Requests a second of all replicas, their mean lengths, and seconds that each waits longer behind
    those that were left out. By Little's law at so many at once; at a rate as many as a step allows.
    """
    if load.rate is not None:
        kept = min(load.rate, steady_per_s(plan, load, scale) / load.output.mean)
        return kept, load.input.mean, load.output.mean, 0.0
    done, count = replica.done, len(replica.done)
    input, output = (fmean(map(attrgetter(name), done)) for name in ("input", "output"))
    asked = -(-load.concurrency // plan.replicas)  # of each, some of which have one less
    if load.requests:
        return count / replica.now * load.concurrency / asked, input, output, 0.0
    # of those that have a place: how long others wait depends on which are counted
    takes = fmean(each.end - each.placed for each in done) / min(replica.at_once, replica.places)
    return load.concurrency / asked / takes, input, output, (asked - replica.at_once) * takes


def _in_flight(plan: ServedPlan, load: ServingLoad, scale: tuple[float, float], places: int) -> int:
    """Requests that decode at once on a replica when as many end as arrive, at most its places."""
    made, most = (load.rate or 0.0) * load.output.mean / plan.replicas, places * bool(load.rate)
    return bisect_left(range(1, most), made, key=lambda n: _made_per_s(plan, load, scale, n))


def _requests(load: ServingLoad, replicas: int, skipped: int, count: int) -> Iterator[_Request]:
    """The requests of a replica, in the order of their arrival, 0.0 for those that follow others: those
    that fill it, so many that count, and what comes after these.
    """
    chance, now = random.Random(load.seed), 0.0
    for block, each in enumerate((skipped, *repeat(count, 1 if load.requests else _BLOCKS))):
        lengths = (lengths.drawn(chance, each) for lengths in (load.input, load.output))
        for input, output in zip(*lengths, strict=True):
            if load.rate is not None:
                now += chance.expovariate(load.rate / replicas)
            yield _Request(now, input, output, input, block == 1)


class _Replica:
    """Requests of one replica as they wait, have a place, decode, and end.

    A step takes up to a chunk of the prompts that have a place, beside one token of each request
    that decodes; between two events all decode steps are taken at once.
    """

    def __init__(
        self, steps: _StepTimes, places: int, requests: Iterator[_Request], at_once: int
    ) -> None:
        self.steps, self.load, self.places, self.at_once = steps, steps.load, places, at_once
        self.coming, self.next = requests, next(requests, None)
        self.waiting, self.prompts = deque[_Request](), deque[_Request]()
        self.decoding: list[tuple[float, int, _Request]] = []  # by the turn in which each ends
        self.done: list[_Request] = []  # of those that count
        self.now = self.turn = self.cached = 0.0
        self.begun, self.is_by_chance = 0, steps.load.rate is not None

    def run(self, count: int, in_flight: int) -> None:
        """Serves until so many that count have ended; at first so many of mean
        lengths decode, from one that has just begun to one that is about to end.
        """
        input, output = (round(each.mean) for each in (self.load.input, self.load.output))
        for place in range(in_flight):
            made = (output - 1) * place / in_flight
            self.turn = -made / self.load.accepted
            self._begin(_Request(0.0, input, output, 0, False))
            self.cached += made
        self.turn = 0.0
        for _ in range(0 if self.is_by_chance else self.at_once):
            self._arrive_next()
        while len(self.done) < count:
            self._arrive()
            if self.prompts or self.decoding:
                self._step()
            else:
                assert self.next
                self.now = self.next.arrival

    def _arrive(self) -> None:
        while self.is_by_chance and self.next and self.next.arrival <= self.now:
            self._arrive_next()
        while self.waiting and len(self.prompts) + len(self.decoding) < self.places:
            self.waiting[0].placed = self.now
            self.prompts.append(self.waiting.popleft())

    def _arrive_next(self) -> None:
        """The next request waits, since now where it follows another."""
        if self.next is None:
            return
        if not self.is_by_chance:
            self.next.arrival = self.now
        self.waiting.append(self.next)
        self.next = next(self.coming, None)

    def _step(self) -> None:
        count, finished = len(self.decoding), list[_Request]()
        context = self.cached / count if count else self.load.input.mean
        if self.prompts:
            prompts, times = len(self.prompts), self._chunks(context)
            chunk = self.load.chunk * times
            taken, finished = _taken(self.prompts, chunk, chunk * self.steps.shards(prompts))
            context += self.load.accepted * (times - 1) / 2
            seconds = self.steps.seconds(count, context, taken // times, prompts)
        else:
            times = max(1.0, math.ceil(self.decoding[0][0] - self.turn))
            seconds = self.steps.seconds(count, context + self.load.accepted * times / 2)
            times = self._before_arrival(times, seconds)
        self.now += times * seconds
        self.turn += times
        self.cached += count * times * self.load.accepted
        while self.decoding and self.decoding[0][0] <= self.turn:
            each = heapq.heappop(self.decoding)[2]
            self.cached -= each.input + 1 + (self.turn - each.began) * self.load.accepted
            self._end(each)
        for each in finished:
            self._begin(each)

    def _chunks(self, context: float) -> int:
        """Steps of full chunks until a prompt is through, a request ends, or one begins beside."""
        prompts, chunk, count = len(self.prompts), self.load.chunk, len(self.decoding)
        shards = self.steps.shards(prompts)
        times = min(each.left for each in islice(self.prompts, shards)) // chunk
        if self.decoding:
            times = min(times, math.ceil(self.decoding[0][0] - self.turn))
        if times > 1 and self.steps.shards(prompts + 1) > shards:
            seconds = self.steps.seconds(count, context, chunk * shards, prompts)
            times = self._before_arrival(times, seconds)
        return max(1, int(times))

    def _before_arrival(self, times: float, seconds: float) -> float:
        """So many steps, or as many as end at or after the next arrival."""
        if not (self.is_by_chance and self.next):
            return times
        until = math.ceil((self.next.arrival - self.now) / seconds)
        return min(times, max(1.0, until))

    def _begin(self, each: _Request) -> None:
        """Its first token, which its prompt makes."""
        each.first = self.now
        if each.output == 1:
            self._end(each)
            return
        self.cached += each.input + 1
        each.began = self.turn
        last = self.turn + (each.output - 1) / self.load.accepted
        self.begun += 1
        heapq.heappush(self.decoding, (last, self.begun, each))

    def _end(self, each: _Request) -> None:
        each.end = self.now
        if each.is_counted:
            self.done.append(each)
        if not self.is_by_chance:
            self._arrive_next()


def _taken(prompts: deque[_Request], chunk: int, most: int) -> tuple[int, list[_Request]]:
    """Takes up to a chunk of each prompt, and `most` of all, the first first; (tokens, those that
    are through).
    """
    taken, finished, rest = 0, list[_Request](), list[_Request]()
    while prompts and taken < most:
        each = prompts.popleft()
        part = min(chunk, most - taken, each.left)
        each.left -= part
        taken += part
        (rest if each.left else finished).append(each)
    prompts.extendleft(reversed(rest))
    return taken, finished


def steady_per_s(
    plan: ServedPlan, load: ServingLoad, scale: tuple[float, float] = (1.0, 1.0)
) -> float:
    """Returns about the output tokens a second of all replicas, without a simulation; 0 where the pool
    holds no request.
    """
    places = min(-(-load.concurrency // plan.replicas), pool_of(plan, load.longest).requests)
    return plan.replicas * _made_per_s(plan, load, scale, places) if places > 0 else 0.0


def _made_per_s(
    plan: ServedPlan, load: ServingLoad, scale: tuple[float, float], places: int
) -> float:
    """Tokens a second of a replica, whose shards of `data` step together: while one of them has a chunk
    of a prompt, the others' tokens take as long.
    """
    shards, made = min(places, plan.along("data")), load.output.mean / load.accepted
    chunks = load.input.mean / load.chunk
    busy = min(1.0, places / shards * chunks / (made + chunks))  # of its steps, those with one
    decoding, any_busy = max(1, round(busy * shards / chunks * made)), 1 - (1 - busy) ** shards
    prompts = max(1, round(busy * shards / any_busy))
    step = StepLoad(decoding, load.context)
    mixed = replace(step, prompt=prompts * load.chunk, before=load.input.mean / 2, prompts=prompts)
    alone, beside = (
        step_time(plan, each).scaled(times).seconds
        for each, times in zip((step, mixed), scale, strict=True)
    )
    return load.output.mean * busy * shards / chunks / (alone + any_busy * (beside - alone))
