"""Answers on the collectives of a result, one for each change."""

import pytest

from bench.values import result, strategy
from spmd_core.advice import answers_of, effect_words
from spmd_core.facts import Change, Nothing, Predicted, Remedy
from spmd_core.trials import remedy_lines, with_remedies
from tests.labs import experiment

BASE = experiment(workload="contraction", dims={"rows": 64, "cols": 64}, sharding={"rows": "x"})
KINDS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")


def communication(kind, **more):
    return {"kind": kind, "axes": ["x"], "bytes": 2**20, "count": 1} | more


def remedy(after, seconds, **more):
    """A change of one dim that takes so many of 4 ms."""
    return Remedy(
        changes=(Change(field="sharding", name="rows", before=["x"], after=after),),
        experiment=BASE.vary(sharding={"cols": "x"} if after else {}),
        memory_bytes=2**20,
        predicted_s=Predicted(before=4e-3, after=seconds),
        **more,
    )


def answered(*removals, names=("auto",)):
    """A result whose collectives, one of each kind, have these answers."""
    listed = [communication(kind) for kind in KINDS[: len(removals)]]
    bare = result({name: strategy(4e-3, collectives=listed) for name in names}, experiment=BASE)
    return with_remedies(bare, {name: dict(enumerate(removals)) for name in names})


def test_a_change_that_removes_several_collectives_is_one_answer():
    found = answered(remedy([], 3e-3), remedy([], 3e-3))
    (only,) = answers_of(found, ["auto"])
    assert only.what == "all-gather over `x` and reduce-scatter over `x`"
    assert effect_words(only.removal) == (
        "no all-gather over `x` and no reduce-scatter over `x`; +1.0 MiB of peak per device; "
        "predicted 4 ms -> 3 ms"
    )
    lines = [each for each in remedy_lines(found) if each.startswith("remedy")]
    assert lines == [f"remedy, Automatic: {only.removal.sentence}"]


def test_what_replaces_collectives_is_listed_for_all_of_them():
    new = [{"kind": kind, "axes": ["x"]} for kind in ("all-to-all", "all-reduce")]
    found = answered(*(remedy([], 3e-3, new=(each,)) for each in new))
    (only,) = answers_of(found, ["auto"])
    assert ", an all-reduce over `x` and an all-to-all over `x` instead" in only.removal.sentence


def test_answers_are_ordered_by_what_they_save():
    nothing, small = Nothing(reason="nothing removes it"), Nothing(is_small=True)
    found = answered(small, nothing, remedy([], 3e-3), remedy(["y"], 1e-3))
    names = [each.what.partition(" ")[0] for each in answers_of(found, ["auto"])]
    assert names == ["all-to-all", "all-reduce", "reduce-scatter", "all-gather"]


def test_other_changes_and_other_times_stay_apart():
    found = answered(remedy([], 3e-3), remedy(["y"], 3e-3), remedy([], 2e-3))
    assert len(answers_of(found, ["auto"])) == 3


def test_strategies_that_share_an_answer_are_named_together():
    found = answered(remedy([], 3e-3), names=("auto", "explicit"))
    (only,) = answers_of(found, ["auto", "explicit"])
    assert only.strategies == ("auto", "explicit")


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_a_change_that_is_not_proven_to_help_has_one_verdict(order):
    closed = Nothing(reason="nothing is known that removes it in less time")
    maybe = [
        Nothing(reason=f"leave `in` replicated; measured {ms} ms", experiment=BASE) for ms in (2, 3)
    ]
    removals = [[closed, *maybe][at] for at in order]
    sums = {
        name: strategy(
            1e-3, collectives=[communication("all-reduce", remove=of.model_dump(mode="json"))]
        )
        for name, of in zip(("auto", "explicit", "shard_map"), removals, strict=True)
    }
    (only,) = answers_of(result(sums), tuple(sums))
    assert only.removal in maybe and only.strategies == ("auto", "explicit", "shard_map")
