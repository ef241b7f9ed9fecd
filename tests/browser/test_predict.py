"""The Predict screen in a real browser: from a click to the answer by the real TPU compiler, links,
cancel, and the timeline.
"""

import json
import re

import pytest
from playwright.sync_api import expect

from spmd_core.experiment import link as links
from spmd_core.experiment.experiment import parse_experiment
from spmd_core.timeline import text as timeline
from tests.browser.server import screen_text, settled, visit
from tests.timeline.values import EXPOSED
from tests.timeline.values import timeline as exposed_timeline
from tests.ui.predictions import MODEL, predicted, prediction, store

LAYER = {"workload": "layer", "target": "tpu:v5e:4x4", "mesh": {"x": 4, "y": 4},
         "dims": {"batch": 8192, "in": 4096, "out": 4096}, "dtype": "bfloat16",
         "sharding": {"batch": "x", "in": "y"}, "strategies": ["auto", "shard_map"]}
COMPILE_MS = 240_000  # a second where the machine has nothing else to do


def address(server, spec=None, run=None):
    experiment = MODEL if spec is None else parse_experiment(spec)
    return server.url + links.link_path(experiment, run, "predict")


@pytest.fixture(scope="session")
def stored(server):
    """The address of a model's prediction that is in the server's folder."""
    store(server.folder / "data", predicted(run="20260101-000000-aaaaaa"))
    return address(server, run="20260101-000000-aaaaaa")


def test_a_layer_from_click_to_answer(server, page):
    pytest.importorskip("libtpu")
    visit(page, address(server, LAYER))
    assert "Not compiled yet" in screen_text(page)
    page.get_by_role("button", name="Predict", exact=True).click()
    page.locator(".st-key-answer").wait_for(timeout=COMPILE_MS)
    settled(page)
    text = screen_text(page)
    assert re.search(r"predicted (fastest: |to take )[\d.]+ µs|No difference between", text)
    assert "60.0 MiB" in text
    page.get_by_text("the contracted dim in is sharded over y").first.wait_for()
    assert "run=" in page.url
    page.reload()  # the link shows what is stored
    page.locator(".st-key-answer").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
        page.get_by_role("button", name="JSON", exact=True).click()
    kept = json.loads(download.value.path().read_text())
    assert kept["strategies"]["auto"]["prediction"]["fits"] is True


def test_a_link_shows_the_stored_prediction_without_compiling(server, page, stored):
    visit(page, stored)
    page.get_by_text("Step time 16.2 ms at 86.1% MFU, compute-bound. 8.0 GiB of 15.8 GiB per device: fits.").wait_for()
    page.get_by_test_id("stMetric").filter(has_text="MFU").get_by_text("86.1%").wait_for()
    page.get_by_test_id(
        "stMetric").filter(
        has_text="Tokens per second").get_by_text(
        f"{prediction().tokens_per_s_per_chip:,.0f}").wait_for()
    page.get_by_role("tab", name="Memory").click()
    page.get_by_text("a torus of 16 × 16 over x and y").first.wait_for()
    page.get_by_role("tab", name="Beside").click()
    page.get_by_placeholder("e.g. 0.25").fill("0.016")
    page.keyboard.press("Enter")
    page.get_by_text("which is inside the predicted interval").wait_for()
    page.wait_for_url("**measured=0.016*")
    # leaving and coming back keeps everything
    page.get_by_role("link", name="History").click()
    page.get_by_role("heading", name="History").wait_for()
    page.get_by_role("link", name="Predict").click()
    expect(page.locator(".st-key-answer")).to_contain_text("16.2 ms")


def test_history_opens_it_here(server, page, stored):
    visit(page, f"{server.url}/history?search=20260101-000000-aaaaaa&runs=20260101-000000-aaaaaa")
    page.get_by_text("Open this run").click()
    page.wait_for_url("**/predict?experiment=*")
    page.locator(".st-key-answer").wait_for()


def test_two_predictions_stand_side_by_side(server, page, stored):
    other = MODEL.vary(dims={"batch": 768, "sequence": 2048})
    store(server.folder / "data",
          predicted(other, "20260101-000000-cccccc", auto=prediction(10**15)))
    visit(page, stored + "&with=20260101-000000-cccccc")
    page.get_by_role("tab", name="Beside").click()
    page.get_by_text("Both programs communicate alike.").wait_for()
    page.get_by_text("B against A").first.wait_for()
    assert "3 × 2,048 tokens per device" in screen_text(page)


def test_a_compile_is_cancelled(server, page):
    pytest.importorskip("libtpu")
    visit(page, address(server, MODEL.vary(dims={"batch": 256, "sequence": 2048}).to_json()))
    page.get_by_role("button", name="Predict", exact=True).click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("This run was cancelled").wait_for(timeout=60_000)
    expect(page.get_by_role("button", name="Predict", exact=True)).to_be_enabled()


def test_a_timeline_is_walked_in(server, page):
    texts = {"auto": {timeline.NAME: timeline.to_text(exposed_timeline(EXPOSED))}}
    experiment = MODEL.vary(dims={"batch": 256, "sequence": 1024})
    store(server.folder / "data", predicted(experiment, "20260101-000000-dddddd"), texts)
    visit(page, address(server, experiment.to_json(), "20260101-000000-dddddd"))
    walk, canvas = page.locator(".timeline"), page.locator(".timeline canvas")
    canvas.wait_for()
    expect(walk.locator(".path")).to_have_text("whole step")
    expect(canvas).to_have_attribute("aria-label", re.compile("Timeline of whole step"))
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] / 2, "y": 50})  # the loop
    expect(walk.locator(".path .here")).to_have_text("loop × 10")
    page.wait_for_url("**at=1*")
    drawn = int(walk.get_attribute("data-drawn"))
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 50)
    page.mouse.wheel(0, -300)
    page.wait_for_function("before => Number(document.querySelector('.timeline')?.dataset.drawn "
                           "|| [...document.querySelectorAll('*')].find(each => each.shadowRoot"
                           "?.querySelector('.timeline')).shadowRoot.querySelector('.timeline')"
                           ".dataset.drawn) > before", arg=drawn)
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
    page.reload()  # the link says where
    canvas.wait_for()
    expect(walk.locator(".path .here")).to_have_text("loop × 10")
