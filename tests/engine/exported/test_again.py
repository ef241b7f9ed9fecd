"""FLOPs that do nothing new are no part of MFU: what a checkpoint computes again, and a map repeats."""

import pytest

from bench import mapped_accidents as mapped
from bench.lost_batches import LENGTH, ROWS, Decoder, judged_experiment, taken
from spmd_core.engine.absent.run import predict_experiment
from spmd_core.engine.absent.topology import describe
from spmd_core.machine import get_topology
from spmd_core.words import in_sentences

pytestmark = pytest.mark.usefixtures("read_here")
TPU = "tpu:v5e:2x4"


def predicted(experiment):
    finished = predict_experiment(experiment, "", describe(TPU), lambda _: None, lambda: False)
    (outcome,) = finished.result.strategies.values()
    return in_sentences(outcome.prediction)


@pytest.mark.parametrize("layers", [2, 4])
@pytest.mark.parametrize("width", [128, 256])
def test_what_a_checkpoint_computes_again_is_counted(layers, width):
    """Of a layer the first product alone: nothing needs the value of the second."""
    step = Decoder(is_checkpointed=True, layers=layers, width=width)
    again = judged_experiment(taken(step.exported())).recomputed_flops
    assert again == layers * 2 * ROWS * LENGTH * width * 4 * width
    plain = Decoder(layers=layers, width=width)
    assert judged_experiment(taken(plain.exported())).recomputed_flops == 0


@pytest.mark.newer_whole
@pytest.mark.parametrize(
    ("step", "again", "named"),
    [
        (Decoder(is_checkpointed=True).exported, None, "is used (HFU)"),
        (mapped.over("x=8", mapped.REPEATED["a ring"]), 7 / 8, "inside of shard_map, 88% of"),
        (mapped.over("x=8", mapped.RIGHT["a ring"]), 0.0, ""),
    ],
    ids=["a checkpoint", "a repeated ring", "a ring"],
)
def test_mfu_leaves_it_out_and_a_note_has_the_rate_with_it(step, again, named):
    experiment = taken(step(), TPU)
    prediction = predicted(experiment)
    every = experiment.exported.described.flops
    if again is None:
        again = judged_experiment(experiment).recomputed_flops / every
    topology = get_topology(TPU)
    peak = topology.chips * topology.chip.peak_flops * prediction.predicted_s.estimate
    assert prediction.mfu == pytest.approx(every * (1 - again) / peak, rel=1e-6)
    notes = [each for each in prediction.notes if "MFU leaves out" in each]
    assert len(notes) == bool(again)
    assert all(named in each and f"{every / peak:.1%} of the peak" in each for each in notes)
