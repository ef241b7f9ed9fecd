"""Accidents of compiled programs: each kind is found where it is planted, with its line and words."""

import json
from functools import cache

import pytest

from bench import planted_accidents as planted
from bench.lost_batches import judged_experiment, taken
from spmd_core.__main__ import main
from spmd_core.advice.programs import accident_words

pytestmark = pytest.mark.usefixtures("read_here")


def judged(given):
    data = given.exported() if isinstance(given, planted.Step) else given()
    return judged_experiment(taken(data))


@cache
def accidents(name):
    return judged(planted.PLANTED[name][0]).accidents


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("an axis not used", "repeated_work", "devices along `model` compute the same at "),
        pytest.param(
            "widened by a norm",
            "wide_products",
            "are of float32 operands, wider than the weights",
            marks=pytest.mark.newer_whole,
        ),
        (
            "FSDP without a sharded batch",
            "replicated_batch",
            "no axis shards tokens: collectives move ",
        ),
        (
            "a constraint in a layer",
            "dropped_batch",
            "drops `data` of the batch, and each use of its value is sharded over it again",
        ),
        pytest.param(
            "a constraint to replicated before a loop",
            "dropped_batch",
            "constrain it to P('data', None, None), or leave it out",
            marks=pytest.mark.newer_whole,
        ),
        (
            "gradients summed replicated",
            "replicated_carry",
            "each turn of a loop replicates sums of 9.0 MiB over `data` and `model` at planted_accidents.py:",
        ),
        pytest.param(
            "a weight across",
            "crossed_weight",
            "2.0 MiB a device and step are gathered; shard it as P(None, 'model', None), and partial",
            marks=pytest.mark.newer_whole,
        ),
        pytest.param(
            "a moment leaves as constrained",
            "resharded_donation",
            "state/m is donated, 256.0 KiB a device, and leaves as P('data', None)",
            marks=pytest.mark.newer_whole,
        ),
        pytest.param(
            "a table in the program",
            "constant",
            "a constant of 2.0 MiB at planted_accidents.py:",
            marks=pytest.mark.newer_whole,
        ),
        pytest.param(
            "weights gathered by hand before the scan",
            "gathered_whole",
            "stacked weights are gathered over `data` and `model` at planted_accidents.py:",
            marks=pytest.mark.newer_whole,
        ),
    ],
)
def test_an_accident_is_named_with_its_line_and_what_it_costs(name, kind, words):
    (first, *_) = (each for each in accidents(name) if each.kind == kind)
    assert words in accident_words(first)


def test_an_axis_of_two_that_nothing_uses_doubles_the_work():
    (repeated,) = accidents("an axis not used")
    assert (repeated.axes, repeated.share, repeated.work) == (("model",), 1.0, 2.0)


def test_a_replicated_batch_is_told_the_axes_that_shard_it():
    (found,) = accidents("FSDP without a sharded batch")
    assert (found.path, found.axes) == ("tokens", ("data", "model"))
    assert found.spec == (("data", "model"), ())
    assert found.bytes / found.work == pytest.approx(9 * 2**20)  # two layers' matrices, both tables


@pytest.mark.newer_whole
def test_a_kernel_gradient_is_divided_by_the_axis_that_shards_its_images():
    """Of eight convolutions three are repeated on both devices of the axis, five are halved."""
    (repeated,) = accidents("images gathered by their rows")
    assert (repeated.axes, repeated.share) == (("model",), pytest.approx(6 / 11))
    assert repeated.work == pytest.approx(11 / 8)


@pytest.mark.newer_whole
def test_inside_a_shard_map_work_on_what_all_devices_hold_alike_is_repeated():
    axes = {each.axes for each in accidents("a batch under shard_map as P()")}
    assert axes == {("data",)}
    assert judged(planted.CLEAN["gathered by hand"]).accidents == ()


@pytest.mark.newer_whole
@pytest.mark.parametrize(
    "name",
    [
        "tensor parallelism",
        "a small batch that is replicated",
        "a batch that a constraint shards",
        "sequence parallelism",
        "sequence parallelism of both",
        "grouped queries",
        "a contrastive loss",
        "experts over the batch's axis",
        "experts over an axis of the batch",
        "images by their rows",
        "a moment leaves as it enters",
    ],
)
def test_a_right_step_has_no_accident(name):
    found = judged(planted.CLEAN[name])
    assert (found.lost_batch, [each for each in found.accidents if not each.is_minor]) == (None, [])


@pytest.mark.newer_whole
def test_the_command_line_judges_the_program_as_it_is_compiled(data_folder, tmp_path, capsys):
    file = tmp_path / "step.jaxexport"
    file.write_bytes(planted.PLANTED["an axis not used"][0].exported())
    assert main(["program", str(file), "--target", "cpu:8", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert found["kind"] == "unused_axis", "of which repeated work is the consequence"
    assert main(["program", str(file), "--target", "cpu:8", "--fail-on", "repeated_work"]) == 1
    printed = capsys.readouterr().out
    assert f"unused_axis: {found['sentence']}" in printed and "repeated_work" not in printed
    assert main(["program", str(file), "--target", "cpu:3"]) != 0
