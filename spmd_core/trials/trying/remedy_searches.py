"""Searches for remedies of this process: each runs in its own thread, and is kept by its run."""

from math import inf

from spmd_core.lab import COMMAND_LINE, Asker, Lab, Remedies
from spmd_core.results import Result
from spmd_core.trials.known_sizes import with_known_sizes
from spmd_core.trials.remedies.attached import Answers, with_remedies
from spmd_core.trials.searching.searches import Registry
from spmd_core.trials.trying.remedy_search import RemedySearch, from_stored

SECONDS = 60.0  # of one that somebody waits for
KEPT = 8  # in memory; the answers of others are read from the data folder

_searches = Registry[RemedySearch, Remedies]("remedies", lambda over: KEPT, Remedies)


def store(lab: Lab) -> Remedies:
    """What is kept in the Lab's folder."""
    return _searches.store(lab.folder)


def find(lab: Lab, run: str) -> RemedySearch | None:
    """The search for remedies of a run in this process, at work or over."""
    return _searches.find(lab.folder, run)


def known(lab: Lab, run: str) -> tuple[str, Answers] | None:
    """(state, answers) of a run, from this process or stored; None where nothing was tried. One
    that another process left is `cancelled`: whether that is still at work is not known.
    """
    search = find(lab, run)
    if search is not None:
        return search.state, search.answers
    stored = from_stored(store(lab).of(run))
    if stored is None:
        return None
    return ("cancelled" if stored[0] == "running" else stored[0]), stored[1]


def with_stored_answers(lab: Lab, result: Result) -> Result:
    """Returns a result with what removes its collectives so far, and with the next thing to try by
    that and by the stored sizes.
    """
    answers = known(lab, result.run)
    return with_known_sizes(lab, with_remedies(result, answers[1]) if answers else result)


def start(lab: Lab, result: Result, asker: Asker = COMMAND_LINE) -> RemedySearch:
    """Begin to try; the search that is at work already where one is. On devices that are here it
    begins nothing after SECONDS, and the next one goes on with what that left.
    """
    place, before, answered = store(lab), find(lab, result.run), known(lab, result.run)
    seconds = inf if result.experiment.place.is_absent else SECONDS
    answers = answered[1] if answered else None

    def made() -> RemedySearch:
        return RemedySearch(lab, place, result, asker, seconds, answers, before)

    return _searches.start(lab.folder, result.run, made)
