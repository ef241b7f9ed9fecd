"""A workload and a target are looked up once for an experiment, however many texts are made of it."""

import pytest

from spmd_core.experiment import experiment as module, parse_experiment
from spmd_core.script import program_text

STRATEGIES = ("auto", "constrained", "explicit", "shard_map")
SPEC = {
    "workload": "layer",
    "target": "tpu:v5e:2x4",
    "mesh": {"x": 2, "y": 4},
    "dims": {"batch": 32, "in": 64, "out": 16},
    "sharding": {"in": "x", "batch": "y"},
    "strategies": list(STRATEGIES),
}


@pytest.fixture
def counted(monkeypatch):
    """Names of what was looked up, in order."""
    seen = []
    for name in ("get_workload", "parse_target"):
        real = getattr(module, name)

        def look_up(*arguments, name=name, real=real):
            seen.append(name)
            return real(*arguments)

        monkeypatch.setattr(module, name, look_up)
    return seen


def test_four_program_texts_look_their_workload_and_target_up_once(counted):
    """216 look-ups of the workload were counted here before they were kept."""
    experiment = parse_experiment(SPEC)
    counted.clear()
    texts = [program_text(experiment, strategy) for strategy in STRATEGIES]
    assert len(set(texts)) == len(STRATEGIES)
    assert counted.count("get_workload") == counted.count("parse_target") == 1


def test_four_experiments_of_one_text_each_look_up_no_more_than_when_read_and_once(counted):
    for strategy in STRATEGIES:
        program_text(parse_experiment(SPEC | {"strategies": [strategy]}), strategy)
    assert counted.count("get_workload") == 2 * len(STRATEGIES)


def test_what_is_kept_is_no_part_of_the_value():
    used, fresh = parse_experiment(SPEC), parse_experiment(SPEC)
    assert used.what.name == "layer" and used.place.is_absent
    assert used == fresh and hash(used) == hash(fresh) and used.id == fresh.id
    assert used.to_json() == fresh.to_json() and "what" not in used.to_json()
