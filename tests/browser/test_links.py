"""Links: a deep link after a restart, sharing, bad links, links that do not fit."""

import base64
import json
import zlib

from playwright.sync_api import expect

from tests.browser.server import (
    PATIENCE_MS,
    answered,
    fields_say,
    screen_text,
    settled,
    visit,
)


def code_of(spec: object, version: int = 1) -> str:
    packed = zlib.compress(json.dumps(spec).encode(), 9)
    return f"{version}." + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def test_a_deep_link_right_after_a_restart_opens_its_screen(server, page, link):
    address = link(dims={"batch": 16, "in": 64, "out": 8}, dtype="bfloat16",
                   mesh={"rows": 2, "cols": 4}, sharding={"in": "cols", "batch": "rows"})
    server.restart()  # nobody has opened the root since
    visit(page, address)
    assert page.title() == "Compare · SPMD Lab"
    expect(page.locator(".st-key-menu").get_by_test_id("stPageLink")).to_contain_text(["Overview",
                                                                                       "Layout",
                                                                                       "Compare",
                                                                                       "Recipes",
                                                                                       "History"])
    fields_say(page,
               **{"in": "64", "batch": "16", "out": "8", "Axis_1_name": "rows",
                  "Axis_2_name": "cols", "Axis_2_size": "4"})
    assert "Nothing has been computed yet" in screen_text(page)


def test_a_bad_link_is_refused_in_one_sentence_and_the_default_stays(server, page):
    bomb = "1." + base64.urlsafe_b64encode(zlib.compress(b" " * 10**7)).decode()
    visit(page, f"{server.url}/compare?experiment={bomb}")
    text = screen_text(page)
    assert "inflates to more than 64 KiB" in text, text[:400]
    assert "Traceback" not in text
    fields_say(page, rows="1024", cols="512")


def test_a_link_with_an_unknown_axis_offers_the_nearest_experiment(server, page):
    code = code_of({"workload": "layer", "target": "cpu:8", "mesh": {"x": 8},
                    "dims": {"in": 64, "out": 4}, "sharding": {"in": "z"}})
    visit(page, f"{server.url}/compare?experiment={code}")
    assert "is not in the mesh" in screen_text(page)
    page.get_by_role("button", name="Use the nearest experiment").click()
    settled(page)
    page.get_by_text("This link cannot be opened").wait_for(state="detached")
    fields_say(page, **{"in": "64"})


def test_a_link_of_a_larger_machine_is_shown_as_it_is_and_offers_one_that_fits(page, link):
    visit(page, link(run="20200101-000000-abcdef", mesh={"x": 16}, dims={"in": 48, "out": 4}))
    text = screen_text(page)
    assert "is larger than target cpu:8 with 8" in text
    assert "This machine has no run 20200101-000000-abcdef" in text
    assert page.locator(".st-key-live").count() == 0  # nothing is computed
    # never another experiment silently
    fields_say(page, **{"in": "48", "Axis_1_size": "16"})
    page.get_by_role("button", name="Use the nearest experiment").click()
    page.get_by_text("is larger than target").wait_for(state="detached")
    fields_say(page, **{"in": "48", "Axis_1_size": "8"})


def test_a_shared_link_opens_the_same_result_tab_strategy_and_text_for_another_viewer(
        page, new_page, finished_run):
    sender, receiver = page, new_page()
    visit(sender, finished_run)
    headline = answered(sender)
    sender.get_by_role("tab", name="Programs").click()
    for name in ("shard_map", "StableHLO"):
        sender.get_by_test_id("stTabs").get_by_role("radio", name=name, exact=True).click()
        settled(sender)
    sender.get_by_text("What JAX handed to the compiler").wait_for()
    sender.get_by_role("button", name="Share").click()
    address = sender.get_by_test_id("stPopoverBody").locator("code").inner_text().strip()
    assert "tab=Programs" in address and "strategy=shard_map" in address and len(address) < 2000
    visit(receiver, address)
    receiver.get_by_text("What JAX handed to the compiler").wait_for()
    expect(receiver.get_by_role("tab", name="Programs")).to_have_attribute("aria-selected", "true")
    chosen = receiver.get_by_test_id("stTabs").get_by_role("radio", name="shard_map", exact=True)
    expect(chosen).to_be_checked(timeout=PATIENCE_MS)
    assert receiver.locator(".st-key-answer h3").inner_text() == headline
    times = [each.get_by_test_id("stTable").first.inner_text() for each in (sender, receiver)]
    assert times[0] == times[1]
