"""Serves nothing but a sentence while the dashboard is closed, and a page to log in before a login:
on every path and open connection.
"""

import time

from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spmd_core.base import descriptors, read_settings
from spmd_lab.ui.entrance import before, cookies, door, hosts, sessions, uploads, version

UNAVAILABLE = 503
FULL = (
    "This dashboard has as many tabs open as its file descriptors allow: close some, or start it "
    "with a higher `ulimit -n`.\n"
)
_POLICY_VIOLATION = 1008  # of websockets
_CLOSE: Message = {"type": "websocket.close", "code": _POLICY_VIOLATION}
_DISCONNECT: Message = {"type": "websocket.disconnect", "code": _POLICY_VIOLATION}


class Gate:
    """ASGI middleware that checks every request: Streamlit's paths and its websocket."""

    def __init__(self, app: ASGIApp):
        self._app = app
        # a login is remembered, and the source is stamped, from the start on, not from the first
        # visitor on
        door.closed()
        version.source.has_changed()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with the sentence."""
        if scope["type"] == "http":
            if answer := _instead(scope) or await before.answer(scope) or uploads.answer(scope):
                await answer(scope, receive, send)
            elif uploads.is_upload(scope):
                await uploads.take(self._app, scope, receive, send)
            else:
                await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            if _may_connect(scope):
                await self._connection(scope, receive, send)
            else:
                await send(_CLOSE)
        else:
            await self._app(scope, receive, send)

    async def _connection(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A connection that ends with the browser's next message once its visitor may not come in
        any more, such as after a log-out elsewhere; with the server's within `door.LOOK_S`.
        """
        looked, may_enter, is_ended = float("-inf"), True, False

        async def end() -> None:
            nonlocal is_ended
            if not is_ended:
                is_ended = True
                await send(_CLOSE)

        def may_go_on(within: float) -> bool:
            nonlocal looked, may_enter
            if (now := time.monotonic()) - looked >= within:
                looked, may_enter = now, door.entry_of(scope).may_enter
            return may_enter and not is_ended

        async def received() -> Message:
            message = await receive()
            if message["type"] == "websocket.disconnect" or may_go_on(0.0):
                return message
            await end()
            return _DISCONNECT

        async def sent(message: Message) -> None:
            if is_ended:
                return
            if message["type"] == "websocket.close" or may_go_on(door.LOOK_S):
                await send(message)
            else:
                await end()

        try:
            await self._app(scope, received, sent)
        finally:
            sessions.let_go()


def _is_page(scope: Scope) -> bool:
    """Returns True if a request is for a new tab, not for a part of an open one."""
    return any(
        name == b"accept" and b"text/html" in value for name, value in scope.get("headers", ())
    )


def _may_connect(scope: Scope) -> bool:
    asked = read_settings().token
    is_known = not asked or cookies.is_known(scope, asked)
    may_enter = is_known and not hosts.refusal(scope) and door.entry_of(scope).may_enter
    return may_enter and descriptors.left() >= descriptors.RESERVE


def _instead(scope: Scope) -> Response | None:
    """What is answered instead of what was requested; None where that is served."""
    if answer := hosts.answer(scope):
        return answer
    if _is_page(scope) and descriptors.left() < descriptors.RESERVE:
        return PlainTextResponse(
            FULL, UNAVAILABLE, {"cache-control": "no-store", "retry-after": "30"}
        )
    if sentence := door.closed():
        return PlainTextResponse(f"{sentence}\n", UNAVAILABLE, {"cache-control": "no-store"})
    asked = read_settings().token
    return cookies.answer(scope, asked) if asked else None
