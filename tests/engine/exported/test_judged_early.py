"""A program is judged as it is partitioned: what a compile calls wrong is known before it."""

import pytest

from bench import mapped_accidents as mapped, planted_accidents as planted
from bench.lost_batches import Decoder, judged_experiment, taken
from spmd_core.advice import all_findings, checked_words, clean_words, unchecked_words
from spmd_core.engine.partitioned import partitioned

pytestmark = pytest.mark.usefixtures("read_here")
STEPS = {
    "a lost batch": Decoder().exported,
    "an axis not used": lambda: planted.PLANTED["an axis not used"][0].exported(),
    "a ring over a replicated weight": mapped.over("x=8", mapped.REPEATED["a ring"]),
    "a weight across": lambda: planted.PLANTED["a weight across"][0].exported(),
    "nothing": lambda: planted.CLEAN["tensor parallelism"].exported(),
}


def alike(judged):
    without = {"origin": None}
    lost = judged.lost_batch and judged.lost_batch.model_copy(update=without)
    return lost, tuple(each.model_copy(update=without) for each in judged.accidents)


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4"])
@pytest.mark.parametrize("name", STEPS)
def test_what_is_partitioned_has_what_a_compile_finds(name, target):
    experiment = taken(STEPS[name](), target)
    now, found = partitioned(experiment, "auto"), judged_experiment(experiment)
    assert alike(now) == alike(found)
    assert bool(found.lost_batch or found.accidents) == (name != "nothing")
    program = experiment.exported
    listed = [each.kind for each in all_findings(program, now)]
    assert {each.kind for each in found.accidents} <= {*listed, "repeated_work"}
    if name == "nothing":
        assert clean_words(None, now, program).endswith("Nothing wrong.")
        assert checked_words(program, now).startswith("None of 18 kinds of mistakes in ")
        assert unchecked_words(now) == ""


def test_what_nothing_judged_is_right_in_its_arguments_alone():
    experiment = taken(STEPS["nothing"]())
    before = partitioned(experiment, "auto").model_copy(update={"accidents": None})
    assert clean_words(None, before).endswith("Nothing wrong in its arguments.")
    assert checked_words(experiment.exported, before).startswith("None of 8 kinds of mistakes in ")
    assert unchecked_words(before)
