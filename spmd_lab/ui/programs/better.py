"""Which mesh and specs would be better for a program: a search over both, on its target."""

from contextlib import suppress

import streamlit as st

from spmd_core.advice import program_of, replicated_words
from spmd_core.base import RequestError
from spmd_core.experiment import Experiment
from spmd_core.facts import Estimate
from spmd_core.runs import RunStatus
from spmd_core.search import ArrayQuestion, Candidate, read_array_question
from spmd_core.surveys.search import Own, best_words, dropped_words, gain_words, is_ahead
from spmd_core.trials import Search, searches as running
from spmd_lab.ui import cards, choices, live, shell, state
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.search import answer

BUDGET_S = 120.0  # for compiling, and for measuring what runs here
LABEL = "Search meshes and specs"
TITLE = "Which mesh and specs are better?"
_BEGUN = "begun_search"  # aside: the search that was begun here: its panel is open


def _question(experiment: Experiment) -> ArrayQuestion:
    given = experiment.to_json()
    form = {name: given[name] for name in ("workload", "program", "target", "dims")}
    known = lab().devices("local") if experiment.target == "local" else None
    count = known.device_count if known else None
    return read_array_question(form | {"mesh": None, "specs": None}, count)


def offer(experiment: Experiment, is_first: bool) -> None:
    """Draws the button of the search in a card; nothing where it was begun."""
    if is_begun(experiment):
        return
    if st.button(
        LABEL,
        type="primary" if is_first else "secondary",
        icon=":material/travel_explore:",
        key="better_mesh:card",
        help=plain(_costs(experiment)),
    ):
        _begin(_question(experiment))


def _begin(question: ArrayQuestion) -> None:
    state.set_aside("programs", _BEGUN, question.id)
    state.note_act("programs")  # its panel is near the top from now on
    answer.begin(question, BUDGET_S)


def _search(experiment: Experiment) -> Search | None:
    with suppress(RequestError):  # the screen refuses its fields
        return running.find(lab(), _question(experiment))
    return None


def is_at_work(experiment: Experiment) -> bool:
    """Returns True while a search of this program on this target is at work."""
    search = _search(experiment)
    return search is not None and _is_at_work(search)


def _is_at_work(search: Search) -> bool:
    return not search.is_over and search.budget_s is not None  # else a stored one is read


def run_of(experiment: Experiment) -> str | None:
    """Returns the run that the screen shows: that of its link or press, one at work, else the last that
    is stored. A search compiles the program as it is among others: that changes no finding unasked.
    """
    if not is_at_work(experiment) and (run := live.joined("programs", experiment)):
        return run
    if (run := state.run("programs")) is None:
        search = _search(experiment)
        batch = search.batch if search else ""
        stored = [each for each in cards.stored_runs(experiment) if each.batch != batch]
        run = stored[0].run if stored else None
        state.set_run("programs", run)
    return run


def follow(experiment: Experiment, run: str | None, was_at_work: bool) -> RunStatus | None:
    """Returns how the run that the screen shows stands, once it is over."""
    if run is None and is_at_work(experiment):
        return None
    return live.follow("programs", experiment, run, was_at_work)


def own(experiment: Experiment, seconds: Estimate | None, memory_bytes: int | None) -> Own | None:
    """Returns what a program takes as it is, which a search's best is set beside; None where its time
    is not known. `memory_bytes`: the peak of a device.
    """
    if seconds is None:
        return None
    span = seconds.low, seconds.high
    return Own("as it is", experiment, seconds.estimate, span, memory_bytes)


def ahead(mine: Own | None) -> Candidate | None:
    """Returns the best of a search that is over, where it is faster than the program as it is; None
    of one that is only estimated.
    """
    if mine is None or not (search := _search(mine.experiment)) or not search.is_over:
        return None
    winner = search.answer.winner
    is_known = winner is not None and winner.stage != "estimated"
    return winner if winner and is_known and is_ahead(mine, winner) else None


def is_chosen(experiment: Experiment) -> bool:
    """Returns True if a program has the mesh and specs of its search's best: what is replicated there
    was chosen.
    """
    search = _search(experiment)
    winner = search.answer.winner if search and search.is_over else None
    return winner is not None and winner.experiment.is_alike(experiment)


def told(experiment: Experiment, mine: Own | None) -> None:
    """Draws in the card that a search is at work, or its answer: its panel is further down. `mine`:
    what the program takes as it is.
    """
    if (search := _search(experiment)) is None:
        return
    winner = search.answer.winner
    if _is_at_work(search):
        words = "Searching meshes and specs, below."
    elif winner and winner.experiment.is_alike(experiment):
        program = program_of(experiment)
        kept = replicated_words(program, of_some=True) if program else ""
        words = f"{best_words(search.answer, winner, mine)} {kept}".strip()
    elif winner:
        found = (mine and gain_words(search.answer, winner, mine, is_offer=True)) or (
            best_words(search.answer, winner, mine)
        )
        dropped = dropped_words(mine, winner) if mine and is_ahead(mine, winner) else ""
        words = f"Searched: {found} {dropped}".strip()
    else:
        return
    st.caption(plain(words), width="stretch")


def is_begun(experiment: Experiment) -> bool:
    """Returns True if a search of this program on this target is at work, or was."""
    return _search(experiment) is not None


def _costs(experiment: Experiment) -> str:
    return (
        f"Compiles the program as it is, other sizes of its mesh on {experiment.device_count} devices "
        f"and other specs, for at most {BUDGET_S:g} s. What is listed as wrong stays as it is."
    )


def draw(experiment: Experiment, mine: Own | None, is_offered: bool) -> None:
    """The search of this program on this target: its answer, its progress, or the button. `mine`: what
    the program takes as it is; `is_offered`: the card has the button that uses its best.
    """
    question = _question(experiment)
    search = running.find(lab(), question)
    is_linked = st.query_params.get(choices.PANEL) == "search"
    is_here = is_linked or state.aside("programs", _BEGUN) == question.id
    is_open = search is not None and (is_here or _is_at_work(search)) and not is_chosen(experiment)
    if is_open:
        st.query_params[choices.PANEL] = "search"
    else:
        st.query_params.pop(choices.PANEL, None)
    with st.expander(TITLE, expanded=is_open, icon=":material/travel_explore:"):
        if search and not search.is_over:
            answer.watch(search, mine)
            return
        if search is None:
            st.caption(plain(_costs(experiment)))
        elif search.problem:
            shell.refusal(search.problem_words)
        if search and search.answer.winner:  # its card has the button that goes on
            is_pressed = answer.headline(search.answer, own=mine, is_offered=is_offered)
        else:
            label = "Keep searching" if search else LABEL
            is_pressed = st.button(label, icon=":material/travel_explore:", key="better_mesh")
        if is_pressed:
            _begin(question)
        if search:
            answer.details(search.answer)
