"""Where an experiment runs: this machine's accelerators, the hosts of a cluster, simulated CPU
devices, or absent TPUs or GPUs.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from typing import Literal, NoReturn

from spmd_core.base import plugins, refuse, shorten
from spmd_core.machine.chips import CHIPS
from spmd_core.machine.hardware import device_files
from spmd_core.machine.topology import absent_target, legal_shapes, topology_of_chips

MAX_CPU_DEVICES = 256
_CPU = re.compile(r"cpu:([0-9]{1,6})")
_CLUSTER = re.compile(r"cluster:local:([0-9]{1,4})(?:x([0-9]{1,4}))?")
_NAMED = re.compile(r"cluster(?::(?P<name>[a-z0-9][a-z0-9-]{0,30}))?")
MAX_MEMBERS, USUAL_DEVICES = 16, 2  # processes of this machine, and simulated devices of each
_TPU = re.compile(
    r"tpu:(?P<generation>[a-z0-9]{2,8}):(?P<shape>[0-9]{1,5}(x[0-9]{1,5}){0,3})(\*(?P<slices>[0-9]{1,4}))?"
)
# another name of a kind, alone or before a number of chips, or before a shape
_ALIAS = re.compile(r"(?:(tpu|gpu):)?([a-z0-9]{2,12}):([0-9x]{1,24})(\*[0-9]{1,4})?")
# Google's accelerator types; v2 to v5p count the cores, two of a chip
_GOOGLES = re.compile(r"(?:tpu:)?(v2|v3|v4|v5p|v5e|v5litepod|v6e)-([0-9]{1,6})")
_SHORT = {"7x": "tpu7x"}
_OF_CORES = ("v2", "v3", "v4", "v5p")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,40}")
_KIND = re.compile(r"(tpu|gpu):([a-z0-9]{2,12})")
_GPU = re.compile(r"gpu:(?P<kind>[a-z0-9]{2,12}):(?P<shape>[0-9]{1,5}(x[0-9]{1,5}){0,3})")


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed target. `device_count` is None if it is known only once JAX lists the devices."""

    # accelerators of this machine, those of a cluster's hosts, simulated devices, a topology that
    # is not attached. Of GPUs `slices` are NVLink domains
    kind: Literal["local", "cluster", "cpu", "tpu", "gpu"]
    text: str
    device_count: int | None = None
    generation: str | None = None
    topology: tuple[int, ...] = ()
    slices: int = 1
    hosts: int = 1  # processes, each with an equal share of the simulated devices

    @property
    def is_absent(self) -> bool:
        """Whether it is a compile-only topology: programs are compiled for it and not run."""
        return self.kind in ("tpu", "gpu")

    @property
    def is_gpu(self) -> bool:
        """Whether it is a topology of absent GPUs."""
        return self.kind == "gpu"

    @property
    def is_attached(self) -> bool:
        """Whether its devices are whatever this machine, or the hosts of a cluster, have."""
        return self.kind in ("local", "cluster")

    @property
    def is_here(self) -> bool:
        """Whether it is the accelerators of this machine."""
        return self.kind == "local"

    @property
    def is_cluster(self) -> bool:
        """Whether it is the hosts of a cluster that the server's owner has named."""
        return self.kind == "cluster"

    @property
    def is_simulated(self) -> bool:
        """Whether its devices are CPU devices that JAX simulates."""
        return self.kind == "cpu"


def kind_of(name: str) -> str | None:
    """Returns the generation or GPU of a name, such as `tpu7x` of `7x`; None of an unknown one."""
    return name if name in CHIPS else _SHORT.get(name)


def is_known(text: str) -> bool:
    """Returns True if a text has a platform, or the name of an absent chip, in front."""
    first = text.lower().partition(":")[0]
    return (
        first in ("tpu", "gpu") or kind_of(first) is not None or bool(_GOOGLES.match(text.lower()))
    )


def written_out(text: str) -> str:
    """Returns a topology as it is stored: `tpu:v5p:4x4x4` of `v5p:64`, a number of chips, `v5p:4x4x4`
    and `tpu:v5p:64`; any other text as it is.

    Raises:
      RequestError: no topology has so many chips, or the name is Google's, which counts cores.
    """
    if _NAME.fullmatch(text) and text not in ("local", "cluster"):
        text = added_targets()[0].get(text.lower(), text)
    if match := _GOOGLES.fullmatch(text.lower()):
        _refuse_googles(match[1], int(match[2]))
    match = _ALIAS.fullmatch(text.lower())
    kind = kind_of(match[2]) if match else None
    if match is None or kind is None or match[1] not in (None, CHIPS[kind].platform):
        return text
    size, slices = match[3], match[4] or ""
    if not size.isdigit() or (CHIPS[kind].is_gpu and (int(size),) in legal_shapes(kind)):
        return f"{CHIPS[kind].platform}:{kind}:{size}{slices}"
    largest = legal_shapes(kind)[-1][0]
    if CHIPS[kind].is_gpu:
        is_multiple = int(size) > largest and not int(size) % largest
        shape = (largest, int(size) // largest) if is_multiple else (int(size), 1)
        return absent_target(kind, shape[:1], shape[1], "gpu")
    return topology_of_chips(kind, int(size)).target + slices


@cache
def added_targets() -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Returns the targets that installed packages name, such as `our-pod` for `tpu:v5p:4x4x8`, and the
    problems of those that are left out.
    """

    def read(each: EntryPoint) -> str:
        text = each.load()
        target = parse_target(text) if isinstance(text, str) and is_known(text) else None
        if target is None or target.generation not in CHIPS:
            raise refuse(shorten(text), "is no topology", 'use a text such as "tpu:v5p:4x4x8"')
        return target.text

    return plugins("target", read)


def _refuse_googles(name: str, count: int) -> NoReturn:
    kind, chips = name.replace("v5litepod", "v5e"), count // 2 if name in _OF_CORES else count
    cores = f" ({count} cores)" if chips != count else ""
    also = f", or {kind}:{count} for {count} chips" if chips != count else ""
    raise refuse(
        f"target {name}-{count}",
        f"is Google's name of {chips} chips{cores}",
        f"use {kind}:{chips}{also}",
    )


def parse_target(text: str) -> Target:
    """The target that `text` names, in its canonical form; RequestError where it names none."""
    text = written_out(text)
    if text == "local":
        return Target("local", text)
    if match := _CPU.fullmatch(text):
        count = int(match[1])
        if not 1 <= count <= MAX_CPU_DEVICES:
            raise refuse(
                f"target {text!r}",
                f"asks for {count} simulated devices",
                f"use cpu:1 to cpu:{MAX_CPU_DEVICES}",
            )
        return Target("cpu", f"cpu:{count}", count)
    if match := _CLUSTER.fullmatch(text):
        return _cluster(text, int(match[1]), int(match[2] or USUAL_DEVICES))
    if (match := _NAMED.fullmatch(text)) and match["name"] != "local":
        return Target("cluster", text)
    if match := _TPU.fullmatch(text.lower()):
        shape = tuple(int(part) for part in match["shape"].split("x"))
        return Target(
            "tpu", text.lower(), None, match["generation"], shape, int(match["slices"] or 1)
        )
    if match := _GPU.fullmatch(text.lower()):
        *domains, gpus = (int(part) for part in match["shape"].split("x"))
        shape, count = ((gpus,), (*domains, 1)[0]) if len(domains) < 2 else ((*domains, gpus), 1)
        canonical = absent_target(match["kind"], shape, count, "gpu")
        return Target("gpu", canonical, None, match["kind"], shape, count)
    if bare := _KIND.fullmatch(text.lower()):
        name = f"{bare[1]}:{bare[2]}"
        example = f"{name}:8" if bare[1] == "gpu" else f"{name}:4x4"
        raise refuse(
            f"target {text!r}", "has no size", f"add the number of devices, such as {example}"
        )
    raise refuse(
        f"target {shorten(text)}",
        "; ".join(("is not a place to run", *added_targets()[1])),
        "use local, cpu:8, cluster:local:2 or a topology such as tpu:v5e:4x4 or gpu:h100:8",
    )


def _cluster(text: str, hosts: int, devices: int) -> Target:
    if not 2 <= hosts <= MAX_MEMBERS:
        raise refuse(
            f"target {text!r}",
            f"asks for {hosts} processes",
            f"use cluster:local:2 to cluster:local:{MAX_MEMBERS}",
        )
    count = hosts * devices
    if not 1 <= count <= MAX_CPU_DEVICES:
        raise refuse(
            f"target {text!r}",
            f"asks for {count} simulated devices",
            f"use cluster:local:{hosts}x1 to cluster:local:{hosts}x{MAX_CPU_DEVICES // hosts}",
        )
    each = "" if devices == USUAL_DEVICES else f"x{devices}"
    return Target("cpu", f"cluster:local:{hosts}{each}", count, hosts=hosts)


def accelerator_files() -> tuple[str, ...]:
    """Device files of this machine's accelerators; empty where there is none. Imports no jax."""
    return device_files()[1]


def default_target() -> str:
    """`local` with an accelerator, `cpu:8` without; SPMD_LAB_TARGET overrides both."""
    chosen = os.environ.get("SPMD_LAB_TARGET")
    if chosen:
        return parse_target(chosen).text
    return "local" if accelerator_files() else "cpu:8"
