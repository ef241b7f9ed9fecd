"""Names, notes, tags and pins of runs, where foreign runs are from, and who did what, as tables."""

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spmd_core.base import RequestError, refuse, shorten
from spmd_core.lab.store.queue import RunQueue
from spmd_core.lab.store.rows import LABELS, WITH_LABELS, labels_of, origin_of
from spmd_core.runs import Labels, Origin

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
        return tuple(Action(**row) for row in rows)


_OF_RUN = f"SELECT {LABELS} FROM runs {WITH_LABELS} WHERE runs.id = ?"


class LabelsOfRuns(Actions):
    """What people added to runs, as values."""

    def labels(self, run: str) -> Labels:
        """What was added to a run; RequestError where there is none of that id."""
        return _labels(self._rows(_OF_RUN, (run,)), run)

    def origin(self, run: str) -> Origin | None:
        """Where a foreign run is from; None of a run of this data folder."""
        rows = self._rows("SELECT origin FROM runs WHERE id = ?", (run,))
        return origin_of(rows[0]) if rows else None

    def owner(self, run: str) -> tuple[str | None, str | None]:
        """`issuer#sub` of who submitted a run by login, and the mark of who did by browser."""
        rows = self._rows("SELECT owner, viewer FROM runs WHERE id = ?", (run,))
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
                    raise changed_meanwhile(run, field, getattr(now, field))
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


def changed_meanwhile(run: str, field: str, now: object) -> RequestError:
    """The refusal of an edit of what another person has changed."""
    what = {"is_pinned": "pin"}.get(field, field)
    rule = f"was changed by somebody else meanwhile, to {shorten(now or 'nothing', 40)}"
    return refuse(f"the {what} of run {run}", rule, "read it, and edit that")
