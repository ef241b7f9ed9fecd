"""An archive inside of a page: one base64 block in a comment at its end, found by its marker."""

import io
from base64 import b64decode, b64encode
from binascii import Error
from typing import IO

from spmd_core.base import bytes_text, refuse, shorten

MOST_BYTES = 24 * 2**20  # of an archive that a page carries
_MOST_PAGE_BYTES = 2 * MOST_BYTES  # with its block, which is a third longer than the archive
_BEGIN, _END = b"<!--spmd-lab-archive:", b"-->"


def with_archive(page: str, archive: bytes) -> str:
    """Returns a page of HTML that carries an archive and shows the same as before. RequestError
    where the archive is too large.
    """
    if len(archive) > MOST_BYTES:
        rule = f"is more than a page carries ({bytes_text(MOST_BYTES)})"
        raise refuse(f"an archive of {bytes_text(len(archive))}", rule, "send the archive itself")
    return f"{page}{_BEGIN.decode()}{b64encode(archive).decode()}{_END.decode()}\n"


def archive_of(file: IO[bytes], name: str) -> IO[bytes]:
    """Returns the archive that a file is, or that it carries at its end. Nothing is parsed: the
    block is what follows the last marker. RequestError where that is no base64 or too long.
    """
    page = file.read(_MOST_PAGE_BYTES + 1)
    at = page.rfind(_BEGIN)
    if page.startswith(b"PK") or at < 0 or len(page) > _MOST_PAGE_BYTES:
        file.seek(0)
        return file
    block, closed, _ = page[at + len(_BEGIN) :].partition(_END)
    try:
        archive = b64decode(block, validate=True)
    except (Error, ValueError):
        archive = b""
    if not closed or not archive or len(archive) > MOST_BYTES:
        fix = "save the page again, and transfer the file unchanged"
        raise refuse(f"page {shorten(name)}", "carries an archive that is damaged", fix)
    return io.BytesIO(archive)
