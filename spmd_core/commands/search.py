"""Searches the shardings of a model on chips, or of a spec on its target, and prints the best."""

import json
import signal
import sys
from argparse import Namespace
from collections.abc import Callable

from spmd_core.answers import search_lines
from spmd_core.base import refuse, shorten
from spmd_core.commands.predict_arguments import (
    CONFIG,
    HELD,
    MODELS,
    SIZES,
    config_from,
    flags_of,
    given_fields,
)
from spmd_core.commands.spec import HELP, read_open_spec
from spmd_core.commands.waiting import interrupt, is_watched, show_progress
from spmd_core.lab import Lab, Searches
from spmd_core.plan import MESH_AXES, VARIABLE
from spmd_core.search import (
    FEW,
    GOALS,
    REMATS,
    TOP,
    Answer,
    ArrayQuestion,
    Candidate,
    ModelQuestion,
    axis_rules,
    bytes_of,
    generations,
    read_array_question,
    read_prices,
    read_question,
    rules_text,
    unknown_target,
)
from spmd_core.surveys import doing, search as words, why_not
from spmd_core.trials import FEW_S, Search, carried_out
from spmd_core.workloads import parse_mesh

MOST_S = 30 * 86400.0
BUDGET_S = 60.0  # of a spec, which no instant estimate answers
_OF_MODELS = (
    "model",
    "config",
    "chips",
    "global_batch",
    "batch_per_device",
    "sequence",
    "fix",
    "remat",
    "no_offload",
    "no_compile",
    "slices",
)


ARGUMENTS = {
    "spec": {
        "metavar": "SPEC",
        "nargs": "?",
        "help": f"instead of a model: {HELP}; its null fields are searched",
    },
    "--model": {"metavar": "NAME", "help": MODELS},
    "--chips": {
        "metavar": "v5p:64",
        "action": "append",
        "help": "a number of chips, up to one (v5e:..256, any:..64), or a topology "
        "(v5p:4x4x4*2); commas, or again, for several",
    },
    "--global-batch": {"type": int, "metavar": "N", "help": "sequences in a step"},
    "--batch-per-device": {
        "type": float,
        "metavar": "N",
        "help": "sequences per device; without either, several are tried",
    },
    "--sequence": {"type": int, "metavar": "N", "help": "tokens of a sequence (default 2048)"},
    "--fix": {
        "metavar": "data=4,tensor=1",
        "help": f"sizes of mesh axes that stay, of {','.join(MESH_AXES)}; 1: unused",
    },
    "--remat": {"metavar": "POLICIES", "help": f"of {','.join(REMATS)} (default: all)"},
    "--no-offload": {"action": "store_true", "help": "nothing goes to host memory"},
    "--slices": {"metavar": "N", "help": "fewest (default), any, or a number of slices"},
    "--memory": {
        "metavar": "GIB",
        "type": float,
        "help": "the most that a device may hold, below its own",
    },
    "--minimize": {"choices": GOALS, "help": "what is minimized (default time)"},
    "--price": {
        "metavar": "v5p=4.2,v5e=1.2",
        "help": "per chip and hour, by generation; of one generation 4.2 alone",
    },
    "--budget": {
        "type": float,
        "metavar": "SECONDS",
        "help": f"for compiling and measuring what is best first (default of a spec "
        f"{BUDGET_S:g}); of a model without it the best {FEW} are compiled",
    },
    "--no-compile": {
        "action": "store_true",
        "help": "estimates only: nothing of a model is compiled",
    },
    "--top": {
        "type": int,
        "default": TOP,
        "metavar": "N",
        "help": f"rows of the ranking (default {TOP})",
    },
    "--why-not": {
        "metavar": "NAME",
        "help": "a candidate, by its name or a part of it such as tensor=4",
    },
    "--fates": {"action": "store_true", "help": "with --json: the stage of every candidate, too"},
    "--axis-rules": {
        "action": "store_true",
        "help": "print the winner's axis rules as MaxText and Flax write them",
    },
    **CONFIG,
    **flags_of(HELD),
    **SIZES,
}


def question_of(arguments: Namespace, lab: Callable[[], Lab]) -> ModelQuestion | ArrayQuestion:
    """The question; RequestError where something is missing or wrong. `lab` lists devices."""
    if arguments.spec:
        return _of_spec(arguments, lab)
    if arguments.config:
        arguments.model = config_from(arguments.config, arguments.model).size.name
    for name in ("model", "chips"):
        if not getattr(arguments, name):
            raise refuse(
                f"search without --{name}", "is incomplete", "name a model and chips, or a spec"
            )
    chips = tuple(part for text in arguments.chips for part in text.split(",") if part)
    given: dict[str, object] = {
        "model": arguments.model,
        "chips": chips,
    }
    for name in ("global_batch", "batch_per_device", "sequence", "slices", "minimize"):
        if getattr(arguments, name) is not None:
            given[name] = getattr(arguments, name)
    if arguments.fix:
        given["fixed"] = parse_mesh(arguments.fix)
    if arguments.remat:
        given["remat"] = tuple(part for part in arguments.remat.split(",") if part)
    if arguments.price:
        asked = generations(chips, arguments.slices or "fewest")
        given["price"] = read_prices(arguments.price, asked)
    if arguments.memory is not None:
        given["memory_bytes"] = bytes_of(arguments.memory)
    sizes = {name: getattr(arguments, name) for name in VARIABLE}
    fixed = given_fields(arguments, HELD) | {name: size for name, size in sizes.items() if size}
    return read_question(given | {"offload": not arguments.no_offload, "plan": fixed})


def _of_spec(arguments: Namespace, lab: Callable[[], Lab]) -> ArrayQuestion:
    for name in (*_OF_MODELS, *HELD, *VARIABLE):
        if getattr(arguments, name) not in (None, False):
            raise refuse(
                f"--{name.replace('_', '-')} with a spec",
                "means nothing",
                "say it in the spec, or describe a model without one",
            )
    data = read_open_spec(arguments.spec)
    more: dict[str, object] = {"minimize": arguments.minimize} if arguments.minimize else {}
    if arguments.price:
        more["price"] = read_prices(arguments.price)
    if arguments.memory is not None:
        more["memory_bytes"] = bytes_of(arguments.memory)
    devices = None
    if isinstance(data, dict) and (target := unknown_target(data.get("target"))):
        devices = (lab().devices(target) or lab().probe(target)).device_count
    return read_array_question(data, devices, **more)


def check_amounts(arguments: Namespace) -> None:
    """RequestError where a budget leaves no time, or the number of rows is negative."""
    budget = arguments.budget
    if budget is not None and not budget > 0:  # NaN is not above it
        raise refuse(
            f"--budget {budget:g}",
            "leaves no time to look at anything",
            "use at least 1 second, or leave it out",
        )
    if budget is not None and budget > MOST_S:
        raise refuse(
            f"--budget {budget:g}", "is more than a month of seconds", f"use at most {MOST_S:.0f}"
        )
    if arguments.top < 1:
        raise refuse(f"--top {arguments.top}", "is no number of rows", "use at least 1")
    if arguments.why_not is not None and not arguments.why_not.strip():
        raise refuse("--why-not ''", "names no candidate", "use a part of a name such as tensor=4")


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
    answer = carried_out(search, "search", _show, 0.5).answer
    show_progress()
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


def _named(answer: Answer, text: str) -> Candidate:
    if candidate := answer.named(text.replace(" · ", " ").split()):
        return candidate
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


def _show(search: Search) -> None:
    if is_watched():  # a look ranks all candidates
        show_progress(doing(search.glance, search.doing, search.spent_s, search.most_s))
