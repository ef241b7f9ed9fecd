"""A page that carries an archive shows the same, and imports as the archive does."""

import io
from base64 import b64encode

import pytest

from spmd_core.base import RequestError
from spmd_core.lab.archive import contents as carried

PAGE = "<!doctype html><title>A</title><p>What <!--spmd-lab-archive: was typed--></p>"
ARCHIVE = b"PK" + bytes(range(256)) * 40


def read(page: bytes) -> bytes:
    return carried.archive_of(io.BytesIO(page), "a.html").read()


def test_the_archive_of_a_page_is_the_last_block_and_what_is_no_page_stays_itself():
    page = carried.with_archive(PAGE, ARCHIVE)
    assert page.startswith(PAGE) and read(page.encode()) == ARCHIVE
    for other in (ARCHIVE, b"", b"<p>no archive</p>"):
        assert read(other) == other


@pytest.mark.parametrize(
    "block",
    [
        b64encode(ARCHIVE),  # without an end
        b64encode(ARCHIVE)[:-3] + b"-->",
        b"<script>-->",
        b"-->",
        b64encode(b"x" * (carried.MOST_BYTES + 1)) + b"-->",
    ],
)
def test_a_damaged_block_is_refused_in_one_sentence(block):
    with pytest.raises(RequestError, match="carries an archive that is damaged: save"):
        read(b"<p></p><!--spmd-lab-archive:" + block)


def test_an_archive_that_is_too_large_for_a_page_is_refused():
    with pytest.raises(RequestError, match="is more than a page carries"):
        carried.with_archive(PAGE, bytes(carried.MOST_BYTES + 1))
