"""The description of a file of the user's own workloads, and the child process that loads the file
and writes it.
"""

import json
import os
from pathlib import Path

from pydantic import ValidationError

from spmd_core.base import MOST_OUTPUT_BYTES, ChildAnswer, Frozen, ask_child, bytes_text, refuse
from spmd_core.machine import spare_bytes
from spmd_core.workloads.workload import Array, Workload

LOAD_S = 30.0
_DESCRIBE = "spmd_core.workloads.own.describe"


class Description(Frozen):
    """A declared workload as values: operands and results with their dims, default sizes, and the
    strategies that its functions allow.
    """

    name: str
    title: str
    operands: tuple[tuple[str, tuple[str, ...]], ...]
    results: tuple[tuple[str, tuple[str, ...]], ...]
    defaults: tuple[tuple[str, int], ...]
    dtypes: tuple[str, ...]
    strategies: tuple[str, ...]
    integer_result: bool = False

    def workload(self, source: str) -> Workload:
        """The workload that this describes. Dims that no result has count as summed over."""
        operands, results = (
            tuple(Array(name, dims) for name, dims in arrays)
            for arrays in (self.operands, self.results)
        )
        dims = tuple(name for name, _ in self.defaults)
        kept = {dim for array in results for dim in array.dims}
        given, returned = (", ".join(array.name for array in side) for side in (operands, results))
        return Workload(
            name=self.name,
            title=self.title,
            formula=f"{returned} = {self.name}({given})",
            dims=dims,
            defaults=dict(self.defaults),
            operands=operands,
            results=results,
            flops=lambda sizes: 0,
            dtypes=self.dtypes,
            strategies=self.strategies,
            default_strategies=tuple(
                name
                for name in self.strategies
                if name in ("single", "auto", "constrained", "shard_map")
            ),
            contracted=tuple(dim for dim in dims if dim not in kept),
            integer_result=self.integer_result,
            source=source,
        )


def describe(path: Path, text: str) -> tuple[Description, ...]:
    """The workloads that a file declares, as a child process finds them. RequestError, in one
    sentence, if it finds none or fails.
    """
    answer = _answer(path)
    try:
        declared = json.loads(answer.text)
        if "problem" in declared:
            raise refuse(
                path.name,
                declared["problem"],
                declared.get("fix", "correct it, and reload the page"),
            )
        return tuple(Description.model_validate(part) for part in declared["workloads"])
    except (ValidationError, json.JSONDecodeError, KeyError, TypeError):
        raise refuse(
            path.name,
            "was not described in the expected form",
            "see that it writes to no file descriptor that it has not opened",
        ) from None


def _answer(path: Path) -> ChildAnswer:
    """What the child process that loads a file answers; RequestError where it gives no answer."""
    spare = spare_bytes()
    answer = ask_child(_DESCRIBE, [str(path)], child_environ(), LOAD_S, spare)
    if answer.stopped == "memory":
        raise refuse(
            path.name,
            f"took more than {bytes_text(spare)} of memory, nearly all that was free, while it was "
            "loaded, and was ended",
            "move what takes memory into the function, or make it smaller",
        )
    if answer.stopped == "output":
        raise refuse(
            path.name,
            f"printed more than {bytes_text(MOST_OUTPUT_BYTES)} while it was loaded, and was ended",
            "print less where nothing calls it",
        )
    if answer.stopped:
        raise refuse(
            path.name, f"did not load within {LOAD_S:g} s", "move what takes long into the function"
        )
    if not answer.text:
        raise refuse(
            path.name,
            f"ended the process that loaded it {answer.ending}",
            "correct it, and reload the page",
        )
    return answer


def child_environ() -> dict[str, str]:
    """The environment of a child process that loads a file: JAX on the CPU, whatever it is set to
    here.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    return kept | {"JAX_PLATFORMS": "cpu"}
