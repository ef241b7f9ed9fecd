"""A dashboard to measure: the real `streamlit run app.py` on a data folder of its own, and viewers
over its websocket.
"""

import asyncio
import os
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from bench.login_states import ORIGIN, cookie_header
from bench.server import Server
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.lab.store.database import FILE_NAME

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
RUN_TIMEOUT_S = 120
PATIENCE_S = 180  # for one message of a server with many viewers
ENDLESS = 12  # runs of a script after which it is taken to run for ever
LOOKS = 3  # of a screen's timer that draw no screen anew: it has settled
MOST_RUNS = 3  # within which a visit is to settle
# the layer of the tutorial
LAYER: dict[str, Any] = {
    "workload": "layer",
    "target": "cpu:8",
    "mesh": {"x": 8},
    "sharding": {"in": "x"},
}


@contextmanager
def dashboard(experiments: list[dict[str, Any]]) -> Iterator[tuple[Server, list[str]]]:
    """A running dashboard, and the ids of these experiments' finished runs."""
    with tempfile.TemporaryDirectory(prefix="spmd-lab-bench-") as folder:
        lab = Lab.open(Path(folder) / "data")
        runs = [lab.submit(parse_experiment(spec)) for spec in experiments]
        for run in runs:
            status = lab.wait(run, RUN_TIMEOUT_S)
            if status.state != "succeeded":
                raise SystemExit(f"the run to show {status.state}: {status.error}")
        lab.close()
        server = Server(Path(folder))
        server.start()
        try:
            yield server, runs
        finally:
            server.stop()


@contextmanager
def asking(server: Server) -> Iterator[Lab]:
    """The Lab of this process, which only asks: the dashboard works the queue, from its first
    viewer on.
    """
    assert server.process is not None

    async def open_overview() -> None:
        async with viewer(server, "", "") as session:
            await session.rerun()

    asyncio.run(open_overview())
    lab = Lab.open(server.folder / "data", serve=False)
    try:
        while lab.queue_holder != server.process.pid:
            time.sleep(0.05)
        yield lab
    finally:
        lab.close()


@dataclass
class Drawn:
    """What a script sent until it came to its end, as far as measurements ask: how often it ran,
    what it drew, charts, the messages of the exceptions that it shows, button's label -> its id,
    the name that a text field has in the query -> its id, and the file of each download by the
    label and key of its button.
    """

    runs: int = 0
    deltas: int = 0
    charts: int = 0
    exceptions: list[str] = field(default_factory=list)
    buttons: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    downloads: dict[tuple[str, str], str] = field(default_factory=dict)


class Viewer:
    """A session of one viewer: it reruns a screen and waits until the script is done, as a browser
    would.
    """

    def __init__(self, socket: Any, page: str, query: str):
        self._socket, self._page, self._query = socket, page, query
        self.identity = ""  # its id, as the server names it
        self._fragment: str | None = None  # the one that the screen wants run now and then

    async def rerun(self) -> int:
        """One run of the screen's script: how many charts it drew. SystemExit where the screen
        shows an exception.
        """
        drawn = await self._asked(self._request(), ForwardMsg.FINISHED_SUCCESSFULLY)
        if drawn.exceptions:
            raise SystemExit(f"{self._page} shows {drawn.exceptions[0]}")
        return drawn.charts

    async def open(
        self,
        page: str,
        query: str,
        press: str | None = None,
        typed: Mapping[str, str] | None = None,
    ) -> Drawn:
        """Open a link on a page, press the button of that id there, or type texts into the fields of
        these ids.
        """
        self._page, self._query = page, query
        request = self._request()
        if press is not None:
            request.rerun_script.widget_states.widgets.add(id=press, trigger_value=True)
        for name, text in (typed or {}).items():
            request.rerun_script.widget_states.widgets.add(id=name, string_value=text)
        return await self._asked(request, ForwardMsg.FINISHED_SUCCESSFULLY)

    async def look(self, press: str | None = None) -> Drawn:
        """One look of the screen's timer, where it has one, to the end of what it draws anew; with
        the button of that id pressed.
        """
        if self._fragment is None:
            return Drawn()
        request = self._look()
        if press is not None:
            request.rerun_script.is_auto_rerun = False
            request.rerun_script.widget_states.widgets.add(id=press, trigger_value=True)
        return await self._asked(
            request,
            ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY,
            ForwardMsg.FINISHED_SUCCESSFULLY,
        )

    async def tick(self) -> Drawn:
        """One run of the fragment that the screen wants run now and then, as its timer would."""
        if self._fragment is None:
            raise SystemExit(f"{self._page} has nothing that runs now and then")
        return await self._asked(self._look(), ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)

    async def settle(self, quiet_looks: int | None = None) -> int:
        """Look again as the screen's timer would, until it has none, or so many looks in a row drew
        no screen anew (Overview looks as long as it is open): how often the script ran. A fragment
        that draws nothing any more is gone with the run that drew it.
        """
        runs = quiet = 0
        while self._fragment is not None and runs < ENDLESS and quiet != quiet_looks:
            await asyncio.sleep(0.1)
            drawn = await self.look()
            runs += drawn.runs
            quiet = 0 if drawn.runs else quiet + 1
            if not (drawn.deltas or drawn.runs):
                self._fragment = None
        return runs

    async def press_download(self, file: str) -> str | None:
        """Press the button of a download: the address that the server names; None where it fails."""
        request = BackMsg()
        request.backend_operation_request.request_id = file
        request.backend_operation_request.session_id = self.identity
        request.backend_operation_request.deferred_file.file_id = file
        await self._socket.send(request.SerializeToString())
        while True:
            message = ForwardMsg()
            message.ParseFromString(await asyncio.wait_for(self._socket.recv(), PATIENCE_S))
            answer = message.backend_operation_response
            if message.HasField("backend_operation_response") and answer.request_id == file:
                return answer.deferred_file.url or None

    def _request(self) -> BackMsg:
        request = BackMsg()
        request.rerun_script.query_string = self._query
        request.rerun_script.page_name = self._page
        return request

    def _look(self) -> BackMsg:
        request = self._request()
        request.rerun_script.fragment_id = self._fragment or ""
        request.rerun_script.is_auto_rerun = True
        return request

    async def _asked(self, request: BackMsg, *finished: int) -> Drawn:
        drawn = Drawn()
        await self._socket.send(request.SerializeToString())
        while True:
            message = ForwardMsg()
            message.ParseFromString(await asyncio.wait_for(self._socket.recv(), PATIENCE_S))
            if message.HasField("delta"):
                drawn.deltas += 1
                element = message.delta.new_element
                drawn.charts += element.HasField("vega_lite_chart")
                if element.HasField("exception"):
                    drawn.exceptions.append(element.exception.message)
                if element.HasField("download_button"):
                    button = element.download_button
                    drawn.downloads[button.label, button.id] = button.deferred_file_id
                if element.HasField("button"):
                    drawn.buttons[element.button.label] = element.button.id
                if name := element.text_input.query_param_key:
                    drawn.fields[name] = element.text_input.id
            if message.HasField("auto_rerun"):
                self._fragment = message.auto_rerun.fragment_id
            whole = not message.metadata.run.fragment_ids
            if identity := message.new_session.initialize.session_id:
                self.identity = identity
            if message.HasField("new_session") and whole:
                self._fragment = None
            if message.WhichOneof("type") == "script_finished":
                drawn.runs += whole
                if message.script_finished in finished or drawn.runs == ENDLESS:
                    return drawn


@asynccontextmanager
async def viewer(
    server: Server,
    page: str,
    query: str,
    address: str | None = None,
    forwarded: str | None = None,
    login: Mapping[str, str] | None = None,
) -> AsyncIterator[Viewer]:
    """A viewer who has just opened a screen, from an address of this machine. `forwarded`: the
    address that it says to come from; `login`: its cookies.
    """
    options: dict[str, Any] = {"local_addr": (address, 0)} if address else {}
    subprotocols = ["streamlit"]
    if forwarded:
        options["additional_headers"] = {"X-Forwarded-For": forwarded}
    if login is not None:  # Streamlit reads a login where its own token of the page agrees
        options["origin"], token = ORIGIN, "5ee1" * 8
        options["additional_headers"] = {
            "Cookie": cookie_header({**login, "_streamlit_xsrf": token})
        }
        subprotocols.append(token)
    async with websockets.connect(
        f"ws://127.0.0.1:{server.port}/_stcore/stream",
        subprotocols=subprotocols,  # type: ignore[arg-type]
        max_size=None,
        open_timeout=PATIENCE_S,
        ping_interval=None,  # a busy machine answers late: PATIENCE_S is for each message
        **options,
    ) as socket:
        yield Viewer(socket, page, query)


class Visits:
    """Visits, and those whose script ran for ever or longer than it should, by what was done."""

    def __init__(self) -> None:
        self.count, self.most = 0, 0
        self.long: Counter[str] = Counter()

    async def settled(self, session: Viewer, drawn: Drawn, words: str) -> bool:
        """Count a visit to its end, with what its timers redraw; whether it has one."""
        runs = drawn.runs if drawn.runs == ENDLESS else drawn.runs + await session.settle(LOOKS)
        self.count += 1
        self.most = max(self.most, runs)
        if runs > MOST_RUNS:
            self.long[f"{runs} runs: {words}"] += 1
        return runs < ENDLESS


def computed(folder: Path) -> tuple[int, int]:
    """Runs of this machine, compiles that no list shows among them, and searches in a data folder."""
    return _count(folder, "runs WHERE origin IS NULL"), _count(folder, "searches")


def busy(folder: Path) -> int:
    """Runs and searches that are not over in a data folder."""
    active = "runs WHERE state IN ('queued', 'starting', 'running')"
    return _count(folder, active) + _count(folder, "searches WHERE state = 'running'")


def estimated(folder: Path) -> int:
    """Searches at work whose estimates are ranked: they compile."""
    batch = "'search ' || searches.id"
    return _count(
        folder,
        f"searches WHERE state = 'running' AND {batch} IN (SELECT batch FROM runs)",
    )


def _count(folder: Path, of: str) -> int:
    if not (folder / FILE_NAME).exists():
        return 0
    db = sqlite3.connect(folder / FILE_NAME, timeout=60)
    try:
        return db.execute(f"SELECT count(*) FROM {of}").fetchone()[0]
    finally:
        db.close()


def cpu_s(pid: int) -> float:
    """CPU seconds that a process and its threads have used; its children, the workers, are not
    counted.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def memory_mb(pid: int) -> float:
    """Resident memory of a process in MB, without what it shares with files."""
    status = Path(f"/proc/{pid}/status").read_text()
    return (
        next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
        * 1024
        / 1e6
    )
