"""Memory of the Streamlit process after many runs, against after a few.

    python -m bench.memory_growth [--runs 100] [--first 5] [--json]

One viewer submits runs one after another through the screen's own Lab and looks at each result on
Compare, over the websocket.
"""

import asyncio
import sys

from bench.dashboard import LAYER, asking, dashboard, memory_mb, viewer
from bench.figures import command_line
from bench.server import Server
from spmd_core.experiment.experiment import parse_experiment
from spmd_core.experiment.link import encode

LIMIT_MB = 20.0
RERUNS = 3  # of the screen, while and after a run is looked at
QUICK = {"timing": {"samples": 20, "min_seconds": 0.0}}


async def look(server: Server, query: str) -> None:
    """A viewer opens a finished run and looks a few times."""
    async with viewer(server, "compare", query) as session:
        for _ in range(RERUNS):
            await session.rerun()


def main() -> int:
    options, figures = command_line(__doc__, runs=100, first=5)
    with dashboard([]) as (server, _), asking(server) as lab:
        assert server.process is not None
        marks = {}
        for done in range(1, options.runs + 1):
            experiment = parse_experiment(LAYER | QUICK | {"seed": done})
            run = lab.submit(experiment)
            lab.wait(run, 120)
            asyncio.run(look(server, f"experiment={encode(experiment)}&run={run}"))
            if done in (options.first, options.runs):
                marks[done] = memory_mb(server.process.pid)
    growth = marks[options.runs] - marks[options.first]
    note = (
        f"{marks[options.first]:.1f} MB after {options.first}, {marks[options.runs]:.1f} MB "
        f"after {options.runs}"
    )
    figures.add(
        "growth of the Streamlit process over the runs", growth, "MB", most=LIMIT_MB, note=note
    )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
