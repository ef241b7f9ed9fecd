"""What people keep of runs, as tables: names, notes, tags and pins, where foreign runs are from, who did
what, and collections.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from spmd_core.base import refuse, shorten
from spmd_core.lab.store.queue import RunQueue
from spmd_core.lab.store.rows import LABELS, WITH_LABELS, labels_of, origin_of
from spmd_core.runs import Collection, CollectionItem, Labels, Origin, changed_meanwhile

COMMANDS = "command line"  # who acts there; a visitor has an address or an e-mail address
KEPT = 10_000  # actions; older ones are forgotten


@dataclass(frozen=True, slots=True)
class Action:
    """`who` is an e-mail address by login, else a network address and a browser; `at` is in seconds
    since the epoch; `subject` is a run, a target, or empty.
    """

    who: str
    at: float
    action: str
    subject: str


class Actions(RunQueue):
    """The table of what visitors did, as values."""

    def note_action(self, who: str, action: str, subject: str = "") -> None:
        """Keep what somebody has just done."""
        with self._transaction() as db:
            db.execute(
                "INSERT INTO actions (who, at, action, subject) VALUES (?, ?, ?, ?)",
                (who, time.time(), action, subject),
            )
            db.execute("DELETE FROM actions WHERE id <= last_insert_rowid() - ?", (KEPT,))

    def actions(self, limit: int = 100, with_commands: bool = False) -> tuple[Action, ...]:
        """What visitors did, the last first; also what the command line did `with_commands`."""
        rows = self._rows(
            "SELECT who, at, action, subject FROM actions WHERE who != ? ORDER BY id DESC LIMIT ?",
            ("" if with_commands else COMMANDS, limit),
        )
        return tuple(Action(**dict(row)) for row in rows)


_OF_RUN = f"SELECT {LABELS} FROM runs {WITH_LABELS} WHERE runs.id = ?"


class LabelsOfRuns(Actions):
    """What people added to runs, as values."""

    def labels(self, run: str) -> Labels:
        """What was added to a run; RequestError where there is none of that id."""
        return _labels(self._rows(_OF_RUN, (run,)), run)

    def origin(self, run: str) -> Origin | None:
        """Where a foreign run is from; None of a run of this data folder."""
        return self._one("SELECT origin FROM runs WHERE id = ?", (run,), origin_of)

    def owner(self, id: str, table: str = "runs") -> tuple[str | None, str | None]:
        """`issuer#sub` of who made a run, or a row of another table, by login, and the mark of who
        did by browser.
        """
        rows = self._rows(f"SELECT owner, viewer FROM {table} WHERE id = ?", (id,))
        return (rows[0]["owner"], rows[0]["viewer"]) if rows else (None, None)

    def label(self, run: str, was: Labels | None, **changes: object) -> Labels:
        """Change some of a run's labels, and return them all.

        `was`: what the editor saw. RequestError where somebody else has changed one of those fields
        since: the second of two people must not undo the first without knowing.
        """
        with self._transaction() as db:
            now = _labels(db.execute(_OF_RUN, (run,)).fetchall(), run)
            for field in changes if was else ():
                if getattr(now, field) != getattr(was, field):
                    label = {"is_pinned": "pin"}.get(field, field)
                    raise changed_meanwhile(f"the {label} of run {run}", getattr(now, field))
            after = replace(now, **changes)  # pyright: ignore[reportArgumentType]
            write_labels(db, run, after)
            return after


def _labels(rows: Sequence[sqlite3.Row], run: str) -> Labels:
    if not rows:
        raise refuse(f"run {shorten(run)}", "is not stored here", "see the history")
    return labels_of(rows[0])


def write_labels(db: sqlite3.Connection, run: str, labels: Labels) -> None:
    """Store what people added to a run, inside the caller's transaction."""
    db.execute(
        "INSERT OR REPLACE INTO labels VALUES (?, ?, ?, ?, ?)",
        (run, labels.name, labels.note, json.dumps(labels.tags), int(labels.is_pinned)),
    )


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
