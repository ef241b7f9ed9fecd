"""A hundred visitors without cookies from one address, each of whom asks for a run, beside one user
from another: after how many of theirs the user's run is taken.

    python -m bench.visitors_apart [--visitors 100] [--json]
"""

import asyncio
import time
from urllib.parse import urlencode

from bench.dashboard import LAYER, asking, dashboard, viewer
from bench.figures import Asked, Figures, measure
from bench.server import Server
from spmd_core.experiment import encode, parse_experiment
from spmd_core.lab import Lab

CROWD, USER = "127.0.0.2", "127.0.0.1"
AT_ONCE = 8  # sessions that press Run at the same time
PLACES = 3  # within which the user's run is to be taken
QUEUED = 20  # runs that one address may have
WAIT_S = 300


async def ask(server: Server, seed: int, address: str, header: str | None = None) -> bool:
    """Open an experiment of its own on Compare and press Run; whether there was such a button."""
    spec = LAYER | {"seed": seed, "timing": {"samples": 20, "min_seconds": 2.0}}
    query = urlencode({"experiment": encode(parse_experiment(spec))})
    async with viewer(server, "compare", query, address, header) as session:
        drawn = await session.open("compare", query)
        if "Run" not in drawn.buttons:
            return False
        await session.open("compare", query, press=drawn.buttons["Run"])
        return True


async def crowd(server: Server, visitors: int) -> int:
    """All of them, a few at a time; how many pressed Run. Each says that it is somewhere else."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> bool:
        async with free:
            return await ask(server, 1 + number, CROWD, f"198.51.100.{number % 250}")

    return sum(await asyncio.gather(*(one(number) for number in range(visitors))))


def place_taken(lab: Lab, run: str) -> tuple[int, str]:
    """1 for the next run to be taken, 2 for the one after it; and the run's state."""
    deadline = time.monotonic() + WAIT_S
    while (status := lab.status(run)).state == "queued" and time.monotonic() < deadline:
        time.sleep(0.1)
    if status.started_at is None:
        return 10**6, status.state
    asked_at = next(each.submitted_at for each in lab.history() if each.run == run)
    others = [lab.status(each.run) for each in lab.history() if each.run != run]
    before = [
        each
        for each in others
        if each.started_at is not None and asked_at < each.started_at < status.started_at
    ]
    return 1 + len(before), status.state


def main(options: Asked, figures: Figures) -> None:
    with dashboard([]) as (server, _), asking(server) as lab:
        pressed = asyncio.run(crowd(server, options.visitors))
        queued = len(lab.active())
        before = {each.run for each in lab.history()}
        asyncio.run(ask(server, 0, USER))
        own = [each.run for each in lab.history() if each.run not in before]
        place, state = place_taken(lab, own[0]) if own else (10**6, "refused")
        figures.add("visitors that pressed Run", pressed, least=options.visitors)
        figures.add("runs of theirs that wait or are at work", queued, least=PLACES, most=QUEUED)
        figures.add("place at which the user's run is taken", place, most=PLACES, note=state)
        for status in lab.active():
            lab.cancel(status.run)


if __name__ == "__main__":
    measure(main, __doc__, visitors=100)
