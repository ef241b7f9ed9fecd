"""Where the lab is used: calibration beside loops by hand, machines that are not here, members of a
cluster. `python -m bench.hosts PART`; see `PARTS`.
"""

import argparse
import math
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from bench.figures import Figures
from spmd_core.base import seconds_text

DEVICES = 8


def calibration(figures: Figures, rounds: int) -> None:
    """Slopes beside long loops that are written here: copies, matmuls, collectives. In turns, since
    the machine may be busy; the faster quarter of each side's rounds is compared.
    """
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    from spmd_core.engine.ceilings import calibration as measured
    from spmd_core.engine.ceilings.collective_sweep import measure
    from spmd_core.engine.ceilings.slopes import Repeated, Unsteady, each_s
    from spmd_core.engine.lower import execute
    from spmd_core.experiment import parse_experiment
    from spmd_core.script import program_text
    from spmd_core.time import Case

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    fields = {"target": f"cpu:{DEVICES}", "mesh": {"x": DEVICES}}
    names, swept = (
        execute(
            program_text(parse_experiment({"workload": name, **fields}), "as_written"), f"{name}.py"
        )
        for name in ("calibrate", "collectives")
    )
    mesh, spec = names["mesh"], PartitionSpec("x")

    def by_hand(
        body: Callable[..., Any], count: int, *shapes: tuple[int, ...]
    ) -> Callable[[], float]:
        """Seconds of one turn of a loop of so many, the call's own seconds lost among them."""
        place = NamedSharding(mesh, spec)
        arrays = [jax.device_put(jnp.full((DEVICES, *shape), 0.01), place) for shape in shapes]

        def run(first: Any, *others: Any) -> Any:
            inside = tuple(each[0] for each in others)
            return jax.lax.scan(lambda x, _: (body(x, *inside), None), first[0], length=count)[0][
                None
            ]

        whole = jax.shard_map(
            run, mesh=mesh, in_specs=(spec,) * len(arrays), out_specs=spec, check_vma=False
        )
        call = jax.jit(whole).lower(*arrays).compile()

        def seconds() -> float:
            start = perf_counter()
            jax.block_until_ready(call(*arrays))
            return (perf_counter() - start) / count

        return seconds

    def of_operation(once: str, *shapes: tuple[int, ...]) -> Callable[[], float]:
        arrays = [names["filled"](mesh, shape, "float32") for shape in shapes]
        program = Repeated(names, mesh, names[once], arrays)

        def seconds() -> float:
            try:
                return each_s(program, measured.POINT_S)
            except Unsteady:
                return math.inf  # refused, which is not slow

        return seconds

    def of_collective(kind: str, nbytes: int) -> Callable[[], float]:
        case = Case(kind, ("x",), DEVICES, "float32", (nbytes,))

        def seconds() -> float:
            point = measure(case, nbytes, swept, measured.POINT_S)
            return point.time_s or math.inf

        return seconds

    turning = [(place, (place + 1) % DEVICES) for place in range(DEVICES)]
    twice: dict[str, Callable[[Any], Any]] = {
        "all-reduce": lambda x: jax.lax.psum(jax.lax.psum(x, "x"), "x"),
        "collective-permute": lambda x: jax.lax.ppermute(
            jax.lax.ppermute(x, "x", turning), "x", turning
        ),
        "all-to-all": lambda x: jax.lax.all_to_all(
            jax.lax.all_to_all(x, "x", 0, 0, tiled=True), "x", 0, 0, tiled=True
        ),
    }
    rows = {
        f"copy {side}": (
            of_operation("added", (side, side)),
            by_hand(lambda x: x + 1, max(20, 2 * 10**8 // side**2 // 4), (side, side)),
            1,
        )
        for side in (128, 1024, 2896)
    } | {
        f"matmul {side}": (
            of_operation("products", *[(side, side)] * 3),
            by_hand(lambda a, b, c: (a @ b) @ c, max(6, 3 * 10**9 // side**3), *[(side, side)] * 3),
            1,
        )
        for side in (64, 256, 512)
    }
    for kind, body in twice.items():
        for nbytes in (2**14, 2**20):
            count = 600 if nbytes < 2**18 else 60
            rows[f"{kind} {nbytes}"] = (
                of_collective(kind, nbytes),
                by_hand(body, count, (nbytes // 4,)),
                2,
            )
    for name, (ours, theirs, times) in rows.items():
        theirs()
        pairs = [(ours(), theirs() / times) for _ in range(rounds)]
        told = [pair for pair in pairs if pair[0] < math.inf]
        best = [sorted(each)[len(told) // 4] for each in zip(*told, strict=True)] if told else []
        figures.add(
            f"{name}, over a loop by hand",
            best[0] / best[1] if best else math.nan,
            least=0.9,
            most=1.1,
            note=f"{seconds_text(best[0]) if best else 'nothing'}, refused {rounds - len(told)} of {rounds}",
        )


PARTS: dict[str, Callable[[Figures, int], None]] = {"calibration": calibration}


def main() -> int:
    """Print each figure beside its goal; exit code 1 where one is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.hosts", description=__doc__)
    parser.add_argument("part", choices=PARTS, nargs="?", default="calibration")
    parser.add_argument("--count", type=int, default=7, help="rounds, machines, runs or kills")
    options, figures = parser.parse_args(), Figures()
    PARTS[options.part](figures, options.count)
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
