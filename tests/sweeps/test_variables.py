"""The table of variables: every row varies something, and who offers a choice reads the table."""

import re
import shutil
import sys

import pytest
from streamlit.testing.v1 import AppTest

from spmd_core import __main__ as command_line
from spmd_core.base import RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.facts import Estimate, PredictedMemory, Prediction
from spmd_core.results import StrategyResult
from spmd_core.surveys import sweep_headline
from spmd_core.sweeps import parse_sweep, variants
from spmd_core.sweeps.curves import csv_text, curves, outcome_of
from spmd_core.sweeps.variables import FIRST, VARIABLES, Variable, read_number
from spmd_core.workloads import DEFAULT_SPEC
from spmd_lab.ui.predict.sweep_charts import charts_of
from tests.house import tables

MODEL = parse_experiment(DEFAULT_SPEC)
WIDE = parse_experiment(
    {
        **DEFAULT_SPEC,
        "target": "tpu:v5p:4x4x4",
        "mesh": {"fsdp": 16, "tensor": 4},
        "dims": {"batch": 384, "sequence": 2048},
    }
)
LAYER = parse_experiment(
    {
        "workload": "layer",
        "target": "tpu:v5e:4x4",
        "mesh": {"x": 8, "y": 2},
        "strategies": ["auto"],
        "dims": {"batch": 8192, "in": 64, "out": 32},
        "sharding": {"batch": "x", "out": "y"},
    }
)
BASES = {"model": MODEL, "with tensor": WIDE, "layer": LAYER}


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
@pytest.mark.parametrize("name", VARIABLES)
def test_every_value_gives_an_experiment_of_its_own_or_says_why_not(name, base):
    """A row that forgot to vary would give the same experiment at every point, silently."""
    variable = VARIABLES[name]
    for text in (variable.example, variable.text_of(variable.default(base))):
        points = variants(parse_sweep(base, f"{name}={text}"))
        found = [point.experiment.id for point in points if point.experiment]
        assert len(set(found)) == len(found)
        assert all(point.refusal for point in points if point.experiment is None)
    able = variable.needs in (None, *base.sizes)
    assert len(found) == (len(points) if able else 0), [point.refusal for point in points]


@pytest.mark.parametrize("name", VARIABLES)
def test_a_row_has_all_that_is_said_of_it(name):
    row = VARIABLES[name]
    assert row.name == name and all((row.title, row.example, row.help, row.also, row.axis(MODEL)))
    assert FIRST in VARIABLES


def test_the_docs_have_the_table(monkeypatch, tmp_path):
    assert tables.outdated() == []  # else: python -m tests.house.tables
    copy = tmp_path / "docs" / "scaling.md"
    shutil.copytree(tables.ROOT / "docs", copy.parent)
    monkeypatch.setitem(VARIABLES, "depth", DEPTH)
    assert tables.outdated(write=True, root=tmp_path) == ["docs/scaling.md"]
    assert "| `depth` | `8,16,32` | the layers alone |\n\n" in copy.read_text("utf-8")


# A new one ---------------------------------------------------------------------------------------

DEPTH = Variable(
    name="depth",
    title="Depth",
    axis=lambda base: "layers of the model",
    example="8,16,32",
    also="the layers alone",
    help="Layers of the model, with commas between them",
    parse=lambda text: read_number("depth", text),
    default=lambda base: (8, 16),
    needs="sequence",
    vary=lambda base, value, scaling: {"dims": base.sizes | {"layers": value}},
)


@pytest.fixture
def depth(monkeypatch) -> Variable:
    monkeypatch.setitem(VARIABLES, "depth", DEPTH)
    return DEPTH


def test_one_row_adds_a_variable_to_the_command_line(depth, capsys, monkeypatch):
    for name in ("predict", "predict_arguments", "predict_sweep"):  # which read the table
        monkeypatch.delitem(sys.modules, f"spmd_core.commands.{name}", raising=False)
        monkeypatch.delattr(f"spmd_core.commands.{name}", raising=False)
    with pytest.raises(SystemExit):
        command_line.main(["predict", "--help"])
    assert re.search(r"generation,\s+chips,(\s+\S+,)*\s+depth", capsys.readouterr().out)
    command = [
        "predict",
        "--target",
        "tpu:v5e:4x4",
        "--model",
        "llama-2-7b",
        "--mesh",
        "fsdp=16",
        "--batch-per-device",
        "1",
        "--sweep",
        "depth=8,x",
        "--estimate",
    ]
    assert command_line.main(command) == 2
    assert "depth='x' is not a size: write for example 8,16,32" in capsys.readouterr().err
    assert command_line.main([*command[:-2], "depth=8,16", "--estimate"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    table = [line[0] for line in lines if line and line[0] != "note:"]
    assert table[-3:] == ["Layers", "8", "16"]


def test_one_row_adds_a_variable_to_the_curves_and_words(depth):
    sweep = parse_sweep(MODEL, "depth=8,32")
    points = variants(sweep)
    assert [point.experiment.sizes["layers"] for point in points] == [8, 32]
    assert points[0].experiment.id != points[1].experiment.id
    rows = curves(points, [_predicted(1.0), _predicted(2.0)])
    spec = charts_of(sweep, rows)["Time of a step"]
    assert spec["encoding"]["x"]["title"] == "layers of the model"
    assert sweep_headline(sweep, rows).startswith("From 8 to 32 layers of the model")
    assert csv_text(rows).splitlines()[2].startswith("32,predicted")


def _predicted(step_s: float):
    memory = PredictedMemory(peak=2**30, capacity=2**34)
    time = Estimate(low=0.8 * step_s, estimate=step_s, high=1.25 * step_s)
    found = Prediction(
        fits=True,
        memory_bytes=memory,
        predicted_s=time,
        mfu=0.5 / step_s,
        tflops_per_chip=100 / step_s,
        tokens_per_s_per_chip=1e3,
        binds="compute",
    )
    return outcome_of("run", StrategyResult(status="ok", prediction=found))


def test_one_row_adds_a_variable_to_the_screen(depth, tmp_path, monkeypatch):
    from spmd_lab.ui.predict import compiling
    from tests.standin_lab import StandInLab

    monkeypatch.setattr(compiling, "lab", lambda: StandInLab(tmp_path))

    def script():
        from spmd_lab.ui.predict import sweep as view
        from tests.sweeps.test_variables import MODEL

        view.show(MODEL)

    test = AppTest.from_function(script, default_timeout=30).run()
    assert test.selectbox[0].options[-1] == "Depth"
    test.selectbox[0].select("depth").run()
    assert test.text_input[0].value == "8,16" and test.text_input[0].help == DEPTH.help
    labels = test.table[0].value["Layers of the model"]
    assert [label.partition("(")[0] for label in labels] == ["[8]", "[16]"]
    assert test.query_params["sweep"] == "depth=8,16"


def test_the_screen_offers_what_there_is_to_vary(tmp_path, monkeypatch):
    from spmd_lab.ui.predict import compiling
    from tests.standin_lab import StandInLab

    monkeypatch.setattr(compiling, "lab", lambda: StandInLab(tmp_path))

    def script():
        from spmd_lab.ui.predict import sweep as view
        from tests.sweeps.test_variables import LAYER

        view.show(LAYER)

    test = AppTest.from_function(script, default_timeout=30).run()
    able = [row.title for row in VARIABLES.values() if row.needs in (None, *LAYER.sizes)]
    assert test.selectbox[0].options == able and "Sequence" not in able
    linked = AppTest.from_function(script, default_timeout=30)
    linked.query_params["sweep"] = "sequence=128"
    assert linked.run().selectbox[0].value == "sequence"
    assert "has no dim 'sequence' here" in "\n".join(each.value for each in linked.caption)


# Values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("chips=8, x, 32", "chips='x' is not a size: write for example 8,64,512,4096"),
        ("sequence=64k", "sequence='64k' has a suffix that may mean either: write 65536 or 64000"),
        ("batch-per-device=1.5K", "write 1536 or 1500"),
        ("chips=4,096", "chips='096' is not a size: write thousands without a comma, as in 8,64"),
        ("chips=8;64", "chips='8;64' is not a size"),
        ("sequence=0", "sequence='0' is not a size"),
        ("mesh=fsdp=64k", "mesh axis fsdp='64k' has a suffix that may mean either"),
    ],
)
def test_a_value_that_is_none_is_refused_in_clear_words(text, words):
    with pytest.raises(RequestError) as caught:
        parse_sweep(MODEL, text)
    assert words in str(caught.value)


def test_values_are_read_as_people_write_them():
    assert parse_sweep(MODEL, "chips= 8 , 64,, 1_024,").values == (8, 64, 1024)
    assert parse_sweep(MODEL, "Batch_per_device=0.5,2.0").text == "batch-per-device=0.5,2"


def test_labels_separate_thousands():
    row = VARIABLES["chips"]
    assert (row.label_of(4096), row.label_of(0.25), row.label_of("v5e")) == ("4,096", "0.25", "v5e")
