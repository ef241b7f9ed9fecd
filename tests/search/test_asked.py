"""What may be asked of a search: each bad word is one sentence, and each limit is kept."""

import json
import math
from dataclasses import replace

import pytest

from spmd_core.answers import search_lines as lines
from spmd_core.base import RequestError, seconds_text
from spmd_core.facts import Estimate
from spmd_core.search import (
    Answer,
    Space,
    bytes_of,
    price_example,
    read_array_question,
    read_prices,
    read_question,
)
from spmd_core.search.link import decode, encode, question_of
from spmd_core.search.models import candidates
from spmd_core.surveys import search as words
from spmd_core.trials.searching.behind import scaled, scales
from spmd_core.trials.searching.outcomes import restored, to_stored, within

MLP = {
    "workload": "mlp",
    "target": "cpu:8",
    "mesh": None,
    "sharding": None,
    "dims": {"batch": 64, "in": 16, "hidden": 32, "out": 16},
}
MODEL = {
    "model": "scaled:1",
    "chips": ["v5e:4x4"],
    "global_batch": 32,
    "remat": ["full"],
    "offload": False,
}


def answer_of(asked, **changes) -> Answer:
    question = read_array_question(asked, **changes)
    space = Space(question, 2)
    return Answer(question, space.size, tuple(space.candidates()), False)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            {"fixed": {"data": 2, "tensor": 16}},
            "data=2 and tensor=16 do not divide the devices of these chips (16): use sizes",
        ),
        ({"fixed": (("data", 4), ("data", 8))}, "mesh axis 'data' appears twice: use"),
        ({"global_batch": 0}, "global_batch=0 is too small: use at least 1"),
        ({"global_batch": 2**24 + 1}, "global_batch=16777217 is too large: use at most 16777216"),
        ({"chips": []}, "chips names nothing: name at least one"),
        ({"chips": ["v5e:4x4"] * 99}, "names too many: name at most 64"),
        (
            {"price": {"v5p": 4.2}},
            "price v5p=4.2 is of chips that are not asked for: leave it out, or give one of v5e",
        ),
        ({"price": (("v5e", 1.0), ("v5e", 2.0))}, "price v5e=1 is one of several for v5e: give"),
        ({"minimize": "price"}, "minimize=price needs one for v5e: add the price"),
        ({"chips": ["v5e:１６"]}, "is not a number of chips: write for example v5p:64"),
        ({"colour": 1}, "colour=1 is not part of a search"),
    ],
)
def test_a_bad_word_of_a_model_s_question_is_value_rule_and_fix(more, sentence):
    with pytest.raises(RequestError) as caught:
        read_question(MODEL | more)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("gib", [0, -3, math.nan, math.inf, 1e300])
def test_a_memory_that_no_device_has_is_refused(gib):
    with pytest.raises(RequestError, match="is not a limit of a device: use more than 0"):
        bytes_of(gib)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"sharding": 5}, "sharding=5 is not an object: write for example"),
        ({"sharding": {"rows": "x"}}, "sharding of 'rows' names no dim of mlp: use"),
        ({"overrides": {"w9": ["x"]}}, "w9"),
        ({"sharding": {"batch": ["x", "x"]}}, "used twice on dim batch"),
    ],
)
def test_what_stays_put_is_checked_before_anything_is_searched(more, sentence):
    with pytest.raises(RequestError, match=sentence):
        read_array_question(MLP | more)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"minimize": "price"}, "minimize=price has no price for cpu:8: name topologies"),
        ({"price": {"v5e": 1.0}}, "price v5e=1 is of chips that are not asked for: leave it out"),
        ({"minimize": "speed"}, "minimize='speed' is not valid"),
        ({"memory_bytes": 0}, "memory_bytes=0 is too small: use at least 1"),
    ],
)
def test_a_link_of_a_computation_s_question_is_refused_in_a_sentence(more, sentence):
    with pytest.raises(RequestError, match=sentence):
        question_of(
            {
                "kind": "array",
                "spec": {"workload": "mlp"},
                "targets": ["cpu:8"],
                "searched": ["mesh"],
                **more,
            }
        )


def test_an_operand_stays_put_while_the_others_are_searched():
    free, put = answer_of(MLP), answer_of(MLP | {"overrides": {"w1": [None, "x"]}})
    assert put.found and all(
        ("w1", ((), ("x",))) in each.point.sharded.overrides for each in put.found
    )
    assert all(each.experiment.overrides for each in put.found[:3])
    meshes = {each.name.split(" · ")[0] for each in put.found}
    assert {"x=8", "x=2,y=4", "x=2,y=2,z=2"} <= meshes
    tables = {each.point.sharded.table for each in put.found}
    assert len(tables) > 10 and put.space <= free.space


def test_memory_per_device_is_a_limit_of_computations_too():
    free = answer_of(MLP)
    most = free.winner.memory_bytes
    tight = answer_of(MLP, memory_bytes=most - 1)
    held = [each for each in tight.found if each.reason == "does not fit"]
    assert held and "allowed" in words.rule_words(held[0].detail)
    assert all(each.memory_bytes < most for each in tight.found if each.is_ranked)
    assert decode(encode(tight.question)) == tight.question
    # the id of a question without a limit is that of before there were any
    assert "memory_bytes" not in free.question.to_json()
    measured = replace(free.winner, stage="measured", measured_s=1.0)
    assert within(measured, most).stage == "measured"
    assert within(measured, most - 1).reason == "does not fit"


@pytest.mark.parametrize(
    ("text", "wanted", "read"),
    [
        ("4.2", ["v5e"], {"v5e": 4.2}),
        (" 4.2 ", ["v5e", "v6e", "v5e"], {"v5e": 4.2, "v6e": 4.2}),
        ("v5e=1.2, v6e=2.7", ["v5e", "v6e"], {"v5e": 1.2, "v6e": 2.7}),
        ("", ["v5e"], {}),
    ],
)
def test_a_price_without_a_name_is_that_of_every_kind_of_chip(text, wanted, read):
    assert dict(read_prices(text, wanted)) == read
    assert read_prices(price_example(wanted).rpartition(", or ")[2], wanted)


@pytest.mark.parametrize(
    ("text", "wanted"), [("v5e", ["v5e", "v6e"]), ("v5e=", ["v5e"]), ("4.2", [])]
)
def test_a_text_that_is_no_price_is_refused_with_one_that_is(text, wanted):
    with pytest.raises(RequestError, match="is not a number per generation: write for example v5"):
        read_prices(text, wanted)


def test_price_of_a_computation_is_that_of_its_chips():
    asked = MLP | {
        "target": ["tpu:v5e:2x2", "tpu:v6e:2x2"],
        "dims": {"batch": 8192, "in": 4096, "hidden": 8192, "out": 4096},
    }
    more = {"minimize": "price", "price": read_prices("v5e=1, v6e=100")}
    assert answer_of(asked).winner.target == "tpu:v6e:2x2"
    cheap = answer_of(asked, **more)
    assert cheap.winner.target == "tpu:v5e:2x2"
    front = cheap.front_of_price
    assert [each.target for each in front] == ["tpu:v6e:2x2", "tpu:v5e:2x2"]
    assert "for a million calls" in words.search_headline(cheap)


def test_the_counts_add_up_to_the_space_and_are_said():
    question = read_question(MODEL | {"fixed": {"data": 2}})
    found = tuple(candidates(question))
    answer = Answer(question, len(found) + 7, found, False)
    assert f"a quick estimate of every mesh and batch chose these {len(found):,}." in (
        words.state_words(answer)
    )
    partial = replace(answer, is_partial=True)
    assert words.state_words(partial) == "Stopped early: 7 candidates were not looked at."
    assert words.state_words(replace(answer, space=len(found), complete=True)).startswith(
        "Complete"
    )
    assert sum(answer.counts.values()) == answer.space and answer.counts["not looked at"] == 7
    assert answer.counts["pruned"] == sum(answer.pruned.values())
    assert words.answer_json(answer)["counts"] == answer.counts
    said = words.space_words(answer)
    assert said in lines(answer, 3) and "7 not looked at" in said
    assert f"{answer.counts['estimated']:,} only estimated" in said


def test_a_measured_time_is_not_set_against_an_estimate():
    answer = answer_of(MLP)
    winner, other = (entry.candidate for entry in answer.ranking[:2])
    slow = replace(winner, stage="measured", measured_s=1e3 * winner.seconds)
    answer = Answer(answer.question, 2, [slow, other], False)
    assert words.why_not(answer, other).startswith(
        f"{other.name}: {seconds_text(other.seconds)} estimated ("
    )
    assert "not compared, since only it is an estimate" in words.why_not(answer, other)
    assert words.sure_words(answer) == (
        "1 of 2 measured: nothing compared yet. 1 is only estimated, to be faster; "
        "by its range it could win."
    )


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (
            1,
            "1 of 40 compiled: nothing compared yet. 39 are only estimated, none of them to be faster.",
        ),
        (
            4,
            "Predicted from the compiled program: no other of the 4 compiled is as good. 36 are on",
        ),
        (40, "Predicted from the compiled program: no other of the 40 compiled is as good."),
    ],
)
def test_a_verdict_is_of_what_was_compared(known, said):
    answer = answer_of(MLP)
    few = [entry.candidate for entry in answer.ranking][:40]
    found = [
        replace(
            each, stage="compiled" if at < known else "estimated", predicted=exact(1.0 + at / 10)
        )
        for at, each in enumerate(few)
    ]
    assert words.sure_words(Answer(answer.question, 40, found, False)).startswith(said)


def test_estimates_are_scaled_by_what_is_known_of_their_target():
    found = [each for each in answer_of(MLP).found if each.stage == "estimated"]
    assert scales(found) == {} and scaled(found, {}) == tuple(found)
    known = [
        replace(each, stage="measured", measured_s=times * sum(dict(each.parts).values()))
        for each, times in zip(found, (10.0, 20.0, 60.0), strict=False)
    ]
    scale = scales([*known, *found[3:]])["cpu:8", False]
    assert (scale.least, scale.median, scale.most, scale.count) == (
        *map(pytest.approx, (10.0, 20.0, 60.0)),
        3,
    )
    now = scaled([*known, *found[3:]], {("cpu:8", False): scale})
    assert list(now[:3]) == known, "what is known stays as it is"
    for before, after in zip(found[3:], now[3:], strict=True):
        assert after.predicted.estimate == pytest.approx(20 * before.predicted.estimate)
        assert after.span == pytest.approx((10 * before.span[0], 60 * before.span[1]))
    assert "20.00 times its formula's time" in words.rule_words(scale.fact("cpu:8"))
    elsewhere = scaled(found, {("tpu:v5e:2x2", False): scale})
    assert elsewhere == tuple(found), "another target's programs say nothing of this one's"
    bound = replace(found[0], bound_s=1e9)
    assert scaled([bound], {("cpu:8", False): scale})[0].seconds == 1e9


def test_a_tie_has_no_winner_in_any_sentence_and_reasons_are_of_what_was_compiled():
    question = read_question(MODEL | {"chips": ["v5e:2x4"], "global_batch": 16})
    answer = Answer(question, 9, tuple(candidates(question)), True)
    first, other = (entry.candidate for entry in answer.ranking[:2])
    assert other in answer.ties
    said = [*lines(answer, 3), words.why_not(answer, first), words.why_not(answer, other)]
    assert f"{len(answer.rivals)} other meshes or batches could win" in said[0]
    meshes = [each.plan.mesh for each in (answer.winner, *answer.rivals)]
    assert len(set(meshes)) == len(meshes) > 1  # and not its own policies
    assert words.next_label(answer) == "Compile the best 4"
    assert words.next_label(answer).lower() in words.next_words(answer)
    assert "first of those that tie" in said[-2]
    ranked = [entry.candidate for entry in answer.ranking if not entry.alike]
    for left in (0, 1, 9):
        at = len(ranked) - left
        found = [*(replace(each, stage="compiled") for each in ranked[:at]), *ranked[at:]]
        some = Answer(question, len(found), found, False)
        few = min(left, 4)
        assert some.next_compiles == few
        assert words.next_words(some) == (
            f"Next: search on, to compile the next {few}." if few else ""
        )
        assert words.next_label(some) == (f"Compile the next {few}" if few else "Search again")
    assert not any("winner" in each for each in said)
    waits = [(("matmul", 1.0), ("wait: all-gather", wait)) for wait in (0.0, 2.0)]
    one, slow = (
        replace(each, stage="compiled", parts=parts, tokens=1, predicted=exact(1.0 + parts[1][1]))
        for each, parts in zip((first, other), waits, strict=True)
    )
    assert words.beats(one, slow).startswith(
        f"Beats {slow.name} by 3×. 2 s less exposed all-gather"
    )
    assert restored(first, json.loads(json.dumps(to_stored(one)))).parts == one.parts
    far = replace(slow, predicted=exact(11.0))
    assert "all-gather" not in words.beats(one, far), "2 s of the 10 s between them"


def exact(seconds: float) -> Estimate:
    return Estimate(low=seconds, estimate=seconds, high=seconds)


def test_one_estimate_beats_another_only_where_their_intervals_do_not_meet():
    answer = answer_of(MLP)
    winner, other = (entry.candidate for entry in answer.ranking[:2])

    def of(seconds, off):
        span = Estimate(low=seconds / off, estimate=seconds, high=seconds * off)
        return replace(other, predicted=span)

    first = replace(winner, predicted=of(1.0, 1.1).predicted)
    assert words.beats(first, of(2.0, 1.1)).startswith(f"Beats {other.name} by 2×")
    unsure = words.beats(first, of(1.08, 1.2))
    assert unsure == f"Is about even with {other.name}, 8% apart."
    assert words.beats(first, of(1.25, 1.2)).startswith(f"May beat {other.name}")
    assert words.beats(
        replace(first, predicted=of(1.0, 1.001).predicted), of(1.01, 1.001)
    ).startswith(f"Takes the same time as {other.name}")


def test_an_empty_space_is_said_by_the_rule_that_what_keeps_the_fixed_axes_breaks():
    given = {"chips": ["h100:8"], "sequence": 32768, "global_batch": 8, "fixed": {"context": 8}}
    question = read_question(MODEL | given)
    found = tuple(candidates(question))
    said = words.search_headline(Answer(question, len(found), found, True))
    assert "context_attention=all-gather is a kernel for TPUs: use ulysses" in said


def test_the_rule_that_emptied_the_space_is_the_one_that_most_break():
    question = read_question(MODEL | {"sequence": 129, "global_batch": 3})
    found = tuple(candidates(question))
    said = words.search_headline(Answer(question, len(found), found, True))
    assert said.startswith("None of ") and "do" in said
    details = [words.rule_words(each.detail) for each in found]
    assert max(set(details), key=details.count) in said
