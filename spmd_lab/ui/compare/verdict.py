"""The verdict of a result as a card: the figure, how certain it is, and what to do next."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.advice import confirmation
from spmd_core.answers import Cause, causes, differing
from spmd_core.base import RequestError, seconds_text
from spmd_core.experiment import Experiment, layout_of, link, study_of
from spmd_core.facts import SURE_PROCESSES
from spmd_core.machine import nearest_of_chips
from spmd_core.recipes import differences_of
from spmd_core.results import Comparison, Result
from spmd_core.terms import marker, row_title, spoken, widened_words
from spmd_core.words import (
    SIMULATED,
    compared_first,
    is_dispatch_bound,
    noise_words,
    runs,
    sharding_verdict,
    unsettled_words,
)
from spmd_core.workloads import STRATEGIES
from spmd_lab.ui import cards, links, live, style
from spmd_lab.ui.charts import colors, glimpse, together
from spmd_lab.ui.charts.layout_words import SHARED
from spmd_lab.ui.compare import selected
from spmd_lab.ui.ir import steps
from spmd_lab.ui.markdown import coded, plain
from spmd_lab.ui.shell import draw_figure


def answer(result: Result) -> tuple[str, DeltaGenerator]:
    """Draws which row is the best and by how much, its time, large, and how certain that is; no time
    where none is known to be the best. Returns what else the answer is, and the row of its badges.
    """
    compared = compared_first(result)
    right = (name for name in result.order if result.strategies[name].correct is not False)
    best = compared.fastest if compared else next(right, "")
    seconds = result.medians_s.get(best) or result.only_predicted_s.get(best)
    is_open = compared is not None and unsettled_words(compared) is not None
    is_figured = seconds is not None and not is_open
    sentence, more = runs.headline_parts(result, is_figured=is_figured)
    if is_figured and compared and compared.ratios and not compared.tied:
        first = "the fastest variant" if _has_others(result) else "fastest"
        sentence = f"{spoken(best, result)} is {first}. {sentence}"
    if sentence:
        about = _meanings(result, compared) or None
        st.subheader(colors.sentence(sentence, result.experiment), anchor=False, help=about)
    if is_figured:
        name = row_title(result, best)
        unit = f"per {result.experiment.what.unit}" if name in sentence else name
        mark = marker(result.experiment, best), colors.css(result.experiment, best)
        computed = cards.computed_words(result.row(best).experiment)
        draw_figure(seconds_text(seconds), f"{unit}, {computed}", *mark)
    badges = st.container(horizontal=True, gap="small")
    with badges:
        for words, color in _badges(result, compared):
            st.badge(plain(words), color=color)
        if result.environment.simulated and not _is_judged(compared):
            style.evidence("Simulated", SIMULATED)
        elif result.only_predicted_s:
            style.evidence("Compiled")
    return more, badges


def picture(result: Result) -> None:
    """Draw who holds what in a row, named where it is not the best, with the selected collective
    between product and result; of a study in its best row.
    """
    name, row = selected.of(result)
    if not name or result.experiment.variants:
        row = row if name == result.order[0] else None
        name = result.order[0]
    if name != result.order[0] or result.experiment.variants:
        st.caption(colors.sentence(spoken(name, result), result.experiment))
    drawn = result.row(name).experiment
    st.html(glimpse.html(drawn, row, large=True))
    if is_shared(drawn):
        st.caption(SHARED)
    explicit = (
        key
        for key in result.strategies
        if (result.row(key).strategy, result.row(key).variant)
        == ("explicit", result.row(name).variant)
    )
    if types := next((steps.types(result.run, key) for key in explicit), ""):
        st.caption(f"Types under Explicit axes: {coded(types)}")


def is_shared(experiment: Experiment) -> bool:
    """Returns True if several devices, and not all, hold one shard of an array that is drawn."""
    held = (layout_of(experiment, each.name) for each in together.drawn(experiment))
    return any(1 < each.groups.shape[1] < each.device_count for each in held)


def _meanings(result: Result, compared: Comparison | None) -> str:
    """Returns what the compared strategies do, by title; "" of a study, whose rows are its variants."""
    if result.experiment.variants or compared is None:
        return ""
    names = [compared.fastest, *(each.strategy for each in compared.ratios[:1])]
    known = [STRATEGIES[name] for name in names if name in STRATEGIES]
    return "  \n".join(f"{plain(each.title)}: {plain(each.meaning)}." for each in known)


def _badges(
    result: Result, answer: Comparison | None
) -> Iterator[tuple[str, Literal["green", "orange", "gray"]]]:
    if answer and _is_judged(answer):
        what = "Tie" if answer.tied else "Fastest"
        kind = " variants" if _has_others(result) else ""
        of = f"{what} of {len(answer.ratios) + 1}{kind}"
        is_here = result.environment.simulated
        yield (f"{of} here. {SIMULATED}", "gray") if is_here else (f"{of} sure", "green")
    elif answer and answer.ratios:
        reason = unsettled_words(answer)
        yield (f"Cannot tell: {reason}" if reason else "Cannot tell"), "orange"
    if noise := noise_words(result):
        yield noise, "orange"
    if differences_of(result) == ():
        yield "As the example says", "green"


def _is_judged(answer: Comparison | None) -> bool:
    """Returns True if it is known which row is the fastest, or that several are."""
    return bool(answer and answer.ratios and unsettled_words(answer) is None)


def _has_others(result: Result) -> bool:
    """Returns True if a study has rows that shard nothing beside its variants."""
    return bool(result.experiment.variants and result.baselines)


def why(result: Result) -> None:
    """Draw what each device does in the first rows, as bars beside each other;
    of rows that are bound by dispatch, that alone.
    """
    if is_dispatch_bound(result):
        judged, _ = sharding_verdict(result) or ("", "")
        small = "Too small to shard: the" if judged == "too small" else "The"
        st.markdown(f"{small} sharded rows are dispatch bound.")
        return
    names, known = causes(result)
    if not known:
        return
    compared = compared_first(result)
    is_first = compared and compared.fastest == names[0]  # one with wrong values may be before it
    if compared and is_first and not compared.tied and unsettled_words(compared) is None:
        words = differing(known, spoken(names[1], result))
        st.markdown(colors.sentence(words, result.experiment))
    st.html(_table(result, names, known))
    if result.environment.simulated and (wider := widened_words([result.experiment.dtype])):
        st.caption(plain(f"{wider}."))


def _table(result: Result, names: Sequence[str], known: Sequence[Cause]) -> str:
    heads = "".join(f'<th scope="col">{each.title}</th>' for each in known)
    rows = "".join(
        f'<tr><th scope="row">{_marked(result, name)}</th>'
        + "".join(_amount(result, name, each, at) for each in known)
        + "</tr>"
        for at, name in enumerate(names)
    )
    return f'<table class="why"><tr><td>Each device</td>{heads}</tr>{rows}</table>'


def _marked(result: Result, name: str) -> str:
    mark = f'<b style="color: {colors.css(result.experiment, name)}">{marker(result.experiment, name)}</b>'
    return f"{mark} {escape(row_title(result, name))}"


def _amount(result: Result, name: str, each: Cause, at: int) -> str:
    number, _, of = each.texts[at].partition(", ")
    color, share = colors.css(result.experiment, name), each.shares[at] or 0.0
    # a bar that stands alone would be as long as another column's longest
    is_drawn = share and sum(map(bool, each.shares)) > 1
    bar = (
        f'<i style="width: calc({share:.3f} * var(--bar)); background: {color}"></i>'
        if is_drawn
        else ""
    )
    return f"<td>{escape(number)}{bar} <small>{escape(of)}</small></td>"


def onward(result: Result) -> None:
    """Draw one button: predict it on TPUs where devices are simulated, else confirm it; a press opens
    its answer, or begins it.
    """
    if result.environment.simulated:
        label, tried = "Predict it on v5e", on_tpus(result.experiment)
    else:
        label, tried = f"Measure in {SURE_PROCESSES} processes", confirmation(result)
    if tried is not None:
        live.begin(label, tried)


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
