"""Damaged stores and odd surroundings: each command ends with 0, 1 or 2 and a sentence; nothing
finished is lost.

Every case starts from a copy of a data folder with one finished run; runs use the stand-in engine
of
the tests, so that what is tried is the queue, the store and the commands, not JAX.
"""

import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Asked, Figures, measure, of_part
from spmd_core.base import LabError
from spmd_core.lab.store.database import FILE_NAME
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.folder_lock import FILE_NAME as LOCK
from spmd_core.terms import ago
from spmd_lab.ui.run_tables import runs_table

ROOT = Path(__file__).resolve().parents[1]
STANDIN = ROOT / "tests" / "standin"
SPEC = (
    '{"workload": "elementwise", "target": "cpu:8", "mesh": {"x": 8}, "dims": {"rows": 16, '
    '"cols": 8}, "sharding": {"rows": "x"}, "strategies": ["single"]}'
)
TIMEOUT_S = 120.0
LIMITS = {"SPMD_LAB_WRITE_S": "2", "SPMD_LAB_RUN_TIMEOUT_S": "30"}
Damage = Callable[[Path], object]
HISTORY, ONE, RUN = ("history",), ("history", "--run", "GOOD"), ("run", "-")


@dataclass(frozen=True)
class Case:
    """What is damaged or odd, and the command that is given then."""

    name: str
    words: tuple[str, ...]
    damage: Damage = lambda folder: None
    environ: dict[str, str] = field(default_factory=dict)
    limits: tuple[tuple[int, int], ...] = ()
    closed: tuple[int, ...] = ()  # descriptors that are closed when it starts
    keeps: bool = False  # the finished run must be there afterwards


def sql(*statements: str) -> Damage:
    """Change the database as another program would."""

    def change(folder: Path) -> None:
        db = sqlite3.connect(folder / FILE_NAME)
        with db:
            for statement in statements:
                db.execute(statement)
        db.close()

    return change


def written(name: str, data: bytes) -> Damage:
    """Put this into a file of the folder."""
    return lambda folder: (folder / name).write_bytes(data)


def cut(share: float) -> Damage:
    """Cut the database off."""

    def change(folder: Path) -> None:
        size = (folder / FILE_NAME).stat().st_size
        os.truncate(folder / FILE_NAME, int(size * share))

    return change


def flipped(seed: int) -> Damage:
    """Change forty bytes of the database, anywhere."""

    def change(folder: Path) -> None:
        dice, path = random.Random(seed), folder / FILE_NAME
        data = bytearray(path.read_bytes())
        for _ in range(40):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data)

    return change


def in_the_way(name: str) -> Damage:
    """A folder where a file should be."""

    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()

    return change


def queued(spec: str) -> Damage:
    """A run in the queue whose spec is this text."""
    return sql(
        f"INSERT INTO experiments VALUES ('old', '{spec}', 'old', 'cpu:8')",
        "INSERT INTO runs (id, experiment, state, submitted_at) VALUES ('old', 'old', 'queued', 1)",
    )


def rows() -> list[Case]:
    """Rows that another version, another program or a failing disk has written."""
    junk = ("NULL", "'junk'", "x'ff00fe'", "-1", "'{}'", "'[1'", "1e999")
    cases = []
    for column in (
        "state",
        "submitted_at",
        "progress",
        "medians",
        "predicted",
        "fastest",
        "error_kind",
        "worker_pid",
    ):
        for value in junk[:4]:
            name = f"runs.{column} = {value}"
            cases.append(Case(name, HISTORY, sql(f"UPDATE OR IGNORE runs SET {column} = {value}")))
    for value in junk[1:]:
        cases.append(
            Case(f"spec = {value}", HISTORY, sql(f"UPDATE experiments SET spec = {value}"))
        )
        cases.append(
            Case(f"spec = {value}, one", ONE, sql(f"UPDATE experiments SET spec = {value}"))
        )
        cases.append(Case(f"result = {value}", ONE, sql(f"UPDATE results SET body = {value}")))
        cases.append(
            Case(
                f"environment = {value}",
                RUN,
                sql(f"UPDATE environments SET body = {value}"),
                keeps=True,
            )
        )
    cases += [
        Case(f"{table} is gone", words, sql(f"DROP TABLE {table}"))
        for table in (
            "runs",
            "results",
            "texts",
            "environments",
            "requests",
            "holder",
            "experiments",
            "migrations",
        )
        for words in (HISTORY, RUN)
    ]
    for spec in ('{"workload": "of_tomorrow", "mesh": {"x": 8}}', "{", "", '{"version": 7}', "[]"):
        cases.append(Case(f"queued {spec[:20]}", RUN, queued(spec), keeps=True))
    cases.append(
        Case("a step of tomorrow", HISTORY, sql("INSERT INTO migrations VALUES ('9999', 0)"))
    )
    cases.append(
        Case(
            "a run at work, noted by tomorrow",
            RUN,
            sql(
                "INSERT INTO runs (id, experiment, state, submitted_at, progress) SELECT 'x', experiment, "
                "'running', 1, '{\"of_tomorrow\": 1}' FROM runs LIMIT 1"
            ),
            keeps=True,
        )
    )
    cases.append(
        Case(
            "a holder of nonsense",
            RUN,
            sql("INSERT OR REPLACE INTO holder VALUES (1, 1, 'x', 'y')"),
            keeps=True,
        )
    )
    return cases


def files() -> list[Case]:
    """Files of the data folder that are cut, changed, replaced or in the way."""
    cases = [
        Case(f"cut to {share:.0%}", words, cut(share))
        for share in (0.0, 0.01, 0.3, 0.6, 0.95)
        for words in (HISTORY, RUN)
    ]
    cases += [
        Case(f"40 bytes changed, {seed}", words, flipped(seed))
        for seed in range(6)
        for words in (HISTORY, ONE)
    ]
    cases += [
        Case("a text for a database", HISTORY, written(FILE_NAME, b"no database at all\n" * 99)),
        Case("a journal of nonsense", HISTORY, written(f"{FILE_NAME}-journal", b"junk" * 500)),
        Case("a folder for a database", HISTORY, in_the_way(FILE_NAME)),
        Case("a folder for a lock", RUN, in_the_way(LOCK)),
        Case("a folder for a journal", RUN, in_the_way(f"{FILE_NAME}-journal")),
        Case("no lock", RUN, lambda folder: (folder / LOCK).unlink(missing_ok=True), keeps=True),
        Case("a long lock", RUN, written(LOCK, b"x" * 100_000), keeps=True),
        Case("no folder", HISTORY, shutil.rmtree),
    ]
    return cases


def surroundings() -> list[Case]:
    """Environment variables, limits of the system, and descriptors that are closed."""
    odd = {
        "SPMD_LAB_DATA": (
            "/dev/null",
            "/dev/null/x",
            "/proc/nowhere",
            "\udcff",
            "x" * 5000,
            "~nobody-here/x",
        ),
        "SPMD_LAB_TARGET": ("junk", "cpu:0", "tpu:v9z:2x2"),
        "SPMD_LAB_RUN_TIMEOUT_S": ("soon", "-1", "nan", "1e99"),
        "SPMD_LAB_QUEUE": ("many", "0"),
        "SPMD_LAB_STORED_BYTES": ("2 GiB",),
        "SPMD_LAB_WORKLOADS": ("/nowhere.py", "/dev/null"),
        "TMPDIR": ("/nowhere",),
        "HOME": ("/nowhere", "~nobody-here"),
        "PATH": ("",),
        "LANG": ("C",),
        "PYTHONIOENCODING": ("ascii",),
        "COLUMNS": ("0", "junk"),
        "XLA_FLAGS": ("--junk",),
    }
    cases = [
        Case(f"{name}={value[:20]!r}", words, environ={name: value})
        for name, values in odd.items()
        for value in values
        for words in (HISTORY, RUN)
    ]
    cases += [
        Case(f"{count} descriptors", words, limits=((resource.RLIMIT_NOFILE, count),))
        for count in (5, 7, 9, 11, 13, 16)
        for words in (HISTORY, RUN)
    ]
    cases += [
        Case(
            f"files of at most {size} bytes",
            RUN,
            limits=((resource.RLIMIT_FSIZE, size),),
            keeps=True,
        )
        for size in (0, 4096, 100_000)
    ]
    cases += [
        Case(f"descriptor {closed} closed", words, closed=(closed,))
        for closed in (0, 1, 2)
        for words in (HISTORY, RUN)
    ]
    return cases


def judged(case: Case, template: Path, run: str) -> str | None:
    """What went wrong; None where the command ended as it should."""
    with tempfile.TemporaryDirectory(prefix="spmd-lab-odd-") as name:
        folder = Path(name) / "data"
        shutil.copytree(template, folder)
        case.damage(folder)
        environ = (
            os.environ
            | LIMITS
            | {
                "SPMD_LAB_DATA": str(folder),
                "SPMD_LAB_TARGET": "cpu:8",
                "PYTHONPATH": f"{STANDIN}{os.pathsep}{ROOT}",
            }
        )

        def surround() -> None:
            for what, most in case.limits:
                resource.setrlimit(what, (most, most))
            for descriptor in case.closed:
                os.close(descriptor)

        words = [run if word == "GOOD" else word for word in case.words]
        try:
            told = subprocess.run(
                [sys.executable, "-m", "spmd_core", *words],
                cwd=name,
                env=environ | case.environ,
                input=SPEC,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_S,
                preexec_fn=surround,
            )
        except subprocess.TimeoutExpired:
            return "hangs"
        return _verdict(case, told, folder, run)


def _verdict(
    case: Case, told: subprocess.CompletedProcess[str], folder: Path, run: str
) -> str | None:
    lines = [line for line in told.stderr.splitlines() if line.strip()]
    if "Traceback" in told.stderr:
        return f"traceback: {lines[-1][:120]}"
    if told.returncode not in (0, 1, 2):
        return f"exit code {told.returncode}: {lines[-1][:120] if lines else ''}"
    if told.returncode and not lines and 2 not in case.closed:
        return f"exit code {told.returncode} without a word"
    if case.keeps:
        store = Store(folder)
        try:
            if store.result(run) is None:
                return "the finished run is lost"
        finally:
            store.close()
    return None


def extreme(seed: int) -> Damage:
    """An extreme value in one column of the finished run's row."""
    dice = random.Random(seed)
    column = dice.choice(
        ("submitted_at", "started_at", "finished_at", "medians", "predicted", "fastest", "partial")
    )
    value = dice.choice(
        (
            *("1e18", "-1e18", "9e999", "x'ff'", "9223372036854775807", "'nan'"),
            f"""'{{"auto": 1{"0" * 400}}}'""",
            f"'{'[' * 5000}'",
        )
    )
    return sql(f"UPDATE runs SET {column} = {value}")


def random_bytes(seed: int) -> Damage:
    """A page's worth of random bytes in the head of the database, where its schema is."""

    def change(folder: Path) -> None:
        dice, path = random.Random(seed), folder / FILE_NAME
        data = bytearray(path.read_bytes())
        at = dice.randrange(100, min(len(data), 20_000))
        size = dice.choice((1, 20, 400))
        data[at : at + size] = dice.randbytes(size)
        path.write_bytes(data)

    return change


def read_all(folder: Path) -> str | None:
    """What a screen reads of a data folder, in this process; what went wrong, if it was no
    sentence.
    """
    try:
        store = Store(folder)
        try:
            listed = store.history()
            runs_table(listed)
            for each in listed:
                ago(each.submitted_at)
                store.result(each.run)
            store.unread()
        finally:
            store.close()
    except LabError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:100]}"
    return None


def damaged(template: Path, count: int) -> Counter[str]:
    """So many damaged databases, read in this process: what was neither read nor a sentence."""
    bad: Counter[str] = Counter()
    for seed in range(count):
        with tempfile.TemporaryDirectory(prefix="spmd-lab-odd-") as name:
            folder = Path(name) / "data"
            shutil.copytree(template, folder)
            try:
                (flipped, random_bytes, extreme)[seed % 3](seed)(folder)
            except sqlite3.Error:
                continue
            if problem := read_all(folder):
                bad[problem] += 1
    return bad


def template_in(folder: Path) -> str:
    """A data folder with one finished run; its id."""
    environ = os.environ | {
        "SPMD_LAB_DATA": str(folder),
        "SPMD_LAB_TARGET": "cpu:8",
        "PYTHONPATH": f"{STANDIN}{os.pathsep}{ROOT}",
    }
    subprocess.run(
        [sys.executable, "-m", "spmd_core", "run", "-"],
        cwd=ROOT,
        env=environ,
        input=SPEC,
        text=True,
        capture_output=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    store = Store(folder)
    run = store.history()[0].run
    store.close()
    return run


def main(options: Asked, figures: Figures) -> None:
    cases = of_part([*rows(), *files(), *surroundings()], options.part)
    bad = 0
    with tempfile.TemporaryDirectory(prefix="spmd-lab-odd-") as name:
        run = template_in(Path(name) / "data")
        for case in cases:
            if problem := judged(case, Path(name) / "data", run):
                bad += 1
                print(f"{' '.join(case.words)}, {case.name}: {problem}", flush=True)
        unread = damaged(Path(name) / "data", options.damaged)
        for problem, times in unread.most_common():
            print(f"{times:5}  {problem}", flush=True)
    figures.add("damaged databases: no sentence", unread.total(), f"of {options.damaged}", most=0)
    figures.add("cases tried", len(cases), least=1)
    figures.add("hang, traceback, no sentence, or a run lost", bad, most=0)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        part=("1/1", "of the cases, for example 3/20"),
        damaged=(500, "databases read in this process"),
    )
