"""Who a request comes from: the cookie of a login, read with the secret of this moment.

Streamlit reads it when a tab opens, and never again.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from itsdangerous import BadData, URLSafeTimedSerializer
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from streamlit.auth_util import get_cookie_with_chunks

PARAMETER = "token"
ASKED_FOR = (
    "This dashboard asks for a token: open the link that ends in ?token=… once, which whoever "
    "started it has."
)
_KEPT_S = 30 * 24 * 3600  # as Streamlit keeps a login


def is_known(scope: MutableMapping[str, Any], token: str) -> bool:
    """Whether a request carries the cookie that the token was exchanged for."""
    cookie = HTTPConnection(scope).cookies.get(_name(scope), "")
    return hmac.compare_digest(cookie.encode(), _value(token).encode())


def answer(scope: MutableMapping[str, Any], token: str) -> Response | None:
    """What to answer to a request instead of a screen: the way to the same address without the
    token, or the sentence; None where the screen may be shown.
    """
    query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    given = [value for name, value in query if name == PARAMETER]
    known = is_known(scope, token)
    is_right = any(hmac.compare_digest(each.encode(), token.encode()) for each in given)
    if not known and not is_right:
        return PlainTextResponse(f"{ASKED_FOR}\n", 401, {"cache-control": "no-store"})
    if not given:
        return None
    rest = urlencode([each for each in query if each[0] != PARAMETER])
    path = "/" + quote(scope["path"].lstrip("/\\"))  # two slashes would lead to another host
    response = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
    if is_right:
        response.set_cookie(
            _name(scope), _value(token), _KEPT_S, path="/", httponly=True, samesite="lax"
        )
    return response


def _name(scope: MutableMapping[str, Any]) -> str:
    """Browsers send a host's cookies to all of its ports: each server has its own."""
    return f"spmd_lab_{(scope.get('server') or ('', 0))[1]}"


def _value(token: str) -> str:
    """The token as the cookie has it: who reads the cookie does not learn the token."""
    return hmac.digest(token.encode(), b"spmd-lab cookie", hashlib.sha256).hex()


COOKIE = "_streamlit_user"


@dataclass(frozen=True, slots=True)
class Login:
    """A login: the claims of the identity provider, and the second since 1970 in
    which the cookie was signed.
    """

    claims: Mapping[str, Any]
    made_at: int

    @property
    def person(self) -> str:
        """`issuer#sub`."""
        return f"{self.claims.get('iss')}#{self.claims.get('sub')}"


def login_of(cookies: Mapping[str, str], secret: str) -> Login | None:
    """Who the cookies of a request were made for; None where they are no login signed with this
    secret.
    """
    made: list[float] = []

    def signed(name: str) -> bytes | None:
        if name not in cookies:
            return None
        signer = URLSafeTimedSerializer(secret, salt=name)
        try:
            value, at = signer.loads(cookies[name], return_timestamp=True)
        except (BadData, UnicodeError):
            return None
        made.append(at.timestamp())
        return value.encode() if isinstance(value, str) else None

    try:
        claims = json.loads(get_cookie_with_chunks(signed, COOKIE) or b"null")
    except ValueError:
        return None
    if not isinstance(claims, dict) or claims.get("is_logged_in") is not True:
        return None
    return Login(claims, int(min(made)))
