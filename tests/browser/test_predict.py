"""The Predict screen: a stored prediction from its link, refusals, the picture of the topology."""

import re

import pytest

from spmd_core import link
from spmd_core.cost.comm import Cluster
from spmd_core.cost.predict import Useful, predict
from spmd_core.plan import parse_plan
from spmd_core.worker.predictions import Predictions
from tests.browser.server import screen_text, settled, visit
from tests.cost.programs import LOOP

PLAN = parse_plan({"target": "tpu:v5e:16x16", "model": "scaled:16", "mesh": {"fsdp": 256}, "batch_per_device": 6})


def address(server, plan):
    return f"{server.url}/predict?plan={link.pack(plan.model_dump(mode='json', exclude_defaults=True))}"


@pytest.fixture
def stored(server):
    """A prediction of PLAN in the server's folder, made of a small module."""
    places = tuple((i, j, 0, 0, 0) for i in range(16) for j in range(16))
    found = predict(LOOP, Cluster(PLAN.topology, places), {"peak_memory": 2**33, "argument": 2**30}, PLAN.mesh, Useful(256 * 40 * 4096**3, 256000))
    Predictions(server.folder / "data").store(PLAN, found)
    return found


def test_a_link_shows_the_stored_prediction_without_compiling(server, page, stored):
    visit(page, address(server, PLAN))
    page.get_by_text("Tokens per second and chip").wait_for()
    settled(page)
    text = screen_text(page)
    assert f"{stored.mfu:.1%}" in text
    assert re.search(r"8\.0 GiB\s+of 15\.8 GiB", text)
    assert "compute binds" in text
    assert "v5e:16x16: 256 chips, rings along x, y" in text
    assert page.get_by_role("button", name="Predict", exact=True).is_disabled()


def test_a_mesh_that_does_not_fill_the_topology_is_refused_with_a_fix(server, page):
    visit(page, f"{server.url}/predict")
    page.get_by_label("Mesh", exact=True).fill("fsdp=8")
    page.keyboard.press("Enter")
    page.get_by_text("mesh of 8 devices does not fill v5e:4x4 with its 16: make the axes multiply to 16").wait_for()


def test_a_damaged_link_is_refused(server, page):
    visit(page, f"{server.url}/predict?plan=1.notalink")
    page.get_by_text("This link cannot be opened as it is.").wait_for()
