"""The answer of a result on the Compare screen: its card, its notes, and what comes before a run."""

from collections.abc import Iterator

import streamlit as st

from spmd_core.base import Inexpressible, bytes_text, numbered
from spmd_core.experiment import Experiment, dtype_of, layout_of
from spmd_core.recipes import checked, differences_of
from spmd_core.results import Result, StrategyResult
from spmd_core.script import program
from spmd_core.surveys import explained, studies
from spmd_core.terms import (
    environment_words,
    experiment_size_words,
    predicted_words,
    roofline_words,
    title,
)
from spmd_core.words import evidence_words, other_warnings, runs as words
from spmd_core.workloads import STRATEGIES, newer, version_words
from spmd_lab.ui import cards, next_step, remedies
from spmd_lab.ui.charts import colors, glimpse, together
from spmd_lab.ui.compare import small_program, study, verdict
from spmd_lab.ui.compare.view import View
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook.outcome import failed
from spmd_lab.ui.shell import draw_table

_SHORT = 16  # lines of a program that is shown before it runs; a longer one is folded


def headline(view: View, when: str, noted: Result | None = None) -> None:
    """The card of the verdict: the figure, its certainty, the answer in a sentence, why, what to do
    next; how it was measured and the notes of `noted` in a fold. Then what went wrong.
    """
    result = view.result
    if result.experiment.what.is_small_program:
        small_program.headline(result, when)
        failed(result)
        return
    with st.container(border=True, key="answer"):
        answered, pictured = st.columns([6, 5], gap="medium", vertical_alignment="center")
        with pictured:
            verdict.picture(result)
        with answered:
            more, badges = verdict.answer(result)
            with cards.how_sure(badges):
                _evidence(noted or result, when)
            if more:
                st.markdown(colors.sentence(more, result.experiment))
            verdict.why(result)
            if versions := list(_versions(result.experiment)):
                st.caption(plain(" · ".join(versions)))
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                verdict.onward(result)
                remedies.offer(result, "Fix it")
    failed(result)


def _evidence(result: Result, when: str) -> None:
    others = predicted_words(result.environments) if result.environments else None
    sizes = experiment_size_words(result.experiment) if result.experiment.dims else None
    facts = [environment_words(result.environment), others, sizes]
    st.markdown(plain(" · ".join(fact for fact in facts if fact)))
    facts = [
        evidence_words(result),
        words.floor_words(result),
        f"finished {when}",
        f"run {result.run}",
    ]
    st.caption(plain(" · ".join(fact for fact in facts if fact)))
    for sentence in (_of_ceilings(result), *explained(result)):
        if sentence:
            st.caption(plain(sentence))
    notes(result)
    if result.environment.simulated:  # else it is the card's own button
        next_step.confirm(result)


def _versions(experiment: Experiment) -> Iterator[str]:
    asked = {each.experiment.what.source: each.experiment.what for each in experiment.members}
    for source, what in asked.items():
        if source is not None:
            changed = ", which has changed since" if newer(what, 0.0) else ""
            yield f"{what.name} of {version_words(source)}{changed}"


def _of_ceilings(result: Result) -> str | None:
    name = result.order[0]
    if result.experiment.variants:  # the table has it of every row, as MFU
        return None
    roofline = result.strategies[name].roofline
    sentence = roofline_words(roofline) if roofline else None
    return f"{title(name)}: {sentence}." if sentence else None


def as_example(result: Result) -> None:
    """Draws the numbers of the classic example beside those of the run, and a warning where these
    differ.
    """
    if (differences := differences_of(result)) and not words.failures(result):
        st.warning(
            "Not as the example says: " + plain("; ".join(differences)),
            icon=":material/difference:",
        )
    if (table := checked(result)).rows:
        draw_table(table)


def notes(result: Result) -> None:
    """What to know when reading these numbers: of the run, of the machine, and of each strategy."""
    # a program as written is not timed
    of_times = () if result.experiment.what.is_small_program else result.environment.notes
    lines = [plain(note) for note in (*result.notes, *of_times)]
    lines += [
        f"**{colors.sentence(rows, result.experiment)}**: {colors.sentence(note, result.experiment)}"
        for rows, note in studies.noted(result, _remarks)
    ]
    if lines:
        st.markdown("\n".join(f"- :small[{line}]" for line in dict.fromkeys(lines)))


def _remarks(outcome: StrategyResult) -> Iterator[str]:
    yield from outcome.notes
    yield from (f"compiler warning: {each}" for each in other_warnings(outcome))


def _meanings(experiment: Experiment) -> None:
    """Draws what each strategy does, and of arrays what it holds on each device."""
    for name in experiment.strategies:
        strategy = STRATEGIES[name]
        held = _held_words(experiment, strategy.is_single_device)
        st.markdown(
            f"**{colors.marked(experiment, [name], title(name))}**{held and f': {plain(held)}'}",
            help=f"Beware: {plain(strategy.caution)}." if strategy.caution else None,
        )
        st.caption(plain(f"{strategy.meaning}."))


def _held_words(experiment: Experiment, is_single: bool) -> str:
    """Returns the bytes of operands and results that a strategy holds on each device."""
    arrays = [each.name for each in (*experiment.what.operands, *experiment.what.results)]
    layouts = {name: (layout_of(experiment, name), dtype_of(experiment, name)) for name in arrays}
    if is_single:
        unsharded = sum(held.array_bytes(dtype) for held, dtype in layouts.values())
        return f"{bytes_text(unsharded)} on one device"
    each = sum(held.shard_bytes(dtype) for held, dtype in layouts.values())
    return f"{bytes_text(each)} on each of {numbered(experiment.device_count, 'device')}"


def at_work(experiment: Experiment) -> None:
    """Draws the shards of what is being measured."""
    if experiment.variants:
        study.pictures(experiment)
    elif together.drawn(experiment):
        st.html(glimpse.html(experiment, large=True))


def before(experiment: Experiment, can_run: bool = True) -> None:
    """What is stored of an experiment, and what a press of Run will do: the strategies, and their
    programs.
    """
    is_stored = cards.stored(experiment) or not can_run  # then there is nothing to press
    if experiment.what.is_small_program:
        if not is_stored:
            study.nothing_yet("run this program on the devices")
        text = program.program_text(experiment, "as_written")
        count = text.count("\n")
        with st.expander(
            f"The program that will run: {numbered(count, 'line')}", expanded=count <= _SHORT
        ):
            st.code(text, language="python", line_numbers=True)
        return
    if experiment.variants:
        study.before(experiment, is_stored)
        return
    if not is_stored:
        study.nothing_yet(f"time {study.cost_words(experiment)}")
    picture = beside = card = st.container(border=True, key="answer")
    if together.is_narrow(together.drawn(experiment)):
        picture, beside = card.container(key="picture-and-numbers").columns(2, gap="medium")
    with picture:
        glimpse.show(experiment)
    with beside:
        _meanings(experiment)
    with st.expander("The programs that will run", key="preview", on_change="rerun") as preview:
        if preview.open:
            name = study.choose(experiment, experiment.strategies)
            try:
                st.code(
                    program.program_text(experiment, name), language="python", line_numbers=True
                )
            except Inexpressible as error:
                st.warning(plain(str(error)))
