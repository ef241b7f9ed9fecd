"""A file of the user's own in a browser: its first load shows itself, and an edit is taken by the
next run.
"""

import textwrap
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from bench.browser import answered, fields_say, settled, visit
from bench.server import Server
from spmd_core.experiment import parse_experiment
from spmd_core.experiment.link import decode, link_path
from spmd_core.workloads import files
from tests.experiment.test_newest import FIELDS, SWIGLU


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A dashboard with a file that loads once it is let; the file, and what lets it load."""
    path, go = tmp_path / "mine.py", tmp_path / "go"
    waits = f"""
        import pathlib, time

        while not pathlib.Path({str(go)!r}).exists():
            time.sleep(0.01)
    """
    path.write_text(textwrap.dedent(waits) + textwrap.dedent(SWIGLU))
    monkeypatch.setenv(files.VARIABLE, str(path))
    monkeypatch.setenv("SPMD_LAB_DATA", str(tmp_path / "data"))
    server = Server(tmp_path)
    server.start()
    yield server, path, go
    server.stop()


def test_a_load_shows_itself_and_an_edit_is_taken_by_the_next_run_with_its_fields(own, page):
    server, path, go = own
    visit(page, f"{server.url}/compare")
    page.get_by_text("mine.py is being loaded").wait_for()
    go.touch()
    page.get_by_text("mine.py is being loaded").wait_for(state="detached")
    settled(page)
    page.get_by_role("combobox", name="Workload").click()
    expect(page.get_by_role("option", name="swiglu")).to_be_visible()
    visit(page, server.url + link_path(parse_experiment(FIELDS)))
    path.write_text(path.read_text().replace("x @ w", "2 * (x @ w)"))
    page.get_by_role("button", name="Run", exact=True).click()
    answered(page)
    version = files.version_words(files.workloads()["swiglu"].source or "")
    expect(page.locator(".st-key-answer")).to_contain_text(f"swiglu of {version}")
    assert page.get_by_text("which has changed since").count() == 0
    fields_say(page, batch="32", out="96", **{"in": "48"})
    (code,) = parse_qs(urlsplit(page.url).query)["experiment"]
    assert decode(code).to_json()["sharding"] == FIELDS["sharding"]
    path.write_text(path.read_text() + "\n# edited\n")
    page.reload()
    answered(page)
    expect(page.locator(".st-key-answer")).to_contain_text("which has changed since")
    expect(page.get_by_test_id("stAlert").first).to_contain_text("Run takes the new version")
