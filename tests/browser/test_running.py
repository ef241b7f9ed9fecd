"""Run, watch, cancel, reload in mid-run: what the user reads on Compare."""

import re
from urllib.parse import parse_qs, urlsplit

from tests.browser.server import answered, press_cancel, screen_text, settled, visit

LONG = {"samples": 1000, "min_seconds": 60}


def run_of(url: str) -> str:
    return parse_qs(urlsplit(url).query)["run"][0]


def press_run(page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()


def test_the_default_experiment_runs_and_the_answer_comes_first(server, page):
    visit(page, f"{server.url}/compare")
    assert "Nothing has been computed yet" in screen_text(page)
    press_run(page)
    page.locator(".st-key-live").wait_for()
    page.get_by_role("button", name="Cancel").wait_for()
    headline = answered(page)
    text = screen_text(page)
    assert re.search(r"is fastest: [\d.,]+ [µm]s per call\. Next is .+: [\d.,]+ [µm]?s, paired ratio [\d.]+×|No difference between ", headline)
    assert text.index(headline) < text.index("Median per call") < text.index("Communication")
    assert "8 simulated CPU devices" in text
    assert "dispatch floor" in text


def test_a_result_shows_values_collectives_and_where_they_come_from(page, finished_run):
    visit(page, finished_run)
    answered(page)
    text = screen_text(page)
    # in one row, or in two where the last digits differ
    shown = re.findall(r"^y, .+\s+([\d. ]+)$", text, re.MULTILINE)
    assert shown
    for values in shown:
        rounded = [round(float(value), 4) for value in values.split()]
        assert rounded == [0.0214, 0.8931, 0.5989, 0.9774]
    # alike, and so in one row
    both = "(Automatic, Constrained|Constrained, Automatic)"
    assert re.search(rf"{both}\s+all-reduce over x, 16 B\s", text)
    assert re.search(r"shard_map\s+all-reduce over x, 16 B\s", text)
    assert "no communication" in text  # single
    assert "jnp.matmul(x, weights" in text  # the line that caused it
    assert text.count("right") >= 4
    assert page.locator('[aria-label^="Time per call by strategy, median of all samples: Single device"]').count() >= 1


def test_details_load_when_their_tab_is_opened(page, finished_run):
    visit(page, finished_run)
    answered(page)
    assert "def program" not in screen_text(page)
    page.get_by_role("tab", name="Programs").click()
    page.get_by_text("def program(x, weights, bias):").first.wait_for()
    page.get_by_test_id("stTabs").get_by_role("radio", name="Compiled HLO").click()
    page.get_by_text("Entry: main").wait_for()
    page.get_by_role("tab", name="Phases").click()
    page.get_by_text("Then, per call").wait_for()
    page.get_by_role("tab", name="Layouts").click()
    page.get_by_test_id("stTabs").get_by_role("radio", name="Automatic").click()
    page.get_by_text("P('x', None)").first.wait_for()


def test_a_reload_in_mid_run_finds_the_run_and_cancel_ends_it(page, link):
    visit(page, link(timing=LONG, strategies=["single", "auto"]))
    press_run(page)
    page.locator(".st-key-live").wait_for()
    page.wait_for_url("**&run=*")
    run = run_of(page.url)
    page.reload()
    page.locator(".st-key-live").wait_for()
    assert run_of(page.url) == run
    page.get_by_text(re.compile(r"round \d+ of 1000")).wait_for(timeout=60_000)
    press_cancel(page)
    page.get_by_text("This run was cancelled").wait_for()
    settled(page)
    assert run_of(page.url) == run
    page.get_by_role("button", name="Run", exact=True).wait_for()


def test_a_second_viewer_waits_in_the_queue_and_is_told_so(new_page, link):
    first, second = new_page(), new_page()
    visit(first, link(timing=LONG, strategies=["single"]))
    press_run(first)
    first.locator(".st-key-live").wait_for()
    visit(second, link(timing={"samples": 3, "min_seconds": 0}, strategies=["single"]))
    press_run(second)
    second.get_by_text("Queued").wait_for()
    assert "in the queue" in screen_text(second)
    press_cancel(first)
    first.get_by_text("This run was cancelled").wait_for()
    answered(second)
    assert "Single device takes" in screen_text(second)


def test_a_run_whose_dashboard_was_killed_says_so_after_a_restart(server, page, link):
    visit(page, link(timing=LONG, strategies=["single"]))
    press_run(page)
    page.get_by_text(re.compile(r"round \d+ of 1000")).wait_for(timeout=60_000)
    address = page.url
    server.kill()
    server.start()
    visit(page, address)
    page.get_by_text("This run was interrupted").wait_for()
    press_run(page)
    page.locator(".st-key-live").wait_for()
    assert run_of(page.url) != run_of(address)
    press_cancel(page)
    page.get_by_text("This run was cancelled").wait_for()


def test_the_overview_shows_what_runs_and_an_edit_keeps_the_way_back(server, new_page, link):
    page, other = new_page(), new_page()
    visit(page, link(timing=LONG, strategies=["single"]))
    press_run(page)
    page.get_by_text(re.compile(r"round \d+ of 1000")).wait_for(timeout=60_000)
    run = run_of(page.url)
    visit(other, server.url)
    other.get_by_text(re.compile(r"measuring, round \d+ of 1000")).wait_for()
    page.get_by_label("out", exact=True).fill("8")
    page.keyboard.press("Enter")
    page.get_by_text("Running now: Dense layer, in=32 out=4").click()
    page.wait_for_url(f"**&run={run}")
    press_cancel(other)
    page.get_by_text("This run was cancelled").wait_for()
    other.get_by_text("Nothing runs and nothing waits.").wait_for()
