"""The Predict screen in a real browser: from a click to the answer by the real TPU compiler, the way
from History and back, and the timeline.
"""

import json
import re

import pytest
from playwright.sync_api import expect

from bench.browser import PATIENCE_MS, settled, visit
from spmd_core.experiment import link as links, parse_experiment
from tests.browser.stored import PREDICTED, WALKED, WALKED_IN

LAYER = {
    "workload": "layer",
    "target": "tpu:v5e:2x2",
    "mesh": {"x": 4},
    "dims": {"batch": 256, "in": 512, "out": 256},
    "dtype": "bfloat16",
    "sharding": {"in": "x"},
    "strategies": ["auto"],
}
COMPILE_MS = 240_000  # a second where the machine has nothing else to do


def test_a_layer_from_click_to_answer(server, page):
    pytest.importorskip("libtpu")
    visit(page, server.url + links.link_path(parse_experiment(LAYER), None, "predict"))
    page.get_by_text("Not compiled yet").first.wait_for()
    page.get_by_role("button", name="Compile", exact=True).click()
    page.locator(".st-key-answer").wait_for(timeout=COMPILE_MS)
    expect(page.locator(".st-key-answer")).to_contain_text(
        re.compile(r"Time [\d.]+ µs at [\d.]+% MFU, interconnect-bound. .+ per device: fits.")
    )
    page.get_by_text("the contracted dim in is sharded over x").first.wait_for()
    page.wait_for_url("**run=*")
    page.reload()  # the link shows what is stored
    page.locator(".st-key-answer").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download", exact=True).click()
        page.get_by_role("button", name="JSON", exact=True).click()
    kept = json.loads(download.value.path().read_text())
    assert kept["strategies"]["auto"]["prediction"]["fits"] is True


def test_a_column_of_words_is_not_aligned_as_the_numbers_that_were_in_its_place(server, page):
    visit(page, f"{server.url}/predict")
    head = page.locator('.st-key-other-chips [data-testid="stTable"] th')
    expect(head.filter(has_text="Memory")).to_have_class(re.compile("number"))
    price = page.get_by_label("Price per chip-hour ($)", exact=True)
    price.fill("v5e=1.2")
    price.press("Enter")
    head.filter(has_text="Dollars").wait_for(timeout=PATIENCE_MS)
    for words in ("Mesh", "Remat", "Bound by"):
        expect(head.filter(has_text=words)).not_to_have_class(re.compile("number"))


def test_history_opens_a_stored_prediction_here_and_coming_back_keeps_it(server, page):
    visit(page, f"{server.url}/history?search={PREDICTED}&runs={PREDICTED}")
    page.get_by_text("Open this run").click()
    page.wait_for_url("**/predict?experiment=*")
    page.get_by_text("8.0 GiB").first.wait_for()
    page.get_by_role("tab", name="Memory").click()
    page.get_by_text("a torus of 16 × 16 over x and y").first.wait_for()
    settled(page)
    page.get_by_role("link", name="History").click()
    page.get_by_role("heading", name="What ran").wait_for()
    page.get_by_role("link", name="Predict", exact=True).click()
    expect(page.locator(".st-key-answer")).to_contain_text("16.2 ms", timeout=PATIENCE_MS)


PASSES = """canvas => {
  const dense = canvas.width / canvas.clientWidth, high = Math.round(64 * dense);
  const { data } = canvas.getContext("2d").getImageData(0, high, canvas.width, 1);
  let changes = 0;
  for (let at = 4; at < data.length; at += 4) {
    const far = [0, 1, 2].reduce((sum, each) => sum + Math.abs(data[at + each] - data[at - 4 + each]), 0);
    changes += far > 60;
  }
  return changes; }"""


def test_a_timeline_is_walked_in(server, page):
    visit(page, server.url + links.link_path(WALKED_IN, WALKED, "predict"))
    walk, canvas = page.locator(".timeline"), page.locator(".timeline .field canvas")
    canvas.wait_for()
    expect(walk.locator(".path")).to_have_text("whole step")
    expect(canvas).to_have_attribute("aria-label", re.compile("Timeline of whole step"))
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    one = walk.locator(".one")
    expect(one.get_by_role("button")).to_have_text(re.compile(r"One pass of loop: [\d.]+ (µs|ms)"))
    one.locator("canvas").click()
    expect(walk.locator(".path .here")).to_have_text("loop × 10")
    expect(one).to_be_hidden()
    walk.get_by_role("button", name="whole step").click()
    # each pass is drawn where it is: its operations alternate along the row
    changes = canvas.evaluate(PASSES)
    assert changes >= 2 * 10 - 1, changes
    canvas.click(position={"x": box["width"] / 2, "y": 50})  # the loop
    expect(walk.locator(".path .here")).to_have_text("loop × 10")
    page.wait_for_url("**at=1*")
    drawn = int(walk.get_attribute("data-drawn"))
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 50)
    page.mouse.wheel(0, -300)
    page.wait_for_function(
        "before => Number(document.querySelector('.timeline')?.dataset.drawn "
        "|| [...document.querySelectorAll('*')].find(each => each.shadowRoot"
        "?.querySelector('.timeline')).shadowRoot.querySelector('.timeline')"
        ".dataset.drawn) > before",
        arg=drawn,
    )
    page.keyboard.press("Home")
    page.keyboard.press("/")
    page.keyboard.type("all-gather")
    page.keyboard.press("Enter")
    pick = walk.locator(".pick")
    expect(pick).to_contain_text("begin = ")
    assert re.search(r"Hidden\s*[\d.]+ µs\s*Exposed\s*112 µs", pick.inner_text())
    page.wait_for_url("**at=1*begin*")
    canvas.focus()
    page.keyboard.press("Backspace")
    expect(walk.locator(".path")).to_have_text("whole step")
    page.keyboard.press("Enter")
    expect(walk.locator(".path .here")).to_have_text("loop × 10")
    with page.expect_download() as download:
        page.get_by_role("button", name="Trace for Perfetto").click()
    events = json.loads(download.value.path().read_text())["traceEvents"]
    assert sum(each["ph"] == "X" for each in events) > 30
    canvas.focus()
    page.keyboard.press("+")
    page.wait_for_url(re.compile(r"at=1%3A[^&]*~"))  # the seconds in sight
    page.reload()  # the link says where
    canvas.wait_for()
    expect(walk.locator(".path .here")).to_have_text("loop × 10")
    seen = page.url
    page.wait_for_timeout(1500)  # as long as the viewer rests, and more
    assert page.url == seen
