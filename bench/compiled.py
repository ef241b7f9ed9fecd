"""Compiles specs through the Lab, as the commands and the screen do, in a data folder of its own."""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.results import Result

COMPILE_S = 900.0


@contextmanager
def own_lab() -> Iterator[Lab]:
    """A Lab in a new folder, which the environment names for the commands; closed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SPMD_LAB_DATA"] = folder
        lab = Lab.open()
        try:
            yield lab
        finally:
            lab.close()


def results(
    lab: Lab,
    specs: Sequence[dict[str, Any]],
    strategies: Sequence[str],
) -> Iterator[tuple[dict[str, Any], Result]]:
    """(spec, result) of each; a failure of the run ends the bench, one of a strategy stays."""
    runs = [lab.submit(parse_experiment(spec | {"strategies": list(strategies)})) for spec in specs]
    for spec, run in zip(specs, runs, strict=True):
        status = lab.wait(run, COMPILE_S)
        result = lab.result(run)
        if result is None:
            sys.exit(f"{spec} came to nothing: {status.state} {status.error}")
        yield spec, result
