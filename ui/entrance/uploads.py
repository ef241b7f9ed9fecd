"""Which uploads are taken before Streamlit holds them in memory: none where programs are not, and no
more bytes at a time than the server has for them.
"""

import time
from collections import deque
from collections.abc import MutableMapping
from typing import Any

from starlette.responses import PlainTextResponse, Response

from spmd_core.base import bytes_text, read_settings
from spmd_core.experiment import programs
from ui.entrance import door

ROUTE = "/_stcore/upload_file/"
MOST_BYTES = programs.MOST_BYTES + 2**16  # a file, and what frames it in the request
MOST_OF_ADDRESS, MOST_IN_ALL = 4 * MOST_BYTES, 16 * MOST_BYTES  # within WINDOW_S
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
    return None


def _forget_old() -> None:
    while _taken and _taken[0][0] < time.monotonic() - WINDOW_S:
        _taken.popleft()
