"""Candidates that are estimated by their partitioned programs, and those that constrain a value."""

import time
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from bench.exported import sgd_step
from spmd_core.base import RequestError, WorkerError
from spmd_core.facts import Estimate
from spmd_core.lab import COMMAND_LINE
from spmd_core.results import Operation
from spmd_core.roofline import time_model
from spmd_core.runs import Partitioned, Requested
from spmd_core.search import Answer, ProgramSpace, read_array_question, rules_text, with_constraint
from spmd_core.surveys.search import best_words
from spmd_core.trials.searching import search as search_module
from spmd_core.trials.searching.behind import scaled, scales
from spmd_core.trials.searching.choice import CandidateChoice
from spmd_core.trials.searching.outcomes import restored_constraints, to_stored
from spmd_core.trials.searching.partitioning import open_candidates, partitioned
from spmd_core.trials.searching.search import Search
from spmd_core.workloads import programs
from tests.labs import experiment

pytestmark = pytest.mark.usefixtures("read_here")
GATHER = Requested(kind="all-gather", axes=("fsdp",), bytes=2**20, count=3)
PRODUCT = Operation(kind="matmul", sizes=(256, 256, 256), count=2)


@cache
def _program():
    return programs.take(sgd_step()).program


def _question(target):
    spec = {"workload": "program_file", "program": _program()}
    return read_array_question(spec | {"mesh": None, "specs": None, "target": target})


def _candidates(target="cpu:8"):
    return list(ProgramSpace(_question(target), 2).candidates())


def _lab(*operations, asked=None):
    def partition(experiment, asker):
        (asked if asked is not None else []).append(experiment.target)
        return Partitioned(collectives=(GATHER,), operations=operations or None)

    return SimpleNamespace(hardware=lambda: SimpleNamespace(cores=2), partition=partition)


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4"])
def test_an_estimate_is_of_what_the_program_computes_and_moves(target):
    asked, listed = [], open_candidates(_candidates(target))
    first = next(each for each in listed if dict(each.point.mesh)["fsdp"] > 1)
    found = partitioned(_lab(PRODUCT, asked=asked), first, {}, COMMAND_LINE)
    parts = dict(found.parts)
    assert asked == ["cpu:8"] and found.partitioned and found.stage == "estimated"
    assert parts["compute"] > 0 and parts["communication"] > 0 and parts["memory"] == 0
    assert found.seconds == sum(parts.values())
    more = partitioned(_lab(PRODUCT, PRODUCT), first, {}, COMMAND_LINE)
    assert dict(more.parts)["compute"] == pytest.approx(2 * parts["compute"])


def test_a_program_whose_operations_are_not_listed_keeps_its_estimate():
    first = open_candidates(_candidates())[0]
    assert partitioned(_lab(), first, {}, COMMAND_LINE) == first


def test_what_is_partitioned_is_ranked_and_tried_first():
    candidates = _candidates()
    last = open_candidates(candidates)[-1]
    slow = Estimate(low=10.0, estimate=20.0, high=40.0)
    known = [
        replace(each, partitioned=True, predicted=slow) if each is last else each
        for each in candidates
    ]
    answer = Answer(_question("cpu:8"), len(known), tuple(known), True)
    assert answer.ranking[0].candidate.number == last.number
    choice = CandidateChoice(answer.question, len(known), False)
    assert [each.number for each in choice.next(answer)] == [last.number]
    assert last.number not in {each.number for each in open_candidates(known)}


def _priced(each, compute, memory, communication, measured_s=None):
    parts = {"compute": compute, "memory": memory, "communication": communication}
    seconds = measured_s or sum(parts.values())
    expected = Estimate(low=seconds, estimate=seconds, high=seconds)
    own = {"stage": "measured", "measured_s": measured_s} if measured_s else {}
    return replace(each, partitioned=True, parts=tuple(parts.items()), predicted=expected, **own)


def test_of_candidates_with_like_parts_one_is_tried_before_any_other_of_them():
    first, second, other = open_candidates(_candidates())[:3]
    known = (
        _priced(first, 1.0, 1.0, 1.0),
        _priced(second, 1.01, 1.0, 1.0),
        _priced(other, 1.0, 1.0, 3.0),
    )
    answer = Answer(_question("cpu:8"), len(known), known, True)
    choice = CandidateChoice(answer.question, len(known), False)
    with mock.patch.object(Answer, "standards", ()):
        tried = [choice.next(answer)[0].number for _ in known]
    assert tried == [first.number, other.number, second.number]


def test_each_part_is_scaled_by_its_own_weight_and_one_measurement_scales_all_alike():
    one, two, three, open_one = open_candidates(_candidates())[:4]
    left = _priced(open_one, 2.0, 2.0, 1.0)
    alone = [_priced(one, 1.0, 1.0, 2.0, measured_s=8.0), left]
    assert scaled(alone, scales(alone))[1].seconds == pytest.approx(10.0)
    known = [  # ten times as long to communicate, else as priced
        _priced(one, 4.0, 1.0, 1.0, measured_s=15.0),
        _priced(two, 1.0, 4.0, 1.0, measured_s=15.0),
        _priced(three, 1.0, 1.0, 4.0, measured_s=42.0),
        left,
    ]
    (weights,) = (scale.weights for scale in scales(known).values())
    assert weights[2] > 2 * max(weights[:2]) and min(weights) >= 0
    assert scaled(known, scales(known))[3].seconds == pytest.approx(14.0, rel=0.25)


@pytest.mark.parametrize("seed", range(5))
def test_noisy_times_leave_no_part_without_a_weight_and_exact_ones_give_each_its_own(seed):
    """Noise alone would leave parts without weight, and the estimates of all candidates alike."""
    drawn = np.random.default_rng(seed)
    (first, *_) = open_candidates(_candidates())
    parts = drawn.uniform(1.0, 4.0, (14, 3))
    noisy = parts.sum(1) * drawn.lognormal(0.0, 0.5, 14)
    exact = parts @ [1.0, 1.0, 10.0]
    fitted = [
        [_priced(first, *each, measured_s=took) for each, took in zip(parts, times, strict=True)]
        for times in (noisy, exact)
    ]
    left, right = (next(iter(scales(known).values())) for known in fitted)
    assert not left.weights or min(left.weights) >= 0.05 * left.median
    assert right.weights[2] > 4 * max(right.weights[:2]), "ten times, but held near the others"


@pytest.mark.parametrize(("error", "asked"), [(RequestError, 3), (WorkerError, 1)])
def test_what_is_refused_keeps_its_estimate_and_a_process_that_ends_ends_it(error, asked):
    tried = []

    def partition(experiment, asker):
        tried.append(experiment)
        raise error("no")

    lab = _lab()
    lab.partition = partition
    search = Search(lab, SimpleNamespace(), _question("cpu:8"), 60.0)
    runs = SimpleNamespace(is_over=False)
    search._reprice(runs, open_candidates(_candidates())[:3])
    assert len(tried) == asked


def test_a_constraint_is_a_candidate_with_its_line_to_paste_and_is_found_again():
    base = open_candidates(_candidates())[0]
    added = with_constraint(base, 900, "exported.py:68", (("fsdp",), ()))
    specs = dict(added.experiment.specs)
    assert specs["@exported.py:68"] == (("fsdp",), ())
    assert added.name.endswith(" · exported.py:68 P('fsdp', None)")
    assert rules_text(added.experiment).splitlines()[-1] == (
        "# exported.py:68: about value = jax.lax.with_sharding_constraint(value, P('fsdp', None))"
    )
    stored = to_stored(replace(added, stage="measured", measured_s=1.0))
    (again,) = restored_constraints({900: stored, base.number: to_stored(base)}, [base])
    assert again.experiment == added.experiment and again.measured_s == 1.0


def test_constraints_are_numbered_beyond_the_space_and_are_not_added_again(monkeypatch):
    def constrained(lab, best, number):
        yield with_constraint(best, number, "exported.py:68", (("fsdp",), ()))

    monkeypatch.setattr(search_module, "constrained", constrained)
    first = open_candidates(_candidates())[0]
    known = Estimate(low=1.0, estimate=1.0, high=1.0)
    best = replace(first, stage="compiled", run="1", predicted=known)
    runs, kept = SimpleNamespace(is_over=False), []
    store = SimpleNamespace(keep_outcomes=lambda _, listed: kept.extend(listed))
    search, again = (Search(_lab(), store, _question("cpu:8"), 60.0) for _ in range(2))
    for each in (search, again):
        each.space = 500  # of which one was looked at
        each._extend([best])
    assert search._constrain(runs) and [number for number, _ in kept] == [500]
    assert search.space == 501
    again._add(restored_constraints(dict(kept), [best]))
    assert not again._constrain(runs) and again.space == 501


@pytest.mark.parametrize(("times", "is_folded"), [(1.0, True), (1.0004, True), (0.9, False)])
def test_a_constraint_that_changes_nothing_is_no_row_of_its_own(times, is_folded):
    first, other = open_candidates(_candidates())[:2]

    def compiled(each, seconds):
        known = Estimate(low=0.9 * seconds, estimate=seconds, high=1.1 * seconds)
        return replace(each, stage="compiled", predicted=known, memory_bytes=1 << 30, run="1")

    base, slower = compiled(first, 1.0), compiled(other, 1.05)
    added = compiled(with_constraint(base, 900, "exported.py:68", (("fsdp",), ())), times)
    answer = Answer(_question("cpu:8"), 3, [added, base, slower], True)
    groups = [[entry.candidate.number for entry in group] for group in answer.shardings]
    alone = [[900], [base.number]] if times < 1 else [[base.number], [900]]
    assert groups == [*([[base.number, 900]] if is_folded else alone), [slower.number]]
    assert len(answer.rivals) == 1 + (not is_folded), "and is no other that could win"
    words = best_words(answer, answer.winner)
    assert words.startswith(f"About even with {len(answer.rivals)} other")


@pytest.mark.parametrize(("left", "is_finished"), [(0, False), (2, True), (17, False)])
def test_a_search_of_which_little_is_left_gets_the_time_for_it_once(left, is_finished):
    search = Search(_lab(), SimpleNamespace(), _question("cpu:8"), 120.0)
    search._begun, search._compiled = time.monotonic() - 115.0, 80
    first, *others = open_candidates(_candidates())
    search._candidates = [replace(first, stage="compiled"), *others[:left]]
    runs = SimpleNamespace(deadline=5.0)
    search._finish(runs)
    search._finish(runs)
    assert runs.deadline == pytest.approx(5.0 + 36.0 * is_finished)


@pytest.mark.parametrize(
    ("axes", "devices", "many"),
    [
        (("fsdp",), None, 4),
        (("tensor",), None, 2),
        (("fsdp", "tensor"), None, 8),
        ((), 4, 4),
        ((), None, 8),
    ],
)
def test_simulated_devices_wait_for_each_of_their_group(axes, devices, many):
    mesh = (("fsdp", 4), ("tensor", 2))
    times = time_model(experiment(), None, cores=2)
    found = times.collective("all-gather", mesh, axes, 0.0, devices=devices)
    pair = times.collective("all-gather", mesh, ("tensor",), 0.0)
    assert found.seconds == pytest.approx(many / 2 * pair.seconds)
