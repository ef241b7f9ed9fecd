"""The card of a verdict: the figure, how certain it is, why, and one button."""

import re

import pytest

from bench.values import ENVIRONMENT, comparison, result, strategy
from spmd_core.experiment import parse_experiment
from spmd_core.words import SIMULATED, runs, short_verdict
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
        (timed(), f":gray-badge[Fastest of 2 here. {SIMULATED}]"),
        (timed(processes=3), f":gray-badge[Fastest of 2 here. {SIMULATED}]"),
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
    assert any(SIMULATED in each.value.replace("\\", "") for each in screen.markdown), (
        "not in a fold"
    )
    assert not any(":green-badge[Fastest" in each.value for each in screen.markdown)
    assert [each.label for each in screen.button if each.key == "onward"] == ["Predict it on v5e"]
    tried = verdict.on_tpus(found.experiment)
    assert tried is not None
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
        (timed(2.3, interval=[1.8, 2.6]), "about 2.00× as long (1.80 to 2.60)"),
        (timed(100.0), "2.00 to 110× as long"),
        (timed(1.9, interval=[1.8, 1.95]), "1.80 to 2.00× as long"),
        (timed(1.96, interval=[1.8, 2.1]), "paired ratio 1.96× (1.80 to 2.10)"),
        (timed(2.0, interval=[2.0, 2.0]), "2.00× as long (2.00 to 2.00)"),
    ):
        headline, _ = runs.headline_parts(found, is_figured=True)
        assert headline == f"Next is Automatic, {words}."
        assert times_chart(found)["layer"][-1]["data"]["values"][1]["time"] == "2 ms"
        factor = words.replace("as long", "faster than Automatic")
        factor = re.sub(r"paired ratio (\S+)", r"\1 faster than Automatic", factor)
        assert short_verdict(found) == f"Single device is {factor}"


def test_the_headline_explains_its_strategies_and_a_shared_shard_its_color(lab, data_folder):
    store(data_folder, timed())
    screen = opened("compare", run=RUN)
    (about,) = [each.help for each in screen.subheader if "is fastest" in each.value]
    assert "Single device: jit on one device" in about.replace("\\", "")
    assert "Automatic: operands are placed with NamedSharding" in about.replace("\\", "")
    asked = {"workload": "layer", "mesh": {"x": 2, "y": 4}, "sharding": {"batch": "x"}}
    asked |= {"dims": {"batch": 32, "in": 64, "out": 16}}
    assert verdict.is_shared(parse_experiment(asked))
    assert not verdict.is_shared(parse_experiment(asked | {"mesh": {"x": 8}}))


def test_what_each_device_holds_and_sends_stands_below_the_figure(lab, data_folder):
    sums = [{"kind": "all-reduce", "axes": ["x"], "bytes": 2**20, "count": 1}]
    times = {
        "auto": strategy(1e-3, collectives=sums, memory_bytes={"peak": 2**20}),
        "single": strategy(2e-3, collectives=[], memory_bytes={"peak": 2**23}),
    }
    store(data_folder, result(times, run=RUN, comparison=comparison("auto", ("single", 2.0, True))))
    screen = opened("compare", run=RUN)
    (table,) = (each.proto.body for each in screen.get("html") if "Each device" in each.proto.body)
    rows = [re.sub("<[^>]*>", " ", row).split() for row in table.split("<tr>")[1:]]
    assert rows[0] == ["Each", "device", "holds", "sends"]
    assert rows[1][1:] == ["Automatic", "1.0", "MiB", "2.0", "MiB", "all-reduce", "over", "x"]
    assert rows[2][1:] == ["Single", "device", "8.0", "MiB", "nothing"]
    assert "calc(0.125 * var(--bar))" in table and "calc(1.000 * var(--bar))" in table


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("simulated", [True, False])
def test_what_simulated_devices_hold_of_a_narrow_dtype_is_not_a_tpus(
    lab, data_folder, dtype, simulated
):
    times = {"single": strategy(2e-3), "auto": strategy(1e-3, memory_bytes={"peak": 2**20})}
    spec = {"workload": "matmul", "target": "cpu:8", "mesh": {"x": 8}, "dtype": dtype}
    environment = ENVIRONMENT | {"simulated": simulated}
    ratios = comparison("auto", ("single", 2.0, True))
    given = {"experiment": parse_experiment(spec), "environment": environment, "comparison": ratios}
    store(data_folder, result(times, run=RUN, **given))
    words = [each.value for each in opened("compare", run=RUN).caption]
    is_wider = any("devices hold more than a TPU's" in each for each in words)
    assert is_wider is (simulated and dtype == "bfloat16")


def test_rows_that_are_bound_by_dispatch_have_that_reason_alone(lab, data_folder):
    times = {"single": strategy(1e-3), "auto": strategy(2e-3, floor_s=1e-3)}
    store(data_folder, result(times, run=RUN))
    screen = opened("compare", run=RUN)
    assert "dispatch bound" in said(screen)
    assert not any("Each device" in each.proto.body for each in screen.get("html"))


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
    assert "Measure in 5 processes" in [each.label for each in screen.button]


def test_one_press_begins_the_prediction_and_opens_one_that_is_known(lab, data_folder):
    found = timed()
    store(data_folder, found)
    opened("compare", run=RUN).button(key="onward").click().run()
    tried = verdict.on_tpus(found.experiment)
    (begun,) = [each for each in lab.active() if each.experiment == tried]
    lab.cancel(begun.run)
    store(data_folder, result({"auto": strategy(1e-3)}, run=RUN[:-1] + "0", experiment=tried))
    opened("compare", run=RUN).button(key="onward").click().run()
    assert [each.run for each in lab.active() if each.experiment == tried] in ([], [begun.run])


def test_a_study_goes_to_tpus_with_all_its_variants():
    layer = {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}, "sharding": {"in": "x"}}
    study = parse_experiment(
        {"study": [{"experiment": layer}, {"experiment": layer | {"dtype": "bfloat16"}}]}
    )
    tried = verdict.on_tpus(study)
    assert {each.experiment.target for each in tried.variants} == {"tpu:v5e:2x4"}
    assert len(tried.variants) == 2
