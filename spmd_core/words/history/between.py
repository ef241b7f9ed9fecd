"""How two runs compare, as a sentence; a verdict always with what else differs."""

from collections.abc import Iterable, Mapping

from spmd_core.base import seconds_text
from spmd_core.results import Between
from spmd_core.words.strategies import ends_text, factor_text

_BASES = {
    "measured": "Measured runs are compared by their samples over different processes, so smaller "
    "differences than inside one run cannot be seen.",
    "predicted": "Predictions are compared by their intervals: nothing was executed.",
}


def basis_words(pairs: Iterable[Between]) -> str:
    """What the comparisons rest on, a sentence for each basis; empty where none has a verdict."""
    bases = {pair.basis for pair in pairs}
    return " ".join(sentence for basis, sentence in _BASES.items() if basis in bases)


def between_words(
    pair: Between,
    names: Mapping[str, str],
    seconds: Mapping[str, float | None],
    rows: Mapping[str, str] | None = None,
) -> str:
    """A sentence such as `B is slower than A: A 2 ms (Single device), B 3 ms (Automatic), ratio …`.

    `names` and `seconds` are by run, and so are the titles of the compared `rows`, which are named
    where they differ.
    """
    mine, theirs = names[pair.run], names[pair.baseline]
    if pair.verdict is None or pair.ratio is None or pair.interval is None:
        return f"{mine} is not compared with {theirs}: {pair.why_none}."
    ratio = factor_words(pair.ratio, pair.interval)
    of = {
        run: f" ({row})" for run, row in (rows or {}).items() if len({*(rows or {}).values()}) > 1
    }
    times = ", ".join(
        f"{names[run]} {seconds_text(time)}{of.get(run, '')}"
        for run, time in seconds.items()
        if time is not None
    )
    kind = ", predicted" if pair.basis == "predicted" else ""
    apart = f"; {', '.join(pair.apart)}" if pair.apart else ""
    return f"{_verdict(pair, mine, theirs)}: {times}{kind}, ratio {ratio}{apart}."


def _verdict(pair: Between, mine: str, theirs: str) -> str:
    per = " per token" if pair.per_token else ""
    if pair.verdict == "the same":
        return f"{mine} takes the same time{per} as {theirs}"
    if pair.verdict == "cannot tell":
        few = ", with too few rounds" if pair.is_few else ""
        return f"Cannot tell whether {mine} or {theirs} is faster{per}{few}"
    verb = "faster" if pair.faster == pair.run else "slower"
    return f"{mine} is {verb}{per} than {theirs}"


def factor_words(ratio: float, interval: tuple[float, float]) -> str:
    """The factor between two times, never below 1, whichever of them is the shorter."""
    low, high = interval
    return (
        ratio_interval_words(1 / ratio, (1 / high, 1 / low))
        if ratio < 1
        else ratio_interval_words(ratio, interval)
    )


def ratio_interval_words(ratio: float, interval: tuple[float, float]) -> str:
    """A ratio with its interval: `2.50× (2.25 to 2.75)`."""
    return f"{factor_text(ratio)}× ({ends_text(interval)})"
