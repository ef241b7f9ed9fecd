"""What only the run time knows: how long a loop is, which branch is taken, in modules by hand."""

import pytest

from spmd_core.machine import get_topology
from spmd_core.time import predict
from spmd_core.time.cost.comm import Cluster
from spmd_core.words import in_sentences

PLACES = tuple((i, j, 0, 0, 0) for i in range(2) for j in range(4))
CLUSTER = Cluster(get_topology("v5e:2x4"), PLACES)
MESH = (("x", 8),)
SUM = """
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}
"""
CONDITION = (
    "HloModule until, is_scheduled=true, num_partitions=8\n"
    + SUM
    + """
%step (v: f32[4096,1024]) -> f32[4096,1024] {
  %v = f32[4096,1024]{1,0} parameter(0)
  ROOT %n = f32[4096,1024]{1,0} negate(%v)
}

%goes_on (c: f32[4096,1024]) -> pred[] {
  %c = f32[4096,1024]{1,0} parameter(0)
  %zero = f32[] constant(0)
  %here = f32[] reduce(%c, %zero), dimensions={0,1}, to_apply=%sum
  %all = f32[] all-reduce(%here), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=%sum
  ROOT %less = pred[] compare(%all, %zero), direction=LT
}

ENTRY %main (x: f32[4096,1024]) -> f32[4096,1024] {
  %x = f32[4096,1024]{1,0} parameter(0)
  ROOT %loop = f32[4096,1024]{1,0} while(%x), condition=%goes_on, body=%step
}
"""
)
BRANCHES = (
    "HloModule either, is_scheduled=true, num_partitions=8\n"
    + SUM
    + """
%short (s: f32[1024]) -> f32[1024] {
  %s = f32[1024]{0} parameter(0)
  ROOT %few = f32[1024]{0} all-reduce(%s), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=%sum
}

%long (l: f32[1048576]) -> f32[1024] {
  %l = f32[1048576]{0} parameter(0)
  %many = f32[1048576]{0} all-reduce(%l), channel_id=2, replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=%sum
  ROOT %part = f32[1024]{0} slice(%many), slice={[0:1024]}
}

ENTRY %main (which: pred[], x: f32[1024], y: f32[1048576]) -> f32[1024] {
  %which = pred[] parameter(0)
  %x = f32[1024]{0} parameter(1)
  %y = f32[1048576]{0} parameter(2)
  ROOT %either = f32[1024]{0} conditional(%which, %x, %y), true_computation=%short, false_computation=%long
}
"""
)


def test_a_sum_in_a_condition_costs():
    found = predict(CONDITION, CLUSTER, {}, MESH)
    (collective,) = found.collectives
    assert (collective.kind, collective.count, collective.bytes, collective.bytes_total) == (
        "all-reduce",
        None,
        4,
        None,
    )
    assert (
        found.predicted_s is not None
        and collective.seconds is not None
        and collective.seconds_total is None
    )
    # asked before the one turn that is counted, and after it
    assert found.predicted_s.estimate > 2 * collective.seconds


def test_a_condition_runs_once_more_than_its_body():
    known = CONDITION.replace(
        "body=%step", 'body=%step, backend_config={"known_trip_count":{"n":"5"}}'
    )
    (collective,) = predict(known, CLUSTER, {}, MESH).collectives
    assert (collective.count, collective.bytes_total) == (6, 24)
    assert collective.seconds is not None
    assert collective.exposed_total_s == pytest.approx(6 * collective.seconds)


def test_of_two_branches_the_longest_is_counted_and_both_are_listed():
    found = predict(BRANCHES, CLUSTER, {}, MESH)
    assert [(each.name, each.count) for each in found.collectives] == [
        ("few", None),
        ("many", None),
    ]
    few, many = found.collectives
    assert found.predicted_s is not None and few.seconds is not None and many.seconds is not None
    assert many.seconds <= found.predicted_s.estimate < many.seconds + few.seconds
    assert few.bound_s is not None and few.bound_s <= found.predicted_s.low < many.seconds
    assert any(
        "which branch of either runs is not in the program" in note
        for note in in_sentences(found).notes
    )


def test_exposed_is_never_longer_than_the_collective():
    for text in (CONDITION, BRANCHES):
        for each in predict(text, CLUSTER, {}, MESH).collectives:
            assert each.seconds is not None and each.exposed_s is not None
            assert 0 < each.exposed_s <= each.seconds
