"""Each sentence of docs/security.md about who can do what holds: named beside the test that holds it.

What is tested elsewhere is named by its test, which must be there.
"""

import re
import runpy

import pytest
import uvicorn

from spmd_core.base.settings import Settings
from spmd_core.lab.lab import Lab
from spmd_core.lab.store.actions import KEPT
from spmd_core.lab.store.limits import Asker
from tests.labs import HASTY, ROOT, experiment

TEXT = (ROOT / "docs/security.md").read_text("utf-8")
DOCUMENT = " ".join(TEXT.split())
# a sentence, or the part of one that somebody relies on -> the file and the test that hold it
HELD = {
    "with which visitors without a login only look and estimate": (
        "lab/store/test_limits.py", "test_who_may_only_look_changes_nothing"),
    "all of one network address together 20": (
        "lab/store/test_limits.py", "test_addresses_are_counted_as_well_as_viewers"),
    "addresses and their visitors take turns": (
        "lab/store/test_limits.py", "test_addresses_and_their_viewers_take_turns"),
    "is listed by `who` with an e-mail address": (
        "lab/store/test_limits.py", "test_who_may_only_look_changes_nothing"),
    "come in with an address that is not confirmed or not listed": (
        "base/login/test_login.py", "test_others_are_turned_away"),
    "unless `SPMD_LAB_TOKEN` or a login is set": (
        "ui/test_token.py", "test_nothing_is_served_without_it"),
    "read the database": ("lab/store/test_private.py", "test_an_old_one_is_closed_on_start"),
    "or show the screens in a frame": (
        "browser/test_framing.py", "test_every_answer_forbids_foreign_frames"),
    "a banner on each screen says that there is none": (
        "ui/test_login.py", "test_an_open_address_without_login_is_pointed_out"),
    "Without a list nobody comes in": ("base/login/test_login.py", "test_others_are_turned_away"),
    "with `*`, whoever the provider knows": ("base/login/test_login.py", "test_members_come_in"),
    "A login that was once seen is remembered in the data folder": (
        "base/login/test_login.py", "test_only_the_command_ends_a_login"),
    "where Authlib is missing": (
        "ui/test_gate.py", "test_without_what_a_login_needs_nothing_is_served"),
    "That holds at start and while the server runs": (
        "ui/test_gate.py", "test_it_is_closed_from_the_start"),
    "open connections end": (
        "ui/test_gate.py", "test_it_closes_while_it_runs_and_opens_once_repaired"),
    "it is exchanged for a cookie": (
        "ui/test_token.py", "test_it_is_exchanged_for_a_cookie_and_leaves_the_address"),
    "never part of a copied link": ("ui/test_token.py", "test_a_copied_link_has_none"),
    "also in a folder that was open before": (
        "lab/store/test_private.py", "test_an_old_one_is_closed_on_start"),
    "where that is not possible, each screen says so": (
        "lab/store/test_private.py", "test_where_it_cannot_be_closed_a_sentence_says_so"),
    "each screen says to start it again": (
        "ui/test_version.py", "test_each_screen_and_failure_says_so"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", HELD)
def test_a_sentence_is_there_and_so_is_its_test(sentence):
    file, name = HELD[sentence]
    assert sentence in DOCUMENT
    assert f"def {name}(" in (ROOT / "tests" / file).read_text("utf-8")


@pytest.fixture
def lab(data_folder):
    """A Lab that works no queue."""
    lab = Lab.open(data_folder, serve=False, settings=HASTY)
    lab._is_wanted = lab._supervisor._is_wanted = lambda: False
    yield lab
    lab.close()


def test_the_first_paragraph_says_what_one_visitor_can_do_to_others(lab):
    said = " ".join(TEXT.split("\n\n")[1].split())
    assert "cancels and deletes those of others, releases the devices under a run" in said
    ann, eve = Asker("ann", address="10.0.0.1"), Asker("eve", address="10.0.0.2")
    run = lab.submit(experiment(), ann)
    lab.cancel(run, asker=eve)
    assert lab.status(run).state == "cancelled"
    assert lab.delete([run], eve) == 1
    lab.release(eve)
    assert lab._store.requests()[-1].kind == "release"


def test_its_numbers_are_those_of_the_code():
    settings = Settings()
    assert f"at most {settings.queue_most_of_viewer} places" in DOCUMENT
    assert f"together {settings.queue_most_of_address}" in DOCUMENT
    assert f"{KEPT:,} actions" in DOCUMENT


def test_it_listens_on_this_machine_only_unless_told_otherwise():
    config = (ROOT / ".streamlit/config.toml").read_text("utf-8")
    assert re.search(r'^address = "127.0.0.1"$', config, re.MULTILINE)


@pytest.mark.parametrize(
    ("proxies", "believed"), [("", "127.0.0.1"), ("127.0.0.1", "198.51.100.7")]
)
def test_an_address_is_taken_from_the_header_of_a_named_proxy_alone(proxies, believed, monkeypatch):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    monkeypatch.setenv("SPMD_LAB_PROXY", proxies)
    runpy.run_path(str(ROOT / "app.py"), run_name="app")
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["client"][0])

    config = uvicorn.Config(app, log_config=None)
    config.load()
    scope = {
        "type": "http",
        "client": ("127.0.0.1", 1),
        "scheme": "http",
        "headers": [(b"x-forwarded-for", b"198.51.100.7")],
    }
    with pytest.raises(StopIteration):
        config.loaded_app(scope, None, None).send(None)
    assert seen == [believed]
