"""Which uploads are taken before Streamlit holds them in memory: none where programs are not, no
more bytes at a time than the server has for them, and none for as long as a visitor likes.
"""

import time
from collections import deque
from collections.abc import MutableMapping
from typing import Any

from starlette.responses import PlainTextResponse, Response
from streamlit import runtime
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager

from spmd_core.base import bytes_text, read_settings
from spmd_core.experiment import programs
from ui.entrance import door

ROUTE = "/_stcore/upload_file/"
MOST_BYTES = programs.MOST_BYTES + 2**16  # a file, and what frames it in the request
MOST_OF_ADDRESS, MOST_IN_ALL = 4 * MOST_BYTES, 16 * MOST_BYTES  # within WINDOW_S
MOST_HELD = 4 * MOST_BYTES  # of files that no screen has taken yet: the oldest go first
WINDOW_S = 300.0
_taken: deque[tuple[float, str, int]] = deque()  # (time, address, bytes) of each


def answer(scope: MutableMapping[str, Any]) -> Response | None:
    """What is answered instead of taking an upload; None where it is taken, or is none."""
    if ROUTE not in scope["path"] or scope.get("method") != "PUT":
        return None
    if read_settings().allowed_uploads(door.is_exposed()) == "off":
        return PlainTextResponse("programs are not taken here: see SPMD_LAB_UPLOADS\n", 403)
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    if len(lengths) != 1 or not lengths[0].isdigit():
        return PlainTextResponse("the length of an upload is required\n", 411)
    size, address = int(lengths[0]), (scope.get("client") or ("",))[0]
    if size > MOST_BYTES:
        return PlainTextResponse(f"a program may have {bytes_text(programs.MOST_BYTES)}\n", 413)
    _forget_old()
    of_address = sum(taken for _, who, taken in _taken if who == address)
    in_all = sum(taken for _, _, taken in _taken)
    if of_address + size > MOST_OF_ADDRESS or in_all + size > MOST_IN_ALL:
        return PlainTextResponse("too many uploads: wait five minutes\n", 429)
    _taken.append((time.monotonic(), address, size))
    if runtime.exists():
        let_go(runtime.get_instance().uploaded_file_mgr, MOST_HELD - size)
    return None


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


def _forget_old() -> None:
    while _taken and _taken[0][0] < time.monotonic() - WINDOW_S:
        _taken.popleft()
