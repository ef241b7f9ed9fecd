"""Who did what on a dashboard, in the order in which it was done."""

import time
from dataclasses import dataclass

from spmd_core.lab.store.queue import RunQueue

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
