"""The tutorial "Parallel programming with JAX", cell by cell: layouts, jit, constraints, shard_map,
and one layer in all ways.
"""

from typing import Any

from spmd_core.recipes.recipe import Expected, Recipe

DATA = "Data sharding"
AUTO = "Automatic parallelism with jit"
MEMORY = "Between memory kinds"
CONSTRAINED = "Semi-automated sharding"
MANUAL = "Manual parallelism with shard_map"
THREE = "Comparing the approaches"

MESH_2X4 = {"x": 2, "y": 4}
MESH_8 = {"x": 8}
COUNTED = tuple(float(number) for number in range(32))
COLUMN_SUMS = (48.0, 52.0, 56.0, 60.0, 64.0, 68.0, 72.0, 76.0)
# 2 sin(n) + 1 for n = 0 … 31, as the tutorial prints it.
SINES = (
    1.0,
    2.682942,
    2.818595,
    1.28224,
    -0.513605,
    -0.9178486,
    0.44116896,
    2.3139732,
    2.9787164,
    1.824237,
    -0.08804226,
    -0.99998045,
    -0.07314599,
    1.8403342,
    2.9812148,
    2.3005757,
    0.42419332,
    -0.92279506,
    -0.50197446,
    1.2997544,
    2.8258905,
    2.6733112,
    0.98229736,
    -0.69244075,
    -0.81115675,
    0.7352965,
    2.525117,
    2.912752,
    1.5418116,
    -0.32726777,
    -0.97606325,
    0.19192469,
)
LAYER = (0.02138914, 0.89311206, 0.5989201, 0.97742504)
ALL_REDUCE = frozenset({"all-reduce"})
NONE = frozenset[str]()


def _array(sharding: dict[str, object], memory: str = "device") -> dict[str, object]:
    return {
        "workload": "array",
        "mesh": MESH_2X4,
        "dims": {"d0": 4, "d1": 8},
        "sharding": sharding,
        "memory": {"array": memory},
        "data": {"array": "arange"},
    }


def _program(name: str, mesh: dict[str, int]) -> dict[str, object]:
    return {"workload": "program", "mesh": mesh, "options": {"program": name}}


def _on_4x8(workload: str, **more: Any) -> dict[str, object]:
    return {
        "workload": workload,
        "mesh": MESH_2X4,
        "dims": {"rows": 4, "cols": 8},
        "sharding": {"rows": "x", "cols": "y"},
        "data": {"x": "arange"},
    } | more


def _on_32(workload: str, **more: Any) -> dict[str, object]:
    return {
        "workload": workload,
        "mesh": MESH_8,
        "dims": {"rows": 32},
        "sharding": {"rows": "x"},
        "data": {"x": "arange"},
        "dtype": "int32",
    } | more


RECIPES = (
    Recipe(
        "unsharded",
        "An array that nobody sharded",
        DATA,
        _program("unsharded_array", MESH_2X4),
        "One device holds it all: SingleDeviceSharding, memory kind device.",
        "An array made by jnp.arange is on the first device alone. That is a sharding as well: "
        "SingleDeviceSharding. Everything else in this "
        "tutorial starts by moving such an array onto a mesh with jax.device_put.",
        expected=Expected(
            values={"arr": COUNTED},
            shards={0: ((0, 4), (0, 8))},
            printed={"devices that hold it": "1", "sharding": "SingleDeviceSharding"},
        ),
    ),
    Recipe(
        "layout_2x4",
        "Who holds what of a 4 × 8 array?",
        DATA,
        _array({"d0": "x", "d1": "y"}),
        "Device 0 holds rows 0 and 1 of columns 0 and 1; eight shards of shape (2, 2), and "
        "nothing twice.",
        "P('x', 'y') shards the rows over mesh axis x and the columns over y. Each device holds "
        "an eighth of the array, and the shards are arranged "
        "in the array as the devices are in the mesh: moving along x moves down the rows.",
        "layout",
        Expected(
            values={"array": COUNTED},
            specs={"array": ("x", "y")},
            shards={0: ((0, 2), (0, 2)), 1: ((0, 2), (2, 4)), 7: ((2, 4), (6, 8))},
        ),
    ),
    Recipe(
        "layout_transposed",
        "The same mesh, axes exchanged",
        DATA,
        _array({"d0": "y", "d1": "x"}),
        "Shards of shape (1, 4): four blocks of rows, two of columns. Device 1 is now below "
        "device 0.",
        "P('y', 'x') on the same mesh: the rows are sharded four ways and the columns two ways. "
        "Which device holds what "
        "has changed, the number of bytes "
        "per device has not. What is better depends on which dim is contracted later.",
        "layout",
        Expected(
            values={"array": COUNTED},
            specs={"array": ("y", "x")},
            shards={0: ((0, 1), (0, 4)), 1: ((1, 2), (0, 4)), 4: ((0, 1), (4, 8))},
        ),
    ),
    Recipe(
        "layout_replicated",
        "Rows sharded, columns replicated",
        DATA,
        _array({"d0": "x"}),
        "Two different shards, each on four devices: replication factor 4, and four times the "
        "bytes in all.",
        "P('x', None) uses one of the two axes. Along the axis that is not used the shards are "
        "copies: the array takes four times its size. "
        "Replication is what weights cost under data parallelism.",
        "layout",
        Expected(
            values={"array": COUNTED},
            specs={"array": ("x", None)},
            shards={0: ((0, 2), (0, 8)), 3: ((0, 2), (0, 8)), 4: ((2, 4), (0, 8))},
        ),
    ),
    Recipe(
        "layout_both_axes",
        "Both axes on one dim",
        DATA,
        _array({"d1": ["x", "y"]}),
        "Eight column shards of shape (4, 1); their order follows x first, then y.",
        "P(None, ('x', 'y')) shards the columns over both axes together, eight ways. The first "
        "axis of the list is the major one: exchange them, and "
        "the same eight shards are on other devices.",
        "layout",
        Expected(
            values={"array": COUNTED},
            specs={"array": (None, ["x", "y"])},
            shards={0: ((0, 4), (0, 1)), 1: ((0, 4), (1, 2)), 4: ((0, 4), (4, 5))},
        ),
    ),
    Recipe(
        "pinned_host",
        "What is in host memory?",
        DATA,
        _array({"d0": "x", "d1": "y"}, "pinned_host"),
        "The same shards as in device memory; after placing, the memory kind reads pinned_host.",
        "A sharding has a memory kind beside its spec. pinned_host keeps each device's shard in "
        "the memory of its host, where there is more of it; "
        "a computation has to bring it over first.",
        "layout",
        Expected(
            values={"array": COUNTED},
            memory={"array": "pinned_host"},
            shards={0: ((0, 2), (0, 2)), 7: ((2, 4), (6, 8))},
        ),
    ),
    Recipe(
        "memory_kinds",
        "Host and device, side by side",
        DATA,
        _program("memory_kinds", MESH_2X4),
        "Two arrays with the same spec and the same shards, one reporting pinned_host and "
        "one device.",
        "with_memory_kind gives the same sharding in another memory. jax.device_put to it moves "
        "the bytes and nothing else.",
        expected=Expected(
            values={"arr_host": COUNTED, "arr_dev": COUNTED},
            specs={"arr_host": ("x", "y"), "arr_dev": ("x", "y")},
            memory={"arr_host": "pinned_host", "arr_dev": "device"},
            printed={"memory of arr_host": "pinned_host", "memory of arr_dev": "device"},
        ),
    ),
    Recipe(
        "elementwise",
        "Elementwise keeps the sharding",
        AUTO,
        _on_4x8("elementwise", strategies=["single", "auto"]),
        "y = 2 sin(x) + 1 for 0 … 31. Under Details, Layouts, Automatic: y is sharded as x is. Under "
        "Why: none.",
        "2 sin(x) + 1 needs nothing of an element's neighbors. The compiler sees how x is sharded "
        "and gives the result the same sharding: "
        "each device works on its own shard.",
        expected=Expected(values={"y": SINES}, specs={"y": ("x", "y")}, collectives={"auto": NONE}),
    ),
    Recipe(
        "contraction",
        "What does a sum over rows send?",
        AUTO,
        _on_4x8("contraction", strategies=["single", "auto"]),
        "The values 48, 52 … 76. Under Why: Automatic contains one all-reduce over x. "
        "Under Details, Layouts: y "
        "is sharded over mesh axis y alone.",
        "Summing over the rows needs all of them, and they are sharded over x: each device sums "
        "its own rows, and an all-reduce over x adds the "
        "partial sums. The columns stay sharded over y, and along x the result is replicated.",
        expected=Expected(
            values={"y": COLUMN_SUMS}, specs={"y": ("y",)}, collectives={"auto": ALL_REDUCE}
        ),
        asks_why=True,
    ),
    Recipe(
        "host_to_device",
        "Host to device, inside jit",
        MEMORY,
        _program("host_to_device", MESH_2X4),
        "The memory kind before (pinned_host) and after (device); the values are the same.",
        "out_shardings with another memory kind makes jit do the transfer, so that the compiler "
        "can overlap it with computation. "
        "That is how weights or optimizer state kept on the host stream in.",
        expected=Expected(
            values={"out_dev": COUNTED},
            memory={"out_dev": "device"},
            printed={"memory before": "pinned_host", "memory after": "device"},
        ),
    ),
    Recipe(
        "device_to_host",
        "Device to host, inside jit",
        MEMORY,
        _program("device_to_host", MESH_2X4),
        "The memory kind before (device) and after (pinned_host); the values are the same.",
        "The other way round: a result whose out_shardings says pinned_host is written to host "
        "memory. "
        "Activations are offloaded this way, to come back for the backward pass.",
        expected=Expected(
            values={"out_host": COUNTED},
            memory={"out_host": "pinned_host"},
            printed={"memory before": "device", "memory after": "pinned_host"},
        ),
    ),
    Recipe(
        "constrained",
        "A constrained result",
        CONSTRAINED,
        _on_4x8("contraction", overrides={"y": ["x"]}, strategies=["auto", "constrained"]),
        "The same values 48 … 76, but sharded over x. Under Why: a collective-permute "
        "and an all-gather beside the all-reduce.",
        "Left alone, the sum is sharded over y. Asking for P('x') instead (out_shardings in "
        "Automatic, with_sharding_constraint in Constrained) "
        "makes the compiler move the result: an all-reduce is no longer all that it needs.",
        expected=Expected(
            values={"y": COLUMN_SUMS}, specs={"y": ("x",)}, shards={0: ((0, 4),), 4: ((4, 8),)}
        ),
    ),
    Recipe(
        "shard_map_elementwise",
        "Elementwise by hand",
        MANUAL,
        _on_32("elementwise", strategies=["auto", "shard_map"]),
        "32 values on 8 devices, 4 on each (Details, Layouts), and no communication under either "
        "strategy.",
        "shard_map runs the function once per shard, on the shard alone. For an elementwise "
        "function that is all there is to do, "
        "and the compiler finds the same program on its own.",
        expected=Expected(
            values={"y": SINES},
            specs={"y": ("x",)},
            collectives={"auto": NONE, "shard_map": NONE},
            shards={0: ((0, 4),), 7: ((28, 32),)},
        ),
    ),
    Recipe(
        "local_shape",
        "What one device sees",
        MANUAL,
        _program("local_shape", MESH_8),
        "The global shape is (32,); the function inside shard_map sees (4,).",
        "in_specs=P('x') shards the argument over the 8 devices before the function sees it. The "
        "function is traced "
        "once, with the shape of one shard.",
        expected=Expected(
            values={"y": tuple(2.0 * n for n in range(32))},
            printed={"global shape": "(32,)", "device local shape": "(4,)"},
        ),
    ),
    Recipe(
        "shard_sums",
        "One sum per device",
        MANUAL,
        _program("shard_sums", MESH_8),
        "Eight sums: 6, 22, 38 … 118, one of each device.",
        "A sum inside shard_map is the sum of the shard: nothing is communicated. "
        "out_specs=P('x') puts the eight results side by side.",
        expected=Expected(
            values={"sums": (6, 22, 38, 54, 70, 86, 102, 118)},
            shapes={"sums": (8,)},
            specs={"sums": ("x",)},
        ),
    ),
    Recipe(
        "psum_total",
        "The total, by psum",
        MANUAL,
        _program("psum_total", MESH_8),
        "The number 496, which every device holds.",
        "psum over the mesh axis x adds the sums of all devices and gives every one of them "
        "the total; "
        "so out_specs=P() may say that the result is replicated.",
        expected=Expected(values={"total": (496,)}, shapes={"total": ()}),
    ),
    Recipe(
        "psum",
        "A full sum: which way is fastest?",
        MANUAL,
        _on_32("contraction", strategies=["single", "auto", "shard_map"]),
        "496 each time. Under Why: one all-reduce over x in Automatic, and one in shard_map.",
        "The psum written by hand and the one that the compiler inserts are the same collective. "
        "What differs is who decided on it.",
        expected=Expected(
            values={"y": (496,)},
            shapes={"y": ()},
            collectives={"single": NONE, "auto": ALL_REDUCE, "shard_map": ALL_REDUCE},
        ),
    ),
    Recipe(
        "layer",
        "Which strategy is fastest for a layer?",
        THREE,
        {
            "workload": "layer",
            "mesh": MESH_8,
            "dims": {"in": 32, "out": 4},
            "sharding": {"in": "x"},
            "strategies": ["single", "auto", "constrained", "explicit", "shard_map"],
        },
        "Who is fastest; one all-reduce in each strategy but Single device; and the values "
        "0.02138914, 0.89311206, 0.5989201, 0.97742504 "
        "below, but for rounding in the seventh digit.",
        "sigmoid(x @ weights + bias) with the contracted dim sharded over 8 devices. The "
        "compiler, a constraint, types and shard_map all arrive at "
        "partial products and an all-reduce. At this size one device is faster than eight: there "
        "is more communication than work.",
        expected=Expected(
            values={"y": LAYER},
            collectives={
                "single": NONE,
                "auto": ALL_REDUCE,
                "explicit": ALL_REDUCE,
                "shard_map": ALL_REDUCE,
            },
        ),
    ),
)
