"""Multiple processes: each runs the same program on its own devices, and collectives span all of
them.
"""

from typing import Any

from spmd_core.recipes.recipe import Expected, Recipe, program_spec

GROUP = "Many processes"
_SUMS = tuple(float(each) for each in range(48, 77, 4))
_ALL_REDUCE = {"auto": frozenset({"all-reduce"})}
_TAKES = "10 to 30 seconds the first time: the other process starts JAX"


def _on_hosts(workload: str, **fields: Any) -> dict[str, object]:
    """The spec of something on two processes of two devices, of which each axis has two."""
    mesh = {"hosts": 2, "chips": 2}
    return {"workload": workload, "target": "cluster:local:2", "mesh": mesh, **fields}


def _sum_over(rows: str, cols: str) -> dict[str, object]:
    """The sum over the rows of the numbers 0 to 31, of which a row is 8."""
    return _on_hosts(
        "contraction",
        dims={"rows": 4, "cols": 8},
        data={"x": "arange"},
        sharding={"rows": rows, "cols": cols},
        strategies=["auto"],
    )


RECIPES = (
    Recipe(
        "two_processes",
        "Two processes of four devices",
        GROUP,
        program_spec("two_processes"),
        "28 … 31 in the first process and 32 … 35 in the second: the sum 28 is over all eight "
        "devices.",
        "On a TPU pod each host runs its own process and sees its own devices; jax.distributed "
        "joins them. Here two processes with four simulated "
        "devices each meet on this machine. Each passes four numbers to pmap; psum adds all "
        "eight. The program starts both, waits for them for at "
        "most a minute, and ends them.",
        expected=Expected(
            exact={
                "process_0": (28, 29, 30, 31),
                "process_1": (32, 33, 34, 35),
                "together": tuple(range(28, 36)),
            },
            printed={"devices": "8 in all, 4 of each process"},
        ),
        takes="20 s: two more processes start JAX",
    ),
    Recipe(
        "hosts_layout",
        "Who holds what on two hosts",
        GROUP,
        _on_hosts(
            "array",
            dims={"d0": 4, "d1": 8},
            data={"array": "arange"},
            sharding={"d0": "hosts", "d1": "chips"},
        ),
        "Two groups of devices below the mesh, one for each host: host 0 holds the upper two rows, "
        "host 1 the lower two, and each device half of their columns.",
        "A mesh names devices of all hosts in one order, those of a host next to each other. An "
        "axis whose size is the number of hosts, in front of the others, then has one host at each "
        "of its places. Each process makes only the shards of its own devices "
        "(jax.make_array_from_callback), and none can read those of the others.",
        screen="layout",
        expected=Expected(
            shards={
                0: ((0, 2), (0, 4)),
                1: ((0, 2), (4, 8)),
                2: ((2, 4), (0, 4)),
                3: ((2, 4), (4, 8)),
            }
        ),
        takes=_TAKES,
    ),
    Recipe(
        "hosts_sum_within",
        "A sum that stays within hosts",
        GROUP,
        _sum_over("chips", "hosts"),
        "The values 48, 52 … 76, and one all-reduce over chips: no pair of devices of different "
        "hosts exchanges anything. The result names the time of each process.",
        "The rows, over which the sum goes, are sharded over chips, which are within a host. On a TPU "
        "slice that is the interconnect of four chips; between slices or GPU nodes it is what keeps "
        "a collective off the network. The verdict on values is of all processes: each judges the "
        "shards that it holds.",
        expected=Expected(values={"y": _SUMS}, specs={"y": ("hosts",)}, collectives=_ALL_REDUCE),
        takes=_TAKES,
    ),
    Recipe(
        "hosts_sum_across",
        "The same sum across hosts",
        GROUP,
        _sum_over("hosts", "chips"),
        "The same values, and one all-reduce over hosts instead. Compare the time with that of the "
        "sum within hosts: here processes exchange it through Gloo's sockets.",
        "The axes have changed places, and nothing else: as many devices, bytes and additions. What "
        "a collective costs depends on the links that its axis crosses. So the axis that "
        "communicates most (tensor) belongs within a host or a slice, and the one that communicates "
        "once a step (data) may span them.",
        expected=Expected(values={"y": _SUMS}, specs={"y": ("chips",)}, collectives=_ALL_REDUCE),
        takes=_TAKES,
    ),
)
