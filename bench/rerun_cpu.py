"""CPU time of one rerun of Layout (512 devices, drawn) and of Compare with a stored result.

    python -m bench.rerun_cpu [--reruns 60] [--json]

A real session over the websocket of a real dashboard; what counts is the CPU time of the Streamlit
process and all its threads.
"""

import asyncio
import sys
import time

from bench.dashboard import LAYER, cpu_s, dashboard, viewer
from bench.figures import command_line
from bench.server import Server
from spmd_core.experiment.experiment import parse_experiment
from spmd_core.experiment.link import encode

WARM_UP = 10
LIMITS_MS = {"layout": 60.0, "compare": 40.0}
ARRAY = {
    "workload": "array",
    "target": "cpu:8",
    "mesh": {"x": 8, "y": 8, "z": 8},
    "dims": {"d0": 64, "d1": 64, "d2": 64},
    "sharding": {"d0": "x", "d1": "y", "d2": "z"},
}


async def rerun_ms(server: Server, page: str, query: str, reruns: int) -> tuple[float, float]:
    """CPU and wall milliseconds of one rerun, on average."""
    assert server.process is not None
    async with viewer(server, page, query) as session:
        for _ in range(WARM_UP):
            await session.rerun()
        cpu, wall = cpu_s(server.process.pid), time.perf_counter()
        for _ in range(reruns):
            if not await session.rerun():
                raise SystemExit(f"{page} drew no chart: that is not the rerun to measure")
        return 1e3 * (cpu_s(server.process.pid) - cpu) / reruns, 1e3 * (
            time.perf_counter() - wall
        ) / reruns


def main() -> int:
    options, figures = command_line(__doc__, reruns=60)
    with dashboard([LAYER]) as (server, runs):
        screens = {
            "layout": f"experiment={encode(parse_experiment(ARRAY))}",
            "compare": f"experiment={encode(parse_experiment(LAYER))}&run={runs[0]}",
        }
        for page, query in screens.items():
            cpu, wall = asyncio.run(rerun_ms(server, page, query, options.reruns))
            figures.add(
                f"a rerun of {page}",
                cpu,
                "ms CPU",
                most=LIMITS_MS[page],
                note=f"{wall:.1f} ms on the clock, {options.reruns} reruns",
            )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
