"""Finds the chips, the mesh and the dtypes that serve a model, and prints the answer."""

import json
import sys
import time
from argparse import Namespace
from collections.abc import Sequence

from spmd_core.answers import (
    PART_NAMES,
    SERVING_LOADS,
    SPLITS,
    apart_headline,
    beside_words,
    kept_serving,
    kinds_table,
    served_points_headline,
    served_points_json,
    served_points_table,
    serving_assumptions,
    serving_figures,
    serving_headline,
    serving_json,
    serving_question_json,
    serving_table,
    why_not_served,
)
from spmd_core.base import RequestError, Settings, refuse
from spmd_core.commands.predict import compiled
from spmd_core.commands.predict_arguments import CONFIG, MODELS, config_from
from spmd_core.commands.printed.predict_lines import bars
from spmd_core.lab import Lab
from spmd_core.plan import MXFP4, SERVED_AXES, SERVED_DTYPES
from spmd_core.search import (
    SERVING_FORM,
    ServingAnswer,
    ServingQuestion,
    Split,
    read_serving,
    serve,
    splits,
)
from spmd_core.sheets import sheet_lines, table
from spmd_core.sweeps import SERVED_SWEPT, decode_points, numbers_of, served_points, with_steps
from spmd_core.trials import searches

_ROWS = 12


def main(arguments: Namespace) -> int:
    """Print the answer: 0 where a row keeps the limits or may, else 1."""
    form = dict(vars(arguments))
    given = [name for name in ("apart", "sweep", "compile", "keep") if form[name]]
    if len(given) > 1 and given != ["compile", "keep"]:
        rule = "are answers of their own"
        raise refuse(f"--{given[0]} and --{given[1]}", rule, "ask for one after the other")
    if arguments.config:
        form["model"] = config_from(arguments.config, arguments.model).size.name
    question = read_serving(form)
    if arguments.apart:
        return _apart(question, arguments.json)
    if arguments.sweep is not None:
        return _swept(question, arguments.sweep, arguments.json)
    count = arguments.compile
    if count is not None and count < 1:
        raise refuse(f"--compile {count}", "is no number of rows", "use 1 or more")
    answer = serve(question)
    if count is not None:
        answer = _with_compiled(answer, count, arguments.timeout)
    print(json.dumps(serving_json(answer)) if arguments.json else "\n".join(_lines(answer)))
    if arguments.keep:
        searches.keep(Lab.open(serve=False), kept_serving(answer, time.time()))
        words = f"Kept as {question.id}, which report, compare, export and collection take."
        print(words, file=sys.stderr if arguments.json else sys.stdout)
    return 0 if answer.best else 1


_LISTED = ", ".join(SERVED_DTYPES)
_HELP = {
    "--chips": (
        "v6e:..16",
        "a number of chips, or up to one: tpu7x:4, v6e:..16, h100:8; or several",
    ),
    "--input": ("N", "tokens of a prompt, or a range 512..2048"),
    "--output": ("N", "tokens that are made, or a range"),
    "--concurrency": ("N", "requests at once; with --rate, at most"),
    "--rate": ("R", "requests a second that arrive by chance"),
    "--requests": ("N", "requests in all, from the first on (default: a load that goes on)"),
    "--ttft": ("2s", "the most that a first token takes, on average: 2s, 800ms or 0.8"),
    "--tpot": ("40ms", "the most that each further token takes, on average: 40ms, 0.04s or 0.04"),
    "--weights-dtype": ("fp8", f"of {_LISTED}, {MXFP4} (of experts); commas try several"),
    "--kv-dtype": ("fp8", f"of the cache, of {_LISTED}; commas try several"),
    "--price": ("v6e=2.7", "dollars per chip-hour, by kind"),
    "--mesh": ("data=4,tensor=2", f"of a replica, in place of a search: {', '.join(SERVED_AXES)}"),
    "--chunk": ("N", "tokens of prompts in a step, on each shard of data"),
    "--accepted": ("A", "tokens of a request that a step makes, with speculation"),
    "--seed": ("N", "of lengths and arrivals"),
}


def _help(flag: str, text: str) -> str:
    usual = SERVING_FORM[flag.removeprefix("--").replace("-", "_")]
    return f"{text} (default {usual})" if usual else text


_COMPILING = {
    "--apart": {"action": "store_true", "help": "prefill and decode on meshes of their own"},
    "--compile": {
        "metavar": "N",
        "type": int,
        "help": "compile the decode step of the best N rows",
    },
    "--sweep": {
        "metavar": "WHAT=VALUES",
        "help": f"the best row for each value of one of {', '.join(SERVED_SWEPT)}: "
        "concurrency=1,16,64 or chips=v6e:4;v6e:8",
    },
    "--keep": {"action": "store_true", "help": "keep the answer with the searches of History"},
    "--timeout": {
        "metavar": "SECONDS",
        "type": float,
        "default": Settings().predict_timeout_s,
        "help": f"of each compile (default {Settings().predict_timeout_s:g})",
    },
}
ARGUMENTS = {
    "--model": {"metavar": "NAME", "help": MODELS},
    **CONFIG,
    **{flag: {"metavar": each, "help": _help(flag, text)} for flag, (each, text) in _HELP.items()},
    **_COMPILING,
}


def _apart(question: ServingQuestion, as_json: bool) -> int:
    """Print the splits of the chips, prefill apart from decode: 1 where none keeps the limits."""
    answer = serve(question)
    listed = splits(question)
    headline = apart_headline(answer, listed)
    if as_json:
        asked = serving_question_json(question)
        print(json.dumps({"question": asked, "answer": headline, "apart": splits_json(listed)}))
    else:
        shown = ["", *sheet_lines(SPLITS.table(listed[:_ROWS], "screen"))] if listed else []
        print("\n".join([headline, *shown]))
    return 0 if listed and listed[0].keeps else 1


def _swept(question: ServingQuestion, text: str, as_json: bool) -> int:
    points = served_points(question, text, serve)
    if as_json:
        asked = serving_question_json(question)
        print(json.dumps({"question": asked, **served_points_json(text, points)}))
    else:
        table = sheet_lines(served_points_table(points, question))
        print("\n".join([served_points_headline(points), "", *table]))
    return 0 if any(each.answer and each.answer.best for each in points) else 1


def _with_compiled(answer: ServingAnswer, count: int, timeout_s: float) -> ServingAnswer:
    lab, points = Lab.open(serve=False), decode_points(answer, count)
    steps = [each.experiment for each in points.values()]
    if points and not any(steps):
        raise RequestError(next(iter(points.values())).refusal or "")
    predicted = (step and compiled(lab, step, timeout_s, fresh=False).prediction for step in steps)
    return with_steps(answer, points, [each and numbers_of(each) for each in predicted])


def _lines(answer: ServingAnswer) -> list[str]:
    lines, lead = [*filter(None, (serving_headline(answer), beside_words(answer)))], answer.lead
    if lead and lead.served:
        figures = [
            (each.title, each.value, each.more)
            for each in serving_figures(lead, answer.question.load)
        ]
        lines += ["", *table([("", "", ""), *figures])[1:]]
        step = lead.served.step
        parts = {PART_NAMES[name]: each for name, each in step.parts.items()}
        lines += bars("A decode step", parts, step.seconds)
    if len((kinds := kinds_table(answer)).rows) > 1:
        lines += ["", *sheet_lines(kinds)]
    lines += ["", *sheet_lines(serving_table(answer, _ROWS))]
    if answer.by_load:
        lines += ["", *sheet_lines(SERVING_LOADS.table(answer.by_load, "screen"))]
    if reasons := why_not_served(answer):
        lines += ["", "Why not another:", *(f"  {each}" for each in reasons)]
    if lead:
        lines += ["", "How it is counted:", *(f"  {each}" for each in serving_assumptions(lead))]
    return lines


def splits_json(splits: Sequence[Split]) -> list[dict[str, object]]:
    """Returns the splits for machines: seconds, bytes, shares."""
    return [
        {
            "prefill": {"target": each.prefill.target, "mesh": dict(each.prefill.mesh)},
            "decode": {"target": each.decode.target, "mesh": dict(each.decode.mesh)},
            "keeps": each.keeps,
            "tpot_s": each.tpot_s,
            "ttft_s": each.ttft_s,
            "requests_per_s": each.requests_per_s,
            "tokens_per_s_per_chip": each.tokens_per_s_per_chip,
            "passed_bytes": int(each.passed_bytes),
            "passed_s": each.passed_s,
            "prefill_idle": each.prefill_idle,
            "decode_idle": each.decode_idle,
        }
        for each in splits
    ]
