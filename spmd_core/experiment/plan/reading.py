"""Reading a plan from JSON, and a mesh from the command line."""

from typing import Any

from spmd_core.base import refuse, shorten, validated
from spmd_core.experiment.plan.plan import AXIS, Plan


def parse_plan(data: Any) -> Plan:
    """The plan that a JSON value describes; RequestError, in one sentence, where it describes none."""
    example = '{"target": "tpu:v5e:4x4", "model": "scaled:1", …}'
    return validated(Plan, data, "plan", example)


def parse_mesh(text: str, example: str = "fsdp=16,tensor=4") -> tuple[tuple[str, int], ...]:
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
                f"write for example {example}",
            )
        pairs.append((name, int(size)))
    return tuple(pairs)
