"""Serves nothing but a sentence while the dashboard is closed, on every path and open connection."""

import time

from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spmd_core.base import descriptors, read_settings
from ui.entrance import door, hosts, sessions, token, uploads, version

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
        self._looked, self._is_closed, self._has_login = float("-inf"), False, False
        # a login is remembered, and the source is stamped, from the start on, not from the first
        # visitor on
        door.closed()
        version.source.has_changed()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with the sentence."""
        if scope["type"] == "http":
            if answer := _instead(scope):
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
        """A connection that ends with the browser's next message once the dashboard is closed, or
        once a login is required that was not when it began; with the server's within `door.LOOK_S`.
        """
        had_login = door.is_login_set_up()
        is_ended = False

        async def end() -> None:
            nonlocal is_ended
            if not is_ended:
                is_ended = True
                await send(_CLOSE)

        def may_go_on(within: float) -> bool:
            self._look(within)
            return not (is_ended or self._is_closed) and self._has_login == had_login

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

    def _look(self, within: float) -> None:
        """How the door stands, as seen at most `within` seconds ago."""
        now = time.monotonic()
        if now - self._looked >= within:
            self._is_closed, self._has_login = bool(door.closed()), door.is_login_set_up()
            self._looked = now


def _is_page(scope: Scope) -> bool:
    """Returns True if a request is for a new tab, not for a part of an open one."""
    return any(
        name == b"accept" and b"text/html" in value for name, value in scope.get("headers", ())
    )


def _may_connect(scope: Scope) -> bool:
    """Returns True if a screen may open its connection."""
    asked = read_settings().token
    is_known = not asked or token.is_known(scope, asked)
    refused = hosts.refusal(scope) or door.closed()
    return is_known and not refused and descriptors.left() >= descriptors.RESERVE


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
    if asked and (answer := token.answer(scope, asked)):
        return answer
    return uploads.answer(scope)
