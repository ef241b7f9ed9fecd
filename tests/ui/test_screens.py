"""What Overview and Layout say without a browser: cards, the running job once, a refusal beside its
button.
"""

from types import SimpleNamespace

import pytest

from bench.values import comparison, result, strategy
from spmd_core.base import seconds_text, span_text
from spmd_core.experiment import link
from spmd_lab.ui.cards import STARTS, short_words
from spmd_lab.ui.shell import PAGES, QUESTIONS
from tests.labs import experiment
from tests.ui import opened as screen_opened
from tests.ui.predictions import predicted, store

pytestmark = pytest.mark.slow

ARRAY = {"workload": "array", "dims": {"d0": 16}, "sharding": {"d0": "x"}, "strategies": ["place"]}


@pytest.fixture
def opened(data_folder, lab):
    """A function that opens a screen; its Lab works no queue, so that what waits goes on waiting."""
    return SimpleNamespace(page=screen_opened, lab=lab, folder=data_folder)


def texts(screen) -> list[str]:
    said = [each.value for each in (*screen.markdown, *screen.caption)]
    said += [each.proto.label for each in screen.get("page_link")]
    return [text.replace("\\", "") for text in said]


def test_overview_states_what_this_is_and_has_a_card_for_each_start(opened):
    screen = opened.page()
    said = texts(screen)
    assert any("what it costs: measured on 8 " in each for each in said)
    questions = [QUESTIONS[screen] for screen in STARTS]
    assert [text for each in said if (text := each.strip("*")) in questions] == questions
    names = [*STARTS.values()]
    captions = [each.value.replace("\\", "").partition(": ") for each in screen.caption]
    assert [name for name, *_ in captions if name in names] == names
    (caveat,) = (rest for name, _, rest in captions if name == "Compare")
    assert caveat == "times of simulated devices"
    assert {*STARTS} == {*QUESTIONS} - {"overview", "notebook", "history"}


def test_overview_shows_a_waiting_run_once_and_what_is_over_below(opened):
    store(opened.folder, predicted())
    waiting = experiment()
    opened.lab._store.submit("20260102-000000-abcdef", waiting)
    said = texts(opened.page())
    assert sum(short_words(waiting) in text for text in said) == 1
    over = short_words(predicted().experiment)
    assert over.startswith("scaled:") and sum(text == over for text in said) == 1


def test_overview_names_whose_time_a_run_has_and_whether_sharding_helped(opened):
    rows = {"auto": strategy(2e-5), "single": strategy(1e-5)}
    compared = comparison("single", ("auto", 2.0, True))
    store(opened.folder, result(rows, run="20260101-000000-aaaaaa", comparison=compared))
    (card,) = [each for each in texts(opened.page()) if "Too small to shard" in each]
    first, ratio, known = card.split("  \n")
    assert first == ":orange[**Too small to shard**]"  # the color of each that is slower
    assert ratio == "2.00× slower (1.80\u00a0to\u00a02.20)" and known.startswith(
        ":gray-badge[Simulated CPUs] "
    )
    step = predicted()
    store(opened.folder, step)
    time = step.strategies["auto"].predicted_s
    (card,) = [each for each in texts(opened.page()) if "[**Fits**]" in each]
    span = f"80% range {span_text(time.low, time.high)}"
    assert card.split("  \n")[1] == f"{seconds_text(time.estimate)} per step, {span}"


@pytest.mark.parametrize(("mesh", "refused"), [({"x": 16}, True), ({"x": 8}, False)])
def test_place_is_disabled_where_it_would_refuse_with_the_reason_beside_it(opened, mesh, refused):
    screen = opened.page("layout", experiment=link.encode(experiment(**ARRAY, mesh=mesh)))
    place = next(button for button in screen.button if button.label == "Place it on devices")
    assert place.disabled is refused
    reasons = [text for text in texts(screen) if "It cannot be placed here" in text]
    assert len(reasons) == refused
    assert all("larger than target cpu:8 with 8" in text for text in reasons)


@pytest.mark.parametrize("target", ["tpu:v5e:4x4", "tpu:v5p:2x2x2", "gpu:h100:8"])
def test_a_layout_on_devices_that_are_not_attached_offers_no_placing(opened, target):
    shown = experiment(**ARRAY, target=target, mesh={"x": 8})
    screen = opened.page("layout", experiment=link.encode(shown))
    place = next(button for button in screen.button if button.label == "Place it on devices")
    said = texts(screen)
    assert place.disabled and sum("is not attached" in text for text in said) == 1
    assert not any("cannot be placed" in text or "Not placed" in text for text in said)


def test_every_screen_says_that_the_data_folder_was_moved_and_what_to_do(opened):
    away = opened.folder.rename(opened.folder.with_name("away"))
    for screen in PAGES:
        page = opened.page(*([screen] if screen != "overview" else []))
        assert not page.exception
        (sentence,) = [each.value.replace("\\", "") for each in page.error]
        assert "was moved or deleted while it was open" in sentence and "put it back" in sentence
    assert not opened.folder.exists()
    away.rename(opened.folder)
    assert not opened.page().error
