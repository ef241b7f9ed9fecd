"""What a search calls equal, bounds or estimates, against programs that the TPU compiler makes."""

from dataclasses import replace

import pytest

from spmd_core.base import Settings
from spmd_core.lab import Lab
from spmd_core.search import Space, models, read_array_question, read_question
from spmd_core.trials.searching.outcomes import answered, experiment_of
from spmd_core.trials.searching.partitioning import taught

QUESTION = read_question(
    {"model": "scaled:1", "chips": ["v5e:2x2"], "global_batch": 16, "remat": ["full"]}
)


pytest.importorskip("libtpu")

SPEC = {
    "workload": "mlp",
    "target": "tpu:v5e:4x4",
    "mesh": None,
    "sharding": None,
    "dims": {"batch": 256, "in": 256, "hidden": 512, "out": 256},
    "strategies": ["auto", "shard_map"],
}
# one that is turned, one in other factors, one over other axes in part
PAIRS = (
    ("x=4,y=4 · batch:x hidden:y", "x=4,y=4 · batch:y hidden:x"),
    ("x=4,y=4 · batch:x hidden:y", "x=2,y=2,z=4 · batch:x+y hidden:z"),
    ("x=4,y=4 · batch:x in:y", "x=2,y=2,z=4 · batch:x+y in:z"),
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Every candidate, and those of the pairs compiled, by name."""
    lab = Lab.open(tmp_path_factory.mktemp("data"), settings=Settings(predict_timeout_s=500))
    every = list(Space(read_array_question(SPEC), 2).candidates())
    by_name, found = {each.name: each for each in every}, {}
    for words in dict.fromkeys(name for pair in PAIRS for name in pair):
        group = [by_name[f"{words} · {strategy}"] for strategy in SPEC["strategies"]]
        run = lab.submit(experiment_of(group))
        lab.wait(run, 500)
        result = lab.result(run)
        assert result is not None
        found |= {each.name: each for each in answered(group, result)}
    yield every, found
    lab.close()


@pytest.mark.parametrize("strategy", SPEC["strategies"])
@pytest.mark.parametrize("pair", PAIRS)
def test_what_is_called_equal_compiles_to_the_same_time_and_memory(programs, pair, strategy):
    every, found = programs
    one, other = (found[f"{words} · {strategy}"] for words in pair)
    first = {each.name: each.number if each.equal is None else each.equal for each in every}
    assert first[one.name] == first[other.name]
    assert one.stage == other.stage == "compiled"
    assert one.seconds == pytest.approx(other.seconds, rel=0.02)
    assert one.memory_bytes == pytest.approx(other.memory_bytes, rel=0.02)


def test_no_program_is_below_its_bound(programs):
    every, found = programs
    for each in found.values():
        first = every[each.equal if each.equal is not None else each.number]
        assert 0 < first.bound_s <= each.seconds


def test_neighbors_take_as_much_more_as_a_compiled_plan_did():
    found = [each for each in models.candidates(QUESTION) if each.stage == "estimated"]
    first = found[0]
    over = replace(
        first, stage="pruned", reason="does not fit", run="r", memory_bytes=3 * first.memory_bytes
    )
    changed = {each.number: each for each in taught([over], found[1:], None)}
    same = [each for each in found[1:] if each.plan.mesh == first.plan.mesh]
    other = [
        each
        for each in found[1:]
        if each.plan.mesh != first.plan.mesh and each.plan.offload != first.plan.offload
    ]
    assert same and other and not {each.number for each in other} & changed.keys()
    for each in same:
        assert abs(changed[each.number].memory_bytes - 3 * each.memory_bytes) <= 3
        assert changed[each.number].memory_span[1] == int(3 * each.memory_span[1])
    assert taught([first], found[1:], None) == [], "an estimate teaches nothing"
    tight = taught([over], same, 2 * first.memory_bytes)
    assert all(each.reason == "does not fit" and each.fits == "no" for each in tight)
    again = taught([over], list(changed.values()), None)
    assert again == [], "what was learned once is not learned twice"
