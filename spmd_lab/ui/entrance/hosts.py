"""Which Host and Origin are served: a page that a foreign DNS name was rebound to is not.

A browser that opened `http://evil.example:8501`, whose DNS answer then becomes 127.0.0.1, sends
`Host: evil.example:8501`: Host and Origin agree, and only the name distinguishes such a page from an own one.
"""

import re
from collections.abc import Iterator
from functools import cache
from ipaddress import ip_address

import streamlit as st
from starlette.responses import PlainTextResponse, Response
from starlette.types import Scope
from streamlit import config

from spmd_lab.ui.entrance import door

OPTION, OF_ORIGINS = "server.allowedHosts", "server.corsAllowedOrigins"
FORBIDDEN = 403
HEALTH = "/_stcore/health"
_ANY = "*"
_HIGHEST_PORT = 65535
# host and port of RFC 3986, the host a DNS name or an IP literal
_AUTHORITY = re.compile(
    r"(\[(?P<ipv6>[0-9a-f:.]{2,45})\]|(?P<host>[a-z0-9_][a-z0-9_.-]{0,252}))(:(?P<port>[0-9]{0,5}))?",
    re.IGNORECASE | re.ASCII,
)
_URI = re.compile(r"https?://([^/?#]*)", re.IGNORECASE)


def answer(scope: Scope) -> Response | None:
    """Returns the refusal of a foreign page's request; None if the request is served."""
    refused = None if _is_health(scope) else refusal(scope)
    if refused is None:
        return None
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return PlainTextResponse(f"{refused}\n", FORBIDDEN, headers)


def refusal(scope: Scope) -> str | None:
    """Returns the sentence against the first foreign Host or Origin of a request or connection;
    None if there is none. A client that is no browser may send neither.
    """
    names = _names()
    hosts = [host_of(authority) for authority in _authorities(scope)]
    for host in hosts:
        if host is None or not (_is_address(host) or _is_among(host, names)):
            return _sentence("Host", host)
    # a page of a foreign IP address is foreign, whereas a Host that is one is how this server is
    # reached
    here = {*hosts, *map(_host_of_uri, st.get_option(OF_ORIGINS))}
    for origin in map(_host_of_uri, _values(scope, b"origin")):
        if origin is None or not (
            origin in here
            or (_is_address(origin) and ip_address(origin).is_loopback)
            or _is_among(origin, names)
        ):
            return _sentence("Origin", origin)
    return None


def host_of(authority: str) -> str | None:
    """Returns the host of `host:port` in lower case, without the dot that may end a DNS name; None
    if the text is not of that form.
    """
    match = _AUTHORITY.fullmatch(authority)
    if match is None or int(match["port"] or 0) > _HIGHEST_PORT:
        return None
    if match["ipv6"]:
        return match["ipv6"].lower() if _is_address(match["ipv6"]) else None
    return _plain(match["host"])


def _host_of_uri(uri: str) -> str | None:
    match = _URI.match(uri)
    return host_of(match[1]) if match else None


def _names() -> frozenset[str]:
    """The names of the settings; `*.example.com` is each name below example.com, `*` any name."""
    addresses = st.get_option("server.address"), st.get_option("browser.serverAddress")
    login = _host_of_uri(door.login_address())
    return frozenset(_plain(name) for name in ("localhost", *addresses, login, *_listed()) if name)


def _is_among(host: str, names: frozenset[str]) -> bool:
    parents = (host[at:] for at, letter in enumerate(host) if letter == ".")
    return not names.isdisjoint((_ANY, host, *(f"{_ANY}{parent}" for parent in parents)))


def _authorities(scope: Scope) -> Iterator[str]:
    """The Hosts of a request, and that of an absolute URI, which a server obeys before them."""
    yield from _values(scope, b"host")
    if not (path := scope.get("path", "/")).startswith("/"):
        match = _URI.match(path)
        yield match[1] if match else ""


def _values(scope: Scope, name: bytes) -> list[str]:
    headers = scope.get("headers", ())
    return [value.decode("latin-1").strip(" \t") for each, value in headers if each == name]


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_health(scope: Scope) -> bool:
    """A proxy's health check comes by the name of its upstream; the answer is `ok` alone."""
    base = st.get_option("server.baseUrlPath").strip("/")
    path = f"/{base}{HEALTH}" if base else HEALTH
    is_read = scope.get("method") in ("GET", "HEAD") and not _values(scope, b"origin")
    return is_read and scope.get("path") == path


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix(".")


@cache
def _listed() -> tuple[str, ...]:
    """The option as of the start. Streamlit's own check of the WebSocket knows nothing else, and
    would refuse localhost beside a listed name: it is left with any name.
    """
    listed = tuple(st.get_option(OPTION))
    if listed:
        config.set_option(OPTION, [_ANY])
    return listed


def _sentence(header: str, host: str | None) -> str:
    if host is None:
        return f"{header} has no name of this dashboard: open it by its address."
    fix = f"{OPTION} {host}" if header == "Host" else f"{OF_ORIGINS} https://{host}"
    return (
        f"{header} {host} is no name of this dashboard: open it by its address, or, if you run it "
        f"and the name is yours, start it with --{fix}"
    )
