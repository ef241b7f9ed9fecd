"""Loads a file of the user's own workloads in a process of its own, and describes them: `python -m
spmd_core.workloads.own.describe FD PATH`.
"""

import json
import runpy
import sys
import traceback
from pathlib import Path

from spmd_core.base import RequestError, answer
from spmd_core.workloads.own import declare
from spmd_core.workloads.own.declare import declared_steps
from spmd_core.workloads.own.description import LOAD_S


def _described(path: Path) -> dict[str, object]:
    try:
        names = runpy.run_path(str(path), run_name=path.stem)
    except RequestError as error:
        return {"problem": f"declares a workload that does not hold together ({error})"}
    except BaseException as error:  # SystemExit too: report any failure while loading the file
        words = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())
        return {
            "problem": f"does not load{_line(error, path)} ({type(error).__name__}: "
            f"{words or 'no reason given'})"
        }
    if not declare.declared and not declared_steps:
        return {
            "problem": "declares no workload",
            "fix": "decorate a function with spmd_core.declare.workload",
        }
    if taken := sorted(declare.DEFINED & names.keys()):
        return {
            "problem": f"defines {taken[0]}, which the programs of every workload define "
            f"themselves",
            "fix": "give it another name",
        }
    return {
        "workloads": [
            description(names).model_dump(mode="json") for description in declare.declared
        ]
    }


def _line(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f": line {error.lineno}"
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    return f": line {lines[-1]}" if lines else ""


if __name__ == "__main__":
    answer(lambda: json.dumps(_described(Path(sys.argv[2]))), limit_s=LOAD_S)
