"""Files that a screen offers for download: made when they are requested, and served under an
unguessable address until the session ends that offered them.

Streamlit's own deferred files belong to no session: any two later runs of any visitor's script
delete them.
"""

import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from typing import Any
from urllib.parse import quote
from weakref import WeakValueDictionary

import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit.runtime.media_file_manager import MediaFileManager

from spmd_core.base import LabError

_ROUTE = "downloads"
_ADDRESS = re.compile(rf"/{_ROUTE}/([A-Za-z0-9_-]{{22}})$")
_OFFERED = "offered downloads"  # of a session's state: what it offers, by key
MOST_OF_SESSION = 64  # offers that a session keeps: the oldest go first
MOST_BYTES = 64 * 2**20  # of contents kept between a press and the browser's requests
KEPT_S = 60.0
OVER = "This download is over: load the page again, and press its button."


class Download:
    """A file that can be made at any time."""

    def __init__(self, make: Callable[[], str | bytes], file: str, mime: str):
        self.make, self.file, self.mime = make, file, mime
        self.token = secrets.token_urlsafe(16)

    def __call__(self) -> bytes:
        """Make the file's content."""
        made = self.make()
        return made.encode() if isinstance(made, str) else made


def offer(key: str, make: Callable[[], str | bytes], file: str, mime: str) -> Download:
    """Returns the download of a session's key, whose address stays while the session lasts."""
    offered: dict[str, Download] = st.session_state.setdefault(_OFFERED, {})
    download = offered.pop(key, None) or Download(make, file, mime)
    download.make, download.file, download.mime = make, file, mime
    offered[key] = _by_token[download.token] = download
    while len(offered) > MOST_OF_SESSION:
        del offered[next(iter(offered))]
    return download


class Downloads:
    """ASGI middleware that answers the addresses of downloads; passes on all else."""

    def __init__(self, app: ASGIApp):
        self._app = app
        for name, method in (("add", _add_deferred), ("execute", _execute_deferred)):
            setattr(MediaFileManager, f"{name}_deferred", method)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a download, or pass the request on."""
        matched = _ADDRESS.search(scope["path"]) if scope["type"] == "http" else None
        await (await _answer(scope, matched[1]) if matched else self._app)(scope, receive, send)


_by_token: WeakValueDictionary[str, Download] = WeakValueDictionary()
_made: OrderedDict[str, tuple[float, bytes]] = OrderedDict()  # token -> (time, content)
_lock = threading.Lock()
_streamlit_adds, _streamlit_executes = (
    MediaFileManager.add_deferred,
    MediaFileManager.execute_deferred,
)


def _add_deferred(manager: MediaFileManager, data: Any, *rest: Any, **named: Any) -> str:
    if isinstance(data, Download):
        return data.token
    return _streamlit_adds(manager, data, *rest, **named)


def _execute_deferred(manager: MediaFileManager, file_id: str) -> str:
    if (download := _by_token.get(file_id)) is None:
        return _streamlit_executes(manager, file_id)
    _keep(file_id, download())
    return f"{_ROUTE}/{file_id}"  # relative, so that a base path stays what it is


def _keep(token: str, content: bytes) -> None:
    with _lock:
        _made.pop(token, None)
        _made[token] = time.monotonic(), content
        held = sum(len(each) for _, each in _made.values())
        while _made and (
            held > MOST_BYTES or next(iter(_made.values()))[0] < time.monotonic() - KEPT_S
        ):
            held -= len(_made.popitem(last=False)[1][1])


async def _answer(scope: MutableMapping[str, Any], token: str) -> Response:
    """The content of a press of a moment ago, else made anew."""
    download = _by_token.get(token)
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    if download is None:
        return PlainTextResponse(f"{OVER}\n", 404, headers)
    if scope.get("method") not in ("GET", "HEAD"):
        return PlainTextResponse("a download is only read\n", 405, headers)
    with _lock:
        made_at, content = _made.get(token, (0.0, None))
    if content is None or made_at < time.monotonic() - KEPT_S:
        try:
            content = await run_in_threadpool(download)
        except LabError as error:
            return PlainTextResponse(f"{error}\n", 404, headers)
    headers["content-disposition"] = f"attachment; filename*=utf-8''{quote(download.file, safe='')}"
    return Response(content, media_type=download.mime, headers=headers)
