"""States of a login, of which most end it: what an open tab, a new tab, an upload, a download and each
endpoint get then, beside what docs/security.md says. With a stand-in for Authlib.

    python -m bench.ended_logins [--json]
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import websockets

from bench.closed_doors import standin
from bench.dashboard import Viewer, computed, viewer
from bench.figures import Asked, Figures, measure
from bench.login_states import ANN, LOGIN, cookie_header, set_up, signed
from bench.server import ROOT, Server
from spmd_core.base import read_settings
from spmd_core.lab import Lab, examples

TOKEN = "5ee1" * 8  # of Streamlit's own check of a page, which a viewer sends too
REFUSED = (401, 403, 503)
ENDPOINTS = (
    *("/", "/history", "/compare?experiment=1.abc", "/static/a.js", "/media/a.csv", "/robots.txt"),
    *("/_stcore/metrics", "/_stcore/host-config", "/_stcore/script-health-check"),
    *("/agent/openapi.json", "/component/a/b", "/_stcore/bidi-components/a/b"),
)
BOB = ANN | {"sub": "bob", "email": "bob@example.com"}
BODY = b'--b\r\nContent-Disposition: form-data; name="f"; filename="a.bin"\r\n\r\nabc\r\n--b--\r\n'
MEMBERS = {"SPMD_LAB_MEMBERS": f"{ANN['email']},{BOB['email']}"}
LISTS = {**MEMBERS, "SPMD_LAB_RUNNERS": str(ANN["email"])}
Cookies = Mapping[str, str]


@dataclass
class Place:
    """A dashboard, its secrets.toml, and the login of the member who is there."""

    server: Server
    secrets: Path
    login: Cookies

    def status(
        self, path: str, cookies: Cookies, method: str = "GET", site: str = "same-origin"
    ) -> int:
        """Status of a request, which a browser would follow."""
        headers = {
            "Cookie": cookie_header({**cookies, "_streamlit_xsrf": TOKEN}),
            "X-Xsrftoken": TOKEN,
            "Sec-Fetch-Site": site,
            "Content-Type": "multipart/form-data; boundary=b",
        }
        asked = HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            asked.request(method, path, BODY if method == "PUT" else None, headers)
            return asked.getresponse().status
        finally:
            asked.close()

    def write(self, old: str, new: str) -> None:
        """Change a text of [auth]."""
        assert old in LOGIN
        self.secrets.write_text(LOGIN.replace(old, new), "utf-8")

    def log_out(self, cookies: Cookies, site: str = "same-origin") -> None:
        """Log out as a page of this or another site would."""
        self.status("/auth/logout", cookies, site=site)

    def command(self, *words: str) -> None:
        """Run the command line on the same data folder."""
        environ = os.environ | {"SPMD_LAB_DATA": str(self.server.folder / "data")}
        command = [sys.executable, "-m", "spmd_core", *words]
        subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True)

    def restart(self, lists: Mapping[str, str] = LISTS) -> None:
        """Start the dashboard again with these lists of people."""
        for name in LISTS:
            os.environ.pop(name, None)
        os.environ.update(lists)
        self.server.restart()


@dataclass(frozen=True)
class State:
    """How a state comes about, the cookies that are sent then (by default those of the login that
    was there), whether they are a login still, and whether the dashboard was started again.
    """

    make: Callable[[Place], object] = lambda place: None
    cookies: Callable[[], Cookies] | None = None
    age_s: float = 0.0  # of the login that was there
    stays: bool = False
    restarts: bool = False


def _changed(old: str, new: str) -> State:
    return State(lambda place: place.write(old, new))


LASTS_S = read_settings().login_s
PROVIDER = "https://accounts.example/.well-known"
ENDED = {
    "another secret": _changed("thirty-two", "32 other"),
    "another client": _changed('"lab"', '"lab 2"'),
    "another secret of the client": _changed("hidden", "hidden too"),
    "another provider": _changed(PROVIDER, "https://okta.example/.well-known"),
    "a provider of another name": _changed(
        "server_metadata_url", "[auth.okta]\nserver_metadata_url"
    ),
    "another address": _changed("8501/oauth2callback", "8502/oauth2callback"),
    "one more setting": _changed("client_id", 'client_kwargs = { scope = "openid" }\nclient_id'),
    "logged out elsewhere": State(lambda place: place.log_out(signed(age_s=3))),
    "logged out here, and copied": State(lambda place: place.log_out(place.login)),
    "all ended by the owner": State(lambda place: place.command("login", "--end-all")),
    "expired": State(lambda place: time.sleep(21.0), age_s=LASTS_S - 20),
    "off the list": State(
        lambda place: place.restart(MEMBERS | {"SPMD_LAB_MEMBERS": str(BOB["email"])}),
        restarts=True,
    ),
    "ended, and started again": State(
        lambda place: (place.command("login", "--end-all"), place.restart()), restarts=True
    ),
}
OTHERS = {
    "no cookie": State(cookies=dict),
    "a forged cookie": State(
        cookies=lambda: signed(secret="another of thirty-two characters", age_s=0)
    ),
    "a cookie of a clock ahead": State(cookies=lambda: signed(age_s=-3600)),
    "an address that is not confirmed": State(
        cookies=lambda: signed(ANN | {"email_verified": False}, age_s=0)
    ),
    "an address that is not listed": State(
        cookies=lambda: signed(ANN | {"email": "eve@example.com"}, age_s=0)
    ),
    "claims of nobody logged in": State(
        cookies=lambda: signed(ANN | {"is_logged_in": False}, age_s=0)
    ),
}
GOES_ON = {
    "nothing has happened": State(stays=True),
    "copied": State(cookies=lambda: signed(age_s=0), stays=True),
    "an id_token that is over": State(
        cookies=lambda: signed(ANN | {"exp": 1}, age_s=0), stays=True
    ),
    "another member logged out": State(lambda place: place.log_out(signed(BOB)), stays=True),
    "logged out by another site": State(
        lambda place: place.log_out(place.login, "cross-site"), stays=True
    ),
    "started again": State(lambda place: place.restart(), stays=True, restarts=True),
}
STATES = ENDED | OTHERS | GOES_ON


async def goes_on(session: Viewer) -> bool:
    """Whether a tab draws its screen again."""
    try:
        await session.open("history", "")
    except websockets.exceptions.ConnectionClosed:
        return False
    return True


async def offered(session: Viewer) -> str:
    """Address of a download of a tab, by a press of its button."""
    drawn = await session.open("history", f"runs={examples.run_ids()[0]}")
    address = await session.press_download(next(iter(drawn.downloads.values())))
    assert address, "the press of a download failed"
    return f"/{address.lstrip('/')}"


async def served(place: Place, state: State) -> dict[str, bool]:
    """What is served in a state, by the way."""
    async with viewer(place.server, "history", "", login=place.login) as tab:
        found: dict[str, bool] = {}
        session, download = tab, await offered(tab)
        await asyncio.to_thread(state.make, place)
        sent = state.cookies() if state.cookies else place.login
        try:
            async with viewer(place.server, "history", "", login=sent) as fresh:
                found["a new tab"] = await goes_on(fresh)
                if state.restarts:  # the tab of before has gone with its server
                    session, download = fresh, await offered(fresh)
                found |= requests(place, sent, session, download)
        except websockets.exceptions.WebSocketException:
            found["a new tab"] = False
            found |= requests(place, sent, session, download)
        if state.cookies is None and not (state.restarts and state.stays):
            found["an open tab"] = await goes_on(tab)
    return found


def requests(place: Place, sent: Cookies, session: Viewer, download: str) -> dict[str, bool]:
    """Which requests are served, with the upload and the download of a session."""
    upload = f"/_stcore/upload_file/{session.identity}/file"
    found = {path: place.status(path, sent) not in REFUSED for path in ENDPOINTS}
    found["an upload"] = place.status(upload, sent, "PUT") == 204
    found["a download"] = place.status(download, sent) == 200
    return found


async def press_run(place: Place, button: str | None = None) -> tuple[str | None, int]:
    """Press Run of Compare, or a button of that id: the id, and how many runs that stored."""
    data, query = place.server.folder / "data", "workload=layer"
    count = computed(data)[0]
    async with viewer(place.server, "compare", query, login=place.login) as tab:
        drawn = await tab.open("compare", query)
        if button := drawn.buttons.get("Run", button):
            await tab.open("compare", query, press=button)
    return button, computed(data)[0] - count


def begin(place: Place, state: State) -> None:
    """The login as it was set up two days ago, and a member who has logged in since."""
    set_up(place.secrets)
    place.status("/", {})  # a change is noticed
    before = time.time() - 2 * 24 * 3600
    for mark in (place.server.folder / "data" / "logins").iterdir():
        os.utime(mark, (before, before))
    place.login = signed(age_s=state.age_s)


def tried(place: Place, figures: Figures) -> None:
    """Bring about every state, and compare what is served with what is to be."""
    ways, wrong = 0, []
    for name, state in STATES.items():
        begin(place, state)
        found = asyncio.run(served(place, state))
        ways += len(found)
        wrong += [f"{name}: {way}" for way, is_served in found.items() if is_served != state.stays]
        if state.restarts:
            place.restart()
    figures.add("states of a login", len(STATES), least=20)
    note = "; ".join(wrong)
    figures.add("ways that are not as documented", len(wrong), f"of {ways}", most=0, note=note)


def roles(place: Place, figures: Figures) -> None:
    """The member is a runner, and then is not any more."""
    begin(place, State())
    button, runs = asyncio.run(press_run(place))
    figures.add("runs of a press of a runner", runs, least=1, most=1)
    place.restart(MEMBERS)
    _, runs = asyncio.run(press_run(place, button))
    figures.add("runs of the same press, the role taken away", runs, most=0)


def main(asked: Asked, figures: Figures) -> None:
    with tempfile.TemporaryDirectory(prefix="spmd-lab-ended-") as name:
        folder, secrets = Path(name), Path(name) / "secrets.toml"
        standin(folder / "packages")
        os.environ.update(LISTS, PYTHONPATH=str(folder / "packages"))
        set_up(secrets)
        lab = Lab.open(folder / "data", serve=False)
        lab.archives.take_examples()
        lab.close()
        place = Place(Server(folder, "--secrets.files", str(secrets)), secrets, {})
        place.server.start()
        try:
            tried(place, figures)
            roles(place, figures)
        finally:
            place.server.stop()


if __name__ == "__main__":
    measure(main, __doc__)
