"""The viewer of program texts in a real browser: its style, and the way from a line that
communicates to its ops. What it says is read in tests/ui/ir.
"""

import re

import pytest
from playwright.sync_api import expect

from bench.browser import PATIENCE_MS, answered, press_cancel, settled, visit
from tests.cover import whole

# once a window is that wide and its cards have badges: those that reach beyond their card, or the window
OUTSIDE = """width => {
  const cards = [...document.querySelectorAll('[class*="st-key-answer"]')].filter(card => card.offsetWidth);
  const parts = '.stMarkdownBadge, [class*="st-key-how-sure"] button';
  if (innerWidth !== width || !cards.some(card => card.querySelector(parts))) return null;
  return cards.flatMap(card => {
    const edge = card.getBoundingClientRect();
    return [...card.querySelectorAll(parts)].filter(part => {
      const box = part.getBoundingClientRect();
      return box.left < edge.left || box.right > Math.min(edge.right, innerWidth); })
    .map(part => part.innerText); }); }"""
WIDTHS = (1400, 1000, 700, 390)


def badges_are_inside(page):
    """No badge of a card reaches beyond it, at any width."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        inside = f"width => ({OUTSIDE})(width)?.length === 0"
        try:
            page.wait_for_function(inside, arg=width, timeout=10_000)
        except Exception:  # which badges
            pytest.fail(f"at {width} px: {page.evaluate(OUTSIDE, width)}")


def test_badges_stay_in_a_run_s_card_and_what_a_search_of_its_program_found_is_marked(
    page, finished_run
):
    visit(page, finished_run)
    answered(page)
    badges_are_inside(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("tab", name="Program").click()
    tabs = page.get_by_test_id("stTabs")
    expect(tabs.get_by_role("region", name="Lines of The program")).to_contain_text(
        "def program(x, weights, bias):"
    )
    for name in ("Automatic", "Compiled HLO"):
        tabs.get_by_role("radio", name=name, exact=True).click()
        settled(page)
    expect(tabs.get_by_role("region", name="Lines of main")).to_contain_text("all-reduce(")
    expect(tabs.get_by_role("region", name="Lines of fused_computation")).to_have_count(0)
    tabs.get_by_text("fused_computation", exact=True).click()
    expect(tabs.get_by_role("region", name="Lines of fused_computation")).to_contain_text("divide(")
    tabs.get_by_label("Search", exact=True).fill("ALL-REDUCE(")
    page.keyboard.press("Enter")
    matching = tabs.get_by_role("region", name="Matching lines")
    expect(matching.locator("mark")).to_have_text(["all-reduce("])
    mark = matching.locator("mark").evaluate("mark => getComputedStyle(mark).backgroundColor")
    # the viewer's own color: its style is there
    assert mark not in ("rgba(0, 0, 0, 0)", "rgb(255, 255, 0)")


def test_a_line_that_communicates_leads_to_its_ops_in_the_viewer(page, finished_run):
    page.set_viewport_size({"width": 1600, "height": 900})
    visit(page, finished_run)
    answered(page)
    page.get_by_role("tab", name="Why").click()
    page.get_by_role("radio", name=re.compile("shard_map$")).click()
    settled(page)
    why = page.locator(".st-key-communication td").last
    # wider than Streamlit's own limit
    assert why.evaluate("cell => cell.firstElementChild.getBoundingClientRect().width") > 400
    page.get_by_role("button", name=re.compile(r"^.*Line \d+ in the compiled program")).click()
    tabs = page.get_by_test_id("stTabs")
    expect(tabs.get_by_role("tab", name="Program")).to_have_attribute("aria-selected", "true")
    expect(
        tabs.get_by_role("region", name="Lines of layer_shard_map.py").locator(".row.strong")
    ).to_contain_text("jax.lax.psum(")
    expect(
        tabs.get_by_role("region", name="Ops", exact=True).locator(".row.strong")
    ).to_contain_text("all-reduce(")
    expect(page.get_by_test_id("stAlertContainer")).to_have_count(0)


@pytest.mark.parametrize("screen", ["predict", pytest.param("collectives", marks=whole)])
def test_the_badges_of_a_card_stay_inside_it(server, page, screen):
    visit(page, f"{server.url}/{screen}")
    page.locator('[class*="st-key-how-sure"]').first.wait_for(timeout=PATIENCE_MS)
    badges_are_inside(page)


@whole
def test_the_badges_of_a_program_s_search_stay_inside_its_card(server, page):
    visit(page, f"{server.url}/programs")
    page.get_by_role("button", name="Try an example").click()
    page.get_by_text("Which mesh and specs are better?").click()
    page.get_by_role("button", name="Search meshes and specs").first.click()
    page.get_by_test_id("stExpander").locator("h3").first.wait_for(timeout=PATIENCE_MS)
    badges_are_inside(page)
    press_cancel(page)
