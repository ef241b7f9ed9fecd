"""Two predictions side by side: choose another one that is stored, and see both with the
differences in percent.
"""

from collections.abc import Mapping, Sequence

import streamlit as st

from spmd_core.base import RequestError, bytes_text, capital, seconds_text
from spmd_core.experiment import Experiment, study_of
from spmd_core.results import Prediction, Result, between
from spmd_core.runs import RunSummary
from spmd_core.words import (
    ago,
    between_words,
    cost_of,
    experiment_words,
    money_text,
    parts,
    title,
)
from spmd_lab.ui import cards, choices, price, run_tables, state
from spmd_lab.ui.charts import shares
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.predict.tables import NONE, nowrap, percent
from spmd_lab.ui.shell import draw_table

_OFFERED = 100
_KEY = "with"  # of the query string: the run that is beside


def show(result: Result, name: str) -> None:
    """A choice of stored predictions, and the one chosen beside this one."""
    offered = {
        run.run: run
        for run in stored(lab().history(state="succeeded", limit=_OFFERED, source="examples"))
        if run.run != result.run
    }
    if not offered:
        st.caption(
            "No other prediction is stored yet. Change the fields, predict that too, and both can "
            "be seen side by side here."
        )
        return
    choices.offered(_KEY, offered)
    now = state.aside("predict", _KEY)
    now = now if now in offered else st.query_params.get(_KEY, "")
    at = list(offered).index(now) if now in offered else None
    chosen = st.selectbox(
        "Beside",
        list(offered),
        index=at,
        placeholder="another stored prediction",
        format_func=lambda run: run_words(offered[run], result.experiment),
        key=f"beside:{len(offered)}",
    )
    state.set_aside("predict", _KEY, chosen)
    if chosen is None:
        st.query_params.pop(_KEY, None)
        return
    st.query_params[_KEY] = chosen
    other = lab().result(chosen)
    predictions = (
        {key: each.prediction for key, each in other.strategies.items() if each.prediction}
        if other
        else {}
    )
    if other is None or not predictions:
        st.caption("That run left no prediction.")
        return
    _beside(result, name, other, name if name in predictions else next(iter(predictions)))


def stored(runs: Sequence[RunSummary]) -> list[RunSummary]:
    """Those of the runs that are predictions."""
    return [run for run in runs if run.experiment.place.is_absent]


def run_words(run: RunSummary, beside: Experiment) -> str:
    """A stored prediction in a line: what differs from the one that is shown, and when."""
    parts = (
        run.labels.name,
        experiment_words(run.experiment),
        ago(run.submitted_at),
        "the same experiment" if run.experiment == beside else "",
    )
    return " · ".join(part for part in parts if part)


def _beside(result: Result, name: str, other: Result, other_name: str) -> None:
    here, there = result.strategies[name].prediction, other.strategies[other_name].prediction
    assert here is not None and there is not None
    st.markdown(f"**{plain(answer(result, name, other, other_name))}**")
    _headings(result, name, other, other_name)
    study(result.experiment, other.experiment, "beside")
    pair = {"A: this one": here, "B": there}
    timed = {label: each for label, each in pair.items() if each.predicted_s is not None}
    if timed:
        st.vega_lite_chart(
            shares.shares_chart(timed),
            key="beside-shares",
            alt="; ".join(
                f"{label}: {seconds_text(sum(each.shares_s.values()))}"
                for label, each in timed.items()
            ),
        )
    draw_table(numbers_table(here, there, price.now()))
    st.markdown("**Collectives that differ**, by kind, axes and bytes")
    differ = collectives_difference(here, there)
    if differ["Collective"]:
        draw_table(differ)
    else:
        st.caption("Both programs communicate alike.")
    fields = run_tables.differences_table([result.experiment, other.experiment])
    if len(fields):
        st.markdown("**What differs in the experiments**")
        draw_table(fields)


def answer(result: Result, name: str, other: Result, other_name: str) -> str:
    """Returns if A, this one, or B is faster, by the intervals."""
    rows = {result.run: result.strategies[name], other.run: other.strategies[other_name]}
    seconds = {
        run: each.predicted_s.estimate for run, each in rows.items() if each.predicted_s is not None
    }
    pair = between(result, name, other, other_name, len(rows))
    return between_words(pair, dict(zip(rows, "AB", strict=True)), seconds)


def _headings(result: Result, name: str, other: Result, other_name: str) -> None:
    words = [experiment_words(each.experiment) for each in (result, other)]
    if len(result.strategies) > 1 or len(other.strategies) > 1:
        words = [f"{words[0]}, {title(name)}", f"{words[1]}, {title(other_name)}"]
    st.markdown(f"**A**: {plain(words[0])}  \n**B**: {plain(words[1])}")
    st.page_link(
        cards.page_of(other.experiment),
        label="Open B",
        icon=":material/open_in_new:",
        query_params=cards.query(other.experiment, other.run),
    )


def study(one: Experiment, other: Experiment, key: str) -> None:
    """A button that makes a study of two experiments; none where they cannot be compared."""
    try:
        both = study_of([(None, one), (None, other)])
    except RequestError:
        return
    words = "Both as a study on Compare"
    if not st.button(words, icon=":material/speed:", key=f"{key}:both", type="tertiary"):
        return
    state.replace("compare", both)
    state.set_run("compare", None)
    state.set_notice("compare", None)
    st.switch_page("pages/compare.py")


def numbers_table(
    here: Prediction, there: Prediction, dollars: float | None = None
) -> dict[str, list[str]]:
    """Time, MFU, costs (money at `dollars` per chip-hour), memory and each share of both, with the
    change from A to B."""
    rows: list[tuple[str, float | None, float | None, str]] = []

    def add(label: str, ours: float | None, theirs: float | None, kind: str) -> None:
        if ours is not None or theirs is not None:
            rows.append((label, ours, theirs, kind))

    a, b = here.predicted_s, there.predicted_s
    for label, field in (("Time", "estimate"), ("at least", "low"), ("at most", "high")):
        add(label, getattr(a, field, None), getattr(b, field, None), "s")
    add("Causal MFU", here.mfu_causal, there.mfu_causal, "%")
    add("MFU", here.mfu, there.mfu, "%")
    add("Tokens per second and chip", here.tokens_per_s_per_chip, there.tokens_per_s_per_chip, "n")
    spent, other = cost_of(here, dollars), cost_of(there, dollars)
    for label, field, kind in (
        ("Chip-seconds", "chip_seconds", "n"),
        ("Cost", "money_per_step", "$"),
        ("Chip-hours per billion tokens", "chip_hours_per_billion_tokens", "n"),
        ("Cost per billion tokens", "money_per_billion_tokens", "$"),
    ):
        add(label, getattr(spent, field), getattr(other, field), kind)
    add("Peak memory per device", here.memory_bytes.peak, there.memory_bytes.peak, "B")
    ours, theirs = parts(here), parts(there)
    for part in dict.fromkeys((*ours, *theirs)):
        add(
            capital(part),
            ours.get(part, 0.0 if a else None),
            theirs.get(part, 0.0 if b else None),
            "s",
        )
    return {
        "": [row[0] for row in rows],
        "A": [_value(row[1], row[3]) for row in rows],
        "B": [_value(row[2], row[3]) for row in rows],
        "B against A": [percent(row[2], row[1]) for row in rows],
    }


def _value(value: float | None, kind: str) -> str:
    if value is None:
        return NONE
    if kind == "n":
        return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    text = {
        "s": seconds_text,
        "B": bytes_text,
        "%": lambda share: f"{share:.1%}",
        "$": money_text,
    }[kind](value)
    return nowrap(text)


def collectives_difference(here: Prediction, there: Prediction) -> dict[str, list[str]]:
    """Rows of (kind, axes, bytes) whose count or exposed time differs, the largest change in total
    time first.
    """
    ours, theirs = _totals(here), _totals(there)
    rows = []
    for key in {**ours, **theirs}:
        one, two = ours.get(key, (0, 0.0, 0.0)), theirs.get(key, (0, 0.0, 0.0))
        if one[0] != two[0] or abs(one[1] - two[1]) > 0.02 * max(one[1], two[1]):
            rows.append((abs(two[1] - one[1]), key, one, two))
    rows.sort(key=lambda row: -row[0])
    return {
        "Collective": [
            f"{kind} over {', '.join(axes) or 'no axis'}, {bytes_text(size)}"
            for _, (kind, axes, size), _, _ in rows
        ],
        "Times, A": [f"{one[0]:,}" for _, _, one, _ in rows],
        "Times, B": [f"{two[0]:,}" for _, _, _, two in rows],
        "Total, A": [nowrap(seconds_text(one[1])) if one[0] else NONE for _, _, one, _ in rows],
        "Total, B": [nowrap(seconds_text(two[1])) if two[0] else NONE for _, _, _, two in rows],
        "Exposed, A → B": [
            f"{nowrap(seconds_text(one[2]))} → {nowrap(seconds_text(two[2]))}"
            for _, _, one, two in rows
        ],
    }


def _totals(
    prediction: Prediction,
) -> Mapping[tuple[str, tuple[str, ...], int], tuple[int, float, float]]:
    totals: dict[tuple[str, tuple[str, ...], int], tuple[int, float, float]] = {}
    for each in prediction.collectives:
        key = (each.kind, each.axes, each.bytes)
        count, seconds, exposed = totals.get(key, (0, 0.0, 0.0))
        totals[key] = (count + each.times, seconds + each.total_s, exposed + each.exposed_in_all_s)
    return totals
