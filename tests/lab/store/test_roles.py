"""Who may do what, by login and without, and what is kept of it."""

import inspect
import io
import json
from dataclasses import replace

import pytest

from spmd_core.__main__ import main
from spmd_core.base import RequestError, read_settings
from spmd_core.lab import COMMAND_LINE, Asker, Lab, role_of
from spmd_core.lab.archive.archives import Archives
from spmd_core.lab.collections import Collections, Notebook, SharedSearches
from spmd_core.search import KeptSearch
from tests.labs import HASTY, STANDIN, experiment, until

ANN = Asker("ann", who="ann@example.com", is_logged_in=True, names=("iss#1", "Ann@example.com"))
BOB = Asker("bob", who="iss 2", is_logged_in=True, names=("iss#2",))
EVE = Asker("eve", who="eve@example.com", is_logged_in=True, names=("iss#3", "eve@example.com"))
VISITOR = Asker("browser", address="10.0.0.1")
ENDLESS = 1  # of the stand-in's seeds: a run that ends by a cancel
ROLES = replace(HASTY, admins=("ann@example.com",), runners=("iss#2",))


@pytest.fixture
def lab(data_folder):
    lab = Lab.open(data_folder, serve=False, settings=ROLES)
    lab._is_wanted = lab._supervisor._is_wanted = lambda: False
    return lab


@pytest.mark.parametrize(
    ("settings", "asker", "role"),
    [
        (ROLES, ANN, "admin"),
        (ROLES, BOB, "runner"),
        (ROLES, EVE, "viewer"),
        (ROLES, replace(EVE, who="ann@example.com"), "viewer"),  # a name is no identity
        (ROLES, replace(EVE, names=("iss#3",)), "viewer"),  # of an address that is not confirmed
        (ROLES, COMMAND_LINE, "admin"),
        (HASTY, EVE, "viewer"),
        (replace(HASTY, admins=(), runners=("*",)), EVE, "runner"),
        (replace(ROLES, runners=("*",)), replace(EVE, names=()), "runner"),
        (HASTY, VISITOR, "admin"),
        (HASTY, replace(VISITOR, is_exposed=True), "viewer"),
        (replace(HASTY, anonymous="runner"), replace(VISITOR, is_exposed=True), "runner"),
        (replace(ROLES, anonymous="viewer"), VISITOR, "viewer"),
    ],
)
def test_the_role_of_each(settings, asker, role):
    assert role_of(settings, asker) == role


def attempts(lab, run):
    """What people do, by its name."""
    return {
        "run": lambda who: lab.submit(experiment(1), who),
        "release": lambda who: lab.release(who),
        "tag": lambda who: lab.notebook.label(run, who, tags=("a",)),
        "import": lambda who: lab.archives.import_file(io.BytesIO(b"none"), asker=who),
        "cancel": lambda who: lab.cancel(run, asker=who),
        "name": lambda who: lab.notebook.label(run, who, name="a"),
        "delete": lambda who: lab.delete([run], who),
    }


@pytest.mark.parametrize(
    ("asker", "refused"),
    [
        (EVE, ["run", "release", "tag", "import", "cancel", "name", "delete"]),
        (BOB, ["name", "delete"]),
        (ANN, []),
    ],
)
def test_each_role_may_do_so_much(lab, asker, refused):
    run, stopped = lab.submit(experiment()), []
    for name, attempt in attempts(lab, run).items():
        try:
            attempt(asker)
        except RequestError as error:
            if "is not a zip file" not in str(error):
                stopped.append(name)
    assert stopped == refused


def test_the_owner_is_issuer_and_subject(lab):
    run = lab.submit(experiment(), BOB)
    assert lab._store.owner(run) == ("iss#2", "bob") and lab.history()[0].owner == "iss 2"
    assert [each.run for each in lab.history(text="by:iss")] == [run]
    other = replace(BOB, names=("iss#9",))  # of the same displayed name and the same browser
    settings = replace(ROLES, runners=("iss#2", "iss#9"))
    lab.notebook._settings = lab._settings = settings
    with pytest.raises(RequestError, match="belongs to somebody else"):
        lab.notebook.label(run, other, name="mine")
    assert lab.notebook.label(run, BOB, name="mine").name == "mine"
    lab.cancel(run, asker=other)
    assert lab.actions()[0].action == "cancel" and lab.status(run).state == "cancelled"
    with pytest.raises(RequestError, match="belongs to somebody else"):
        lab.delete([run], other)
    assert lab.delete([run], BOB) == 1


def test_without_a_login_a_runner_changes_what_the_same_browser_ran(lab):
    lab.notebook._settings = lab._settings = replace(HASTY, anonymous="runner")
    run = lab.submit(experiment(), VISITOR)
    lab.notebook.label(run, VISITOR, name="mine")
    with pytest.raises(RequestError, match="belongs to somebody else"):
        lab.notebook.label(run, Asker("other", address="10.0.0.1"), name="theirs")


def test_audit_lists_the_command_line_too(lab, capsys):
    run = lab.submit(experiment())
    lab.cancel(run, asker=BOB)
    lab.delete([run])
    assert [each.who for each in lab.actions()] == ["iss 2"], "of visitors"
    assert main(["audit", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert [(each["who"], each["action"], each["object"]) for each in lines] == [
        ("command line", "delete", run),
        ("iss 2", "cancel", run),
        ("command line", "run", run),
    ]
    assert set(lines[0]) == {"at", "who", "action", "object"}
    assert main(["audit", "--limit", "0"]) == 2


def test_roles_are_read_from_the_environment():
    settings = read_settings({"SPMD_LAB_ADMINS": "Ann@example.com, https://iss#7"})
    assert settings.admins == ("ann@example.com", "https://iss#7") and settings.runners == ()
    with pytest.raises(RequestError, match="is no e-mail address, and no issuer#sub"):
        read_settings({"SPMD_LAB_RUNNERS": "ann"})
    with pytest.raises(RequestError, match="viewer or runner or admin"):
        read_settings({"SPMD_LAB_ANONYMOUS": "owner"})


# what shows or looks up, and is open to whoever may come in; opening and closing is the program's own
SHOWS = {
    Lab: "open close status active active_of_others result facts latest succeeded texts every_text text actions room "
    "longest_s last_took_s oldest_finished wait history unread programs hardware devices "
    "devices_seen_at program_texts subject",
    Notebook: "labels origin",
    Archives: "every export page take_examples",
    Collections: "find listed",
    SharedSearches: "find has listed",
}


@pytest.mark.parametrize("gate", SHOWS, ids=lambda gate: gate.__name__)
def test_whatever_else_is_done_asks_who_it_is(gate, lab, monkeypatch):
    run = lab.submit(experiment())
    notes = lab.collections.create("notes")
    at = {"Lab": lab, "SharedSearches": lab.searches}.get(gate.__name__)
    at = at or getattr(lab, gate.__name__.lower())
    given = {"experiment": experiment(1), "run": run, "collection": notes.id, "file": io.BytesIO()}
    given["search"] = KeptSearch(search="a")
    given |= {"before": experiment(1), "after": experiment(1)}
    given |= {"runs": (run,), "viewer": "eve", "data": b"", "program": "0" * 64, "by": 1}
    for name, method in vars(gate).items():
        if name.startswith("_") or not inspect.isfunction(method) or name in SHOWS[gate].split():
            continue
        if name == "cancel_all":
            monkeypatch.setattr(lab._store, "active_of", lambda viewer: [run])
        wanted = list(inspect.signature(method).parameters.values())[1:]
        assert "asker" in [each.name for each in wanted], f"{name} asks nobody who they are"
        filled = {
            each.name: EVE if each.name == "asker" else given.get(each.name, "text")
            for each in wanted
            if each.name == "asker"
            or (each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD)
        }
        with pytest.raises(RequestError, match="may only look and estimate here"):
            method(at, **filled)
    assert lab.status(run).state == "queued" and lab.history(limit=9)[0].run == run


def test_a_run_outlasts_the_role_of_who_submitted_it(data_folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    monkeypatch.setenv("STANDIN_LOG", str(data_folder.parent / "log"))
    lab = Lab.open(data_folder, settings=ROLES)
    run = lab.submit(experiment(ENDLESS), BOB)
    until(lambda: lab.status(run).state == "running")
    # as after the lists were edited, and the server was started anew over the same folder
    other = Asker("cid", who="iss 4", is_logged_in=True, names=("iss#4",))
    lab._settings = replace(ROLES, runners=("iss#4",))
    for refused in (
        lambda: lab.cancel(run, asker=BOB),
        lambda: lab.cancel_all(BOB),
        lambda: lab.submit(experiment(2), BOB),
        lambda: lab.delete([run], BOB),
    ):
        with pytest.raises(RequestError, match="may only look and estimate here"):
            refused()
    assert lab.status(run).state == "running"
    assert lab.history(runs=[run])[0].owner == BOB.who
    lab.cancel(run, asker=other)
    assert lab.wait(run, 60).state == "cancelled"
    with pytest.raises(RequestError, match="only its owner and admins"):
        lab.delete([run], other)
    assert [each.who for each in lab.actions() if each.action == "cancel"] == ["iss 4"]
    assert lab.delete([run], ANN) == 1
