"""The parts of a result on the Compare screen: headline, notes, and the details behind tabs that
load when they are opened.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import streamlit as st

from spmd_core.answers import hosts_table, measuring_table, roofs_table, samples_table
from spmd_core.base import Inexpressible
from spmd_core.experiment import (
    STRATEGIES,
    Experiment,
    Spec,
    axes_of,
    layout,
    newer,
    padded,
    version_words,
)
from spmd_core.recipes import differences_of
from spmd_core.results import ArrayReport, Result, StrategyResult
from spmd_core.script import program
from spmd_core.words import (
    environment_words,
    evidence_words,
    explained,
    predicted_words,
    roofline_words,
    runs as words,
    studies,
    title,
    traced,
)
from spmd_lab.ui import cards, choices, hardware, next_step, tables
from spmd_lab.ui.arrows import view as arrows
from spmd_lab.ui.charts.base import Spec as VegaSpec
from spmd_lab.ui.compare import sizes, small_program, study, trace, verdict
from spmd_lab.ui.compare.view import View
from spmd_lab.ui.ir import viewer
from spmd_lab.ui.layout import picture, together
from spmd_lab.ui.markdown import coded, plain
from spmd_lab.ui.notebook.outcome import failed
from spmd_lab.ui.shell import draw_table
from spmd_lab.ui.tables import sheet

PROGRAMS = "programs"  # the viewer's name on this screen


def headline(view: View, when: str, noted: Result | None = None) -> None:
    """The card of the verdict: the figure, its certainty, the answer in a sentence, why, what to do
    next; how it was measured and the notes of `noted` in a fold. Then what went wrong.
    """
    result = view.result
    if result.experiment.what.is_small_program:
        small_program.headline(result, when)
        return
    with st.container(border=True, key="answer"):
        verdict.figure(result)
        answer, more = words.headline_parts(result)
        simulated = f" {verdict.SIMULATED}" if result.environment.simulated else ""
        st.subheader(plain(answer + simulated), anchor=False)
        if more := " ".join(filter(None, (more, verdict.reasons(result)))):
            st.markdown(coded(more))
        verdict.onward(result)
        others = predicted_words(result.environments) if result.environments else None
        facts = [environment_words(result.environment), others, f"finished {when}"]
        facts += _versions(result.experiment)
        st.caption(plain(" · ".join(fact for fact in facts if fact)))
        with st.expander("How sure?", key="how-sure"):
            _evidence(noted or result)
    failed(result)


def _evidence(result: Result) -> None:
    """How the answer was measured, and what to know when reading it."""
    facts = [evidence_words(result), words.floor_words(result), f"run {result.run}"]
    st.caption(plain(" · ".join(fact for fact in facts if fact)))
    for sentence in (_of_ceilings(result), *explained(result)):
        if sentence:
            st.caption(plain(sentence))
    notes(result)
    if result.environment.simulated:  # else it is the card's own button
        next_step.confirm(result)


def _versions(experiment: Experiment) -> Iterator[str]:
    """Which versions of the user's own files the answer is of."""
    asked = {each.experiment.what.source: each.experiment.what for each in experiment.members}
    for source, what in asked.items():
        if source is not None:
            changed = ", which has changed since" if newer(what, 0.0) else ""
            yield f"{what.name} of {version_words(source)}{changed}"


def _of_ceilings(result: Result) -> str | None:
    """How near the fastest strategy is to this machine's ceilings, where they are known."""
    name = result.order[0]
    if result.experiment.variants:  # the table has it of every row, as MFU
        return None
    roofline = result.strategies[name].roofline
    sentence = roofline_words(roofline) if roofline else None
    return f"{title(name)}: {sentence}." if sentence else None


def as_example(result: Result) -> None:
    """Where the experiment is a classic example: whether its numbers are those of the example."""
    differences = differences_of(result)
    if differences is None or result.experiment.what.is_small_program:
        return
    if differences:
        st.warning(
            "Not as the example says: " + plain("; ".join(differences)),
            icon=":material/difference:",
        )
    else:
        st.success("Every number is as the example says.", icon=":material/check_circle:")


def notes(result: Result) -> None:
    """What to know when reading these numbers: of the run, of the machine, and of each strategy."""
    # a program as written is not timed
    of_times = () if result.experiment.what.is_small_program else result.environment.notes
    lines = [plain(note) for note in (*result.notes, *of_times)]
    lines += [f"**{plain(rows)}**: {plain(note)}" for rows, note in studies.noted(result, _remarks)]
    if lines:
        st.markdown("\n".join(f"- :small[{line}]" for line in dict.fromkeys(lines)))


def _remarks(outcome: StrategyResult) -> Iterator[str]:
    yield from outcome.notes
    yield from (f"compiler warning: {each}" for each in outcome.warnings)


def details(view: View) -> None:
    """Tabs, of which only the open one is made; those with nothing in them are left out."""
    name, tab = choices.opened_tab(_tabs(view))
    with tab:
        _DRAW[name](view)


def open_tab(name: str) -> None:
    """Open a tab of the details; for callbacks, which run before the tabs are drawn."""
    st.session_state[choices.TAB] = name


def _tabs(view: View) -> list[str]:
    every = view.result.strategies.values()
    has_errors = any(each.max_abs_error is not None for each in every)
    is_small_program = view.result.experiment.what.is_small_program
    has_content = {
        trace.TAB: trace.offered(view),
        "Arrows": any(each.collectives for each in every),
        "Layouts": any(each.operands or each.outputs for each in every),
        "Phases": view.phases,
        "Memory": view.memory,
        "Samples": any(each.samples_s for each in every),
        "Values": has_errors or words.outputs(view.result) or is_small_program,
        sizes.TAB: sizes.experiments_of(view),
    }
    names = [name for name in _DRAW if has_content.get(name, True)]
    if traced(view.result):  # what was requested comes first
        names.insert(0, names.pop(names.index(trace.TAB)))
    return names


def _values(view: View) -> None:
    if view.result.experiment.what.is_small_program:
        small_program.values(view.result)
        return
    if any(each.max_abs_error is not None for each in view.result.strategies.values()):
        own = view.result.experiment.what.source is not None
        of = "the function itself on one device" if own else "a NumPy reference"
        st.caption(f"Errors are against {of}, in float64.")
        draw_table(view.errors)
    alone = len(view.result.strategies) == 1
    for what, texts in words.outputs(view.result).items():
        for whose, text in words.output_texts(view.result, what, texts):
            st.markdown(f"**{plain(what)}**" + ("" if alone else f", {plain(whose)}"))
            st.code(text, language=None, wrap_lines=True)


def _layouts(view: View) -> None:
    result = view.result  # what is on one device comes last
    names = sorted(
        result.strategies, key=lambda name: STRATEGIES[result.row(name).strategy].is_single_device
    )
    alone = len(names) == 1
    name = names[0] if alone else choices.one_of("Strategy", names, choices.STRATEGY, title)
    strategy = view.result.strategies[name]
    draw_table(tables.arrays_table(view.result, name))
    arrays = {
        array: report
        for array, report in (strategy.operands | strategy.outputs).items()
        if report.spec is not None
    }
    if not arrays:
        st.caption(f"{plain(title(name))} shards nothing over the mesh.")
        return
    array = st.segmented_control(
        "Array",
        list(arrays),
        format_func=plain,
        default=next(iter(arrays)),
        required=True,
        key=f"array:{','.join(arrays)}",
        label_visibility="collapsed",
    ) or next(iter(arrays))
    report = arrays[array]
    held = layout(view.result.row(name).experiment.mesh, report.shape, spec_of(report))
    held = replace(held, dims=_dims(view.result.row(name).experiment, array, report))
    st.vega_lite_chart(
        picture.picture(held, report.dtype), alt=picture.alt_text(held, report.dtype), key="held"
    )


def _dims(experiment: Experiment, array: str, report: ArrayReport) -> tuple[str, ...]:
    """The names of a reported array's dims; none where a strategy gives it other ones."""
    own = (each for each in experiment.what.arrays if each.name == array)
    dims = next((each.present(experiment.sizes) for each in own), ())
    return dims if len(dims) == len(report.shape) else ()


def spec_of(report: ArrayReport) -> Spec:
    """The spec that JAX reports, with one entry for every dim."""
    return padded(tuple(map(axes_of, report.spec or ())), len(report.shape))


def _arrows(view: View) -> None:
    shown = {
        name: strategy.collectives
        for name, strategy in view.result.strategies.items()
        if strategy.collectives
    }
    name = (
        next(iter(shown))
        if len(shown) == 1
        else choices.one_of("Strategy", list(shown), choices.STRATEGY, title)
    )
    own = view.result.model_copy(update={"experiment": view.result.row(name).experiment})
    arrows.show(own, name, shown[name])


def _phases(view: View) -> None:
    _chart(view.phases, "phases", "Seconds of each phase by strategy")
    draw_table(view.phases_table)


def _memory(view: View) -> None:
    _chart(view.memory, "memory", "Bytes per device by strategy")
    draw_table(view.memory_table)


def _chart(spec: VegaSpec | None, key: str, alt: str) -> None:
    if spec is not None:
        st.vega_lite_chart(spec, alt=f"{alt}; the numbers are in the table below", key=key)


def _programs(view: View) -> None:
    viewer.show(view.result.run, tuple(view.result.strategies), PROGRAMS)


def _samples(view: View) -> None:
    draw_table(measuring_table(view.result))
    hosts = hosts_table(view.result)
    if hosts.rows:
        draw_table(hosts)
    st.caption(plain(words.samples_words(view.result)))
    st.dataframe(sheet(tables.samples_frame(samples_table(view.result))), height=360)


def _machine(view: View) -> None:
    environment = view.result.environment
    st.markdown(plain(environment_words(environment)))
    roofs = roofs_table(view.result)
    if roofs.rows:
        st.markdown("Least time by this machine's ceilings, and what they let expect:")
        draw_table(roofs)
    st.dataframe(sheet(hardware.devices_table(environment)), hide_index=True)


def _strategy_choice(names: Iterable[str], where: str) -> str:
    """One of the strategies; no field where there is only one."""
    offered = list(names)
    if len(offered) == 1:
        return offered[0]
    return (
        st.segmented_control(
            "Strategy",
            offered,
            format_func=lambda name: plain(title(name)),
            default=offered[0],
            key=f"{where}:{','.join(offered)}",
            required=True,
            label_visibility="collapsed",
        )
        or offered[0]
    )


_DRAW = {
    "Values": _values,
    "Arrows": _arrows,
    "Layouts": _layouts,
    "Phases": _phases,
    "Memory": _memory,
    "Programs": _programs,
    "Samples": _samples,
    "Machine": _machine,
    trace.TAB: trace.draw,
    sizes.TAB: sizes.draw,
}


def _meanings(experiment: Experiment) -> None:
    """What each strategy does."""
    for name in experiment.strategies:
        strategy = STRATEGIES[name]
        beware = (
            f"  \n:small[:gray[Beware: {plain(strategy.caution)}.]]" if strategy.caution else ""
        )
        st.markdown(f"**{plain(strategy.title)}**: {plain(strategy.meaning)}.{beware}")


def shards(experiment: Experiment) -> None:
    """Which device holds what, of one computation: the picture stays beside its times."""
    if not experiment.variants and not experiment.what.is_small_program:
        together.show(experiment)


def before(experiment: Experiment, can_run: bool = True) -> None:
    """What is stored of an experiment, and what a press of Run will do: the strategies, and their
    programs.
    """
    is_stored = cards.stored(experiment) or not can_run  # then there is nothing to press
    if experiment.what.is_small_program:
        if not is_stored:
            st.info(
                "Nothing has been computed yet. Press Run to run this program on the devices.",
                icon=":material/play_circle:",
            )
        st.code(
            program.program_text(experiment, "as_written"), language="python", line_numbers=True
        )
        return
    if experiment.variants:
        study.before(experiment, is_stored)
        return
    if not is_stored:
        st.info(
            "Nothing has been computed yet. Press Run to time these strategies side by side.",
            icon=":material/play_circle:",
        )
    if together.is_narrow(together.drawn(experiment)):
        picture, beside = st.container(key="picture-and-numbers").columns(2, gap="medium")
    else:
        picture = beside = st.container()
    with picture:
        together.show(experiment)
    with beside:
        _meanings(experiment)
    with st.expander("The programs that will run", key="preview", on_change="rerun") as preview:
        if preview.open:
            name = _strategy_choice(experiment.strategies, "preview")
            try:
                st.code(
                    program.program_text(experiment, name), language="python", line_numbers=True
                )
            except Inexpressible as error:
                st.warning(plain(str(error)))
