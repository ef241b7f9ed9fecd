"""Workloads of the user's own: described by a child process, run by the worker, and nothing of
theirs can harm the rest.
"""

import contextlib
import dataclasses
import re
import sys
import textwrap
from pathlib import Path

import pytest

from spmd_core import declare
from spmd_core.base import RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.experiment.nearest import nearest
from spmd_core.machine import read_hardware
from spmd_core.script import program_text
from spmd_core.workloads import files as own, get_workload, workload_names
from tests.commands.calls import told
from tests.cover import whole
from tests.labs import HASTY, ROOT, lab_of_module, until

pytestmark = pytest.mark.slow

PATIENCE_S = 240.0  # a machine with other work beside takes many times as long
QUICK = {"samples": 1, "min_seconds": 0.0}
WEIGHTED = """
    import jax.numpy as jnp

    from spmd_core.declare import workload


    @workload(operands={"x": ("rows", "cols"), "w": ("cols",)}, results={"y": ("rows",)}, defaults={"rows": 16, "cols": 8})
    def weighted(x, w):
        return jnp.tanh(x * w).sum(axis=1)
"""
MORE = """
    from math import pi

    import jax

    from spmd_core import declare

    ROWS_AXES = ()
    print("said while it loads")


    @declare.workload(
        operands={"x": ("rows", "cols")}, results={"mean": ("cols",), "peak": ("cols",)},
        defaults={"rows": 16, "cols": 8}, title="Mean and peak")
    def mean_and_peak(x):
        return pi * x.mean(axis=0), x.max(axis=0)


    def mean_and_peak_shards(x):
        return pi * jax.lax.pmean(x.mean(axis=0), ROWS_AXES), jax.lax.pmax(x.max(axis=0), ROWS_AXES)


    def mean_and_peak_one(x):
        return pi * x.mean(), x.max()
"""
BAD = """
    import os
    import time

    from spmd_core.declare import workload


    @workload(operands={"x": ("rows",)}, results={"y": ("rows",)}, defaults={"rows": 8})
    def wrong_shape(x):
        return x.sum()


    @workload(operands={"x": ("rows",)}, results={"y": ("rows",), "z": ("rows",)}, defaults={"rows": 8})
    def too_few(x):
        return x


    @workload(operands={"x": ("rows",)}, results={"y": ("rows",)}, defaults={"rows": 8})
    def hangs(x):
        while True:
            time.sleep(0.01)


    @workload(operands={"x": ("rows",)}, results={"y": ("rows",)}, defaults={"rows": 8})
    def aborts(x):
        os.abort()


    @workload(operands={"x": ("rows",)}, results={"y": ("rows",)}, defaults={"rows": 8})
    def interrupts(x):
        raise KeyboardInterrupt


    @workload(operands={"x": ("rows",)}, results={"y": ("rows",)}, defaults={"rows": 8})
    def leaves(x):
        raise SystemExit("no more")


    @workload(operands={"x": ("rows",)}, results={"y": ("rows",)}, defaults={"rows": 8})
    def eats(x):
        held = []
        while True:
            held.append(bytearray(b"x") * 2**23)
            time.sleep(0.001)


    @workload(operands={"x": ("rows",)}, results={"y": ("rows",)}, defaults={"rows": 8})
    def raises(x):
        raise KeyError("no such thing")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("own")


@pytest.fixture
def files(folder, monkeypatch):
    """Names files in SPMD_LAB_WORKLOADS, written with these texts."""

    def name(**texts):
        paths = []
        for stem, text in texts.items():
            paths.append(folder / f"{stem}.py")
            text = text and textwrap.dedent(text)
            # what is there already keeps its time, and so is not loaded anew
            if text and not (paths[-1].exists() and paths[-1].read_text() == text):
                paths[-1].write_text(text)
        monkeypatch.setenv(own.VARIABLE, ":".join(map(str, paths)))
        return paths

    return name


lab = lab_of_module(dataclasses.replace(HASTY, run_timeout_s=PATIENCE_S))


def outcome(lab, **spec):
    run = lab.submit(
        parse_experiment({"target": "cpu:8", "mesh": {"x": 8}, "timing": QUICK} | spec)
    )
    return lab.wait(run, PATIENCE_S), lab.result(run)


def test_a_declared_function_is_a_workload_like_any_other(files, lab):
    files(weighted=WEIGHTED)
    what = get_workload("weighted")
    assert (what.title, what.dims, what.defaults, what.contracted) == (
        "Weighted",
        ("rows", "cols"),
        {"rows": 16, "cols": 8},
        ("cols",),
    )
    assert workload_names()[-1] == "weighted"
    status, result = outcome(
        lab, workload="weighted", sharding={"cols": "x"}, strategies=what.strategies
    )
    assert (status.state, set(result.strategies)) == (
        "succeeded",
        {"single", "auto", "constrained", "explicit"},
    )
    for found in result.strategies.values():
        assert (found.error, found.correct) == (None, True)
        assert "compared with the function itself, in float64 on one device" in found.notes
    (sum_,) = result.strategies["auto"].collectives
    text = lab.texts(result.run, "auto")["program"]
    assert (
        sum_.source.startswith("weighted_auto.py:")
        and ".sum(axis=1)" in text.splitlines()[int(sum_.source.split(":")[1]) - 1]
    )
    assert "spmd_core" not in text and "@workload" not in text  # plain JAX


def test_functions_of_the_same_file_add_strategies(files, lab):
    files(more=MORE)
    assert set(get_workload("mean_and_peak").strategies) >= {
        "shard_map",
        "pmap",
        "vmap",
        "pmap(vmap)",
    }
    _, result = outcome(
        lab,
        workload="mean_and_peak",
        sharding={"rows": "x"},
        strategies=["single", "auto", "shard_map"],
    )
    assert {
        name: (found.error, found.correct) for name, found in result.strategies.items()
    } == dict.fromkeys(result.strategies, (None, True))
    assert {one.kind for one in result.strategies["shard_map"].collectives} == {"all-reduce"}
    assert "ROWS_AXES = ('x',)" in lab.texts(result.run, "shard_map")["program"]
    _, result = outcome(
        lab, workload="mean_and_peak", strategies=["vmap", "jit(vmap)", "pmap", "pmap(vmap)"]
    )
    assert {
        name: (found.error, found.correct) for name, found in result.strategies.items()
    } == dict.fromkeys(result.strategies, (None, True))


def test_no_code_of_the_user_runs_in_this_process(files):
    files(more=MORE)
    assert "mean_and_peak" in own.workloads()
    assert "more" not in sys.modules and "spmd_core.workloads.own.describe" not in sys.modules


def test_the_hash_of_the_file_keeps_results_apart(files):
    files(weighted=WEIGHTED)
    first = parse_experiment({"workload": "weighted", "mesh": {"x": 8}})
    files(weighted=WEIGHTED.replace("tanh", "sin").replace('"cols": 8', '"cols": 32'))
    second = parse_experiment({"workload": "weighted", "mesh": {"x": 8}})
    assert first.id != second.id and first.option("source") != second.option("source")
    assert dict(first.dims)["cols"] == 8 and dict(second.dims)["cols"] == 32
    again = parse_experiment(first.to_json())  # an old run stays readable
    assert (
        again == first
        and "tanh" in program_text(again, "auto")
        and "sin" in program_text(second, "auto")
    )
    with pytest.raises(
        RequestError, match="workload weighted was declared by another version of its file"
    ):
        own.check_present(first.what)
    own.check_present(second.what)
    assert own.newer(first.what) == get_workload("weighted") and not own.newer(second.what)
    unknown = first.to_json() | {"options": {"source": "0" * 16}}
    with pytest.raises(
        RequestError,
        match="workload 'weighted' does not exist here in the version 0000000000000000 of its file",
    ):
        parse_experiment(unknown)
    fitted, changes = nearest(unknown, 8)
    assert fitted.option("source") == second.option("source")
    assert changes == (
        "weighted was declared by another version of its file: the one that is here is used.",
    )
    files(weighted="def f(:\n")
    with pytest.raises(RequestError, match=r"is declared by no file .*weighted.py does not load"):
        own.check_present(second.what)
    with pytest.raises(RequestError, match="does not exist"):
        parse_experiment({"workload": "weighted", "mesh": {"x": 8}})
    assert not own.newer(first.what)  # there is none to take


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "def f(:\n    pass\n",
            "broken.py does not load: line 1 (SyntaxError: invalid syntax): correct it, and reload the page",
        ),
        pytest.param(
            "import nothing_of_that_name\n",
            "broken.py does not load: line 1 (ModuleNotFoundError: No module named 'nothing_of_that_name'): correct it, and reload the page",
            marks=whole,
        ),
        (
            "from spmd_core.experiment.workloads.own.declare import workload\n",
            "broken.py does not load: line 1 (ModuleNotFoundError: No module named 'spmd_core.experiment.workloads'): correct it, and reload the page",
        ),
        (
            "x = 1\n",
            "broken.py declares no workload: decorate a function with spmd_core.declare.workload",
        ),
        (
            "import os\nos.abort()\n",
            "broken.py ended the process that loaded it with SIGABRT: correct it, and reload the page",
        ),
        pytest.param(
            "import sys\nsys.exit(3)\n",
            "broken.py does not load: line 2 (SystemExit: 3): correct it, and reload the page",
            marks=whole,
        ),
        (
            "from spmd_core.declare import workload\n\nmesh = 1\n\n\n"
            "@workload(operands={'x': ('rows',)}, results={'y': ('rows',)}, defaults={'rows': 8})\ndef f(x):\n    return x\n",
            "broken.py defines mesh, which the programs of every workload define themselves: give it another name",
        ),
        (
            "import os\nos._exit(3)\n",
            "broken.py ended the process that loaded it with exit status 3: correct it, and reload the page",
        ),
    ],
)
def test_a_file_that_does_not_load_is_named_and_the_rest_goes_on(files, text, sentence):
    files(broken=text, weighted=WEIGHTED)
    assert own.problems() == (sentence,)
    assert "weighted" in workload_names()
    with pytest.raises(RequestError) as caught:
        get_workload("nothing")
    assert sentence in str(caught.value)


def test_a_file_that_eats_memory_while_it_loads_is_ended_and_named(files, monkeypatch):
    free = read_hardware().available_bytes
    assert free
    monkeypatch.setattr("spmd_core.machine.hardware.SHARE", 2**29 / free)
    monkeypatch.setattr("spmd_core.workloads.own.description.LOAD_S", PATIENCE_S)
    files(hungry="eaten = []\nwhile True:\n    eaten.append(bytearray(2**20))\n", weighted=WEIGHTED)
    (sentence,) = own.problems()
    assert re.fullmatch(
        r"hungry\.py took more than 5[\d.]+ MiB of memory, nearly all that was free, while it was "
        r"loaded, and was ended: move what takes memory into the function, or make it smaller",
        sentence,
    )
    assert "weighted" in workload_names()


def test_a_file_that_prints_without_end_is_ended_and_named(files, monkeypatch):
    monkeypatch.setattr("spmd_core.workloads.own.description.LOAD_S", PATIENCE_S)
    files(loud="while True:\n    print('x' * 2**20)\n", weighted=WEIGHTED)
    assert own.problems() == (
        "loud.py printed more than 64.0 MiB while it was loaded, and was ended: print less where "
        "nothing calls it",
    )
    assert "weighted" in workload_names()


def test_a_file_that_hangs_is_given_up(files, monkeypatch):
    # counted from the child's start
    monkeypatch.setattr("spmd_core.workloads.own.description.LOAD_S", 1.5)
    (path,) = files(hanging="while True:\n    pass\n")
    assert own.late(0.0) == ("hanging.py",) and own.problems(wait_s=0.0) == ()
    assert own.problems() == (
        "hanging.py did not load within 1.5 s: move what takes long into the function",
    )
    assert own.late(0.0) == ()
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it may be over by now
            assert str(path).encode() not in process.read_bytes()


def test_a_file_that_is_not_there_is_named(files):
    (path,) = files(absent=None)
    assert own.problems() == (
        f"{path} of SPMD_LAB_WORKLOADS cannot be read: No such file or directory",
    )


@pytest.mark.parametrize(
    ("declaration", "words"),
    [
        (
            "operands={'x': ('rows',)}, results={}, defaults={'rows': 8}",
            "workload f has no operands or no results",
        ),
        (
            "operands={'x': ('rows',)}, results={'x': ('rows',)}, defaults={'rows': 8}",
            "array x of f is both operand and result",
        ),
        (
            "operands={'x': ('rows',)}, results={'y': ('cols',)}, defaults={'rows': 8}",
            "dim 'cols' of y has no default size",
        ),
        (
            "operands={'x': 'rows'}, results={'y': ()}, defaults={'rows': 8}",
            "dims 'rows' of x are not a tuple",
        ),
        (
            "operands={'x': ('rows', 'rows')}, results={'y': ()}, defaults={'rows': 8}",
            "x of f names one dim twice",
        ),
        (
            "operands={'x': ('rows',)}, results={'y': ()}, defaults={'rows': 0}",
            "rows=0 is not a size",
        ),
        (
            "operands={'f': ('rows',)}, results={'y': ()}, defaults={'rows': 8}",
            "name f of f is one that the programs of a workload use themselves",
        ),
        (
            "operands={'mesh': ('rows',)}, results={'y': ()}, defaults={'rows': 8}",
            "name mesh of f is one that the programs",
        ),
        (
            "operands={'x y': ('rows',)}, results={'y': ()}, defaults={'rows': 8}",
            "name 'x y' of f is not a Python name",
        ),
        (
            "operands={'x': ('rows',)}, results={'y': ()}, defaults={'rows': 8}, dtypes=('float8',)",
            "dtype 'float8' of f is not known here",
        ),
        (
            "operands={'x': ('rows',), 'w': ()}, results={'y': ()}, defaults={'rows': 8}",
            "takes 1 arguments and declares 2 operands (x, w)",
        ),
    ],
)
def test_a_declaration_that_does_not_hold_together_is_refused_in_a_sentence(declaration, words):
    """As the child process that loads the file meets it."""

    def f(x):
        return x

    with pytest.raises(RequestError, match=re.escape(words)):
        declare.workload(**eval(f"dict({declaration})"))(f)


def test_the_name_of_another_workload_is_taken(files):
    files(layer=WEIGHTED.replace("def weighted", "def layer"))
    assert own.problems()[0].startswith(
        "layer.py declares a workload that does not hold together (workload layer has the name of "
        "one that comes with SPMD Lab"
    )
    files(one=WEIGHTED, two=WEIGHTED + "    # again\n")
    assert own.problems() == (
        "workload weighted is declared by two files of SPMD_LAB_WORKLOADS: the first one counts",
    )


@pytest.mark.parametrize(
    ("workload", "state", "kind", "words"),
    [
        (
            "wrong_shape",
            "failed",
            "wrong_result",
            "wrong_shape returned shape () for y, which is declared as (rows), here (8,): return that shape",
        ),
        (
            "too_few",
            "failed",
            "wrong_result",
            "too_few returned 1 arrays and declares 2 (y, z): return one for each, in this order",
        ),
        ("raises", "failed", "KeyError", "no such thing"),
        (
            "interrupts",
            "failed",
            "KeyboardInterrupt",
            "interrupts raised KeyboardInterrupt, which ends the process: let it raise an Exception",
        ),
        (
            "leaves",
            "failed",
            "SystemExit",
            "leaves raised SystemExit (no more), which ends the process: let it raise an Exception",
        ),
        (
            "aborts",
            "crashed",
            "WorkerCrashed",
            "correct aborts if it ends the process, or run it again",
        ),
    ],
)
def test_a_function_that_misbehaves_costs_its_own_run(files, lab, workload, state, kind, words):
    files(bad=BAD, weighted=WEIGHTED)
    status, _ = outcome(lab, workload=workload, strategies=["single", "constrained"])
    assert (status.state, status.error.kind) == (state, kind)
    assert words in status.error.message
    assert outcome(lab, workload="weighted", strategies=["single"])[0].state == "succeeded"


def test_a_function_that_eats_memory_is_ended_and_named(files, lab, monkeypatch):
    files(bad=BAD, weighted=WEIGHTED)
    free = read_hardware().available_bytes
    assert free
    # half a GiB is enough of this machine's
    monkeypatch.setattr("spmd_core.machine.hardware.SHARE", 2**29 / free)
    status, _ = outcome(lab, workload="eats", strategies=["single"])
    assert (status.state, status.error.kind) == ("failed", "resource_exhausted")
    assert re.search(r"eats took more than .* of memory.*: correct eats", status.error.message)
    assert outcome(lab, workload="weighted", strategies=["single"])[0].state == "succeeded"


def test_a_function_that_hangs_can_be_cancelled(files, lab):
    files(bad=BAD, weighted=WEIGHTED)
    run = lab.submit(
        parse_experiment(
            {"target": "cpu:8", "mesh": {"x": 8}, "timing": QUICK, "workload": "hangs"}
        )
    )
    until(lambda: lab.status(run).state == "running", PATIENCE_S)
    lab.wait(run, 1)
    lab.cancel(run)
    assert lab.wait(run, PATIENCE_S).state == "cancelled"
    assert outcome(lab, workload="weighted", strategies=["single"])[0].state == "succeeded"


def test_the_example_of_the_docs_works(files, lab):
    (example,) = re.findall(
        r"^```python\n(.*?)^```",
        (ROOT / "docs/workloads.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    assert len([line for line in example.splitlines() if line]) <= 10
    files(readme=example)
    _, result = outcome(
        lab,
        workload="scaled_norm",
        sharding={"cols": "x"},
        strategies=get_workload("scaled_norm").strategies,
    )
    assert {
        name: (found.error, found.correct) for name, found in result.strategies.items()
    } == dict.fromkeys(result.strategies, (None, True))


def test_the_command_line_knows_them_and_says_what_is_wrong(files, data_folder):
    files(broken="def f(:\n", weighted=WEIGHTED)
    spec = '{"workload": "weighted", "mesh": {"x": 8}, "target": "cpu:8", "strategies": ["auto"], "timing": {"samples": 1, "min_seconds": 0}}'

    shown = told("script", "-", stdin=spec)
    assert (
        (shown.returncode, shown.stderr) == (0, "")
        and "def weighted(x, w):" in shown.stdout
        and "@workload" not in shown.stdout
    )
    missing = told("run", "-", stdin=spec.replace("weighted", "absent"))
    assert (
        missing.returncode == 2 and missing.stdout == "" and len(missing.stderr.splitlines()) == 1
    )
    assert (
        "workload 'absent' does not exist (broken.py does not load: line 1 (SyntaxError: invalid syntax)"
        in missing.stderr
    )
