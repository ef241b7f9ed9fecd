"""What instructions do to the clocks, on a chip and links with times by hand."""

import pytest

from spmd_core.machine import CHIPS
from spmd_core.program import Computation
from spmd_core.program.hlo.text import parse_instruction
from spmd_core.time.cost.advance import communicate, copy, finish, wait
from spmd_core.time.cost.clocks import ReadyAt, State
from spmd_core.time.cost.comm import Communication
from spmd_core.time.cost.constants import HOST_EFFICIENCY

GATHER = parse_instruction(
    "%g = f32[8]{0} all-gather-start(%x), channel_id=1, replica_groups=[1,2]<=[2], dimensions={0}"
)

SMALL = (
    "%h = f32[8]{0} all-gather-start(%x), channel_id=2, replica_groups=[1,2]<=[2], dimensions={0}"
)


def comm(asynchronous=True, kind="all-gather", seconds=2.0):
    return Communication(kind, 32, seconds, ("ici x+",), (0, 1), "x", asynchronous, 1, "g")


def test_a_wait_is_charged_to_what_was_late():
    state = State(chip=1.0)
    wait([ReadyAt([0.5], [""]), ReadyAt([3.0], ["host"])], state, "main", "user")
    assert (state.chip, dict(state.tally.waits)) == (3.0, {"host": 2.0})
    wait([ReadyAt([2.0], ["host"])], state, "main", "user")
    assert state.chip == 3.0


def test_an_asynchronous_collective_starts_when_its_operand_is_there_and_its_links_are_free():
    state = State(chip=5.0)
    first = communicate(comm(), GATHER, "main", [ReadyAt([1.0], [""])], state, literal=False)
    second = communicate(comm(), GATHER, "main", [ReadyAt([1.0], [""])], state, literal=False)
    assert (first.last, second.last, state.chip) == (3.0, 5.0, 5.0)
    assert state.tally.links["ici x+"] == 4.0


def test_taken_literally_it_starts_where_the_compiler_put_it():
    assert (
        communicate(
            comm(), GATHER, "main", [ReadyAt([1.0], [""])], State(chip=5.0), literal=True
        ).last
        == 7.0
    )


def test_a_synchronous_collective_holds_the_chip():
    state = State(chip=5.0)
    communicate(
        comm(False, "all-reduce"), GATHER, "main", [ReadyAt([1.0], [""])], state, literal=False
    )
    assert (state.chip, state.tally.waits["all-reduce"], state.tally.blocking) == (7.0, 2.0, 2.0)


def test_what_queues_is_not_charged_for_what_it_queues_behind():
    """A large gather of 20 s holds the links; the small one behind it is waited for from 2 s on,
    and takes 1 s itself.
    """
    small = parse_instruction(SMALL)
    state = State(chip=2.0)
    communicate(comm(seconds=20.0), GATHER, "main", [ReadyAt([0.0], [""])], state, literal=False)
    late = communicate(
        comm(seconds=1.0), small, "main", [ReadyAt([0.0], [""])], state, literal=False
    )
    wait([late], state, "main", "user")
    exposed = {name: waited for name, (_, _, waited) in state.tally.communications.items()}
    assert exposed == {"g": 18.0, "h": 1.0}
    assert (state.chip, state.tally.waits["all-gather"]) == (21.0, 19.0)


def test_the_chip_waits_for_what_is_under_way_at_the_end():
    state = State(chip=2.0)
    communicate(comm(seconds=5.0), GATHER, "main", [ReadyAt([0.0], [""])], state, literal=False)
    finish(state)
    assert (state.chip, state.tally.communications["g"][2]) == (5.0, 3.0)


def test_a_copy_from_the_host_takes_the_hosts_link():
    source = parse_instruction("%p = f32[1048576]{0:T(1024)S(5)} parameter(0)")
    start = parse_instruction(
        "%c = (f32[1048576]{0:T(1024)}, f32[1048576]{0:T(1024)S(5)}, u32[]{:S(2)}) copy-start(%p)"
    )
    state = State()
    ready = copy(
        start, Computation("main", (source, start)), [ReadyAt([0.0], [""])], state, CHIPS["v6e"]
    )
    assert ready.last == pytest.approx(
        4 * 1048576 / (CHIPS["v6e"].host_bandwidth * HOST_EFFICIENCY)
    )
    assert (ready.causes, list(state.tally.links)) == (["host"], ["host in"])
