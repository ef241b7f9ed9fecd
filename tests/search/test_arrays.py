"""The shardings of an experiment: which there are, which are one, and what bounds them."""

import itertools
import math

import pytest

from spmd_core.errors import RequestError
from spmd_core.search.answer import Answer, Proof
from spmd_core.search.array_question import read_array_question
from spmd_core.search.array_space import canonical, meshes, shardings
from spmd_core.search.arrays import Space
from spmd_core.search.candidate import Candidate
from spmd_core.search.study import Study, Variant
from spmd_core.words import search as words
from tests.bandwidth.test_expected import machine
from tests.labs import experiment

MATMUL = {"workload": "matmul", "target": "cpu:8", "dims": {"m": 64, "k": 64, "n": 64}}
TRIPLES = MATMUL | {"mesh": {"x": 2, "y": 4}, "overrides": None, "strategies": ["auto"]}
OPEN = {"workload": "layer", "target": "cpu:8", "mesh": None, "sharding": None,
        "dims": {"batch": 32, "in": 64, "out": 12}}


def found(spec, **more):
    space = Space(read_array_question(spec, **more), 2)
    return space, list(space.candidates())


def test_the_triples_of_a_matmul_are_729_and_c_is_sharded_as_y():
    space, every = found(TRIPLES)
    assert space.size == len(every) == 729
    assert len({each.name for each in every}) == 729
    assert [each.number for each in every] == list(range(729))
    for each in every[::97]:
        made = each.experiment
        assert made.spec("c") == made.spec("y") and made.strategies == ("auto",)


def test_null_means_searched_and_what_is_given_stays():
    question = read_array_question(OPEN)
    assert {math.prod(size for _, size in mesh) for mesh in meshes(question, "cpu:8")} == {8}
    assert len(list(meshes(question, "cpu:8"))) == 1 + 2 + 1  # 8; 2x4, 4x2; 2x2x2
    kept = read_array_question(OPEN | {"sharding": {"in": "model", "batch": "data"}})
    assert {tuple(name for name, _ in mesh) for mesh in meshes(kept, "cpu:8")} == {
        ("model", "data")}
    assert len({sharded.table for sharded in shardings(kept)}) == 1
    one = read_array_question(OPEN | {"mesh": {"x": 8}})
    assert {sharded.mesh for sharded in shardings(one)} == {(("x", 8),)}


def test_pruned_for_not_dividing_is_what_an_experiment_refuses_and_nothing_else():
    _, every = found(OPEN)
    reasons = {each.reason for each in every}
    assert {"does not divide", "equal to another by renaming"} <= reasons
    for each in every:
        if each.reason == "does not divide":
            with pytest.raises(RequestError, match="does not divide"):
                _ = each.experiment
        else:
            assert each.experiment.device_count == 8


def test_equal_shardings_give_every_device_the_same_parts_up_to_the_order_of_devices():
    """Against the blocks of each array that some device has, with what else it has."""
    _, every = found(OPEN)
    by_number = {each.number: each for each in every}

    def blocks(candidate) -> set:
        made = candidate.experiment
        sizes = dict(made.mesh)
        devices = set()
        for place in itertools.product(*(range(size) for size in sizes.values())):
            at = dict(zip(sizes, place, strict=True))
            devices.add(tuple(tuple(tuple(sizes[axis] for axis in axes)
                                    and (math.prod(sizes[axis] for axis in axes),
                                         sum(at[axis] * 97 ** n for n, axis in enumerate(axes)))
                                    for axes in made.spec(array.name))
                              for array in made.what.arrays))
        return {tuple(tuple(part and part[0] for part in array) for array in device)
                for device in devices}, len(devices)

    checked = 0
    for each in every:
        if each.reason == "equal to another by renaming":
            assert blocks(each) == blocks(by_number[each.equal])
            checked += 1
    assert checked > 20


def test_a_difference_that_matters_is_no_renaming():
    question = read_array_question(OPEN)
    what, sizes = question.sample.what, question.sample.sizes
    keys: dict = {}
    for sharded in shardings(question):
        keys.setdefault(canonical(sharded, what, sizes, True), []).append(sharded)
    for alike in keys.values():
        parts = {tuple(sorted((dim, sharded.parts(axes)) for dim, axes in sharded.table if axes))
                 for sharded in alike}
        assert len(parts) == 1
    on_links = {canonical(sharded, what, sizes, False) for sharded in shardings(question)}
    assert len(on_links) > len(keys)  # an axis lies on links: its place in the mesh counts


@pytest.mark.parametrize("spec", [
    TRIPLES, OPEN, {"workload": "mlp", "target": "tpu:v5e:4x4", "mesh": None, "sharding": None},
    {"workload": "transformer_block", "target": "tpu:v5e:2x4", "mesh": None, "sharding": None}])
def test_no_bound_is_above_its_own_estimate(spec):
    _, every = found(spec)
    ranked = [each for each in every if each.is_ranked]
    assert ranked and all(0 < each.bound_s <= each.seconds for each in ranked)


def test_what_a_device_has_to_be_sent_of_a_matmul():
    space, every = found(TRIPLES | {"target": "tpu:v5e:2x4"})
    formula = space._formulas["tpu:v5e:2x4"]
    by_name = {each.name: each for each in every}

    def received(name: str) -> float:
        return formula.received(by_name[f"x=2,y=4 · {name} · auto"].point.sharded)

    whole = 64 * 64 * 4
    assert received("a[x,-] b[-,y] c[x,y] y[x,y]") == 0  # has all that its block needs
    assert received("a[-,x] b[x,-] c[-,-] y[-,-]") == whole / 2  # half of a or b, or y
    assert received("a[x,-] b[-,-] c[-,-] y[-,-]") == whole / 2  # the other half of y or a


def test_classics_are_told_by_what_is_sharded():
    _, every = found(OPEN | {"workload": "transformer_block",
                             "dims": {}, "mesh": {"x": 2, "y": 4}})
    kinds = {each.name.split(" · ")[1]: each.point.kind for each in every}
    assert kinds["batch:x+y"] == "data" and kinds["heads:x+y"] == "tensor"
    assert kinds["batch:x+y embed:x+y"] == "fsdp" and kinds["batch:x heads:y"] == "mixed"


def test_single_is_one_candidate_whatever_the_sharding():
    _, every = found(OPEN | {"strategies": ["single", "auto"]})
    single = [each for each in every if each.strategy == "single"]
    assert sum(each.fate != "pruned" for each in single) == 1


def test_a_study_measures_every_variant_in_every_round():
    study = Study(tuple(Variant(name, experiment()) for name in "abc"), rounds=12, seed=3)
    orders = list(study.order())
    assert all({variant.name for variant in order} == set("abc") for order in orders)
    assert len({tuple(variant.name for variant in order) for order in orders}) > 2
    assert orders == list(study.order())
    rounds = [{"a": 1.0 + place / 100, "b": 1.2 + place / 100, "c": 1.21 + place / 100}
              for place in range(12)]
    verdict = study.compared([*rounds, {"a": 9.0}])  # a round that was stopped does not count
    assert verdict.fastest == "a" and all(ratio.differs for ratio in verdict.ratios)


@pytest.mark.parametrize(("spec", "sentence"), [
    (OPEN | {"mesh": {"x": 8}, "sharding": {}}, "leaves nothing to search"),
    (OPEN | {"mesh": {"x": 4}, "sharding": None}, "does not use the 8 devices"),
    (OPEN | {"workload": "array", "dims": {"d0": 8}}, "has no sharding to search"),
    (OPEN | {"target": []}, "is no target"), (OPEN | {"target": "tpu:v5e:3x3"}, "is not a shape"),
    (OPEN | {"target": "local"}, "has not been asked for its devices"),
    (OPEN | {"dims": {"warp": 3}}, "is not one of layer"), ([], "is not a JSON object")])
def test_a_spec_that_asks_nothing_is_refused_in_a_sentence(spec, sentence):
    with pytest.raises(RequestError, match=sentence):
        read_array_question(spec)


def test_an_empty_space_names_the_rule():
    question = read_array_question(OPEN | {"dims": {"batch": 3, "in": 5, "out": 7},
                                           "sharding": {"in": "x"}})
    space = Space(question, 2)
    answer = Answer(question, space.size, list(space.candidates()), True)
    assert "in=5 does not divide over x=8" in words.headline(answer)


@pytest.mark.parametrize(("rounds", "differs", "said"), [
    (8, True, "Proven against b: 1.2× (1.1 to 1.3) in 8 shuffled rounds."),
    (8, False, "A tie with b: 1.2× (1.1 to 1.3) in 8 shuffled rounds."),
    (2, False, "there was time for 2 shuffled rounds against b, 6 are needed")])
def test_how_sure_the_winner_is_in_words(rounds, differs, said):
    best = Candidate(0, "a", "cpu:8", 8, "measured", measured_s=1.0, interval_s=(0.9, 1.1))
    proof = Proof("a", "b", 1.2, (1.1, 1.3), differs, rounds)
    answer = Answer(read_array_question(OPEN), 1, [best], True, proof=proof)
    assert said in words.sure_words(answer)


def test_a_calibration_takes_the_place_of_the_guessed_rates():
    spec = {"workload": "matmul", "target": "cpu:8", "mesh": {"x": 8}, "sharding": None,
            "dims": {"m": 64, "k": 64, "n": 64}, "strategies": ["auto"]}
    question, here = read_array_question(spec), machine()
    found = {each.name: dict(each.parts) for each in
             Space(question, 2, {"cpu:8": here}).candidates() if each.fate == "estimated"}
    parts = found["x=8 · m:x · auto"]
    assert parts["dispatch"] == here.floor_s
    assert parts["matmul"] == pytest.approx(2e-9 * 8 * 64 * 64, rel=0.05)  # c is added, too
    guessed = {each.name: dict(each.parts) for each in Space(question, 2).candidates()
               if each.fate == "estimated"}
    assert guessed.keys() == found.keys() and "dispatch" not in guessed["x=8 · m:x · auto"]
    assert words.rates_words(("cpu:8",), {"cpu:8": here}) == ("Estimates by the calibration of cpu:8.",)
    assert "`python -m spmd_core calibrate --target cpu:8`" in words.rates_words(("cpu:8",), {})[0]
    assert words.rates_words(("tpu:v5e:2x4",), {}) == ()
