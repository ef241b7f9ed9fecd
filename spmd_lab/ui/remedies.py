"""What would remove the collectives of a run: a button that has it tried, how far that is, and a
link for each answer.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice
from math import inf

import streamlit as st

from spmd_core.advice import (
    GUESSED,
    Answered,
    Option,
    answers_of,
    best_of,
    change_words,
    conclusion,
    doing_words,
    options,
    removal_lead,
    removal_parts,
    what_words,
)
from spmd_core.base import capital, numbered, seconds_text
from spmd_core.experiment import Experiment, spec_code
from spmd_core.facts import Change, Nothing, Remedy, Removal
from spmd_core.results import Result, compare_rows
from spmd_core.sheets import NONE
from spmd_core.terms import listed, title, titles
from spmd_core.trials import (
    beside,
    first_changes,
    is_guessed,
    remedy_searches as running,
    with_remedies,
)
from spmd_core.words import headline_ratio, off_words, sharding_verdict
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


_TOGETHER = "Measured together"  # in a session of its own, beside the run of the card
_FAR = 1.5  # times: from there on an estimate beside a measured time has its error
_ALONE_WINS = ("slower", "too small")  # verdicts on sharding
INTERVAL_S, _NAMED = 0.5, 3  # and how many collectives are named
_PLANNED = 4  # changes that are named before they are tried
_IN_WORDS = 2  # options, the program as it was and one change: the conclusion has both
HEADING = "What would remove the collectives"
# draws the button that shows the screen a change: its number, what changes, and the program with it
Use = Callable[[int, Sequence[Change], Experiment], None]


def draw(
    result: Result,
    names: Sequence[str] | None = None,
    use: Use | None = None,
    has_best_above: bool = False,
) -> None:
    """The answers for these strategies (None: all), or the button that requests them; nothing
    where nothing communicates. `use`: draws the button of a change, else links open it;
    `has_best_above`: the button of the best is above.
    """
    shown = offered(result, names)
    if not shown:
        return
    trial = running.find(lab(), result.run)
    is_over = trial is None or trial.is_over
    known = running.known(lab(), result.run) if is_over else None
    if is_over and known is None:
        _to_press(result, names, shown)
        return
    _headed(names)
    if known is None:
        _watch(result.run, tuple(shown))
        return
    state, answers = known
    _answers(with_remedies(result, answers), shown, use=use, has_best_above=has_best_above)
    if trial is not None and (so_far := trial.partial):
        st.caption("Tried so far:")
        _answers(with_remedies(result, so_far), shown, is_open=True)
    if trial is not None and trial.problem:
        st.info(plain(f"Not all was tried: {trial.problem}"), icon=":material/info:")
    if state == "done" and not any(answers.get(name) for name in shown):
        st.caption(plain(NOTHING_WORTH))
    elif state != "done":
        _ask("Try the rest", result)


def _to_press(result: Result, names: Sequence[str] | None, shown: Sequence[str]) -> None:
    """Draws the button that has changes tried, and what it would try first."""
    planned = _planned(result, shown[0])
    with st.container(key="to-press-remedies"):  # nothing to print
        _headed(names)
        first = ": changes to try first" * bool(planned)
        st.markdown(f"**{coded(f'{_whats(result, shown)}{first}')}**")
        if planned:
            st.markdown("\n".join(f"- {coded(capital(each))}" for each in planned))
        st.caption(plain(tries_words(result)))
        _ask("Try changes", result)


def _planned(result: Result, name: str) -> list[str]:
    """Returns the changes that are tried first for the first collective of a computation's strategy."""
    experiment, collectives = result.row(name).experiment, result.strategies[name].collectives
    if experiment.plan or experiment.program or not collectives:
        return []
    first = first_changes(experiment, result.row(name).strategy, collectives[0])
    return list(dict.fromkeys(change_words(experiment, each.changes) for each in first))[:_PLANNED]


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
    they are in one; False where they were tried, nothing communicates, or the open tab has the button.
    """
    is_open = bool(tab) and tab in (
        st.session_state.get(choices.TAB),
        st.query_params.get(choices.TAB),
    )
    if is_begun(result) or is_open or not offered(result):
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


def best(result: Result) -> Remedy | None:
    """Returns the change that saves the most of those that were tried; None until all were, and where
    none is faster.
    """
    answers = _known(result)
    first = answers[0].removal if answers else None
    return first if isinstance(first, Remedy) else None


def none_of(result: Result) -> str:
    """Returns how many changes were tried of which none is faster; "" until all were, and of a change
    that is or may be.
    """
    removals = [each.removal for each in _known(result)]
    tried = [each.tried for each in removals if isinstance(each, Nothing)]
    if len(tried) < len(removals) or any(each.experiment is not None for each in removals):
        return ""
    number = sum(map(len, tried))
    return f"None of {numbered(number, 'change')} is predicted to be faster." * (number > 1)


def _known(result: Result) -> list[Answered]:
    """Returns the answers of a run; [] until all changes were tried."""
    trial, known = running.find(lab(), result.run), running.known(lab(), result.run)
    if known is None or (trial is not None and not trial.is_over):
        return []
    return answers_of(with_remedies(result, known[1]), result.order)


def is_at_work(result: Result) -> bool:
    """Returns True while changes are being tried."""
    trial = running.find(lab(), result.run)
    return trial is not None and not trial.is_over


def is_begun(result: Result) -> bool:
    """Returns True if changes are being tried, or were."""
    is_known_here = running.find(lab(), result.run) is not None
    return is_known_here or running.known(lab(), result.run) is not None


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
            left_s = inf if trial.pace else trial.left_s
            words = doing_words(trial.done, trial.of, trial.doing, left_s)
            st.markdown(coded(as_sentence(words)), width="stretch")
            if st.button("Cancel", key="remedies:cancel", icon=":material/stop_circle:"):
                if sentence := attempt(end, "remedies"):
                    st.toast(plain(sentence))
                else:
                    trial.cancel()
        st.progress(trial.share, text=plain(capital(trial.pace)) or None)
        if first := trial.first:
            st.caption(_so_far(first))
            _answers(with_remedies(trial.result, first), names, is_open=True)
    _answers(with_remedies(trial.result, trial.answers), names)


def _so_far(first: Mapping[str, Mapping[int, Removal]]) -> str:
    """Returns how far the first change that may help is known."""
    removal = next(each for answers in first.values() for each in answers.values())
    if isinstance(removal, Remedy) and removal.estimated:
        number = numbered(removal.estimated, "change")
        return f"The fastest of {number} so far, estimated and not compiled:"
    return "The first change that may help: compiled, not yet measured."


def _answers(
    result: Result,
    names: Sequence[str],
    is_open: bool = False,
    use: Use | None = None,
    has_best_above: bool = False,
) -> None:
    """For each change what it does, and what was tried as a table; one line for all collectives that
    were not worth one. `is_open`: more is tried, and nothing concluded.
    """
    answers = answers_of(result, names)
    small = [
        each for each in answers if isinstance(each.removal, Nothing) and each.removal.is_small
    ]
    helps = [each for each in answers if each.removal.experiment is not None]
    others = [each for each in answers if each not in helps and each not in small]
    is_alone = len(names) == 1
    for at, each in enumerate(helps):
        is_above = has_best_above and each is answers[0] and isinstance(each.removal, Remedy)
        shows = partial(use, at) if use else None
        if is_above:
            shows = _above
        _answer(result, each, is_alone, is_open, shows)
    if others:
        label = coded(
            f"No change removes {listed(list(dict.fromkeys(each.what for each in others)))}"
        )
        with st.expander(label) if helps else nullcontext():
            for each in others:
                _answer(result, each, is_alone, is_open)
    if small:
        named = [_named(each, is_alone) for each in small]
        st.caption(coded(f"Not tried, each under 2% of the time: {listed(named)}."))
    if answers and is_guessed(result):
        st.caption(coded(as_sentence(GUESSED)))


def _named(each: Answered, is_alone: bool) -> str:
    return each.what if is_alone else f"{each.what} ({titles(each.strategies)})"


def _answer(
    result: Result,
    each: Answered,
    is_alone: bool,
    is_open: bool,
    use: Callable[[Sequence[Change], Experiment], None] | None = None,
) -> None:
    removal, name = each.removal, each.strategies[0]
    of = "" if is_alone else f" · {plain(titles(each.strategies))}"
    st.markdown(f"**{coded(each.what)}**{of}")
    tried, others = options(removal, result.row(name).experiment), ""
    words = removal_lead(removal) if is_open else concluded(result, removal)
    if not tried:  # of an older version
        words, others = removal_parts(removal)
    st.subheader(coded(as_sentence(words)), anchor=False)
    best = best_of(removal)
    is_offered = use is not None and bool(best) and not isinstance(removal, Remedy)
    if is_offered or len(tried) > _IN_WORDS or any(option.measured_s for option in tried):
        draw_table(options_table(result, name, tried), named=coded)
    if others:
        st.caption(coded(as_sentence(others)))
    if removal.experiment is None or is_open:
        return
    is_program = removal.experiment.exported is not None  # the change has all of its specs
    if not is_program and (changed := resharded_words(result, name, removal.experiment)):
        st.caption(coded(changed))
    with st.container(horizontal=True):
        if use:
            if best:
                use(best, removal.experiment)
        else:
            _links(result, removal, removal.experiment)


def concluded(result: Result, removal: Removal) -> str:
    """Returns what trying changes showed; where none is faster, whether one device is in the run."""
    alone, words = sharding_verdict(result), conclusion(removal)
    if isinstance(removal, Remedy) or not alone or alone[0] not in _ALONE_WINS:
        return words
    return f"{words}; one device is faster"


def _above(*_: object) -> None:
    st.caption(":material/arrow_upward: Above")


def _links(result: Result, removal: Removal, changed: Experiment) -> None:
    """Draws the link to a change that is faster; of any that may be, one that measures both."""
    if isinstance(removal, Remedy):
        st.page_link(
            cards.page_of(changed),
            icon=":material/arrow_forward:",
            label="Open with this change",
            query_params=cards.query(changed),
        )
    study = beside(result.experiment, changed)
    if study is not None and (query := cards.query(study)):
        st.page_link(
            cards.page_of(study),
            icon=":material/add:",
            label="Add as a variant",
            query_params=query,
            help="Compare with both as variants of one study, which takes their times together.",
        )


def options_table(result: Result, name: str, tried: Sequence[Option]) -> dict[str, list[str]]:
    """Returns the table of what was tried for a row, the program as it was first. Measured times are
    of one session: that of the change, in which one device has its ratio alone; without one the run.
    """
    first, *changes = tried
    is_timed = first.measured_s is not None
    if not is_timed and (median := result.medians_s.get(name)):
        first = replace(first, measured_s=median)
    if (took := first.measured_s) and (guess := first.predicted_s):
        words = f"estimated {off_words(guess / took - 1)}"
        is_far = max(took / guess, guess / took) > _FAR
        first = replace(first, verdict=words if is_far else first.verdict)
    alone = (
        Option(
            title(own.strategy),
            measured_s=None if is_timed else result.medians_s[each],
            verdict=_alone_words(result, name, each) if is_timed else "in the run itself",
        )
        for each in result.order
        for own in [result.row(each)]
        if STRATEGIES[own.strategy].is_single_device and result.medians_s[each]
    )
    rows = [first, *changes, *islice(alone, 1)]
    columns = {
        "Option": [each.change for each in rows],
        "Predicted": [_time(each.predicted_s) for each in rows],
        _TOGETHER if is_timed else "Measured": [_time(each.measured_s) for each in rows],
        "Verdict": [each.verdict or NONE for each in rows],
    }
    return {each: cells for each, cells in columns.items() if set(cells) != {NONE}}


def _alone_words(result: Result, name: str, alone: str) -> str:
    """Returns how one device compares with a row in the run, such as `2.05× as long (1.9 to 2.2)`."""
    pair = compare_rows(result, (name, alone))
    if pair is None or not pair.ratios:
        return "in the run itself"
    (ratio,) = pair.ratios
    quotient = pair.quotient(ratio, result.medians_s)
    if ratio.verdict != "faster":
        return f"in the run itself: {ratio.verdict}"
    judged = "slower" if pair.fastest == name else "faster"
    return f"in the run itself: {headline_ratio(ratio, judged, quotient)}"


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
