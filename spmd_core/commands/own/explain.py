"""Explains a step that a function of the user's own returns with its arguments."""

import inspect
import json
import os
import pkgutil
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from spmd_core.base import LabError, RequestError, refuse, shorten
from spmd_core.commands.output import check_output
from spmd_core.lab import simulated_devices
from spmd_core.machine import get_topology, parse_target, read_hardware
from spmd_core.own import explain
from spmd_core.workloads import parse_mesh

ARGUMENTS = {
    "function": {
        "metavar": "PACKAGE.MODULE:FUNCTION",
        "help": "a function without arguments that returns (step, arguments)",
    },
    "--target": {"help": "tpu:v5e:4x4, gpu:h100:8 or cpu:8 (default: the devices that are here)"},
    "--mesh": {"metavar": "AXIS=SIZE,…", "help": "other sizes of the step's mesh axes"},
    "--save": {"metavar": "FILE", "help": "also write it: .html, .svg, .json, .jaxexport or text"},
    "--open": {
        "action": "store_true",
        "help": "also store it as a program of the lab; prints its link last",
    },
}
# modules whose frames come before those of the user's code
_AROUND = ("spmd_core", "pkgutil", "importlib", "contextlib")


def main(arguments: Namespace) -> int:
    """Import the function, explain its step, and print the answer."""
    if arguments.save:
        check_output("--save", arguments.save, force=True)
    if arguments.target:
        _give_devices(arguments.target)
    step, given = made(arguments.function)
    mesh = dict(parse_mesh(arguments.mesh)) if arguments.mesh else None
    explained = explain(step, target=arguments.target, mesh=mesh)
    positional, named = ((), given) if isinstance(given, dict) else (tuple(given), {})
    with _running(arguments.function):
        answer = explained(*positional, **named)
    print(json.dumps(answer.json()) if arguments.json else answer, flush=True)
    if arguments.open:
        answer.open()
    if arguments.save:
        answer.save(Path(arguments.save))
    return 0


def _give_devices(target: str) -> None:
    """Simulates as many devices as a target has, for code that makes its mesh as it is imported,
    unless this machine has an accelerator or the environment names a number.
    """
    parsed, hardware = parse_target(target), read_hardware()
    count = get_topology(parsed).devices if parsed.is_absent else parsed.device_count
    if not count or (parsed.is_absent and hardware.accelerator):
        return
    if "device_count" not in os.environ.get("XLA_FLAGS", ""):  # jax refuses the number twice
        for name, value in simulated_devices(count, hardware.cores).items():
            os.environ.setdefault(name, value)


@contextmanager
def _running(name: str) -> Iterator[None]:
    """Run code of the user's: what it prints is no part of the answer, and its exit is no success. The
    traceback of what it raises begins at its own lines.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except SystemExit as stop:
        fix = "return (step, arguments), and exit below `if __name__ == '__main__'` alone"
        raise refuse(
            f"function {shorten(name)}", f"ends Python by sys.exit({shorten(stop.code)})", fix
        ) from None
    except LabError:
        raise
    except Exception as error:
        trace = error.__traceback__
        while trace and trace.tb_frame.f_globals.get("__name__", "").split(".")[0] in _AROUND:
            trace = trace.tb_next
        if trace is None and not isinstance(error, SyntaxError):
            raise
        traceback.print_exception(error.with_traceback(trace))
        few = "Number of devices" in str(error)
        fix = "name its devices, such as --target cpu:8" if few else "mend it, and ask again"
        raise refuse(f"function {shorten(name)}", f"raises {type(error).__name__}", fix) from None


def made(name: str) -> tuple[Callable[..., Any], Any]:
    """The step and the arguments that a named function returns. Modules of the working folder are
    imported, as `python -m` does.

    Raises:
        RequestError: there is no such function, or it returns something else.
    """
    module, _, function = name.partition(":")
    if not all(each.isidentifier() for each in (*module.split("."), *function.split("."))):
        fix = "name both, of a file the module: train for train.py"
        raise refuse(f"function {shorten(name)}", "is no package.module:function", fix)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        with _running(name):
            made_by = pkgutil.resolve_name(name)
    except (ModuleNotFoundError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise refuse(
            f"function {shorten(name)}", f"is not there ({reason})", "correct it"
        ) from None
    try:
        inspect.signature(made_by).bind()
    except TypeError as error:
        fix = "name one that takes nothing and returns the step and its arguments"
        raise refuse(f"function {shorten(name)}", f"cannot be called so ({error})", fix) from None
    with _running(name):
        returned = made_by()
    if not isinstance(returned, tuple) or len(returned) != 2 or not callable(returned[0]):
        raise RequestError(
            f"{shorten(name)} returns no (step, arguments): return the step, and its arguments as a "
            "tuple, or as a dict by name"
        )
    return returned
