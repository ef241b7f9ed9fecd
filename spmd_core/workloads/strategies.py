"""How a sharding is imposed on a computation: the strategies, described as data."""

from dataclasses import dataclass
from typing import Literal

from spmd_core.machine import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A strategy's name, its one-line meaning, what to beware of when reading its numbers, and its
    kinds.
    """

    name: str
    title: str
    meaning: str
    caution: str = ""
    is_sharding: bool = False  # it imposes the sharding of the experiment on the function as it is
    is_map: bool = False  # it maps a function of one row over a dim
    is_single_device: bool = False  # it uses no mesh
    of_sequence: bool = False  # attention along a sharded sequence, and no other workload
    # who writes the collectives: the text of the program, or the compiler
    collectives: Literal["program", "compiler"] | None = None

    def runs_on(self, place: Target) -> bool:
        """Whether it can run there: what maps is called, on attached devices, and over those of one
        process.
        """
        is_several = place.is_cluster or place.hosts > 1
        return not self.is_map or not (
            place.is_absent or (is_several and not self.is_single_device)
        )


_PMAP = (
    "called, not compiled ahead of time: each call also pays for Python finding the "
    "compiled program"
)

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy(
            name="single",
            title="Single device",
            meaning="jit on one device: the baseline, no mesh and no communication",
            is_sharding=True,
            is_single_device=True,
        ),
        Strategy(
            name="auto",
            title="Automatic",
            meaning="operands are placed with NamedSharding on a mesh of Auto axes; the compiler "
            "decides the rest",
            is_sharding=True,
            collectives="compiler",
        ),
        Strategy(
            name="constrained",
            title="Constrained",
            meaning="with_sharding_constraint on operands and results inside jit; the compiler "
            "moves those of operands to the parameters",
            caution="it is timed twice, with operands placed as it was compiled, and with "
            "unsharded ones, which every call reshards first",
            is_sharding=True,
            collectives="compiler",
        ),
        Strategy(
            name="explicit",
            title="Explicit",
            meaning="sharding in types: a mesh of Explicit axes, and out_sharding where a "
            "contraction is ambiguous",
            is_sharding=True,
            collectives="compiler",
        ),
        Strategy(
            name="shard_map",
            title="shard_map",
            meaning="one program per shard, with the collectives written by hand",
            is_sharding=True,
            collectives="program",
        ),
        Strategy(
            name="ring",
            title="Ring",
            meaning="attention under shard_map: keys and values pass around the devices of a "
            "sequence, a shard at a time",
            is_sharding=True,
            of_sequence=True,
            collectives="program",
        ),
        Strategy(
            name="zigzag",
            title="Ring, balanced",
            meaning="a ring whose devices hold an early and a late part of the sequence each, so "
            "that a causal mask leaves all of them equal work",
            caution="queries, keys, values and results are moved to and from that order within "
            "the program; a training run stores tokens in it",
            is_sharding=True,
            of_sequence=True,
            collectives="program",
        ),
        Strategy(
            name="ulysses",
            title="Ulysses",
            meaning="attention under shard_map: an all-to-all exchanges shards of the sequence for "
            "shards of the heads, and another back",
            is_sharding=True,
            of_sequence=True,
            collectives="program",
        ),
        Strategy(
            name="vmap",
            title="vmap",
            meaning="jax.vmap over the rows, called as it is: every operation by itself, on "
            "one device",
            is_map=True,
            is_single_device=True,
        ),
        Strategy(
            name="jit(vmap)",
            title="jit(vmap)",
            meaning="jax.jit of jax.vmap: one program on one device",
            is_map=True,
            is_single_device=True,
        ),
        Strategy(
            name="pmap",
            title="pmap",
            meaning="jax.pmap: one row to each device",
            caution=_PMAP,
            is_map=True,
            collectives="program",
        ),
        Strategy(
            name="jit(pmap)",
            title="jit(pmap)",
            meaning="jax.jit around jax.pmap",
            caution=_PMAP,
            is_map=True,
            collectives="program",
        ),
        Strategy(
            name="pmap(jit)",
            title="pmap(jit)",
            meaning="jax.pmap of a function under jax.jit",
            caution=_PMAP,
            is_map=True,
            collectives="program",
        ),
        Strategy(
            name="pmap(vmap)",
            title="pmap(vmap)",
            meaning="jax.pmap over the devices of jax.vmap over each device's rows",
            caution=_PMAP,
            is_map=True,
            collectives="program",
        ),
        # Add a strategy above this line.
        Strategy(
            name="place",
            title="Placing",
            meaning="jax.device_put of the array with its NamedSharding",
        ),
        Strategy(
            name="as_written",
            title="As written",
            meaning="a small registered program, run unchanged",
        ),
    )
}

SHARDING_STRATEGIES = tuple(
    name for name, row in STRATEGIES.items() if row.is_sharding and not row.of_sequence
)
SEQUENCE_STRATEGIES = tuple(name for name, row in STRATEGIES.items() if row.of_sequence)
MAP_STRATEGIES = tuple(name for name, row in STRATEGIES.items() if row.is_map)
ALL_STRATEGIES = SHARDING_STRATEGIES + MAP_STRATEGIES
WITH_MAP = ("single", "auto", "shard_map", "pmap(vmap)")  # of each kind one, to begin with
