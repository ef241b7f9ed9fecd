"""The collections of a data folder as a table: each is changed in one transaction, by a function of
what is stored at that moment.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace

from spmd_core.base import refuse, shorten
from spmd_core.lab.store.labels import LabelsOfRuns
from spmd_core.lab.store.rows import origin_of
from spmd_core.runs import Collection, CollectionItem

_FIELDS = "id, title, items, owner_name, created_at, updated_at, origin"


class CollectionsOfRuns(LabelsOfRuns):
    """Collections as values."""

    def collection(self, collection: str) -> Collection:
        """The collection of that id; RequestError where there is none."""
        rows = self._rows(f"SELECT {_FIELDS} FROM collections WHERE id = ?", (collection,))
        if not rows:
            raise _missing(collection)
        return _collection(rows[0])

    def collections(self, run: str | None = None) -> tuple[Collection, ...]:
        """Every collection, the one changed last first; only those with a `run` where one is named."""
        rows = self._rows(f"SELECT {_FIELDS} FROM collections ORDER BY updated_at DESC, id")
        listed = map(_collection, rows)
        return tuple(each for each in listed if run is None or run in each.runs)

    def owner_of_collection(self, collection: str) -> tuple[str | None, str | None]:
        """`issuer#sub` of who made a collection by login, and the mark of who did by browser."""
        rows = self._rows("SELECT owner, viewer FROM collections WHERE id = ?", (collection,))
        return (rows[0]["owner"], rows[0]["viewer"]) if rows else (None, None)

    def add_collection(
        self, new: Collection, owner: str | None = None, viewer: str | None = None
    ) -> None:
        """Store a collection that is not stored yet."""
        with self._transaction() as db:
            insert_collection(db, new, owner, viewer)

    def change_collection(
        self, collection: str, change: Callable[[Collection], Collection]
    ) -> Collection:
        """Change a collection as it is stored at this moment; RequestError, and nothing changed,
        where `change` refuses.
        """
        with self._transaction() as db:
            query = f"SELECT {_FIELDS} FROM collections WHERE id = ?"
            rows = db.execute(query, (collection,)).fetchall()
            if not rows:
                raise _missing(collection)
            after = replace(change(_collection(rows[0])), updated_at=time.time())
            db.execute(
                "UPDATE collections SET title = ?, items = ?, updated_at = ? WHERE id = ?",
                (after.title, _items_json(after.items), after.updated_at, collection),
            )
            return after

    def delete_collection(self, collection: str) -> None:
        """Delete a collection; its runs stay. RequestError where there is none."""
        if not self._write("DELETE FROM collections WHERE id = ?", (collection,)):
            raise _missing(collection)


def insert_collection(
    db: sqlite3.Connection, new: Collection, owner: str | None, viewer: str | None
) -> None:
    """Store a collection, inside the caller's transaction."""
    db.execute(
        "INSERT INTO collections (id, title, items, owner, owner_name, viewer, created_at, "
        "updated_at, origin) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            new.id,
            new.title,
            _items_json(new.items),
            owner,
            new.owner_name,
            viewer,
            new.created_at,
            new.updated_at,
            json.dumps(asdict(new.origin)) if new.origin else None,
        ),
    )


def _items_json(items: Iterable[CollectionItem]) -> str:
    return json.dumps([asdict(each) for each in items], separators=(",", ":"))


def _collection(row: sqlite3.Row) -> Collection:
    try:
        items = tuple(CollectionItem(**each) for each in json.loads(row["items"]))
    except (ValueError, TypeError):  # a damaged row keeps its title
        items = ()
    return Collection(
        row["id"],
        row["title"],
        items,
        row["owner_name"] or "",
        row["created_at"],
        row["updated_at"],
        origin_of(row),
    )


def _missing(collection: str) -> Exception:
    rule = "is not stored here"
    return refuse(f"collection {shorten(collection)}", rule, "see the list of collections")
