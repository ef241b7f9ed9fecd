"""The database schema as ordered steps; a step that was released is never edited, only followed by
another.
"""

import contextlib
import json
import math
import sqlite3
import zlib
from collections.abc import Callable

from spmd_core.base import RequestError
from spmd_core.experiment import parse_experiment_text
from spmd_core.lab.store.rows import origin_of
from spmd_core.runs import lane_of_target

Step = str | Callable[[sqlite3.Connection], None]  # SQL, or what changes rows as SQL cannot


def renumber_experiments(db: sqlite3.Connection) -> None:
    """Give stored experiments the ids that they have now, so that lookups return their runs.

    A training step's size that is the model's own is no longer part of the id, and in_axes is
    written in one form. An experiment that cannot be read stays as it is; two that are the same now
    become one, with the runs of both.
    """
    stored = (
        "SELECT id, spec FROM experiments WHERE workload = 'decoder' OR instr(spec, '\"in_axes\"')"
    )
    for old, spec in [(row["id"], row["spec"]) for row in db.execute(stored)]:
        try:
            experiment = parse_experiment_text(spec)
        except RequestError:
            continue
        if experiment.id == old:
            continue
        form = json.dumps(experiment.to_json(), separators=(",", ":"))
        db.execute(
            "INSERT OR IGNORE INTO experiments VALUES (?, ?, ?, ?)",
            (experiment.id, form, experiment.workload, experiment.target),
        )
        db.execute("UPDATE runs SET experiment = ? WHERE experiment = ?", (experiment.id, old))
        db.execute("DELETE FROM experiments WHERE id = ?", (old,))


def give_lanes(db: sqlite3.Connection) -> None:
    """Store the lane of each run; a target that cannot be read keeps its lane."""
    for (target,) in list(db.execute("SELECT DISTINCT target FROM experiments")):
        with contextlib.suppress(RequestError):
            db.execute(
                "UPDATE runs SET lane = ? WHERE experiment IN "
                "(SELECT id FROM experiments WHERE target = ?)",
                (lane_of_target(target), target),
            )


def list_by_moment(db: sqlite3.Connection) -> None:
    """Store the moment by which a list orders each run: no later than its import, and than the
    submission of any run that was stored after it, whatever a clock showed that was ahead.
    """
    latest = math.inf
    for row in list(db.execute("SELECT seq, submitted_at, origin FROM runs ORDER BY seq DESC")):
        origin = origin_of(row)
        with contextlib.suppress(ValueError, TypeError):  # a damaged row keeps 0
            at = min(float(row["submitted_at"]), origin.imported_at if origin else latest)
            if origin is None:
                latest = at
            moment = min(at, latest)
            db.execute("UPDATE runs SET listed_at = ? WHERE seq = ?", (moment, row["seq"]))


def note_imprecise(db: sqlite3.Connection) -> None:
    """Store of which runs the fastest row is imprecise; a damaged result is left."""
    stored = (
        "SELECT seq, fastest, body FROM runs JOIN results ON run = id WHERE fastest IS NOT NULL"
    )
    noted = list[int]()
    for row in db.execute(stored):
        with contextlib.suppress(zlib.error, ValueError, TypeError, KeyError, AttributeError):
            text = zlib.decompress(row["body"])
            is_there = b'"imprecise":{' in text
            if is_there and json.loads(text)["strategies"][row["fastest"]]["imprecise"]:
                noted.append(row["seq"])
    db.executemany("UPDATE runs SET imprecise = 1 WHERE seq = ?", [(seq,) for seq in noted])


def apply(db: sqlite3.Connection, steps: tuple[Step, ...]) -> None:
    """Carry out one migration inside the caller's transaction."""
    for step in steps:
        if isinstance(step, str):
            db.execute(step)
        else:
            step(db)


MIGRATIONS: tuple[tuple[str, tuple[Step, ...]], ...] = (
    (
        "0001 runs and results",
        (
            """CREATE TABLE experiments (
                id TEXT PRIMARY KEY, spec TEXT NOT NULL, workload TEXT NOT NULL, target TEXT NOT NULL)""",
            """CREATE TABLE runs (
                seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, experiment TEXT NOT NULL REFERENCES experiments(id),
                state TEXT NOT NULL, submitted_at REAL NOT NULL, started_at REAL, finished_at REAL, progress TEXT, worker_pid INTEGER,
                error_kind TEXT, error_message TEXT, stderr_tail TEXT, medians TEXT, fastest TEXT, partial INTEGER NOT NULL DEFAULT 0)""",
            "CREATE INDEX runs_by_state ON runs(state, seq)",
            "CREATE INDEX runs_by_experiment ON runs(experiment)",
            "CREATE TABLE results (run TEXT PRIMARY KEY REFERENCES runs(id) ON DELETE CASCADE, "
            "body BLOB NOT NULL)",
            """CREATE TABLE texts (
                run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, strategy TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
                PRIMARY KEY (run, strategy, name))""",
            "CREATE TABLE environments (target TEXT PRIMARY KEY, body TEXT NOT NULL, seen_at REAL "
            "NOT NULL)",
            """CREATE TABLE requests (
                id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, run TEXT, target TEXT, asked_at REAL NOT NULL,
                answered_at REAL, error TEXT)""",
            "CREATE INDEX requests_open ON requests(answered_at, id)",
        ),
    ),
    ("0002 predicted times", ("ALTER TABLE runs ADD COLUMN predicted TEXT",)),
    ("0003 ids without the model's own sizes", (renumber_experiments,)),
    (
        "0004 who works the queue, and who asked",
        (
            """CREATE TABLE holder (
                one INTEGER PRIMARY KEY CHECK (one = 1), pid INTEGER NOT NULL, mark TEXT NOT NULL,
                file TEXT NOT NULL)""",
            "ALTER TABLE runs ADD COLUMN viewer TEXT",  # NULL: the command line
            "ALTER TABLE runs ADD COLUMN batch TEXT",  # runs submitted together, such as a sweep
        ),
    ),
    (
        "0005 two lanes",
        (
            "ALTER TABLE runs ADD COLUMN lane TEXT NOT NULL DEFAULT 'timing'",
            give_lanes,
            "DROP INDEX runs_by_state",
            "CREATE INDEX runs_by_state ON runs(state, lane, seq)",
        ),
    ),
    (
        "0006 searches",
        (
            """CREATE TABLE searches (
                id TEXT PRIMARY KEY, question TEXT NOT NULL, state TEXT NOT NULL,
                started_at REAL NOT NULL, updated_at REAL NOT NULL, spent_s REAL NOT NULL,
                space INTEGER NOT NULL, words TEXT NOT NULL DEFAULT '', fates BLOB)""",
            """CREATE TABLE search_outcomes (
                search TEXT NOT NULL REFERENCES searches(id) ON DELETE CASCADE,
                number INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (search, number))""",
        ),
    ),
    (
        "0007 what would remove a collective",
        (
            "ALTER TABLE runs ADD COLUMN compile_only INTEGER NOT NULL DEFAULT 0",
            """CREATE TABLE remedies (
                run TEXT PRIMARY KEY REFERENCES runs(id) ON DELETE CASCADE, body BLOB NOT NULL)""",
        ),
    ),
    (
        "0008 who waits for a run",
        (
            "ALTER TABLE runs ADD COLUMN client INTEGER",
            # 1: its place in the queue outlasts its client, as in a dashboard's queue
            "ALTER TABLE runs ADD COLUMN lasts INTEGER NOT NULL DEFAULT 1",
        ),
    ),
    (
        "0009 addresses, and who did what",
        (
            "ALTER TABLE runs ADD COLUMN address TEXT",  # NULL: the command line, or by login
            "CREATE INDEX runs_by_address ON runs(address, started_at)",
            "CREATE INDEX runs_by_viewer ON runs(address, viewer, started_at)",
            """CREATE TABLE actions (
                id INTEGER PRIMARY KEY AUTOINCREMENT, who TEXT NOT NULL, at REAL NOT NULL,
                action TEXT NOT NULL, subject TEXT NOT NULL)""",
        ),
    ),
    (
        "0010 what people add to runs, whose runs they are, and where they are from",
        (
            """CREATE TABLE labels (
                run TEXT PRIMARY KEY REFERENCES runs(id) ON DELETE CASCADE, name TEXT NOT NULL,
                note TEXT NOT NULL, tags TEXT NOT NULL, pinned INTEGER NOT NULL)""",
            "ALTER TABLE runs ADD COLUMN origin TEXT",  # NULL: it ran in this data folder
            "ALTER TABLE runs ADD COLUMN owner TEXT",  # issuer#sub; NULL: without a login
            "ALTER TABLE runs ADD COLUMN owner_name TEXT",
            """CREATE TABLE installation (
                one INTEGER PRIMARY KEY CHECK (one = 1), mark TEXT NOT NULL)""",
            "INSERT INTO installation VALUES (1, lower(hex(randomblob(6))))",
        ),
    ),
    (
        "0011 whether the results that came with the program were taken in",
        ("ALTER TABLE installation ADD COLUMN examples INTEGER NOT NULL DEFAULT 0",),
    ),
    (
        "0012 collections",
        (
            """CREATE TABLE collections (
                id TEXT PRIMARY KEY, title TEXT NOT NULL, items TEXT NOT NULL, owner TEXT,
                owner_name TEXT, viewer TEXT, created_at REAL NOT NULL, updated_at REAL NOT NULL,
                origin TEXT)""",
        ),
    ),
    ("0013 lists by moment", ("CREATE INDEX runs_by_moment ON runs(submitted_at, seq)",)),
    (
        "0014 answers of searches, to be reported and archived",
        (
            """CREATE TABLE kept_searches (
                id TEXT PRIMARY KEY, at REAL NOT NULL, is_foreign INTEGER NOT NULL,
                body BLOB NOT NULL)""",
        ),
    ),
    (
        "0015 lists by a moment that no clock ahead of time leads",
        (
            "ALTER TABLE runs ADD COLUMN listed_at REAL NOT NULL DEFAULT 0",
            list_by_moment,
            "DROP INDEX runs_by_moment",
            "CREATE INDEX runs_by_listing ON runs(listed_at, seq)",
        ),
    ),
    (
        "0016 whose sums are imprecise",
        ("ALTER TABLE runs ADD COLUMN imprecise INTEGER NOT NULL DEFAULT 0", note_imprecise),
    ),
)
