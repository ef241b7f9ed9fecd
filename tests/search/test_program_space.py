"""The candidates of an exported program: meshes of its axes, the standard shardings, and its rules."""

import json
import math
import re
from dataclasses import replace

import jax
import pytest

from bench.exported import sgd_step, written
from spmd_core.advice import idle_words, replicated_words
from spmd_core.base import bytes_text
from spmd_core.facts import Estimate, PredictedMemory, Prediction
from spmd_core.machine import get_topology
from spmd_core.results import StrategyResult
from spmd_core.search import AS_EXPORTED, Answer, ProgramSpace, read_array_question, rules_text
from spmd_core.search.ranking import ranking
from spmd_core.surveys import called_words
from spmd_core.surveys.search import (
    Own,
    beats,
    best_words,
    dropped_words,
    gain_words,
    held_words,
    is_ahead,
    is_close,
    time_parts,
)
from spmd_core.surveys.search.candidates import lead_name
from spmd_core.trials.searching import outcomes
from spmd_core.words import parts
from spmd_core.workloads import programs


@pytest.fixture(scope="module")
def found():
    program = programs.take(sgd_step()).program
    spec = {"workload": "program_file", "program": program, "mesh": None, "specs": None}
    question = read_array_question(spec | {"target": "tpu:v5e:2x4"})
    space = ProgramSpace(question, 2)
    candidates = list(space.candidates())
    assert len(candidates) == space.size
    return candidates


def test_every_mesh_fills_the_topology_and_keeps_the_order_of_the_axes(found):
    meshes = {each.point.mesh for each in found}
    assert meshes == {(("fsdp", size), ("tensor", 8 // size)) for size in (1, 2, 4, 8)}
    assert {each.point.kind for each in found} == {
        "",
        "as exported",
        "data",
        "fsdp",
        "tensor",
        "mixed",
    }


def test_what_fits_becomes_an_experiment_that_divides(found):
    ranked = [each for each in found if each.stage == "estimated"]
    assert ranked and all(each.seconds > 0 and each.bound_s > 0 for each in ranked)
    for each in ranked[::7]:
        assert math.prod(each.experiment.axis_sizes.values()) == 8


def test_the_winner_is_written_as_rules(found):
    fsdp = next(each for each in found if each.point.kind == "fsdp" and each.stage == "estimated")
    rules = re.findall(r"^    \('(.*)', P\((.*)\)\),$", rules_text(fsdp.experiment), re.MULTILINE)
    first = next(spec for pattern, spec in rules if re.search(pattern, "params/layers/1/up"))
    for longer in ("params/layers/1/up_bias", "ema/params/layers/1/up"):  # as programs search
        assert not any(re.search(pattern, longer) for pattern, _ in rules)
    axes = dict(fsdp.point.mesh)
    assert all(name in first for name, size in axes.items() if size > 1)


def test_specs_that_differ_in_axes_of_size_one_are_one_candidate(found):
    one_axis = [each for each in found if dict(each.point.mesh)["tensor"] == 1]
    up = {each.name.rpartition(" · ")[2]: each for each in one_axis}
    key = next(name for name in up if name.endswith("layers/*/up P('fsdp', None)"))
    assert up[key].reason == "equal to another by renaming"
    assert found[up[key].equal].name.endswith("as exported")


def test_rows_move_where_they_are_less_than_the_parameters_that_they_multiply(found):
    """128 tokens of 256 features against a table of 4 MiB: the compiler moves the tokens."""
    by_name = {each.name: each for each in found}
    sharded = by_name["fsdp=8,tensor=1 · as exported"]
    assert dict(sharded.parts)["communication"] < 2e-4
    assert sharded.seconds < by_name["fsdp=8,tensor=1 · batch over fsdp"].seconds


def test_a_program_without_a_mesh_is_tried_on_meshes_of_two_axes():
    struct = jax.ShapeDtypeStruct((64, 64), "float32")
    data = written(lambda x, w: x @ w, {"x": struct, "w": struct})
    spec = {"workload": "program_file", "program": programs.take(data).program}
    question = read_array_question(spec | {"mesh": None, "specs": None, "target": "tpu:v5e:2x4"})
    found = list(ProgramSpace(question, 2).candidates())
    assert {each.point.mesh for each in found} == {
        (("x", size), ("y", 8 // size)) for size in (1, 2, 4, 8)
    }
    assert {each.point.kind for each in found} > {"as exported", "fsdp"}


def test_an_estimate_has_the_programs_products_and_names_a_spec_as_code(found):
    estimated = [each for each in found if each.stage == "estimated"]
    flops = programs.take(sgd_step()).flops_of({})
    least = flops / 8 / get_topology("tpu:v5e:2x4").chip.peak_flops
    assert estimated and all(dict(each.parts)["matmul"] >= least > 0 for each in estimated)
    named = [called_words(each) for each in estimated if "P(" in each.name]
    assert named and all(re.search(r" P\((\S+, )*\S+\)", each) for each in named)
    assert not [each for each in map(called_words, estimated) if re.search(",,|as, exp", each)]


def test_the_time_of_a_compiled_candidate_is_split_as_its_card_splits_it(found):
    first, second = [each for each in found if each.stage == "estimated"][:2]
    assert first.parts and not time_parts(first), "a formula orders candidates, and splits no time"
    memory, span = PredictedMemory(peak=2**30, capacity=2**34), Estimate(low=1, estimate=4, high=8)
    prediction = Prediction(
        fits=True,
        memory_bytes=memory,
        predicted_s=span,
        shares_s={"matmul": 2.0, "memory": 1.5, "wait: copy": 0.5},
    )
    outcome = StrategyResult(status="ok", prediction=prediction)
    one = outcomes._one(first, "run", outcome)
    split = {name: seconds / 4 for name, seconds in parts(prediction).items()}
    assert time_parts(one) == pytest.approx(split)
    assert one.parts == first.parts, "by which later estimates are scaled"
    again = outcomes.restored(first, json.loads(json.dumps(outcomes.to_stored(one))))
    assert time_parts(again) == pytest.approx(split)
    slow = prediction.model_copy(
        update={
            "predicted_s": Estimate(low=9, estimate=12, high=16),
            "shares_s": {"matmul": 2.0, "memory": 9.5, "wait: copy": 0.5},
        }
    )
    other = outcomes._one(second, "run", outcome.model_copy(update={"prediction": slow}))
    assert "8 s less HBM-bound operations" in beats(one, other)
    assert "by the formula" not in beats(one, other), "both were compiled"


def test_the_answer_has_what_a_device_holds_beside_the_file_and_if_all_weights_are_replicated(
    found,
):
    """A device holds arguments, and the updates beside those that are not donated."""
    question = found[0].point.question
    (own,) = [each for each in found if each.point.kind == AS_EXPORTED]
    words = []
    for each in found:
        if each.stage == "estimated" and each is not own:
            best = replace(each, predicted=Estimate(low=1e-9, estimate=1e-9, high=1e-9))
            answer = Answer(question, len(found), [own, best], False, 1.0, (), None, False)
            words.append((each.point.kind, held_words(answer)))
    ends = ("as exported → found.", "the same as exported.")
    assert words and all(any(end in each for end in ends) for _, each in words)
    replicated = {kind for kind, each in words if "holds all weights" in each}
    assert replicated == {"data"}
    program = own.experiment.exported
    paths = {leaf.path for leaf in program.described.weights}
    size = bytes_text(sum(each.bytes for each in program.arguments() if each.leaf.path in paths))
    assert all(f"holds all weights, {size}," in each for kind, each in words if kind == "data")
    alone = held_words(Answer(question, 1, [own], False, 1.0, (), None, False))
    assert re.fullmatch(r"Held on each device: \S+ MiB\.", alone)


def test_of_plans_that_take_as_long_the_batch_stays_over_the_axes_of_the_file(found):
    (own,) = [each for each in found if each.point.kind == AS_EXPORTED]
    assert own.moved == 0
    estimated = [each for each in found if each.stage == "estimated"]
    alike = [
        replace(each, predicted=Estimate(low=1.0, estimate=1.0 - 1e-4 * each.moved, high=1.0))
        for each in estimated
    ]
    assert {each.moved for each in alike} > {0}
    first, *others = (each.candidate for each in ranking(alike))
    assert first.moved == 0 and any(each.moved for each in others)
    less = replace(
        max(alike, key=lambda each: each.moved), predicted=Estimate(low=0.9, estimate=0.9, high=0.9)
    )
    (first, *_) = ranking([*alike, less])
    assert first.candidate.moved, "less time is less time"


def test_a_program_s_best_is_called_as_its_row(found):
    (own,) = [each for each in found if each.point.kind == AS_EXPORTED]
    assert lead_name(own) == "fsdp=4 tensor=2, as exported"


def test_weights_of_which_some_are_replicated_are_counted_where_that_is_asked(found):
    (own,) = [each for each in found if each.point.kind == AS_EXPORTED]
    program = own.experiment.exported
    weights = program.described.weights
    first = program.with_specs(((weights[0].path, ((),) * len(weights[0].sizes)),))
    assert not replicated_words(program, of_some=True) and not replicated_words(first)
    words = replicated_words(first, of_some=True)
    (held,) = [each for each in first.arguments() if each.leaf.path == weights[0].path]
    assert words == (
        f"1 of {len(weights)} weights is replicated: {bytes_text(held.bytes)} on each of 8 devices."
    )


@pytest.mark.parametrize(
    ("mesh", "words"),
    [
        ({"fsdp": 2, "tensor": 2}, "4 of 8 chips are idle: the mesh has 4 devices."),
        ({"fsdp": 4, "tensor": 2}, ""),
    ],
)
def test_chips_that_a_mesh_leaves_idle_are_named(found, mesh, words):
    assert idle_words(found[0].experiment.vary(mesh=mesh)) == words


@pytest.mark.parametrize(
    ("now_s", "begins", "gains"),
    [
        (0.6, "1 → 0.6 s with ", True),  # the ranges are apart
        (0.9, "Too close to tell: {0} within their ranges, as it is among them. The first ", True),
        (0.99, "None is faster than as it is, 1.00 s", False),
        (1.2, "None is faster than as it is, 1.00 s", False),
    ],
)
@pytest.mark.parametrize("rivals", [0, 1, 2])
def test_the_best_of_a_program_s_search_leads_with_what_it_gains(
    found, now_s, begins, gains, rivals
):
    question = found[0].point.question
    estimated = [each for each in found if each.stage == "estimated"]
    ranked = [
        replace(
            each,
            stage="compiled",
            predicted=Estimate(low=0.9 * now_s, estimate=now_s * (1 + at / 1000), high=1.1 * now_s),
        )
        for at, each in enumerate(estimated[: rivals + 1])
    ]
    answer = Answer(question, len(ranked), ranked, True)
    other = estimated[-1].experiment
    own = Own("as it is", other, 1.0, (0.9, 1.1), 2**30)
    words = best_words(answer, answer.winner, own)
    also = {0: "", 1: "; 1 other is about as good", 2: "; 2 others are about as good"}
    number = len(answer.rivals)
    assert words.startswith(begins.format(number + 2)), "with the best, and with what is as it is"
    assert words.endswith(f"{also[number]}.") or is_close(own, answer.winner)
    assert is_ahead(own, answer.winner) is gains
    offered = gain_words(answer, answer.winner, own, is_offer=True)
    assert not gains or offered.startswith(f"1 → {now_s} s")
    mine = replace(own, experiment=answer.winner.experiment)
    assert not is_ahead(mine, answer.winner), "it is the program as it is"
    assert dropped_words(mine, answer.winner) == ""


@pytest.mark.parametrize("number", [1, 3, 4])
def test_what_a_search_s_best_drops_of_changed_specs_is_named(found, number):
    (own,) = [each for each in found if each.point.kind == AS_EXPORTED]
    paths = [leaf.path for leaf in own.experiment.exported.described.arguments][:number]
    changed = own.experiment.vary(specs={path: [] for path in paths})
    words = dropped_words(Own("as it is", changed), own)
    assert words.startswith("Using it drops your changes of ")
    assert all(path in words for path in paths[:3]) and (paths[-1] in words) is (number < 4)
    kept = replace(own, point=replace(own.point, specs=changed.specs))
    assert dropped_words(Own("as it is", changed), kept) == ""


def test_the_order_in_which_specs_were_given_makes_no_other_program(found):
    base = next(each.experiment for each in found if each.point.kind == AS_EXPORTED)
    one, other = [leaf.path for leaf in base.exported.described.arguments][:2]
    specs = {one: [], other: []}
    now, then = base.vary(specs=specs), base.vary(specs=dict(reversed(specs.items())))
    assert now != then and now.is_alike(then), "as two presses give them"
    assert not now.is_alike(base.vary(specs={one: []}))
    every = f"{one.rpartition('/')[0]}/*"
    first, second = {every: [], one: [["fsdp"]]}, {one: [["fsdp"]], every: []}
    assert not base.vary(specs=first).is_alike(base.vary(specs=second)), "the first counts"


@pytest.mark.parametrize("others", [(), ("embed",), ("embed", "up")])
@pytest.mark.parametrize("named", [0, 1, 3])
def test_specs_that_the_file_has_anyway_make_no_other_program(found, named, others):
    base = next(each.experiment for each in found if each.point.kind == AS_EXPORTED)
    program = base.exported
    leaves = [leaf for leaf in program.described.arguments if any(program.spec(leaf))]
    own = {leaf.path: [list(axes) for axes in program.spec(leaf)] for leaf in leaves[:named]}
    changed = {leaf.path: [[]] * len(leaf.sizes) for leaf in leaves[named : named + len(others)]}
    now, least = base.vary(specs=own | changed), base.vary(specs=changed)
    assert now.is_alike(least) and least.is_alike(now)
    assert now.without_own_specs() == least
    assert now.is_alike(base) is (not others)
