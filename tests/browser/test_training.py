"""A training run, watched and cancelled; and workloads of the user's own, on a dashboard that was
started with their files.
"""

import re
import textwrap

import pytest

from spmd_core.workloads.own import files
from tests.browser.server import Server, answered, press_cancel, screen_text, visit
from tests.workloads.own.test_files import WEIGHTED

TRAINING = {"workload": "train_step", "sharding": {"batch": "x"},
            "strategies": ["single", "shard_map"], "timing": {"samples": 2, "min_seconds": 0.0}}


def test_the_loss_streams_while_it_falls_and_cancel_keeps_it(page, link):
    page.set_default_timeout(90_000)  # beside other work, each look at the run takes seconds
    visit(page, link(**TRAINING, options={"steps": 10_000}))
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text(re.compile(r"step \d+ of 10000")).wait_for(timeout=60_000)
    chart = page.locator(
        '[aria-label^="Loss by step, from the first to the last: Single device 24.6 to"]')
    chart.first.wait_for()
    assert "training" in screen_text(page)
    press_cancel(page)
    page.get_by_text("This run was cancelled").wait_for()
    answered(page)
    told = re.search(r"loss 24.6 before the first step, ([\d.]+) before the last, stopped after (\d+) of 10000 steps", screen_text(page))
    assert told and float(told[1]) < 24.6 and 0 < int(told[2]) < 10_000
    assert chart.count() and page.locator('[aria-label^="Time of a step by step"]').count()


@pytest.fixture
def own_server(tmp_path, monkeypatch):
    """A dashboard whose starter named two files, of which one does not load."""
    good, bad = tmp_path / "weighted.py", tmp_path / "broken.py"
    good.write_text(textwrap.dedent(WEIGHTED))
    bad.write_text("def f(:\n")
    monkeypatch.setenv(files.VARIABLE, f"{good}:{bad}")
    server = Server(tmp_path)
    server.start()
    yield server
    server.stop()


def test_a_workload_of_the_user_s_own_is_chosen_and_run_like_any_other(own_server, page):
    visit(page, f"{own_server.url}/compare")  # which waits for the files, for a while
    visit(page, f"{own_server.url}/compare")
    page.get_by_text("broken.py does not load: line 1 (SyntaxError: invalid syntax): correct it, and reload the page").wait_for()
    page.get_by_test_id(
        "stSidebar").get_by_test_id(
        "stSelectbox").filter(has_text="Workload").locator("input").click()
    page.get_by_role("option", name="weighted").click()
    page.get_by_text("y = weighted(x, w)").wait_for()
    page.get_by_role("button", name="Run", exact=True).click()
    answered(page)
    text = screen_text(page)
    assert "compared with the function itself, in float64 on one device" in text
    assert text.count("right") >= 3
