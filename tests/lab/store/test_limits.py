"""What viewers may take: queue lengths, bytes stored, compiler flags; and that the file shrinks."""

from dataclasses import replace

import pytest

from spmd_core.base.errors import RequestError
from spmd_core.base.settings import read_settings
from spmd_core.experiment.experiment import parse_experiment
from spmd_core.experiment.link import check_flags, decode, encode, nearest
from spmd_core.experiment.plan.flags import LINK_FLAGS, PUBLISHED_FLAGS, link_refusal
from spmd_core.experiment.plan.reading import parse_mesh
from spmd_core.experiment.workloads.decoder import DEFAULT_SPEC
from spmd_core.lab.lab import Lab
from spmd_core.lab.store.limits import Asker
from spmd_core.lab.store.store import Store
from tests.labs import HASTY, experiment


@pytest.fixture
def open_lab(data_folder):
    """Labs that work no queue: what is submitted stays queued."""
    labs = []

    def opened(**changes):
        labs.append(Lab.open(data_folder, serve=False, settings=replace(HASTY, **changes)))
        labs[-1]._is_wanted = lambda: False
        labs[-1]._supervisor._is_wanted = lambda: False
        return labs[-1]

    yield opened
    for lab in labs:
        lab.close()


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
        "4 of 4 runs are queued or at work, 2 of the 2 that one viewer may ask for are yours"
    )
    lab.submit(experiment())
    assert lab.cancel_all("ann") == 2
    assert lab.room("ann").own == 0
    assert lab.room("bob").own == 2


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
