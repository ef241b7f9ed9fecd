"""States of secrets.toml: one that describes a login, and twelve that somebody may leave behind; and
the cookies of a login.
"""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from itsdangerous import TimestampSigner, URLSafeTimedSerializer

COOKIE = "_streamlit_user"
ORIGIN = "http://localhost:8501"
SECRET = "a secret of thirty-two characters"
ANN: dict[str, Any] = {
    "iss": "https://accounts.example",
    "sub": "ann",
    "email": "ann@example.com",
    "email_verified": True,
    "provider": "default",
    "origin": ORIGIN,
    "is_logged_in": True,
}
LOGIN = f"""
[auth]
redirect_uri = "{ORIGIN}/oauth2callback"
cookie_secret = "{SECRET}"
client_id = "lab"
client_secret = "hidden"
server_metadata_url = "https://accounts.example/.well-known/openid-configuration"
"""


def _written(text: str | bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    return write


def _without(key: str) -> str:
    return "".join(line for line in LOGIN.splitlines(True) if not line.startswith(key))


# what is left behind -> how it comes about, and what the sentence says of it
CLOSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a broken line": (_written(LOGIN.replace('"lab"', '"lab')), "does not parse (line 5)"),
    "half of the file": (_written(LOGIN[: len(LOGIN) // 2]), "does not parse"),
    "a section twice": (_written(LOGIN * 2), "does not parse"),
    "bytes that are no text": (_written(LOGIN.encode() + b"\xff\xfe"), "does not parse"),
    "too deep": (_written(f"{LOGIN}deep = {'[' * 5000}"), "does not parse"),
    "a folder in its place": (lambda path: path.mkdir(), "cannot be read"),
    "a link to nowhere": (lambda path: path.symlink_to("nowhere"), "cannot be read"),
    "no file": (lambda path: None, "has no [auth] any more"),
    "an empty file": (_written(""), "has no [auth] any more"),
    "another section": (_written(LOGIN.replace("[auth]", "[Auth]")), "has no [auth] any more"),
    "a part of the section": (_written(_without("client_secret")), "has no client_secret"),
    "an empty secret": (
        _written(f'{_without("cookie_secret")}cookie_secret = ""'),
        "has no cookie_secret of at least 16 characters",
    ),
}


def leave(path: Path, make: Callable[[Path], None]) -> None:
    """Bring about a state of the file, whatever was there."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
    make(path)


def set_up(path: Path) -> None:
    """The state that describes a login."""
    leave(path, _written(LOGIN))


def signed(
    claims: Mapping[str, Any] = ANN, secret: str = SECRET, age_s: float = -2.0
) -> dict[str, str]:
    """The cookie that Streamlit signs for whom a provider has logged in, made so long ago; by default
    a moment ahead: what ends logins ends those of the same second too.
    """
    made_at = int(time.time() - age_s)
    signer = type("Signer", (TimestampSigner,), {"get_timestamp": lambda _: made_at})
    serializer = URLSafeTimedSerializer(secret, salt=COOKIE, signer=signer)
    return {COOKIE: str(serializer.dumps(json.dumps(claims)))}


def cookie_header(cookies: Mapping[str, str]) -> str:
    """Cookies as a browser sends them."""
    return "; ".join(f"{name}={value}" for name, value in cookies.items())
