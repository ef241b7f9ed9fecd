"""Searches the shardings of a model on chips, or of a spec on its target, and prints the best."""

import json
import signal
import sys
from argparse import Namespace

from spmd_core.answers import search_lines
from spmd_core.base import CLEAR, refuse, shorten
from spmd_core.commands.search_arguments import (
    ARGUMENTS,
    BUDGET_S,
    check_amounts,
    question_of,
)
from spmd_core.commands.waiting import interrupt
from spmd_core.lab import Lab, Searches
from spmd_core.search import Answer, Candidate, axis_rules, rules_text
from spmd_core.trials import FEW, FEW_S, Search, carried_out
from spmd_core.words import doing, search as words, why_not

__all__ = ["ARGUMENTS", "main"]


def main(arguments: Namespace) -> int:
    """Print the winner, the ranking and what was pruned: 0 where anything can run and the search
    was neither paused nor lost compiles, else 1.
    """
    check_amounts(arguments)
    signal.signal(signal.SIGTERM, interrupt)  # a job that is stopped keeps its candidates
    question = question_of(arguments, _lab)
    of_models_s = None if arguments.no_compile else FEW_S
    usual_s = BUDGET_S if arguments.spec else of_models_s
    few = FEW if not arguments.spec and not arguments.budget else None
    lab = _lab()
    search = Search(lab, Searches(lab.folder), question, arguments.budget or usual_s, compiles=few)
    show = _show if sys.stderr.isatty() else _nothing
    answer = carried_out(search, "search", show, 0.5).answer
    if sys.stderr.isatty():
        print(end=CLEAR, file=sys.stderr, flush=True)
    asked = _named(answer, arguments.why_not) if arguments.why_not else None
    reasons = {"why_not": why_not(answer, asked)} if asked else {}
    if arguments.json:
        fates = (
            {"fates": [words.candidate_row(each) for each in answer.found]}
            if arguments.fates
            else {}
        )
        stood = {"state": search.state, "problem": search.problem or None}
        print(json.dumps({**words.answer_json(answer, arguments.top), **stood, **reasons, **fates}))
    else:
        printed = search_lines(answer, arguments.top) + list(reasons.values())
        printed[1:1] = filter(None, [search.problem_words])
        if arguments.axis_rules and answer.winner:
            printed += rules(answer.winner)
        print("\n".join([*printed, f"search {question.id}: report, compare or export it"]))
    if search.problem and arguments.json:
        print(f"{'paused: ' * (search.state == 'paused')}{search.problem}", file=sys.stderr)
    if search.state == "cancelled":
        return 130
    return 0 if answer.winner and not search.problem else 1


def _lab() -> Lab:
    return Lab.open(serve=False)


def _show(search: Search) -> None:
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
    for each in (*[entry.candidate for entry in answer.ranking], *answer.found):
        if all(word in each.name for word in wanted):
            return each
    raise refuse(
        f"--why-not {shorten(text)}",
        "names no candidate of this space",
        f"use a part of a name such as {answer.found[0].name!r}",
    )


def rules(candidate: Candidate) -> list[str]:
    """The axis rules of a candidate with a plan, as MaxText and Flax write them; of an exported
    program its partition rules.
    """
    plan = candidate.plan
    if plan is None:
        return ["", rules_text(candidate.experiment)] if candidate.experiment.exported else []
    return [
        "",
        "# MaxText",
        axis_rules.maxtext(plan),
        "",
        "# Flax",
        axis_rules.flax(plan),
    ]
