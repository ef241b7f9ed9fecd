"""What viewers may take: queue lengths, bytes stored, compiler flags; and that the file shrinks."""

import json
import time
from dataclasses import replace

import pytest

from spmd_core.__main__ import main
from spmd_core.base import RequestError, read_settings
from spmd_core.experiment import parse_experiment
from spmd_core.experiment.link import decode, encode
from spmd_core.experiment.nearest import nearest
from spmd_core.experiment.plans import check_flags
from spmd_core.lab import Asker, Lab
from spmd_core.lab.store import labels as actions
from spmd_core.lab.store.store import Store
from spmd_core.plan.flags import LINK_FLAGS, PUBLISHED_FLAGS, link_refusal
from spmd_core.workloads import DEFAULT_SPEC, parse_mesh
from tests.labs import HASTY, experiment


@pytest.fixture
def open_lab(data_folder):
    """Labs that work no queue: what is submitted stays queued."""

    def opened(**changes):
        lab = Lab.open(data_folder, serve=False, settings=replace(HASTY, **changes))
        lab._is_wanted = lab._supervisor._is_wanted = lambda: False
        return lab

    return opened


def test_a_viewer_and_all_viewers_have_so_many_runs_and_the_command_line_is_not_limited(open_lab):
    lab = open_lab(queue_most=4, queue_most_of_viewer=2)
    ann, bob, eve = (Asker(name) for name in ("ann", "bob", "eve"))
    for asker in (ann, ann, bob, bob):
        lab.submit(experiment(), asker)
    with pytest.raises(
        RequestError,
        match="2 runs of yours wait or are at work, as many as one "
        "viewer may have here: wait for one, or cancel one on Overview",
    ):
        lab.submit(experiment(), ann)
    with pytest.raises(RequestError, match="4 runs wait or are at work, as many as this server"):
        lab.submit(experiment(), eve)
    assert lab.room("ann").words.startswith(
        "Queued or running: 4 of at most 4 runs; yours: 2 of at most 2. Stored results: "
    )
    lab.submit(experiment())
    assert lab.cancel_all(ann) == 2
    assert lab.room("ann").own == 0
    assert lab.room("bob").own == 2


def test_addresses_are_counted_as_well_as_viewers(open_lab):
    lab = open_lab(queue_most=9, queue_most_of_viewer=2, queue_most_of_address=3, runners=("*",))
    for number in range(3):
        lab.submit(experiment(), Asker(f"without a cookie {number}", address="127.0.0.2"))
    with pytest.raises(
        RequestError,
        match="3 runs of your network address wait or are at work, as many as one address may "
        "have here: try again when one is over",
    ):
        lab.submit(experiment(), Asker("another", address="127.0.0.2"))
    for number in range(4):
        lab.submit(experiment(), Asker(f"by login {number}", is_logged_in=True))
    lab.submit(experiment(), Asker("a user", address="127.0.0.1"))
    assert lab.room("a user", "127.0.0.1").beside == 1


def test_who_may_only_look_changes_nothing(open_lab):
    lab = open_lab(anonymous="viewer", admins=("*",))
    run, eve = lab.submit(experiment()), Asker("eve", address="127.0.0.1")
    ann = Asker("ann", who="ann@example.com", is_logged_in=True)
    for act in (
        lambda who: lab.submit(experiment(1), who),
        lambda who: lab.cancel(run, asker=who),
        lambda who: lab.delete([run], who),
        lambda who: lab.release(who),
        lambda who: lab.take_program(b"", "", who),
        lambda who: lab.delete_program("0" * 64, who),
    ):
        with pytest.raises(RequestError, match="may only look and estimate here"):
            act(eve)
    with pytest.raises(RequestError, match="may only look"):
        lab.probe("cpu:8", asker=eve)
    with pytest.raises(RequestError, match="may only look"):
        lab.allow(eve, "search")
    assert lab.status(run).state == "queued" and lab.actions() == ()
    lab.cancel(run, asker=ann)
    lab.delete([run], ann)
    done = lab.actions()
    assert [(each.who, each.action, each.subject) for each in done] == [
        ("ann@example.com", "delete", run),
        ("ann@example.com", "cancel", run),
    ]


def test_it_is_kept_who_did_what_up_to_a_number(open_lab, monkeypatch, capsys):
    monkeypatch.setattr(actions, "KEPT", 3)
    lab = open_lab()
    bob = Asker("bob", batch="a sweep", address="127.0.0.1", who="127.0.0.1, browser b")
    for seed in range(3):
        lab.submit(experiment(seed), bob)
    lab.submit(experiment())  # the command line
    assert [each.action for each in lab.actions()] == ["submit"], "a sweep is one"
    for _ in range(4):
        lab.release(bob)
    assert [each.action for each in lab.actions()] == ["release"] * 3
    assert 0 <= time.time() - lab.actions()[0].at < 3600
    assert main(["who", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["who"] == "127.0.0.1, browser b"


def test_addresses_and_their_viewers_take_turns(open_lab):
    """Whoever asks for many waits behind whoever asks for one; nobody waits for ever."""
    lab = open_lab(queue_most=99, queue_most_of_viewer=9, queue_most_of_address=99)

    def ask(viewer, address, count=1):
        return [lab.submit(experiment(), Asker(viewer, address=address)) for _ in range(count)]

    def take():
        run = lab._store.next_queued("timing").run
        assert lab.status(run).queue_position == 1
        lab._store.start(run)
        lab._store.finish(run, "succeeded")
        return run

    crowd = [run for number in range(5) for run in ask(f"crowd {number}", "127.0.0.2", 2)]
    assert take() == crowd[0]
    user = ask("user", "127.0.0.1", 2)
    beside = ask("beside", "127.0.0.1")
    assert lab.status(user[0]).queue_position == 1, "its address was never served"
    order = [take() for _ in range(12)]
    assert order[0] == user[0]
    assert order[1] in crowd and order[2] == beside[0] and order[4] == user[1]
    assert [run for run in order if run in crowd][:4] == crowd[2:10:2], "viewers take turns too"
    assert sorted(order) == sorted([*crowd[1:], *user, *beside])


def test_runs_of_one_asker_keep_their_order(open_lab):
    lab = open_lab()
    runs = [lab.submit(experiment(seed)) for seed in range(4)]
    assert [lab.status(run).queue_position for run in runs] == [1, 2, 3, 4]
    assert [status.run for status in lab.active()] == runs


def test_a_sweep_counts_as_one(open_lab):
    lab = open_lab(queue_most=3, queue_most_of_viewer=2)
    for point in range(6):
        lab.submit(experiment(point), Asker("ann", "sweep"))
    lab.submit(experiment(), Asker("ann"))
    assert (lab.room("ann").own, lab.room("ann").queued) == (2, 2)
    with pytest.raises(RequestError, match="2 runs of yours"):
        lab.submit(experiment(), Asker("ann", "another"))
    lab.submit(experiment(9), Asker("ann", "sweep"))


def test_a_full_store_refuses_viewers_and_names_the_oldest(open_lab):
    lab = open_lab(stored_most_bytes=4096)
    runs = [lab.submit(experiment()) for _ in range(3)]
    lab.cancel(runs[0])
    lab.cancel(runs[1])
    with pytest.raises(
        RequestError,
        match=r"fill the 4\.0 KiB that this server allows: delete the "
        "oldest on History",
    ):
        lab.submit(experiment(), Asker("ann"))
    assert lab.oldest_finished(5) == (runs[0], runs[1])


@pytest.mark.parametrize("is_of_before", [False, True])
def test_the_file_shrinks_when_runs_are_deleted(data_folder, is_of_before):
    store = Store(data_folder)
    if is_of_before:
        store._writer.execute("PRAGMA auto_vacuum = NONE")
        store._writer.execute("VACUUM")
    for number in range(4):
        store.submit(f"r{number}", experiment())
        store.start(f"r{number}")
        store.finish(f"r{number}", "failed")
        store._writer.execute("INSERT INTO results VALUES (?, ?)", (f"r{number}", bytes(6_000_000)))
    before, used = store.path.stat().st_size, store.used_bytes()
    assert used > 16e6
    assert store.delete(["r0", "r1", "r2"]) == 3
    assert store.used_bytes() < used / 2
    assert store.path.stat().st_size < before / 2
    store.close()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "SPMD_LAB_COMPILERS",
            "0",
            "SPMD_LAB_COMPILERS='0' is not a whole number above 0: use for "
            "example SPMD_LAB_COMPILERS=2",
        ),
        ("SPMD_LAB_QUEUE", "-1", "SPMD_LAB_QUEUE='-1' is not a whole number above 0"),
        ("SPMD_LAB_STORED_BYTES", "2 GiB", "is not a whole number above 0: use for example"),
    ],
)
def test_limits_come_from_the_environment(name, value, words):
    assert read_settings({"SPMD_LAB_COMPILERS": "3"}).compilers == 3
    assert read_settings({"SPMD_LAB_QUEUE_PER_VIEWER": "3"}).queue_most_of_viewer == 3
    with pytest.raises(RequestError, match=words):
        read_settings({name: value})


# Compiler flags ---------------------------------------------------------------------------------


def model(flags):
    options = dict(DEFAULT_SPEC["options"]) | {"compiler_flags": flags}
    return parse_experiment(DEFAULT_SPEC | {"options": options})


def test_the_table_of_flags_has_a_reason_for_each_and_those_of_published_runs():
    assert all(flag.why for flag in LINK_FLAGS.values())
    assert [flag for flag in PUBLISHED_FLAGS if link_refusal(flag)] == []
    assert not [name for name in LINK_FLAGS if "dump" in name or name.endswith(("_path", "_to"))]


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        (
            "xla_tpu_wait_for_debugger=true",
            "is not one that a link or the browser may set: give it to "
            "the command line, with --compiler-flags or in a spec file",
        ),
        ("xla_tpu_scoped_vmem_limit_kib=true", "use a whole number up to 1,048,576"),
        ("xla_enable_async_all_gather=7", "use true or false"),
    ],
)
def test_other_flags_come_from_no_link_and_no_browser(open_lab, flag, words):
    experiment = model(flag)  # a spec file may have it
    with pytest.raises(RequestError, match=words):
        check_flags(experiment)
    with pytest.raises(RequestError, match=words):
        encode(experiment)
    lab = open_lab()
    with pytest.raises(RequestError, match=words):
        lab.submit(experiment, Asker("ann"))
    assert lab.submit(experiment)
    assert (
        dict(nearest(experiment.to_json() | {"dims": {"batch": 3}}).experiment.options).get(
            "compiler_flags", ""
        )
        == ""
    )


def test_a_link_that_another_version_made_with_such_a_flag_is_refused():
    from bench.hostile_links import code_of

    with pytest.raises(RequestError, match="is not one that a link or the browser may set"):
        decode(code_of(model("xla_tpu_wait_for_debugger=true").to_json()))
    allowed = model("--xla_tpu_scoped_vmem_limit_kib=65536")
    assert decode(encode(allowed)) == allowed


@pytest.mark.parametrize("text", ["=1+1=2", "@x=4", "-x=4", "=2", "fsdp=4,+y=2", "a b=3"])
def test_an_axis_named_like_a_formula_is_refused(text):
    with pytest.raises(RequestError, match="is not a list of axes"):
        parse_mesh(text)
