"""What `streamlit run app.py` starts: the server of the screens, of which `home.py` is the first."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

END_S = 5  # from a SIGTERM to the end of answers that nobody reads
# of a message from a browser, which is received before its login is checked; Streamlit takes 200 MB,
# since its own messages to a browser may be that long
MOST_RECEIVED_BYTES = 4_000_000
# No other site may show these pages in a frame, where it could lead a click to a Run button; and no
# text of a link or a run may fetch a picture from elsewhere, which would reveal who reads it
_HEADERS = [
    (b"content-security-policy", b"frame-ancestors 'self'; img-src 'self' data:"),
    (b"x-frame-options", b"SAMEORIGIN"),
]


class OwnFrames:
    """Adds the headers against foreign frames to every answer."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its answer back with the headers; a screen's messages as they are."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        await self._app(scope, receive, with_headers)


def gate(app: ASGIApp) -> ASGIApp:
    """What serves nothing while the dashboard is closed."""
    if sys.version_info < (3, 11):  # noqa: UP036 - the screens report that Python is too old
        return app
    from spmd_core.base import descriptors
    from spmd_lab.ui.entrance import connections
    from spmd_lab.ui.entrance.downloads import Downloads
    from spmd_lab.ui.entrance.gate import Gate
    from spmd_lab.ui.entrance.short import ShortLinks

    descriptors.raise_limit()
    connections.bound()
    return Gate(Downloads(ShortLinks(app)))


@contextlib.asynccontextmanager
async def lifespan(app: object) -> AsyncIterator[None]:
    """Have the server end within END_S of a SIGTERM: by default it waits, without end, for clients
    that do not read what they requested; and receive no message of over MOST_RECEIVED_BYTES.
    Streamlit has no option for either.
    """
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    if config := getattr(server, "config", None):  # uvicorn.Server.handle_exit
        config.timeout_graceful_shutdown = END_S
        config.ws_max_size = MOST_RECEIVED_BYTES
    if sys.version_info >= (3, 11):  # noqa: UP036 - the screens report that Python is too old
        # imports of the first screen, while a browser loads it
        imported = threading.Thread(
            target=importlib.import_module, args=("spmd_lab.ui.cards",), daemon=True
        )
        imported.start()
    yield


def reported(error: Exception) -> bool:
    """A failure that no screen has caught: its sentence where it has one; whether it was shown."""
    from spmd_core.base import LabError
    from spmd_lab.ui.entrance import version
    from spmd_lab.ui.markdown import (
        plain,  # not before a screen has reported that Python is too old
    )

    if version.source.has_changed(now=True):
        st.error(version.START_AGAIN, icon=":material/restart_alt:")
        return True
    if not isinstance(error, LabError):
        return False
    st.error(plain(str(error)), icon=":material/error:")
    return True


# uvicorn believes any program of this machine about its address, unless configured otherwise
os.environ["FORWARDED_ALLOW_IPS"] = os.environ.get("SPMD_LAB_PROXY", "")
app = st.App("home.py", on_script_error=reported, lifespan=lifespan)
# around all of it: with secrets that cannot be read, Streamlit fails before its own middleware
app = OwnFrames(gate(app))
