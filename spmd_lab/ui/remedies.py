"""What would remove the collectives of a run: a button that has it tried, how far that is, and a
link for each answer.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import streamlit as st

from spmd_core.advice import (
    GUESSED,
    Option,
    doing_words,
    options,
    removal_lead,
    removal_parts,
    removal_words,
    what_words,
)
from spmd_core.base import capital, numbered, seconds_text
from spmd_core.experiment import Experiment, spec_code
from spmd_core.facts import Collective, Nothing, Removal
from spmd_core.results import Result
from spmd_core.sheets import NONE
from spmd_core.terms import listed, title, titles
from spmd_core.trials import beside, is_guessed, remedy_searches as running, with_remedies
from spmd_core.workloads import STRATEGIES
from spmd_lab.ui import cards, choices
from spmd_lab.ui.lab import begin, end, lab, room
from spmd_lab.ui.markdown import as_sentence, coded, plain
from spmd_lab.ui.shell import attempt, done, draw_table, refusal

_TRIES = "Up to 8 changes for each: another dim or array sharded, another strategy."
_MORE = "Slow: the device waits for it for over 2% of the time. Where none of 8 helps, 24 more are tried."
NOTHING_WORTH = (
    "No collective keeps the device waiting for more than 2% of the predicted time: nothing was "
    "tried."
)


INTERVAL_S, _NAMED = 0.5, 3  # and how many collectives are named
HEADING = "What would remove the collectives"
Group = tuple[Collective, Removal, list[str]]  # and the strategies that it is of


def draw(result: Result, names: Sequence[str] | None = None) -> None:
    """The answers for these strategies (None: all), or the button that requests them; nothing
    where nothing communicates.
    """
    shown = offered(result, names)
    if not shown:
        return
    trial = running.find(lab(), result.run)
    is_over = trial is None or trial.is_over
    known = running.known(lab(), result.run) if is_over else None
    if is_over and known is None:
        with st.container(key="to-press-remedies"):  # nothing to print
            _headed(names)
            st.markdown(f"**{coded(_whats(result, shown))}**")
            st.caption(plain(tries_words(result)))
            _ask("Try changes", result)
        return
    _headed(names)
    if known is None:
        _watch(result.run, tuple(shown))
        return
    state, answers = known
    _answers(with_remedies(result, answers), shown)
    if trial is not None and trial.problem:
        st.info(plain(f"Not all was tried: {trial.problem}"), icon=":material/info:")
    if state == "done" and not any(answers.get(name) for name in shown):
        st.caption(plain(NOTHING_WORTH))
    elif state != "done":
        _ask("Try the rest", result)


def tries_words(result: Result) -> str:
    """Returns what a press has tried, of how many programs, and for about how long."""
    names = offered(result)
    programs = numbered(
        len({result.strategies[name].same_program or name for name in names}), "program"
    )
    if result.experiment.place.is_absent:
        return f"{_TRIES} Compiles them for {programs}."
    return (
        f"{_TRIES} Compiles them for {programs} and times close ones, "
        f"about {seconds_text(running.SECONDS)} at most."
    )


def _whats(result: Result, names: Sequence[str]) -> str:
    every = (each for name in names for each in result.strategies[name].collectives or ())
    whats = list(dict.fromkeys(map(what_words, every)))
    more = [f"{len(whats) - _NAMED} more"] if len(whats) > _NAMED else []
    return capital(listed([*whats[:_NAMED], *more]))


def _headed(names: Sequence[str] | None) -> None:
    if names:  # else a tab is called so
        st.subheader(HEADING, anchor=False)


def offered(result: Result, names: Sequence[str] | None = None) -> list[str]:
    """Returns the strategies, of `names` or all, whose collectives a change may remove."""
    return [
        name
        for name in names or result.order
        if result.strategies[name].collectives
        and not result.partial
        and not (kind := STRATEGIES[result.row(name).strategy]).is_single_device
        and not kind.is_map
    ]


def offer(result: Result, tab: str, is_first: bool = False) -> bool:
    """Draws a button under the verdict, which has changes tried and opens the tab that shows them, if
    they are in one; False where they were tried, or nothing communicates.
    """
    if is_begun(result) or not offered(result):
        return False
    if st.button(
        "Try changes",
        type="primary" if is_first else "secondary",
        key="remedies:offer",
        icon=":material/build:",
        help=tries_words(result),
    ):
        if tab:
            choices.turn(choices.TAB, tab)
        _begin(result)
    return True


def is_begun(result: Result) -> bool:
    """Returns True if changes are being tried, or were."""
    is_at_work = running.find(lab(), result.run) is not None
    return is_at_work or running.known(lab(), result.run) is not None


def _ask(label: str, result: Result) -> None:
    if st.button(
        label, key="remedies", icon=":material/build:", help=f"{tries_words(result)} {_MORE}"
    ):
        _begin(result)


def _begin(result: Result) -> None:
    taken = room()
    if taken.own >= taken.own_most or taken.queued >= taken.queued_most:
        refusal(f"Nothing was begun: {taken.words} Wait for one, or cancel one on Overview.")
        return
    if done(lambda: running.start(lab(), result, begin("remedies"))):
        st.rerun()


@st.fragment(run_every=INTERVAL_S)
def _watch(run: str, names: tuple[str, ...]) -> None:
    trial = running.find(lab(), run)
    if trial is None or trial.is_over:
        st.rerun()
        return  # which it never comes to
    with st.container(border=True, key="trying"):
        with st.container(horizontal=True, vertical_alignment="center"):
            words = doing_words(trial.done, trial.of, trial.doing, trial.left_s)
            st.markdown(coded(as_sentence(words)), width="stretch")
            if st.button("Cancel", key="remedies:cancel", icon=":material/stop_circle:"):
                if sentence := attempt(end, "remedies"):
                    st.toast(plain(sentence))
                else:
                    trial.cancel()
        st.progress(trial.done / trial.of if trial.of else 0.0)
        if first := trial.first:
            st.caption("The first change that may help: compiled, not yet measured.")
            _answers(with_remedies(trial.result, first), names)
    _answers(with_remedies(trial.result, trial.answers), names)


def _answers(result: Result, names: Sequence[str]) -> None:
    """For each answer what collective it is of, the change that one click opens, and what was tried
    as a table; one line for all that were not worth a change.
    """
    groups = grouped(result, names)
    alone, small = len(names) == 1, []
    for each, removal, whose in groups:
        if isinstance(removal, Nothing) and removal.is_small:
            small.append(what_words(each) if alone else f"{what_words(each)} ({titles(whose)})")
            continue
        of = "" if alone else f" · {plain(titles(whose))}"
        _answer(result, removal, whose[0], f"**{coded(what_words(each))}**{of}")
    if small:
        st.caption(coded(f"Not tried, each under 2% of the time: {listed(small)}."))
    if groups and is_guessed(result):
        st.caption(coded(as_sentence(GUESSED)))


def _answer(result: Result, removal: Removal, name: str, heading: str) -> None:
    tried, others = options(removal, result.row(name).experiment), ""
    change = as_sentence(removal_lead(removal))
    if not tried:  # of an older version
        change, others = (as_sentence(part) for part in removal_parts(removal))
    if removal.experiment is None:
        st.markdown(f"{heading}  \n{coded(change)}")
    else:
        st.markdown(heading)
        st.page_link(
            cards.page_of(removal.experiment),
            icon=":material/arrow_forward:",
            label=coded(change),
            query_params=cards.query(removal.experiment),
        )
    if tried:
        draw_table(options_table(result, name, tried), named=coded)
    if others:
        st.caption(coded(others))
    if removal.experiment is None:
        return
    if changed := resharded_words(result, name, removal.experiment):
        st.caption(coded(changed))
    study = beside(result.experiment, removal.experiment)
    if study is not None and (query := cards.query(study)):
        st.page_link(
            cards.page_of(study),
            icon=":material/add:",
            label="Add as a variant",
            query_params=query,
            help="Compare with both as variants of one study, which takes their times together.",
        )


def options_table(result: Result, name: str, tried: Sequence[Option]) -> dict[str, list[str]]:
    """Returns the table of what was tried for a row, the program as it was first: its time is that
    beside the change, in the run itself where no change was timed. One device, of the run, is last.
    """
    first, *changes = tried
    if first.measured_s is None and (median := result.medians_s.get(name)):
        first = replace(first, measured_s=median)
    alone = (
        Option(title(own.strategy), measured_s=result.medians_s[each], verdict="in the run itself")
        for each in result.order
        for own in [result.row(each)]
        if STRATEGIES[own.strategy].is_single_device and result.medians_s[each]
    )
    rows = [first, *changes, *islice(alone, 1)]
    columns = {
        "Option": [each.change for each in rows],
        "Predicted": [_time(each.predicted_s) for each in rows],
        "Measured": [_time(each.measured_s) for each in rows],
        "Verdict": [each.verdict or NONE for each in rows],
    }
    return {each: cells for each, cells in columns.items() if set(cells) != {NONE}}


def _time(seconds: float | None) -> str:
    return NONE if seconds is None else seconds_text(seconds)


def resharded_words(result: Result, name: str, changed: Experiment) -> str:
    """Returns which arrays a change shards differently than a row does; "" of none."""
    base = result.row(name).experiment
    return " ".join(
        f"Array `{array.name}`: {spec_code(changed.spec(array.name))}, was {spec_code(base.spec(array.name))}."
        for array in changed.what.arrays
        if not changed.plan and changed.spec(array.name) != base.spec(array.name)
    )


def grouped(result: Result, names: Sequence[str]) -> list[Group]:
    """Each different remedy of these strategies once, in their order; of a collective that nothing is
    proven to remove one answer for all, where there is one with a change that may.
    """
    groups: dict[tuple[str, str], Group] = {}
    for name in names:
        for each in result.strategies[name].collectives or ():
            if (removal := each.remove) is None:
                continue
            is_open = isinstance(removal, Nothing) and not removal.is_small
            key = what_words(each), "" if is_open else removal_words(removal)
            _, known, whose = groups.setdefault(key, (each, removal, []))
            if name not in whose:
                whose.append(name)
            if is_open and known.experiment is None and removal.experiment is not None:
                groups[key] = each, removal, whose
    return list(groups.values())
