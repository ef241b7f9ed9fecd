"""Runs of several programs beside one another: two programs are not one experiment."""

import jax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from bench.exported import written
from bench.values import result, strategy
from spmd_core.advice import run_findings
from spmd_core.answers import ProgramRow, programs_table, programs_words
from spmd_core.base import numbered
from spmd_core.experiment import parse_experiment
from spmd_core.history import difference_rows
from spmd_core.lab import Lab
from spmd_core.reports import (
    Subject,
    compare_runs,
    comparison_json,
    findings_points,
    plain_text,
    report_document,
    run_document,
)
from spmd_core.reports.comparison import is_program
from spmd_core.reports.comparison_document import comparison_document
from spmd_core.results import StrategyResult
from spmd_core.terms import dtype_words
from spmd_core.workloads import programs
from spmd_lab.ui.markdown import plain
from tests.example_program import FILE as EXAMPLE
from tests.ui import opened
from tests.ui.predictions import store

pytestmark = pytest.mark.usefixtures("read_here")
ONE, OTHER = "20260101-000000-aaaaaa", "20260101-000001-bbbbbb"
MINE = """from spmd_core.declare import workload


@workload(operands={{"x": ("rows",)}}, results={{"y": ("rows",)}}, defaults={{"rows": 8}})
def mine(x):
    return {factor} * x
"""
STRUCT = jax.ShapeDtypeStruct((64, 64), "float32")


@pytest.fixture(scope="module")
def files():
    """A product of two matrices, and a product of three."""
    arguments = {"x": STRUCT, "w": STRUCT}
    return [written(f, arguments) for f in (lambda x, w: x @ w, lambda x, w: (x @ w) @ w)]


def of(data, **changes):
    program = programs.take(data).program
    spec = {"workload": "program_file", "program": program, "mesh": {"x": 8}, "target": "cpu:8"}
    return parse_experiment(spec | changes)


def measured(count, peak, **rest):
    collective = {"kind": "all-reduce", "axes": ["x"], "bytes": 2**20, "count": count}
    collective |= {"group_size": 8}
    return strategy(1e-5, collectives=[collective], memory_bytes={"peak": peak}, **rest)


def compared(data_folder, one, other):
    lab = Lab.open(data_folder, serve=False)
    for run, (experiment, outcome) in {ONE: one, OTHER: other}.items():
        store(data_folder, result({"auto": outcome}, run=run, experiment=experiment))
    stored = {each.run: each for each in lab.history()}
    return compare_runs([Subject(stored[run], lab.result(run)) for run in (ONE, OTHER)])


def test_two_programs_differ_and_what_they_compile_to_is_said(data_folder, files):
    one, other = of(files[0]), of(files[1])
    assert [label for label, _ in difference_rows([one, other])] == ["program"]
    found = compared(data_folder, (one, measured(2, 2**20)), (other, measured(5, 3 * 2**20)))
    said = comparison_json(found)["sentences"]
    names = [each.exported.described.name for each in (other, one)]
    assert said[-1] == (
        f"{' runs another program than '.join(names)}: 3 more collectives run, 5.2 MiB more sent, "
        "2.0 MiB more memory, 2× the FLOPs."
    )
    assert "different programs" in found.answers[0].apart
    text = plain_text(comparison_document(found))
    assert said[-1] in " ".join(text.split()) and "same experiment" not in text
    table = programs_table(found.programs)
    assert [cell.value for cell in table.column("FLOPs")] == [2 * 64**3, 4 * 64**3]
    assert [cell.value for cell in table.column("Collectives run")] == [2, 5]


def test_one_program_on_two_meshes_is_the_same_program(data_folder, files):
    one, other = of(files[0]), of(files[0], mesh={"x": 4, "y": 2})
    found = compared(data_folder, (one, measured(2, 1)), (other, measured(2, 1)))
    said = comparison_json(found)["sentences"]
    assert said[-1] == f"x=4 y=2 runs the same program as x=8 (“{one.exported.described.name}”)."
    assert not programs_table(found.programs).rows
    assert not found.answers[0].apart


def test_the_specs_that_two_programs_have_differ_not_those_given_in_place_of_them():
    """One was given what the other has in its file; what differs is named, the largest first."""
    mesh = jax.sharding.AbstractMesh((8,), ("x",))

    def exported(**specs):
        sizes = {"small": (64, 64), "large": (64, 128), "other": (64, 64)}
        arguments = {
            name: jax.ShapeDtypeStruct(
                size, "float32", sharding=NamedSharding(mesh, PartitionSpec(*specs.get(name, ())))
            )
            for name, size in sizes.items()
        }
        return of(written(lambda small, large, other: small @ other @ large, arguments), **changes)

    changes = {"specs": {"small": [None, "x"]}}
    one = exported(large=(None, "x"))
    changes = {}
    other = exported(small=(None, "x"), large=("x",), other=("x",))
    rows = dict(difference_rows([one, other]))
    assert list(rows) == ["program", "spec of large", "spec of other"]
    assert rows["spec of large"] == ["P(None, 'x')", "P('x', None)"]
    assert rows["spec of other"] == ["replicated", "P('x', None)"]
    assert dtype_words(one) == "float32"


def test_what_two_programs_donate_differs():
    trees = {"params": {"w": STRUCT, "v": STRUCT}, "mom": {"w": STRUCT}, "x": STRUCT}

    def step(params, mom, x):
        moved = {name: each - mom["w"] for name, each in params.items()}
        return moved, {"w": mom["w"] + x @ x}

    files = [written(step, trees, donated=names) for names in ((), ("params", "mom"))]
    rows = dict(difference_rows([of(each) for each in files]))
    assert rows["donated"] == ["none", "params, mom"]
    assert "donated" not in dict(difference_rows([of(files[0]), of(files[0], mesh={"x": 4})]))


def test_programs_are_called_as_their_runs(files):
    experiments = [of(each) for each in files]
    rows = [ProgramRow(each.exported.described.name, each, None) for each in experiments]
    (said,) = programs_words(rows, rows[0].called)
    start = f"{rows[1].called} runs another program than {rows[0].called}"
    assert said.startswith(start), "each is named once"


def test_specs_of_a_program_are_a_difference(files):
    one, other = of(files[0]), of(files[0], specs={"w": [None, "x"]})
    assert one.id != other.id
    assert [label for label, _ in difference_rows([one, other])] == ["spec of w"]


def test_another_version_of_an_own_function_is_named(tmp_path, monkeypatch):
    from spmd_core.workloads.own import files as own

    path = tmp_path / "mine.py"
    monkeypatch.setenv(own.VARIABLE, str(path))
    rows = []
    for letter, factor in (("A", "1"), ("B", "2")):
        path.write_text(MINE.format(factor=factor))
        experiment = parse_experiment({"workload": "mine", "target": "cpu:8", "mesh": {"x": 8}})
        assert is_program(experiment)
        matmul = {"kind": "matmul", "sizes": [8, 16, 32], "count": 1}
        outcome = measured(2, 1, operations=[matmul])
        rows.append(ProgramRow(letter, experiment, StrategyResult.model_validate(outcome)))
    (said,) = programs_words(rows, "A")
    assert said.startswith("B runs another version (“mine”, version ")
    assert said.endswith(" of its file) than A, alike in all that is known of both.")
    assert rows[0].flops == 8 * 2 * 8 * 16 * 32


@pytest.fixture
def wrong(data_folder):
    """A run of the example program, whose author replicated what is to be sharded."""
    program = programs.take(EXAMPLE.read_bytes())
    spec = {"workload": "program_file", "program": program.program, "target": "cpu:8"}
    experiment = parse_experiment(spec | {"mesh": dict(program.mesh)})
    store(data_folder, result({"auto": measured(2, 2**20)}, run=ONE, experiment=experiment))
    lab = Lab.open(data_folder, serve=False)
    return lab, Subject(lab.history(runs=[ONE])[0], lab.result(ONE))


@pytest.mark.parametrize("most", [2, 3])
def test_a_report_of_a_program_begins_with_what_is_wrong_with_it(wrong, monkeypatch, most):
    monkeypatch.setattr(run_document, "_MOST_FINDINGS", most)
    _, subject = wrong
    sentences = [each.sentence for each in run_findings(subject.result)]
    text = " ".join(plain_text(report_document([subject])).split())
    more = len(sentences) - most
    assert len(sentences) == 3 and "What is wrong" in text
    assert [each in text for each in sentences] == [True] * most + [False] * more
    assert (f"{numbered(more, 'more finding')}." in text) is bool(more)
    assert text.index(sentences[0]) < text.index("Collectives")


def test_a_page_of_a_program_has_what_is_wrong_with_it(wrong):
    lab, subject = wrong
    page = lab.collections.add_runs(lab.collections.create("Week 47").id, ONE)
    screen = opened("notebook", collection=page.id)
    shown = "\n".join(each.value for each in screen.markdown)
    assert all(f"- {plain(each)}" in shown for each in findings_points(subject.result))


def test_nothing_is_wrong_with_what_is_no_program():
    assert findings_points(result({"auto": strategy(1e-5)})) == []
