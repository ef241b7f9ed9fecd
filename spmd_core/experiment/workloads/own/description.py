"""The description of a file of the user's own workloads, and the child process that loads the file
and writes it.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pydantic import ValidationError

from spmd_core.base import Frozen, bytes_text, refuse
from spmd_core.experiment.workloads.workload import Array, Workload
from spmd_core.machine import resident_bytes, spare_bytes

LOAD_S = 30.0
LOOK_S = 0.1  # between two looks at the memory of what is loaded
ROOT = Path(__file__).resolve().parents[4]
TAIL_CHARACTERS = 300


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
    try:
        with (
            tempfile.TemporaryFile("w+") as answer,
            tempfile.TemporaryFile("w+", errors="replace") as errors,
        ):
            status = _run(path, answer.fileno(), errors.fileno())
            answer.seek(0)
            errors.seek(0)
            output, wrote = answer.read(), errors.read()
    except subprocess.TimeoutExpired:
        raise refuse(
            path.name, f"did not load within {LOAD_S:g} s", "move what takes long into the function"
        ) from None
    if not output:
        raise refuse(path.name, _ending(status, wrote), "correct it, and reload the page")
    try:
        declared = json.loads(output)
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


def _run(path: Path, answer: int, errors: int) -> int:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environ |= {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(
            part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part
        ),
    }
    # -P: modules beside the file are not imported
    command = [
        sys.executable,
        "-P",
        "-m",
        "spmd_core.experiment.workloads.own.describe",
        str(answer),
        str(path),
    ]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=errors,
        stderr=errors,
        pass_fds=(answer,),
        start_new_session=True,
    ) as child:
        try:
            return _ended(child, path)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)


def _ended(child: subprocess.Popen[bytes], path: Path) -> int:
    """The exit status of the child, which may take so long and so much memory. TimeoutExpired, or
    RequestError, where it takes more.
    """
    most_bytes, until = spare_bytes(), time.monotonic() + LOAD_S
    while True:
        try:
            return child.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() >= until:
                raise
        if most_bytes is not None and resident_bytes(child.pid) > most_bytes:
            raise refuse(
                path.name,
                f"took more than {bytes_text(most_bytes)} of memory, nearly all that was free, while "
                "it was loaded, and was ended",
                "move what takes memory into the function, or make it smaller",
            )


def _ending(status: int, wrote: str) -> str:
    how = f"with {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
    last = " ".join(wrote.split())[-TAIL_CHARACTERS:]
    return f"ended the process that loaded it {how}" + (f" ({last})" if last else "")
