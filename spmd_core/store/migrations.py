"""The database schema as ordered steps; a step that was released is never edited, only followed by another."""

MIGRATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
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
            "CREATE TABLE results (run TEXT PRIMARY KEY REFERENCES runs(id) ON DELETE CASCADE, body BLOB NOT NULL)",
            """CREATE TABLE texts (
                run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, strategy TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
                PRIMARY KEY (run, strategy, name))""",
            "CREATE TABLE environments (target TEXT PRIMARY KEY, body TEXT NOT NULL, seen_at REAL NOT NULL)",
            """CREATE TABLE requests (
                id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, run TEXT, target TEXT, asked_at REAL NOT NULL,
                answered_at REAL, error TEXT)""",
            "CREATE INDEX requests_open ON requests(answered_at, id)",
        ),
    ),
    ("0002 predicted times", ("ALTER TABLE runs ADD COLUMN predicted TEXT",)),
)
