"""Foreign Hosts and Origins under each setting, by HTTP and WebSocket: how many are served to a
member; and the forms in which a dashboard is reached by its own addresses and names.

    python -m bench.foreign_hosts [--json]
"""

import os
import socket
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.closed_doors import standin
from bench.figures import Asked, Figures, measure
from bench.login_states import ANN, LOGIN, cookie_header, signed
from bench.server import Server


class Form(NamedTuple):
    """What a request says: Hosts, Origins, and the target of its first line with the path put in."""

    hosts: tuple[str, ...]
    origins: tuple[str, ...] = ()
    target: str = "{}"


# each with the same Origin, as a browser sends both of a page that was rebound
REBOUND = (
    *("evil.example", "EVIL.Example", "evil.example.", "evil.example..", "evil.example:8501"),
    *("evil.example:", "evil.example:99999", "localhost.evil.example", "127.0.0.1.evil.example"),
    *(
        "127.0.0.1.nip.io:8501",
        "evil-localhost",
        "xlocalhost",
        "localhost.localdomain",
        "a.localhost",
    ),
    *(
        "localhost@evil.example",
        "evil.example@localhost",
        "localhost,evil.example",
        "localhost evil",
    ),
    *("localhost:x", "localhost:99999", "localhost:-1", "localhost:80:80", "localhost..", ".", ""),
    *("[::1", "[::1].evil.example", "[::1]evil.example", "[evil.example]", "[::1%25evil.example]"),
    *("::1", "127.1", "2130706433", "0x7f000001", "127.0.0.1.1", "127.0.0.١", "l\u00f6calhost"),
    *("localhost%2eevil.example", "evil.example/localhost", "evil.example#localhost", "*"),
    *("evil.example\\localhost", "evil.example?localhost", "notlab.example.com", "corp.example"),
    "lab.example.com.evil.example",
)
# each on localhost
FOREIGN_ORIGINS = (
    *(
        "http://evil.example",
        "https://evil.example:8501",
        "HTTP://EVIL.EXAMPLE.",
        "null",
        "file://",
    ),
    *("http://localhost.evil.example", "http://localhost@evil.example", "http://203.0.113.7:8501"),
    *(
        "http://[2001:db8::7]",
        "chrome-extension://abcdefgh",
        "http://evil.example/http://localhost",
    ),
    *("localhost", "http://localhost, http://evil.example", ""),
)
TARGETS = (
    "http://evil.example{}",
    "HTTP://Evil.Example.:8501{}",
    "https://localhost@evil.example{}",
)
FOREIGN = (
    *(Form((host,), (f"http://{host}",)) for host in REBOUND),
    *(Form(("localhost",), (origin,)) for origin in FOREIGN_ORIGINS),
    *(Form(("localhost",), (), target) for target in TARGETS),
    Form(("localhost", "evil.example")),
    Form(("evil.example", "localhost")),
    Form(("localhost",), ("http://localhost", "http://evil.example")),
    Form(("evil.example",), ("http://localhost",)),
)
OWN = (
    *(
        Form((host,), (f"http://{host}",))
        for host in ("localhost", "localhost:8501", "LocalHost:80")
    ),
    *(
        Form((host,), (f"https://{host}",))
        for host in ("localhost.", "localhost:9999", "127.0.0.1")
    ),
    *(
        Form((host,))
        for host in ("127.0.0.1:8501", "127.0.0.2", "[::1]", "[::1]:8501", "0.0.0.0:80")
    ),
    *(
        Form((host,), (f"http://{host}",))
        for host in ("[::1]:2", "[0:0:0:0:0:0:0:1]", "10.1.2.3:80")
    ),
    *(Form((host,), (f"http://{host}",)) for host in ("192.168.1.5:8501", "[fd00::5]:8501")),
    *(Form((host,)) for host in ("[::ffff:127.0.0.1]", "172.17.0.2", "localhost:")),
    Form(("127.0.0.1:8501",), ("http://localhost:8501",)),
)
NAMED = tuple(
    Form((host,), (f"https://{host}",))
    for host in ("lab.example.com", "LAB.example.com:443", "lab.example.com.:8501")
)
BELOW = tuple(
    Form((host,), (f"https://{host}",)) for host in ("a.corp.example", "a.b.Corp.example:1")
)
LISTED = ("--server.allowedHosts", "lab.example.com", "--server.allowedHosts", "*.corp.example")
# what is set -> options, and the names that are served with them
SETTINGS: dict[str, tuple[tuple[str, ...], tuple[Form, ...]]] = {
    "by default": ((), ()),
    "every address": (("--server.address", "0.0.0.0"), ()),
    "listed names": (LISTED, NAMED + BELOW),
    "the browser's address": (("--browser.serverAddress", "lab.example.com"), NAMED),
    "any origin": (("--server.enableCORS", "false"), ()),
    "a login": (("--server.address", "0.0.0.0"), NAMED),
}
PATHS = ("/", "/compare?experiment=1.abc", "/_stcore/host-config", "/_stcore/stream")
_UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: streamlit\r\n"
)


def status(port: int, path: str, form: Form) -> int:
    """Returns the status of a member's request; that of a connection where `path` is a screen's."""
    is_screen = path.endswith("/stream")
    lines = [f"Host: {host}" for host in form.hosts] + [f"Origin: {each}" for each in form.origins]
    head = f"GET {form.target.format(path)} HTTP/1.1\r\n" + "".join(f"{line}\r\n" for line in lines)
    head += f"Cookie: {cookie_header(signed())}\r\n"
    head += _UPGRADE if is_screen else "Connection: close\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sent:
        sent.sendall(f"{head}\r\n".encode())
        return int((sent.makefile("rb").readline().split() or [b"", b"0"])[1])


def served(port: int, forms: Iterable[Form]) -> Iterator[str]:
    """The forms, by path, that are served."""
    for form in forms:
        for path in PATHS:
            if status(port, path, form) in (101, 200):
                yield f"{path} of {form}"


def main(asked: Asked, figures: Figures) -> None:
    with tempfile.TemporaryDirectory(prefix="spmd-lab-hosts-") as name:
        folder, secrets = Path(name), Path(name) / "secrets.toml"
        standin(folder / "packages")
        os.environ["PYTHONPATH"] = str(folder / "packages")
        os.environ["SPMD_LAB_MEMBERS"] = str(ANN["email"])
        for setting, (options, names) in SETTINGS.items():
            if setting == "a login":
                secrets.write_text(
                    LOGIN.replace("http://localhost:8501", "https://lab.example.com")
                )
            server = Server(folder, "--secrets.files", str(secrets), *options)
            server.start()
            taken = list(served(server.port, FOREIGN))
            figures.add(
                f"foreign, {setting}: served", len(taken), most=0, note="; ".join(taken[:3])
            )
            forms = OWN + names
            own = len(list(served(server.port, forms))) / len(PATHS)
            figures.add(f"own, {setting}: served", own, f"of {len(forms)}", least=len(forms))
            server.stop()
    figures.add("foreign forms", len(FOREIGN), least=60)
    figures.add("own forms", len(OWN), least=20)


if __name__ == "__main__":
    measure(main, __doc__)
