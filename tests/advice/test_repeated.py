"""What repeated work costs, and what mends it, in words; little of it is a note, or nothing."""

import pytest

from spmd_core.advice import costs_words
from spmd_core.advice.programs import compiled_findings
from spmd_core.facts import Accident, AxisOrigin
from spmd_core.results import StrategyResult
from spmd_core.runs import Partitioned


def repeated(**more):
    return Accident(kind="repeated_work", axes=("x",), source="f.py:3", work=4.0, **more)


def taking(products, rest, **more):
    """A partitioned program with so much of its step in products, and repeated work."""
    shares = {"matmul": products, "exposed: x": rest}
    return Partitioned(collectives=(), accidents=(repeated(**more),), shares_s=shares)


@pytest.mark.parametrize(
    ("more", "ends"),
    [
        ({"in_map": True}, "in a shard_map: 4 times the work, 75% of a device's matmul FLOPs are "
         "surplus; divide an operand over `x` in in_specs, and the result in out_specs"),
        ({"lost_at": "f.py:2", "lost_by": "reshape", "spec": (("x",), ())},
         "an operand of it has `x`, `reshape` at f.py:2 loses it: constrain its result to P('x', None)"),
        ({"lost_at": "f.py:2", "lost_by": "reshape", "spec": (("x",), ()), "origin": (
            AxisOrigin(axis="x", kind="argument", name="a", spec=(("x",),)),)},
         "argument `a` P('x') has `x`, `reshape` at f.py:2 loses it: constrain its result to P('x', None)"),
        ({"spec": ((), ("x",))}, "no dim of its result is sharded over `x`: try P(None, 'x')"),
        ({"dropped_at": "f.py:1", "spec": (("x",),)},
         "the constraint of f.py:1 drops it: constrain it to P('x')"),
        ({}, "75% of a device's matmul FLOPs are surplus; shard a dim of their operands over it"),
    ],
)  # fmt: skip
def test_repeated_work_has_its_cause_and_what_mends_it(more, ends):
    (found,) = compiled_findings(StrategyResult(status="ok", accidents=(repeated(**more),)))
    assert found.sentence.startswith("devices along `x` compute the same at f.py:3")
    assert found.sentence.endswith(ends)
    at = more.get("dropped_at") or more.get("lost_at") or "f.py:3"
    assert dict(found.specs) == ({f"@{at}": more["spec"]} if "spec" in more else {})


@pytest.mark.parametrize("products", [0.9, 0.5])
def test_it_costs_its_share_of_the_step(products):
    of = taking(products, 1 - products)
    assert costs_words("repeated_work", "f.py:3", of) == (
        f"4 times the work, about {0.75 * products:.0%} of the step"
    )
    plain = StrategyResult(status="ok", accidents=(repeated(),))
    assert costs_words("repeated_work", "f.py:3", plain) == "4 times the work"


@pytest.mark.parametrize(
    ("products", "is_minor", "listed"),
    [(0.5, True, [True]), (0.05, True, []), (0.05, False, [False]), (0.07, True, [True])],
)
def test_minor_work_is_a_note_from_a_twentieth_of_the_step(products, is_minor, listed):
    found = compiled_findings(taking(products, 1 - products, is_minor=is_minor))
    assert [each.is_note for each in found] == listed


def test_minor_work_of_a_step_without_a_time_is_not_listed():
    of = StrategyResult(status="ok", accidents=(repeated(is_minor=True), repeated(in_map=True)))
    assert [each.is_note for each in compiled_findings(of)] == [False]
