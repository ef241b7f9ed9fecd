"""The space of a model's training steps: what is in it, what is pruned, what the estimates are."""

import functools
import itertools
import json
import math
from dataclasses import replace

import pytest

from bench import search_bounds
from spmd_core.base import RequestError, bytes_text
from spmd_core.facts import Estimate
from spmd_core.plan import AXES, MICROBATCHES
from spmd_core.search import Answer, Candidate, models, read_question
from spmd_core.search.axis_rules import flax, maxtext, parallelism
from spmd_core.search.bounds import first_held
from spmd_core.search.candidate import has_words
from spmd_core.search.chips import factorizations, named_meshes
from spmd_core.search.models import candidate_named, candidates, space_size
from spmd_core.search.neighborhood import (
    pipeline_policies,
    policies,
    step_options,
    under_options,
)
from spmd_core.search.ranking import SAME, front, ranking, score
from spmd_core.search.standards import PIPELINE, kind_of
from spmd_core.surveys import search as words
from spmd_core.time import estimate_step
from spmd_core.words import even_words, mark_of
from spmd_core.workloads import parse_plan
from tests.cover import cover, whole

SMALL = {
    "model": "scaled:1",
    "chips": ["v5e:4x4"],
    "global_batch": 32,
    "remat": ["minimal", "full"],
    "offload": False,
}
ONE_PASS = {"microbatches": 1}  # a fifth of a space


def answer_of(**changes) -> Answer:
    return answered(json.dumps(SMALL | changes))


@functools.cache
def answered(text) -> Answer:
    asked = json.loads(text)
    question = read_question(asked)
    space = {name: each for name, each in asked.items() if name not in ("minimize", "price")}
    return Answer(question, space_size(question), found_in(json.dumps(space)), True)


@functools.cache
def found_in(space) -> tuple[Candidate, ...]:
    """Of questions that rank the same space by something else."""
    return tuple(candidates(read_question(json.loads(space))))


@pytest.fixture(scope="module")
def small() -> Answer:
    return answer_of()


def test_meshes_are_all_products_of_up_to_three_axes():
    brute = {
        tuple((name, size) for name, size in zip("abcd", sizes, strict=True) if size > 1)
        for sizes in itertools.product(range(1, 17), repeat=4)
        if math.prod(sizes) == 16
    }
    assert set(named_meshes(16, tuple("abcd"))) == {mesh for mesh in brute if len(mesh) <= 3}
    assert factorizations(1, 0) == ((),)


def test_the_space_is_meshes_times_policies_and_every_number_is_there_once(small):
    meshes = len(
        list(named_meshes(16, tuple(name for name in AXES if name not in ("expert", "context"))))
    )
    staged = 4 * len(pipeline_policies(("minimal", "full"), is_given=False))
    kept = policies(("minimal", "full"), False, True)  # in one pass or in parts, in rings or not
    assert small.space == meshes * 2 * (1 + len(MICROBATCHES)) * len(kept) + staged
    numbers = [each.number for each in small.found]
    assert sorted(numbers) == list(range(small.space))
    kinds = [kind_of(each) not in ("", PIPELINE) for each in small.found]
    assert kinds == sorted(kinds, reverse=True)  # the standard shardings first, each in its order
    split = kinds.index(False)
    assert numbers == [*sorted(numbers[:split]), *sorted(numbers[split:])]


def test_estimates_that_share_a_mesh_are_those_of_each_plan_alone():
    found = [
        each
        for each in answer_of(
            chips=["v5e:4"], global_batch=8, remat=["none", "minimal", "full"], offload=True
        ).found
        if each.is_ranked
    ]
    assert len(found) > 500
    for each in found[::37]:
        alone = estimate_step(parse_plan(each.plan.to_json()))
        assert each.predicted.estimate == pytest.approx(alone.predicted_s.estimate, rel=1e-12)
        assert each.predicted.high == pytest.approx(alone.predicted_s.high, rel=1e-12)
        assert each.memory_bytes == alone.memory_bytes.peak


def test_policies_of_a_mesh_share_its_plan(small):
    steps = [each.step for each in small.found if each.step]
    assert len({id(step.of_mesh) for step in steps}) < len(steps) / 10
    assert len({step.plan for step in steps}) == len(steps)


def test_what_is_pruned_is_pruned_for_what_it_says(small):
    for each in small.found:
        if each.reason == "does not fit":
            assert not estimate_step(each.plan).fits
        if each.reason == "equal to another by renaming":
            same = small.found[each.equal]
            assert same.stage != "pruned" or same.reason == "does not fit"
    tight = answer_of(model="scaled:16", global_batch=24)
    assert tight.pruned["does not fit"] and tight.pruned["does not divide"]


def test_nothing_that_is_pruned_could_have_won():
    """Against estimating every plan of the space by itself."""
    answer = answer_of(chips=["v5e:4"], model="scaled:2", global_batch=6, remat=["full"])
    assert answer.pruned
    best = math.inf
    for mesh in named_meshes(4, tuple(name for name in AXES if name not in ("expert", "context"))):
        plain = policies(("full",), False, True)
        for policy in [*plain, *under_options(plain, step_options({}, True))]:
            try:
                plan = parse_plan(
                    {
                        "target": "tpu:v5e:4",
                        "model": "scaled:2",
                        "mesh": mesh,
                        "batch_per_device": 1.5,
                        **policy.fields,
                    }
                )
            except RequestError:
                continue
            found = estimate_step(plan)
            best = min(best, found.predicted_s.estimate if found.fits else math.inf)
    assert answer.winner.predicted.estimate == best


def test_no_plan_is_below_its_bound_so_that_none_which_it_rules_out_could_win(small):
    ranked = [each for each in small.found if each.is_ranked]
    assert all(0 < each.bound_s < each.seconds for each in ranked)
    best = min(each.seconds / each.tokens for each in ranked)
    ruled_out = [each for each in ranked if each.bound_s / each.tokens > best]
    assert ruled_out  # and it rules something out
    assert all(each.seconds / each.tokens > best for each in ruled_out)
    for each in ranked[::97]:  # against compiling, `bench.instant_estimate` holds 40 plans
        found = estimate_step(parse_plan(each.plan.to_json()))
        assert each.bound_s <= found.bounds_s.overlapped


def test_a_rank_front_and_score_are_those_of_brute_force(small):
    ranked = [each for each in small.found if each.is_ranked]
    assert score(small.winner) < (1 + SAME) * min(score(each) for each in ranked)
    assert sum(1 + len(entry.alike) for entry in small.ranking) == len(ranked)
    for one in front(small.ranking):
        assert not any(
            other.seconds < (1 - SAME) * one.seconds and other.memory_bytes < one.memory_bytes
            for other in ranked
        )
    by_memory = ranking(ranked, "memory")[0].candidate
    assert by_memory.memory_bytes == min(each.memory_bytes for each in ranked)


def test_chips_without_a_compiler_are_ahead_of_compiled_ones_only_beyond_their_intervals():
    asked = read_question(
        SMALL | {"chips": ["v5e:8", "h100:8"], "remat": ["full"], "plan": ONE_PASS}
    )
    found = list(candidates(asked))
    known = Answer(asked, len(found), found, True)
    of = {
        chip: next(e for e in known.ranking if chip in e.candidate.target)
        for chip in ("v5e", "h100")
    }
    one, other = of["v5e"].candidate, of["h100"].candidate
    low = other.predicted.low * one.tokens / other.tokens
    high = other.predicted.high * one.tokens / other.tokens
    for seconds, first in ((1.01 * high, other), (0.99 * high, one), (low / 2, one)):
        exact = Estimate(low=seconds, estimate=seconds, high=seconds)
        compiled = replace(one, stage="compiled", predicted=exact)
        answer = Answer(asked, 2, [compiled, other], False)
        assert answer.winner.number == first.number
        assert ("ahead of all that was compiled" in words.sure_words(answer)) == (first is other)


@pytest.mark.parametrize("minimize", ["time", "chip-seconds"])
def test_what_compiles_to_much_more_than_the_best_ranks_among_the_estimates(minimize):
    known = answer_of(minimize=minimize) if minimize != "time" else answer_of()
    asked = known.question
    sure = [entry.candidate for entry in known.ranking if entry.candidate.fits == "yes"]
    best, middle, last = sure[0], sure[1], sure[-1]
    for times, order in ((5.0, [best, middle, last]), (1.01, [best, last, middle])):
        per_token = times * best.seconds / best.tokens * last.tokens
        exact = Estimate(low=per_token, estimate=per_token, high=per_token)
        found = [
            replace(best, stage="compiled", predicted=best.predicted),
            replace(last, stage="compiled", predicted=exact),
            middle,
        ]
        ranked = Answer(asked, 3, found, False).ranking
        assert [each.candidate.number for each in ranked] == [each.number for each in order]


@pytest.mark.parametrize(("minimize", "allowed"), cover(["time", "price"], [None, 12 * 2**30]))
def test_what_is_over_its_limit_by_estimate_is_last_and_what_may_not_fit_is_said(minimize, allowed):
    """The word of each is that of its memory, the JSON form's have no fourth one; and what is
    estimated below the winner has a sentence that says why it comes behind.
    """
    answer = answer_of(
        chips=["v5e:8", "v6e:8"],
        remat=["full"],
        model="scaled:2",
        memory_bytes=allowed,
        minimize=minimize,
        price={"v5e": 1.2, "v6e": 2.7},
        plan=ONE_PASS,
    )
    ranked = [entry.candidate for entry in answer.ranking]
    for each in ranked:
        limit = answer.question.limit(each.plan.topology).device
        low, high = each.memory_span
        ends = {"yes": high <= limit, "likely": each.memory_bytes <= limit < high}
        assert ends.get(each.fits, low <= limit < each.memory_bytes)
        assert each.to_json()["fits"] == ("yes" if each.fits == "yes" else "likely")
    over = [each.fits == "unlikely" for each in ranked]
    assert over == sorted(over) and any(over) and answer.winner.fits == "yes"
    price = dict(answer.question.price)
    mine = score(answer.winner, minimize, price)
    less = [each for each in ranked if score(each, minimize, price) < mine]
    unsure = [each for each in less if each.fits == "likely"]
    said = words.ahead_words(answer)
    assert bool(said) == any(each.fits != "yes" for each in less)
    assert ("may not fit" in said) == bool(unsure)
    if unsure:
        least = min(score(each, minimize, price) for each in unsure)
        assert f"{1 - least / mine:.1%}" in said
    assert not said or said in words.kept_search(answer, "done", 0.0).remarks


def test_the_policies_of_a_mesh_and_batch_are_one_row(small):
    groups = small.shardings
    meshes = [(each[0].candidate.target, each[0].candidate.plan.mesh) for each in groups]
    assert len(meshes) == len(set(meshes)) > 1
    assert sum(map(len, groups)) == len(small.ranking)
    assert groups[0][0] is small.ranking[0]
    places = {id(each): at for at, each in enumerate(small.ranking)}
    assert all(sorted(group, key=lambda each: places[id(each)]) == group for group in groups)


def test_of_equal_times_the_smaller_is_first_and_the_simplest_as_good_as_the_best(small):
    most = (1 + SAME) * min(each.score for each in small.ranking)
    tied = [each.candidate for each in small.ranking if each.score < most]
    behind = small.ranking[len(tied) :]
    assert small.winner is tied[0] is min(tied, key=lambda each: each.complexity)
    for one, other in itertools.pairwise(behind):
        assert most <= one.score and (one.score, one.candidate.memory_bytes) < (
            other.score,
            other.candidate.memory_bytes,
        )


def test_a_measured_winner_is_tied_by_its_interval_alone():
    def measured(number: int, seconds: float, half: float) -> Candidate:
        return Candidate(
            number,
            f"c{number}",
            "cpu:8",
            8,
            "measured",
            measured_s=seconds,
            interval_s=(seconds - half, seconds + half),
        )

    near = [measured(0, 1.0, 0.1), measured(1, 1.15, 0.1), measured(2, 2.0, 0.1)]
    answer = Answer(read_question(SMALL), 3, near, True)
    assert [each.name for each in answer.ties] == ["c1"]


def test_pipelines_are_tried_over_slices_and_beside_fsdp_and_what_one_costs_is_said(small):
    names = {each.name.partition(" · ")[0] for each in small.found if "stage=" in each.name}
    assert names == {"stage=2,fsdp=8", "stage=4,fsdp=4", "stage=8,fsdp=2", "stage=16"}
    row = next(each for each in small.standards if each.title == PIPELINE)
    ratio = score(row.candidate) / score(small.winner)
    said = words.standard_words(small, row)
    assert (
        ratio > 1
        and f"{even_words(mark_of(1, ratio), 'the first')}, {ratio:.3g}× its time by the estimates"
        in said
    )
    over = answer_of(chips=["v5e:4x4*2"], slices="2", global_batch=64, fixed={"fsdp": 4})
    pipelines = [each for each in over.found if each.is_pipeline and each.is_ranked]
    assert {each.plan.mesh for each in pipelines} >= {
        (("stage", 2), ("fsdp", 4), ("tensor", 4)),
        (("stage", 2), ("data", 4), ("fsdp", 4)),
    }
    assert {each.plan.schedule for each in pipelines} == {"zb-h1", "interleaved", "1f1b"}
    for each in pipelines[::5]:
        assert each.seconds == estimate_step(each.plan).predicted_s.estimate


def test_fixed_stages_are_all_that_is_searched_and_none_where_they_are_one():
    fixed = answer_of(fixed={"stage": 4}, plan={"schedule": "gpipe"})
    assert {each.plan.schedule for each in fixed.found if each.is_ranked} == {"gpipe"}
    assert all(each.plan.stages == 4 for each in fixed.found if each.is_ranked)
    assert "pipeline: the first" in words.standard_words(
        fixed, next(each for each in fixed.standards if each.title == PIPELINE)
    )
    none = answer_of(fixed={"stage": 1}, remat=["full"], plan=ONE_PASS)
    assert not any("stage=" in each.name for each in none.found)
    deep = answer_of(fixed={"stage": 16}, plan={"layers": 4})
    assert "stage=16 makes 16 runs of the 4 layers" in words.search_headline(deep)


def test_what_is_fixed_stays_and_up_to_so_many_chips_means_all_of_them():
    fixed = answer_of(fixed={"data": 2, "tensor": 1}, remat=["full"], plan=ONE_PASS)
    assert all(dict(each.plan.mesh).get("data") == 2 for each in fixed.found if each.is_ranked)
    some = answer_of(chips=["v5e:..4", "v5p:8"], remat=["full"], plan=ONE_PASS)
    chips = {each.chips for each in some.found}
    assert chips == {1, 4, 8}
    kinds = {
        each.chip.generation for each in read_question(SMALL | {"chips": ["any:8"]}).topologies
    }
    assert kinds == {"v5e", "v5p", "v6e", "tpu7x"}
    slices = read_question(SMALL | {"chips": ["v5e:512"]}).topologies
    assert [each.target for each in slices] == ["tpu:v5e:16x16*2"]


def test_price_and_memory_decide_where_they_are_asked_for():
    cheap = answer_of(
        chips=["v5e:8", "v5p:8"],
        minimize="price",
        global_batch=16,
        remat=["full"],
        price={"v5e": 1.0, "v5p": 400.0},
        plan=ONE_PASS,
    )
    assert cheap.winner.target.startswith("tpu:v5e")
    small = answer_of(memory_bytes=3 * 2**30, remat=["full"], plan=ONE_PASS)
    assert all(each.memory_span[0] <= 3 * 2**30 for each in small.found if each.is_ranked)
    assert small.winner.memory_span[1] <= 3 * 2**30


def test_the_answer_in_words_and_json(small):
    said = words.search_headline(small)
    assert small.winner.name in said and "Estimated, not compiled" in said
    found = words.answer_json(small)
    assert {"space", "pruned", "winner", "ranking", "complete", "ties"} <= set(found)
    assert {
        "experiment",
        "predicted_s",
        "measured_s",
        "memory_bytes",
        "strategy",
        "plan",
        "name",
    } <= set(found["winner"])
    assert found["winner"]["name"] == found["ranking"][0]["name"]
    titles = {each.title for each in small.standards}
    assert titles == {"data", "fsdp", "tensor", "fsdp x tensor", PIPELINE}
    published = answer_of(model="scaled:32", chips=["v5p:64"], global_batch=384, plan=ONE_PASS)
    assert published.standards[-1].candidate.plan.mesh == (("fsdp", 16), ("tensor", 4))
    lost = published.ranking[-1].candidate
    assert "It first loses by" in words.why_not(published, lost)


@pytest.mark.parametrize("wide", [pytest.param(models.WIDE, marks=whole), 500])
def test_a_standard_that_does_not_fit_is_ruled_out_by_its_memory_where_the_batch_is_open(
    monkeypatch, wide
):
    monkeypatch.setattr(models, "WIDE", wide)
    answer = answer_of(model="llama-3.1-8b", chips=["v5p:8"], global_batch=None, remat=["full"])
    data = next(each for each in answer.standards if each.title == "data")
    why = words.rule_words(data.why)
    assert data.candidate is None and "GiB" in why and "batch_per_device" not in why


def test_the_winner_as_maxtext_and_flax_write_it():
    plan = parse_plan(
        {
            "target": "tpu:v5p:4x4x4*2",
            "model": "scaled:1",
            "batch_per_device": 1,
            "mesh": {"data": 2, "fsdp": 16, "tensor": 4},
            "save": ("query",),
        }
    )
    assert parallelism(plan) == {
        "ici_data_parallelism": 1,
        "dcn_data_parallelism": 2,
        "ici_fsdp_parallelism": 16,
        "ici_tensor_parallelism": 4,
        "dcn_fsdp_parallelism": 1,
    }
    assert "query_proj: device" in maxtext(plan)
    for name in ("heads", "q_heads", "kv_heads", "activation_kv_heads"):
        assert f"['{name}', ['tensor']]" in maxtext(plan), "what has no rule would be replicated"
    rules = {}
    exec(flax(plan), rules)  # what a user pastes
    assert dict(rules["rules"])["activation_batch"] == ("data", "fsdp")


def test_the_axis_of_experts_is_given_to_one_dim_of_an_array():
    plan = parse_plan(
        {
            "target": "tpu:v5p:4x4x4",
            "model": "mixtral-8x7b",
            "batch_per_device": 1,
            "mesh": {"fsdp": 8, "expert": 8},
        }
    )
    for line in (
        "['activation_batch', ['fsdp', 'expert']]",
        "['activation_batch_no_exp', ['fsdp']]",
        "['embed', ['fsdp', 'expert']]",
        "['embed_no_exp', ['fsdp']]",
        "['exp', ['expert']]",
    ):
        assert line in maxtext(plan)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"chips": ["v5p:60"]}, "is no number of chips of TPU v5p"),
        ({"chips": ["h100:99999999"]}, "chips 'h100:99999999' is no number of NVIDIA H100 SXM"),
        ({"chips": ["any"]}, "chips 'any' is not a number of chips: write for example v5p:64"),
        ({"chips": ["gpu:8"]}, "chips 'gpu:8' is not a number of chips"),
        ({"chips": ["gpu:..8"]}, "chips 'gpu:..8' is not a number of chips"),
        ({"chips": ["gpu:any:8"]}, "chips 'gpu:any:8' name no kind of GPU: use a100, h100"),
        ({"chips": ["tpu:h100:8"]}, "chips 'tpu:h100:8' name no kind of TPU: use v2"),
        ({"chips": ["v9:64"]}, "chips 'v9:64' name no kind of chips: use v2"),
        ({"fixed": {"warp": 2}}, "is not one that a decoder is sharded over"),
        ({"fixed": {"data": 512}}, "is more than the 16 devices"),
        ({"fixed": {"data": 3}}, "data=3 does not divide the devices of these chips"),
        ({"minimize": "price"}, "needs one for v5e"),
        ({"batch_per_device": 2}, "say the same twice"),
        ({"slices": "many"}, "is not a number of slices"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_in_a_sentence(changes, sentence):
    with pytest.raises(RequestError, match=sentence):
        read_question(SMALL | changes)


def test_an_empty_space_says_which_rule_emptied_it():
    none = answer_of(model="llama-3.1-405b")
    assert none.winner is None
    assert "do not fit in memory" not in (said := words.search_headline(none))
    assert "does not fit" in said and "Use more chips" in said
    least = min(each.memory_bytes for each in none.found if each.reason == "does not fit")
    assert f"the least: {bytes_text(least)} per device is more" in said


def test_a_wide_space_is_searched_from_its_best_meshes_on(monkeypatch):
    asked = {"model": "scaled:1", "chips": ["v5e:8", "v5e:4"], "remat": ["full"]}
    asked |= {"offload": False, "batch_per_device": 1.0, "plan": ONE_PASS}
    asked = read_question(asked)
    best = min(each.seconds / each.tokens for each in sure(models.candidates(asked)))
    monkeypatch.setattr(models, "WIDE", 300)
    found = list(models.candidates(asked))
    assert len(found) <= 300 < models.space_size(asked)
    assert len(found) == len({each.number for each in found})
    assert {(each.chips, kind_of(each)) for each in found} >= set(
        itertools.product((4, 8), ("data", "fsdp", "tensor", "fsdp x tensor"))
    ), "and each standard sharding of each is there, whether it can win or not"
    assert {each.chips for each in found} == {4, 8}, "each topology keeps some"
    assert min(each.seconds / each.tokens for each in sure(found)) <= 1.01 * best


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=whole),
        pytest.param({"chips": ["v5e:4"], "global_batch": None, "offload": False}, marks=whole),
        pytest.param(
            {"model": "qwen3-30b-a3b", "chips": ["tpu7x:8"], "offload": False}, marks=whole
        ),
        pytest.param({"minimize": "memory", "chips": ["v5e:8"], "offload": False}, marks=whole),
        {"minimize": "memory", "offload": False, "plan": ONE_PASS},
    ],
)
def test_coarse_to_fine_finds_the_winner_of_all_with_fewer_looks(monkeypatch, changes):
    asked = read_question(
        {"model": "scaled:1", "chips": ["v5e:4"], "global_batch": 16, "remat": ["none", "full"]}
        | changes
    )
    every = list(models.candidates(asked))
    monkeypatch.setattr(models, "WIDE", models.space_size(asked) - 1)
    found = list(models.candidates(asked))

    def best(candidates):
        first = {}
        for each in sure(candidates):
            cost = score(each, asked.minimize)
            first[each.target] = min(cost, first.get(each.target, cost))
        return first

    assert best(found) == best(every) != {}
    assert len({each.number for each in found}) == len(found) < len(every)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "gemma-3-12b", "chips": ["tpu7x:8"]},  # weights pass in rings
        pytest.param({"model": "gpt-oss-20b", "chips": ["v6e:16"]}, marks=whole),
        {"model": "llama-3.1-8b", "chips": ["h100:8"]},
        {"plan": {"microbatches": 2}, "chips": ["v5e:8"]},
    ],
)
def test_no_policy_of_a_mesh_is_below_the_bound_by_which_meshes_are_left_out(changes):
    asked = {"model": "scaled:1", "global_batch": 16, "offload": False, "sequence": 4096}
    points = [*models.points_of(read_question(asked | changes))]
    known = 0
    for point in points[:: max(1, len(points) // 20)]:
        if first_held([point]):
            assert [*search_bounds.broken(point)] == []
            known += any(each.is_ranked for each in models._tried(point, {}))
    assert known > 3


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(each, marks=whole) for each in range(2, 60))]
)
def test_no_bound_of_a_drawn_point_denies_one_of_its_policies(seed):
    points = search_bounds.points(seed, most=2)
    assert points and [said for each in points for said in search_bounds.broken(each)] == []


HOLDS = (
    {"model": "scaled:1", "chips": ["v5e:8"]},
    {"model": "gemma-3-12b", "chips": ["v6e:16"], "sequence": 8192},
    {"model": "mixtral-8x7b", "chips": ["v5p:16"], "fixed": {"sequence": 1}},
    {"model": "llama-3.1-8b", "chips": ["h100:16"], "fixed": {"stage": 2}},
)
REMATS = (["minimal", "full"], ["none", "full"], ["none"], ["full"])


@pytest.mark.parametrize(("changes", "offload", "remat"), cover(HOLDS, [True, False], REMATS))
def test_no_batch_that_fits_under_any_policy_is_left_out(changes, offload, remat):
    asked = read_question({"remat": remat, "offload": offload, "sequence": 4096} | changes)
    points = [*models.points_of(asked)]
    held = lost = 0
    for point in points[:: max(1, len(points) // 40)]:
        if any(each.fits != "no" and each.is_ranked for each in models._tried(point, {})):
            held += 1
            lost += first_held([point]) is None
            # after a batch that no device holds
            lost += first_held([replace(point, per_device=64.0), point]) is None
    assert not lost and (held or remat == ["none"])


def test_a_wide_space_answers_before_every_mesh_was_looked_at():
    asked = read_question({"model": "deepseek-v3-671b", "chips": ["tpu7x:256"]})
    found = []
    for each in models.candidates(asked, lambda: bool(found)):
        found.append(each)
    assert 0 < len(found) < 1000 and models.space_size(asked) > 2_000_000


def test_what_a_wide_space_leaves_out_is_answered_by_its_name(monkeypatch):
    asked = {"model": "scaled:1", "chips": ["v5e:4"], "remat": ["none", "full"]}
    asked = read_question(asked | {"global_batch": 16, "plan": ONE_PASS})
    every = {each.name: each for each in candidates(asked)}
    monkeypatch.setattr(models, "WIDE", 150)
    looked = {each.name for each in candidates(asked)}
    left_out = [each for name, each in every.items() if name not in looked and each.step]
    assert {each.stage for each in left_out} == {"estimated", "pruned"}
    for each in left_out[::40]:
        wanted = each.name.replace(" · ", " ").split()
        found = candidate_named(asked, wanted)
        assert found and found.seconds == every[found.name].seconds
        assert all(word in found.name for word in wanted)
    assert candidate_named(asked, ["fsdp=3"]) is None
    assert any("tensor=4" in name for name in every) and not has_words("data=16 · full", ["data=1"])
    assert candidate_named(asked, ["tens"]) is None, "words are whole"


def sure(found):
    return [each for each in found if each.is_ranked and each.fits == "yes"]


def test_every_policy_has_a_name_of_its_own_and_the_last_offloads_everything():
    for post_norms in (False, True):
        every = policies(("none", "minimal", "full"), True, True, post_norms)
        names = [each.words for each in every]
        assert len(set(names)) == len(names)
        assert ("minimal; save attention" in names) is post_norms
        assert not every[-1].save and len(every[-1].offload) == 8


@pytest.mark.parametrize("chips", ["gpu:h100:8x8", pytest.param("v5p:4x4x4", marks=whole)])
def test_no_candidate_of_a_search_offloads_more_than_its_host_has(chips):
    asked = {"model": "llama-3.1-70b", "chips": [chips], "sequence": 8192}
    asked |= {"global_batch": None, "batch_per_device": 8.0, "offload": True}
    answer = answer_of(**asked, remat=["full"], fixed={"data": 1}, plan=ONE_PASS)
    rows = [each.to_json() for each in answer.found if each.step]
    assert all(
        row["host_bytes"] <= row["host_capacity_bytes"] for row in rows if row["fits"] != "no"
    )
    refused = [row for row in rows if row["host_bytes"] > row["host_capacity_bytes"]]
    assert refused and {row["fate"] for row in refused} == {"pruned"}
    over = [each for each in answer.found if "host memory" in words.rule_words(each.detail)]
    assert len(over) == len(refused)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "qwen3-30b-a3b", "chips": ["v5p:8"], "sequence": 16384, "plan": ONE_PASS},
        pytest.param({"model": "llama-3.1-8b", "chips": ["v5p:8"], "sequence": 8192}, marks=whole),
    ],
)
def test_the_first_batch_that_a_device_may_hold_is_that_of_one_by_one(changes):
    every = models.points_of(read_question(changes))
    meshes = [list(each)[::-1] for _, each in itertools.groupby(every, lambda point: point.mesh)]
    found = []
    for points in meshes:
        alone = [first_held([each]) for each in points]
        first = next((at for at, each in enumerate(alone) if each), None)
        held = first_held(points)
        assert (held and (held.at, held.least)) == (
            None if first is None else (first, alone[first].least)
        )
        found.append(first)
    assert len({*found}) > 2 and None in found


def test_copies_of_a_plan_keep_what_its_policy_does_not_change():
    given = {"target": "tpu:v5e:4x4", "model": "scaled:1", "batch_per_device": 2}
    plan = parse_plan(given | {"mesh": {"fsdp": 4, "tensor": 4}})
    saving = plan.model_copy(update={"remat": "none"})
    assert saving.basis is plan.basis and saving != plan
    wider = plan.model_copy(update={"mesh": (("fsdp", 16),)})
    assert wider.axis_sizes == {"fsdp": 16} and wider.basis.plan is wider
    assert estimate_step(wider) == estimate_step(parse_plan(wider.to_json()))


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"fixed": {"stage": 64}}, "stage=64 makes 64 runs of the 32 layers of llama-3.1-8b: use"),
        ({"fixed": {"context": 8}, "sequence": 3000}, "sequence=3000 does not divide into blocks"),
    ],
)
def test_a_wide_space_that_a_rule_empties_names_the_rule(more, rule):
    asked = read_question({"model": "llama-3.1-8b", "chips": ["v5e:64"]} | more)
    answer = Answer(asked, space_size(asked), tuple(candidates(asked)), True)
    assert space_size(asked) > models.WIDE and answer.winner is None
    assert rule in words.search_headline(answer)
