"""The card of a verdict: the figure, how certain it is, why, and one button."""

import pytest

from bench.values import ENVIRONMENT, comparison, result, strategy
from spmd_core.experiment import link, parse_experiment
from spmd_core.words import runs, short_verdict
from spmd_lab.ui import cards
from spmd_lab.ui.charts.times import times_chart
from spmd_lab.ui.compare import verdict
from tests.ui import opened, said
from tests.ui.predictions import store

pytestmark = pytest.mark.slow

RUN = "20260101-000000-aaaaaa"


def timed(ratio=2.0, *, differs=True, **changes):
    answer = comparison("single", ("auto", ratio, differs))
    answer["ratios"][0] |= changes
    times = {"single": strategy(1e-3), "auto": strategy(2e-3)}
    return result(times, run=RUN, comparison=answer)


@pytest.mark.parametrize(
    ("found", "badge"),
    [
        (timed(), ":green-badge[Order sure]"),
        (timed(processes=3), ":green-badge[Order sure]"),
        (
            timed(1.05, differs=False, verdict="cannot tell", settles="more rounds"),
            ":orange-badge[Cannot tell\\: too few rounds]",
        ),
    ],
)
def test_the_card_says_how_certain_it_is_and_what_simulated_devices_say(
    lab, data_folder, found, badge
):
    store(data_folder, found)
    screen = opened("compare", run=RUN)
    assert any(badge.replace("\\", "") in each.value.replace("\\", "") for each in screen.markdown)
    assert any(verdict.SIMULATED in each.value for each in screen.markdown), "not in a fold"
    onward = [each for each in screen.get("page_link") if "Predict it on v5e" in each.proto.label]
    assert len(onward) == 1
    tried = link.decode(onward[0].proto.query_string.removeprefix("experiment="))
    assert tried.target == "tpu:v5e:2x4" and tried.workload == found.experiment.workload
    assert any(each.proto.popover.label == "How sure?" for each in screen.get("popover"))
    assert next(each.label for each in screen.tabs) == "Fastest" and said(screen)
    assert ("1 ms" in shown(screen)) is ("Cannot" not in badge), "no time that may not be the best"
    computed = cards.computed_words(found.experiment)
    assert (f"per call, {computed}" in shown(screen)) is ("1 ms" in shown(screen))


def shown(screen) -> str:
    return " ".join(each.proto.body for each in screen.get("html") if "figure" in each.proto.body)


def test_a_ratio_is_that_of_the_table_with_the_quotient_of_the_medians_inside_its_interval():
    """The medians stand beside it: 1 and 2 ms."""
    for found, words in (
        (timed(), "2.00× as long (1.80 to 2.20)"),
        (timed(2.3, interval=[1.8, 2.6]), "roughly 2.30× as long (1.80 to 2.60)"),
        (timed(100.0), "roughly 100× as long (2.00 to 110)"),
        (timed(1.9, interval=[1.8, 1.95]), "roughly 1.90× as long (1.80 to 2.00)"),
        (timed(1.96, interval=[1.8, 2.1]), "1.96× as long (1.80 to 2.10)"),
        (timed(2.0, interval=[2.0, 2.0]), "2.00× as long (2.00 to 2.00)"),
    ):
        headline, _ = runs.headline_parts(found, is_figured=True)
        assert headline == f"Next is Automatic, {words}."
        assert times_chart(found)["layer"][-1]["data"]["values"][1]["time"] == "2 ms"
        factor = words.replace("as long", "faster than Automatic")
        assert short_verdict(found) == f"Single device is {factor}"


def test_a_reason_is_the_largest_collective_or_dispatch():
    sums = [{"kind": "all-reduce", "axes": ["x"], "bytes": 2**20, "count": 1}]
    found = result({"single": strategy(1e-3), "auto": strategy(2e-3, collectives=sums)})
    assert verdict.reasons(found) == (
        "Largest collective: all-reduce over `x`, 1.0 MiB per device."
    )
    alike = {
        "auto": strategy(2e-3, collectives=sums),
        "shard_map": strategy(3e-3, collectives=sums),
    }
    assert verdict.reasons(result(alike)).endswith("per device, in each sharded row.")
    half = [sums[0] | {"bytes": 2**19}]
    unlike = alike | {"shard_map": strategy(3e-3, collectives=half)}
    assert verdict.reasons(result(unlike)).endswith("1.0 MiB per device, in Automatic.")
    slow = result({"single": strategy(1e-3), "auto": strategy(2e-3, notes=["dispatch bound"])})
    assert "dispatch bound" in verdict.reasons(slow)


@pytest.mark.parametrize(
    ("second", "peaks", "words"),
    [
        ("single", (2**20, 2**23), "The fastest holds 1.0 MiB per device, the next 8.0 MiB. Largest collective: all-reduce over `x`, 1.0 MiB per device."),
        ("single", (2**20, 2**20), "Largest collective: all-reduce over `x`, 1.0 MiB per device."),
        ("single", (2**20, None), "Largest collective: all-reduce over `x`, 1.0 MiB per device."),
        ("shard_map", (2**20, 2**21), "The fastest holds 1.0 MiB per device, the next 2.0 MiB; neither communicates."),
        ("shard_map", (2**20, 2**20), "Automatic and shard_map communicate nothing."),
    ],
)  # fmt: skip
def test_the_reason_is_what_the_first_two_rows_hold_and_send(second, peaks, words):
    sums = [{"kind": "all-reduce", "axes": ["x"], "bytes": 2**20, "count": 1}]
    sent = sums if second == "single" else []
    held = [{"peak": peak} for peak in peaks]
    times = {
        "auto": strategy(1e-3, collectives=sent, memory_bytes=held[0]),
        second: strategy(2e-3, collectives=sent, memory_bytes=held[1]),
    }
    found = result(times, comparison=comparison("auto", (second, 2.0, True)))
    assert verdict.reasons(found) == words


@pytest.mark.parametrize(
    ("collectives", "differs", "is_silent"),
    [([], True, True), (None, True, False), ([], False, False), ([], None, False)],
)
def test_a_row_communicates_nothing_where_that_is_known_of_the_fastest(
    collectives, differs, is_silent
):
    """No time may be apart, and the collectives of a row may be unknown."""
    sums = [{"kind": "all-reduce", "axes": ["x"], "bytes": 2**20, "count": 1}]
    times = {
        "auto": strategy(1e-3, collectives=collectives),
        "shard_map": strategy(2e-3, collectives=sums),
    }
    answer = None if differs is None else comparison("auto", ("shard_map", 2.0, differs))
    words = verdict.reasons(result(times, comparison=answer))
    assert ("communicates nothing" in words) is is_silent and "all-reduce" in words


def test_attached_devices_get_no_sentence_of_simulated_ones_and_are_confirmed(lab, data_folder):
    times = {"single": strategy(1e-3), "auto": strategy(2e-3)}
    environment = ENVIRONMENT | {"simulated": False, "platform": "tpu", "device_kind": "TPU v5e"}
    store(
        data_folder,
        result(
            times,
            run=RUN,
            environment=environment,
            comparison=comparison("single", ("auto", 2.0, True)),
        ),
    )
    screen = opened("compare", run=RUN)
    assert "simulated" not in screen.subheader[0].value.lower()
    labels = [each.proto.label for each in screen.get("page_link")]
    assert "**Measure in 5 processes**" in labels


def test_a_study_goes_to_tpus_with_all_its_variants():
    layer = {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}, "sharding": {"in": "x"}}
    study = parse_experiment(
        {"study": [{"experiment": layer}, {"experiment": layer | {"dtype": "bfloat16"}}]}
    )
    tried = verdict.on_tpus(study)
    assert {each.experiment.target for each in tried.variants} == {"tpu:v5e:2x4"}
    assert len(tried.variants) == 2
