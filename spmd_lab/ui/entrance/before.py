"""What is served before a login: a page with its buttons, the login itself, and a sign of life."""

import asyncio
import time
from html import escape
from urllib.parse import parse_qs, quote, unquote, urlencode

import streamlit as st
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import Scope
from streamlit.auth_util import encode_provider_token

from spmd_core.base import default_data_folder, login
from spmd_lab.ui.entrance import door, short

_LOGIN, _LOGOUT = "auth/login", "auth/logout"
_BACK, _LONGEST = "spmd_lab_back", 3000  # characters, of the 4,096 of a cookie
_OPEN = ("_stcore/health", "oauth2callback")
_STYLE = (
    "body{font:15px system-ui,sans-serif;margin:4rem auto;max-width:36rem;padding:0 1rem;"
    "color-scheme:light dark}button{font:inherit;padding:.4rem .9rem;margin:.25rem 0}"
)


async def answer(scope: Scope) -> Response | None:
    """What is answered instead of what a visitor may not have, or not yet; None where it is served.
    Logging out ends each of the visitor's logins.
    """
    path = str(scope["path"]).removeprefix(_base())
    if path == _LOGIN:
        return _to_provider(scope)
    if path == _LOGOUT:
        await _end(scope)
    if path in (*_OPEN, _LOGOUT):
        return None
    if (entry := door.entry_of(scope)).may_enter:
        return _back(scope) if path == "" and door.is_login_set_up() else None
    if entry.closed:
        return PlainTextResponse(f"{entry.closed}\n", 503, {"cache-control": "no-store"})
    if scope.get("method") not in ("GET", "HEAD"):
        return PlainTextResponse(f"{door.FIRST}\n", 401, {"cache-control": "no-store"})
    if short.is_previewing(scope):
        return HTMLResponse(short.preview(""))
    page = HTMLResponse(_page(entry), 401, {"cache-control": "no-store"})
    if "text/html" in HTTPConnection(scope).headers.get("accept", ""):
        query = scope.get("query_string", b"").decode("latin-1")
        to = quote(scope["path"].lstrip("/\\")) + (f"?{query}" if query else "")
        page.set_cookie(_BACK, quote(to[:_LONGEST], safe=""), 600, httponly=True, samesite="lax")
    return page


def _back(scope: Scope) -> Response | None:
    """The way to the screen that was requested before the login: a login leads to the first one."""
    to = HTTPConnection(scope).cookies.get(_BACK)
    if not to:
        return None
    response = RedirectResponse("/" + unquote(to).lstrip("/\\"), 303, {"cache-control": "no-store"})
    response.delete_cookie(_BACK)
    return response


def _base() -> str:
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}/" if base else "/"


def _to_provider(scope: Scope) -> Response | None:
    """The same address with what Streamlit expects in place of a provider's name: it is valid for
    two minutes, and a page stays open for longer.
    """
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    (name,) = query.get("name", ["default"])[:1]
    if "provider" in query or name not in door.entry_of({**scope, "headers": ()}).providers:
        return None
    to = urlencode({"provider": encode_provider_token(name)})
    return RedirectResponse(f"?{to}", 303, {"cache-control": "no-store"})


async def _end(scope: Scope) -> None:
    request = HTTPConnection(scope)
    visitor = door.member_of(request.cookies)
    if visitor is None or request.headers.get("sec-fetch-site") == "cross-site":
        return
    login.end_of(default_data_folder(), visitor.person)
    await asyncio.sleep(1 - time.time() % 1)  # a login of the same second would be over too


def _page(entry: door.Entry) -> str:
    if entry.turned_away:
        sentence, forms = entry.turned_away, _form(_LOGOUT, "Log out")
    else:
        sentence = "This dashboard asks for a login."
        forms = "".join(
            _form(_LOGIN, "Log in" if name == "default" else f"Log in with {name}", name)
            for name in entry.providers
        )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>SPMD Lab</title>'
        f"<style>{_STYLE}</style></head><body><h1>SPMD Lab</h1><p>{escape(sentence)}</p>{forms}"
        "</body></html>"
    )


def _form(route: str, label: str, name: str = "") -> str:
    field = f'<input type="hidden" name="name" value="{escape(name)}">' if name else ""
    return f'<form action="{escape(_base())}{route}">{field}<button>{escape(label)}</button></form>'
