"""Uploads are refused before the server holds them, counted as they come, and let go of with their
session.
"""

import asyncio
from types import SimpleNamespace

import pytest
from starlette.exceptions import HTTPException
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from bench.upload_abuse import FORMS
from spmd_lab.ui.entrance import door, sessions, uploads
from tests.loops import finished

CHUNKED = (b"transfer-encoding", b"chunked")


@pytest.fixture(autouse=True)
def nobody_yet(monkeypatch):
    monkeypatch.setattr(door, "is_exposed", lambda: False)
    monkeypatch.setattr(uploads, "_ended", type(uploads._ended)())
    monkeypatch.setattr(uploads, "_taken", type(uploads._taken)())


def scope_of(headers, address="10.0.0.1"):
    path = f"{uploads.ROUTE}a/b"
    return {"path": path, "method": "PUT", "headers": headers, "client": (address, 1)}


def length(size):
    return (b"content-length", str(size).encode())


def put(size, address="10.0.0.1", headers=None):
    """Status of the answer before an upload comes; None where it is let in."""
    refused = uploads.answer(scope_of([length(size)] if headers is None else headers, address))
    return refused.status_code if refused else None


def sent(*sizes, address="10.0.0.1"):
    """Take an upload that comes in parts of so many bytes; the status that ends it, None where it
    comes in full.
    """
    parts = iter(sizes)
    buffer = bytes(max(sizes, default=0))

    async def receive():
        size = next(parts, None)
        if size is None:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": memoryview(buffer)[:size]}

    async def route(_, receive, send):
        try:
            for _ in sizes:
                await receive()
            await receive() if not sizes else None
        except HTTPException as error:
            ended.append(error.status_code)

    ended = []
    finished(uploads.take(route, scope_of([], address), receive, receive))
    return ended[0] if ended else None


def test_uploads_are_bounded_before_they_come():
    assert put(1000) is None
    assert put(0, headers=[]) == 411
    assert put(uploads.MOST_BYTES + 1) == 413
    assert uploads.answer({"path": "/", "method": "PUT", "headers": []}) is None
    assert not uploads.is_upload({"path": f"{uploads.ROUTE}a/b", "method": "DELETE"})


@pytest.mark.parametrize(
    "headers",
    [
        [length(1), CHUNKED],
        [CHUNKED, length(1)],
        [CHUNKED],
        [length(1000), (b"transfer-encoding", b"identity")],
        [length(1000), (b"transfer-encoding", b"")],
        [length(1), length(1000)],
        *(
            [(b"content-length", text)]
            for text in (b"", b"+1", b"-1", b"1, 1", b"0x1", b"9" * 5000)
        ),
    ],
)
def test_an_upload_of_no_certain_length_is_refused(headers):
    assert put(0, headers=headers) == 411


def test_bytes_are_counted_as_they_come_and_not_as_they_are_announced():
    assert [put(uploads.MOST_BYTES) for _ in range(40)] == [None] * 40, "nothing has come yet"
    assert sent(1000) is None
    assert sent(uploads.MOST_BYTES, 1) == 413
    for _ in range(3):
        sent(uploads.MOST_BYTES - 1000)
    assert put(uploads.MOST_BYTES) == 429
    assert sent(uploads.MOST_BYTES - 10) == 429, "who announced less"
    assert put(1000, "10.0.0.2") is None
    for number in range(8):
        sent(uploads.MOST_BYTES, address=f"10.0.1.{number}")
        sent(uploads.MOST_BYTES, address=f"10.0.1.{number}")
    assert put(uploads.MOST_BYTES, "10.0.0.3") == 429, "all together"


def test_what_came_is_forgotten_after_a_while(monkeypatch):
    for _ in range(4):
        sent(uploads.MOST_BYTES)
    assert put(1000) == 429
    monkeypatch.setattr(uploads, "WINDOW_S", 0.0)
    assert put(1000) is None and not uploads._taken


def test_an_upload_that_stays_away_ends(monkeypatch):
    monkeypatch.setattr(uploads, "REST_S", 0.01)
    assert sent() == 408


def holding(*sessions_of_files):
    held = MemoryUploadedFileManager("/upload")
    for session in sessions_of_files:
        held.add_file(session, UploadedFileRec("file", "a", "b", bytes(10)))
    return held


def test_uploads_that_no_screen_takes_are_let_go_of_oldest_first():
    held = holding(*(f"session {number}" for number in range(5)))
    uploads.let_go(held, 25)
    assert [name for name, files in held.file_storage.items() if files] == [
        "session 3",
        "session 4",
    ]


def test_uploads_are_refused_where_anybody_could_send_them(monkeypatch):
    monkeypatch.setattr(door, "is_exposed", lambda: True)
    assert put(1000) == 403
    monkeypatch.setenv("SPMD_LAB_UPLOADS", "compile")
    assert put(1000) is None
    monkeypatch.setattr(door, "is_exposed", lambda: False)
    monkeypatch.setenv("SPMD_LAB_UPLOADS", "off")
    assert put(1000) == 403


def test_forty_forms_are_tried():
    assert len(FORMS) >= 40


class Here:
    """Streamlit's runtime as far as sessions go: the open ones, and what closed ones left."""

    def __init__(self, opened, held):
        self.opened, self.uploaded_file_mgr, self.ended = {*opened}, held, []
        self.left = []
        self._session_mgr = SimpleNamespace(list_sessions=lambda: self.left)

    def is_active_session(self, session):
        return session in self.opened

    def close_session(self, session):
        self.ended.append(session)
        self.left = [each for each in self.left if each.session.id != session]

    def leave(self, session):
        self.opened.discard(session)
        self.left.append(SimpleNamespace(session=SimpleNamespace(id=session)))


@pytest.fixture
def here(monkeypatch):
    here = Here(["open", "closing"], holding("open", "closing", "gone"))
    monkeypatch.setattr(
        sessions, "runtime", SimpleNamespace(exists=lambda: True, get_instance=lambda: here)
    )
    monkeypatch.setattr(sessions, "_closed", {})
    monkeypatch.setattr(sessions, "_timers", [])
    monkeypatch.setattr(sessions, "KEPT_S", 0.1)
    monkeypatch.setattr(sessions, "_LOOK_S", 0.05)
    return here


def test_a_closed_session_holds_no_upload_and_is_ended_after_a_while(here):
    async def closing():
        here.leave("closing")
        sessions.let_go()
        assert [*here.uploaded_file_mgr.file_storage] == ["open"] and not here.ended
        await asyncio.sleep(0.3)
        assert here.ended == ["closing"] and not sessions._timers and not sessions._closed

    finished(closing())


def test_a_session_whose_browser_comes_back_is_kept(here):
    async def flapping():
        for _ in range(4):
            here.leave("closing")
            sessions.let_go()
            await asyncio.sleep(0.06)
            here.left.clear()
            here.opened.add("closing")
            sessions.let_go()
        await asyncio.sleep(0.2)
        assert not here.ended

    finished(flapping())
