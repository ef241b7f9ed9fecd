"""Forty ways to make the server hold more than an upload may have, by a session that then closes:
what the upload manager holds afterwards, and the memory of the server, with no other session opened.

    python -m bench.upload_abuse [--json]
"""

import asyncio
import re
import socket
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from bench.dashboard import memory_mb
from bench.figures import Asked, Figures, measure
from bench.server import Server

LARGE = 60 * 2**20
REST_S = 30.0
HEAD = b'--b\r\nContent-Disposition: form-data; name="f"; filename="a.bin"\r\n\r\n'
TAIL = b"\r\n--b--\r\n"
PATH = "/_stcore/upload_file/{session}/{file}"


class Form(NamedTuple):
    """A request: headers of its length, the size of its file, and where they differ from an upload of
    a browser: method, path, version and type of its content.
    """

    lengths: tuple[str, ...]
    size: int = LARGE
    chunk: int = 0  # bytes of each chunk of a chunked body; 0: not chunked
    method: str = "PUT"
    path: str = PATH
    version: str = "1.1"
    kind: str = "multipart/form-data; boundary=b"
    head: bytes = HEAD
    has_token: bool = True


def of(size: int) -> tuple[str, ...]:
    return (f"Content-Length: {len(HEAD) + size + len(TAIL)}",)


CHUNKED = "Transfer-Encoding: chunked"
FORMS = {
    "one byte said, chunked": Form(("Content-Length: 1", CHUNKED), chunk=2**20),
    "chunked, one byte said": Form((CHUNKED, "Content-Length: 1"), chunk=2**20),
    "its length said, chunked": Form((*of(LARGE), CHUNKED), chunk=2**20),
    "chunked alone": Form((CHUNKED,), chunk=2**20),
    "Chunked": Form(("Content-Length: 1", "transfer-encoding: Chunked"), chunk=2**20),
    "gzip, chunked": Form(("Content-Length: 1", "Transfer-Encoding: gzip, chunked"), chunk=2**20),
    "identity": Form((*of(LARGE), "Transfer-Encoding: identity")),
    "chunked twice": Form(("Content-Length: 1", CHUNKED, CHUNKED), chunk=2**20),
    "a space before the colon": Form(("Content-Length: 1", "Transfer-Encoding : chunked"), chunk=2**20),
    "a tab before chunked": Form(("Content-Length: 1", "Transfer-Encoding:\tchunked"), chunk=2**20),
    "a folded header": Form(("Content-Length: 1", "Transfer-Encoding:\r\n chunked"), chunk=2**20),
    "small chunks": Form(("Content-Length: 1", CHUNKED), 2**21, chunk=16),
    "chunked by HTTP/1.0": Form(("Content-Length: 1", CHUNKED), chunk=2**20, version="1.0"),
    "no length by HTTP/1.0": Form((), version="1.0"),
    "no length": Form(()),
    "two equal lengths": Form(of(LARGE) * 2),
    "two lengths": Form(("Content-Length: 1", *of(LARGE))),
    "two lengths in one": Form(("Content-Length: 1, 63000000",)),
    "a signed length": Form(("Content-Length: +63000000",)),
    "a negative length": Form(("Content-Length: -1",)),
    "a hexadecimal length": Form(("Content-Length: 0x3c00000",)),
    "an empty length": Form(("Content-Length: ",)),
    "a length of 5,000 digits": Form((f"Content-Length: {'9' * 5000}",)),
    "a length of 2^64": Form((f"Content-Length: {2**64}",)),
    "a length beyond the limit": Form(of(65 * 2**20), 65 * 2**20),
    "a byte said": Form(("Content-Length: 1",)),
    "more said than sent": Form(of(LARGE), 2**20),
    "nothing sent": Form(of(LARGE), 0, head=b""),
    "a file": Form(of(LARGE)),
    "a file by HTTP/1.0": Form(of(LARGE), version="1.0"),
    "an absolute address": Form(("Content-Length: 1", CHUNKED), chunk=2**20, path=f"http://localhost{PATH}"),
    "two slashes": Form(("Content-Length: 1", CHUNKED), chunk=2**20, path=f"/{PATH}"),
    "an escaped path": Form(("Content-Length: 1", CHUNKED), chunk=2**20, path=PATH.replace("upload", "%75pload")),
    "a path of dots": Form(("Content-Length: 1", CHUNKED), chunk=2**20, path=PATH.replace("/upload", "/x/../upload")),
    "POST": Form(("Content-Length: 1", CHUNKED), chunk=2**20, method="POST"),
    "DELETE": Form(("Content-Length: 1", CHUNKED), chunk=2**20, method="DELETE"),
    "a body for a screen": Form(("Content-Length: 1", CHUNKED), chunk=2**20, path="/"),
    "no token": Form(of(LARGE), has_token=False),
    "no multipart": Form(of(LARGE), kind="application/octet-stream"),
    "one header of a part": Form(of(LARGE), head=b"--b\r\nX: "),
    "a field, no file": Form(of(LARGE), head=HEAD.replace(b'; filename="a.bin"', b"")),
}  # fmt: skip


def body(form: Form) -> Iterator[bytes]:
    """The bytes of a request after its head."""
    parts = [form.head, *([bytes(2**20)] * (form.size // 2**20)), TAIL]
    if not form.chunk:
        yield from parts
        return
    for part in parts:
        for at in range(0, len(part), form.chunk):
            piece = part[at : at + form.chunk]
            yield b"%x\r\n%s\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def send(port: int, number: int, form: Form, session: str, token: str) -> int:
    """Send a request from an address of its own; the status of the answer, 0 without one."""
    path = form.path.format(session=session, file=f"file{number}")
    lines = [f"{form.method} {path} HTTP/{form.version}", "Host: localhost", *form.lengths]
    lines += [f"Content-Type: {form.kind}", "Connection: close"]
    if form.has_token:
        lines += [f"Cookie: _streamlit_xsrf={token}", f"X-Xsrftoken: {token}"]
    source = (f"127.0.1.{number + 1}", 0)
    with socket.create_connection(("127.0.0.1", port), 60, source) as sent:
        try:
            for part in ("\r\n".join([*lines, "", ""]).encode(), *body(form)):
                sent.sendall(part)
            sent.settimeout(5 if form.size < LARGE else 60)
            return int((sent.recv(64).split() or [b"", b"0"])[1])
        except OSError:  # it was ended before all was sent
            return 0


def held_bytes(server: Server) -> float:
    """Bytes that the upload manager holds, as Streamlit counts them."""
    with urllib.request.urlopen(f"{server.url}/_stcore/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found = re.findall(r'cache_memory_bytes\{cache_type="UploadedFileManager".*\} (\d+)', text)
    return float(sum(map(int, found)))


async def attacked(server: Server, forms: Iterable[Form]) -> tuple[list[int], float]:
    """The statuses of all forms, sent for one session, and the bytes held before it closes."""
    with urllib.request.urlopen(f"{server.url}/_stcore/health", timeout=60) as answer:
        token = re.search(r"_streamlit_xsrf=([^;]+)", answer.headers["set-cookie"] or "")
    assert token, "Streamlit sets its cookie with the health check"
    url = f"ws://127.0.0.1:{server.port}/_stcore/stream"
    async with websockets.connect(url, subprotocols=["streamlit"], max_size=None) as screen:  # type: ignore[list-item]
        request, message = BackMsg(), ForwardMsg()
        request.rerun_script.query_string = ""
        await screen.send(request.SerializeToString())
        while not message.HasField("new_session"):
            received = await screen.recv()
            assert isinstance(received, bytes)
            message.ParseFromString(received)
        session = message.new_session.initialize.session_id
        statuses = [
            await asyncio.to_thread(send, server.port, number, form, session, token[1])
            for number, form in enumerate(forms)
        ]
        return statuses, held_bytes(server)


def main(asked: Asked, figures: Figures) -> None:
    with tempfile.TemporaryDirectory(prefix="spmd-lab-uploads-") as name:
        server = Server(Path(name))
        server.start()
        before = memory_mb(server.process.pid if server.process else 0)
        statuses, held = asyncio.run(attacked(server, FORMS.values()))
        time.sleep(1.0)
        after = held_bytes(server)
        time.sleep(REST_S)
        grown = memory_mb(server.process.pid if server.process else 0) - before
        server.stop()
        taken = [form for form, status in zip(FORMS, statuses, strict=True) if status == 204]
    figures.add("forms", len(FORMS), least=40)
    figures.add("taken", len(taken), least=1, note=", ".join(taken))
    figures.add("held while the session was open", held / 1e6, "MB", most=4 * LARGE / 1e6)
    figures.add("held once it was closed", after, "bytes", most=0)
    figures.add(f"memory after {REST_S:g} s beside that before", grown, "MB", most=150)


if __name__ == "__main__":
    measure(main, __doc__)
