"""What to try next with each recipe: one change in words, and the fields that it changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.recipes.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Variation:
    """A change to a recipe: in words, and as fields of its spec; `options` are added to those of
    the recipe, a workload starts a new spec.
    """

    words: str
    fields: Mapping[str, Any]

    def of(self, recipe: Recipe) -> Experiment:
        """The changed recipe on this machine's default target."""
        if "workload" in self.fields:
            return parse_experiment(dict(self.fields))
        spec = dict(recipe.spec) | dict(self.fields)
        if "options" in self.fields:
            spec["options"] = {**recipe.spec.get("options", {}), **self.fields["options"]}
        return parse_experiment(spec)


def _sizes(words: str, **sizes: int) -> Variation:
    return Variation(words, {"options": sizes})


def _mesh(words: str, **mesh: int) -> Variation:
    return Variation(words, {"mesh": mesh})


_MAPPED = ["vmap", "jit(vmap)", "pmap", "jit(pmap)", "pmap(jit)", "pmap(vmap)"]
_EVERY = ["single", "auto", "constrained", "explicit", "shard_map"]
_DOTS = {"workload": "dot", "mesh": {"x": 8}, "dims": {"n": 8, "k": 3}, "sharding": {"n": "x"}}
_2X4 = {"x": 2, "y": 4}

VARIATIONS: dict[str, Variation] = {
    "devices": _mesh("take four of the eight for the mesh; jax.devices() still lists all", x=4),
    "unsharded": Variation(
        "place it on the mesh unsharded: now it is replicated on every device",
        {
            "workload": "array",
            "mesh": _2X4,
            "dims": {"d0": 4, "d1": 8},
            "data": {"array": "arange"},
        },
    ),
    "layout_2x4": _mesh("a mesh of 4x2: the rows in four, the columns in two", x=4, y=2),
    "layout_transposed": Variation(
        "both axes on the rows of an 8x8 array",
        {"dims": {"d0": 8, "d1": 8}, "sharding": {"d0": ["y", "x"]}},
    ),
    "layout_replicated": Variation(
        "shard the rows over y instead: four shards, each on two devices", {"sharding": {"d0": "y"}}
    ),
    "layout_both_axes": Variation(
        "y first, then x: the same shards on other devices", {"sharding": {"d1": ["y", "x"]}}
    ),
    "pinned_host": Variation(
        "shard only the rows: four copies of each shard in host memory", {"sharding": {"d0": "x"}}
    ),
    "memory_kinds": _mesh("a mesh of 4x2", x=4, y=2),
    "elementwise": Variation(
        "1024x1024 random numbers: is there work enough to share?",
        {"dims": {"rows": 1024, "cols": 1024}, "data": {}},
    ),
    "contraction": Variation(
        "shard only the columns: each device sums its own, and nothing is communicated",
        {"sharding": {"cols": ["x", "y"]}},
    ),
    "host_to_device": _mesh("a mesh of 4x2", x=4, y=2),
    "device_to_host": _mesh("a mesh of 4x2", x=4, y=2),
    "constrained": Variation(
        "request y replicated: which collective does that take?", {"overrides": {"y": [None]}}
    ),
    "shard_map_elementwise": Variation(
        "a million random numbers", {"dims": {"rows": 1_048_576}, "data": {}, "dtype": "float32"}
    ),
    "local_shape": _mesh("four devices: the function sees (8,)", x=4),
    "shard_sums": _mesh("four devices: four sums, which add up to 496 as well", x=4),
    "psum_total": _mesh("four devices: the same total", x=4),
    "psum": Variation("all five strategies", {"strategies": _EVERY}),
    "layer": Variation(
        "a batch of 1024, sharded over the devices instead: no all-reduce",
        {"dims": {"batch": 1024, "in": 256, "out": 256}, "sharding": {"batch": "x"}},
    ),
    "vdot": _sizes("vectors of a thousand ones", length=1000),
    "six_ways": Variation(
        "the same as a workload, timed: any size, in all six ways", _DOTS | {"strategies": _MAPPED}
    ),
    "six_jaxprs": _sizes("blocks of 10 rows: the reshapes become longer", block=10),
    "six_timings": _sizes("21 runs in place of 7: do the intervals get narrower?", runs=21),
    "many_rows": _sizes("8,000 rows: which way is the fastest now?", rows=8000),
    "ten_million_rows": _sizes(
        "four million rows and three calls: sooner there", rows=4_000_000, calls=3
    ),
    "pmap_squares": _mesh("four devices: four squares", x=4),
    "pmap_more_rows": _sizes("blocks of 3 rows in place of 10", block=3),
    "pmap_fewer_rows": _sizes("five products, on five devices", rows=5),
    "pmap_in_axes": Variation(
        "rows on the devices and one kernel for all, timed: in_axes 0, None",
        {
            "workload": "convolve",
            "mesh": {"x": 8},
            "dims": {"rows": 8, "length": 16, "width": 3},
            "sharding": {"rows": "x"},
            "options": {"in_axes": "0, None"},
            "strategies": ["vmap", "jit(vmap)", "pmap"],
        },
    ),
    "pmap_add": _mesh("four devices: four rows", x=4),
    "pmap_result": _mesh("four devices", x=4),
    "pmap_axes_out": _sizes("six devices in place of four", devices=6),
    "pmap_arguments": _sizes("another static exponent, 5: another program is compiled", exponent=5),
    "pmap_subsets": _mesh("six devices: four for one, two for the other", x=6),
    "pmap_psum": _sizes("eight numbers on eight devices", count=8),
    "pmap_nested": _mesh("a mesh of 2x4", rows=2, cols=4),
    "convolve": Variation(
        "64 longer rows as a timed workload, under every strategy",
        {
            "workload": "convolve",
            "mesh": {"x": 8},
            "dims": {"rows": 64, "length": 256, "width": 3},
            "sharding": {"rows": "x"},
            "strategies": ["single", "auto", "shard_map", "jit(vmap)", "pmap(vmap)"],
        },
    ),
    "numpy_against_jit": _sizes("a matrix of 200x200: is jit still worth it?", size=200),
    "function_transformations": _sizes("f(5) + f(6)", a=5, b=6),
    "quadratic": _sizes("at x = 10: 233 and 43", x=10),
    "partial_derivatives": _sizes("at (5, 1)", x=5, y=1),
    "branching": _sizes("at 10 and -10", x=10),
    "in_place": _sizes("set the last row", row=2),
    "logistic": _sizes(
        "two samples: the function for one takes the batch, and is wrong without a word", samples=2
    ),
    "min_max": _sizes("a batch of ten", batch=10),
    "vmap_in_axes": _sizes("b = 100", b=100),
    "affine": _sizes("a batch of 2: the shapes follow", batch=2),
    "one_key_twice": _sizes("another seed, 7", seed=7),
    "old_random_numbers": _sizes("another seed, 7: old and new numbers of that key", seed=7),
    "numbers_over_devices": _sizes("another key, 7", seed=7),
    "linear_gradient": Variation(
        "the same as a live run: the loss falls while you watch, under five strategies",
        {
            "workload": "train_step",
            "mesh": {"x": 8},
            "dims": {"batch": 64, "in": 3, "out": 1},
            "sharding": {"batch": "x"},
            "options": {"model": "linear", "steps": 200},
            "strategies": ["single", "auto", "explicit", "shard_map", "pmap"],
        },
    ),
    "network_gradient": Variation(
        "a live run: two layers, 400 steps, under four strategies",
        {
            "workload": "train_step",
            "mesh": {"x": 8},
            "dims": {"batch": 128, "in": 2, "hidden": 16, "out": 1},
            "sharding": {"batch": "x"},
            "options": {"model": "two-layer", "steps": 400},
            "strategies": ["single", "auto", "shard_map", "pmap"],
        },
    ),
    "two_processes": _sizes("two devices in each process", each=2),
    "hosts_layout": Variation(
        "swap the axes: now each host holds half of every row",
        {"sharding": {"d0": "chips", "d1": "hosts"}},
    ),
    "hosts_sum_within": Variation(
        "four hosts of one device: the sum has to cross them",
        {"target": "cluster:local:4x1"},
    ),
    "hosts_sum_across": Variation(
        "shard the rows over both axes: one all-reduce over all four devices",
        {"sharding": {"rows": ["hosts", "chips"]}},
    ),
    "fits_70b": Variation(
        "a quarter of the chips, 16",
        {"target": "tpu:v5p:2x2x4", "mesh": {"fsdp": 16}, "dims": {"batch": 32, "sequence": 8192}},
    ),
    "fsdp_or_tensor": _mesh("four chips to a layer: tensor=4", fsdp=64, tensor=4),
    "long_context": Variation("131,072 tokens", {"dims": {"batch": 64, "sequence": 131072}}),
    "mixture_of_experts": _mesh("four devices to the experts: expert=4", fsdp=16, expert=4),
    "remat_or_offload": Variation(
        "save the projections, and offload them to the host",
        {"options": {"remat": "minimal", "offload": "query,key,value,out,mlp_up,mlp_gate"}},
    ),
    "two_slices": _mesh("fsdp over both slices", fsdp=512),
    "why_all_gather": Variation(
        "replicate the weights: nothing is communicated", {"overrides": {}}
    ),
    "host_memory": Variation("offload the block inputs", {"options": {"offload": "input"}}),
    "scaling_out": Variation(
        "512 chips in two slices, the same batch",
        {"target": "tpu:v5e:16x16*2", "mesh": {"data": 2, "fsdp": 256}},
    ),
    "mfu_left": Variation(
        "one sequence per device and minimal rematerialization",
        {"dims": {"batch": 256, "sequence": 8192}, "options": {"remat": "minimal"}},
    ),
}


def variation_of(recipe: Recipe) -> Experiment:
    """The experiment that a recipe's variation is."""
    return VARIATIONS[recipe.name].of(recipe)
