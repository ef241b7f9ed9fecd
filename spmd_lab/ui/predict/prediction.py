"""The parts of the Predict screen's answer: what follows from the sizes before, the headline, and
the details behind tabs that load when opened.
"""

from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.advice import compiled_findings, program_of
from spmd_core.answers import Figure, step_collectives, strategies_table
from spmd_core.base import RequestError, bytes_text, number_text, seconds_text, span_text
from spmd_core.experiment import Experiment, link
from spmd_core.facts import Estimate, Prediction
from spmd_core.machine import compiler_refusal, get_topology, mesh_places
from spmd_core.plan import Plan, plan_notes
from spmd_core.results import Result
from spmd_core.runs import RunStatus
from spmd_core.terms import (
    convention_words,
    cost_of,
    cost_words,
    money_text,
    parameters_words,
    title,
)
from spmd_core.time import estimate_step, is_outdated
from spmd_core.words import parts, predictions as words
from spmd_lab.ui import cards, choices, next_step, price, state
from spmd_lab.ui.arrows import view as arrows
from spmd_lab.ui.charts import shares
from spmd_lab.ui.ir import viewer
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import as_sentence, coded, plain
from spmd_lab.ui.predict import (
    beside,
    charts,
    drafts,
    keep,
    nearest,
    run_answer,
    tables,
    torus,
    variant,
)
from spmd_lab.ui.shell import draw_figures, draw_first, draw_table, failure
from spmd_lab.ui.timeline import stages, view as timeline_view
from spmd_lab.ui.timeline.data import lanes_of

STORED_BEFORE = (
    "This prediction was stored without its timeline: press Recompile to see every operation."
)


def result_of(status: RunStatus | None, experiment: Experiment) -> Result | None:
    """The result of a run that is over and of this experiment; None where it was ended before there
    was anything to show.
    """
    if status is None or not status.is_over or not status.experiment.is_alike(experiment):
        return None
    result = lab().result(status.run)
    if result and any(each.prediction or each.error for each in result.strategies.values()):
        return result
    return None


def misfit(experiment: Experiment) -> state.Notice | None:
    """Why an experiment cannot be predicted as it is, and the nearest that can; None where it can."""
    try:
        link.check_flags(experiment)
    except RequestError as error:
        return state.Notice(str(error))
    if not experiment.what.is_predicted:
        return state.Notice(
            f"workload {experiment.workload} cannot be predicted: choose another one"
        )
    if drafts.topology_target(experiment.target) is None:
        return state.Notice(
            f"target {experiment.target} is not a topology: choose a TPU or a GPU",
            drafts.nearest(experiment),
        )
    try:
        mesh_places(get_topology(experiment.target), [size for _, size in experiment.mesh])
    except RequestError as error:
        return state.Notice(str(error), drafts.nearest(experiment))
    return None


def before(experiment: Experiment) -> Callable[[str], None] | None:
    """What is known without the compiler: a plan's answer by its sizes, where the mesh is on the
    chips, how a model is sharded. Returns what draws the button of its file, for who sends it.
    """
    topology = get_topology(experiment.target)
    with st.container(border=True, key="answer-before"):
        if plan := experiment.plan:
            _estimate(plan)
        else:
            is_open = compiler_refusal(topology.target) is None
            yet, press = (" yet", ": press Compile") if is_open else ("", "")
            st.subheader(plain(f"Not compiled{yet} for {topology.name}{press}."), anchor=False)
            st.caption(plain(words.chip_words(topology)))
    if experiment.plan and experiment.plan.stages > 1:
        stages.show(experiment.plan)
    file = run_answer.others(experiment.plan) if experiment.plan else None
    variant.draw(experiment)
    if experiment.plan is None:
        _mesh(experiment)
        return None
    with st.expander("Mesh on the chips, and sharding", key="mesh", on_change="rerun") as mesh:
        if mesh.open:
            _mesh(experiment)
    return file


def _estimate(plan: Plan) -> None:
    """A training step by its sizes: the answer, memory, what to change, and how it was counted."""
    estimate = estimate_step(plan)
    memory = estimate.before_compiling
    answer = words.estimate(estimate, plan)
    if not estimate.is_timed:
        counted = cards.how_sure(run_answer.misfit_card(plan, estimate))
        run_answer.ways(plan)
    else:
        counted = cards.how_sure(run_answer.card(plan, estimate))
        if estimate.fit != "fits":
            run_answer.ways(plan)
        run_answer.find_best(plan)
        nearest.offer_without_rings(plan, estimate)
    for note in (note for note in plan_notes(plan) if note not in answer):
        st.warning(plain(as_sentence(note)), icon=":material/call_split:")
    nearest.offer_context(plan)
    with counted:
        lines = [
            f"At the peak: {words.parts_words(memory['parts'])}.",
            f"Memory: {bytes_text(memory['low'])} to {bytes_text(memory['high'])}.",
            words.PEAKS_WORDS,
        ]
        if estimate.is_timed:
            lines += [
                words.step_estimate(estimate),
                words.RANGES_WORDS,
                f"Training takes {run_answer.steps_words(plan, estimate)}.",
                f"{convention_words(plan, estimate)}.",
                f"{cost_words(cost_of(estimate, price.of(plan.target)))}.",
            ]
        lines.append(f"{words.chip_words(plan.topology)}.")
        st.markdown("\n".join(f"- {plain(line)}" for line in lines))


def _mesh(experiment: Experiment) -> None:
    torus.show(experiment)
    plan = experiment.plan
    if plan is None:
        return
    left, right = st.columns([2, 3], gap="medium")
    with left:
        st.markdown("**Sharding**")
        draw_table(tables.sharding_table(plan))
    with (
        right,
        st.expander(
            "Every array and its shard per device", key="arrays", on_change="rerun"
        ) as arrays,
    ):
        if arrays.open:
            draw_table(tables.arrays_table(plan))


def headline(result: Result, when: str) -> tuple[DeltaGenerator, DeltaGenerator]:
    """The answer in a sentence, and where it comes from; returns the row of its badge, and that of
    what can be pressed.
    """
    plan = result.experiment.plan
    with st.container(border=True, key="answer"):
        predictions = [each.prediction for each in result.strategies.values() if each.prediction]
        fits = not predictions or any(each.fits for each in predictions)
        is_timed = bool(plan and fits and predictions and predictions[0].is_timed)
        if plan and is_timed:
            badges = run_answer.card(plan, predictions[0])
        else:
            _memory_headline(words.answer(result), fits)
            badges = st.container()
            badges.caption(plain(_provenance(result, when)))
        above = st.container()
        row = st.container(horizontal=True, vertical_alignment="center", gap="small")
        next_step.draw(result, row, above)
        if plan and is_timed:
            with row:
                run_answer.find_best(plan)
        # an example came as it is, and is of no version here
        if lab().notebook.origin(result.run) is None and is_outdated(result):
            st.caption(
                "Made by other versions of JAX, libtpu or the cost model: *Recompile* uses those that are here now."
            )
    for name, each in result.strategies.items():
        if each.status == "error" and each.error is not None:
            failure(f"{title(name)} failed.", each.error.message)
    return badges, row


def _provenance(result: Result, when: str) -> str:
    predictions = [each.prediction for each in result.strategies.values() if each.prediction]
    is_compiled = not predictions or predictions[0].compiled
    how = "compiled by XLA" if is_compiled else "estimated"
    jax = f"JAX {result.environment.jax}"
    return f"{how} · {jax} · finished {when} · run {result.run}"


def _memory_headline(sentence: str, fits: bool) -> None:
    """A headline that is red and has a sign where nothing fits, so that nobody takes one for the
    other."""
    shown = plain(sentence) if fits else f":red[:material/error: {plain(sentence)}]"
    st.subheader(shown, anchor=False)


def choose(result: Result) -> str | None:
    """Where there are several strategies: all side by side, and the one whose details are shown, first the fastest;
    None where nothing was predicted.
    """
    predictions = {
        name: each.prediction for name, each in result.ordered if each.prediction is not None
    }
    if len(result.strategies) > 1 and predictions:
        times = {
            title(name): time
            for name in result.order
            if (time := result.strategies[name].predicted_s) is not None
        }
        if times:
            alt = "; ".join(f"{name} {seconds_text(time.estimate)}" for name, time in times.items())
            st.vega_lite_chart(
                charts.interval_chart(times), alt=f"Time by strategy: {alt}", key="strategies"
            )
        draw_table(strategies_table(result, "screen", price.of(result.experiment.target)))
    if len(predictions) < 2:
        return next(iter(predictions), None)
    return choices.one_of("Details of", list(predictions), choices.STRATEGY, title)


def numbers(
    result: Result, name: str, when: str, badges: DeltaGenerator, row: DeltaGenerator
) -> None:
    """Draws the numbers that people ask for first, and the interval; of a training step, whose card
    has them, folded beside its badge, and in the row of what can be pressed the flag that turns
    collective matmuls off.
    """
    prediction = result.strategies[name].prediction
    assert prediction is not None
    plan, time = result.experiment.plan, prediction.predicted_s
    if time is None or not prediction.fits:
        draw_figures([run_answer.held_figure(prediction)])
        nearest.help_to_fit(result.experiment)
        return
    if plan is None:
        _numbers(result, prediction, time)
        st.html(shares.split_bar(parts(prediction)))
        keep.own_time(prediction)
        return
    with row:
        nearest.offer_without_rings(plan, prediction)
    with cards.how_sure(badges), st.container(key="wide"):
        run_answer.known_by(plan, prediction)
        st.caption(plain(f"{words.RANGES_WORDS} {words.COMPILED_WORDS}"))
        _numbers(result, prediction, time)
        counted = f"{parameters_words(plan.size)}. {convention_words(plan, prediction)}."
        trained = f"{run_answer.steps_words(plan, prediction)}."
        st.caption(plain(trained), help=plain(counted) if prediction.mfu else None)
        st.caption(plain(_provenance(result, when)))
        keep.own_time(prediction)


def _numbers(result: Result, prediction: Prediction, time: Estimate) -> None:
    is_step = result.experiment.what.unit == "step"
    span = span_text(time.low, time.high)
    figures = _costs(prediction, is_step, price.of(result.experiment.target))
    if (tflops := prediction.tflops_per_chip) and prediction.tokens_per_s_per_chip:
        tokens = f"{prediction.tokens_per_s_per_chip:,.0f}"
        figures.insert(0, Figure("Tokens/s per chip", tokens, f"{tflops:,.0f} TFLOP/s"))
    if result.experiment.plan is None:  # a plan's card has them
        takes = Figure("Step time" if is_step else "Time", seconds_text(time.estimate), span)
        figures = [takes, run_answer.held_figure(prediction), *figures]
    draw_figures(figures)
    if len(result.strategies) == 1:
        st.vega_lite_chart(
            charts.interval_chart({"time": time}, keep.MEASURED.number()),
            alt=f"It takes {span}, estimate {seconds_text(time.estimate)}",
            key="interval",
        )
    account = words.MEMORY_ACCOUNTS.get(prediction.program or "", "").removesuffix(".")
    program, listed = program_of(result.experiment), set[str]()
    if program:  # whose screen lists them
        (outcome,) = result.strategies.values()
        listed = {each.sentence for each in compiled_findings(outcome, program)}
    notes = [note for note in (*prediction.notes, account) if note and note not in listed]
    st.markdown("\n".join(f"- :small[{coded(as_sentence(note))}]" for note in notes))


def _costs(prediction: Prediction, model: bool, each: float | None) -> list[Figure]:
    spent = cost_of(prediction, each)
    amounts = (
        (
            "Cost of a step" if model else "Cost",
            "chip-seconds",
            spent.chip_seconds,
            spent.money_per_step,
        ),
        (
            "A billion tokens",
            "chip-hours",
            spent.chip_hours_per_billion_tokens,
            spent.money_per_billion_tokens,
        ),
    )
    return [
        Figure(title, number_text(amount), unit)
        if money is None
        else Figure(title, money_text(money), f"{number_text(amount)} {unit}")
        for title, unit, amount, money in amounts
        if amount is not None
    ]


_TIME, _ARROWS, _MEMORY, _BESIDE, _PROGRAMS = (
    "Time",
    "Communication",
    "Memory",
    "Other plans",
    "Program",
)
_OLD_TABS = {  # of links of before
    "Compare": _BESIDE,
    "Programs": _PROGRAMS,
    "Where the time goes": _TIME,
    "Collectives": _TIME,
    "Arrows": _ARROWS,
    "Beside": _BESIDE,
    "Mesh on the torus": _MEMORY,
    "Side by side": _BESIDE,
    "Your own time": _BESIDE,
    "Baseline": _BESIDE,
}


@st.fragment
def details(result: Result, name: str) -> None:
    """Tabs, of which only the open one is made; another one is opened without the rest of the
    screen.
    """
    prediction = result.strategies[name].prediction
    assert prediction is not None
    names = [
        *([_TIME] if prediction.predicted_s else []),
        *([_ARROWS] if prediction.collectives else []),
        _MEMORY,
        _BESIDE,
        *([_PROGRAMS] if prediction.fits else []),
    ]
    choices.rename_tab(_OLD_TABS)
    opened, tab = choices.opened_tab(names)
    with tab:
        if opened == _TIME:
            if (plan := result.row(name).experiment.plan) and plan.stages > 1:
                stages.show(plan)
            else:
                _timeline(result, name, prediction)
            if bounds := words.bounds_words(prediction):
                st.caption(plain(bounds))
            st.subheader("Collectives", anchor=False)
            _collectives(result, name, prediction)
        elif opened == _ARROWS:
            arrows.show(result, name, prediction.collectives)
        elif opened == _MEMORY:
            _memory(prediction, result.row(name).experiment.plan)
            st.subheader("Mesh on the torus", anchor=False)
            _mesh(result.experiment)
        elif opened == _BESIDE:
            st.subheader("Another prediction", anchor=False)
            beside.show(result)
            st.subheader("Baseline", anchor=False)
            keep.baseline(result, prediction)
        else:
            viewer.show(result.run, [name], "predict")


def _timeline(result: Result, name: str, prediction: Prediction) -> None:
    try:
        timeline = timeline_view.of_run(result.run, name)
    except RequestError as error:
        st.caption(plain(as_sentence(str(error))))
        return
    if timeline is None:
        st.caption(STORED_BEFORE)
        return
    named = parts(prediction) if result.experiment.plan else {}
    timeline_view.show(
        timeline,
        f"{result.run}:{name}",
        f"{result.run}-{name}",
        lanes=lanes_of(timeline, prediction.collectives),
        named=tuple(named),
    )


def _collectives(result: Result, name: str, prediction: Prediction) -> None:
    if not prediction.collectives:
        st.caption("The compiled program has no communication.")
        return
    with st.container(key="collectives"):
        draw_first(step_collectives(prediction, result.experiment), "collectives:more")
    st.caption("Bytes per device and execution, times per step.")


def _memory(prediction: Prediction, plan: Plan | None) -> None:
    memory = prediction.memory_bytes
    if memory.peak:
        st.vega_lite_chart(
            charts.memory_chart({"peak": memory}),
            key="memory",
            alt=f"Peak {bytes_text(memory.peak)} of {bytes_text(memory.capacity)} per device",
        )
    left, right = st.columns([2, 3], gap="medium")
    draw_table(tables.memory_table(prediction), left)
    before = prediction.before_compiling
    if before and plan:
        notes = [
            f"Estimated before compiling: {bytes_text(before['peak'])}.",
            *map(as_sentence, plan_notes(plan)),
        ]
        left.caption(plain(" ".join(notes)))
    if prediction.buffers:
        draw_table(tables.buffers_table(prediction), right)
        right.caption("The largest arrays of the compiled program, per device.")
