"""Makes the stored runs that the goldens are of:

    python -m tests.golden.runs FOLDER [GROUP …]
    python -m tests.golden.runs FOLDER pack

Each run is real: a Lab on the folder carries it out. A folder continues where it ended. `pack`
writes what is stored into `stored.tar.xz`, without the long program texts.
"""

import json
import os
import sqlite3
import sys
import tarfile
import tempfile
import time
import zlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.exported import sgd_step
from spmd_core.__main__ import main as command
from spmd_core.base import RequestError, read_settings
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.recipes import get_recipe
from tests.ui.predictions import store

HERE = Path(__file__).parent
SPECS = json.loads((HERE / "specs.json").read_text("utf-8"))
PACKED = HERE / "stored.tar.xz"
MOST_TEXT = 1_500  # bytes of a program text, as stored; longer ones are left out
OWN = HERE / "functions.py"


def take(lab: Lab, spec: dict[str, Any]) -> None:
    """Run one experiment to its end, unless the folder has it."""
    try:
        experiment = parse_experiment(spec)
        if lab.history(experiment=experiment):
            return
        status = lab.wait(lab.submit(experiment))
    except RequestError as error:
        print(f"{spec['workload']}: {error}", flush=True)
        return
    print(f"{spec['workload']} {spec.get('target')}: {status.state}", flush=True)


def exported(lab: Lab) -> None:
    """Run an exported program and a declared one, here and on a topology."""
    taken = lab.take_program(sgd_step(), "momentum SGD")
    where = {"workload": "program_file", "program": taken.program}
    mesh = {"fsdp": 4, "tensor": 2}
    for more in (
        {"target": "cpu:8", "mesh": mesh, "timing": {"samples": 3, "min_seconds": 0.01}},
        {"target": "tpu:v5e:2x4", "mesh": mesh},
        {"target": "tpu:v5e:2x4", "mesh": {"fsdp": 8, "tensor": 1}},
    ):
        take(lab, where | more)
    declared = lab.take_declared_programs()
    for each in declared:
        take(lab, {"workload": "program_file", "program": each.program, "target": "cpu:8"})


def ended_early(lab: Lab, folder: Path) -> Lab:
    """Leave runs that were cancelled, killed and timed out."""
    long = {"target": "cpu:8", "mesh": {"x": 8}, "workload": "matmul"}
    long |= {"timing": {"samples": 200, "min_seconds": 8.0}, "strategies": ["single", "auto"]}
    run = lab.submit(parse_experiment(long | {"seed": 11}))
    _until(lab, run)
    lab.cancel(run)
    print("cancelled:", lab.wait(run).state)
    run = lab.submit(parse_experiment(long | {"seed": 12}))
    _until(lab, run)
    if lab.worker_pid:
        os.kill(lab.worker_pid, 9)
    print("killed:", lab.wait(run).state)
    lab.close()
    short = Lab.open(folder, settings=replace(read_settings(), run_timeout_s=6.0))
    print("late:", short.wait(short.submit(parse_experiment(long | {"seed": 13}))).state)
    short.close()
    return Lab.open(folder)


def _until(lab: Lab, run: str) -> None:
    """Wait until a run has timed something for 2 s."""
    while not (status := lab.status(run)).is_over and not status.done:
        time.sleep(0.05)
    time.sleep(2.0)


def by_command(group: str) -> None:
    """Carry out commands, whose `{name}` are specs."""
    with tempfile.TemporaryDirectory() as temporary:
        for name, spec in SPECS["specs"].items():
            (Path(temporary) / f"{name}.json").write_text(json.dumps(spec), "utf-8")
        for words in SPECS["commands"][group]:
            code = command(
                [f"{temporary}/{word[1:-1]}.json" if word[0] == "{" else word for word in words]
            )
            print(f"{words}: {code}", flush=True)


def label(lab: Lab) -> None:
    """Name, tag and pin some runs, and collect them."""
    runs = [each.run for each in lab.history(limit=1000)][::-1]
    lab.notebook.label(
        runs[0], name="First of all", note="Look at the **median**.", tags=("layer",)
    )
    lab.notebook.label(runs[1], name="", note="", tags=("layer", "odd"), is_pinned=True)


def attached(lab: Lab, folder: Path) -> None:
    """Leave a program with times beside its prediction, as one on attached TPUs has: none is here,
    so the times are the prediction's, by a fifth longer.
    """
    found = next(
        result
        for each in lab.history(state="succeeded", limit=1000)[::-1]
        if (each.experiment.place.is_absent and not each.experiment.plan)
        and (result := lab.facts(each.run))
        and any(one.prediction and one.prediction.mfu for one in result.strategies.values())
    )
    name, outcome = next(
        (name, each)
        for name, each in found.strategies.items()
        if each.prediction and each.prediction.mfu
    )
    assert outcome.predicted_s
    median = 1.2 * outcome.predicted_s.estimate
    timed = outcome.model_copy(
        update={
            "median_s": median,
            "ci95_s": (0.99 * median, 1.02 * median),
            "prediction_error": -1 / 6,
            "samples_s": (0.99 * median, median, 1.02 * median),
        }
    )
    here = found.experiment.vary(target="local")
    run = f"{found.run[:-6]}aaaaaa"
    store(
        folder,
        found.model_copy(update={"run": run, "experiment": here, "strategies": {name: timed}}),
    )


def pack(folder: Path) -> None:
    """Write the data folder as one archive."""
    with tempfile.TemporaryDirectory() as temporary:
        small = Path(temporary) / "lab.sqlite3"
        with closing(sqlite3.connect(folder / "lab.sqlite3")) as db:
            db.execute("VACUUM INTO ?", (str(small),))
        with closing(sqlite3.connect(small)) as db:
            _shrink(db)
            db.commit()
            db.execute("VACUUM")
        with tarfile.open(PACKED, "w:xz", preset=9) as archive:
            archive.add(small, small.name, filter=_plain)
            for path in sorted(folder.rglob("*/*")):  # programs, and versions of own functions
                if path.is_file():
                    archive.add(path, str(path.relative_to(folder)), filter=_plain)
    print(f"{PACKED.stat().st_size / 1024:.0f} KiB")


def _shrink(db: sqlite3.Connection) -> None:
    """Leave out what no golden shows, and the versions that made a prediction: another cost model
    would make each of them outdated.
    """
    db.execute("DELETE FROM runs WHERE finished_at IS NULL")
    db.execute("DELETE FROM texts WHERE length(body) > ?", (MOST_TEXT,))
    db.execute("DELETE FROM texts WHERE run IN (SELECT id FROM runs WHERE batch IS NOT NULL)")
    for table in ("results", "texts"):
        for row, body in db.execute(f"SELECT rowid, body FROM {table}").fetchall():
            text = zlib.decompress(body)
            if table == "results":
                text = _without_versions(json.loads(text))
            db.execute(  # not deflated: the archive is smaller
                f"UPDATE {table} SET body = ? WHERE rowid = ?", (zlib.compress(text, 0), row)
            )


def _without_versions(result: dict[str, Any]) -> bytes:
    for outcome in result["strategies"].values():
        if outcome.get("prediction"):
            outcome["prediction"].get("compile", {}).pop("versions", None)
    return json.dumps(result, separators=(",", ":")).encode()


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime, member.uid, member.gid, member.uname, member.gname = 0, 0, 0, "", ""
    return member


def main(folder: Path, groups: list[str]) -> None:
    """Carry out the groups that are named, else all."""
    if groups == ["pack"]:
        pack(folder)
        return
    os.environ |= {"SPMD_LAB_DATA": str(folder), "SPMD_LAB_EXAMPLES": "off"}
    os.environ["SPMD_LAB_WORKLOADS"] = str(OWN)
    lab = Lab.open(folder)
    for group in groups or [
        *SPECS["groups"],
        "recipes",
        "exported",
        "ended",
        *SPECS["commands"],
        "attached",
        "labels",
    ]:
        print(f"{group}:", flush=True)
        for spec in SPECS["groups"].get(group, ()):
            take(lab, spec)
        for name in SPECS["recipes"] if group == "recipes" else ():
            take(lab, get_recipe(name).experiment.to_json())
        if group == "exported":
            exported(lab)
        if group == "ended":
            lab = ended_early(lab, folder)
        if group in SPECS["commands"]:
            by_command(group)
        if group == "attached":
            attached(lab, folder)
        if group == "labels":
            label(lab)
    lab.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
