"""Archives: what travels, what is refused with nothing written, and that foreign runs never answer
for this machine.
"""

import io
import json
import zipfile

import pytest

from bench.values import result, strategy
from spmd_core.base import RequestError, StorageError
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Asker, Lab, container
from spmd_core.roofline import calibration, calibration_of
from tests.labs import HASTY
from tests.results.test_study import RESULT as STUDIED
from tests.ui.predictions import predicted, store

RUN, PREDICTED = "20260101-000000-aaaaaa", "20260101-000001-bbbbbb"
ODD = "<script>alert(1)</script> =cmd() \u202e"
MEASURED = result({"auto": strategy(1e-5)}, run=RUN)


@pytest.fixture
def there(tmp_path, data_folder):
    """A Lab on another machine, with a measured run and a prediction."""
    folder = tmp_path / "there"
    lab = Lab.open(folder, serve=False, settings=HASTY)
    lab._store.submit(RUN, MEASURED.experiment)
    lab._store.start(RUN)
    texts = {"auto": {"hlo": "HloModule m", "trace": "{}"}}
    lab._store.finish(RUN, "succeeded", result=MEASURED, texts=texts)
    store(folder, predicted(run=PREDICTED))
    lab.notebook.label(RUN, name=ODD, note="a\nb", tags=("v5p",), is_pinned=True)
    return lab


@pytest.fixture
def here(data_folder):
    return Lab.open(data_folder, serve=False, settings=HASTY)


def packed(lab, *runs):
    file = io.BytesIO()
    lab.archives.export(runs or lab.archives.every(), file)
    return file.getvalue()


def take(lab, data, **changes):
    return lab.archives.import_file(io.BytesIO(data), **changes)


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(data, **changes):
    """The archive with other members, and a manifest that fits them."""
    kept = {name: body for name, body in members(data).items() if name != container.MANIFEST}
    for name, body in changes.items():
        kept[f"runs/{name}.json"] = body
    file = io.BytesIO()
    container.write(file, "another", 1.0, kept.items())
    return file.getvalue()


def test_all_that_was_stored_is_there_again(there, here):
    data = packed(there)
    taken = take(here, data)
    assert taken.to_json() == {"imported": (RUN, PREDICTED), "present": (), "refused": ()}
    assert here.facts(RUN) == there.facts(RUN) and here.notebook.labels(RUN).name == ODD
    assert here.texts(RUN, "auto") == there.texts(RUN, "auto")
    before, after = (
        {name: json.loads(body) for name, body in members(each).items()}
        for each in (data, packed(here))
    )
    for name in before.keys() - {container.MANIFEST}:
        if name.startswith("runs/"):
            assert after[name].pop("origin") == there._store.installation()
            assert before[name].pop("origin") is None
        assert after[name] == before[name]
    assert take(here, data).present == (RUN, PREDICTED)
    assert take(there, packed(here)).present == (RUN, PREDICTED)
    assert there.notebook.origin(RUN) is None, "what ran here stays of here"


def test_a_page_that_carries_a_run_imports_it_from_the_name_that_was_typed(there, here):
    page = there.archives.page("<!doctype html><p>9 µs</p>", [RUN], "ana-v5e")
    assert page.startswith("<!doctype html><p>9 µs</p>")
    assert take(here, page.encode(), name="run.html").imported == (RUN,)
    assert here.notebook.origin(RUN).installation == "ana-v5e"
    assert here.result(RUN).medians_s == there.result(RUN).medians_s
    for name in ("a b", "/home/ana", "examples", "x" * 65):
        with pytest.raises(RequestError, match="use a name such as"):
            there.archives.page("<p>", [RUN], name)


def test_a_foreign_run_is_no_latest_result_and_no_recipe_that_is_done(there, here):
    take(here, packed(there))
    assert there.latest(MEASURED.experiment) == RUN and there.succeeded()
    assert here.latest(MEASURED.experiment) is None and here.succeeded() == frozenset()
    assert [run.origin is None for run in here.history()] == [False, False]
    assert here.history(source="here") == ()


def test_foreign_runs_are_listed_by_when_they_ran_and_pinned_ones_first(there, here):
    here._store.submit("own", MEASURED.experiment)
    there._store._writer.execute("UPDATE runs SET submitted_at = 1e9")
    take(here, packed(there))
    assert [each.run for each in here.history()] == ["own", PREDICTED, RUN]
    assert here.history(pinned_first=True)[0].run == RUN


def test_a_foreign_run_gives_no_expected_duration(there, here):
    take(here, packed(there))
    assert there.last_took_s(MEASURED.experiment) is not None
    assert here.last_took_s(MEASURED.experiment) is None


def test_a_foreign_prediction_is_not_reused(there, here):
    take(here, packed(there))
    experiment = predicted().experiment
    assert there.latest(experiment) == PREDICTED and here.latest(experiment) is None


def test_a_foreign_calibration_is_none_of_this_machine(there, here):
    of = calibration_of(parse_experiment(MEASURED.experiment.to_json()))
    stored = MEASURED.model_copy(update={"experiment": of, "run": "calibration"})
    there._store.submit("calibration", of)
    there._store.start("calibration")
    there._store.finish("calibration", "succeeded", result=stored)
    take(here, packed(there, "calibration"))
    assert calibration(MEASURED.experiment, there.latest, there.result) is not None
    assert calibration(MEASURED.experiment, here.latest, here.result) is None


def damaged(data):
    """(what it is, archive, a word of the sentence) of archives that are bad."""
    run = members(data)[f"runs/{RUN}.json"]
    manifest = json.loads(members(data)[container.MANIFEST])

    def zipped(changes, bomb=0):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, body in (members(data) | changes).items():
                if body is not None:
                    archive.writestr(name, body + b" " * bomb)
        return file.getvalue()

    newer = json.dumps(manifest | {"schema": 2}).encode()
    twice = io.BytesIO(data)
    with zipfile.ZipFile(twice, "a") as archive, pytest.warns(UserWarning):
        archive.writestr(f"runs/{RUN}.json", run)
    return [
        (b"", "is not a zip file"),
        (b"PK" * 100, "is not a zip file"),
        (data[:-30], "is not a zip file"),
        (data + b"x", "has something behind its end"),
        (zipped({container.MANIFEST: None}), "has no manifest.json"),
        (zipped({container.MANIFEST: b"[]"}), "has no manifest.json"),
        (zipped({container.MANIFEST: b"{" * 9}), "cannot be read"),
        (zipped({container.MANIFEST: newer}), "update SPMD Lab"),
        (zipped({f"runs/{RUN}.json": run + b" "}), "not what its manifest names"),
        (zipped({f"runs/{RUN}.json": None}), "other members than its manifest names"),
        (zipped({"runs/other.json": run}), "other members than its manifest names"),
        (zipped({"../../etc/passwd": b"x"}), "which no archive of runs has"),
        (zipped({"/etc/passwd": b"x"}), "which no archive of runs has"),
        (zipped({}, bomb=20_000_000), "inflates over 100 times"),
        (twice.getvalue(), "or one of them twice"),
    ]


def test_a_bad_archive_is_refused_in_a_sentence_and_nothing_is_written(there, here):
    for data, words in damaged(packed(there)):
        with pytest.raises(RequestError, match=words) as raised:
            take(here, data)
        assert "\n" not in str(raised.value)
    assert here.history() == () and here._store._rows("SELECT * FROM experiments") == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"run": "other"}, "not the run that its member is named for"),
        ({"state": "running"}, "cannot be read by this version"),
        ({"submitted_at": 1e300}, "no calendar"),
        ({"labels": {"name": "x" * 1000}}, "put the rest into the note"),
        ({"surprise": 1}, "cannot be read by this version"),
        ({"experiment": {"workload": "unknown", "mesh": {"x": 8}}}, "unknown"),
        ({"result": None, "error": {"kind": 1}}, "cannot be read by this version"),
    ],
)
def test_a_run_that_cannot_be_taken_is_refused_and_the_others_are_taken(
    there, here, changes, words
):
    data = packed(there)
    fields = json.loads(members(data)[f"runs/{RUN}.json"]) | changes
    taken = take(here, rewritten(data, **{RUN: json.dumps(fields).encode()}))
    assert taken.imported == (PREDICTED,)
    assert [each.id for each in taken.refused] == [RUN] and words in taken.refused[0].reason
    assert here.notebook.origin(PREDICTED).installation == "another"


def test_a_result_that_names_a_strategy_that_it_does_not_have_is_refused(there, here):
    data = packed(there)
    fields = json.loads(members(data)[f"runs/{RUN}.json"])
    fields["result"]["comparison"] = {"fastest": "nothing", "ratios": [], "tied": []}
    taken = take(here, rewritten(data, **{RUN: json.dumps(fields).encode()}))
    assert "cannot be shown" in taken.refused[0].reason


def test_another_run_of_the_same_id_is_not_replaced(there, here):
    here._store.submit(RUN, MEASURED.experiment)
    taken = take(here, packed(there))
    assert taken.imported == (PREDICTED,) and "another run" in taken.refused[0].reason
    assert here.status(RUN).state == "queued"


def test_a_disk_that_fills_up_leaves_nothing(there, here, monkeypatch):
    here._store._writer.execute("PRAGMA max_page_count = 40")
    large = {"auto": {"hlo": "".join(map(str, range(200_000)))}}
    there._store.submit("large", MEASURED.experiment)
    there._store.start("large")
    body = MEASURED.model_copy(update={"run": "large"})
    there._store.finish("large", "succeeded", result=body, texts=large)
    with pytest.raises(StorageError, match="full"):
        take(here, packed(there))
    assert here.history() == ()


def test_a_viewer_imports_no_more_than_the_server_has_room_for(there, here):
    here.archives._settings = HASTY.__class__(stored_most_bytes=1)
    with pytest.raises(RequestError, match="more than this server has room for"):
        take(here, packed(there), asker=Asker("somebody"))
    assert here.history() == ()
    assert take(here, packed(there)).imported  # the command line has no limit


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e-320], ids=["none", "below zero", "1e628 times"])
def test_times_that_no_clock_measures_are_refused_without_a_warning(here, seconds):
    """Warnings are errors here: NumPy's were printed, and the run was taken."""
    body = STUDIED.model_dump(mode="json")
    for number, each in enumerate(body["strategies"].values()):
        each["samples_s"] = [seconds if number else 1e308] * len(each["samples_s"])
        each["turns_s"] = [[at] for at in each["samples_s"]]
    fields = {"run": STUDIED.run, "experiment": body["experiment"], "state": "succeeded"}
    fields |= {"submitted_at": 1.0, "started_at": 1.0, "finished_at": 2.0, "result": body}
    file = io.BytesIO()
    member = (f"runs/{STUDIED.run}.json", json.dumps(fields).encode())
    container.write(file, "another", 1.0, [member])
    (refused,) = take(here, file.getvalue()).refused
    assert "has a result that cannot be shown" in refused.reason
