"""How a sharding is imposed on a computation: the strategies, described as data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy's name, its one-line meaning, and a caveat for reading its numbers."""

    name: str
    title: str
    meaning: str
    caution: str = ""


_PMAP = "called, not compiled ahead of time: each call also pays for Python finding the compiled program"

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy(
            "single",
            "Single device",
            "jit on one device: the baseline, no mesh and no communication",
        ),
        Strategy(
            "auto",
            "Automatic",
            "operands are placed with NamedSharding on a mesh of Auto axes; the compiler decides the rest",
        ),
        Strategy(
            "constrained",
            "Constrained",
            "with_sharding_constraint on operands and results inside jit; the operands come unsharded",
            "the compiler moves the constraint to the parameters, so a call with unsharded operands reshards them each time: both are timed",
        ),
        Strategy(
            "explicit",
            "Explicit",
            "sharding in types: a mesh of Explicit axes, and out_sharding where a contraction is ambiguous",
        ),
        Strategy(
            "shard_map", "shard_map", "one program per shard, with the collectives written by hand"
        ),
        Strategy(
            "vmap",
            "vmap",
            "jax.vmap over the rows, called as it is: every operation by itself, on one device",
        ),
        Strategy("jit(vmap)", "jit(vmap)", "jax.jit of jax.vmap: one program on one device"),
        Strategy("pmap", "pmap", "jax.pmap: one row to each device", _PMAP),
        Strategy("jit(pmap)", "jit(pmap)", "jax.jit around jax.pmap", _PMAP),
        Strategy("pmap(jit)", "pmap(jit)", "jax.pmap of a function under jax.jit", _PMAP),
        Strategy(
            "pmap(vmap)",
            "pmap(vmap)",
            "jax.pmap over the devices of jax.vmap over each device's rows",
            _PMAP,
        ),
        Strategy("place", "Placing", "jax.device_put of the array with its NamedSharding"),
        Strategy("as_written", "As written", "a small registered program, run unmodified"),
    )
}

SHARDING_STRATEGIES = ("single", "auto", "constrained", "explicit", "shard_map")
MAP_STRATEGIES = ("vmap", "jit(vmap)", "pmap", "jit(pmap)", "pmap(jit)", "pmap(vmap)")
ALL_STRATEGIES = SHARDING_STRATEGIES + MAP_STRATEGIES
WITH_MAP = ("single", "auto", "shard_map", "pmap(vmap)")  # the default: one of each kind
ONE_DEVICE = ("single", "vmap", "jit(vmap)")  # strategies that use no mesh
# strategies whose collectives are in the program's own text
BY_HAND = ("shard_map", "pmap", "jit(pmap)", "pmap(jit)", "pmap(vmap)")
# strategies whose collectives the compiler inserts
BY_COMPILER = ("auto", "constrained", "explicit")
