"""A real file of an older version opens, and what it holds is found by today's ids."""

import json
import sqlite3
import zlib

import pytest

from spmd_core.base import StorageError
from spmd_core.experiment import parse_experiment
from spmd_core.experiment.link import decode
from spmd_core.lab.store import migrations
from spmd_core.lab.store.database import FILE_NAME
from spmd_core.lab.store.migrations import MIGRATIONS
from spmd_core.lab.store.rows import columns_at_end
from spmd_core.lab.store.store import Store
from spmd_core.results import Result
from spmd_core.terms import outcome_words
from spmd_core.workloads import parse_plan

OWN = {
    "workload": "decoder",
    "target": "tpu:v5e:4x4",
    "mesh": {"fsdp": 16},
    "dims": {"batch": 32, "sequence": 2048},
}
# Ids and dims as the version before wrote them for scaled:1, which has 16 layers, embed 2048.
OLD = {
    "261f9168bdff5866": {"batch": 32, "sequence": 2048, "layers": 16},
    "1bedb224fe242af0": {"batch": 32, "sequence": 2048, "layers": 16, "embed": 2048, "mlp": 4096},
    "83e236494fefc90f": {"batch": 32, "sequence": 2048, "layers": 4},
    "50176cc6d13d2e94": {"batch": 32, "sequence": 2048},
}
# The first of these as a link of the version before.
OLD_LINK = (
    "1.eNodjsEOgjAQRP9lzj1YRGL6K4RDaRckFlrbRSWEf3fxuJk3b2cH2zwSw4DTat43MvW3hsJM5QHTthiKT1C66TqFT"
    "8zPEK0X2pOLnrKQfpoLzI7espPKtVIo9FppcQRTXeq7QrAbZYF0cwjPW5IE_SAq1o0oYuIpLn9Lptmea4Y1hHOGPAlyFm"
    "cDeaMhgsLZMo0TSaGFXTmiO34_u0C2"
)


def old_spec(dims):
    return json.dumps(
        {
            "version": 1,
            "target": "tpu:v5e:4x4",
            "mesh": [["fsdp", 16]],
            "workload": "decoder",
            "dims": dims,
            "dtype": "bfloat16",
            "sharding": {},
            "overrides": {},
            "memory": {},
            "data": {},
            "options": {"device_order": "topology", "remat": "full", "model": "scaled:1"},
            "strategies": ["auto"],
            "timing": {"samples": 20, "min_seconds": 0.2},
            "seed": 0,
        },
        separators=(",", ":"),
    )


def old_result(run, dims):
    body = {
        "run": run,
        "experiment": json.loads(old_spec(dims)),
        "strategies": {},
        "environment": {
            "jax": "0",
            "jaxlib": "0",
            "python": "3",
            "platform": "tpu",
            "device_kind": "TPU v5 lite",
            "device_count": 16,
        },
    }
    return zlib.compress(json.dumps(body).encode(), 1)


# What dot with in_axes written without blanks was, in the version before.
DOT_ID, DOT_IN_AXES = "4c594d8295b466b9", "0,0"
DOT = {"workload": "dot", "mesh": {"x": 2, "y": 4}, "target": "cpu:8"}


def old_dot():
    form = parse_experiment(DOT | {"options": {"in_axes": DOT_IN_AXES}}).to_json()
    form["options"]["in_axes"] = DOT_IN_AXES
    return json.dumps(form, separators=(",", ":"))


@pytest.fixture
def old_folder(data_folder):
    """A data folder as the version before left it: a run with a result for each of OLD."""
    data_folder.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(data_folder / FILE_NAME)
    db.execute("CREATE TABLE migrations (name TEXT PRIMARY KEY, applied_at REAL NOT NULL)")
    for name, statements in MIGRATIONS[:2]:
        for statement in statements:
            db.execute(statement)
        db.execute("INSERT INTO migrations VALUES (?, 1.0)", (name,))
    for number, (old, dims) in enumerate(OLD.items()):
        db.execute(
            "INSERT INTO experiments VALUES (?, ?, 'decoder', 'tpu:v5e:4x4')", (old, old_spec(dims))
        )
        db.execute(
            "INSERT INTO runs (id, experiment, state, submitted_at, finished_at) "
            "VALUES (?, ?, 'succeeded', ?, ?)",
            (f"run-{number}", old, number, number + 1),
        )
        db.execute(
            "INSERT INTO results VALUES (?, ?)",
            (f"run-{number}", old_result(f"run-{number}", dims)),
        )
    db.execute("INSERT INTO experiments VALUES (?, ?, 'dot', 'cpu:8')", (DOT_ID, old_dot()))
    db.execute(
        "INSERT INTO runs (id, experiment, state, submitted_at) VALUES ('run-dot', ?, 'failed', 8)",
        (DOT_ID,),
    )
    db.execute("INSERT INTO experiments VALUES ('unreadable', '{}', 'decoder', 'tpu:v5e:4x4')")
    db.execute(
        "INSERT INTO runs (id, experiment, state, submitted_at) "
        "VALUES ('run-x', 'unreadable', 'failed', 9)"
    )
    db.commit()
    db.close()
    return data_folder


def ids(folder):
    db = sqlite3.connect(folder / FILE_NAME)
    try:
        return {row[0] for row in db.execute("SELECT id FROM experiments")}
    finally:
        db.close()


def test_runs_of_an_older_version_are_found_by_todays_ids(old_folder):
    store = Store(old_folder)
    assert store.latest(parse_experiment(OWN).id) == "run-3"
    wide = OWN | {"dims": OWN["dims"] | {"mlp": 4096}}
    assert store.latest(parse_experiment(wide).id) == "run-1"
    assert store.latest("83e236494fefc90f") == "run-2"  # four layers are not the model's own
    assert (
        store.result("run-0").experiment
        == store.status("run-0").experiment
        == parse_experiment(OWN)
    )
    dot = parse_experiment(DOT | {"options": {"in_axes": "0, 0"}})
    assert store.status("run-dot").experiment == dot
    runs = {f"run-{number}" for number in range(4)} | {"run-dot"}
    assert {summary.run for summary in store.history()} == runs
    store.close()
    assert ids(old_folder) == {
        "50176cc6d13d2e94",
        "83e236494fefc90f",
        parse_experiment(wide).id,
        dot.id,
        "unreadable",
    }


def test_the_step_is_done_once(old_folder):
    for _ in range(2):
        store = Store(old_folder)
        names = [row["name"] for row in store._rows("SELECT name FROM migrations ORDER BY name")]
        assert names == [name for name, _ in MIGRATIONS]
        store.close()


def test_runs_of_an_older_version_wait_in_the_lane_of_their_target(old_folder):
    db = sqlite3.connect(old_folder / FILE_NAME)
    with db:
        db.execute("UPDATE runs SET state = 'queued' WHERE id IN ('run-1', 'run-3', 'run-dot')")
    db.close()
    store = Store(old_folder)
    assert store.next_queued("compiling").run == "run-1"
    assert store.next_queued("timing").run == "run-dot"
    assert [store.status(run).queue_position for run in ("run-1", "run-3", "run-dot")] == [1, 2, 1]
    store.close()


LOOSE = {"count": 3, "of": 8, "share": 0.375, "off": 0.1, "terms": 1024, "dtype": "bfloat16"}


def outcomes(imprecise):
    """Two strategies, the first the fastest."""
    right = {"status": "ok", "median_s": 1.0, "correct": True}
    return {"auto": right | {"imprecise": imprecise}, "single": right | {"median_s": 2.0}}


def test_a_list_says_which_runs_of_an_older_version_are_imprecise(data_folder):
    data_folder.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(data_folder / FILE_NAME)
    db.row_factory = sqlite3.Row
    db.execute("CREATE TABLE migrations (name TEXT PRIMARY KEY, applied_at REAL NOT NULL)")
    for name, steps in MIGRATIONS[:15]:
        migrations.apply(db, steps)
        db.execute("INSERT INTO migrations VALUES (?, 1.0)", (name,))
    db.execute("INSERT INTO experiments VALUES (?, ?, 'dot', 'cpu:8')", (DOT_ID, old_dot()))
    body = zlib.decompress(old_result("r", {}))
    for run, imprecise in (("loose", LOOSE), ("right", None), ("other", LOOSE), ("torn", LOOSE)):
        text = json.dumps(
            json.loads(body) | {"strategies": outcomes(imprecise)}, separators=(",", ":")
        )
        packed = zlib.compress(text.encode())
        db.execute(
            "INSERT INTO runs (id, experiment, state, submitted_at, fastest, medians) "
            "VALUES (?, ?, 'succeeded', 1, ?, '{\"auto\": 1.0, \"single\": 2.0}')",
            (run, DOT_ID, "single" if run == "other" else "auto"),
        )
        db.execute(
            "INSERT INTO results VALUES (?, ?)", (run, packed[:20] if run == "torn" else packed)
        )
    db.commit()
    db.close()
    store = Store(data_folder)
    listed = {each.run: (each.is_imprecise, outcome_words(each)) for each in store.history()}
    store.close()
    measured = (False, "Measured")
    assert listed == {
        "loose": (True, "Measured, imprecise"),
        **dict.fromkeys(("right", "other", "torn"), measured),
    }


@pytest.mark.parametrize("imprecise", [LOOSE, None])
def test_a_run_that_ends_now_is_listed_so_too(imprecise):
    result = Result.model_validate(
        {
            "run": "r",
            "experiment": parse_experiment(DOT).to_json(),
            "environment": json.loads(zlib.decompress(old_result("r", {})))["environment"],
            "strategies": outcomes(imprecise),
            "comparison": {"fastest": "auto", "ratios": [], "tied": []},
        }
    )
    assert columns_at_end(result, None)["imprecise"] == int(imprecise is not None)


def test_a_step_that_fails_midway_leaves_the_file_as_it_was(old_folder, monkeypatch):
    """The step is part of the transaction: the ids that it changed before are changed back."""
    seen = []

    def parse(spec):
        if len(seen) == 1:
            raise OSError("the disk is gone")
        seen.append(spec)
        return parse_experiment(json.loads(spec))

    monkeypatch.setattr(migrations, "parse_experiment_text", parse)
    with pytest.raises(StorageError):
        Store(old_folder)
    assert len(seen) == 1
    assert ids(old_folder) == {*OLD, DOT_ID, "unreadable"}
    monkeypatch.undo()
    Store(old_folder).close()
    assert "261f9168bdff5866" not in ids(old_folder)


@pytest.mark.parametrize(
    "sizes",
    [
        {"layers": 16},
        {"embed": 2048},
        {
            "layers": 16,
            "embed": 2048,
            "heads": 16,
            "kv_heads": 16,
            "head_dim": 128,
            "mlp": 7168,
            "vocab": 32000,
            "experts": 1,
            "experts_per_token": 1,
        },
    ],
)
def test_the_models_own_sizes_are_the_same_experiment_and_plan(sizes):
    own = parse_experiment(OWN)
    same = parse_experiment(OWN | {"dims": OWN["dims"] | sizes})
    assert same == own and same.id == own.id == "50176cc6d13d2e94"
    plan = {
        "target": "tpu:v5e:4x4",
        "model": "scaled:1",
        "mesh": {"fsdp": 16},
        "batch_per_device": 2,
    }
    assert parse_plan(plan | {"sizes": sizes}) == parse_plan(plan)
    assert parse_plan(plan | {"sizes": [list(pair) for pair in sizes.items()]}) == parse_plan(plan)
    assert (
        parse_experiment(OWN | {"dims": OWN["dims"] | sizes, "options": {"model": "scaled:2"}})
        != own
    )


def test_a_link_of_the_older_form_opens():
    assert decode(OLD_LINK) == parse_experiment(OWN)
