"""Searches the shardings of a model on chips, or of a spec on its target, and prints the best."""

import json
import time
from argparse import Namespace

from spmd_core.commands.search_arguments import add_arguments, check_budget, question_of
from spmd_core.commands.search_lines import lines, rules
from spmd_core.errors import refuse, shorten
from spmd_core.search.answer import Answer
from spmd_core.search.candidate import Candidate
from spmd_core.search.models import candidates, space_size
from spmd_core.words.search import why_not

__all__ = ["add_arguments", "main"]


def main(arguments: Namespace) -> int:
    """Print the winner, the ranking and what was pruned: 0 where anything can run, else 1."""
    check_budget(arguments.budget)
    question, begun = question_of(arguments), time.monotonic()
    found = tuple(candidates(question))
    answer = Answer(question, space_size(question), found, True, time.monotonic() - begun)
    asked = _named(answer, arguments.why_not) if arguments.why_not else None
    reasons = {"why_not": why_not(answer.winner, asked)} if asked else {}
    if arguments.json:
        print(json.dumps({**answer.to_json(arguments.top), **reasons}))
    else:
        said = lines(answer, arguments.top) + list(reasons.values())
        if arguments.axis_rules and answer.winner:
            said += rules(answer.winner)
        print("\n".join(said))
    return 0 if answer.winner else 1


def _named(answer: Answer, text: str) -> Candidate:
    """The best candidate whose name has all the words of a text; RequestError where none has."""
    wanted = text.replace(" · ", " ").split()
    ranked = [entry.candidate for entry in answer.ranking]
    for each in (*ranked, *answer.found):
        if all(word in each.name for word in wanted):
            return each
    raise refuse(f"--why-not {shorten(text)}", "names no candidate of this space",
                 f"use a part of a name such as {answer.found[0].name!r}")
