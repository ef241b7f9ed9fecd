import jax
import jax.numpy as jnp
import pytest

from spmd_core.engine import timing
from spmd_core.engine.timing import (
    MAX_TURNS,
    TURN_S,
    Timed,
    dispatch_floor_s,
    plan_turns,
    quiet,
    sample_rounds,
    time_calls,
    warm_up,
)

pytestmark = pytest.mark.this_python


class Clock:
    """The clock of the timing: it stands but for what a call takes, however busy the machine is."""

    def __init__(self):
        self.now = 0.0

    def pass_by(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing, "perf_counter", lambda: clock.now)
    return clock


def plan(programs, sample_s):
    for timed in programs:
        warm_up(timed)
    plan_turns(programs, sample_s)


def never():
    return False


def rounds(programs, count, seed=0, cancelled=never):
    done = []
    sample_rounds(programs, count, seed=seed, cancelled=cancelled, after_round=done.append)
    return done


class Late:
    """A result that is there only after it was waited for."""

    def __init__(self, log, clock):
        self.log, self.clock = log, clock
        log.append("call")

    def block_until_ready(self):
        self.clock.pass_by(0.01)
        self.log.append("wait")
        return self


def test_every_call_is_waited_for_before_the_next(clock):
    log = []
    seconds = time_calls(lambda: Late(log, clock), (), 3)
    assert log == ["call", "wait"] * 3
    assert seconds == pytest.approx(0.01)  # of each: the waiting counts


def test_an_array_is_there_before_the_next_call():
    """The product takes milliseconds, handing it over microseconds: without waiting, the next call
    would come before the result.
    """
    x = jnp.ones((1500, 1500))
    program = jax.jit(lambda x: x @ x @ x).lower(x).compile()
    results, there = [], []

    def watched(x):
        there.extend(result.is_ready() for result in results[-1:])
        results.append(program(x))
        return results[-1]

    time_calls(watched, (x,), 4)
    assert there == [True] * 3 and results[-1].is_ready()


@pytest.mark.parametrize(("at_speed_s", "blocks"), [((), 10), ((0.1,), 100), ((0.0,), 2)])
def test_a_warm_up_is_as_long_as_it_was_asked_to_be(clock, at_speed_s, blocks):
    timed, calls = Timed("nap", lambda: clock.pass_by(1e-3) or calls.append(1), ()), []
    warm_up(timed, *at_speed_s)
    assert len(calls) == pytest.approx(blocks, abs=1) and timed.fastest_s == pytest.approx(1e-3)


def test_a_fast_call_is_timed_in_turns_of_many_calls_and_a_slow_one_alone(clock):
    fast, slow = (Timed("nap", lambda s=s: clock.pass_by(s), ()) for s in (2e-6, 0.02))
    plan([fast, slow], 10e-3)
    assert fast.calls_per_turn >= 20
    assert 1 < fast.turns <= MAX_TURNS
    assert (slow.calls_per_turn, slow.turns) == (1, 1)
    assert rounds([fast, slow], 2) == [1, 2]
    assert all(len(turns) == fast.turns for turns in fast.rounds)
    assert [len(turns) for turns in slow.rounds] == [1, 1]
    assert slow.samples_s == pytest.approx((0.02, 0.02))


@pytest.mark.parametrize(
    ("call_s", "sample_s"),
    [(4e-6, 10e-3), (3e-4, 10e-3), (9e-3, 10e-3), (0.05, 10e-3), (1e-6, 0.0), (1e-3, 3.0)],
)
def test_a_sample_lasts_at_least_as_long_as_planned(clock, call_s, sample_s):
    timed = Timed("steady", lambda: clock.pass_by(call_s), ())
    plan([timed], sample_s)
    start = clock.now
    rounds([timed], 1)
    lasted = clock.now - start
    assert sample_s * 0.999 <= lasted <= 1.2 * max(sample_s, TURN_S) + call_s * timed.turns
    assert timed.calls_per_turn * call_s >= TURN_S * 0.999
    assert timed.samples_s == (pytest.approx(call_s),)


def test_programs_of_similar_speed_take_the_same_turns():
    speeds = {"a": 4.9e-4, "b": 5.1e-4, "c": 7e-4, "d": 8e-4, "e": 5e-6}
    programs = [
        Timed(name, lambda: None, (), fastest_s=seconds) for name, seconds in speeds.items()
    ]
    plan_turns(programs, 10e-3)
    plans = {timed.name: (timed.calls_per_turn, timed.turns) for timed in programs}
    assert plans == {"a": (3, 7), "b": (3, 7), "c": (3, 7), "d": (2, 7), "e": (200, 10)}


def test_a_sample_is_the_median_of_its_turns():
    timed = Timed("x", lambda: None, (), rounds=[(1.0, 9.0, 2.0), (4.0,)])
    assert timed.samples_s == (2.0, 4.0)


def test_in_each_round_every_program_runs_in_shuffled_order():
    order = []
    programs = [Timed(name, lambda name=name: order.append(name), ()) for name in "abc"]
    rounds(programs, 30, seed=3)
    per_round = [tuple(order[start : start + 3]) for start in range(0, 90, 3)]
    assert all(sorted(each) == ["a", "b", "c"] for each in per_round)
    assert len(set(per_round)) == 6
    again = order.copy()
    order.clear()
    rounds(programs, 30, seed=3)
    assert order == again  # the seed's order


def test_a_program_that_raises_is_left_out_and_the_others_go_on():
    calls = 0

    def failing():
        nonlocal calls
        calls += 1
        if calls == 3:
            raise ValueError("third call")

    bad, good = Timed("bad", failing, ()), Timed("good", lambda: None, ())
    assert rounds([bad, good], 5) == [1, 2, 3, 4, 5]
    assert (len(bad.rounds), len(good.rounds)) == (2, 5)
    assert str(bad.error) == "third call"


def test_cancelling_stops_between_rounds():
    timed = Timed("x", lambda: None, ())
    assert rounds([timed], 100, cancelled=lambda: len(timed.rounds) >= 4) == [1, 2, 3, 4]


def test_no_garbage_collection_while_timing():
    import gc

    with quiet():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_dispatch_floor_is_what_a_call_costs_on_the_full_mesh(clock, monkeypatch):
    own = timing._adding_one

    def adding(sharding):
        def call(value):
            clock.pass_by(1e-5 * len(sharding.device_set))
            return own(sharding)(value)

        return call

    monkeypatch.setattr(timing, "_adding_one", adding)
    mesh = jax.make_mesh((8,), ("x",))
    floors = [dispatch_floor_s(each, jax.devices()[0]) for each in (None, mesh)]
    assert floors == pytest.approx([1e-5, 8e-5])
