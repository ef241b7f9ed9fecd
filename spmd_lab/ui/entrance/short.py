"""Short links (`/r/RUN`, `/s/STUDY`, `/c/COLLECTION`), and previews of links for chat programs.
Both are made of the address alone: nothing
that is stored leaves through them.
"""

import re
from html import escape
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from spmd_core.base import RequestError, visible
from spmd_core.experiment import link
from spmd_core.terms import experiment_words
from spmd_lab.ui.entrance import door

OPEN = "open"  # of History's query: the run to be opened
COLLECTION = "collection"  # of the Notebook's query
_SHORT = re.compile(r"/([rsc])/([A-Za-z0-9_-]{1,64})/?$")
# programs that fetch a link to show a preview of it
_PREVIEWING = re.compile(
    r"slackbot|twitterbot|facebookexternalhit|discordbot|linkedinbot|whatsapp|telegrambot|"
    r"skypeuripreview|mattermost|googlebot|bingbot|redditbot|embedly",
    re.IGNORECASE,
)
_LONGEST = 200  # characters of a description
_TITLE = "SPMD Lab"


class ShortLinks:
    """Answers short links, and what fetches previews; passes on all else."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Redirect, preview, or pass on."""
        answer = _answer(scope) if scope["type"] == "http" else None
        await (answer or self._app)(scope, receive, send)


def _answer(scope: Scope) -> Response | None:
    if scope.get("method") not in ("GET", "HEAD"):
        return None
    short = _SHORT.search(scope["path"])
    if is_previewing(scope):
        query = parse_qs(scope.get("query_string", b"").decode("ascii", "replace"))
        if short or "experiment" in query:
            words = (
                f"{'Page' if short[1] == 'c' else 'Run'} {short[2]}"
                if short
                else _experiment(query["experiment"][0])
            )
            return HTMLResponse(preview("" if door.is_login_set_up() else words))
    if short is None:
        return None
    # relative, so that a base path stays what it is; the trailing slash of the address counts
    up = "../../" if scope["path"].endswith("/") else "../"
    to = f"notebook?{COLLECTION}=" if short[1] == "c" else f"history?{OPEN}="
    return RedirectResponse(f"{up}{to}{short[2]}", 307, {"cache-control": "no-store"})


def is_previewing(scope: Scope) -> bool:
    """Returns True if a program fetches a link to show a preview of it."""
    agents = [value for name, value in scope["headers"] if name == b"user-agent"]
    return any(_PREVIEWING.search(agent.decode("latin-1")) for agent in agents)


def _experiment(code: str) -> str:
    try:
        experiment = link.decode(code)
        # the name of a program is stored, and not in the link
        return experiment.what.title if experiment.program else experiment_words(experiment)
    except RequestError:
        return ""


def preview(words: str) -> str:
    """A page of `og:` tags; with a login `words` are empty, and it names SPMD Lab alone."""
    shown = visible(words)
    short = shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
    title = f"{short} · {_TITLE}" if short else _TITLE
    tags = {"og:title": title, "og:site_name": _TITLE, "og:type": "website"}
    if short:
        tags["og:description"] = "A sharding experiment in JAX: open the link to see it."
    metas = "".join(
        f'<meta property="{name}" content="{escape(text)}">' for name, text in tags.items()
    )
    return f'<!doctype html><html><head><meta charset="utf-8"><title>{escape(title)}</title>{metas}</head></html>'
