"""How a dashboard bears viewers of a stored Compare result, beside a plain Streamlit page; and what
a viewer of a running experiment costs.

    python -m bench.viewers [--viewers 25,50] [--rounds 10] [--ticks 20] [--json]

Each viewer is a session over the real websocket that reruns its page and rests for a second. Both
pages are served one after the other, each by a fresh server with nothing else to do.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from bench.dashboard import LAYER, Viewer, asking, cpu_s, dashboard, viewer
from bench.figures import Asked, Figures, measure
from bench.server import Server
from spmd_core.experiment import encode, parse_experiment

REST_S = 1.0  # between two reruns of a viewer
TICK_S = 0.5  # between two ticks, as the screen asks for them
WATCHERS = 10  # of a running experiment
SHARE = 0.5  # of the plain page's median that a rerun of Compare may take
TICK_MS = 10.0
PLAIN_PAGE = Path(__file__).with_name("plain_page.py")
LONG = LAYER | {"timing": {"samples": 1000, "min_seconds": 60.0}}


async def watched(server: Server, page: str, query: str, rounds: int) -> list[float]:
    """Seconds of each rerun of one viewer, the first of a session left out."""
    taken = []
    async with viewer(server, page, query) as session:
        await session.rerun()
        for _ in range(rounds):
            await asyncio.sleep(REST_S)
            begun = time.perf_counter()
            await session.rerun()
            taken.append(time.perf_counter() - begun)
    return taken


async def crowd(server: Server, page: str, query: str, viewers: int, rounds: int) -> list[float]:
    """Seconds of every rerun of so many viewers at once, sorted."""
    each = await asyncio.gather(*(watched(server, page, query, rounds) for _ in range(viewers)))
    return sorted(seconds for taken in each for seconds in taken)


def reruns(server: Server, page: str, query: str, viewers: int, rounds: int) -> tuple[float, str]:
    """Median milliseconds of a rerun in a crowd, and a note with more of them."""
    assert server.process is not None
    cpu = cpu_s(server.process.pid)
    taken = asyncio.run(crowd(server, page, query, viewers, rounds))
    cpu_ms = 1e3 * (cpu_s(server.process.pid) - cpu) / len(taken)
    last = taken[int(0.95 * len(taken))]
    return 1e3 * statistics.median(taken), (
        f"95th percentile {1e3 * last:.0f} ms, {cpu_ms:.1f} ms CPU a rerun, {len(taken)} reruns"
    )


def compare_with_plain(figures: Figures, crowds: list[int], rounds: int) -> None:
    """Reruns of a stored Compare result in crowds, each beside the plain page's."""
    medians, notes = {}, {}
    with dashboard([LAYER]) as (server, runs):
        query = f"experiment={encode(parse_experiment(LAYER))}&run={runs[0]}"
        for viewers in crowds:
            medians[viewers], notes[viewers] = reruns(server, "compare", query, viewers, rounds)
    with tempfile.TemporaryDirectory(prefix="spmd-lab-bench-") as folder:
        server = Server(Path(folder), script=str(PLAIN_PAGE))
        server.start()
        try:
            for viewers in crowds:
                plain, note = reruns(server, "", "", viewers, rounds)
                figures.add(f"a rerun of a plain page, {viewers} viewers", plain, "ms", note=note)
                figures.add(
                    f"a rerun of Compare, {viewers} viewers",
                    medians[viewers],
                    "ms",
                    most=SHARE * plain,
                    note=notes[viewers],
                )
        finally:
            server.stop()


async def ticking(server: Server, query: str, ticks: int) -> tuple[float, int]:
    """CPU seconds of the server while viewers watch a running experiment, and their ticks."""
    assert server.process is not None

    async def watch(session: Viewer) -> None:
        for _ in range(ticks):
            await asyncio.sleep(TICK_S)
            await session.tick()

    sessions = [viewer(server, "compare", query) for _ in range(WATCHERS)]
    opened = [await session.__aenter__() for session in sessions]
    for session in opened:
        await session.rerun()
        await session.tick()
    cpu = cpu_s(server.process.pid)
    await asyncio.gather(*map(watch, opened))
    used = cpu_s(server.process.pid) - cpu
    for session in sessions:
        await session.__aexit__(None, None, None)
    return used, ticks * WATCHERS


def tick_of_a_run(figures: Figures, ticks: int) -> None:
    """What a tick of a viewer of a running experiment costs the server, the run itself not
    counted.
    """
    with dashboard([]) as (server, _), asking(server) as lab:
        assert server.process is not None
        experiment = parse_experiment(LONG)
        run = lab.submit(experiment)
        while not lab.status(run).done:
            time.sleep(0.1)
        query = f"experiment={encode(experiment)}&run={run}"
        asyncio.run(ticking(server, query, 2))  # what is imported and cached once
        alone, begun = cpu_s(server.process.pid), time.perf_counter()
        time.sleep(ticks * TICK_S)
        share = (cpu_s(server.process.pid) - alone) / (time.perf_counter() - begun)
        begun = time.perf_counter()
        used, count = asyncio.run(ticking(server, query, ticks))
        own = share * (time.perf_counter() - begun)
        lab.cancel(run)
        lab.wait(run, 60)
    figures.add(
        "a tick of a viewer of a running experiment",
        1e3 * (used - own) / count,
        "ms CPU",
        most=TICK_MS,
        note=f"{count} ticks of {WATCHERS} viewers; following the run takes "
        f"{1e3 * share:.1f} ms a second besides",
    )


def main(options: Asked, figures: Figures) -> None:
    tick_of_a_run(figures, options.ticks)
    compare_with_plain(figures, [int(each) for each in options.viewers.split(",")], options.rounds)


if __name__ == "__main__":
    measure(main, __doc__, viewers="25,50", rounds=10, ticks=20)
