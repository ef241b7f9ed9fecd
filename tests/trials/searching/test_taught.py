"""What a compiled plan teaches of its neighbors' memory."""

from dataclasses import replace

from spmd_core.search import models
from spmd_core.search.question import read_question
from spmd_core.trials.searching.taught import taught

QUESTION = read_question(
    {"model": "scaled:1", "chips": ["v5e:2x2"], "global_batch": 16, "remat": ["full"]}
)


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
