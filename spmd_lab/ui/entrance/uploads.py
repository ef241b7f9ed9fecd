"""Which uploads are taken before Streamlit holds them in memory: none where programs are not, no
more bytes at a time than the server has for them, and none for as long as a visitor likes.
"""

import asyncio
import re
import time
from collections import Counter, deque

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import runtime
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager

from spmd_core.base import bytes_text, read_settings
from spmd_core.workloads import programs
from spmd_lab.ui.entrance import door, sessions

ROUTE = "/_stcore/upload_file/"
MOST_BYTES = programs.MOST_BYTES + 2**16  # a file, and what frames it in the request
MOST_OF_ADDRESS, MOST_IN_ALL = 4 * MOST_BYTES, 16 * MOST_BYTES  # within WINDOW_S
MOST_HELD = 4 * MOST_BYTES  # of files that no screen has taken yet: the oldest go first
WINDOW_S = 300.0
REST_S = 30.0  # the longest pause within an upload
TOO_LARGE = f"a program may have {bytes_text(programs.MOST_BYTES)}"
TOO_MANY = "too many uploads: wait five minutes"
_LENGTH = re.compile(rb"[0-9]{1,18}")
_ended: deque[tuple[float, str, int]] = deque()  # (time, address, bytes) of each upload
_taken: Counter[str] = Counter()  # bytes of each address, within WINDOW_S or still coming


def is_upload(scope: Scope) -> bool:
    """Returns True if a request brings a file."""
    return ROUTE in scope["path"] and scope.get("method") == "PUT"


def answer(scope: Scope) -> Response | None:
    """What is answered instead of taking an upload; None where it is taken, or is none."""
    if not is_upload(scope):
        return None
    if read_settings().allowed_uploads(door.is_exposed()) == "off":
        return PlainTextResponse("programs are not taken here: see SPMD_LAB_UPLOADS\n", 403)
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    is_chunked = any(name == b"transfer-encoding" for name, _ in scope["headers"])
    if is_chunked or len(lengths) != 1 or not _LENGTH.fullmatch(lengths[0]):
        words = "the length of an upload is required, without Transfer-Encoding\n"
        return PlainTextResponse(words, 411)
    if int(lengths[0]) > MOST_BYTES:
        return PlainTextResponse(f"{TOO_LARGE}\n", 413)
    if _is_too_much(_address(scope), int(lengths[0])):
        return PlainTextResponse(f"{TOO_MANY}\n", 429)
    return None


async def take(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Pass an upload on, and count its bytes as they come; HTTPException, which the route answers,
    where they exceed a limit or stay away for `REST_S`.
    """
    address, size = _address(scope), 0

    async def received() -> Message:
        nonlocal size
        try:
            async with asyncio.timeout(REST_S):
                message = await receive()
        except TimeoutError as error:
            raise HTTPException(408, f"nothing came for {REST_S:g} s: send it again") from error
        count = len(message.get("body", b""))
        size += count
        _taken[address] += count
        if size > MOST_BYTES:
            raise HTTPException(413, TOO_LARGE)
        if _is_too_much(address, 0):
            raise HTTPException(429, TOO_MANY)
        return message

    try:
        await app(scope, received, send)
    finally:
        _ended.append((time.monotonic(), address, size))
        sessions.let_go()  # its session may have ended while it came
        if runtime.exists():
            let_go(runtime.get_instance().uploaded_file_mgr, MOST_HELD)


def let_go(held: object, most_bytes: int) -> None:
    """Let go of the oldest files until no more bytes are held: Streamlit keeps one that no widget
    reads until its session ends, which whoever sent it decides.
    """
    if not isinstance(held, MemoryUploadedFileManager):
        return
    files = [
        (session, file, len(each.data))
        for session, of_session in list(held.file_storage.items())
        for file, each in list(of_session.items())
    ]
    excess = sum(size for _, _, size in files) - most_bytes
    for session, file, size in files:
        if excess <= 0:
            return
        held.remove_file(session, file)
        excess -= size


def _address(scope: Scope) -> str:
    return (scope.get("client") or ("",))[0]


def _is_too_much(address: str, more: int) -> bool:
    """Whether these bytes are too many beside those that came within WINDOW_S."""
    while _ended and _ended[0][0] < time.monotonic() - WINDOW_S:
        _, who, size = _ended.popleft()
        _taken[who] -= size
        if not _taken[who]:
            del _taken[who]
    return _taken[address] + more > MOST_OF_ADDRESS or _taken.total() + more > MOST_IN_ALL
