"""Notes on the rows of a study, and how they compare."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from spmd_core.base import bytes_text
from spmd_core.experiment import shared_parts
from spmd_core.facts import sent_per_step
from spmd_core.results import (
    DISPATCH_FACTOR,
    Result,
    StrategyResult,
    against_baselines,
    of_rows,
    without_baselines,
)
from spmd_core.terms import in_quotes, listed, spoken, title, titles
from spmd_core.words import (
    DISPATCH_BOUND,
    collectives_words,
    is_predicted,
    merged_notes,
    same_program_words,
    strategies,
)
from spmd_core.workloads import named_axes

_BY_VARIANT = (
    "Variants are in the order of their best medians, and so are the strategies within each. "
    + strategies.RATIO_NOTE
)
_BASELINE = (
    "{} shards nothing, and is the same program in every variant: no variant is ranked by it."
)
# a note as it is stored -> for who reads it
_EXPLAINED = {
    DISPATCH_BOUND: f"{DISPATCH_BOUND}: less than {DISPATCH_FACTOR:g} times the dispatch floor, the "
    "median time of a call that only adds 1"
}
KINDS = 2  # of collectives with their axes that a row names


def shared_words(form: Mapping[str, object]) -> str:
    """Which fields of a study change all its variants. `form`: the JSON form of a variant."""
    shared = ", ".join(shared_parts(dict(form)))
    of_plan = named_axes(str(form["workload"]))
    return f"Shared by all: {shared if of_plan else 'workload, sizes, data, samples, seed'}."


def strategies_shared(result: Result) -> tuple[str, ...]:
    """The strategies by which the variants can be ranked, each of at least two, baselines left out;
    none where it is only one.
    """
    counts = Counter(row.strategy for row in result.experiment.ranked_rows)
    shared = tuple(name for name, count in counts.items() if count > 1)
    return shared if len(counts) > 1 else ()


def of_strategy(result: Result, strategy: str) -> Result:
    """A study with the rows of one strategy alone."""
    return of_rows(
        result, [name for name in result.strategies if result.row(name).strategy == strategy]
    )


def explained(result: Result) -> list[str]:
    """Notes on reading that table."""
    notes = []
    if result.experiment.is_mixed:
        notes.append(strategies.MIXED)
    if result.comparison and result.comparison.ratios and not is_predicted(result):
        by_variant = bool(result.experiment.variants)
        notes.append(_BY_VARIANT if by_variant else strategies.PAIRED_NOTE)
        if any(strategies.timed_in(result, name) for name in result.strategies):
            notes.append(strategies.ONE_PROCESS)
    if aside := {result.row(name).strategy for name in result.baselines}:
        notes.append(_BASELINE.format(titles(sorted(aside))))
    if any(
        each and each.ratios
        for each in (result.predicted, is_predicted(result) and result.comparison)
    ):
        notes.append(strategies.BY_INTERVALS)
    return notes


def as_subject(rows: str) -> str:
    """`every strategy` at the beginning of a line; names of variants stay as they are."""
    return f"E{rows[1:]}" if rows.startswith("every ") else rows


def whose(names: Sequence[str], result: Result) -> str:
    """The rows with some property: `every variant and strategy` if all have it, else the variants
    whose strategies all have it, and single rows.
    """
    once = list(dict.fromkeys(names))
    rows = [row for row in result.experiment.rows if row.key in result.strategies]
    if not result.experiment.variants:
        return (
            "every strategy"
            if len(once) == len(result.strategies) > 1
            else ", ".join(map(title, once))
        )
    several = len({row.strategy for row in rows}) > 1
    if len(once) == len(rows):
        return "every variant and strategy" if several else "every variant"
    groups: dict[str, None] = {}
    for name in once:
        variant = result.row(name).variant
        own = {row.key for row in rows if row.variant == variant} - result.baselines
        alone = name in result.baselines or not own <= set(once)
        groups[spoken(name, result) if alone else in_quotes(variant)] = None
    return listed([*groups])


def noted(
    result: Result,
    of: Callable[[StrategyResult], Iterable[str]] = lambda outcome: outcome.notes,
) -> list[tuple[str, str]]:
    """The notes on strategies (what `of` gives of each), each once: of which rows, and the note."""
    named = [
        (name, note)
        for name, each in result.strategies.items()
        for note in of(each)
        if not (result.experiment.variants and note == same_program_words(each))
    ]
    notes = [
        (as_subject(whose(names, result)), _EXPLAINED.get(note, note))
        for note, names in merged_notes(named).items()
    ]
    alike = _same_programs(result) if result.experiment.variants else ""
    return [*notes, *([("The same program", alike)] if alike else [])]


def _same_programs(result: Result) -> str:
    """The rows of a study that were compiled to the same program as others; "" of none."""
    groups: dict[str, dict[str, list[str]]] = {}
    for name, each in result.ordered:
        rows = groups.setdefault(each.same_program or name, {})
        row = result.row(name)
        rows.setdefault(row.variant, []).append(row.strategy)
    several = [rows for rows in groups.values() if sum(map(len, rows.values())) > 1]
    texts = [
        " and ".join(f"{in_quotes(variant)} · {titles(names)}" for variant, names in rows.items())
        for rows in several
    ]
    within = {titles(names) for rows in several if len(rows) == 1 for names in rows.values()}
    if len(within) == 1 < len(several) == len(result.experiment.variants):
        return f"{within.pop()} of each variant"
    return "; ".join(texts)


def against(result: Result) -> dict[str, str]:
    """How each row compares with the first of its kind, measured or predicted, in words."""
    verdicts: dict[str, str] = {}
    both = result.predicted is not None
    is_measured = not is_predicted(result)
    pairs, ranked = against_baselines(result), without_baselines(result).comparison
    for answer, timed in ((ranked, is_measured), (result.predicted, False)):
        if answer is not None and answer.ratios:
            first = strategies.first_words(answer, timed, name_kind=both)
            verdicts[answer.fastest] = f"{first} of the variants" if pairs else first
            for each in answer.ratios:
                alike = strategies.is_same_program(result, each.strategy, answer.fastest)
                quotient = answer.quotient(each, result.medians_s)
                verdicts[each.strategy] = (
                    f"{strategies.ratio_words(each, quotient)}, the same program"
                    if alike
                    else strategies.against_words(each, quotient)
                )
    for name, pair in pairs.items():
        each, quotient = pair.ratios[0], pair.quotient(pair.ratios[0], result.medians_s)
        if pair.fastest == name:
            each, quotient = each.inverse(name), quotient and 1 / quotient
        verdicts[name] = strategies.against_words(each, quotient)
    return verdicts


def communication(outcome: StrategyResult) -> str:
    """The bytes that a device sends in a row's program, and its collectives: kinds
    alone if there are many with their axes.
    """
    text = collectives_words(outcome)
    listed = outcome.collectives or ()
    if len({(each.kind, each.axes) for each in listed}) > KINDS:
        text = ", ".join(dict.fromkeys(each.kind for each in listed))
    known = [each for each in listed if each.bytes_total is not None]
    if not known:
        return text
    more = "at least " if len(known) < len(listed) else ""
    return f"{more}{bytes_text(sent_per_step(known) or 0)}: {text}"
