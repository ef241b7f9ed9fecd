import dataclasses
import fcntl

import pytest

from spmd_core.base import RequestError
from spmd_core.own.changed.changes import changes
from spmd_core.own.changed.golden import golden_of, read_golden
from spmd_core.own.expected import goldens
from spmd_core.own.expected.goldens import Goldens
from spmd_core.results import StepArray, StepCollective, StepDescription

pytestmark = [pytest.mark.newer, pytest.mark.fast, pytest.mark.newer_whole]


def array(path, spec=("fsdp", "tensor"), shape=(128, 512), **given):
    size = 4 * shape[0] * shape[1]
    given = {"dtype": "float32", "bytes": size, "bytes_per_device": size, "copies": 1} | given
    return StepArray(path=path, shape=shape, spec=spec, **given)


def gather(line="h = x @ up", **given):
    given = {"kind": "all-gather", "axes": ("fsdp",), "bytes": 4096, "count": 1} | given
    given = {"dtype": "float32", "source": "model.py:3", "function": "loss"} | given
    return StepCollective(line=line, **{"bytes_total": given["bytes"], **given})


LAYERS = tuple(array(f"params/blocks/{at}/up") for at in range(4))
BEFORE = StepDescription(
    schema=1,
    function="train_step",
    versions={"jax": "0.10.2", "jaxlib": "0.10.2", "libtpu": "0.0.4", "spmd-lab": "0.1.0"},
    mesh=(("fsdp", 4), ("tensor", 2)),
    axis_types=("Auto", "Auto"),
    target="cpu",
    collectives=(gather(), gather("y = h @ down", bytes=8192, source="model.py:4")),
    arguments=(*LAYERS, array("params/head", donated=True), array("x", ("fsdp", None))),
    outputs=(),
    findings=(),
    peak_bytes=1000,
    predicted_s=None,
)


def after(**given):
    return BEFORE.model_copy(update=given)


def compared(step, golden=None, **given):
    text = (golden or golden_of(BEFORE, "test_a.py::test_a")).to_text()
    return changes(read_golden(text, "a.toml"), step, "a.toml", **given)


def test_its_text_is_read_back_and_short():
    golden = golden_of(BEFORE, "test_a.py::test_a")
    text = golden.to_text()
    assert read_golden(text, "a.toml") == golden
    rows = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    assert rows == [
        """{ path = "params/blocks/*/up", array = "float32[128,512]", spec = "P('fsdp', 'tensor')", arrays = 4 },""",
        """{ path = "params/head", array = "float32[128,512]", spec = "P('fsdp', 'tensor')", donated = true },""",
        """{ path = "x", array = "float32[128,512]", spec = "P('fsdp', None)" },""",
        """{ kind = "all-gather", axes = ["fsdp"], dtype = "float32", bytes = 4096, function = "loss", line = "h = x @ up", at = "model.py:3" },""",
        """{ kind = "all-gather", axes = ["fsdp"], dtype = "float32", bytes = 8192, function = "loss", line = "y = h @ down", at = "model.py:4" },""",
    ]
    assert 'versions = { jax = "0.10.2", jaxlib = "0.10.2" }' in text
    assert "peak" not in text


@pytest.mark.parametrize("line", ['"\\', "é \U0001f600", "\x7f\x00\t", "a = 'b'", "# { ] ="])
def test_lines_of_any_characters_are_read_back(line):
    golden = golden_of(after(collectives=(gather(line),)), "test_a.py::test_a")
    assert read_golden(golden.to_text(), "a.toml") == golden


def with_argument(at, **given):
    arguments = list(BEFORE.arguments)
    arguments[at] = arguments[at].model_copy(update=given)
    return after(arguments=tuple(arguments))


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (
            with_argument(2, spec=("fsdp", None)),
            "changed: params/blocks/2/up lost its axis \"tensor\" (was P('fsdp', 'tensor'), now P('fsdp', None))",
        ),
        (
            with_argument(5, spec=(("fsdp", "tensor"), None)),
            "changed: x gained the axis \"tensor\" (was P('fsdp', None), now P(('fsdp', 'tensor'), None))",
        ),
        (
            with_argument(5, spec=(None, "fsdp")),
            "changed: x has another spec (was P('fsdp', None), now P(None, 'fsdp'))",
        ),
        (with_argument(4, donated=False), "changed: params/head is not donated any more"),
        (with_argument(5, donated=True), "changed: x is donated, and was not"),
        (
            with_argument(5, dtype="bfloat16"),
            "changed: x was float32[128,512], now bfloat16[128,512]",
        ),
        (
            after(arguments=BEFORE.arguments[1:]),
            "changed: params/blocks/*/up was 4 arrays, now 3",
        ),
        (
            after(arguments=BEFORE.arguments[:-1]),
            "gone: argument x float32[128,512] P('fsdp', None)",
        ),
        (
            after(collectives=(*BEFORE.collectives, gather("z = w", axes=("tensor",)))),
            "new: all-gather over tensor, 4.0 KiB a step, float32, model.py:3  z = w, in loss",
        ),
        (
            after(collectives=(gather(bytes=5000), BEFORE.collectives[1])),
            "changed: all-gather over fsdp, 4.9 KiB a step (was 4.0 KiB of float32), float32, "
            "model.py:3  h = x @ up, in loss",
        ),
        (
            after(collectives=BEFORE.collectives[:1]),
            "gone: all-gather over fsdp, 8.0 KiB a step, float32, model.py:4  y = h @ down",
        ),
        (
            after(axis_types=("Explicit", "Auto")),
            "changed: axis types were Auto, Auto, now Explicit, Auto",
        ),
    ],
)
def test_a_change_is_a_review_comment(step, sentence):
    assert compared(step).changed == (sentence,)


def test_arrays_of_several_arguments_that_changed_alike_are_named_by_their_beginnings():
    held = (*LAYERS, array("state/mu/up"), array("state/nu/up"), array("head"))
    golden = golden_of(after(arguments=held), "test_a.py::test_a")
    donated = tuple(each.model_copy(update={"donated": True}) for each in held)
    (sentence,) = compared(after(arguments=donated), golden).changed
    assert sentence == "changed: params/**, state/**, head (7 arrays) is donated, and was not"


def test_a_spec_that_one_jax_does_not_know_is_no_change():
    golden = golden_of(after(outputs=(array("up", None),)), "test_a.py::test_a")
    assert compared(after(outputs=(array("up"),)), golden).changed == ()


def test_a_new_collective_has_the_change_of_the_argument_that_its_reason_names():
    reason = "`params/head` is stored sharded over tensor"
    arguments = (*LAYERS, array("params/head", ("fsdp", None)), array("x", (None, None)))
    step = after(
        collectives=(*BEFORE.collectives, gather("z = w", axes=("tensor",), reason=reason)),
        arguments=arguments,
    )
    assert [line for line in compared(step).changed if line.startswith("new")] == [
        "new: all-gather over tensor, 4.0 KiB a step, float32, model.py:3  z = w, in loss, since "
        "params/head lost its axis \"tensor\" (was P('fsdp', 'tensor'), now P('fsdp', None))"
    ]


def test_other_names_and_lines_are_no_change():
    moved = (
        gather("hidden = x @ up", source="model.py:30", function="Model.loss"),
        gather("y = h @ down", bytes=6144, source="model.py:4"),
        gather("+ z", bytes=2048, source="model.py:5"),
    )
    arguments = tuple(
        each.model_copy(update={"path": each.path.replace("params", "state")})
        for each in BEFORE.arguments
    )
    difference = compared(after(collectives=moved, arguments=arguments))
    assert difference.changed == ()
    assert set(difference.renamed) == {
        "renamed: params -> state",
        "moved: all-gather over fsdp, h = x @ up -> hidden = x @ up",
    }


def test_a_renamed_argument_that_lost_an_axis_is_a_change():
    arguments = (*BEFORE.arguments[:4], array("state/head", ("fsdp", None)), BEFORE.arguments[5])
    difference = compared(after(arguments=arguments))
    assert difference.changed == (
        'changed: state/head (was params/head) lost its axis "tensor" '
        "(was P('fsdp', 'tensor'), now P('fsdp', None))",
        "changed: state/head (was params/head) is not donated any more",
    )
    assert difference.renamed == ("renamed: params -> state",)


def test_other_sizes_are_no_change_of_kinds_and_axes():
    step = after(
        collectives=tuple(
            each.model_copy(update={"bytes_total": 1}) for each in BEFORE.collectives
        ),
        arguments=tuple(each.model_copy(update={"shape": (8, 8)}) for each in BEFORE.arguments[2:]),
    )
    assert len(compared(step).changed) == 4
    assert compared(step, compare=("kind", "axes")).changed == ()
    lost = with_argument(5, spec=(None, None))
    assert len(compared(lost, compare=("kind", "axes")).changed) == 1


def test_peaks_are_of_one_target_and_compiler():
    golden = golden_of(BEFORE, "a", "tpu:v5e:4x4")
    grown = after(peak_bytes=2000)
    assert compared(grown, golden).changed == (
        "changed: peak on tpu:v5e:4x4 was 1,000 B, now 2.0 KiB a device",
    )
    other = after(peak_bytes=2000, versions=BEFORE.versions | {"libtpu": "0.0.5"})
    assert compared(other, golden).changed == ()
    assert compared(grown).changed == ()


def files(folder, test="test_a.py::test_a", is_updating=False):
    return Goldens(folder, test, is_updating, lambda words: None)


def test_a_golden_is_written_once_and_compared(tmp_path):
    notes = []
    written = dataclasses.replace(files(tmp_path, is_updating=True), note=notes.append)
    for _ in range(2):
        written.compared(BEFORE, "", None, ("kind",))
    assert len(notes) == 1
    path = tmp_path / "test_a.test_a.toml"
    assert files(tmp_path).compared(BEFORE, "", None, ("kind",))[1].changed == ()
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "is not there: run `pytest --spmd-update`"),
        ("<<<<<<< mine\n", "has the conflict marks of a merge (line 1): resolve them, or run"),
        ("schema = 2\n", "has schema 2, and this SPMD Lab reads 1: use the SPMD Lab that wrote it"),
        ("schema = 1\n", "cannot be read ("),
        ("schema =", "cannot be read ("),
        (b"\xff", "cannot be read ("),
    ],
)
def test_a_golden_that_cannot_be_compared_is_one_sentence(tmp_path, text, sentence):
    if text is not None:
        (tmp_path / "test_a.test_a.toml").write_bytes(
            text if isinstance(text, bytes) else text.encode()
        )
    with pytest.raises(RequestError) as error:
        files(tmp_path).compared(BEFORE, "", None, ("kind",))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_another_mesh_target_or_field_is_one_sentence(tmp_path):
    with pytest.raises(RequestError, match=r"golden a.toml is of mesh fsdp=4, tensor=2, and this step has fsdp=8"):  # fmt: skip
        compared(after(mesh=(("fsdp", 8),)))
    with pytest.raises(RequestError, match="compare='line' is no field of a golden: use kind"):
        compared(BEFORE, compare=("line",))
    files(tmp_path, "a/test_a.py::test_a", True).compared(BEFORE, "", None, ("kind",))
    with pytest.raises(RequestError, match=r"is of a/test_a.py::test_a, and this is b/test_a.py"):
        files(tmp_path, "b/test_a.py::test_a").compared(BEFORE, "", None, ("kind",))


def test_a_golden_that_another_process_writes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(goldens.tempfile, "tempdir", str(tmp_path))
    updating = files(tmp_path / "goldens", is_updating=True)
    updating.compared(BEFORE, "", None, ("kind",))
    (lock,) = tmp_path.glob("*.lock")
    with open(lock) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RequestError, match="is written by another process"):
            updating.compared(BEFORE, "", None, ("kind",))


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match=r"cannot be written .*: make its folder writable"):
        files(tmp_path / "file" / "goldens", is_updating=True).compared(BEFORE, "", None, ("kind",))
