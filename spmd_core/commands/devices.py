"""Prints the devices of a target, as its worker process sees them."""

from argparse import Namespace

from spmd_core.base import RequestError, bytes_text
from spmd_core.commands.spec import HELP, read_spec
from spmd_core.lab import Lab
from spmd_core.machine import default_target, parse_target
from spmd_core.results import Environment
from spmd_core.sheets import table
from spmd_core.terms import environment_notes, environment_words, pool_words

TIMEOUT_S = 120.0  # a TPU takes its time to be there


ARGUMENTS = {
    "target": {
        "metavar": "TARGET",
        "nargs": "?",
        "help": f"local, cpu:N, or {HELP}, whose target is meant (default: this machine's)",
    },
}


def main(arguments: Namespace) -> int:
    """Ask the devices, and print their answer."""
    target = default_target() if arguments.target is None else _target(arguments.target)
    lab = Lab.open(serve=False)
    environment = lab.probe(target, TIMEOUT_S)
    notes = environment_notes(environment, target)
    if arguments.json:
        print(environment.model_copy(update={"notes": notes}).model_dump_json())
        return 0
    devices = f"{target}: {environment.platform}, {environment_words(environment)}"
    machine = f"machine: {lab.hardware().sentence}"
    print("\n".join([devices, machine, "", *_table(environment)]))
    pool = pool_words(environment)
    for note in (*notes, *([pool] if pool else [])):
        print(f"note: {note}")
    return 0


def _target(word: str) -> str:
    try:
        return parse_target(word).text
    except RequestError:
        if word == "-" or any(mark in word for mark in ("/", ".", "=", "recipe:")):
            return read_spec(word).target
        raise


def _table(environment: Environment) -> list[str]:
    head = ("device", "process", "coordinates", "core", "memory kinds", "memory")
    rows = [
        (
            str(device.id),
            str(device.process),
            " ".join(map(str, device.coords or ("–",))),
            "–" if device.core is None else str(device.core),
            " ".join(device.memory_kinds),
            bytes_text(device.memory_bytes),
        )
        for device in environment.devices
    ]
    return table([head, *rows], numbers=(0, 1, 3, 5))
