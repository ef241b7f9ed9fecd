"""The answers of searches as a table: of this data folder, by their question, and foreign ones."""

import sqlite3
import zlib
from contextlib import suppress

from spmd_core.base import RequestError, refuse, shorten
from spmd_core.lab.store.collections import CollectionsOfRuns
from spmd_core.search import KeptSearch, read_kept


class KeptSearches(CollectionsOfRuns):
    """Kept searches as values. A foreign one is in no other table: it cannot be searched on."""

    def kept_search(self, search: str) -> KeptSearch:
        """The search of that id; RequestError where there is none, or it has no answer yet."""
        rows = self._rows("SELECT body FROM kept_searches WHERE id = ?", (search,))
        if not rows:
            rule = "is not stored here, or has no answer yet"
            raise refuse(f"search {shorten(search)}", rule, "see Find a sharding and History")
        return _kept(rows[0])

    def kept_searches(self, search: str | None = None) -> tuple[KeptSearch, ...]:
        """Every kept search that this version can read, or the one of that id, the last first."""
        query = "SELECT body FROM kept_searches WHERE ? IS NULL OR id = ? ORDER BY at DESC, id"
        kept = []
        for row in self._rows(query, (search, search)):
            with suppress(RequestError):
                kept.append(_kept(row))
        return tuple(kept)

    def delete_kept_search(self, search: str) -> None:
        """Delete a foreign search; those of this data folder are forgotten by age."""
        self._write("DELETE FROM kept_searches WHERE id = ? AND is_foreign", (search,))


def insert_kept(db: sqlite3.Connection, kept: KeptSearch) -> None:
    """Store a search inside the caller's transaction, in the place of its earlier answer."""
    body = zlib.compress(kept.model_dump_json().encode())
    row = (kept.id, kept.at, kept.origin is not None, body)
    db.execute("INSERT OR REPLACE INTO kept_searches VALUES (?, ?, ?, ?)", row)


def _kept(row: sqlite3.Row) -> KeptSearch:
    try:
        return read_kept(zlib.decompress(row["body"]))
    except (zlib.error, TypeError) as error:
        raise refuse("a stored search", "is damaged", "search on, or import it again") from error
