"""The pieces that generated programs share."""

import pytest
from jax.sharding import PartitionSpec as P

from spmd_core.base import RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.script import array_text


def test_the_text_shards_an_array_as_the_experiment_says():
    experiment = parse_experiment(
        {
            "workload": "array",
            "target": "cpu:8",
            "mesh": {"x": 2, "y": 4},
            "dims": {"d0": 4, "d1": 8},
            "sharding": {"d0": "x", "d1": "y"},
        }
    )
    lines, names = array_text(experiment), {}
    simulated = "jax.config.update('jax_num_cpu_devices', 8)\n"  # before JAX starts: it has
    assert simulated in lines
    exec(lines.replace(simulated, ""), names)
    placed = names["array"]
    assert placed.sharding.spec == P("x", "y")
    assert {shard.data.shape for shard in placed.addressable_shards} == {(2, 2)}


def test_the_text_of_a_topology_that_does_not_exist_are_refused():
    experiment = parse_experiment(
        {"workload": "array", "target": "tpu:v5e:3x5", "mesh": {"x": 4}, "dims": {"d0": 8}}
    )
    with pytest.raises(RequestError, match="is not a shape of TPU v5e"):
        array_text(experiment)
