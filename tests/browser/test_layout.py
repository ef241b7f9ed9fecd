"""The Layout screen: what the user reads of a mesh, an array and a spec, and of the real array."""

import re

from playwright.sync_api import expect

from bench.browser import screen_text, visit

ARRAY = {
    "workload": "array",
    "mesh": {"x": 2, "y": 4},
    "dims": {"d0": 4, "d1": 8},
    "sharding": {"d0": "x", "d1": "y"},
    "data": {"array": "arange"},
}

# whether an element, or one around it, is drawn without colors, and none faintly: its text is read
GRAY = """name => { let gray = false, least = 1;
  for (let each = document.querySelector('.' + name); each; each = each.parentElement) {
    gray ||= getComputedStyle(each).filter == 'grayscale(1)';
    least = Math.min(least, getComputedStyle(each).opacity);
  }
  return gray && least == 1; }"""


def picture(page):
    """The chart; its label is what assistive technology reads."""
    return page.get_by_test_id("stVegaLiteChart")


def says(page, *sentences):
    """The screen says all of these, once it has caught up."""
    for sentence in sentences:
        expect(page.get_by_test_id("stMain")).to_contain_text(sentence)


def edit(page, label, text):
    """Type into a field."""
    field = page.get_by_label(label, exact=True)
    field.fill(text)
    field.press("Enter")


def test_the_answer_comes_first_with_picture_numbers_and_code_and_a_bad_entry_loses_nothing(
    page, server
):
    visit(page, f"{server.url}/layout")
    answer = "8 devices each hold 2 × 16 of 8 × 16; replicated 2× over x"
    expect(page.locator(".st-key-recipe")).to_have_count(0)  # it would stand above the answer
    says(
        page,
        answer,
        "on each device",
        "jax.make_mesh((2, 4), ('x', 'y')",
        "NamedSharding(mesh, P('y', None))",
    )
    text = screen_text(page)
    assert text.index(answer) < text.index("on each device")
    full = answer.replace(";", ": 128 B of 512 B;")
    alt = re.escape(f"{full}. The array is drawn as 4 shards (d0 over y; d1 not sharded)")
    expect(picture(page)).to_have_attribute("aria-label", re.compile(alt))
    expect(picture(page).locator("text").first).to_be_attached()
    words = picture(page).locator("text").all_text_contents()
    assert {"0:2", "6:8", "x=1", "y=3", "7", "3, 7", "6:8, 0:16"} <= set(words)
    # a bad entry says why, and loses nothing
    edit(page, "Array shape", "5, 8")
    says(
        page,
        "d0=5 does not divide over mesh axis y=4: use d0=4 or 8, or leave d0 unsharded",
        "8 devices each hold 2 × 16 of 8 × 16",
    )
    expect(page.get_by_label("Array shape", exact=True)).to_have_value("5, 8")
    page.wait_for_function(GRAY, arg="st-key-answer")
    place = page.get_by_role("button", name="Place it on devices")
    expect(place).to_be_disabled()
    # white is the text of the button that can be pressed; on none it would be an empty box
    expect(place.locator("p")).not_to_have_css("color", "rgb(255, 255, 255)")
    edit(page, "Array shape", "12, 8")
    says(page, "8 devices each hold 3 × 8 of 12 × 8", "96 B", "768 B on all")
    expect(page.get_by_test_id("stMain")).not_to_contain_text("does not divide")


def test_pointing_at_a_device_says_what_it_holds_and_one_press_shards_what_is_replicated(
    page, link
):
    visit(page, link(**ARRAY | {"sharding": {"d1": "y"}}))
    says(page, "replicated 2× over x")
    cells = picture(page).locator("path[role=graphics-symbol]")
    expect(cells).to_have_count(12)  # 4 shards, 8 devices
    expect(cells.nth(4 + 5)).to_have_attribute(
        "aria-label", "device 5, mesh x=1, y=1, holds [0:4, 2:4], 32 B, same data on 1, 5"
    )
    cells.nth(4 + 5).hover()
    tooltip = page.locator("#vg-tooltip-element")
    expect(tooltip).to_contain_text("x=1, y=1")
    for words in ("[0:4, 2:4]", "32 B", "on 1, 5"):
        assert words in tooltip.inner_text()
    lit = """() => [...document.querySelectorAll(
      '[data-testid="stVegaLiteChart"] path[role=graphics-symbol]')].flatMap(
      (cell, place) => Number(cell.getAttribute("opacity") ?? 1) === 1 ? [place] : []).join()"""
    page.wait_for_function(f"({lit})() === '1,5,9'")
    says(page, "32 B", "256 B on all for an array of 128 B")
    page.get_by_role("link", name="Shard d0 over x: 32 → 16 B").click()
    says(page, "8 devices each hold 2 × 2 of 4 × 8", "nothing is replicated", "16 B")
    expect(page.get_by_role("link", name="Shard d0 over x")).to_have_count(0)


def test_the_real_array_is_placed_and_compared(page, link):
    visit(page, link(**ARRAY | {"memory": {"array": "pinned_host"}}))
    page.get_by_role("button", name="Place it on devices").click()
    outcome = (
        page.locator(".st-key-answer")
        .get_by_test_id("stLayoutWrapper")
        .filter(has_text="Placed in pinned_host memory:")
        .last
    )
    outcome.wait_for()
    expect(outcome).to_contain_text(
        "Placed in pinned_host memory: each of 8 devices holds its shard as drawn."
    )
    expect(page).to_have_url(re.compile("&run="))
    page.reload()
    page.get_by_text("each of 8 devices holds its shard as drawn").wait_for()
