"""Predictions in words and tables."""

from spmd_core.answers import step_collectives, strategies_table
from spmd_core.facts import AxisOrigin, Collective, Estimate
from spmd_lab.ui.predict import beside
from tests.answers import records, texts
from tests.ui.predictions import MODEL, predicted, prediction

GATHER = Collective(
    kind="all-gather",
    axes=("fsdp",),
    bytes=2**20,
    count=10,
    seconds=0.01,
    exposed_s=0.002,
    route="a ring",
    name="a",
    op="jit(step)/while/body/dot_general",
)


def plain_spaces(table):
    return {
        name: [cell.replace("\u00a0", " ").replace("\\", "") for cell in column]
        for name, column in table.items()
    }


def test_strategies_are_compared():
    slow = prediction().model_copy(
        update={"predicted_s": Estimate(low=0.02, estimate=0.03, high=0.04)}
    )
    experiment = MODEL.vary(
        workload="layer",
        dims={"batch": 256, "in": 256, "out": 256},
        options={},
        sharding={"in": "fsdp"},
        strategies=["auto", "explicit", "shard_map"],
        dtype="bfloat16",
    )
    found = predicted(experiment, auto=prediction(), explicit=prediction(), shard_map=slow)
    assert texts(strategies_table(found, "screen"), "Time") == [
        "16.2 ms, predicted",
        "16.2 ms, predicted",
        "30 ms, predicted",
    ]


def test_collectives_have_their_axes_and_a_reason():
    (row,) = records(step_collectives(prediction()))
    assert (row["Collective"], row["Over"]) == ("all-gather", "fsdp")
    assert row["Route"] == "torus of x (16, ring) and y (16, ring)"
    assert (row["Count"], row["Exposed"]) == ("10", "0 s")
    assert row["Why, and where"] == (
        "Parameters are stored sharded over fsdp, but a matmul needs them replicated"
    )


def test_collectives_of_a_model_have_their_reason_alone():
    """Who set the axes is in lines of the lab's own program, which no viewer has."""
    origin = AxisOrigin(axis="fsdp", kind="argument", name="w", spec=(("fsdp",),), values=1)
    (each,) = prediction().collectives
    each = each.model_copy(update={"origin": (origin,)})
    found = prediction().model_copy(update={"collectives": (each,)})
    (of_program,) = records(step_collectives(found))
    (of_model,) = records(step_collectives(found, MODEL))
    reason, _, origins = of_program.pop("Why, and where").partition(". Set by")
    assert origins and of_model.pop("Why") == reason
    assert of_model == of_program


def test_two_predictions_side_by_side():
    half = prediction().model_copy(
        update={
            "predicted_s": Estimate(low=0.007, estimate=0.0073333333, high=0.008),
            "collectives": (GATHER,),
        }
    )
    table = plain_spaces(beside.numbers_table(prediction(), half))
    row = table[""].index("Tokens per second and chip")
    assert table["A"][row] == "758,345"
    assert "HBM-bound operations" not in table[""]
    assert (table["A"][0], table["B"][0], table["B against A"][0]) == (
        "16.2 ms",
        "7.33 ms",
        "-54.7%",
    )
