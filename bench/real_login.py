"""A login round trip in a real browser against an OpenID provider of this machine: a listed member
comes in, others are turned away, a log-out and the end of the cookie close the screens again.

    python -m bench.real_login [--json]

Needs what a login needs: `pip install streamlit[auth]`.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from playwright.sync_api import Page, expect, sync_playwright

from bench.browser import PATIENCE_MS
from bench.figures import Asked, Figures, measure
from bench.server import CHROMIUM, Server
from spmd_core.lab import Lab

SECRET = "a secret of the client, long enough for HS256"
MEMBERS = "ann@example.com,example.org"
USERS: dict[str, dict[str, Any]] = {
    "ann": {"email": "ann@example.com", "email_verified": True},
    "bob, not listed": {"email": "bob@example.com", "email_verified": True},
    "ann, not confirmed": {"email": "ann@example.com", "email_verified": False},
    "carl of a listed domain": {"email": "carl@example.org", "email_verified": True},
}


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _signed(claims: dict[str, Any]) -> str:
    """A JSON web token with these claims."""
    head = _encoded(json.dumps({"alg": "HS256", "typ": "JWT", "kid": "1"}).encode())
    text = f"{head}.{_encoded(json.dumps(claims).encode())}"
    return f"{text}.{_encoded(hmac.digest(SECRET.encode(), text.encode(), hashlib.sha256))}"


class Provider:
    """An OpenID provider that logs in whom `user` names, without a question."""

    def __init__(self) -> None:
        self.user = "ann"
        self._nonces: dict[str, str] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                at = urlsplit(self.path)
                asked = {name: values[0] for name, values in parse_qs(at.query).items()}
                if at.path == "/authorize":
                    code = str(len(provider._nonces))
                    provider._nonces[code] = asked.get("nonce", "")
                    back = urlencode({"code": code, "state": asked["state"]})
                    self.send_response(302)
                    self.send_header("Location", f"{asked['redirect_uri']}?{back}")
                    self.end_headers()
                    return
                key = {"kty": "oct", "kid": "1", "alg": "HS256", "k": _encoded(SECRET.encode())}
                pages = {
                    "/.well-known/openid-configuration": provider.description,
                    "/keys": {"keys": [key]},
                }
                self._answer(pages.get(at.path, {}))

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                asked = parse_qs(self.rfile.read(length).decode())
                now = int(time.time())
                claims = USERS[provider.user] | {
                    "iss": provider.url,
                    "sub": provider.user,
                    "aud": "the dashboard",
                    "iat": now,
                    "exp": now + 600,
                    "nonce": provider._nonces[asked["code"][0]],
                }
                token = {"access_token": "a", "token_type": "Bearer", "expires_in": 600}
                self._answer(token | {"id_token": _signed(claims)})

            def _answer(self, body: dict[str, Any]) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, format: str, *args: object) -> None:
                """Nothing on the terminal."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def description(self) -> dict[str, Any]:
        """What it publishes of itself."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "id_token_signing_alg_values_supported": ["HS256"],
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
        }


@contextmanager
def guarded(provider: Provider) -> Iterator[Server]:
    """A dashboard whose login is that provider's."""
    with tempfile.TemporaryDirectory(prefix="spmd-lab-login-") as name:
        secrets = Path(name) / "secrets.toml"
        server = Server(Path(name), "--secrets.files", str(secrets))
        secrets.write_text(
            f'[auth]\nredirect_uri = "{server.url}/oauth2callback"\n'
            f'cookie_secret = "{"x" * 40}"\nclient_id = "the dashboard"\n'
            f'client_secret = "{SECRET}"\n'
            f'server_metadata_url = "{provider.url}/.well-known/openid-configuration"\n',
            "utf-8",
        )
        os.environ["SPMD_LAB_MEMBERS"] = MEMBERS
        os.environ["SPMD_LAB_RUNNERS"] = str(USERS["ann"]["email"])
        server.start()
        try:
            yield server
        finally:
            server.stop()


def log_in(page: Page, server: Server) -> bool:
    """Open History and log in: whether its screen is shown."""
    page.goto(f"{server.url}/history")
    with page.expect_response(lambda answer: "/oauth2callback" in answer.url):
        page.get_by_role("button", name="Log in").click()
    answer = page.goto(f"{server.url}/history")
    if answer is None or answer.status == 401:
        return False
    page.get_by_role("heading", name="What ran").wait_for()
    return True


def is_asked(page: Page, server: Server) -> bool:
    """Whether a login is asked for, and no screen shown."""
    page.goto(f"{server.url}/history")
    page.get_by_role("button", name="Log in").wait_for()
    return not page.get_by_role("heading", name="What ran").is_visible()


def steps(page: Page, server: Server, provider: Provider) -> Iterator[tuple[str, bool]]:
    """What was tried, and whether it went as it should."""
    yield "a login is asked for first", is_asked(page, server)
    for user, is_member in zip(USERS, (True, False, False, True), strict=True):
        page.context.clear_cookies()
        provider.user = user
        yield user, log_in(page, server) == is_member
    provider.user = "bob, not listed"  # who is offered to log out
    page.context.clear_cookies()
    log_in(page, server)
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("button", name="Log in").wait_for()
    yield "a login is asked for after the log-out", is_asked(page, server)
    provider.user = "ann"
    yield "and a member comes in", log_in(page, server)
    for cookie in page.context.cookies():
        if "user" in (name := cookie.get("name", "")):
            page.context.clear_cookies(name=name)
    yield "a login is asked for once the cookie is over", is_asked(page, server)
    yield from roles(page, server, provider)


def roles(page: Page, server: Server, provider: Provider) -> Iterator[tuple[str, bool]]:
    """What a member who is listed nowhere may do, and a runner; and whose it is then."""
    begin = page.get_by_role("button", name="Begin")
    only_look = page.get_by_text("You may look and estimate here")
    for user, may_run in (("carl of a listed domain", False), ("ann", True)):
        page.context.clear_cookies()
        provider.user = user
        log_in(page, server)
        page.goto(f"{server.url}/notebook")
        begin.or_(only_look).first.wait_for()
        yield f"{user} is a {'runner' if may_run else 'viewer'}", begin.is_visible() == may_run
    page.get_by_label("New page").fill("Ours")
    begin.click()
    page.get_by_text("Edit", exact=True).wait_for()
    lab = Lab.open(server.folder / "data", serve=False)
    (made,) = lab.collections.listed()
    done = [(each.who, each.action, each.subject) for each in lab.actions()]
    lab.close()
    email = str(USERS["ann"]["email"])
    yield "what she begins is hers", made.owner_name == email
    yield "and the audit names her", (email, "create collection", made.id) in done


def main(_: Asked, figures: Figures) -> None:
    if find_spec("authlib") is None:
        sys.exit("Authlib is not here: type `pip install streamlit[auth]`")
    expect.set_options(timeout=PATIENCE_MS)
    provider, done = Provider(), []
    with guarded(provider) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        for what, is_right in steps(page, server, provider):
            done.append(is_right)
            print(f"{'as it should' if is_right else 'WRONG'}: {what}", flush=True)
        browser.close()
    figures.add("steps of a login that go as they should", sum(done), least=12)


if __name__ == "__main__":
    measure(main, __doc__)
