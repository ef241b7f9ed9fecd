"""Why a row is faster than the next: what each device computes, holds and sends in each."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from spmd_core.answers.strategies import peak_bytes, sent
from spmd_core.base import bytes_text, count_text, scaled_text
from spmd_core.results import Result, StrategyResult, best_rows
from spmd_core.sheets import NONE
from spmd_core.terms import listed
from spmd_core.words import collective_words

_MOST = 3  # rows that are compared at a glance
_ALIKE = 0.02  # of the larger amount: a smaller difference is none


@dataclass(frozen=True, slots=True)
class Cause:
    """What each device does, in each of the compared rows.

    Attributes:
      title: a verb: computes (else writes), holds, sends.
      texts: the amount in words, by row.
      shares: the amount over the largest one, by row; None where it is not known.
    """

    title: str
    texts: tuple[str, ...]
    shares: tuple[float | None, ...]


def causes(result: Result) -> tuple[tuple[str, ...], tuple[Cause, ...]]:
    """Returns the keys of the first rows that have a time, the best first, and what each device
    computes, holds and sends in them; no causes where fewer than two rows have a time. Where
    no FLOPs are known, what it writes of the results. The rows of a study are the best of each variant.
    """
    best = best_rows(result) if result.experiment.variants else ()
    order = best if len(best) > 1 else result.order
    names = tuple(name for name in order if result.strategies[name].time_s)[:_MOST]
    rows = [result.strategies[name] for name in names]
    known = [
        Cause(title, tuple(_words(row, amount, words) for row in rows), _shares(amounts))
        for title, amount, words in (_CAUSES if any(map(computed, rows)) else _WRITTEN)
        for amounts in [[amount(row) for row in rows]]
        if any(amounts) or (amount is sent and amounts.count(None) < len(rows))
    ]
    return names, tuple(known) if len(names) > 1 else ()


def differing(known: tuple[Cause, ...], next_: str) -> str:
    """Returns what a device does less and more of in the first row than in the next, which is called
    `next_`, in a sentence, as far as it is known; "" where nothing is known of both.
    """
    less, more, alike = [], [], []
    for each in known:
        first, then = (text.partition(", ")[0] for text in each.texts[:2])
        best, after = (share or 0.0 for share in each.shares[:2])
        if NONE in (first, then):
            continue
        if abs(best - after) > _ALIKE * max(best, after):
            (less if best < after else more).append(each.title)
        else:
            alike.append(each.title)
    if less or more:
        parts = [f"{listed(each)} {how}" for each, how in ((less, "less"), (more, "more")) if each]
        return f"Each device {' but '.join(parts)} than with {next_}."
    return f"What each device {listed(alike)} is alike." if alike else ""


def computed(outcome: StrategyResult) -> int | None:
    """Returns FLOPs per device of a row's matmuls; None where its program has none, or was not read: a
    compiler may write a product as a loop, whose FLOPs are not counted.
    """
    matmuls = (each for each in outcome.operations or () if each.kind == "matmul")
    return sum(2 * prod(each.sizes) * each.count for each in matmuls) or None


def _sent(outcome: StrategyResult, nbytes: float) -> str:
    kinds = dict.fromkeys(map(collective_words, outcome.collectives or ()))
    one = f", {next(iter(kinds))}" if len(kinds) == 1 else ""
    return f"{bytes_text(nbytes)}{one}" if nbytes else "nothing"


def written(outcome: StrategyResult) -> int | None:
    """Returns elements of the results that each device holds at the end, the most of any; None where
    shards are not listed.
    """
    shards = [each.shards for each in outcome.outputs.values()]
    if not shards or not all(shards):
        return None
    return sum(
        max(prod(stop - start for start, stop in one.index) for one in each or ())
        for each in shards
    )


_Amount = Callable[[StrategyResult], int | None]
_CAUSES: tuple[tuple[str, _Amount, Callable[[StrategyResult, float], str]], ...] = (
    ("computes", computed, lambda _, flops: scaled_text(flops, "FLOP")),
    ("holds", peak_bytes, lambda _, nbytes: bytes_text(nbytes)),
    ("sends", sent, _sent),
)
_WRITTEN = (("writes", written, lambda _, count: f"{count_text(count)} elements"), *_CAUSES[1:])


def _words(
    row: StrategyResult, amount: _Amount, words: Callable[[StrategyResult, float], str]
) -> str:
    known = amount(row)
    return NONE if known is None else words(row, known)


def _shares(amounts: list[int | None]) -> tuple[float | None, ...]:
    most = max((each or 0 for each in amounts), default=0)
    return tuple(None if each is None or not most else each / most for each in amounts)
