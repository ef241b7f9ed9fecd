"""The link that opens a search: its question as data, deflated; never evaluated."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from spmd_core.base import RequestError, refuse
from spmd_core.experiment import link
from spmd_core.plan import link_refusal
from spmd_core.search.array_question import ArrayQuestion, read_array_question
from spmd_core.search.question import ModelQuestion, read_question
from spmd_core.search.serving_question import read_serving

AnyQuestion = ModelQuestion | ArrayQuestion
SERVING = "serving"  # the kind of a question that its texts open


def encode(question: AnyQuestion) -> str:
    """A question as a word for an address; RequestError where it would be too long for one."""
    return link.pack(
        question.model_dump(mode="json", exclude_defaults=True) | {"kind": question.kind}
    )


def opened(data: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Returns the screen of a question's JSON form, and the query that opens it there.

    Raises:
      RequestError: this version cannot read the question.
    """
    if data.get("kind") == SERVING:
        return "predict", {"show": SERVING, **read_serving(data).form}
    return "search", {"search": encode(question_of(data))}


def path(data: Mapping[str, Any]) -> str:
    """Returns the path and query that open a question; RequestError as `opened`."""
    screen, query = opened(data)
    return f"/{screen}?{urlencode(query, safe=',=')}"


def decode(code: str) -> AnyQuestion:
    """The question of a link; RequestError where it holds none, or a flag that no link may set."""
    question = question_of(link.payload(code))
    if isinstance(question, ModelQuestion):
        for flag in dict(question.plan).get("compiler_flags") or ():
            if sentence := link_refusal(str(flag)):
                raise RequestError(sentence)
    return question


def question_of(data: Any) -> AnyQuestion:
    """The question of its JSON form; RequestError where there is none."""
    if isinstance(data, dict) and data.get("kind") == "array":
        spec = data.get("spec")
        searched = data.get("searched")
        if not isinstance(spec, dict) or not isinstance(searched, list):
            raise refuse("search without a spec", "is incomplete", "copy the link again")
        opened = dict.fromkeys((name for name in searched if isinstance(name, str)), None)
        more = {name: data[name] for name in ("minimize", "price", "memory_bytes") if name in data}
        try:
            return read_array_question(
                {**spec, "target": data.get("targets"), **opened}, data.get("devices"), **more
            )
        except ValueError as error:
            raise (
                error
                if isinstance(error, RequestError)
                else refuse("search", "is not one of this version", "copy the link again")
            ) from None
    return read_question(data)
