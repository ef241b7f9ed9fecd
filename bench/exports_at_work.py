"""Downloads of every kind by visitors who are at work at the same time, under a login: those that
come, and those whose address is served without its cookie.

    python -m bench.exports_at_work [--visitors 12] [--each 1000] [--json]
"""

import asyncio
import os
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

from bench.closed_doors import standin
from bench.dashboard import Viewer, viewer
from bench.figures import Asked, Figures, measure
from bench.login_states import ANN, cookie_header, set_up, signed
from bench.server import Server
from spmd_core.lab import Lab, examples


def screens() -> tuple[tuple[str, str], ...]:
    """Pages and queries, of runs that came with the program: measured ones and training steps."""
    measured, other, *_, step, wider = examples.run_ids()
    shown = ("", f"runs={measured}", f"runs={measured},{other}")
    return (
        *(("history", query) for query in shown),
        *(("predict", f"run={run}") for run in (step, wider)),
    )


def status(url: str, cookies: dict[str, str]) -> tuple[int, str]:
    """Status of a request, 0 for an answer without content; and the text of a refusal."""
    request = urllib.request.Request(url, headers={"Cookie": cookie_header(cookies)})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status if answer.read() else 0, ""
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(200).decode("utf-8", "replace").strip()


class Tally:
    """Downloads by kind: pressed, come, and served to nobody in particular; and why others did not
    come.
    """

    def __init__(self) -> None:
        self.pressed, self.come, self.leaked = Counter[str](), Counter[str](), Counter[str]()
        self.missed = Counter[str]()

    async def take(self, server: Server, session: Viewer, kind: str, file: str) -> None:
        """Press a button, and request what it leads to, with the login and without."""
        self.pressed[kind] += 1
        if (address := await session.press_download(file)) is None:
            self.missed[f"{kind}: the press failed"] += 1
            return
        url = f"{server.url}/{address.lstrip('/')}"
        # `+=` with an await beside it would lose what others counted meanwhile
        leaked, _ = await asyncio.to_thread(status, url, {})
        self.leaked[kind] += leaked == 200
        code, words = await asyncio.to_thread(status, url, signed(age_s=0))
        self.come[kind] += code == 200
        if code != 200:
            self.missed[f"{kind}: {code} {words}"] += 1


async def work(server: Server, number: int, each: int, tally: Tally) -> None:
    """One visitor, who opens a screen after the other and presses every download there."""
    shown = screens()
    while True:
        page, query = shown[number % len(shown)]
        number += 1
        async with viewer(server, page, query, login=signed(age_s=0)) as session:
            drawn = await session.open(page, query)
            kinds = {
                f"{page} {query.count(',')} {label}": file
                for (label, _), file in drawn.downloads.items()
            }
            for kind, file in kinds.items():
                if tally.pressed[kind] < each:
                    await tally.take(server, session, kind, file)
        if len(tally.pressed) > len(shown) and min(tally.pressed.values()) >= each:
            return


async def visits(server: Server, asked: Asked, tally: Tally) -> None:
    await asyncio.gather(*(work(server, each, asked.each, tally) for each in range(asked.visitors)))


def main(asked: Asked, figures: Figures) -> None:
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="spmd-lab-exports-") as name:
        folder, secrets = Path(name), Path(name) / "secrets.toml"
        standin(folder / "packages")
        os.environ["PYTHONPATH"] = str(folder / "packages")
        os.environ["SPMD_LAB_MEMBERS"] = str(ANN["email"])
        set_up(secrets)
        lab = Lab.open(folder / "data", serve=False)
        lab.archives.take_examples()
        lab.close()
        server = Server(folder, "--secrets.files", str(secrets))
        server.start()
        time.sleep(1.0)  # a login of the second in which it was set up would be over
        try:
            asyncio.run(visits(server, asked, tally))
        finally:
            server.stop()
    missing = "; ".join(f"{count} {words}" for words, count in tally.missed.most_common(12))
    pressed = tally.pressed.total()
    figures.add("kinds of downloads", len(tally.pressed), least=12)
    figures.add(
        "downloads that come", tally.come.total(), f"of {pressed}", least=pressed, note=missing
    )
    figures.add("addresses served without the cookie", tally.leaked.total(), most=0)


if __name__ == "__main__":
    measure(main, __doc__, visitors=12, each=1000)
