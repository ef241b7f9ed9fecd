"""Which instructions are collectives, which only finish or carry them on, in the module of a loop
that overlaps a gather.
"""

import pytest

from spmd_core.machine import get_topology
from spmd_core.program import is_done, kind_of, rendezvous
from spmd_core.program.hlo.text import parse_instruction, parse_module
from spmd_core.time.cost.clocks import ReadyAt, cause_of, latest
from spmd_core.time.cost.comm import Cluster, channels_passed, find
from tests.time.cost.programs import LOOP

POD = Cluster(
    get_topology("v5e:16x16"), tuple((i, j, 0, 0, 0) for i in range(16) for j in range(16))
)


def test_kinds_are_told_by_opcode():
    assert [
        kind_of(text) for text in ("all-gather-start", "all-reduce", "all-gather-done", "fusion")
    ] == ["all-gather", "all-reduce", None, None]


def test_a_gather_in_fusions_starts_once_is_carried_and_is_finished():
    module = parse_module(LOOP)
    roles = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            comm = (
                find(module, instruction, computation, POD)
                if instruction.opcode == "fusion"
                else None
            )
            if comm is not None:
                roles["starts"] = (comm.kind, comm.nbytes, comm.asynchronous, len(comm.group))
            if instruction.opcode == "fusion" and is_done(module, instruction):
                roles["ends"] = instruction.name
            if (
                instruction.opcode == "fusion"
                and "async_collective_fusion" in instruction.attributes["calls"]
            ):
                roles["carries"] = set(channels_passed(module, instruction).values()) - {None}
    assert roles["starts"] == ("all-gather", 2 * 4096 * 4096, True, 256)
    assert roles["ends"]
    assert len(roles["carries"]) == 1


def test_what_a_send_and_its_recv_have_in_common():
    text = '%s = (f32[8]{0}, u32[], token[]) send(%x, %t), frontend_attributes={_xla_host_transfer_rendezvous="pair_7"}'
    assert rendezvous(parse_instruction(text)) == "pair_7"
    assert rendezvous(parse_instruction("%y = f32[8]{0} copy(%x)")) is None


def test_the_last_of_several_and_what_it_waits_for():
    early, late = ReadyAt([1.0, 2.0], ["", "gather"]), ReadyAt([3.0], ["host"])
    assert (latest(early, late), cause_of(early, late), latest(), cause_of()) == (
        3.0,
        "host",
        0.0,
        "",
    )


def test_a_transfer_between_slices_runs_along_the_axes_that_cross_them():
    text = """HloModule sums, is_scheduled=true

ENTRY %main (x: f32[1024]) -> f32[1024] {
  %x = f32[1024]{0} parameter(0)
  %token = token[] after-all()
  %send.1 = (f32[1024]{0}, u32[], token[]) send(%x, %token), channel_id=1, is_host_transfer=true, \
frontend_attributes={_xla_host_transfer_rendezvous="_xla_megascale_1",_xla_megascale_transfer_type="ALL_REDUCE"}
  ROOT %done = f32[1024]{0} copy(%x)
}
"""
    module = parse_module(text)
    places = tuple((i, j, 0, 0, part) for part in (0, 1) for i in range(2) for j in range(4))
    computation = next(each for each in module.computations if "send.1" in each.by_name)
    comm = find(
        module,
        computation.by_name["send.1"],
        computation,
        Cluster(get_topology("v5e:2x4*2"), places),
    )
    assert (comm.kind, comm.nbytes, comm.group) == ("send", 4096, (0, 8))
    assert comm.bound_s > 0


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ("{0,1},{1,0}", "neighbors over ici y+, ici y-"),
        ("{0,3},{3,0}", "up to 3 hops over ici y+, ici y-"),
    ],
)
def test_a_permute_between_neighbors_is_one_hop(pairs, words):
    module = parse_module(
        "HloModule permuted, num_partitions=256\n\nENTRY %main (x: f32[8,8]) -> f32[8,8] {\n"
        "  %x = f32[8,8]{1,0} parameter(0)\n"
        f"  ROOT %p = f32[8,8]{{1,0}} collective-permute(%x), source_target_pairs={{{pairs}}}\n}}\n"
    )
    comm = find(module, module.entry.root, module.entry, POD)
    assert comm is not None and comm.words == words
