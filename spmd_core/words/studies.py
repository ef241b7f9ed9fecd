"""The table of a study: what measured and predicted rows have in common, for screen and command
line.
"""

from collections.abc import Sequence

from spmd_core.base import bytes_text, number_text, seconds_text
from spmd_core.results import Result, StrategyResult
from spmd_core.words import strategies
from spmd_core.words.costs import mfu_text
from spmd_core.words.names import title
from spmd_core.words.runs import collectives_words, is_predicted, verdict_words

NONE = "–"
PAIRED, RATIO = "Paired ratio per round", "Against the fastest"
_OPTIONAL = (PAIRED, RATIO, "Time per token", "Tokens/s per chip", "MFU")
KINDS = 2  # of collectives with their axes that a row names


def rows(result: Result) -> list[dict[str, str]]:
    """A row for each variant and strategy, the fastest first, those that were measured before those
    that were predicted; columns that say nothing are left out.
    """
    is_plain = not (result.experiment.is_mixed or is_predicted(result))
    compared = against(result)
    found = [
        {
            "Variant": result.row(name).variant,
            "Strategy": title(result.row(name).strategy),
            **_time(result, name),
            PAIRED if is_plain else RATIO: compared.get(name, NONE),
            "Tokens/s per chip": _tokens(each),
            "Peak per device": _peak(each),
            "Communication": communication(each),
            "MFU": mfu_text(each),
            "Values": verdict_words(each) if each.median_s is not None else _fits(each),
        }
        for name, each in result.ordered
    ]
    dropped = {
        column for column in _OPTIONAL if all(row.get(column, NONE) == NONE for row in found)
    }
    if len({row["Strategy"] for row in found}) == 1:  # as the answer says
        dropped.add("Strategy")
    return [
        {column: cell for column, cell in row.items() if column not in dropped} for row in found
    ]


def explained(result: Result) -> list[str]:
    """What to know to read that table."""
    said = []
    if result.experiment.is_mixed:
        said.append(strategies.MIXED)
    if result.comparison and result.comparison.ratios and not is_predicted(result):
        said.append(strategies.PAIRED_NOTE)
    if any(
        each and each.ratios
        for each in (result.predicted, is_predicted(result) and result.comparison)
    ):
        said.append(strategies.BY_INTERVALS)
    return said


def whose(names: Sequence[str], result: Result) -> str:
    """The rows that something is true of: `every variant and strategy` where it is of all, else the
    variants of which it is of every strategy, and single rows.
    """
    listed, rows = list(dict.fromkeys(names)), result.experiment.rows
    if not result.experiment.variants:
        return (
            "every strategy"
            if len(listed) == len(result.strategies) > 1
            else ", ".join(map(title, listed))
        )
    several = len({row.strategy for row in rows}) > 1
    if len(listed) == len(rows):
        return "every variant and strategy" if several else "every variant"
    said: dict[str, None] = {}
    for name in listed:
        variant = result.row(name).variant
        own = {row.key for row in rows if row.variant == variant}
        said[variant if own <= set(listed) else title(name)] = None
    return "; ".join(said)  # a name may have commas


def against(result: Result) -> dict[str, str]:
    """How each row compares with the fastest of its kind, measured or predicted, in words."""
    found: dict[str, str] = {}
    both = result.predicted is not None
    for answer, kind in ((result.comparison, "measured"), (result.predicted, "predicted")):
        if answer is not None:
            found[answer.fastest] = f"fastest {kind}" if both else "fastest"
            found |= {ratio.strategy: strategies.verdict(ratio) for ratio in answer.ratios}
    return found


def communication(found: StrategyResult) -> str:
    """How many bytes per device a row's program communicates in all, and how: by the kinds alone
    where these with their axes are many.
    """
    said = collectives_words(found)
    listed = found.collectives or ()
    if len({(each.kind, each.axes) for each in listed}) > KINDS:
        said = ", ".join(dict.fromkeys(each.kind for each in listed))
    totals = [each.bytes_total for each in listed]
    known = [total for total in totals if total is not None]
    if not known:
        return said
    more = "at least " if len(known) < len(totals) else ""
    return f"{more}{_whole(bytes_text(sum(known)))}: {said}"


def _time(result: Result, name: str) -> dict[str, str]:
    """Measured with its 95 % interval, else predicted with the interval that it stands for."""
    found, tokens = result.strategies[name], result.tokens(name)
    seconds, span, said = found.median_s, found.ci95_s, ""
    if seconds is None and (time := found.predicted_s) is not None:
        seconds, span, said = time.estimate, (time.low, time.high), ", predicted"
    if seconds is None:
        return {"Time": NONE, "Interval": NONE, "Time per token": NONE}
    between = f"{_seconds(span[0])} to {_seconds(span[1])}" if span else NONE
    return {
        "Time": f"{_seconds(seconds)}{said}",
        "Interval": between,
        "Time per token": _seconds(seconds / tokens) if tokens > 1 else NONE,
    }


def _tokens(found: StrategyResult) -> str:
    rate = found.prediction.tokens_per_s_per_chip if found.prediction else None
    return NONE if rate is None else number_text(rate)


def _peak(found: StrategyResult) -> str:
    if found.prediction:
        peak = found.prediction.memory_bytes.peak
    elif found.memory_bytes:
        peak = found.memory_bytes.peak
    else:
        peak = None
    return _whole(bytes_text(peak))


def _fits(found: StrategyResult) -> str:
    if found.prediction is None:
        return verdict_words(found)
    return "fits" if found.prediction.fits else "does not fit"


def _seconds(seconds: float) -> str:
    return _whole(seconds_text(seconds))


def _whole(text: str) -> str:
    """A number that a narrow column does not break from its unit."""
    return text.replace(" ", "\u00a0")
