"""The shardings of an experiment: which there are, which are one, and what bounds them."""

import itertools
import math
from dataclasses import replace

import pytest

from spmd_core.base import RequestError
from spmd_core.facts import Estimate, Ratio
from spmd_core.results import Comparison
from spmd_core.roofline import ShardedFormula
from spmd_core.roofline.bound import received
from spmd_core.search import (
    Answer,
    Candidate,
    Proof,
    Space,
    StandardSharding,
    read_array_question,
    unknown_target,
)
from spmd_core.search.spaces.array_space import canonical, meshes, shardings
from spmd_core.surveys import search as words
from spmd_core.surveys.search.kept import kept_search
from spmd_core.words.strategies import compared
from tests.labs import experiment
from tests.roofline.test_expected import machine

MATMUL = {"workload": "matmul", "target": "cpu:8", "dims": {"m": 64, "k": 64, "n": 64}}
TRIPLES = MATMUL | {"mesh": {"x": 2, "y": 4}, "overrides": None, "strategies": ["auto"]}
OPEN = {
    "workload": "layer",
    "target": "cpu:8",
    "mesh": None,
    "sharding": None,
    "dims": {"batch": 32, "in": 64, "out": 12},
}


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
        ("model", "data")
    }
    assert len({sharded.table for sharded in shardings(kept)}) == 1
    one = read_array_question(OPEN | {"mesh": {"x": 8}})
    assert {sharded.mesh for sharded in shardings(one)} == {(("x", 8),)}


def test_a_mesh_in_pairs_is_searched_as_one_by_names():
    """A screen has the axes of its mesh in pairs, a spec by their names."""
    spec = {"workload": "contraction", "target": "tpu:v5e:2x4", "overrides": None}
    named, paired = (
        [
            (each.number, each.predicted)
            for each in Space(read_array_question(spec | {"mesh": mesh}), 1).candidates()
        ]
        for mesh in ({"x": 2, "y": 4}, [["x", 2], ["y", 4]])
    )
    assert named == paired and any(predicted for _, predicted in named)


def test_an_array_that_stays_put_does_so_whatever_is_searched_around_it():
    spec = OPEN | {"overrides": {"weights": ["model", None]}}
    space, every = found(spec)
    assert space.size == len(every)
    ranked = [each.experiment for each in every if each.is_ranked]
    assert ranked and all(each.spec("weights") == (("model",), ()) for each in ranked)
    meshes_tried = {each.mesh for each in ranked}
    assert {(("model", 8),), (("model", 2), ("x", 4))} <= meshes_tried
    assert any(dict(each.sharding).get("batch") for each in ranked)
    assert all(size > 1 for mesh in meshes_tried for _, size in mesh)


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
            devices.add(
                tuple(
                    tuple(
                        tuple(sizes[axis] for axis in axes)
                        and (
                            math.prod(sizes[axis] for axis in axes),
                            sum(at[axis] * 97**n for n, axis in enumerate(axes)),
                        )
                        for axes in made.spec(array.name)
                    )
                    for array in made.what.arrays
                )
            )
        return {
            tuple(tuple(part and part[0] for part in array) for array in device)
            for device in devices
        }, len(devices)

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
        keys.setdefault(canonical(sharded, what, sizes), []).append(sharded)
    for alike in keys.values():
        parts = {
            tuple(sorted((dim, sharded.parts(axes)) for dim, axes in sharded.table if axes))
            for sharded in alike
        }
        assert len(parts) == 1


@pytest.mark.parametrize(
    "spec",
    [
        TRIPLES,
        OPEN,
        {"workload": "mlp", "target": "tpu:v5e:4x4", "mesh": None, "sharding": None},
        {"workload": "transformer_block", "target": "tpu:v5e:2x4", "mesh": None, "sharding": None},
    ],
)
def test_no_bound_is_above_its_own_estimate(spec):
    _, every = found(spec)
    ranked = [each for each in every if each.is_ranked]
    assert ranked and all(0 < each.bound_s <= each.seconds for each in ranked)


def test_products_that_an_axis_does_not_split_are_repeated_over_it():
    dims = {"batch": 1024, "in": 256, "hidden": 1024, "out": 256}
    spec = {"workload": "mlp", "target": "cpu:8", "dims": dims, "mesh": {"x": 2, "y": 4}}
    _, every = found(spec | {"sharding": None, "strategies": ["auto"]})
    matmul = {each.name: dict(each.parts)["matmul"] for each in every if each.is_ranked}
    split = matmul["x=2,y=4 · batch:x hidden:y · auto"]
    # the first of two equal products runs on each of 4 devices
    assert matmul["x=2,y=4 · batch:x out:y · auto"] == pytest.approx(split * (4 + 1) / 2, rel=0.01)


def test_what_a_device_has_to_be_sent_of_a_matmul():
    space, every = found(TRIPLES | {"target": "tpu:v5e:2x4"})
    formula = space._formulas["tpu:v5e:2x4"]
    by_name = {each.name: each for each in every}

    def sent(name: str) -> float:
        sharded = by_name[f"x=2,y=4 · {name} · auto"].point.sharded
        return received(ShardedFormula(formula, sharded))

    whole = 64 * 64 * 4
    assert sent("a[x,-] b[-,y] c[x,y] y[x,y]") == 0  # has all that its block needs
    assert sent("a[-,x] b[x,-] c[-,-] y[-,-]") == whole / 2  # half of a or b, or y
    assert sent("a[x,-] b[-,-] c[-,-] y[-,-]") == whole / 2  # the other half of y or a


def test_classics_are_told_by_what_is_sharded():
    _, every = found(OPEN | {"workload": "transformer_block", "dims": {}, "mesh": {"x": 2, "y": 4}})
    kinds = {each.name.split(" · ")[1]: each.point.kind for each in every}
    assert kinds["batch:x+y"] == "data" and kinds["heads:x+y"] == "tensor"
    assert kinds["batch:x+y embed:x+y"] == "fsdp" and kinds["batch:x heads:y"] == "mixed"


def test_single_is_one_candidate_whatever_the_sharding():
    _, every = found(OPEN | {"strategies": ["single", "auto"]})
    single = [each for each in every if each.strategy == "single"]
    assert sum(each.stage != "pruned" for each in single) == 1


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (OPEN | {"mesh": {"x": 8}, "sharding": {}}, "leaves nothing to search"),
        (OPEN | {"mesh": {"x": 4}, "sharding": None}, "does not use the 8 devices"),
        (OPEN | {"workload": "array", "dims": {"d0": 8}}, "has no sharding to search"),
        (OPEN | {"target": []}, "is no target"),
        (OPEN | {"target": "tpu:v5e:3x3"}, "is not a shape"),
        (OPEN | {"target": "local"}, "has not been asked for its devices"),
        (OPEN | {"target": "cluster:pod"}, "spmd_core devices cluster:pod` first"),
        (OPEN | {"dims": {"warp": 3}}, "is not one of layer"),
        ([], "is not a JSON object"),
    ],
)
def test_a_spec_that_asks_nothing_is_refused_in_a_sentence(spec, sentence):
    with pytest.raises(RequestError, match=sentence):
        read_array_question(spec)


@pytest.mark.parametrize(
    ("targets", "unknown"),
    [
        (["cpu:8", "tpu:v5e:2x2"], None),
        ("local", "local"),
        (["cpu:8", "cluster:pod"], "cluster:pod"),
        ("cluster:local:2", None),
    ],
)
def test_devices_are_asked_of_what_alone_knows_them(targets, unknown):
    assert unknown_target(targets) == unknown
    if unknown:
        assert read_array_question(OPEN | {"target": targets}, 6).count(unknown) == 6
        with pytest.raises(RequestError, match="are searched apart: name one of them"):
            unknown_target(["local", "cluster:pod"])


def test_an_empty_space_names_the_rule():
    question = read_array_question(
        OPEN | {"dims": {"batch": 3, "in": 5, "out": 7}, "sharding": {"in": "x"}}
    )
    space = Space(question, 2)
    answer = Answer(question, space.size, list(space.candidates()), True)
    assert "in=5 does not divide over x=8" in words.search_headline(answer)


RUN = "20260101-000000-aaaaaa"


def proof(differs: bool) -> Proof:
    """b took 1.2 times as long as a, which was measured slower when it was measured alone."""
    ratio = Ratio(strategy="b", ratio=1.2, interval=(1.1, 1.3), differs=differs, rounds=20)
    medians = {"a": 1.0, "b": 1.21}
    said = Comparison(fastest="a", ratios=(ratio,), tied=() if differs else ("b",))
    said = said.model_copy(update={"sentence": compared(said, medians)})
    return Proof(RUN, experiment(), said, medians, (0, 1), 40)


def measured(number: int, name: str, seconds: float) -> Candidate:
    point = next(each.point for each in found(OPEN)[1] if each.stage == "estimated")
    return Candidate(
        number,
        name,
        "cpu:8",
        8,
        "measured",
        measured_s=seconds,
        point=point,
        interval_s=(0.9 * seconds, 1.1 * seconds),
    )


def test_a_verdict_names_candidates_in_words():
    names = "x=8 · m:x n:y · auto", "x=8 · replicated · shard_map"
    every = [measured(at, name, 1.0 + at) for at, name in enumerate(names)]
    said = Comparison(
        fastest=names[0],
        ratios=(Ratio(strategy=names[1], ratio=2.0, interval=(1.9, 2.1), differs=True, rounds=9),),
        tied=(),
    )
    shown = Proof(RUN, experiment(), said, dict(zip(names, (1.0, 2.0), strict=True)), (0, 1), 9)
    answer = Answer(read_array_question(OPEN), 2, every, True, proof=shown)
    assert words.verdict_words(answer) == (
        "x=8, m over x, n over y, Automatic is fastest in this process: 1 s per call. "
        "Next is x=8, replicated, shard_map, 2.00× as long (1.90 to 2.10)."
    )


@pytest.mark.parametrize(
    ("differs", "ties", "said"),
    [
        (
            True,
            [],
            "Proven against b: 1.21 s, paired ratio 1.20× (99% interval 1.10 to 1.30, 20 rounds). "
            "2 measured side by side in 40 shuffled rounds in this process.",
        ),
        (
            False,
            ["b"],
            "Cannot tell whether a (1 s) or b (1.21 s) is faster in this process: paired ratio 1.20× "
            "(99% interval 1.10 to 1.30, 20 rounds).",
        ),
    ],
)
def test_an_answer_says_what_its_proof_says(differs, ties, said):
    every = [measured(0, "a", 1.0), measured(1, "b", 1.21), measured(2, "c", 0.98)]
    answer = Answer(read_array_question(OPEN), 3, every, True, proof=proof(differs))
    assert answer.winner.name == "a", "c was measured alone, where luck may have made it faster"
    assert [each.name for each in answer.ties] == ties
    assert said in words.sure_words(answer)
    short = words.verdict_words(answer)
    assert "rounds" not in short and ("Cannot tell whether a (1 s) or b" in short) is not differs

    alone = [each.name for each in answer.front if each.name == "c"]
    assert not alone, "is on no front with what was measured in other rounds"
    listed = words.answer_json(answer)["proof"]
    assert (listed["faster"], listed["slower"], listed["differs"]) == ("a", "b", differs)
    assert listed["link"].startswith("/compare?experiment=1.") and listed["run"] in listed["link"]
    standard = words.standard_words(answer, StandardSharding("data", every[1]))
    assert (
        "Beats it, paired ratio 1.20×"
        if differs
        else "Cannot tell whether it is slower: paired ratio 1.20×"
    ).lower() in standard.lower()
    guessed = replace(
        every[1],
        stage="estimated",
        measured_s=None,
        predicted=Estimate(low=0.1, estimate=0.2, high=0.4),
    )
    assert words.standard_words(answer, StandardSharding("data", guessed)) == (
        "data: b. 200 ms estimated (100 to 400 ms); not compared, since only it is an estimate."
    )
    assert "not compared, since only it is an estimate" in words.why_not(answer, guessed)
    assert "measures both side by side" in words.standard_words(
        answer, StandardSharding("data", every[2])
    )
    slow = measured(3, "slow", 1.4)
    assert words.standard_words(answer, StandardSharding("data", slow)).startswith(
        f"data: slow. The {'winner' if differs else 'first'} beats it by 1.4×"
    )
    assert (
        "paired ratio" if differs else "cannot tell whether it is slower: paired"
    ) in words.why_not(answer, every[1])
    order = Answer(
        answer.question, 4, [*every, slow, replace(guessed, number=4)], True, proof=answer.proof
    ).ranking
    told_apart = ["a", "c", "b", "slow", "b"]
    assert [each.candidate.name for each in order] == (
        told_apart if differs else ["a", "b", "c", "slow", "b"]
    )
    assert [words.known_by(each.candidate, answer.proof) for each in order].count(
        "side by side"
    ) == 2
    following = "Next: give it more seconds, and search on: "
    assert words.next_words(answer) == f"{following}1 measured alone may still win."
    open_ = Answer(answer.question, 9, [*every, guessed], False, proof=answer.proof)
    assert words.next_words(open_) == (
        f"{following}6 not measured and 1 measured alone may still win."
    )
    every_open = Answer(
        answer.question,
        9,
        [*every, slow, replace(guessed, number=4, name="d")],
        False,
        proof=answer.proof,
    )
    settled = {0, 3} | ({1} if differs else set())  # measured beside the first, or far slower
    assert every_open.open_numbers == {0, 1, 2, 3, 4} - settled
    assert words.open_words(every_open) == (
        f"Not settled: {5 - len(settled)} others of 5 looked at could win"
    )
    crashed = replace(every[2], stage="failed", measured_s=None, detail="it crashed.")
    beside = Answer(read_array_question(OPEN), 3, [*every[:2], crashed], True)
    assert words.state_words(beside).endswith("1 failed, the first of them c (it crashed).")
    alone = Answer(read_array_question(OPEN), 3, every, True)
    assert alone.winner.name == "c" and [each.name for each in alone.ties] == ["a"]


def test_a_calibration_takes_the_place_of_the_guessed_rates():
    spec = {
        "workload": "matmul",
        "target": "cpu:8",
        "mesh": {"x": 8},
        "sharding": None,
        "dims": {"m": 64, "k": 64, "n": 64},
        "strategies": ["auto"],
    }
    question, here = read_array_question(spec), machine()
    found = {
        each.name: dict(each.parts)
        for each in Space(question, 2, {"cpu:8": here}).candidates()
        if each.stage == "estimated"
    }
    parts = found["x=8 · m:x · auto"]
    assert parts["dispatch"] == here.floor_s
    assert parts["matmul"] == pytest.approx(2e-9 * 8 * 64 * 64, rel=0.05)  # c is added, too
    guessed = {
        each.name: dict(each.parts)
        for each in Space(question, 2).candidates()
        if each.stage == "estimated"
    }
    assert guessed.keys() == found.keys() and "dispatch" not in guessed["x=8 · m:x · auto"]


def test_a_kept_search_is_one_line_of_its_winner():
    winner = measured(0, "x=2,y=4 · m:x n:y · auto", 8.36e-3)
    kept = kept_search(Answer(read_array_question(OPEN), 3, [winner], True), "done", 0.0)
    assert words.kept_words(kept) == "8.36 ms measured: x=2 y=4, m over x, n over y, Automatic"
