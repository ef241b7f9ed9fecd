"""Predicted time of each collective over its bound by hand, on three topologies that are not
attached; needs libtpu.

128 MiB is the larger of operand and result per device. The bound is that of the op that was
compiled: a ring of n chips moves
(1 - 1/n) of the bytes through both directions of its links, a line through one, several axes add
up; an all-to-all is bound by the
links in the middle of its longest axis.
"""

import math
import os

os.environ.update(
    {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
)

import sys

import jax
import jax.numpy as jnp
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from bench.figures import Figures
from spmd_core.engine.absent.topology import compiled_program, devices_of
from spmd_core.machine.topologies import Topology, get_topology
from spmd_core.time.cost.comm import Cluster
from spmd_core.time.cost.predict import predict

BYTES = 128 * 2**20
TARGETS = ("v5e:2x4", "v5e:16x16", "v5p:4x4x4")
ASKED = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
LIMITS = (1.0, 1.3)


def bound_s(topology: Topology, kind: str) -> float:
    """By hand: nominal bandwidths, no latency."""
    link, chips = topology.chip.link_bandwidth, math.prod(topology.shape)
    into_a_chip = sum(
        link * (2 if wraps else 1)
        for size, wraps in zip(topology.shape, topology.wraps, strict=True)
        if size > 1
    )
    if kind == "all-to-all":
        return max(
            size * BYTES / (8 if wraps else 4) / link
            for size, wraps in zip(topology.shape, topology.wraps, strict=True)
            if size > 1
        )
    return BYTES * (1 - 1 / chips) / into_a_chip * (2 if kind == "all-reduce" else 1)


def program(kind: str, chips: int):
    """The function of one shard, and the shape of one shard of its operand."""
    rows = BYTES // 4 // 1024
    if kind == "all-reduce":
        return (lambda x: jax.lax.psum(x, "x")), (rows, 1024), P()
    if kind == "all-gather":
        return (lambda x: jax.lax.all_gather(x, "x", tiled=True)), (rows // chips, 1024), P()
    if kind == "reduce-scatter":
        return (lambda x: jax.lax.psum_scatter(x, "x", tiled=True)), (rows, 1024), P("x")
    return (lambda x: jax.lax.all_to_all(x, "x", 0, 0, tiled=True)), (rows, 1024), P("x")


def main() -> int:
    """Print the ratios; exit code 1 where one is outside the limits."""
    figures = Figures()
    print("predicted time over the bound by hand")
    for name in TARGETS:
        topology = get_topology(name)
        devices = mesh_utils.create_device_mesh(
            (topology.devices,), devices_of(topology), allow_split_physical_axes=True
        )
        mesh = Mesh(devices, ("x",))
        for kind in ASKED:
            function, shard, out = program(kind, topology.devices)
            x = jax.ShapeDtypeStruct(
                (shard[0] * topology.devices, shard[1]),
                jnp.float32,
                sharding=NamedSharding(mesh, P("x")),
            )
            lowered = jax.jit(
                jax.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=out, check_vma=False)
            ).lower(x)
            compiled = compiled_program(lowered, lowered.compile(), mesh)
            found = predict(
                compiled.text,
                Cluster(topology, compiled.devices),
                compiled.memory,
                (("x", topology.devices),),
            ).collectives
            seconds = sum(each.total_s for each in found)
            bound = sum(bound_s(topology, each.kind) * each.bytes / BYTES for each in found)
            note = (
                f"compiled {'+'.join(each.kind for each in found) or 'none'}, told asked "
                f"{'+'.join(each.asked or each.kind for each in found)}; {seconds * 1e6:.1f} of {bound * 1e6:.1f} µs"
            )
            figures.add(
                f"{name} {kind}",
                seconds / bound if bound else math.nan,
                least=LIMITS[0],
                most=LIMITS[1],
                note=note,
            )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
