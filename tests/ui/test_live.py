"""Asking and following on every screen; a data folder that cannot be written is a sentence."""

import contextlib
import resource

import pytest
from streamlit.testing.v1 import AppTest

from spmd_core.experiment import link, parse_experiment
from spmd_core.workloads import DEFAULT_SPEC
from tests.ui import opened

pytestmark = pytest.mark.slow

BUTTONS = {"compare": "Run", "layout": "Place it on devices", "predict": "Compile"}
EXPERIMENTS = {
    "compare": parse_experiment({"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}}),
    "layout": parse_experiment(
        {
            "workload": "array",
            "target": "cpu:8",
            "mesh": {"x": 8},
            "dims": {"d0": 8},
            "sharding": {"d0": "x"},
        }
    ),
    "predict": parse_experiment(DEFAULT_SPEC),
}
RUN = "20260101-000000-abcdef"


@contextlib.contextmanager
def full_disk():
    """No file of this process can grow: SQLite cannot write its journal, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def button(screen: AppTest, label: str):
    return next(button for button in screen.button if button.label == label)


def said(screen: AppTest) -> str:
    assert not screen.exception
    return " ".join(each.value.replace("\\", "") for each in (*screen.error, *screen.info))


def is_storage_sentence(text: str) -> bool:
    return "lab.sqlite3: " in text and "SPMD_LAB_DATA" in text


@pytest.mark.parametrize("page", BUTTONS)
def test_a_full_disk_at_the_press_is_a_sentence(lab, page):
    screen = opened(page, experiment=link.encode(EXPERIMENTS[page]))
    with full_disk():
        button(screen, BUTTONS[page]).click().run()
    assert is_storage_sentence(said(screen))
    assert lab.active() == ()


@pytest.mark.parametrize("page", [*BUTTONS, None])
def test_a_full_disk_at_cancel_is_a_sentence_that_stays_until_it_is_cancelled(lab, page):
    experiment = EXPERIMENTS.get(page, EXPERIMENTS["compare"])
    lab._store.submit(RUN, experiment)
    query = {} if page is None else {"experiment": link.encode(experiment), "run": RUN}
    screen = opened(page, **query)
    with full_disk():
        button(screen, "Cancel").click().run()
    assert is_storage_sentence(said(screen)) and lab.status(RUN).state == "queued"
    assert is_storage_sentence(said(screen.run()))  # the next look does not wipe it away
    button(screen, "Cancel").click().run()
    assert lab.status(RUN).state == "cancelled"
    assert not is_storage_sentence(said(screen.run()))
    if page in BUTTONS:
        assert any("This run was cancelled" in each.value for each in screen.warning)
        assert button(screen, BUTTONS[page]).disabled is False


def test_a_full_disk_at_the_release_of_the_devices_is_a_sentence(lab):
    screen = opened()
    with full_disk():
        button(screen, "Release the devices").click().run()
    assert is_storage_sentence(said(screen))


@pytest.mark.parametrize("page", BUTTONS)
def test_a_run_that_is_not_here_says_what_to_press(lab, page):
    screen = opened(page, experiment=link.encode(EXPERIMENTS[page]), run=RUN)
    assert f"This machine has no run {RUN}" in said(screen)
    assert f"press {BUTTONS[page]} to compute it here" in said(screen)
    assert button(screen, BUTTONS[page]).disabled is False


@pytest.mark.parametrize("page", BUTTONS)
def test_a_run_of_another_experiment_says_so(lab, page):
    lab._store.submit(RUN, EXPERIMENTS[page].vary(seed=7))
    screen = opened(page, experiment=link.encode(EXPERIMENTS[page]), run=RUN)
    assert f"Run {RUN} belongs to another experiment than the one in the fields." in said(screen)
    links = [each.proto for each in screen.get("page_link") if each.proto.label == "Open that run"]
    assert [f"run={RUN}" in each.query_string for each in links] == [True]


@pytest.mark.parametrize("page", BUTTONS)
def test_while_a_run_is_at_work_there_is_nothing_to_start(lab, page):
    lab._store.submit(RUN, EXPERIMENTS[page])
    screen = opened(page, experiment=link.encode(EXPERIMENTS[page]), run=RUN)
    assert button(screen, BUTTONS[page]).disabled is True
    assert button(screen, "Cancel").disabled is False


@pytest.mark.parametrize("page", EXPERIMENTS)
def test_two_tabs_of_one_link_show_the_run_that_either_starts(lab, page):
    """Others' runs, of other fields, are in no tab."""
    code = link.encode(EXPERIMENTS[page])
    before, other = opened(page, experiment=code), opened(page)
    run = lab.submit(EXPERIMENTS[page])
    after = opened(page, experiment=code)
    before.run()
    assert query_of(before) == query_of(after) == run
    assert followed(before) == followed(after) == [f"cancel:{run}"]
    if page == "compare":
        other.run()
        assert not followed(other) and not query_of(other)
    lab.cancel(run)


def query_of(screen: AppTest) -> str:
    run = screen.query_params.get("run", "")
    return run if isinstance(run, str) else run[0]


def followed(screen: AppTest) -> list[str]:
    assert not screen.exception
    return [each.key for each in screen.button if each.key.startswith("cancel:")]


def test_a_link_to_a_run_that_is_not_here_names_the_button_that_is(lab):
    for target, button in (("tpu:v5e:2x4", "Store prediction"), ("cpu:8", "Measure")):
        spec = {"workload": "collectives", "target": target, "mesh": {"x": 8}}
        screen = opened("collectives", experiment=link.encode(parse_experiment(spec)), run=RUN)
        assert f"press {button} to compute it here" in said(screen)
        assert any(each.label == button for each in screen.button)


def test_another_viewers_run_is_named_on_overview_and_has_no_cancel_there(lab):
    lab._store.submit(RUN, EXPERIMENTS["compare"], viewer="somebody")
    screen = opened(None)
    assert "Cancel" not in [each.label for each in screen.button]
    assert "another viewer's" in [each.value for each in screen.caption]
