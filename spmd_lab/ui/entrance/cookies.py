"""Who a request comes from: the cookie of a login, read with the secret of this moment.

Streamlit reads it when a tab opens, and never again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from itsdangerous import BadData, URLSafeTimedSerializer
from streamlit.auth_util import get_cookie_with_chunks

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
