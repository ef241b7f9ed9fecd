"""Links in a browser: a deep link after a restart, sharing, and what a screen before left."""

from contextlib import closing
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from bench.browser import PATIENCE_MS, answered, fields_say, settled, visit
from bench.values import result, strategy
from spmd_core.experiment import link_path, parse_experiment
from spmd_core.lab import Lab
from tests.cover import whole
from tests.ui.predictions import store


def test_a_deep_link_right_after_a_restart_opens_its_screen(server, page, link):
    address = link(
        dims={"batch": 16, "in": 64, "out": 8},
        dtype="bfloat16",
        mesh={"rows": 2, "cols": 4},
        sharding={"in": "cols", "batch": "rows"},
    )
    server.restart()  # nobody has opened the root since
    visit(page, address)
    expect(page).to_have_title("Compare · SPMD Lab")
    expect(page.locator(".st-key-menu").get_by_test_id("stPageLink")).to_contain_text(
        ["Overview", "Layout", "Compare", "History", "Recipes"]
    )
    fields_say(
        page,
        **{
            "in": "64",
            "batch": "16",
            "out": "8",
            "Axis_1_name": "rows",
            "Axis_2_name": "cols",
            "Axis_2_size": "4",
        },
    )
    page.get_by_text("Nothing has been computed yet").wait_for()


def test_a_shared_link_opens_the_same_result_tab_strategy_and_text_for_another_viewer(
    page, other_page, finished_run
):
    sender, receiver = page, other_page
    visit(sender, finished_run)
    headline = answered(sender)
    sender.get_by_role("tab", name="Program").click()
    for name in ("shard_map", "StableHLO"):
        sender.get_by_test_id("stTabs").get_by_role("radio", name=name, exact=True).click()
        settled(sender)
    sender.get_by_text("What JAX handed to the compiler").wait_for()
    sender.get_by_role("button", name="Share").click()
    address = sender.get_by_test_id("stPopoverBody").locator("code").inner_text().strip()
    assert "tab=Program" in address and len(address) < 2000  # no strategy where it is the one shown
    visit(receiver, address)
    receiver.get_by_text("What JAX handed to the compiler").wait_for()
    expect(receiver.get_by_role("tab", name="Program")).to_have_attribute("aria-selected", "true")
    chosen = receiver.get_by_test_id("stTabs").get_by_role("radio", name="shard_map", exact=True)
    expect(chosen).to_be_checked(timeout=PATIENCE_MS)
    expect(receiver.locator(".st-key-answer h3")).to_have_text(headline)
    card = sender.locator(".st-key-answer").inner_text()
    arrived = receiver.locator(".st-key-answer")  # its buttons are drawn last
    expect(arrived).to_have_text(card, use_inner_text=True, timeout=PATIENCE_MS)


@pytest.mark.parametrize("before", ["recipes", pytest.param("history", marks=whole)])
def test_a_filter_in_a_link_is_kept_and_starts_nothing_on_the_next_screen(server, page, before):
    visit(page, f"{server.url}/{before}?search=psum")
    words = page.get_by_role("textbox", name="Search")
    expect(words).to_have_value("psum")
    words.fill("all-gather")
    words.press("Enter")
    page.wait_for_url("**search=all-gather**")
    page.locator(".st-key-menu").get_by_role("link", name="Find a sharding", exact=True).click()
    page.get_by_role("heading", name="Which sharding trains fastest?").wait_for()
    page.get_by_role("button", name="Share").wait_for()  # what it draws last
    settled(page)
    assert page.get_by_text("This link cannot be opened").count() == 0


def test_an_archive_completes_the_link_that_asked_for_it(server, page, tmp_path):
    """The link of a run that is not here leads to History, which keeps it until it is imported."""
    runs = [f"20260102-000000-{letter * 6}" for letter in "ab"]
    for at, run in enumerate(runs):
        store(tmp_path, result({"auto": strategy((at + 1) * 1e-5)}, run=run))
    with closing(Lab.open(tmp_path, serve=False)) as lab:
        archives = []
        for at, run in enumerate(runs):
            archives.append(tmp_path / f"{at}.spmdlab")
            with archives[-1].open("wb") as file:
                lab.archives.export([run], file)
        link = link_path(lab.status(runs[0]).experiment, runs[0])
    visit(page, server.url + link)
    page.get_by_role("link", name="Import its archive on History").click()
    page.wait_for_url(f"**/history?runs={runs[0]}")
    _import(page, archives[0])
    page.wait_for_url(f"**/compare?*run={runs[0]}")
    expect(page.locator(".st-key-answer .figure")).to_contain_text("10 µs")
    visit(page, f"{server.url}/history?runs={','.join(runs)}")
    expect(page.get_by_text(f"The link names {runs[1]}, not stored here")).to_be_visible()
    _import(page, archives[1])
    expect(page.locator(".st-key-answer h3")).to_be_visible()
    expect(page.get_by_text("not stored here")).to_have_count(0)
    named = parse_qs(urlsplit(page.url).query)["runs"][0].split(",")
    assert sorted(named) == runs


def _import(page, archive) -> None:
    page.get_by_role("button", name="Import").click()
    page.get_by_test_id("stFileUploader").locator("input").set_input_files(archive)


def test_a_collective_that_is_chosen_after_a_stored_answer_left_is_in_the_link(server, page):
    asked = {"workload": "collectives", "target": "tpu:v5e:2x4", "mesh": {"x": 2, "y": 4}}
    visit(page, server.url + link_path(parse_experiment(asked), None, "collectives"))
    page.get_by_role("button", name="Store prediction").click()
    page.wait_for_url("**run=*")
    _choose_kind(page, "All-to-all")
    target = page.get_by_role("combobox", name="Target")
    target.fill("v5p:8")
    target.press("Enter")
    page.get_by_text("on v5p:2x2x2").first.wait_for()
    settled(page)  # a line on the stored answer is above the choices now
    for kind in ("All-gather", "Reduce-scatter"):
        _choose_kind(page, kind)


def _choose_kind(page, kind):
    page.locator(".st-key-kind input").click()
    page.get_by_role("option", name=kind, exact=True).click()
    page.wait_for_url(f"**kind={kind}*")
    settled(page)


def test_a_suggestion_of_a_screen_stays_after_the_next_press_and_is_in_the_address(server, page):
    visit(page, f"{server.url}/layout")
    offered = page.get_by_role("link", name="Shard d1 over x")
    address = offered.get_attribute("href").partition("?")[2]
    offered.click()
    page.wait_for_url(f"**?{address}*")
    page.get_by_text("Every device as a table").click()
    settled(page)
    assert page.url.endswith(address)
    expect(page.get_by_text("8 devices each hold 2 × 8 of 8 × 16").first).to_be_visible()
