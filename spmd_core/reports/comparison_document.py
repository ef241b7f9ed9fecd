"""A comparison of runs as a document, and as JSON."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from spmd_core.answers import (
    STRATEGIES,
    StrategyRow,
    mfu_of,
    peak_bytes,
    programs_table,
    programs_words,
    sent,
    strategy_rows,
)
from spmd_core.base import by_key, bytes_text, count_text, scaled_text
from spmd_core.experiment import Experiment
from spmd_core.facts import Collective, sent_per_step
from spmd_core.history import (
    as_long_words,
    basis_words,
    begun,
    between_words,
    factor_words,
    labels_words,
    work_words,
)
from spmd_core.program import is_ring
from spmd_core.reports.comparison import Compared, Subject
from spmd_core.reports.document import (
    Bar,
    Block,
    Chart,
    Document,
    Heading,
    Paragraph,
    reported,
)
from spmd_core.results import OTHER_WORK, Between, Result, StrategyResult
from spmd_core.sheets import NONE, Cell, Place, Sheet, Table, seconds, size, text
from spmd_core.terms import (
    environment_words,
    experiment_words,
    listed,
    mfu_words,
    outcome_words,
    row_title,
)
from spmd_core.time import limits_of
from spmd_core.words import collective_words

OVER_PEAK = "an error of SPMD Lab or of its data"
_MOSTLY = 0.1  # of what is waited for over an axis: a collective of less is not named


def comparison_document(compared: Compared) -> Document:
    """The comparison: the verdicts first, then runs, times, what differs, communication."""
    letters = ", ".join(
        f"{each.letter}{' (baseline)' if each is compared.baseline else ''}"
        for each in compared.subjects
    )
    blocks: list[Block] = [
        Paragraph(sentence, is_first=True) for sentence in verdict_sentences(compared)
    ]
    if basis := basis_words(compared.answers):
        blocks.append(Paragraph(basis))
    blocks += [Heading(f"Runs {letters}"), runs_table(compared, is_short=True)]
    blocks += [
        Paragraph(
            f"{each.letter}: {experiment_words(each.summary.experiment)}. {made_words(each.result) if each.result else ''}".strip()
        )
        for each in compared.subjects
    ]
    if chart := times_chart(compared):
        blocks.append(chart)
    blocks += [Heading("What differs in the experiments"), differences(compared)]
    for heading, table in (
        ("Programs", programs_table(compared.programs)),
        ("Strategies", rows_table(compared)),
        ("Collectives per device", collectives_table(compared)),
    ):
        if table.rows:
            blocks += [Heading(heading), table]
    return Document(f"Comparison of {len(compared.subjects)} runs", tuple(blocks))


def verdict_sentences(compared: Compared, has_badge: bool = False) -> list[str]:
    """How each run compares with the baseline, those of other work in one sentence after the others,
    and whether their programs are the same; runs without a time are named. `has_badge`: beside a badge
    of the times' evidence.
    """
    titles = {each.run: title for each in compared.subjects if (title := _row_title(each))}
    listed = [
        begun(
            between_words(
                each,
                compared.names,
                _seconds_of(compared, each),
                {run: titles[run] for run in (each.run, each.baseline)},
                has_badge,
            )
        )
        for each in compared.answers
        if each.why_none != OTHER_WORK
    ]
    if others := [each for each in compared.answers if each.why_none == OTHER_WORK]:
        listed.append(_other_work_words(compared, others))
    timeless = [each.letter for each in compared.subjects if each.fastest is None]
    listed += [f"{letter} has no time to compare." for letter in timeless]
    return listed + list(programs_words(compared.programs, compared.names[compared.baseline.run]))


def _row_title(each: Subject) -> str:
    return row_title(each.result, each.fastest) if each.result and each.fastest else ""


def _other_work_words(compared: Compared, pairs: Sequence[Between]) -> str:
    runs = [*(each.run for each in pairs), compared.baseline.run]
    seconds_of = {run: time for pair in pairs for run, time in _seconds_of(compared, pair).items()}
    at = {each.run: number for number, each in enumerate(compared.subjects)}
    of = [compared.subjects[at[run]] for run in runs]
    beside = {
        each.run: [words]
        for each in of
        if (time_s := seconds_of[each.run]) and (words := _rate_words(each, time_s))
    }
    differences = {
        label: texts
        for label, every in compared.differences
        if len({*(texts := [every[at[run]] for run in runs])}) > 1
    }
    names = dict(compared.names)
    titles = {each.run: title for each in of if (title := _row_title(each))}
    if len(set(titles.values())) > 1:  # the fastest of each
        names |= {run: f"{names[run]} ({title})" for run, title in titles.items()}
    if any(each.why_none != OTHER_WORK for each in compared.answers):  # a sentence has its time
        seconds_of.pop(compared.baseline.run, None)
    return work_words(runs, names, seconds_of, beside, differences)


def _rate_words(each: Subject, time_s: float) -> str:
    """Returns how fast a run computes: its MFU, as its row has it, else its FLOP/s; and that a rate
    above the peak of its chips is an error.
    """
    if not each.result or not each.fastest or not each.flops:
        return ""
    row = each.result.row(each.fastest).experiment
    rate = each.flops / time_s * (row.plan.causal_share if row.plan else 1.0)
    if row.place.is_absent and rate > (peak := _peak(row)):
        ends = scaled_text(rate, "FLOP/s"), scaled_text(peak, "FLOP/s")
        return f"{ends[0]} is above the peak of its chips, {ends[1]}: {OVER_PEAK}"
    outcome = each.result.strategies[each.fastest]
    mfu = mfu_words(mfu_of(outcome), mfu_of(outcome, causal=True))
    return mfu or scaled_text(rate, "FLOP/s")


def _peak(experiment: Experiment) -> float:
    # what computes in 8 bits is at most twice as fast
    times = 2 if experiment.plan and experiment.plan.matmul_dtype != "bfloat16" else 1
    return times * limits_of(experiment, cores=1).flops_per_s * experiment.device_count


def _seconds_of(compared: Compared, pair: Between) -> dict[str, float | None]:
    rows = {pair.run: pair.row, pair.baseline: pair.baseline_row}
    return {
        each.run: _times(each.result.strategies[rows[each.run]])[0]
        for each in compared.subjects
        if each.run in rows and each.result
    }


def _times(outcome: StrategyResult | None) -> tuple[float | None, float | None, float | None, str]:
    """Seconds in the middle and at the ends of the interval, and whether measured or predicted."""
    if outcome and outcome.median_s is not None:
        low, high = outcome.ci95_s or (None, None)
        return outcome.median_s, low, high, "measured"
    if outcome and (time_ := outcome.predicted_s) is not None:
        return time_.estimate, time_.low, time_.high, "predicted"
    return None, None, None, ""


def runs_table(compared: Compared, is_short: bool = False) -> Table:
    """A row for each run: what it is, when and where it ran, its time and how it compares;
    `is_short`: without what makes a table wider than a page.
    """
    against = {each.run: against_words(each) for each in compared.answers}
    against[compared.baseline.run] = "baseline"
    rows = [(each, _fastest(each), against.get(each.run, NONE)) for each in compared.subjects]
    return _RUNS.table(rows, "screen" if is_short else "document")


_Run = tuple[Subject, StrategyResult | None, str]  # with how it compares


def _fastest(each: Subject) -> StrategyResult | None:
    return each.result.strategies[each.fastest] if each.result and each.fastest else None


_RUNS = Sheet[_Run](
    (
        text("", lambda row: row[0].letter),
        text("Run", lambda row: row[0].run),
        text("Name and tags", lambda row: labels_words(row[0].summary)),
        text("Experiment", lambda row: experiment_words(row[0].summary.experiment), "document"),
        text(
            "Ended",
            lambda row: (
                f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(row[0].moment))}, "
                f"{outcome_words(row[0].summary).lower()}"
            ),
        ),
        text(
            "On",
            lambda row: environment_words(row[0].result.environment) if row[0].result else None,
            "document",
        ),
        text(
            "Strategy",
            lambda row: _row_title(row[0]) or None,
        ),
        seconds("Time", lambda row: _times(row[1])[0]),
        seconds("Low", lambda row: _times(row[1])[1]),
        seconds("High", lambda row: _times(row[1])[2]),
        text("Is", lambda row: _times(row[1])[3], "document"),
        text("Against the baseline", lambda row: row[2]),
        size("Peak per device", lambda row: peak_bytes(row[1]), "document"),
        size("Sent per device", lambda row: sent(row[1]), "document"),
    )
)


def against_words(pair: Between | None) -> str:
    """The factor between the times of a pair with its verdict, as its sentence has it; or why there
    is none.
    """
    if pair is None or pair.verdict is None or not pair.ratio or not pair.interval:
        return (pair and pair.why_none) or NONE  # pyrefly: ignore[bad-return]
    apart = f", {'; '.join(pair.apart)}" if pair.apart else ""
    if pair.verdict != "faster":
        return f"{as_long_words(pair.ratio, pair.interval)}, {pair.verdict}{apart}"
    judged = "faster" if pair.ratio < 1 else "slower"
    return f"{factor_words(pair.ratio, pair.interval, judged)}{apart}"


def made_words(result: Result) -> str:
    """Where a result was measured, or what its programs were compiled for, as a sentence."""
    on = "Compiled for" if result.experiment.place.is_absent else "On"
    return f"{on} {reported(environment_words(result.environment))}."


def times_chart(compared: Compared) -> Chart | None:
    """Times of every strategy of every run on one axis, with their intervals, by the runs' names; of
    runs with one row each by these alone.
    """
    names = compared.names
    is_one = all(len(each.result.strategies) == 1 for each in compared.subjects if each.result)
    bars = [
        Bar(
            names[each.run] if is_one else f"{names[each.run]}: {row_title(result, name)}",
            middle,
            low,
            high,
            (),
            number,
        )
        for number, each in enumerate(compared.subjects)
        for result in [each.result]
        if result
        for name, outcome in result.ordered
        for middle, low, high, _ in [_times(outcome)]
        if middle is not None
    ]
    return Chart("Time per call or step, with its interval", tuple(bars)) if bars else None


def differences(compared: Compared) -> Block:
    """What differs in the experiments, and nothing that does not."""
    if not compared.differences:
        return Paragraph("All of these runs are of the same experiment.")
    return Table(
        ("", *(each.letter for each in compared.subjects)),
        tuple(
            (Cell(label), *(Cell(text) for text in texts)) for label, texts in compared.differences
        ),
    )


_COMPARED = Sheet[tuple[Subject, StrategyRow, str]](
    (
        text("", lambda each: each[0].letter),
        *(column.within(lambda row: row[1]) for column in STRATEGIES.columns),
        text("Against the baseline", lambda each: each[2]),
    )
)


def rows_table(
    compared: Compared,
    place: Place = "document",
    price: Callable[[str], float | None] | None = None,
) -> Table:
    """Returns the strategies of all runs, each run by its letter, on a screen by what it is called,
    beside the same row of the baseline, else the fastest beside the fastest; no rows where no run has a
    result. `price`: dollars per chip-hour by target.
    """
    names = compared.names if place == "screen" else compared.letters
    rows = {(each.run, each.row): each for each in (*compared.answers, *compared.rows)}
    return _COMPARED.table(
        [
            (
                called,
                replace(row, against=None),  # which is of its own run
                against_words(None if row.is_unsharded else rows.get((each.run, row.name))),
            )
            for each in compared.subjects
            for called in [replace(each, letter=names[each.run])]
            if each.result
            for row in strategy_rows(
                each.result, price(each.result.experiment.target) if price else None
            )
        ],
        place,
    )


def collectives_table(compared: Compared, place: Place = "document") -> Table:
    """Returns the collectives of each row, else of the fastest ones, that not all runs have alike:
    count and bytes, those in rings of collective-permutes with the others of their kind, the most
    bytes first. Rows that differ in the same are one.
    """
    names = compared.names if place == "screen" else compared.letters
    at = list(names).index(compared.baseline.run)
    alike: dict[tuple[str, ...], list[str]] = {}
    beside = _rows_beside(compared)
    for title, outcomes in beside.items():
        for texts in _differing(outcomes, at, place):
            alike.setdefault(texts, []).append(title)
    called = [*names.values()]
    columns = ["", *(_with_rows(called, compared) if "" in beside else called)]
    if any(len(texts) > len(columns) for texts in alike):
        columns.append(f"{called[1 - at]} sends")
    is_named = len({title for titles in alike.values() for title in titles}) > 1
    return Table(
        (*columns, "Strategies") if is_named else tuple(columns),
        tuple(
            tuple(map(Cell, (*texts, ", ".join(titles)) if is_named else texts))
            for texts, titles in alike.items()
        ),
    )


def _with_rows(called: Sequence[str], compared: Compared) -> Sequence[str]:
    """Returns the names of runs, each with its fastest row where these differ."""
    titles = list(map(_row_title, compared.subjects))
    if len(set(titles)) == 1:
        return called
    return [
        f"{name} ({title})" if title else name for name, title in zip(called, titles, strict=True)
    ]


def _rows_beside(compared: Compared) -> Mapping[str, Sequence[StrategyResult | None]]:
    """Returns by its title each row that all runs have, of every run; the fastest ones if none."""
    results = [each.result for each in compared.subjects if each.result]
    if not results or len(results) < len(compared.subjects):
        return {"": list(map(_fastest, compared.subjects))}
    shared = [
        name
        for name in results[0].order
        if all(name in each.strategies for each in results)
        and any(each.strategies[name].collectives for each in results)
    ]
    return {
        row_title(results[0], name): [each.strategies[name] for each in results] for name in shared
    } or {"": list(map(_fastest, compared.subjects))}


def _differing(
    outcomes: Sequence[StrategyResult | None], at: int, place: Place
) -> Iterator[tuple[str, ...]]:
    """Yields each kind of collective that not all have alike, with count and bytes of each; of two of
    known bytes what the other sends more than the baseline, `at` its place.
    """
    listed = list(map(_collectives, outcomes))
    kinds = list(dict.fromkeys(kind for each in listed for kind in each or ()))
    sent = {kind: [sent_per_step((each or {}).get(kind, ())) for each in listed] for kind in kinds}
    for kind in sorted(kinds, key=lambda kind: -max(each or 0 for each in sent[kind])):
        texts = [NONE if each is None else _totals(each.get(kind, ()), place) for each in listed]
        is_known = len(listed) == 2 and None not in listed
        more = (_more(sent[kind][at], sent[kind][1 - at]),) if is_known else ()
        if len(set(texts)) > 1:
            yield (kind, *texts, *more)


def exposed_words(subject: Subject, axis: str) -> str:
    """Returns the collectives over a mesh axis that the fastest row of a run mostly waits for, with
    their bytes per device: `all-gather of 5.3 GiB`; "" where a count is unknown.
    """
    every = [each for row in (_collectives(_fastest(subject)) or {}).values() for each in row]
    rows = by_key((_asked(each).kind, each) for each in every if each.axes == (axis,))
    waits = {kind: sum(each.exposed_in_all_s for each in row) for kind, row in rows.items()}
    sizes = {kind: sent_per_step(row) for kind, row in rows.items()}
    kinds = [kind for kind, s in waits.items() if s > _MOSTLY * sum(waits.values())]
    if not kinds or None in sizes.values():
        return ""
    kinds.sort(key=lambda kind: -waits[kind])
    return listed([f"{kind} of {bytes_text(sizes[kind] or 0)}" for kind in kinds])


def _more(before: int | None, after: int | None) -> str:
    if before is None or after is None:
        return NONE
    return f"{bytes_text(abs(after - before))} {'more' if after > before else 'less'}"


def _collectives(outcome: StrategyResult | None) -> dict[str, list[Collective]] | None:
    if outcome is None or outcome.collectives is None:
        return None
    return by_key((collective_words(_asked(each)), each) for each in outcome.collectives)


def _asked(each: Collective) -> Collective:
    """Returns a collective as the program requested it, where it is compiled to a ring."""
    ring = {"kind": each.asked, "asked": None}
    return each.model_copy(update=ring) if is_ring(each) else each


def _totals(collectives: Sequence[Collective], place: Place) -> str:
    if not collectives:
        return "none"
    counts, size = [each.count for each in collectives], sent_per_step(collectives)
    count = "unknown" if None in counts else count_text(sum(each or 0 for each in counts))
    rings = sum(each.count or 0 for each in collectives if is_ring(each))
    inside = f" ({count_text(rings)} in rings)" if rings and place != "screen" else ""
    return f"{NONE if size is None else bytes_text(size)} in {count}{inside}"


def _moved(collectives: Sequence[Collective]) -> int | None:
    totals = [each.bytes_total for each in collectives]
    return None if None in totals else sum(each or 0 for each in totals)


def comparison_json(compared: Compared) -> dict[str, object]:
    """The comparison as plain JSON values; seconds and bytes are exact."""
    return {
        "baseline": compared.baseline.run,
        "sentences": verdict_sentences(compared),
        "runs": [_run_json(each) for each in compared.subjects],
        "differences": [
            {"part": label, "texts": dict(zip(compared.letters, texts, strict=True))}
            for label, texts in compared.differences
        ],
        "verdicts": [each.model_dump(mode="json") for each in compared.answers],
        "rows": [each.model_dump(mode="json") for each in compared.rows],
    }


def _run_json(each: Subject) -> dict[str, object]:
    summary, result = each.summary, each.result
    environment = (
        result.environment.model_dump(mode="json", exclude={"devices"}) if result else None
    )
    strategies = {
        name: {
            "seconds": middle,
            "low_s": low,
            "high_s": high,
            "is": kind or None,
            "peak_bytes": peak_bytes(outcome),
            "communicated_bytes": None
            if outcome.collectives is None
            else _moved(outcome.collectives),
            "sent_bytes": sent_per_step(outcome.collectives),
            "collectives": [
                {"kind": one.kind, "axes": one.axes, "count": one.count, "bytes": one.bytes}
                for one in outcome.collectives or ()
            ],
        }
        for name, outcome in (result.ordered if result else ())
        for middle, low, high, kind in [_times(outcome)]
    }
    return {
        "run": each.run,
        "letter": each.letter,
        "status": summary.state,
        **summary.labels.to_json(),
        "foreign": summary.origin is not None,
        "experiment": summary.experiment.to_json(),
        "ended_at": each.moment,
        "environment": environment,
        "fastest": each.fastest,
        "strategies": strategies,
    }
