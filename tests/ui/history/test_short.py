"""Short links redirect, and previews are made of the address alone."""

from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given, strategies as st

from bench.hostile_links import hold_example
from spmd_core.experiment import link, parse_experiment
from spmd_core.workloads import programs
from spmd_lab.ui.entrance import door, short
from tests.loops import finished

LAYER = {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}, "sharding": {"in": "x"}}


def get(path, query=b"", agent=b"Mozilla/5.0", method="GET"):
    """Status, headers and body of an answer; None where the request is passed on."""
    sent = []

    async def app(scope, receive, send):
        sent.append("passed on")

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request"}

    scope = {
        "type": "http", "method": method, "path": path, "query_string": query,
        "headers": [(b"user-agent", agent)],
    }  # fmt: skip
    finished(short.ShortLinks(app)(scope, receive, send))
    if sent == ["passed on"]:
        return None
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, sent[1]["body"].decode()


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/r/20260101-000000-aaaaaa", "../history?open=20260101-000000-aaaaaa"),
        ("/s/a_b/", "../../history?open=a_b"),
        ("/base/path/r/a", "../history?open=a"),
        ("/c/c-20260101-abcdef", "../notebook?collection=c-20260101-abcdef"),
    ],
)
def test_a_short_link_leads_to_its_run_below_any_base_path(path, location):
    status, headers, _ = get(path)
    assert (status, headers["location"]) == (307, location)


@pytest.mark.parametrize(
    "path", ["/", "/history", "/r/", "/r/a/b", "/r/" + "x" * 65, "/r/a%0d", "/r/a\r\nb", "/r/é"]
)
def test_all_else_is_passed_on(path):
    assert get(path) is None and get("/r/a", method="POST") is None


@given(st.text("ab-_/.\\:@?#&=%<>\"' \n\r\té\u202e\U0001f600", max_size=70))
def test_no_path_leads_to_another_host_or_writes_a_header(text):
    answer = get(f"/r/{text}")
    if answer is not None:
        at = urljoin("http://host/r/a", answer[1]["location"])
        assert answer[1]["location"].startswith("../") and urlsplit(at).netloc == "host"
        assert at.isascii() and at.isprintable()


def test_a_preview_is_made_of_the_link_and_escaped(monkeypatch):
    monkeypatch.setattr(door, "is_login_set_up", lambda: False)
    text = get("/r/a", agent=b"Slackbot-LinkExpanding 1.0")[2]
    assert '<meta property="og:title" content="Run a · SPMD Lab">' in text
    assert 'content="Page c-1 · SPMD Lab"' in get("/c/c-1", agent=b"Twitterbot/1.0")[2]
    code = link.encode(parse_experiment(LAYER | {"mesh": {"x": 8}}))
    text = get("/compare", f"experiment={code}".encode(), b"Twitterbot/1.0")[2]
    assert "Dense layer" in text and "og:description" in text
    assert "<script" not in short.preview("<script>\u202e") and "\u202e" not in short.preview(
        "\u202e"
    )
    bad = get("/compare", b"experiment=<script>", b"Twitterbot/1.0")
    assert bad[0] == 200 and "script" not in bad[2]


def test_a_preview_holds_nothing_that_is_stored(data_folder, monkeypatch):
    monkeypatch.setattr(door, "is_login_set_up", lambda: False)
    hold_example(data_folder)
    (held,) = programs.held()
    spec = {"workload": "program_file", "program": held.program, "mesh": held.mesh}
    code = link.encode(parse_experiment(spec)).encode()
    text = get("/compare", b"experiment=" + code, b"Slackbot 1.0")[2]
    assert "Exported program" in text and held.name not in text


def test_with_a_login_a_preview_names_the_program_alone(monkeypatch):
    monkeypatch.setattr(door, "is_login_set_up", lambda: True)
    text = get("/r/20260101-000000-aaaaaa", agent=b"Slackbot 1.0")[2]
    assert "20260101" not in text and "SPMD Lab" in text
