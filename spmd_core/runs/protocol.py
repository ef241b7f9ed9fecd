"""JSON lines over a dedicated socket, so that printed output cannot interfere."""

import ctypes
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Generic, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from spmd_core.base import WorkerError, shorten

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
MAX_LINE_BYTES = 256 * 2**20
READ_BYTES = 2**20
T = TypeVar("T")


class Lines(Generic[T]):
    """Bytes in, values out: splits a stream into lines and validates each."""

    def __init__(self, adapter: TypeAdapter[T]):
        self._adapter, self._pending, self._searched = adapter, bytearray(), 0

    def feed(self, data: bytes) -> Iterator[T]:
        """The values that these bytes complete; WorkerError for a line that is none."""
        self._pending += data
        while (end := self._pending.find(b"\n", self._searched)) >= 0:
            line = bytes(self._pending[:end])
            del self._pending[: end + 1]
            self._searched = 0
            try:
                yield self._adapter.validate_json(line)
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                raise WorkerError(
                    f"line {shorten(line)} does not belong to the protocol: {first['msg']}"
                ) from None
        self._searched = len(self._pending)
        if self._searched > MAX_LINE_BYTES:
            raise WorkerError(
                f"a line of more than {MAX_LINE_BYTES} bytes does not belong to the protocol"
            )


def channel_to_parent(number: int) -> socket.socket:
    """The socket that a child inherited from its parent. On Linux it is killed when the thread that
    started it ends.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    channel = socket.socket(fileno=number)
    channel.set_inheritable(False)
    return channel


def encode(value: BaseModel) -> bytes:
    """Serializes a value as one line."""
    return value.model_dump_json().encode() + b"\n"


def send(channel: socket.socket, value: BaseModel) -> None:
    """Send a value, waiting until the other side has taken it."""
    channel.sendall(encode(value))
