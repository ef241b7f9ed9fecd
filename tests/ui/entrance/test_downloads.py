"""Downloads outlive the scripts of other visitors, are made when requested, and are held bounded."""

import gc

import pytest
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage

from spmd_core.base import RequestError
from spmd_lab.ui.entrance import downloads
from spmd_lab.ui.entrance.downloads import Downloads
from tests.layers import source_files
from tests.loops import finished


async def passed_on(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def state(monkeypatch):
    state = {}
    monkeypatch.setattr("spmd_lab.ui.entrance.downloads.st.session_state", state)
    downloads._made.clear()
    return state


@pytest.fixture
def manager(state):
    Downloads(passed_on)  # as the server starts
    return MediaFileManager(MemoryMediaFileStorage("/media"))


def requested(path, method="GET"):
    """Status, headers and body of a request."""
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": []}
    finished(Downloads(passed_on)(scope, None, send))
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), body


def add(manager, download):
    return manager.add_deferred(download, download.mime, "0.1", download.file, element_id="a")


def test_a_download_outlives_the_scripts_of_others(manager):
    """Any two ends of any script deleted a deferred file, and the content that was made of it."""
    download = downloads.offer("a", lambda: "text", "été.csv", "text/csv")
    token = add(manager, download)
    for _ in range(3):
        manager.clear_session_refs()
        manager.remove_orphaned_files()
    address = manager.execute_deferred(token)
    for _ in range(3):
        manager.remove_orphaned_files()
    status, headers, body = requested(f"/lab/{address}")
    assert (status, body) == (200, b"text")
    assert headers[b"content-type"] == b"text/csv; charset=utf-8"
    assert headers[b"content-disposition"] == b"attachment; filename*=utf-8''%C3%A9t%C3%A9.csv"
    assert headers[b"cache-control"] == b"no-store"
    assert requested(f"/{address}", "POST")[0] == 405


def test_an_address_stays_while_its_session_lasts(manager, state):
    first = downloads.offer("a", lambda: "one", "a.txt", "text/plain")
    token = first.token
    assert downloads.offer("a", lambda: "two", "a.txt", "text/plain").token == token
    assert downloads.offer("b", lambda: "two", "b.txt", "text/plain").token != token
    assert requested(f"/downloads/{token}")[2] == b"two", "made anew where nothing was pressed"
    state.clear()
    del first
    gc.collect()
    status, _, body = requested(f"/downloads/{token}")
    assert status == 404 and body.decode() == f"{downloads.OVER}\n"


def test_what_cannot_be_made_is_a_sentence(manager):
    def gone():
        raise RequestError("run a is not stored here any more: load the page again")

    token = downloads.offer("a", gone, "a.txt", "text/plain").token
    status, _, body = requested(f"/downloads/{token}")
    assert status == 404 and b"not stored here any more" in body


def test_what_is_held_is_bounded(manager, state, monkeypatch):
    monkeypatch.setattr(downloads, "MOST_BYTES", 100)
    made = []

    def make():
        made.append(1)
        return "x" * 60

    offered = [downloads.offer(name, make, "a.txt", "text/plain") for name in "abc"]
    for each in offered:
        manager.execute_deferred(each.token)
    assert sum(len(content) for _, content in downloads._made.values()) <= 100
    for each in offered:
        assert requested(f"/downloads/{each.token}")[2] == b"x" * 60
    assert len(made) == 5, "the content of two was not held any more"
    for number in range(2 * downloads.MOST_OF_SESSION):
        downloads.offer(str(number), make, "a.txt", "text/plain")
    (held,) = state.values()
    assert len(held) == downloads.MOST_OF_SESSION


@pytest.mark.parametrize(
    "path", ["/", "/downloads/short", "/media/a.csv", f"/downloads/{'a' * 23}"]
)
def test_all_else_is_passed_on(path, manager):
    assert requested(path)[0] == 204


def test_every_button_of_a_screen_is_such_a_download():
    places = [
        path.name for path in source_files() if ".download_button(" in path.read_text("utf-8")
    ]
    assert places == ["exports.py"]
