import math

import numpy as np
import pytest

from spmd_core.facts.verdicts import CONFIDENCE, over_processes, verdict, wants_more
from spmd_core.results.stats import (
    LUCK,
    bootstrap_interval,
    compare,
    contenders,
    corrected,
    log_ratios,
    median_s,
    rounds_to_add,
    rounds_to_settle,
    signed_rank_interval,
    summarize,
    two_best,
)
from spmd_core.words.strategies import against_words, ratio_words

pytestmark = pytest.mark.slow


def rounds(centre_s, count=20, turns=5, noise=0.02, seed=0):
    """Rounds of turns around a time, with a part of the noise shared by the whole round."""
    rng = np.random.default_rng(seed)
    shared = np.random.default_rng(99).normal(1, 0.1, count)
    return [tuple(centre_s * shared[index] * rng.normal(1, noise, turns)) for index in range(count)]


def test_a_summary_keeps_every_sample_and_flags_what_is_far_out():
    summary = summarize([1.0, 1.1, 0.9, 1.05, 0.95, 9.0])
    assert summary.median_s == pytest.approx(1.025)
    assert summary.outliers == (5,)
    assert summary.iqr_s == pytest.approx(
        np.subtract(*np.percentile([1.0, 1.1, 0.9, 1.05, 0.95, 9.0], [75, 25]))
    )
    assert summary.ci95_s is not None
    assert summary.ci95_s[0] <= summary.median_s <= summary.ci95_s[1]
    assert summary.spread == pytest.approx(summary.iqr_s / summary.median_s)


def test_one_sample_has_no_interval():
    summary = summarize([2.0])
    assert (summary.median_s, summary.iqr_s, summary.ci95_s, summary.outliers) == (
        2.0,
        0.0,
        None,
        (),
    )


def test_the_bootstrap_interval_covers_the_true_median_about_19_times_of_20():
    rng = np.random.default_rng(7)
    draws = rng.lognormal(0, 0.3, (400, 20))
    intervals = [bootstrap_interval(draw, seed) for seed, draw in enumerate(draws)]
    covered = np.mean([low <= 1.0 <= high for low, high in intervals])
    assert 0.91 <= covered <= 0.99
    assert bootstrap_interval(draws[0], 0) == intervals[0]  # repeatable


def test_log_ratios_pair_turns_of_the_same_round():
    of, over = [(2.0, 4.0, 6.0), (3.0,)], [(1.0, 2.0, 3.0), (1.0, 1.0, 100.0)]
    # the second pairs medians: turns are not side by side
    assert np.exp(log_ratios(of, over)) == pytest.approx([2.0, 3.0])
    assert len(log_ratios(of, over[:1])) == 1


@pytest.mark.parametrize("count", [8, 20, 45, 90])
def test_signed_rank_interval_excludes_zero_exactly_when_wilcoxon_rejects(count):
    from scipy import stats as scipy_stats  # takes longer than all else here

    rng = np.random.default_rng(count)
    for shift in np.linspace(0, 1.2, 25) * 4 / math.sqrt(count):
        differences = rng.normal(shift, 1, count)
        expected = scipy_stats.wilcoxon(
            differences, method="exact" if count <= 60 else "asymptotic"
        ).pvalue
        estimate, low, high, excludes = signed_rank_interval(differences, 0.05)
        assert low <= estimate <= high
        # the asymptotic forms differ in their correction for continuity
        if abs(expected - 0.05) > 0.004:
            assert excludes == (expected <= 0.05)


def test_too_few_rounds_exclude_nothing():
    assert signed_rank_interval(np.full(5, 3.0), 0.05)[3] is False  # 2 / 2**5 is above 0.05
    assert signed_rank_interval(np.full(6, 3.0), 0.05)[3] is True
    assert signed_rank_interval(np.array([]), 0.05) == (0.0, 0.0, 0.0, False)


def test_a_true_difference_is_called_with_its_interval():
    comparison = compare({"auto": rounds(1e-3, seed=1), "shard_map": rounds(1.31e-3, seed=2)})
    assert comparison is not None
    (ratio,) = comparison.ratios
    assert (comparison.fastest, comparison.tied, ratio.differs) == ("auto", (), True)
    assert ratio.ratio == pytest.approx(1.31, rel=0.02)
    low, high = ratio.interval
    assert low < 1.31 < high
    assert ratio_words(ratio) == f"{ratio.ratio:.2f}× ({low:.2f} to {high:.2f})"


def test_noise_shared_by_a_round_hides_no_difference():
    """The rounds swing by 10%, both strategies alike: 2% is still found."""
    comparison = compare(
        {"a": rounds(1e-3, noise=0.005, seed=1), "b": rounds(1.02e-3, noise=0.005, seed=2)}
    )
    assert comparison is not None
    assert comparison.fastest == "a"
    assert not comparison.tied


def test_equal_strategies_are_not_told_apart():
    comparison = compare(
        {
            "auto": rounds(1e-3, seed=1),
            "constrained": rounds(1e-3, seed=2),
            "single": rounds(3e-3, seed=3),
        }
    )
    assert comparison is not None
    assert len(comparison.tied) == 1
    assert set(comparison.tied) | {comparison.fastest} == {"auto", "constrained"}
    slower = comparison.ratios[-1]
    assert (slower.strategy, slower.differs) == ("single", True)
    assert slower.ratio == pytest.approx(3.0, rel=0.02)


def test_false_alarms_stay_rare_for_two_and_for_five():
    for names in ("ab", "abcde"):
        alarms = 0
        for trial in range(200):
            rng = np.random.default_rng(trial)
            comparison = compare(
                {name: [tuple(turns) for turns in rng.lognormal(0, 0.2, (20, 5))] for name in names}
            )
            assert comparison is not None
            alarms += any(ratio.differs for ratio in comparison.ratios)
        assert alarms <= 17


@pytest.mark.parametrize("count", [2, 12])
def test_the_luckiest_of_many_copies_is_not_called_faster(count):
    """Each copy's place makes it as much faster or slower as LUCK says of one pair in twenty."""
    rng = np.random.default_rng(0)
    false = pairs = found = 0
    for _ in range(60):
        own = rng.normal(0, LUCK / 2.77, count)  # 95% of the distances of two are within LUCK
        own[-1] += 0.05
        said = compare(
            {
                str(number): list(np.exp(at + rng.normal(0, 0.01, (60, 5))))
                for number, at in enumerate(own)
            }
        )
        assert said is not None
        copies = [each for each in said.ratios if each.strategy != str(count - 1)]
        false, pairs = false + sum(each.differs for each in copies), pairs + len(copies)
        found += any(each.differs for each in said.ratios if each not in copies)
    assert false <= 0.05 * pairs and found == 60


def test_comparisons_of_none_and_of_one():
    assert compare({}) is None
    assert compare({"a": []}) is None
    alone = compare({"auto": rounds(1e-3)})
    assert alone is not None
    assert (alone.fastest, alone.ratios) == ("auto", ())


def test_where_medians_and_rounds_disagree_no_difference_is_told():
    """b's median is lower only because one slow spell hit more of a's rounds; in most rounds a is
    faster.
    """
    a = [(1.0, 1.0)] * 10 + [(5.0, 5.0)] * 10
    b = [(1.1, 1.1)] * 12 + [(5.5, 5.5)] * 8
    assert median_s(b) < median_s(a)
    assert two_best({"a": a, "b": b}) == ("b", "a")
    comparison = compare({"a": a, "b": b})
    assert comparison is not None
    assert (comparison.fastest, comparison.tied) == ("b", ("a",))
    assert comparison.ratios[0].ratio < 1


def test_the_fastest_is_that_of_the_medians_that_are_shown():
    """Of a few rounds that only the two best are measured longer, a reader's table says nothing."""
    first = {"a": [(1.0,)] * 20, "b": [(1.2,)] * 20, "c": [(1.1,)] * 20}
    longer = {"a": [(2.0,)] * 40, "c": [(2.1,)] * 40}
    found = compare({name: turns + longer.get(name, []) for name, turns in first.items()}, 20)
    assert found is not None
    assert (found.fastest, [ratio.strategy for ratio in found.ratios]) == ("a", ["c", "b"])


def test_others_come_in_the_order_of_their_medians():
    found = compare({"slow": rounds(4e-3), "single": rounds(1e-3), "middle": rounds(2e-3)})
    assert found is not None
    assert (found.fastest, [ratio.strategy for ratio in found.ratios]) == (
        "single",
        ["middle", "slow"],
    )


def test_close_and_noisy_pairs_are_measured_longer():
    near = {"a": rounds(1e-3, noise=0.3, seed=1), "b": rounds(1.01e-3, noise=0.3, seed=2)}
    clear = {"a": rounds(1e-3, seed=1), "b": rounds(2e-3, seed=2)}
    precise = {"a": rounds(1e-3, noise=0.01, seed=1), "b": rounds(1.01e-3, noise=0.01, seed=2)}
    assert rounds_to_add(near, ("a", "b"), 20) == 60
    assert rounds_to_add(clear, ("a", "b"), 20) == 5
    assert rounds_to_add(precise, ("a", "b"), 20) == 20
    assert two_best({"a": near["a"]}) is None


def test_a_further_process_measures_more_where_rounds_scatter():
    quiet = {"a": rounds(1.0), "b": rounds(1.0, seed=1), "none": []}
    busy = {"a": rounds(1.0, noise=0.06), "b": rounds(1.02, noise=0.06, seed=1)}
    worse = {"a": rounds(1.0, noise=0.25), "b": rounds(1.02, noise=0.25, seed=1)}
    clear = {"a": rounds(1.0, noise=0.06), "b": rounds(3.0, noise=0.06, seed=1)}
    assert rounds_to_settle(quiet, 20) == rounds_to_settle({}, 20) == 0
    assert rounds_to_settle({"a": rounds(1.0)}, 20) == rounds_to_settle(clear, 20) == 0
    assert 0 < rounds_to_settle(busy, 20) < rounds_to_settle(worse, 20) == 60


def test_of_too_few_rounds_nothing_can_be_told_however_far_apart():
    found = compare({"a": [(1e-6,), (1.1e-6,)], "b": [(30e-6,), (33e-6,)]})
    assert found and found.tied == ("b",)
    assert (found.ratios[0].verdict, found.ratios[0].settles) == ("cannot tell", "more rounds")
    alike = compare({"a": [(1e-6,), (1.1e-6,)], "b": [(1.1e-6,), (1e-6,)]})
    assert alike and alike.ratios[0].verdict == "cannot tell"


def test_what_is_near_the_fastest_and_not_told_from_it_is_measured_further():
    generator = np.random.default_rng(0)

    def rounds(center, noise, count=20):
        return [(center * (1 + noise * generator.standard_normal()),) for _ in range(count)]

    near = {"a": rounds(1.0, 0.02), "b": rounds(1.02, 0.02), "far": rounds(2.0, 0.02)}
    found = contenders(near, 20)
    assert found[0] in "ab" and set(found) == {"a", "b"}
    assert set(contenders({"a": rounds(1.0, 0.001), "b": rounds(1.5, 0.001)}, 20)) == {"a", "b"}
    assert contenders({"a": rounds(1.0, 0.01)}, 20) is None
    noisy = {"a": rounds(1.0, 0.2), "b": rounds(1.02, 0.2)}
    assert rounds_to_add(noisy, ("a", "b"), 20, corrected(12)) >= rounds_to_add(
        noisy, ("a", "b"), 20
    )


def processes(center, placed, count, noise=0.01, seed=0):
    """Rounds of two programs in several processes; each places them otherwise, by `placed`."""
    generator = np.random.default_rng(seed)

    def one(factor):
        own = factor * np.exp(generator.normal(0, placed))
        return [tuple(own * np.exp(generator.normal(0, noise, 5))) for _ in range(20)]

    return [{"a": one(1e-3), "b": one(center * 1e-3)} for _ in range(count)]


@pytest.mark.parametrize("placed", [0.01, 0.03])
def test_what_differs_between_processes_is_in_the_interval(placed):
    """In one process placement looks like a difference: of equal programs none is called faster."""
    faster, alone = 0, 0
    for seed in range(50):
        first, *again = processes(1.0, placed, 5, seed=seed)
        for count in (3, 5):
            (ratio,) = compare(first, 20, again[: count - 1]).ratios
            faster += ratio.verdict == "faster"
            assert (ratio.processes, ratio.rounds) == (count, 20 * count)
        alone += compare(first, 20).ratios[0].verdict == "faster"
    assert faster <= 2 < alone


@pytest.mark.parametrize("placed", [0.02, 0.05])
def test_equal_programs_in_one_of_two_places_are_seldom_told_apart(placed):
    """Three processes agree in one of 32 studies, so that more are asked."""
    generator = np.random.default_rng(0)
    faster = 0
    for _ in range(500):
        places = placed * (generator.integers(0, 2, 7) - generator.integers(0, 2, 7))
        known = [(float(each), 0.002) for each in places]
        for count in range(3, 8):
            _, low, high = over_processes(known[:count], 1 - CONFIDENCE)
            said = verdict((math.exp(low), math.exp(high)))
            is_open = [(math.exp(low), math.exp(high))] if said == "cannot tell" else []
            if not wants_more(is_open, count, 0.03):
                break
        faster += said == "faster"
    assert faster <= 8


def test_more_processes_are_wanted_only_where_they_may_settle_it():
    near, wide = (0.995, 1.04), (0.8, 1.3)
    assert [wants_more([near], count, 0.03) for count in (3, 4, 5, 6, 7)] == [True] * 4 + [False]
    assert wants_more([wide], 3, 0.03) and not wants_more([wide], 5, 0.03)
    assert not wants_more([], 3, 0.03) and not wants_more([], 5, 0.03)


def test_several_processes_find_what_is_the_same_and_what_is_slower():
    first, *again = processes(1.0, 0.002, 5)
    assert compare(first, 20, again).ratios[0].verdict == "the same"
    first, *again = processes(1.05, 0.005, 5)
    (ratio,) = compare(first, 20, again).ratios
    assert ratio.verdict == "faster" and ratio.interval[0] < 1.05 < ratio.interval[1]
    assert compare(first, 20, again[:2]).ratios[0].verdict == "cannot tell"
    far, *again_far = processes(1.2, 0.005, 3)
    assert compare(far, 20, again_far).ratios[0].verdict == "faster"
    assert compare(first, 20, again, margin=0.2).ratios[0].verdict == "the same"


def test_a_process_that_was_disturbed_weighs_less():
    first, *again = processes(1.1, 0.002, 3)
    wild = processes(0.8, 0.0, 1, noise=1.0)
    (ratio,) = compare(first, 20, again).ratios
    (beside,) = compare(first, 20, [*again, *wild]).ratios
    assert beside.ratio == pytest.approx(ratio.ratio, rel=0.02)


def test_what_cannot_be_told_names_what_would_settle_it():
    noisy = {"a": rounds(1e-3, noise=0.3, seed=1), "b": rounds(1.02e-3, noise=0.3, seed=2)}
    assert compare(noisy).ratios[0].settles == "a quieter machine"
    few = {"a": rounds(1e-3, 4, seed=1), "b": rounds(1.02e-3, 4, seed=2)}
    assert compare(few).ratios[0].settles == "more rounds"
    scattered = {"a": rounds(1e-3, 2, noise=0.3, seed=1), "b": rounds(8.8e-3, 2, noise=0.3, seed=2)}
    (ratio,) = compare(scattered).ratios
    assert (ratio.verdict, ratio.settles) == ("cannot tell", "more rounds")
    assert against_words(ratio).endswith(", cannot tell: too few rounds")
    first, *again = processes(1.0, 0.03, 3, seed=3)
    assert compare(first, 20, again).ratios[0].settles == "more processes"
