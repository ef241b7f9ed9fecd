"""Links that do harm or lie on the wrong screen: a sample of what `bench/hostile_links.py` sends."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from bench.hostile_links import LINKS_A_SESSION, code_of, hostile, queries, through_commands
from spmd_core.experiment import encode, parse_experiment
from spmd_core.lab import Lab
from spmd_core.workloads import DEFAULT_SPEC
from spmd_lab.ui import links
from spmd_lab.ui.shell import QUESTIONS
from tests.labs import ROOT, experiment
from tests.ui import said

pytestmark = pytest.mark.slow


@pytest.fixture
def opened(data_folder):
    def page(screen, session=None, **query):
        session = session or AppTest.from_file(str(ROOT / "home.py"), default_timeout=60)
        session.switch_page(f"pages/{screen}.py")
        session.query_params.clear()
        for name, value in query.items():
            session.query_params[name] = value
        return session.run()

    return page


class Screens:
    """One viewer after another, on the real pages; the exceptions that they show are counted."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.shown = self.crashed = 0
        self._session: Any = None

    def open(self, screen: str, query: dict[str, str]) -> None:
        """Open a link on a screen, in the session of the links before or in a new one."""
        if self._session is None or self.shown % LINKS_A_SESSION == 0:
            self._session = AppTest.from_file(str(ROOT / "home.py"), default_timeout=60)
        self.shown += 1
        page = self._session.switch_page(f"pages/{screen}.py" if screen else "home.py")
        page.query_params.clear()
        for name, value in query.items():
            page.query_params[name] = value
        page.run()
        if not page.exception and (
            nearest := [
                button for button in page.button if button.label.startswith("Use the nearest")
            ]
        ):
            nearest[0].click()
            page.run()
        if page.exception:
            self.crashed += 1
            cause = page.exception[0]
            place = next(
                (line.strip() for line in reversed(list(cause.stack_trace)) if "File" in line), ""
            )
            self.seen[f"{screen}: {cause.message[:110]} {place[-90:]}"] += 1
            self._session = None


LAYER = {"workload": "layer", "mesh": {"x": 8}, "target": "cpu:8"}
PROGRAM = {"workload": "program", "mesh": {"x": 4}, "options": {"program": "linear_gradient"}}


@pytest.mark.parametrize(
    ("screen", "spec", "words"),
    [
        (
            "layout",
            LAYER | {"workload": "elementwise"},
            "Elementwise is a computation, and Layout shows an array or one product: open it "
            "on Compare",
        ),
        ("layout", DEFAULT_SPEC, "open it on Predict"),
        (
            "compare",
            DEFAULT_SPEC,
            "is only compiled, and Compare runs what it shows: open it on Predict",
        ),
        ("compare", {"workload": "array", "mesh": {"x": 8}}, "open it on Layout"),
        ("predict", PROGRAM | {"target": "cpu:8"}, "open it on Compare"),
    ],
)
def test_an_experiment_on_the_wrong_screen_names_the_right_one(opened, screen, spec, words):
    code = encode(parse_experiment(spec))
    page = opened(screen, experiment=code)
    assert not page.exception
    assert words in said(page)
    assert not opened(screen, page, experiment=code_of("junk")).exception
    page = opened(screen, page)  # the tab is not broken by what it was given
    assert not page.exception and page.title[0].value == QUESTIONS[screen]


@pytest.mark.parametrize("name", [[[]], {"d0": 8}, 3, None])
def test_a_workload_that_is_no_name_is_a_sentence(opened, name):
    page = opened("compare", experiment=code_of({"workload": name, "mesh": {"x": 8}}))
    assert not page.exception
    assert "This link cannot be opened as it is" in said(page)


def test_a_nearest_beside_a_screen_that_has_one_of_its_own(opened):
    page = opened("compare", experiment=encode(experiment(mesh={"x": 16})))
    assert "larger than target cpu:8 with 8" in said(page)
    page = opened(
        "compare", page, experiment=code_of(LAYER | {"mesh": {"x": 8, "y": 3}, "dtype": 3})
    )
    assert not page.exception
    assert len([button for button in page.button if "nearest" in button.label]) == 2


@pytest.mark.parametrize(
    ("screen", "spec"),
    [
        ("compare", PROGRAM | {"target": "tpu:v9z:2x2"}),
        ("layout", {"workload": "array", "mesh": {"x": 20}, "target": "tpu:v5e:4x5"}),
    ],
)
def test_a_topology_that_does_not_exist_is_a_sentence(opened, screen, spec):
    spec = spec | ({"dims": {"d0": 20}} if screen == "layout" else {})
    page = opened(screen, experiment=encode(parse_experiment(spec)))
    assert not page.exception
    assert "is not" in said(page)


def test_a_damaged_link_stands_above_no_stored_answer(opened):
    lab = Lab.open()
    page = opened("compare", run="20200101-000000-abcdef")
    assert "This machine has no run 20200101-000000-abcdef: it was made on another one" in said(
        page
    )
    page = opened("compare", page, experiment=code_of(LAYER)[:-9] + "A")
    assert "is damaged or truncated" in said(page)
    assert "has no run" not in said(page)  # of the link before
    page = opened("compare", page, run="a b")
    assert "Run 'a b' is not the id of a run" in said(page)
    assert lab.history() == ()


def test_a_sample_of_hostile_links_breaks_no_screen_and_no_command(data_folder):
    screens = Screens()
    for screen, query in queries(45, seed=1):
        screens.open(screen, query)
    assert screens.seen == {}
    assert through_commands(hostile(60, seed=2)) == {}
    assert Lab.open().history() == ()


@pytest.mark.parametrize(
    ("shown", "screen", "base"),
    [
        ("http://localhost:8501/compare", "compare", "http://localhost:8501"),
        ("http://localhost:8501", "overview", "http://localhost:8501"),
        # a proxy that removes a part of the path, and a base path that the server knows
        ("https://hub.example/user/ann/proxy/8501/layout", "layout", "https://hub.example/user/ann/proxy/8501"),
        ("https://hub.example/user/ann/proxy/8501/", "overview", "https://hub.example/user/ann/proxy/8501"),
        ("https://tpu.example/lab/predict/", "predict", "https://tpu.example/lab"),
        (None, "compare", "http://localhost:8501"),
    ],
)  # fmt: skip
def test_a_copied_link_keeps_the_path_that_a_proxy_removes(shown, screen, base, monkeypatch):
    monkeypatch.setattr(links.st, "context", SimpleNamespace(url=shown))
    assert links.base_address(screen) == base
