"""Connections without a request end, and with few descriptors left no further one begins."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from spmd_lab.ui.entrance import connections
from tests.loops import finished

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(autouse=True)
def bounded(monkeypatch):
    monkeypatch.setattr(AutoHTTPProtocol, "connection_made", AutoHTTPProtocol.connection_made)
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    connections.bound()


async def _app(scope, receive, send):
    if scope["path"] == "/slow":
        await asyncio.sleep(1.0)
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def served():
    """A function that opens a connection to a server of its own."""
    config = uvicorn.Config(_app, port=0, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    port = server.servers[0].sockets[0].getsockname()[1]
    yield lambda: asyncio.open_connection("127.0.0.1", port)
    server.force_exit = True
    await server.shutdown()


async def _answer_to(reader, writer, *parts, pause_s=0.0):
    """What comes until the connection ends."""
    for part in parts:
        writer.write(part)
        await asyncio.sleep(pause_s)
    try:
        async with asyncio.timeout(5):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("parts", [(), (b"G",), (HEAD,)])
def test_half_of_a_head_ends(parts):
    async def half():
        async with served() as connect:
            assert await _answer_to(*await connect(), *parts) == b""

    finished(half())


def test_bytes_that_drip_do_not_keep_it_open():
    async def dripping():
        async with served() as connect:
            reader, writer = await connect()
            writer.write(HEAD)
            while not reader.at_eof():
                writer.write(b"X: y\r\n")
                try:
                    async with asyncio.timeout(0.02):
                        await reader.read(1)
                except TimeoutError:
                    continue
                except ConnectionResetError:
                    break
            writer.close()

    finished(dripping())


def test_half_of_a_second_head_ends_too():
    async def second():
        async with served() as connect:
            answer = await _answer_to(*await connect(), HEAD + b"\r\n", HEAD, pause_s=0.05)
            assert answer.count(b"HTTP/1.1 200") == 1

    finished(second())


def test_an_answer_that_takes_long_and_requests_one_after_another_are_served():
    async def long():
        async with served() as connect:
            slow = HEAD.replace(b"/ ", b"/slow ") + b"\r\n"
            answer = await _answer_to(*await connect(), slow)
            assert answer.endswith(b"ok")
            many = await _answer_to(*await connect(), *[HEAD + b"\r\n"] * 8, pause_s=0.1)
            assert many.count(b"HTTP/1.1 200") == 8

    finished(long())


def test_with_few_descriptors_left_no_connection_begins(monkeypatch):
    async def short():
        async with served() as connect:
            monkeypatch.setattr(connections.descriptors, "left", lambda: connections.LEAST_LEFT - 1)
            assert await _answer_to(*await connect(), HEAD + b"\r\n") == b""
            monkeypatch.undo()

    finished(short())
