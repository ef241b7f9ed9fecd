"""Searches the shardings of a model on chips, or of a spec on its target, and prints the best."""

import json
import signal
import sys
from argparse import Namespace
from functools import cache

from spmd_core.base import CLEAR, refuse, shorten
from spmd_core.commands.printed.search_lines import lines, rules
from spmd_core.commands.search_arguments import (
    BUDGET_S,
    add_arguments,
    check_amounts,
    question_of,
)
from spmd_core.commands.waiting import interrupt
from spmd_core.lab import Lab, Searches
from spmd_core.search import Answer, Candidate
from spmd_core.trials import FEW, FEW_S, Search, candidate_row, watch_search
from spmd_core.words import doing, why_not

__all__ = ["add_arguments", "main"]


def main(arguments: Namespace) -> int:
    """Print the winner, the ranking and what was pruned: 0 where anything can run, else 1."""
    check_amounts(arguments)
    signal.signal(signal.SIGTERM, interrupt)  # a job that is stopped keeps its candidates
    question = question_of(arguments, _lab)
    of_models_s = None if arguments.no_compile else FEW_S
    usual_s = BUDGET_S if arguments.spec else of_models_s
    few = FEW if not arguments.spec and not arguments.budget else None
    lab = _lab()
    search = Search(lab, Searches(lab.folder), question, arguments.budget or usual_s, compiles=few)
    answer = watch_search(search, _show if sys.stderr.isatty() else _nothing)
    if sys.stderr.isatty():
        print(end=CLEAR, file=sys.stderr, flush=True)
    asked = _named(answer, arguments.why_not) if arguments.why_not else None
    reasons = {"why_not": why_not(answer, asked)} if asked else {}
    if arguments.json:
        fates = {"fates": [candidate_row(each) for each in answer.found]} if arguments.fates else {}
        print(json.dumps({**answer.to_json(arguments.top), **reasons, **fates}))
    else:
        printed = lines(answer, arguments.top) + list(reasons.values())
        if arguments.axis_rules and answer.winner:
            printed += rules(answer.winner)
        print("\n".join([*printed, f"search {question.id}: report, compare or export it"]))
    if search.problem:
        print(f"paused: {search.problem}", file=sys.stderr)
    if search.state == "cancelled":
        return 130
    return 0 if answer.winner else 1


@cache
def _lab() -> Lab:
    return Lab.open(serve=False)


def _show(search: Search) -> None:
    """One line on the terminal with the search's progress."""
    print(
        CLEAR + doing(search.glance, search.doing, search.spent_s, search.budget_s)[:119],
        end="",
        file=sys.stderr,
        flush=True,
    )


def _nothing(search: Search) -> None:
    """Where nobody looks."""


def _named(answer: Answer, text: str) -> Candidate:
    """The best candidate whose name has all the words of a text; RequestError where none has."""
    wanted = text.replace(" · ", " ").split()
    ranked = [entry.candidate for entry in answer.ranking]
    for each in (*ranked, *answer.found):
        if all(word in each.name for word in wanted):
            return each
    raise refuse(
        f"--why-not {shorten(text)}",
        "names no candidate of this space",
        f"use a part of a name such as {answer.found[0].name!r}",
    )
