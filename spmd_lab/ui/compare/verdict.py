"""The verdict of a result as a card: the figure, how certain it is, and what to do next."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import streamlit as st

from spmd_core.advice import confirmation, what_words
from spmd_core.base import RequestError, bytes_text, seconds_text
from spmd_core.experiment import Experiment, link, study_of
from spmd_core.facts import SURE_PROCESSES
from spmd_core.machine import nearest_of_chips
from spmd_core.recipes import differences_of
from spmd_core.results import Comparison, Result, StrategyResult
from spmd_core.terms import marker, row_title, spoken
from spmd_core.words import DISPATCH_BOUND, compared_first, runs, unsettled_words
from spmd_core.workloads import STRATEGIES
from spmd_lab.ui import cards, links, style
from spmd_lab.ui.charts import colors, glimpse
from spmd_lab.ui.compare import selected
from spmd_lab.ui.ir import steps
from spmd_lab.ui.markdown import coded, plain
from spmd_lab.ui.shell import draw_figure

_HELD = "The fastest holds {} per device, the next {}"
_CLOSE = 0.9  # of the larger of two peaks: what is beyond explains nothing
SIMULATED = "On simulated CPUs, no TPU"


def answer(result: Result) -> str:
    """Draws which row is the best and by how much, its time, large, and how certain that is; no time
    where none is known to be the best. Returns what else the answer is.
    """
    compared = compared_first(result)
    right = (name for name in result.order if result.strategies[name].correct is not False)
    best = compared.fastest if compared else next(right, "")
    seconds = result.medians_s.get(best) or result.only_predicted_s.get(best)
    is_open = compared is not None and unsettled_words(compared) is not None
    is_figured = seconds is not None and not is_open
    sentence, more = runs.headline_parts(result, is_figured=is_figured)
    if is_figured and compared and compared.ratios and not compared.tied:
        sentence = f"{spoken(best, result)} is fastest. {sentence}"
    if sentence:
        st.subheader(colors.sentence(sentence, result.experiment), anchor=False)
    if is_figured:
        name = row_title(result, best)
        unit = f"per {result.experiment.what.unit}" if name in sentence else name
        mark = marker(result.experiment, best), colors.css(result.experiment, best)
        computed = cards.computed_words(result.row(best).experiment)
        draw_figure(seconds_text(seconds), f"{unit}, {computed}", *mark)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for words, color in _badges(result, compared):
            st.badge(plain(words), color=color)
        if result.environment.simulated:
            style.evidence("Simulated", SIMULATED)
        elif result.only_predicted_s:
            style.evidence("Compiled")
    return more


def picture(result: Result) -> None:
    """Draw who holds what in a row, named where it is not the best, with the selected collective
    between product and result.
    """
    name, row = selected.of(result)
    name = name or result.order[0]
    if name != result.order[0] or result.experiment.variants:
        st.caption(colors.sentence(spoken(name, result), result.experiment))
    st.html(glimpse.html(result.row(name).experiment, row, large=True))
    explicit = (key for key in result.strategies if result.row(key).strategy == "explicit")
    if types := next((steps.types(result.run, key) for key in explicit), ""):
        st.caption(f"Types under Explicit axes: {coded(types)}")


def _badges(
    result: Result, answer: Comparison | None
) -> Iterator[tuple[str, Literal["green", "orange"]]]:
    if answer and answer.ratios:
        reason = unsettled_words(answer)
        if reason is None:
            yield "Tie sure" if answer.tied else "Order sure", "green"
        else:
            yield (f"Cannot tell: {reason}" if reason else "Cannot tell"), "orange"
    if differences_of(result) == ():
        yield "As the example says", "green"


def reasons(result: Result) -> str:
    """Returns why the times are as they are, in one line: dispatch, what the first two rows hold, and
    the largest collective; "" where nothing is known.
    """
    sharded = {
        name: outcome
        for name, outcome in result.strategies.items()
        if not STRATEGIES[result.row(name).strategy].is_single_device and outcome.median_s
    }
    if sharded and all(DISPATCH_BOUND in each.notes for each in sharded.values()):
        return "Too small to shard: the sharded rows are dispatch bound."
    answer = result.comparison
    ranked = result.order[:2] if answer and answer.ratios and not answer.tied else ()
    fastest = sharded.get(ranked[0]) if ranked else None
    is_silent = fastest is not None and fastest.collectives == ()  # None: not known
    if is_silent and ranked[1] in sharded and sharded[ranked[1]].collectives == ():
        if peaks := _held(result, ranked):
            return f"{_HELD.format(*peaks)}; neither communicates."
        return f"{' and '.join(spoken(name, result) for name in ranked)} communicate nothing."
    is_first = fastest is not None and ranked[1] not in sharded
    peaks = _held(result, ranked) if is_first else ()
    held = f"{_HELD.format(*peaks)}." if peaks else ""
    return " ".join(filter(None, (held, _largest_sent(result, sharded, is_silent))))


def _held(result: Result, rows: Sequence[str]) -> Sequence[str]:
    """Returns what a device holds at most with each of two rows; none where that is close, or
    unknown.
    """
    kept = [result.strategies[name].memory_bytes for name in rows]
    peaks = [each.peak for each in kept if each and each.peak]
    if len(peaks) < len(rows) or min(peaks) > _CLOSE * max(peaks):
        return ()
    return [*map(bytes_text, peaks)]


def _largest_sent(result: Result, sharded: Mapping[str, StrategyResult], is_silent: bool) -> str:
    """Returns the largest collective of sharded rows and whose it is, in a sentence."""
    sent = [
        (each.bytes_total or 0, name, what_words(each))
        for name, outcome in sharded.items()
        for each in outcome.collectives or ()
    ]
    if not sent:
        return ""
    nbytes, _, largest = max(sent, key=lambda each: each[0])
    rows = {
        name: spoken(name, result) for size, name, what in sent if (size, what) == (nbytes, largest)
    }
    sized = f", {bytes_text(nbytes)} per device" if nbytes else ""
    where = "each sharded row" if len(rows) == len(sharded) else " and ".join(rows.values())
    if is_silent:
        sends = "sends" if len(rows) == 1 else "send"
        what = f"{bytes_text(nbytes)} per device, {largest}" if nbytes else largest
        return f"The fastest communicates nothing; {where} {sends} {what}."
    where = f", in {where}" if len(sharded) > 1 else ""
    return f"Largest collective: {largest}{sized}{where}."


def onward(result: Result) -> None:
    """Draw one button: predict it on TPUs where devices are simulated, else confirm it."""
    if result.environment.simulated:
        label, tried = "Predict it on v5e", on_tpus(result.experiment)
    else:
        label, tried = f"Measure in {SURE_PROCESSES} processes", confirmation(result)
    if tried is None:
        return
    st.container(key="main-link-onward", width="content").page_link(
        cards.page_of(tried),
        label=f"**{plain(label)}**",
        icon=":material/arrow_forward:",
        query_params=cards.query(tried),
    )


def on_tpus(experiment: Experiment) -> Experiment | None:
    """Returns the experiment on as many TPU v5e chips; None where the compiler cannot take it."""
    try:
        if experiment.variants:
            return study_of(
                [(each.name, _on_tpus(each.experiment)) for each in experiment.variants]
            )
        tried = _on_tpus(experiment)
    except RequestError:
        return None
    return None if links.misfit(tried) or links.wrong_screen("predict", tried) else tried


def _on_tpus(experiment: Experiment) -> Experiment:
    target = nearest_of_chips("v5e", experiment.device_count).target
    return link.nearest(experiment.to_json(), None, target)[0]
