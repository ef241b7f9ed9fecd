"""Time of who-holds-what against JAX, on 4,096 devices, and of 65,536 devices as arrays and as
JSON.

    python -m bench.layout_speed [--rounds 40] [--json]

In one process, in shuffled rounds, with a new shape in every round so that JAX's cache never
answers.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from bench.figures import Figures
from spmd_core.experiment.layout import layout

MESH = (("a", 16), ("b", 16), ("c", 16))
SPEC = (("c",), ("a", "b"), (), ())
LARGE_MESH = (("a", 64), ("b", 32), ("c", 32))
LARGE_SHAPE = (64, 2048, 128, 128)


def ours(shape: tuple[int, ...]) -> object:
    found = layout(MESH, shape, SPEC)
    return found.starts, found.stops, found.groups


def ours_as_lists(shape: tuple[int, ...]) -> object:
    """The same as JAX gives it: one Python object per device."""
    return dict(enumerate(layout(MESH, shape, SPEC).ranges()))


def seconds_of(call, *arguments) -> float:
    began = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - began


def against_jax(rounds: int) -> dict[str, float]:
    """Median seconds of each, and the median of the per-round ratios to JAX."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 4096)
    devices = np.array(jax.devices()).reshape([size for _, size in MESH])
    sharding = NamedSharding(
        Mesh(devices, tuple(name for name, _ in MESH), axis_types=(AxisType.Auto,) * 3), P(*SPEC)
    )
    calls = {"jax": sharding.devices_indices_map, "ours": ours, "ours_as_lists": ours_as_lists}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    shuffle = random.Random(0).shuffle
    for number in range(rounds + 3):
        shape = (16 * (number + 1), 256 * (number + 2), 8, 128)
        order = list(calls)
        shuffle(order)
        for name in order:
            samples[name].append(seconds_of(calls[name], shape))
    kept = {name: values[3:] for name, values in samples.items()}  # the first three warm up
    found = {f"{name}_s": statistics.median(values) for name, values in kept.items()}
    for name, label in (("ours", "ratio"), ("ours_as_lists", "ratio_as_lists")):
        found[label] = statistics.median(
            mine / theirs for mine, theirs in zip(kept[name], kept["jax"], strict=True)
        )
    return found


def large_arrays(rounds: int) -> float:
    """Median seconds of starts, stops and groups of 65,536 devices."""

    def call() -> object:
        found = layout(LARGE_MESH, LARGE_SHAPE, SPEC)
        return found.starts, found.stops, found.groups

    return statistics.median(seconds_of(call) for _ in range(rounds))


def large_command(rounds: int) -> float:
    """Median seconds of the whole process `python -m spmd_core layout --json` of 65,536 devices."""
    command = [
        sys.executable,
        "-m",
        "spmd_core",
        "layout",
        "--mesh",
        ",".join(f"{name}={size}" for name, size in LARGE_MESH),
        "--shape",
        ",".join(map(str, LARGE_SHAPE)),
        "--spec",
        json.dumps(SPEC),
        "--json",
    ]
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        printed = subprocess.run(command, check=True, capture_output=True).stdout
        seconds.append(time.perf_counter() - began)
        if len(json.loads(printed)["shards"]) != 65536:
            raise SystemExit("the command did not print 65,536 shards")
    return statistics.median(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found, figures = against_jax(chosen.rounds), Figures(chosen.json)
    note = f"4,096 devices, rank 4: JAX's devices_indices_map takes {found['jax_s'] * 1e3:.3f} ms"
    figures.add("as arrays, over JAX", found["ratio"], most=1.0, note=note)
    figures.add("as Python lists, over JAX", found["ratio_as_lists"], note="what JAX gives")
    figures.add("65,536 devices as arrays", 1e3 * large_arrays(chosen.rounds), "ms", most=20.0)
    figures.add(
        "65,536 devices by `layout --json`",
        large_command(5),
        "s",
        most=2.0,
        note="the whole process",
    )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
