"""A load on a plan: requests one after the other, at once, by chance, and beyond the pool."""

from itertools import pairwise

import pytest

from spmd_core.plan import ServedPlan
from spmd_core.time import (
    Lengths,
    ServingLoad,
    StepLoad,
    pool_of,
    simulate,
    steady_per_s,
    step_time,
)

PLAN = ServedPlan(model="qwen3-8b", target="tpu:v6e:2x2", mesh=(("tensor", 4),))
THOUSAND = Lengths(1024, 1024)


def load(concurrency, input=THOUSAND, output=THOUSAND, **more):
    return ServingLoad(input, output, concurrency, **more)


def test_one_request_is_its_prompt_and_its_steps():
    served = simulate(PLAN, load(1, requests=1))
    prompt = step_time(PLAN, StepLoad(prompt=1024, before=512)).seconds
    step = step_time(PLAN, StepLoad(1, 1536)).seconds
    assert served.ttft_s == pytest.approx(prompt, rel=0.01)
    assert served.tpot_s == pytest.approx(step, rel=0.01)
    assert served.output_per_s == pytest.approx(1024 / (prompt + 1023 * step), rel=0.01)
    assert (served.running, served.waiting) == (1, 0)


def test_output_has_the_interval_of_the_requests_that_make_it():
    alone = load(1, requests=1)
    served = simulate(PLAN, alone)
    slow, fast = served.output_times(alone)
    assert slow < 1 < fast
    longest = served.ttft.high + 1023 * served.tpot.high
    assert slow * served.output_per_s == pytest.approx(1024 / longest, rel=0.01)
    arriving = load(16, rate=2.0, requests=48)
    assert simulate(PLAN, arriving).output_times(arriving) == (), "arrivals bound it"


def test_many_small_chunks_are_taken_at_once():
    long = Lengths(32768, 32768)
    served = simulate(PLAN, load(1, long, Lengths(2, 2), requests=1, chunk=1))
    step = step_time(PLAN, StepLoad(prompt=1, before=16384)).seconds
    assert served.ttft_s == pytest.approx(32768 * step, rel=0.01)


def test_tokens_are_those_that_were_asked_for_however_they_arrive():
    for each in (load(16), load(16, rate=2.0, requests=48)):
        served = simulate(PLAN, each)
        assert served.input_per_s == pytest.approx(served.output_per_s, rel=1e-9)
        assert served.tpot_s >= served.step.least
        assert served.ttft_p99_s >= served.ttft_s


def test_a_mixed_load_is_the_same_for_the_same_seed_and_another_for_another():
    def of(seed):
        lengths = Lengths(256, 4096)
        return simulate(PLAN, load(16, lengths, lengths, rate=4.0, requests=64, seed=seed))

    assert of(1) == of(1)
    assert of(1).ttft_s != of(2).ttft_s


def test_requests_beyond_the_pool_wait_and_no_others():
    pool = pool_of(PLAN, 2048)
    assert simulate(PLAN, load(pool.requests)).waiting == 0
    beyond = simulate(PLAN, load(pool.requests + 32))
    assert beyond.waiting == 32 and beyond.running == pool.requests
    assert beyond.ttft_p99_s > 512 * beyond.step_s, "they begin once others have ended"


@pytest.mark.parametrize(
    "given",
    [
        load(1),
        load(64),
        load(1024),
        load(4096),
        load(512, THOUSAND, Lengths(1, 1)),
        load(16, Lengths(128, 8000), Lengths(16, 2048)),
        load(1024, Lengths(128, 8000), Lengths(16, 2048)),
        load(64, rate=4.0),
        load(4096, rate=0.3, output=Lengths(8192, 8192)),
        load(4096, rate=2.0, input=Lengths(128, 8000), output=Lengths(16, 2048)),
    ],
    ids=str,
)
def test_as_many_are_there_as_come_in_the_time_that_each_takes(given):
    served = simulate(PLAN, given)
    takes = served.ttft_s + (given.output.mean - 1) * served.tpot_s
    there = served.output_per_s / given.output.mean * takes
    if given.rate is None:
        assert there == pytest.approx(given.concurrency, rel=0.05)
    else:  # as many decode as make so many tokens
        step = step_time(PLAN, StepLoad(round(there), given.context)).seconds
        assert served.waiting == 0 and step < served.tpot_s < 1.6 * step


def test_a_load_that_goes_on_does_not_depend_on_how_many_are_simulated():
    output = Lengths(8192, 8192)
    on, long = (
        simulate(PLAN, load(4096, rate=0.3, output=output, requests=each)) for each in (None, 2000)
    )
    short = simulate(PLAN, load(4096, rate=0.3, output=output, requests=20))
    assert on.tpot_s == pytest.approx(long.tpot_s, rel=0.1) and short.tpot_s < 0.8 * on.tpot_s


def test_more_at_once_make_no_fewer_tokens_whatever_was_drawn():
    lengths = Lengths(32768, 32768), Lengths(16, 512)
    made = [simulate(PLAN, load(n, *lengths)).output_per_s for n in (1, 4, 16, 64, 256, 1024)]
    assert all(more >= 0.98 * few for few, more in pairwise(made))


@pytest.mark.parametrize("more", [1, 32, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("lengths", [(1024, 1024), (8192, 256), (128, 2048)])
def test_with_a_full_pool_more_that_wait_make_as_many_tokens(lengths, more):
    """However many of a wave of requests are counted."""
    given = [Lengths(each, each) for each in lengths]
    most = pool_of(PLAN, sum(lengths)).requests
    beyond = most + (more if isinstance(more, int) else round(more * most))
    full, waits = (simulate(PLAN, load(n, *given)) for n in (most, beyond))
    assert waits.waiting == beyond - most and waits.running == full.running
    assert waits.output_per_s == pytest.approx(full.output_per_s, rel=0.01)
    assert waits.output_per_s <= waits.running / waits.tpot_s, "what its own time per token allows"


def test_a_pool_without_room_for_one_serves_nothing():
    small = ServedPlan(model="qwen3-32b", target="tpu:v6e:1x1", mesh=(("tensor", 1),))
    assert simulate(small, load(1)) is None and steady_per_s(small, load(1)) == 0


def test_slow_arrivals_are_served_alone_and_fast_ones_queue():
    slow, fast = (simulate(PLAN, load(64, rate=rate, requests=32)) for rate in (0.01, 100.0))
    alone = simulate(PLAN, load(1, requests=1))
    assert slow.tpot_s == pytest.approx(alone.tpot_s, rel=0.02)
    assert fast.tpot_s > 1.2 * slow.tpot_s and fast.output_per_s > slow.output_per_s


def test_the_interval_at_a_rate_has_queues_of_slower_steps_in_it():
    busy, idle = (simulate(PLAN, load(64, rate=rate)) for rate in (4.5, 0.1))

    def width(found):
        return (found.high - found.low) / found.estimate

    assert width(busy.ttft) > 1.5 * width(idle.ttft)
    assert all(each.low <= each.estimate <= each.high for each in (busy.ttft, busy.tpot))


def test_a_replica_has_its_share_of_the_requests():
    halves = ServedPlan(model="qwen3-8b", target="tpu:v6e:2x4", mesh=(("tensor", 4),))
    both, one = simulate(halves, load(64)), simulate(PLAN, load(32))
    assert both.output_per_s == pytest.approx(2 * one.output_per_s, rel=0.02)
    assert both.tpot_s == pytest.approx(one.tpot_s, rel=0.02)


def test_a_compiled_step_takes_the_place_of_the_estimate():
    estimated, compiled = (simulate(PLAN, load(16), scale) for scale in ((1.0, 1.0), (1.5, 1.5)))
    assert compiled.tpot_s == pytest.approx(1.5 * estimated.tpot_s, rel=0.01)


def test_speculation_makes_several_tokens_a_step():
    plain, twice = (simulate(PLAN, load(16, accepted=each)) for each in (1.0, 2.0))
    assert twice.tpot_s == pytest.approx(plain.tpot_s / 2, rel=0.05)
    quick = steady_per_s(PLAN, load(16, accepted=2.0))
    assert quick == pytest.approx(twice.output_per_s, rel=0.05)


def test_one_token_of_output_ends_with_its_prompt():
    served = simulate(PLAN, load(8, output=Lengths(1, 1), requests=8))
    assert served.ttft_s > 0 and served.output_per_s == pytest.approx(served.input_per_s / 1024)


def test_the_quick_look_is_near_the_simulation():
    for concurrency in (4, 64, 256):
        served = simulate(PLAN, load(concurrency))
        assert steady_per_s(PLAN, load(concurrency)) == pytest.approx(served.output_per_s, rel=0.05)


@pytest.mark.parametrize("mesh", [(("tensor", 4),), (("data", 4),)])
@pytest.mark.parametrize(
    "lengths", [((30000, 30000), (16, 512)), ((131071, 131071), (16, 512)), ((64, 192), (64, 8000))]
)
def test_the_quick_look_knows_that_shards_wait_for_a_prompt_of_one(mesh, lengths):
    plan = ServedPlan(model="qwen3-8b", target="tpu:v6e:2x2", mesh=mesh, weights_dtype="fp8")
    for at_once in (1, 4, 8, 64):
        asked = load(at_once, *(Lengths(*each) for each in lengths))
        found = simulate(plan, asked).output_per_s
        assert steady_per_s(plan, asked) == pytest.approx(found, rel=0.25), at_once
