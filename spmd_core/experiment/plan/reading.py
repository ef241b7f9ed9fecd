"""Reading a plan from JSON, and a mesh from the command line."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from spmd_core.base import RequestError, refuse, shorten
from spmd_core.experiment.plan.plan import AXIS, Plan


def parse_plan(data: Any) -> Plan:
    """The plan that a JSON value describes; RequestError, in one sentence, where it describes none."""
    if not isinstance(data, Mapping):
        raise refuse(
            f"plan {shorten(data)}",
            "is not a JSON object",
            'write for example {"target": "tpu:v5e:4x4", "model": "scaled:1", …}',
        )
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, RequestError):
            raise RequestError(str(cause)) from None
        place = (
            ".".join(
                str(part) for part in first["loc"] if isinstance(part, str) and "[" not in part
            )
            or "plan"
        )
        if first["type"] == "missing":
            raise refuse(f"plan without {place}", "is incomplete", f"add {place!r}") from None
        raise RequestError(
            f"{place}={shorten(first['input'])} is not valid: "
            f"{first['msg'][0].lower()}{first['msg'][1:]}"
        ) from None


def parse_mesh(text: str) -> tuple[tuple[str, int], ...]:
    """`data=2,fsdp=16,tensor=4` as pairs, in order."""
    pairs = []
    for part in text.split(","):
        name, _, size = part.strip().partition("=")
        if not (
            AXIS.fullmatch(name)
            and size.isascii()
            and size.isdigit()
            and len(size) < 10
            and int(size) >= 1
        ):
            raise refuse(
                f"mesh {shorten(text)}",
                "is not a list of axes",
                "write for example fsdp=16,tensor=4",
            )
        pairs.append((name, int(size)))
    return tuple(pairs)
