"""The Compare screen without a browser: refusals that its fields can bring about, and what they
leave as it was.
"""

import base64
import gc
import textwrap
import weakref
import zlib

import pytest

from bench.hostile_links import code_of
from bench.values import result, strategy
from spmd_core.experiment import encode, parse_experiment
from spmd_core.lab import Lab
from spmd_core.lab.store.store import Store
from spmd_core.pictures import NAME, TRACED, Recorded, of_recorded, to_text
from spmd_core.results import Failure
from spmd_core.words.traces import trace_words
from spmd_core.workloads import files
from spmd_lab.ui.compare import view
from spmd_lab.ui.compare.trace import alone
from tests.pictures.timeline.test_traced import FACTS, call
from tests.pictures.timeline.values import timeline as predicted
from tests.ui import errors, opened, said
from tests.ui.predictions import store
from tests.workloads.own.test_files import WEIGHTED

LAYER = parse_experiment(
    {"workload": "layer", "mesh": {"x": 8}, "target": "cpu:8", "sharding": {"in": "x"}}
)
TABS = (
    "Errors are against a NumPy reference, in float64.",
    "Every sample, in microseconds per call.",
    "8 simulated CPU devices sharing 2 cores, JAX 0.10.2",
)  # each begins what one tab says


@pytest.fixture
def screen(data_folder):
    return opened("compare", experiment=encode(LAYER))


def field(screen, kind, label):
    return next(widget for widget in screen.get(kind) if widget.label == label)


def test_a_spec_that_shards_a_dim_otherwise_is_named_below_the_dims(screen):
    def told():
        assert not screen.exception
        values = [each.value.replace("\\", "") for each in screen.caption]
        return [value for value in values if "a spec of its own" in value]

    assert not told()
    sizes = {"batch": 8, "in": 32, "out": 16}
    own = LAYER.vary(dims=sizes, sharding={"batch": "x"}, overrides={"weights": ["x", None]})
    screen.query_params["experiment"] = encode(own)
    screen.run()
    assert "".join(told()).endswith("With a spec of its own, weights: in over x.")
    assert not [each for each in screen.toggle if each.label == "Spec of its own"]
    screen.session_state["fields:arrays"] = True  # its fields are drawn when it is opened
    screen.run()
    assert "".join(told()).endswith("With a spec of its own, weights: in over x.")
    _, weights, *_ = [each for each in screen.toggle if each.label == "Spec of its own"]
    weights.set_value(False).run()  # without it the table's holds, at once
    assert not told()


def test_the_default_fills_its_devices(data_folder, monkeypatch):
    for target, sizes in (("cpu:8", (8192, 1024)), ("local", (16384, 4096))):
        monkeypatch.setattr(
            "spmd_core.experiment.experiment.default_target", lambda name=target: name
        )
        screen = opened("compare")
        assert (
            field(screen, "number_input", "rows").value,
            field(screen, "number_input", "cols").value,
        ) == sizes
        assert field(screen, "text_input", "Axis 1 name").value == "x"


def test_without_a_strategy_there_is_nothing_to_run(screen):
    field(screen, "button_group", "Strategies").set_value([]).run()
    assert "no strategy is chosen: choose at least one" in errors(screen)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "in=0 is not a size"),
        (-8, "in=-8 is not a size"),
        (30, "in=30 does not divide over mesh"),
    ],
)
def test_sizes_that_are_none(screen, size, words):
    field(screen, "number_input", "in").set_value(size).run()
    assert words in errors(screen)
    assert field(screen, "number_input", "in").value == size
    # Run is off: nothing asks for a press of it
    assert not [each.value for each in screen.caption if "Press Run" in each.value]


def test_too_large_for_memory_is_refused_with_the_bytes_and_the_limit(screen):
    field(screen, "number_input", "in").set_value(10**6)
    field(screen, "number_input", "out").set_value(10**6).run()
    assert errors(screen) == ""
    next(button for button in screen.button if button.label == "Run").click().run()
    assert "TiB" in errors(screen)
    assert field(screen, "number_input", "in").value == 10**6


def test_typing_matmul_offers_both_matrix_products(screen):
    options = field(screen, "selectbox", "Workload").options
    assert len([each for each in options if "matmul" in each]) == 2


def test_a_dtype_that_the_workload_has_not_got_is_not_offered(screen):
    assert "int32" not in field(screen, "selectbox", "dtype").options
    field(screen, "selectbox", "Workload").set_value("contraction").run()
    assert "int32" in field(screen, "selectbox", "dtype").options
    assert errors(screen) == ""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("A" * 10_000_000, ""),  # Streamlit itself drops a query of more than 512 KiB
        ("A" * 500_000, "Link of 500000 characters is longer than 2000"),
        ("1.%00", "is not one of SPMD Lab"),
        ("2.eJyrVgIAAS0Arg", "Link of version 2 cannot be read by this version"),
        (
            "1." + base64.urlsafe_b64encode(zlib.compress(b" " * 10**7)).decode(),
            "inflates to more than 64 KiB",
        ),
    ],
)
def test_junk_as_a_link_is_one_short_sentence_and_the_default_stays(data_folder, code, words):
    screen = opened("compare", experiment=code)
    assert words in errors(screen)
    assert len(errors(screen)) < 300
    assert field(screen, "number_input", "rows").value == 8192


@pytest.mark.parametrize(
    ("query", "drawn"),
    [
        ({"tab": "Machine"}, "8 simulated CPU devices sharing 2 cores, JAX 0.10.2"),
        ({"tab": "Samples"}, "Every sample, in microseconds per call."),
        ({"tab": "Values"}, "Errors are against a NumPy reference, in float64."),
        (
            {"tab": "Details", "detail": "<b>", "strategy": "none", "text": "x" * 3000},
            "Errors are against a NumPy reference, in float64.",
        ),
    ],
)
def test_a_link_opens_its_tab_and_what_it_says_of_no_tab_is_ignored(data_folder, query, drawn):
    stored = result({"auto": strategy(1e-5), "shard_map": strategy(2e-5)})
    store(data_folder, stored)
    screen = opened("compare", run=stored.run, **query)
    assert errors(screen) == ""
    parts = [
        part.value.replace("\\", "").partition(" A row")[0]
        for part in (*screen.caption, *screen.markdown)
    ]
    assert [sentence for sentence in TABS if sentence in parts] == [drawn]


def test_back_to_fields_that_were_run_finds_their_answer(data_folder):
    """The address of these fields as they were before Run was pressed names no run."""
    stored = result({"auto": strategy(1e-5), "shard_map": strategy(2e-5)})
    store(data_folder, stored)
    screen = opened("compare", run=stored.run)
    (answer,) = [each.value for each in screen.subheader if "10\u00a0µs" in each.value]
    before = screen.query_params["experiment"]
    field(screen, "number_input", "in").set_value(64).run()
    assert "run" not in screen.query_params
    screen.query_params["experiment"] = before
    screen.run()
    assert answer in [each.value for each in screen.subheader]
    assert screen.query_params["run"] == stored.run


def test_a_cancelled_run_without_a_result_leads_to_the_last_answer(data_folder):
    stored = result({"auto": strategy(1e-5), "shard_map": strategy(2e-5)})
    store(data_folder, stored)
    place, cancelled = Store(data_folder), "20260101-000003-dddddd"
    place.submit(cancelled, stored.experiment)
    place.finish(cancelled, "cancelled")
    place.close()
    screen = opened("compare", run=cancelled)
    assert any("This run was cancelled" in each.value for each in screen.warning)
    (last,) = [
        each.proto for each in screen.get("page_link") if "Open the last" in each.proto.label
    ]
    assert stored.run in last.query_string
    (run,) = [each for each in screen.button if each.key == "run"]
    assert run.proto.type == "primary"


def test_a_traced_step_stands_first_and_an_untraced_run_can_be_traced(data_folder):
    timeline, trace = of_recorded(Recorded(call(), ()), FACTS)
    trace = trace.model_copy(update={"sentence": trace_words(trace)})
    stored = result({"auto": strategy(1e-5, trace=trace.model_dump())})
    store(data_folder, stored, {"auto": {TRACED: to_text(timeline), NAME: to_text(predicted())}})
    plain = result({"auto": strategy(1e-5)}, run="20260101-000000-aaaaaa")
    store(data_folder, plain)
    screen = opened("compare", run=stored.run)
    assert errors(screen) == ""
    assert next(tab.label for tab in screen.tabs if tab.children) == "Why"
    assert any(
        "Step 5 s: 3 s compute, 1 s collectives (1 s exposed)" in part.value.replace("\\", "")
        for part in screen.markdown
    )
    captions = [part.value for part in screen.caption]
    assert captions.index("Predicted, by the cost model:") < captions.index(
        "Traced on the devices:"
    )
    tables = {frame.value.columns[0]: frame.value for frame in screen.table}
    devices, operations = tables["Device"], tables["Operation"]
    assert list(devices["Waiting for devices"]) == ["2\u00a0s", "0\u00a0s"]
    assert {each.replace("\\", "") for each in operations["Operation"]} == {
        "up matmul",
        "down all-reduce",
        "waits for devices at all-reduce",
    }
    assert not screen.dataframe  # instructions, sources and devices are drawn for who opens them
    screen.query_params["run"] = plain.run
    screen.query_params["tab"] = "Trace"
    screen.run()
    assert "Trace a step" in [button.label for button in screen.button]


def test_a_trace_of_an_untraced_run_leaves_its_result_and_is_that_of_the_last_that_traced(
    data_folder,
):
    timeline, trace = of_recorded(Recorded(call(), ()), FACTS)
    plain = result({"auto": strategy(1e-5)}, run="20260101-000000-aaaaaa")
    store(data_folder, plain)
    apart = result(
        {"auto": strategy(9e-3, trace=trace.model_dump())},
        run="20260101-000001-bbbbbb",
        experiment=alone(plain.experiment),
    )
    store(data_folder, apart, {"auto": {TRACED: to_text(timeline)}})
    screen = opened("compare", run=plain.run, tab="Trace")
    assert errors(screen) == "" and "Trace a step" not in [each.label for each in screen.button]
    assert "Step 5 s: 3 s compute" in said(screen).replace("\\", "")
    assert "the median without it is 10 µs" in said(screen).replace("\\", ""), "of this run"
    assert {alone(apart.experiment), alone(plain.experiment)} == {apart.experiment}


def test_a_trace_that_failed_is_reported_beside_the_button(data_folder):
    plain = result({"auto": strategy(1e-5)})
    store(data_folder, plain)
    place, failed = Store(data_folder), "20260101-000002-cccccc"
    place.submit(failed, alone(plain.experiment), batch="search traces")
    place.finish(failed, "failed", error=Failure(kind="RuntimeError", message="no profiler"))
    place.close()
    screen = opened("compare", run=plain.run, tab="Trace")
    assert errors(screen) == "This run failed." and "no profiler" in [
        each.value for each in screen.code
    ]
    assert "Trace a step" in [each.label for each in screen.button]


@pytest.mark.parametrize(
    ("spec", "words", "size"),
    [
        ({"sharding": {"in": "z"}, "mesh": {"x": 8}}, "is not in the mesh", None),
        ({"mesh": {"x": 16}}, "is larger than target cpu:8 with 8", 16),  # shown as it is
    ],
)
def test_a_link_that_does_not_fit_offers_the_nearest_experiment(data_folder, spec, words, size):
    other = {"workload": "layer", "target": "cpu:8", "dims": {"in": 48, "out": 4}}
    screen = opened("compare", experiment=code_of(other | spec))
    assert words in errors(screen)
    assert size is None or field(screen, "number_input", "Axis 1 size").value == size
    next(
        button for button in screen.button if button.label == "Use the nearest experiment"
    ).click().run()
    assert errors(screen) == "" and Lab.open().history() == ()  # nothing is computed
    assert (
        field(screen, "number_input", "in").value,
        field(screen, "number_input", "Axis 1 size").value,
    ) == (48, 8)


def test_a_workload_of_the_user_s_own_is_chosen_and_a_file_that_does_not_load_is_named(
    tmp_path, data_folder, monkeypatch
):
    good, bad = tmp_path / "weighted.py", tmp_path / "broken.py"
    good.write_text(textwrap.dedent(WEIGHTED))
    bad.write_text("def f(:\n")
    monkeypatch.setenv(files.VARIABLE, f"{good}:{bad}")
    assert len(files.problems()) == 1  # both are loaded
    screen = opened("compare")
    assert "broken.py does not load: line 1 (SyntaxError: invalid syntax)" in " ".join(
        each.value.replace("\\", "") for each in (*screen.warning, *screen.error)
    )
    field(screen, "selectbox", "Workload").set_value("weighted").run()
    assert not screen.exception
    assert any(
        "y = weighted(x, w)" in each.value.replace("\\", "")
        for each in (*screen.caption, *screen.markdown, *screen.code)
    )


def test_what_a_session_keeps_of_a_result_is_its_id(data_folder):
    """Streamlit keeps a session, its widgets and what these were given for minutes after its end."""
    collective = {
        "kind": "all-reduce",
        "axes": ["x"],
        "bytes": 512,
        "count": 1,
        "source": "layer_auto.py:7",
    }
    stored = result({"auto": strategy(1e-5, collectives=[collective])})
    store(data_folder, stored)
    screen = opened("compare", run=stored.run)
    assert errors(screen) == ""
    screen.query_params["tab"] = "Communication"  # as links of before had it
    screen.run()
    assert any("Line 7" in button.label for button in screen.button)
    table = weakref.ref(view.view(stored.run).times_table)
    view.forget()
    gc.collect()
    assert table() is None
