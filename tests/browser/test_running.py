"""Run, watch, cancel, reload in mid-run: what the user reads on Compare."""

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import expect

from bench.browser import PATIENCE_MS, answered, press_cancel, screen_text, settled, unfold, visit
from spmd_lab.ui.shell import QUESTIONS

LONG = {"samples": 1000, "min_seconds": 60}


def run_of(url: str) -> str:
    return parse_qs(urlsplit(url).query)["run"][0]


def press_run(page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()


def test_the_first_experiment_from_click_to_chart(server, page):
    """What a new user does: Overview, the card of Compare, Run, and the fastest strategy's bar."""
    visit(page, server.url)
    page.locator(".st-key-starts").get_by_role("link", name=QUESTIONS["compare"]).click()
    page.wait_for_url("**/compare*")
    settled(page)
    press_run(page)
    page.wait_for_url("**run=*")
    headline = answered(page)
    assert re.search(
        r"Next is |take the same time|Cannot tell |none of them is faster",
        headline,
    )
    chart = page.locator('[aria-label^="Time per call by strategy, median of all samples: "]').first
    label = chart.get_attribute("aria-label") or ""
    fastest = re.match(r"\W*(.+) is fastest\.", headline)
    assert fastest is None or fastest[1] in label
    for name in ("Single device", "Automatic"):
        assert re.search(rf"{name}:? [\d.,]+ [µmn]?s", label), label
    chart.locator("canvas, svg").first.wait_for()


def test_a_result_is_the_answer_first_then_values_collectives_and_where_they_come_from(
    page, finished_run
):
    visit(page, finished_run)
    headline = answered(page)
    assert re.search(
        r"Next is .+, (about )?[\d.,]+× as long \([\d.,]+ to [\d.,]+\)|take the same time|Cannot tell |none of them is faster",
        headline,
    )
    page.get_by_test_id("stMain").get_by_text("Paired ratio").first.wait_for()
    text = screen_text(page)
    assert text.index(headline) < text.index("Paired ratio")
    assert "Simulated: a TPU may differ" in text and text.count("match") >= 4
    page.get_by_role("tab", name="Details").click()
    page.get_by_text(re.compile(r"0\.021\d+ 0\.89")).first.wait_for()
    text = screen_text(page)
    # in one row, or in two where the last digits differ
    shown = re.findall(r"^y, .+\s+([\d. ]+)$", text, re.MULTILINE)
    assert shown, text
    for values in shown:
        rounded = [round(float(value), 4) for value in values.split()]
        assert rounded == [0.0214, 0.8931, 0.5989, 0.9774]
    page.get_by_role("tab", name="Why").click()
    page.locator(".st-key-communication table").wait_for()
    text = screen_text(page)
    # alike, and so in one row
    both = r"(Automatic,\s*\W*Constrained|Constrained,\s*\W*Automatic)"
    assert re.search(rf"{both}\s+\W*all-reduce\s+x\s+16 B\s", text)
    assert re.search(r"shard_map\s+\W*all-reduce\s+x\s+16 B\s", text)
    assert "no communication" in text  # single
    assert "jnp.matmul(x, weights" in text  # the line that caused it
    page.get_by_role("tab", name="Fastest").click()
    page.locator(
        '[aria-label^="Time per call by strategy, median of all samples: Single device"]'
    ).first.wait_for(state="attached")
    page.get_by_text("How sure?").click()
    page.get_by_text("dispatch floor, a call that only adds 1").first.wait_for()
    assert "8 simulated CPU devices" in page.get_by_test_id("stPopoverBody").inner_text()
    page.keyboard.press("Escape")
    # details are loaded when their tab is opened
    assert "def program" not in text
    page.get_by_role("tab", name="Details").click()
    page.get_by_role("radio", name="Phases").click()
    page.get_by_text("Then, per call").wait_for()
    page.get_by_role("radio", name="Layouts").click()
    page.get_by_test_id("stTabs").get_by_role("radio", name="Automatic").click()
    page.get_by_text("P('x', None)").first.wait_for()


def test_a_run_is_found_again_after_a_reload_and_another_viewer_waits_behind_it(
    page, other_page, link
):
    visit(page, link(timing=LONG, strategies=["single"]))
    page.get_by_text("Nothing has been computed yet").wait_for()
    press_run(page)
    page.locator(".st-key-live").wait_for()
    page.wait_for_url("**&run=*")
    run = run_of(page.url)
    page.reload()
    page.locator(".st-key-live").wait_for()
    assert run_of(page.url) == run
    visit(other_page, link(timing={"samples": 3, "min_seconds": 0}, strategies=["single"]))
    press_run(other_page)
    other_page.get_by_text("Queued").wait_for()
    other_page.get_by_text("in the queue").first.wait_for()
    press_cancel(page)
    page.get_by_text("This run was cancelled").wait_for()
    settled(page)
    assert run_of(page.url) == run
    page.get_by_role("button", name="Run", exact=True).wait_for()
    headline = answered(other_page)
    assert "95% interval" in headline and "Single device" in headline


def test_the_overview_shows_what_runs_an_edit_keeps_the_way_back_and_a_kill_is_told(
    server, page, other_page, link
):
    visit(page, link(timing=LONG, strategies=["single"]))
    press_run(page)
    page.get_by_text(re.compile(r"round \d+ of 1000")).wait_for()
    run = run_of(page.url)
    visit(other_page, server.url)
    other_page.get_by_text(re.compile(r"Running, .*round \d+ of 1000")).wait_for()
    unfold(page, "Sizes")
    page.get_by_label("out", exact=True).fill("8")
    page.keyboard.press("Enter")
    page.get_by_text("Running now: Dense layer 32×4").click()
    page.wait_for_url(f"**&run={run}")
    address = page.url
    server.kill()
    server.start()
    visit(page, address)
    page.get_by_text("This run was interrupted").wait_for()
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled(timeout=PATIENCE_MS)
    visit(page, server.url)
    page.get_by_text("simulated CPU devices,").wait_for()
    expect(page.locator(".st-key-running")).to_have_count(0)
