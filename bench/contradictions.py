"""Headlines against tables of drawn results: the winner and its time have to be those of the table
and of the card's figure; the next one's ratio that of History and of the table, at most 3 % from
the quotient of the two times beside it; else rough, with both inside its interval.

    python -m bench.contradictions [--results 200] [--seed 0]

Rounds of two to five strategies are drawn apart by 0 to 60 %, with noise of 1 to 15 %, in one to
five processes, and judged by what judges those that are measured.
"""

import re

import numpy as np

from bench.figures import Asked, Figures, measure
from bench.values import result, strategy
from spmd_core.answers import strategies_table
from spmd_core.results import Result
from spmd_core.results.stats import Rounds, compare, median_of_processes, summarize
from spmd_core.terms import row_title
from spmd_core.words import runs as words, short_verdict

NAMES = ("single", "auto", "constrained", "explicit", "shard_map")
ROUNDS, TURNS = 20, 4
RATIO = "Paired ratio (99%)"  # the column
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
OFF = 0.03  # what a ratio may be from the quotient of the times beside it
ROUNDED = 0.016  # what three digits of two times and of an end hide
WINNER = re.compile(
    r"^(.*?) is fastest.*?: (.*?) per call\.(?: Next is (.*?), ([^×]+×) as long(.*?)(?:; .*?)?\.(?: |$))?"
)


def drawn(random: np.random.Generator) -> Result:
    """Returns a result of drawn rounds with the comparison that they give."""
    names = NAMES[: random.integers(2, len(NAMES) + 1)]
    apart, noise = random.choice((0.0, 0.02, 0.1, 0.6)), random.uniform(0.01, 0.15)
    processes = [_process(random, names, apart, noise) for _ in range(random.integers(1, 6))]
    medians = {name: median_of_processes([each[name] for each in processes]) for name in names}
    judged = compare(processes[0], None, processes[1:])
    assert judged is not None
    measured = {
        name: strategy(
            median,
            samples_s=[turn for turns in processes[0][name] for turn in turns],
            again_s=[each[name] for each in processes[1:]],
            ci95_s=summarize([turn for turns in processes[0][name] for turn in turns]).ci95_s,
        )
        for name, median in medians.items()
    }
    return result(measured, comparison=judged.model_dump())


def _process(
    random: np.random.Generator, names: tuple[str, ...], apart: float, noise: float
) -> dict[str, Rounds]:
    return {
        name: tuple(
            tuple(1e-4 * (1 + apart * at) * np.exp(random.normal(0, noise, TURNS)))
            for _ in range(ROUNDS)
        )
        for at, name in enumerate(names)
    }


def contradictions(found: Result) -> list[str]:
    """Returns what the headline states that the table, the figure or History does not."""
    table = strategies_table(found, "screen")
    columns = {name: at for at, name in enumerate(table.columns)}
    rows = {row[0].text: row for row in table.rows}
    sentence = words.headline_parts(found)[0]
    named, answer = WINNER.match(sentence), found.comparison
    assert answer is not None
    order = [row_title(found, name) for name in found.order]
    wrong = [] if list(rows)[: len(order)] == order else [f"rows are not in order: {sentence}"]
    marked = [name for name, row in rows.items() if row[columns[RATIO]].text == "fastest"]
    for name, row in rows.items():
        time = row[columns["Time"]].text.replace("\u00a0", " ")
        if f"{name} (" in sentence and f"{name} ({time}" not in sentence:
            wrong.append(f"{name} takes {time} in the table: {sentence}")
    if named is None:
        return [*wrong, *(f"the table marks {name}: {sentence}" for name in marked)]
    winner, time, slower, factor, between = named.groups()
    if marked != [winner] or order[0] != winner:
        wrong.append(f"{winner} wins, the table marks {marked}: {sentence}")
    if rows[winner][columns["Time"]].text.replace("\u00a0", " ") != time:
        wrong.append(f"{time} is {rows[winner][columns['Time']].text} in the table")
    if slower:
        ratio = rows[slower][columns[RATIO]].text
        best_s, slower_s = (_seconds(rows[name][columns["Time"]].text) for name in (winner, slower))
        quotient = slower_s / best_s
        if f"{factor}{between}" != ratio:
            wrong.append(f"the table has {ratio}: {sentence}")
        low, *high = (float(each.replace(",", "")) for each in factor.rstrip("×").split(" to "))
        if not high and abs(quotient / low - 1) > OFF + ROUNDED:
            wrong.append(f"the times are {quotient:.3g} apart: {sentence}")
        if high and not low * (1 - ROUNDED) <= quotient <= high[0] * (1 + ROUNDED):
            wrong.append(f"{quotient:.3g} is not inside: {sentence}")
        short = short_verdict(found)
        if short != f"{winner} is {factor} faster than {slower}{between}":
            wrong.append(f"History has {short}: {sentence}")
    return wrong


def _seconds(text: str) -> float:
    value, unit = text.split()
    return float(value) * UNITS[unit]


def main(asked: Asked, figures: Figures) -> None:
    """Draw results and read each."""
    random = np.random.default_rng(asked.seed)
    every = [drawn(random) for _ in range(asked.results)]
    wrong = [each for found in every for each in contradictions(found)]
    named = sum(WINNER.match(words.headline_parts(found)[0]) is not None for found in every)
    figures.add("results whose headline names a winner", named)
    figures.add("contradictions", len(wrong), most=0, note="; ".join(wrong[:2]))


if __name__ == "__main__":
    measure(main, __doc__, results=200, seed=0)
