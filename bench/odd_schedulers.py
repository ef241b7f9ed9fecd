"""Servers that are no Dask scheduler, or an odd one, and values that run code when they are
unpickled: what `cluster_doors` holds against the lab.
"""

import contextlib
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TLS = ROOT / "bench" / "tls"  # a CA, a node whose certificate it signed, and a stranger
FILES = (str(TLS / "ca.pem"), str(TLS / "node.pem"), str(TLS / "node.key"))
CLEAN = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
# An expression whose value is itself once more, so that each process that unpickles it runs it and
# passes it on: a file of OUT has the process's number and its environment
_SOURCE = """(
    __import__("pathlib").Path(OUT, __import__("secrets").token_hex(8)).write_text(
        __import__("json").dumps([__import__("os").getpid(), str(dict(__import__("os").environ)
            | {"was": open("/proc/self/environ").read()})])),
    eval(THEN),
    type("Payload", (Exception,), {
        "__reduce__": lambda self: (eval, (SOURCE, dict(SOURCE=SOURCE, OUT=OUT, THEN=THEN)))})(),
)[2]"""


class Payload:
    """Pickled, a value that leaves a file in `folder` wherever it is unpickled, and then does
    `then`.
    """

    def __init__(self, folder: Path, then: str = "None"):
        self._given = {"SOURCE": _SOURCE, "OUT": str(folder), "THEN": then}

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (_SOURCE, self._given)


def framed(value: Any, payload: Payload | None = None) -> bytes:
    """A value as Dask sends it, with a payload beside it."""
    from distributed.comm.tcp import _add_frames_header
    from distributed.protocol.core import dumps
    from distributed.protocol.serialize import to_serialize

    if payload is not None:
        value = value | {"python": to_serialize(payload)}

    frames, *_ = _add_frames_header(dumps(value))
    return b"".join(bytes(frame) for frame in frames)


@contextlib.contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that has `answer` deal with each connection, and then holds it."""
    held = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = server.accept()[0]
                held.append(connection)
                threading.Thread(target=deal, args=(connection,), daemon=True).start()

    def deal(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


def slowly(data: bytes) -> Callable[[socket.socket], None]:
    """A byte at a time."""

    def answer(connection: socket.socket) -> None:
        for byte in data:
            connection.sendall(bytes([byte]))
            time.sleep(0.2)

    return answer


def with_tls(node: str) -> Callable[[socket.socket], None]:
    """A TLS server with a certificate of bench/tls."""

    def answer(connection: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / f"{node}.pem", TLS / f"{node}.key")
        with contextlib.suppress(ssl.SSLError):
            context.wrap_socket(connection, server_side=True).recv(2**16)

    return answer


def free_address() -> str:
    """Where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


def servers(folder: Path) -> dict[str, Callable[[socket.socket], None]]:
    """What each odd server does with a connection, by a name; payloads leave files in `folder`."""
    handshake = {"compression": None, "python": (3, 11, 0), "pickle-protocol": 5}
    http = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    endless, leaves = "__import__('time').sleep(10**6)", "__import__('os')._exit(7)"
    return {
        "sends nothing": lambda _: None,
        "closes at once": lambda connection: connection.close(),
        "speaks HTTP": lambda connection: connection.sendall(http),
        "speaks TLS": with_tls("node"),
        "shakes hands as another version": lambda connection: connection.sendall(
            framed({"version": "1.0"})
        ),
        "answers with nothing after the handshake": lambda connection: connection.sendall(
            framed(handshake)
        ),
        "answers oddly after the handshake": lambda connection: connection.sendall(
            framed(handshake) + framed([{"op": "what"}]) * 5
        ),
        "sends garbage": lambda connection: connection.sendall(bytes(range(256)) * 64),
        "sends a huge length": lambda connection: connection.sendall(
            struct.pack("<Q", 2**40) + b"x" * 2**16
        ),
        "sends huge counts": lambda connection: connection.sendall(
            struct.pack("<QQ", 16, 2**61) + b"x" * 2**16
        ),
        "is slow": slowly(framed(handshake)),
        "sends what cannot be unpickled": lambda connection: connection.sendall(
            framed(handshake, Payload(folder, "1 / 0"))
        ),
        "sends what never ends": lambda connection: connection.sendall(
            framed(handshake, Payload(folder, endless))
        ),
        "sends what ends its reader": lambda connection: connection.sendall(
            framed(handshake, Payload(folder, leaves))
        ),
        "sends what raises SystemExit": lambda connection: connection.sendall(
            framed(handshake, Payload(folder, "exit(3)"))
        ),
    }


@contextlib.contextmanager
def cluster(
    folder: Path, workers: int, path: str = str(ROOT), files: tuple[str, ...] = ()
) -> Iterator[tuple[str, list[ForkServerProcess]]]:
    """(address, processes) of a real scheduler and its workers, which have no secrets; `path` is
    their PYTHONPATH. With `files` (CA, certificate, key) they speak TLS.
    """
    from distributed.utils import json_load_robust

    from bench import dask_processes  # which loads Dask: the lab that is attacked must not

    started: list[ForkServerProcess] = []
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    words = ["--scheduler-file", str(file)]
    for option, each in zip(("ca-file", "cert", "key"), files, strict=False):
        words += [f"--tls-{option}", each]

    def start(what: str, *more: str) -> None:
        environ = CLEAN | {"PYTHONPATH": path}
        started.append(dask_processes.started(what, (*words, *more), environ, folder))

    try:
        start("scheduler", "--port", "0", "--no-dashboard", *["--protocol", "tls"][: len(files)])
        address = json_load_robust(file)["address"]  # waits for a whole file
        for _ in range(workers):
            start("worker")
        yield address, started
    finally:
        dask_processes.end(*started)
