"""A training run, watched and cancelled."""

import re

from bench.browser import answered, press_cancel, visit

TRAINING = {
    "workload": "train_step",
    "sharding": {"batch": "x"},
    "strategies": ["single", "shard_map"],
    "timing": {"samples": 2, "min_seconds": 0.0},
}


def test_the_loss_streams_while_it_falls_and_cancel_keeps_it(page, link):
    visit(page, link(**TRAINING, options={"steps": 10_000}))
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text(re.compile(r"step \d+ of 10000")).wait_for()
    chart = page.locator(
        '[aria-label^="Loss by step, from the first to the last: Single device 24.6 to"]'
    )
    chart.first.wait_for()
    page.get_by_text("training").first.wait_for()
    press_cancel(page)
    page.get_by_text("This run was cancelled").wait_for()
    answered(page)
    page.get_by_text("How sure?").click()
    page.get_by_text("before the first step").first.wait_for()
    told = re.search(
        r"loss 24.6 before the first step, ([\d.]+) before the last, stopped after (\d+) of "
        r"10000 steps",
        page.get_by_test_id("stPopoverBody").inner_text(),
    )
    assert told and float(told[1]) < 24.6 and 0 < int(told[2]) < 10_000
    for drawn in (chart, page.locator('[aria-label^="Time of a step by step"]')):
        drawn.first.wait_for(state="attached")
