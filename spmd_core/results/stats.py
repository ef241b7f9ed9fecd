"""Statistics of samples: median, spread, intervals, and whether strategies differ."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from spmd_core.experiment import MARGIN
from spmd_core.facts import CONFIDENCE, LOOKS, PLACEMENT, Ratio, Settles, over_processes, verdict
from spmd_core.results.result import Comparison

MEDIAN_CONFIDENCE = 0.95
FAMILY = 0.05  # probability of a false difference among all that are compared
RESAMPLES = 2000
SPREAD_NOTICE, SPREAD_WARNING = 0.10, 0.25  # inter-quartile range over median
OUTLIER_FENCE = 3.0  # inter-quartile ranges beyond a quartile (Tukey's "far out")
LEAST_OUTLIER_SAMPLES = 4
# up to here the distribution of the signed-rank sum is exact, above it is approximated as normal
EXACT_ROUNDS = 60
ONE_ERROR = 0.3173  # an interval of so much more is one standard error wide on each side
PRECISE_WITHIN = 0.02  # half width of a ratio's interval that needs no further rounds
# The placement of buffers and code changes a program's time by as much: smaller ratios do not count
# as a difference. The fastest of many is the luckiest of them: 95 % of the distances of normal
# values from the least of n are within those of two times 1 + LUCKIEST log2(n / 2) (within 3 % up
# to 96)
LUCK, LUCKIEST = 0.01, 0.1
NEAR = 0.10  # ratios further from 1 than this need no further rounds
MORE_ROUNDS = 3  # at most this many times the planned rounds are measured again

# of a strategy: for each round, seconds per call of each of its turns
Rounds = Sequence[Sequence[float]]
Measured = Mapping[str, Rounds]  # of each strategy, in one process


@dataclass(frozen=True, slots=True)
class Summary:
    """Median, inter-quartile range and 95 % interval of the median, in seconds; indices of samples
    far out.
    """

    median_s: float
    iqr_s: float
    ci95_s: tuple[float, float] | None  # None for a single sample
    outliers: tuple[int, ...]

    @property
    def spread(self) -> float:
        """Inter-quartile range over median."""
        return self.iqr_s / self.median_s if self.median_s else 0.0


def summarize(samples_s: Sequence[float]) -> Summary:
    """Every sample counts; outliers are flagged, not dropped."""
    samples = np.asarray(samples_s, np.float64)
    low, median, high = np.percentile(samples, [25, 50, 75])
    fence = OUTLIER_FENCE * (high - low)
    far = (samples < low - fence) | (samples > high + fence)
    outliers = np.flatnonzero(far) if len(samples) >= LEAST_OUTLIER_SAMPLES else np.array([], int)
    interval = bootstrap_interval(samples) if len(samples) > 1 else None
    return Summary(
        float(median), float(high - low), interval, tuple(int(index) for index in outliers)
    )


def bootstrap_interval(samples: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """95 % percentile interval of the median, over RESAMPLES resamples drawn at once."""
    draws = np.random.default_rng(seed).integers(0, len(samples), (RESAMPLES, len(samples)))
    return percentile_interval(np.median(samples[draws], axis=1))


def percentile_interval(values: np.ndarray) -> tuple[float, float]:
    """The middle 95 % of resampled values."""
    tail = 50 * (1 - MEDIAN_CONFIDENCE)
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def log_ratios(of: Rounds, over: Rounds) -> np.ndarray:
    """Per round, the log of the ratio of two strategies' times: the median over the turns that they
    ran side by side.
    """
    ratios = []
    for numerator, denominator in zip(of, over, strict=False):
        above, below = np.asarray(numerator), np.asarray(denominator)
        if len(above) != len(below):
            above, below = np.median(above), np.median(below)
        ratios.append(float(np.median(np.log(above / below))))
    return np.array(ratios)


def signed_rank_interval(differences: np.ndarray, alpha: float) -> tuple[float, float, float, bool]:
    """(estimate, low, high, excludes 0) of the center of paired differences, by Wilcoxon's signed
    ranks (Hodges and Lehmann 1963).

    Holds for any distribution that is symmetric about its center, as differences of exchangeable
    times are about 0. With too few differences for `alpha`, the interval is all of the averages and
    excludes nothing.
    """
    count = len(differences)
    if count == 0:
        return 0.0, 0.0, 0.0, False
    first, second = np.triu_indices(count)
    averages = np.sort((differences[first] + differences[second]) / 2)
    estimate = float(np.median(averages))
    rank = _critical_rank_sum(count, alpha)
    if rank is None:
        return estimate, float(averages[0]), float(averages[-1]), False
    low, high = float(averages[rank]), float(averages[-1 - rank])
    return estimate, low, high, low > 0 or high < 0


@cache
def _critical_rank_sum(count: int, alpha: float) -> int | None:
    """The largest c that the signed-rank sum of `count` differences does not pass with a
    probability of at most alpha/2; None where none is.
    """
    total = count * (count + 1) // 2
    if count > EXACT_ROUNDS:
        deviation = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        return max(0, math.floor(total / 2 - 0.5 - _normal_quantile(1 - alpha / 2) * deviation))
    ways = np.zeros(total + 1)
    ways[0] = 1.0
    for rank in range(1, count + 1):
        ways[rank:] = ways[rank:] + ways[: total + 1 - rank]
    rejected = int(np.searchsorted(np.cumsum(ways) / 2.0**count, alpha / 2, side="right"))
    return rejected - 1 if rejected else None


def _normal_quantile(probability: float) -> float:
    # scipy is slow to import, and few runs have this many rounds
    from scipy.special import ndtri

    return float(ndtri(probability))


def is_settled(rounds: Measured, margin: float = MARGIN) -> bool:
    """Whether every verdict is known at a look before the last round; not of one strategy alone."""
    compared = compare(rounds, None, (), margin, has_looks=True)
    ratios = compared.ratios if compared else ()
    return bool(ratios) and all(each.verdict != "cannot tell" for each in ratios)


def two_best(rounds: Mapping[str, Rounds]) -> tuple[str, str] | None:
    """The two strategies with the smallest medians; None if there are fewer."""
    if len(rounds) < 2:
        return None
    first, second = sorted(rounds, key=lambda name: median_s(rounds[name]))[:2]
    return first, second


def contenders(rounds: Mapping[str, Rounds], planned: int | None = None) -> tuple[str, ...] | None:
    """The fastest, and those near it whose verdict is open; the two best if there are none.
    None if there are fewer.
    """
    compared = compare(rounds, planned)
    if compared is None or not compared.ratios:
        return None
    near = [
        each.strategy
        for each in compared.ratios
        if each.verdict == "cannot tell" and abs(math.log(each.ratio)) <= NEAR
    ]
    return (compared.fastest, *near) if near else two_best(rounds)


def corrected(count: int) -> float:
    """The probability of a false difference that each pair among `count` may have: with the best,
    which the data choose, each of the others is compared (Hsu 1984, by Bonferroni).
    """
    return min(1 - CONFIDENCE, FAMILY / max(1, count - 1))


def luck(count: int) -> float:
    """The log of a ratio to the fastest of `count` that chance alone may produce."""
    return math.log1p(LUCK * (1 + LUCKIEST * math.log2(max(2, count) / 2)))


def median_s(rounds: Rounds) -> float:
    """Median over rounds of the median over turns, in seconds."""
    return float(np.median([np.median(turns) for turns in rounds]))


def rank_interval(rounds: Rounds) -> tuple[float, float]:
    """Returns the 95 % interval of the median over rounds by binomial ranks, in seconds: of a few
    rounds, their least and greatest. Cheap enough between rounds that are timed.
    """
    values = sorted(float(np.median(turns)) for turns in rounds)
    reach = _normal_quantile((1 + MEDIAN_CONFIDENCE) / 2) * math.sqrt(len(values)) / 2
    low = max(0, math.floor(len(values) / 2 - reach))
    return values[low], values[-1 - low]


def rounds_to_add(
    rounds: Mapping[str, Rounds], pair: tuple[str, str], planned: int, alpha: float = 1 - CONFIDENCE
) -> int:
    """How many rounds to measure the two best again: as planned; fewer if they are far apart, more
    if they are close and noisy. `alpha` is the error rate of their interval.
    """
    estimate, low, high, _ = signed_rank_interval(
        log_ratios(rounds[pair[0]], rounds[pair[1]]), alpha
    )
    half = (high - low) / 2
    if abs(estimate) > NEAR + half:
        return max(1, planned // 4)
    if half <= PRECISE_WITHIN:
        return planned
    return min(
        MORE_ROUNDS * planned, max(planned, math.ceil(planned * ((half / PRECISE_WITHIN) ** 2 - 1)))
    )


def rounds_to_settle(rounds: Measured, planned: int) -> int:
    """How many more rounds a further process measures: as many as bring its own error on the ratios
    to the fastest down to PLACEMENT, by which processes differ in any case; none of a ratio that is
    far from 1.
    """
    measured = {name: each for name, each in rounds.items() if each}
    fastest = min(measured, key=lambda name: median_s(measured[name]), default="")
    known = [
        standard_error(log_ratios(each, measured[fastest]))
        for name, each in measured.items()
        if name != fastest
    ]
    worst = max((error for ratio, error in known if ratio - 2 * error < NEAR), default=0.0)
    wanted = math.ceil(planned * ((worst / PLACEMENT) ** 2 - 1))
    return min(MORE_ROUNDS * planned, max(0, wanted))


def compare(
    rounds: Measured,
    planned: int | None = None,
    again: Sequence[Measured] = (),
    margin: float = MARGIN,
    has_looks: bool = False,
) -> Comparison | None:
    """Which strategy is fastest, and how the others compare by the rounds that they share; None
    without a strategy. `again`: what further processes measured of some of them. `has_looks`:
    verdicts before the last round might have ended the measuring, so each has a share of the error.

    One statistic makes the order, the median that a reader sees first: of the `planned` rounds,
    since only the two best are measured longer. A strategy is called slower only if the rounds that
    it shares with the fastest confirm it.
    """
    measured = {name: values for name, values in rounds.items() if values}
    if not measured:
        return None
    further = {name: [each[name] for each in again if each.get(name)] for name in measured}
    order = sorted(
        measured,
        key=lambda name: (
            bool(again) and not further[name],  # which was far behind in the first process
            median_of_processes([measured[name][:planned], *further[name]]),
        ),
    )
    ratios = ratios_to(order, measured, again, margin, has_looks)
    tied = tuple(ratio.strategy for ratio in ratios if not ratio.differs)
    return Comparison(fastest=order[0], ratios=tuple(ratios), tied=tied)


def median_of_processes(every: Sequence[Rounds]) -> float:
    """Median over processes of the medians of a strategy's rounds, in seconds."""
    return float(np.median([median_s(rounds) for rounds in every]))


def hierarchical_interval(every: Sequence[Rounds]) -> tuple[float, float]:
    """95 % percentile interval of that median: processes are resampled, and the rounds of each."""
    generator = np.random.default_rng(0)
    samples = [np.array([np.median(turns) for turns in rounds]) for rounds in every]
    drawn = np.array(
        [
            np.median(each[generator.integers(0, len(each), (RESAMPLES, len(each)))], axis=1)
            for each in samples
        ]
    )
    chosen = generator.integers(0, len(every), (len(every), RESAMPLES))
    return percentile_interval(np.median(np.take_along_axis(drawn, chosen, axis=0), axis=0))


def ratios_to(
    order: Sequence[str],
    measured: Measured,
    again: Sequence[Measured] = (),
    margin: float = MARGIN,
    has_looks: bool = False,
) -> list[Ratio]:
    """Every other strategy against the first, in this order, by the rounds that they share."""
    every = [measured, *again]
    return [
        _ratio(
            name,
            [
                log_ratios(each[name], each[order[0]])
                for each in every
                if each.get(name) and each.get(order[0])
            ],
            len(order),
            margin,
            has_looks,
        )
        for name in order[1:]
    ]


def _ratio(
    name: str, logs: Sequence[np.ndarray], count: int, margin: float, has_looks: bool
) -> Ratio:
    """The verdict on a strategy by the log ratios of each process' rounds; `count` are compared.

    In one process the interval is that of its rounds, wider on both sides by what placement may
    make of equal programs. Where paired rounds contradict the order of the medians, it reaches to
    1.
    """
    alpha = corrected(count)
    if len(logs) == 1:
        alpha /= LOOKS if has_looks else 1
        center, low, high, _ = signed_rank_interval(logs[0], alpha)
        low, high = low - luck(count), high + luck(count)
    else:
        center, low, high = over_processes([standard_error(each) for each in logs], alpha)
    interval = (math.exp(low), math.exp(max(high, 0.0)))  # the order of the medians denies less
    judged = verdict(interval, margin)
    is_few = len(logs) == 1 and _critical_rank_sum(len(logs[0]), alpha) is None
    if is_few:  # whatever their interval: they have none at this confidence
        judged = "cannot tell"
    return Ratio(
        strategy=name,
        ratio=math.exp(center),
        interval=interval,
        verdict=judged,
        differs=judged == "faster",
        settles=_settles(logs, is_few) if judged == "cannot tell" else None,
        rounds=sum(map(len, logs)),
        processes=len(logs),
    )


def standard_error(logs: np.ndarray) -> tuple[float, float]:
    """(estimate, standard error) of the center of log ratios of one process' rounds."""
    estimate, low, high, _ = signed_rank_interval(logs, ONE_ERROR)
    return estimate, (high - low) / 2


def _settles(logs: Sequence[np.ndarray], is_few: bool) -> Settles:
    """What would settle a comparison: more rounds where there are too few to judge by, the machine
    where they scatter by more than SPREAD_NOTICE, else more of what there is least of.
    """
    if is_few:
        return "more rounds"
    spread = max(float(np.subtract(*np.percentile(each, [75, 25]))) for each in logs)
    if spread > SPREAD_NOTICE:
        return "a quieter machine"
    return "more rounds" if len(logs) == 1 else "more processes"
