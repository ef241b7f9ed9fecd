"""Continuous batching of a load on one replica: a small discrete-event simulation, seeded."""

import heapq
import math
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from operator import attrgetter
from statistics import fmean

from spmd_core.experiment import ServedPlan
from spmd_core.results import Estimate
from spmd_core.time.serving.assumed import CHUNK
from spmd_core.time.serving.held import Pool, pool_of
from spmd_core.time.serving.step import StepLoad, StepTime, cache_s, interval, step_time

_WAVES = 3  # requests of each place of a fixed concurrency
_MOST = 768  # requests of a replica that are simulated
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

    def drawn(self, chance: random.Random) -> int:
        """Returns one of them."""
        return self.low if self.low == self.high else chance.randint(self.low, self.high)


@dataclass(frozen=True, slots=True)
class ServingLoad:
    """Requests: so many at once, or so many a second that arrive by chance.

    Attributes:
      input: tokens of a prompt.
      output: tokens that are made.
      concurrency: requests at once; each that ends begins another.
      rate: requests a second; None for a fixed concurrency, which is the most at once otherwise.
      requests: in all; None for a few of each place.
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


def prompt_time(plan: ServedPlan, load: ServingLoad, shards: int) -> StepTime:
    """Returns a step of a chunk of prompts alone on each of so many shards."""
    before = load.input.mean / 2
    return step_time(plan, StepLoad(prompt=shards * load.chunk, before=before, prompts=shards))


class _StepTimes:
    """Seconds of steps of a plan, worked out at a grid of requests and between."""

    def __init__(self, plan: ServedPlan, load: ServingLoad, scale: tuple[float, float]) -> None:
        self.plan, self.load, self.scale = plan, load, scale
        self.known: dict[tuple[int, int, int], tuple[float, float]] = {}
        self.before = load.input.mean / 2

    @cached_property
    def contexts(self) -> tuple[float, float]:
        """Two contexts, between which a step's seconds are linear."""
        return self.load.input.mean, self.load.input.mean + self.load.output.mean

    def seconds(self, decoding: int, context: float, prompt: int = 0, prompts: int = 1) -> float:
        """Returns the seconds of a step with so many requests of that mean context, and tokens of so
        many prompts, which the shards of `data` take one by one.
        """
        prompts = self.shards(prompts) if prompt else 0
        near, far = self.contexts
        along = (context - near) / (far - near)
        total = 0.0
        for requests, share in self._around(decoding):
            for tokens, part in _levels(prompt):
                start, more = self._ends(requests, tokens, prompts)
                total += share * part * (start + more * along)
        return total

    def shards(self, prompts: int) -> int:
        """Returns the shards of `data` that so many prompts are on."""
        return min(prompts, self.plan.along("data"))

    def chunk(self, places: int) -> StepTime:
        """Returns a step of a chunk of prompts alone on each shard, as far as there are places."""
        return prompt_time(self.plan, self.load, self.shards(places)).scaled(self.scale[1])

    def _around(self, decoding: int) -> tuple[tuple[int, float], ...]:
        """Numbers of requests of the grid on either side, with their shares; a step waits for its
        fullest shard.
        """
        data = self.plan.along("data")
        if decoding <= 4 * data:
            return ((decoding, 1.0),)
        power = math.floor(math.log(decoding / data, _GRID))
        low, high = (math.ceil(_GRID**each) * data for each in (power, power + 1))
        share = (decoding - low) / (high - low)
        return ((low, 1 - share), (high, share)) if 0 <= share <= 1 else ((decoding, 1.0),)

    def _ends(self, decoding: int, prompt: int, prompts: int) -> tuple[float, float]:
        """(seconds at the first context, what the last takes longer)."""
        key = decoding, prompt, prompts
        if key not in self.known:
            near, far = self.contexts
            step = step_time(self.plan, StepLoad(decoding, near, prompt, self.before, prompts))
            more = cache_s(self.plan, decoding, far) - step.parts["cache"]
            times = self.scale[1 if prompt else 0]
            self.known[key] = step.scaled(times).seconds, times * more
        return self.known[key]


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
    first: float = 0.0
    began: float = 0.0  # the turn before its first decode step
    end: float = 0.0


def simulate(
    plan: ServedPlan,
    load: ServingLoad,
    scale: tuple[float, float] = (1.0, 1.0),
    is_end: bool = False,
) -> Served | None:
    """Returns what a load takes on a plan; None where the pool holds no request.

    `scale`: of a compiled step over its estimate, in decode and with a chunk of prompts. `is_end`: of an
    interval at a rate, which needs none of its own.
    """
    pool = pool_of(plan, load.longest)
    if pool.requests < 1:
        return None
    replicas, asked = plan.replicas, -(-load.concurrency // plan.replicas)
    places = min(asked, pool.requests)
    steps = _StepTimes(plan, load, scale)
    replica = _Replica(steps, places, _requests(load, asked, replicas))
    done = replica.run(asked)
    kept, input, output = _kept_per_s(plan, load, scale, replica)
    lacking = load.concurrency - places * replicas if load.rate is None else load.rate - kept
    waits = sorted(each.first - each.arrival for each in done)
    step = step_time(plan, StepLoad(places, load.context)).scaled(scale[0])
    tpots = [(each.end - each.first) / (each.output - 1) for each in done if each.output > 1]
    tpot, prompt = fmean(tpots or [step.seconds / load.accepted]), steps.chunk(places)
    served = Served(
        tpot=interval(step.parts, tpot, min(step.least, tpot)),
        ttft=interval(prompt.parts, fmean(waits), 0.0),
        ttft_p99_s=waits[min(len(waits) - 1, int(0.99 * len(waits)))],
        step_s=step.seconds / load.accepted,
        output_per_s=kept * output,
        input_per_s=kept * input,
        running=min(places * replicas, load.concurrency),
        waiting=max(0, math.ceil(lacking)),
        step=step,
        prompt=prompt,
        chunk=load.chunk,
        pool=pool,
    )
    return served if load.rate is None or is_end else _with_arrivals(served, plan, load, scale)


def _with_arrivals(
    served: Served, plan: ServedPlan, load: ServingLoad, scale: tuple[float, float]
) -> Served:
    """The same with intervals of two further simulations: steps as fast, and as slow, as theirs."""
    step = served.step.estimate
    ends = []
    for place, end in enumerate((step.low, step.high), 1):
        times = end / step.estimate
        other = replace(load, seed=load.seed + place)
        ends.append(simulate(plan, other, (scale[0] * times, scale[1] * times), True))
    named = {}
    for name in ("tpot", "ttft"):
        values = [getattr(each, name).estimate for each in (served, *ends)]
        named[name] = Estimate(low=min(values), estimate=values[0], high=max(values))
    return replace(served, **named)


def _kept_per_s(
    plan: ServedPlan, load: ServingLoad, scale: tuple[float, float], replica: "_Replica"
) -> tuple[float, float, float]:
    """Requests a second of all replicas, and their mean lengths: those that ended, or of a rate as
    many as a step allows, whatever was drawn.
    """
    if load.rate is not None:
        kept = min(load.rate, steady_per_s(plan, load, scale) / load.output.mean)
        return kept, load.input.mean, load.output.mean
    asked = -(-load.concurrency // plan.replicas)  # of each, some of which have one less
    done, count = replica.done, len(replica.done)
    input, output = (sum(map(attrgetter(name), done)) / count for name in ("input", "output"))
    return count / replica.now * load.concurrency / asked, input, output


def _requests(load: ServingLoad, asked: int, replicas: int) -> Iterator[_Request]:
    """The requests of a replica, in the order of their arrival; 0.0 for those that follow others."""
    chance = random.Random(load.seed)
    count = -(-load.requests // replicas) if load.requests else _WAVES * asked
    now = 0.0
    for _ in range(max(asked if load.rate is None else 1, min(count, _MOST))):
        if load.rate is not None:
            now += chance.expovariate(load.rate / replicas)
        length = load.input.drawn(chance)
        yield _Request(now, length, load.output.drawn(chance), length)


class _Replica:
    """Requests of one replica as they wait, have a place, decode, and end.

    A step takes up to a chunk of the prompts that have a place, beside one token of each request
    that decodes; between two events all decode steps are taken at once.
    """

    def __init__(self, steps: _StepTimes, places: int, requests: Iterator[_Request]) -> None:
        self.steps, self.load, self.places = steps, steps.load, places
        self.coming = deque(requests)
        self.waiting, self.prompts = deque[_Request](), deque[_Request]()
        self.decoding: list[tuple[float, int, _Request]] = []  # by the turn in which each ends
        self.done: list[_Request] = []
        self.now = self.turn = self.cached = 0.0

    @property
    def is_by_chance(self) -> bool:
        """True if requests arrive at times of their own."""
        return self.load.rate is not None

    def run(self, asked: int) -> list[_Request]:
        """Serves all requests, at most so many of which have arrived and not ended; returns them."""
        for _ in range(0 if self.is_by_chance else min(asked, len(self.coming))):
            self.waiting.append(self.coming.popleft())
        while self.coming or self.waiting or self.prompts or self.decoding:
            self._arrive()
            if self.prompts or self.decoding:
                self._step()
            else:
                self.now = self.coming[0].arrival
        return self.done

    def _arrive(self) -> None:
        while self.is_by_chance and self.coming and self.coming[0].arrival <= self.now:
            self.waiting.append(self.coming.popleft())
        while self.waiting and len(self.prompts) + len(self.decoding) < self.places:
            self.prompts.append(self.waiting.popleft())

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
        if not (self.is_by_chance and self.coming):
            return times
        until = math.ceil((self.coming[0].arrival - self.now) / seconds)
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
        heapq.heappush(self.decoding, (last, len(self.done) + len(self.decoding), each))

    def _end(self, each: _Request) -> None:
        each.end = self.now
        self.done.append(each)
        if not self.is_by_chance and self.coming:
            self.coming[0].arrival = self.now
            self.waiting.append(self.coming.popleft())


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
    """Returns about the output tokens a second of all replicas, without a simulation: a step, and
    each request's prompt once in its output; 0 where the pool holds no request.
    """
    places = min(-(-load.concurrency // plan.replicas), pool_of(plan, load.longest).requests)
    if places < 1:
        return 0.0
    steps = _StepTimes(plan, load, scale)
    step = step_time(plan, StepLoad(places, load.context)).scaled(scale[0])
    chunks = places * load.input.mean / load.chunk / steps.shards(places)
    prompts = steps.chunk(places).seconds * chunks
    return places * plan.replicas / (step.seconds / load.accepted + prompts / load.output.mean)
