"""Connections before and between requests, which uvicorn bounds in neither time nor number: one
that sends half of a head, or nothing, is kept for ever, and takes a descriptor of the queue.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from spmd_core.base import descriptors

HEAD_S = 20.0  # for a head to come, and between two requests
LEAST_LEFT = descriptors.RESERVE // 2  # above it a visitor is answered with a sentence


def bound() -> None:
    """Have uvicorn end connections that rest for `HEAD_S` without a request, and refuse them where
    fewer than `LEAST_LEFT` descriptors are left. uvicorn has an option for neither, and
    `streamlit run` lets no app choose the class of its protocols.
    """
    protocol: Any = AutoHTTPProtocol
    begin = protocol.connection_made

    def connection_made(self: Any, transport: asyncio.Transport) -> None:
        begin(self, transport)
        if descriptors.left() < LEAST_LEFT:
            transport.abort()
        else:
            self.loop.call_later(HEAD_S, _look, self, None)

    protocol.connection_made = connection_made


def _look(connection: Any, cycle: object) -> None:
    """End a connection without a new request since a look at which `cycle` was its last one."""
    transport = connection.transport
    if transport.is_closing() or transport.get_protocol() is not connection:
        return  # over, or a screen's connection by now
    last = connection.cycle
    if last is cycle and (last is None or last.response_complete):
        transport.abort()
    else:
        connection.loop.call_later(HEAD_S, _look, connection, last)
