"""What came out of a stored run, and why what failed did."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.advice import timed_together
from spmd_core.answers import strategies_table
from spmd_core.base import number_text, seconds_text
from spmd_core.experiment import Experiment, screen_of
from spmd_core.facts import SURE_PROCESSES, Prediction
from spmd_core.history import basis_words, evidence_of, is_example, shape_words, when_words
from spmd_core.machine import default_target
from spmd_core.plan import get_model, remat_words
from spmd_core.recipes import differences_of
from spmd_core.reports import (
    FEWEST,
    Compared,
    Subject,
    answered,
    exposed_words,
    findings_points,
    run_title,
    verdict_sentences,
)
from spmd_core.results import OTHER_WORK, Result
from spmd_core.runs import RunSummary
from spmd_core.surveys import studies
from spmd_core.terms import (
    ago,
    experiment_words,
    in_quotes,
    outcome_words,
    row_title,
    title,
)
from spmd_core.words import noise_words, parts, runs as words
from spmd_lab.ui import cards, live, next_step, style
from spmd_lab.ui.charts import colors, glimpse
from spmd_lab.ui.charts.by_strategy import ratios_chart, side_by_side_chart
from spmd_lab.ui.charts.shares import has_room, shares_chart, signed
from spmd_lab.ui.charts.times import times_alt, times_chart
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import draw_table, failure, refusal, reported, screen_title

_MOST = 3  # parts of two experiments that a sentence names
_SEEN = 0.02  # of the largest difference: a smaller one is no term of a sum


def draw(run: RunSummary, result: Result | None) -> None:
    """What came out of a stored run, and why what failed did."""
    answer = words.headline_parts(result, differences_of(result))[0] if result else None
    st.markdown(f"**{colors.sentence(answer or outcome_words(run), run.experiment)}**")
    if result and (noise := noise_words(result)):
        st.caption(f":orange[{colors.sentence(noise, run.experiment)}.]")
    if result and (points := findings_points(result)):
        st.markdown("\n".join(f"- {plain(each)}" for each in points))
    reasons(run, result)


def reasons(run: RunSummary, result: Result | None) -> None:
    """Draws the failures of a stored run."""
    if result:
        failed(result)
    elif run.error:
        reported(run.error.message)


def times(result: Result) -> None:
    """The chart of a run's times, or of where a predicted step's time goes, above its numbers."""
    predicted = {
        row_title(result, name): each.prediction
        for name, each in result.ordered
        if each.prediction and each.predicted_s
    }
    if spec := times_chart(result):
        st.vega_lite_chart(spec, key=f"times:{result.run}", alt=times_alt(result))
    elif predicted:
        words = "Seconds of a step by what they go to, by strategy."
        st.vega_lite_chart(shares_chart(predicted), key=f"shares:{result.run}", alt=words)
    if (table := strategies_table(result, "screen")).rows:
        with st.expander("Details"):
            draw_table(table, named=colors.cells(result))


def compared_runs(compared: Compared, is_summed: bool = False, others: str = "") -> None:
    """Draws how runs compare: the verdict, their times, the fastest first, and what they share with
    `others`. `is_summed`: with what their parts add up to, and what to try next.
    """
    ordered = fastest_first(compared.subjects)
    kinds = {evidence_of(each.summary)[0] for each in ordered}
    evidence = kinds.pop() if len(kinds) == 1 else ""
    first, *more = verdict_sentences(compared, bool(evidence))
    with nullcontext() if is_summed else _pictured(ordered[0].summary, of="all-"):
        cards.headline(plain(first), evidence, about=basis_words(compared.answers))
        for sentence in more:
            st.markdown(plain(sentence))
        is_other_work = any(each.why_none == OTHER_WORK for each in compared.answers)
        if is_summed and not is_other_work and (changes := changes_words(compared)):
            st.markdown(plain(changes))
        if not is_summed:
            _link_to_all(ordered)
            places = dict.fromkeys(_where(each.summary.experiment) for each in ordered)
            st.caption(plain(", ".join(filter(None, places))))
    _times_of(compared, ordered, is_summed, is_other_work)
    if is_summed:
        shared(compared, others)
        _onward(compared, ordered, is_other_work)
        links(compared)
    for each in ordered:
        reasons(each.summary, each.result)


def _onward(compared: Compared, ordered: Sequence[Subject], is_other_work: bool) -> None:
    """Draws what settles an open verdict on two measured runs, else the next step of the fastest."""
    results = [each.result for each in ordered if each.result]
    is_open = any(
        each.verdict == "cannot tell" and each.basis == "measured" for each in compared.answers
    )
    settling = timed_together(*results) if is_open and len(results) == FEWEST else None
    if settling:
        again = f"Measure again in {SURE_PROCESSES} processes"
        live.begin("Time both in the same rounds" if settling.variants else again, settling)
        return
    is_judged = any(each.verdict for each in compared.answers)
    if not is_other_work and is_judged and results:
        next_step.draw(results[0], above=st.container(), than=compared.names[ordered[0].run])


def changes_words(compared: Compared) -> str:
    """Returns what differs between two runs that are not named by it, from the baseline to the other."""
    if not compared.differences:
        return "Each is of the same experiment."
    if len(compared.subjects) > 2:
        return ""
    if compared.names != compared.letters and len(compared.differences) == 1:
        return ""
    if any(each.summary.experiment.variants for each in compared.subjects):
        return ""  # the table below has what differs, variant by variant
    at = [each.run for each in compared.subjects].index(compared.baseline.run)
    named = set(compared.names.values())
    parts_ = [
        f"{label} {texts[at]} → {texts[1 - at]}"
        for label, texts in compared.differences
        if set(texts) != named
    ]
    more = f" and {len(parts_) - _MOST} more" if len(parts_) > _MOST else ""
    names = (compared.names[each] for each in _from_baseline(compared))
    return f"From {' to '.join(names)}: {', '.join(parts_[:_MOST])}{more}."


def _from_baseline(compared: Compared) -> list[str]:
    return sorted(compared.names, key=lambda run: run != compared.baseline.run)


def _link_to_all(ordered: Sequence[Subject]) -> None:
    st.page_link(
        "pages/history.py",
        label="**Open side by side**",
        icon=":material/open_in_new:",
        query_params={"runs": ",".join(each.run for each in ordered)},
    )


def _pictured(
    summary: RunSummary, experiment: Experiment | None = None, of: str = ""
) -> DeltaGenerator:
    """Draws the picture of a run, or of an `experiment` of it; returns the place beside it."""
    key = f"row-part-{of}{summary.run}"
    row_ = st.container(horizontal=True, vertical_alignment="center", gap="small", key=key)
    row_.html(glimpse.html(experiment or summary.best_experiment), width=110)
    return row_.container(gap=None)


def links(compared: Compared) -> None:
    """Draws a link to each run, and the pictures of those whose chart has none."""
    ordered = fastest_first(compared.subjects)
    is_pictured = bool(_predicted_steps(compared, ordered))
    first = ordered[0].run
    titles = {
        each.run: each.summary.labels.name or cards.short_words(each.summary.experiment)
        for each in ordered
    }
    is_alike = compared.names == compared.letters and len({*titles.values()}) == 1
    with st.container(horizontal=True, vertical_alignment="center", key=f"named-{first}"):
        for each in ordered:
            name, letter = compared.names[each.run], compared.letters[each.run]
            if not is_pictured:
                st.html(glimpse.html(each.summary.best_experiment), width="content")
            called = f"{letter}: {titles[each.run]}" if name == letter else in_quotes(name)
            if is_alike:
                moment = when_words(each.summary.submitted_at, st.context.timezone)
                called = f"{letter} of {moment[5:16]}"
            _link(each, called)


def fastest_first(subjects: Iterable[Subject]) -> list[Subject]:
    """Returns runs by their times; those without one last."""
    return sorted(answered([*subjects]), key=lambda each: each.answer_s)


def row(subject: Subject) -> None:
    """Draws the answer of a run beside the picture of what was fastest; below it what the run is called,
    with a link, where its times are from, and when it ended.
    """
    summary, result = subject.summary, subject.result
    best = result.row(result.order[0]) if result and result.order else summary
    is_foreign = bool(summary.origin) and not is_example(summary)  # its page has the badge
    origin = "imported from another installation" * is_foreign
    kind, ended = evidence_of(summary)
    where = _where(summary.experiment)
    moment = () if is_example(summary) else (ended, ago(summary.submitted_at), summary.owner)
    with _pictured(summary, best.experiment):
        draw(summary, result)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            _link(subject, in_quotes(run_title(subject)))
            if kind:
                style.evidence(kind)
            if words_ := ", ".join(filter(None, (where, *moment, origin))):
                st.caption(plain(words_), width="content")


def _where(experiment: Experiment) -> str:
    """Returns the chips of a run, where they are not those that its screen begins with."""
    is_elsewhere = experiment.target != default_target()
    return experiment.target.removeprefix("tpu:").removeprefix("gpu:") * is_elsewhere


def shared(compared: Compared, others: str = "") -> None:
    """Draws what is computed and where, as far as it is the same for all, and `others`."""
    first, *rest = (_shape(each.summary.experiment) for each in compared.subjects)
    same = (
        text
        for label, text in first.items()
        if text and all(each.get(label) == text for each in rest)
    )
    if words_ := " · ".join(filter(None, (*same, others))):
        st.caption(plain(words_))


def _shape(experiment: Experiment) -> dict[str, str]:
    shape, plan = shape_words(experiment), experiment.plan
    if plan:
        of = f"{number_text(get_model(plan.model).parameters / 1e9)} B parameters"
        is_scaled = plan.model.startswith("scaled")  # whose name only a link reads
        shape["Workload"] = f"Training step: {of}" if is_scaled else f"{shape['Workload']}, {of}"
        shape["Dims"] = f"global batch {shape['Dims'].removeprefix('batch=').replace('=', ' ')}"
        shape["remat"] = f"remat {remat_words(plan.remat, plan.save, plan.offload)}"
    return shape


def _link(subject: Subject, name: str) -> None:
    experiment = subject.summary.experiment
    st.page_link(
        cards.page_of(experiment),
        label=f"**{plain(f'Open {name} on {screen_title(screen_of(experiment))}')}**",
        icon=":material/open_in_new:",
        query_params=cards.query(experiment, subject.run),
        help=plain(experiment_words(experiment)),
    )


def _times_of(
    compared: Compared, ordered: Sequence[Subject], is_summed: bool, is_other_work: bool = False
) -> None:
    """Draws the times of runs in one chart; of predicted steps, where the time of each goes, below it
    which part differs most, unless they compute different things.
    """
    results = [(compared.names[each.run], each.result) for each in ordered if each.result]
    key = f"side-by-side:{compared.baseline.run}"
    if steps := _predicted_steps(compared, ordered):
        of = {compared.names[each.run]: each for each in ordered}
        is_open = any(each.verdict == "cannot tell" for each in compared.answers)
        _steps(steps, of, key, is_summed and not is_other_work, is_open)
    if steps or compared.is_unlike:
        return
    if chart := side_by_side_chart(results):
        words = "Time by strategy of each run; the numbers are in the table below"
        st.vega_lite_chart(chart, alt=words, key=key)
    if is_summed:
        _ratios(compared, key)


def _ratios(compared: Compared, key: str) -> None:
    """Draws by what multiple of the baseline's time each measured run differs, where that is judged."""
    ratios = {
        compared.names[pair.run]: (pair.ratio, *pair.interval)
        for pair in compared.answers
        if pair.interval and pair.ratio and pair.basis == "measured"
    }
    if ratios:
        names = compared.names
        of = [names[each.run] for each in fastest_first(compared.subjects) if each.result]
        base = names[compared.baseline.run]
        chart = ratios_chart(ratios, base, of, "99% interval")
        st.vega_lite_chart(chart, alt=f"Times as multiples of that of {base}", key=f"{key}:ratios")


def _predicted_steps(compared: Compared, ordered: Sequence[Subject]) -> Mapping[str, Prediction]:
    """Returns the predicted step of each run by its name; none where a run has no one step."""
    results = [(compared.names[each.run], each.result) for each in ordered if each.result]
    steps = {
        name: step
        for name, result in results
        if len(result.strategies) == 1
        and (step := next(iter(result.strategies.values())).prediction)
        and step.predicted_s
    }
    return steps if 1 < len(steps) == len(results) else {}


def _steps(
    steps: Mapping[str, Prediction],
    subjects: Mapping[str, Subject],
    key: str,
    is_summed: bool,
    is_open: bool = False,
) -> None:
    most, other, words_ = differs(steps, lambda row, axis: exposed_words(subjects[row], axis))
    terms = _differences(steps, most, other) if words_ and is_summed else []
    sums = [sum(parts(step).values()) for step in steps.values()]
    is_drawn = bool(terms) and has_room(sums)
    if is_drawn:  # differences lead from the first row to the second
        steps = {name: steps[name] for name in dict.fromkeys((next(iter(steps)), other, *steps))}
    pictures = {
        name: glimpse.address(glimpse.svg(subjects[name].summary.experiment)) for name in steps
    }
    chart = shares_chart(steps, pictures, terms if is_drawn else ())
    summed = _sum_words(terms) if terms else ""
    alt = f"{words_} {summed}".strip() or "The parts of each step"
    st.vega_lite_chart(chart, alt=alt, key=key)
    if summed and is_open:  # the difference of two estimates is no verdict
        st.markdown(plain(f"By the estimates alone: {words_} {summed}"))
    elif summed:
        st.markdown(f"**{plain(words_)}**" if is_drawn else plain(f"{words_} {summed}"))


def differs(
    steps: Mapping[str, Prediction], exposed: Callable[[str, str], str] = lambda row, axis: ""
) -> tuple[str, str, str]:
    """Returns the part in which another step exceeds the first, the fastest, most; that step, and a
    sentence of both. `exposed`: the collectives over an axis that the step of a row waits for.
    """
    named = {letter: parts(step) for letter, step in steps.items()}
    times = {
        part: [each.get(part, 0.0) for each in named.values()]
        for part in dict.fromkeys(part for each in named.values() for part in each)
    }
    most = max(times, key=lambda part: max(times[part]) - times[part][0])
    longest = max(times[most])
    if (more := longest - times[most][0]) <= 0:  # of the fastest
        return "", "", ""
    where, added = list(named)[times[most].index(longest)], seconds_text(more)
    axis = most.removeprefix("exposed over ")
    if axis != most and axis.isidentifier():
        which = exposed(where, axis) if not times[most][0] else ""
        which = f": {which} per device" if which else ", which no compute overlaps"
        return most, where, f"The {axis} axis adds {added} of exposed communication{which}."
    part = most.replace("exposed over", "exposed communication over")
    return most, where, f"{where} spends {added} more on {part}."


def _differences(steps: Mapping[str, Prediction], most: str, where: str) -> list[tuple[str, float]]:
    """Returns what each part adds to the fastest step, or saves of it, in another, which spends most
    on a part; they add up to the difference of the two.
    """
    first, other = parts(next(iter(steps.values()))), parts(steps[where])
    more = {part: other.get(part, 0.0) - first.get(part, 0.0) for part in {**first, **other}}
    seen = [part for part, each in more.items() if abs(each) >= _SEEN * abs(more[most])]
    seen.sort(key=lambda part: -abs(more[part]))
    rest = sum(more.values()) - sum(more[part] for part in seen)
    terms = [(part, more[part]) for part in seen]
    return terms + [("other", rest)] * (abs(rest) >= _SEEN * abs(more[most]))


def _sum_words(terms: Sequence[tuple[str, float]]) -> str:
    """Returns the sum of differences in words."""
    listed = ", ".join(f"{signed(seconds)} {part}" for part, seconds in terms)
    return f"{listed}: {signed(sum(seconds for _, seconds in terms))} in all."


def failed(result: Result) -> None:
    """Why strategies failed, and which values are wrong."""
    for message, names in words.failures(result).items():
        whose = (
            studies.as_subject(studies.whose(names, result))
            if result.experiment.variants
            else ", ".join(map(title, names))
        )
        failure(f"{whose} failed.", message)
    for name, strategy in result.strategies.items():
        if strategy.correct is False:
            refusal(words.wrong_words(name, strategy))
