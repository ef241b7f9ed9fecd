"""The self-test of this machine: its facts, collected without jax and from child processes that
load it, each with its meaning.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

from spmd_core.advice import Check, check
from spmd_core.base import default_data_folder, package_version, read_settings
from spmd_core.lab.supervisor.environment import worker_environment
from spmd_core.lab.supervisor.process import ROOT
from spmd_core.machine import Hardware, default_target, read_hardware, surroundings

PACKAGES = ("jax", "jaxlib", "libtpu", "streamlit", "numpy")
COMPILED_FOR = "tpu:v5e:2x2"
DEVICES_TIMEOUT_S, COMPILER_TIMEOUT_S = 180.0, 120.0
OF_DEVICES = ("devices", "memory_kinds", "copy", "psum", "dispatch", "trace")
PLATFORMS = {"tpu": "tpu", "nvidia": "gpu", "amd": "gpu"}


def examine(environ: Mapping[str, str] = os.environ) -> Iterator[Check]:
    """Each line as soon as it is known, without jax first. A child process that hangs is ended, and
    what it did not answer is a failed line.
    """
    hardware = read_hardware(environ=environ)
    for name, facts in _surroundings(hardware, environ):
        yield check(name, facts)
    yield from _of_devices(hardware, environ)
    compile_only = worker_environment(COMPILED_FOR, hardware, environ)
    for name, facts in _answers(compile_only, ("compiler",), COMPILER_TIMEOUT_S, COMPILED_FOR):
        yield check(name, facts)


def as_json(checks: list[Check]) -> dict[str, object]:
    """The lines as one object; `ok` where none failed."""
    return {
        "ok": all(each.status != "fail" for each in checks),
        "versions": {name: package_version(name) for name in PACKAGES}
        | {"python": sys.version.split()[0]},
        "checks": [each.model_dump(mode="json") for each in checks],
    }


def _surroundings(
    hardware: Hardware, environ: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, object]]]:
    own: dict[str, object] = {"python": sys.version.split()[0]}
    yield "versions", own | {name: package_version(name) for name in PACKAGES}
    yield (
        "accelerators",
        {
            "kind": hardware.accelerator,
            "title": hardware.name,
            "chips": hardware.chips,
            "files": len(hardware.device_files),
            "unreadable": surroundings.unreadable(hardware.device_files),
        },
    )
    is_tpu = hardware.accelerator == "tpu"
    holders = [{"pid": each.pid, "name": each.name} for each in hardware.holders]
    lock_file = surroundings.lock_file() if is_tpu else None
    yield "holders", {"holders": holders, "lock_file": lock_file}
    yield "environment", {"variables": surroundings.variables(environ)}
    hosts = {"host": hardware.slice_host, "hosts": hardware.slice_hosts, "is_tpu": is_tpu}
    yield "slice", hosts  # pyrefly: ignore[invalid-yield]
    yield (
        "memory",
        {
            "available_bytes": hardware.available_bytes,
            "total_bytes": hardware.memory_bytes,
            "locked_bytes": surroundings.locked_memory_bytes(),
            "huge_pages": surroundings.huge_pages(),
            "is_tpu": is_tpu,
        },
    )
    yield "data_folder", surroundings.folder_facts(default_data_folder(environ))
    taken = [(port, surroundings.PORTS[port]) for port in surroundings.taken_ports()]
    yield "ports", {"taken": taken}
    settings = read_settings(environ)
    yield "dask", {"schedulers": [_scheduler("", settings.dask)] if settings.dask else []}
    yield "clusters", {"schedulers": [_scheduler(*each) for each in settings.clusters]}


def _scheduler(name: str, address: str) -> dict[str, object]:
    host, _, port = address.partition("://")[2].rpartition(":")
    problem = surroundings.answers(host, int(port))
    return {"name": name, "address": address, "problem": problem}


def _of_devices(hardware: Hardware, environ: Mapping[str, str]) -> Iterator[Check]:
    target = default_target()
    if hardware.holders and hardware.accelerator == "tpu":
        held = hardware.holders[0]
        reason = f"{held.name} (pid {held.pid}) has {held.device_file} open"
        for name in OF_DEVICES:
            do = "release the devices, then run doctor again"
            yield check(name, {"not_tried": reason, "do": do})
        return
    its_environment = worker_environment(target, hardware, environ)
    for name, facts in _answers(its_environment, OF_DEVICES, DEVICES_TIMEOUT_S):
        if name == "devices" and target == "local":
            facts["expected"] = PLATFORMS.get(hardware.accelerator or "")
            facts["expected_chips"] = hardware.chips if hardware.accelerator == "tpu" else None
        yield check(name, facts)
        if name == "trace" and "events" in facts:
            yield check("clock", facts)


def _answers(
    environ: Mapping[str, str], names: tuple[str, ...], timeout_s: float, *arguments: str
) -> Iterator[tuple[str, dict[str, object]]]:
    missing = list(names)
    process = subprocess.Popen(
        [sys.executable, "-m", "spmd_core.engine.self_test", *arguments],
        cwd=ROOT,
        env={**environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        for line in _lines(process, time.monotonic() + timeout_s):
            facts = json.loads(line)
            name = facts.pop("name")
            missing.remove(name)
            yield name, facts
        is_late = process.poll() is None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()  # closes its streams
        status = process.returncode
    for place, name in enumerate(missing):
        if place:
            yield name, {"not_tried": f"{missing[0]} did not answer"}
        elif is_late:
            yield name, {"error": f"no answer within {timeout_s:.0f} s: the process was ended"}
        else:
            yield name, {"error": f"the process ended with status {status}"}


def _lines(process: subprocess.Popen[bytes], until: float) -> Iterator[bytes]:
    assert process.stdout is not None
    buffer = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            if not selector.select(left):
                return
            data = os.read(process.stdout.fileno(), 2**16)
            if not data:
                process.wait()
                return
            *lines, buffer = (buffer + data).split(b"\n")
            yield from (line for line in lines if line.startswith(b"{"))
