"""The screen, which asks for the best plan on other chips each time that it opens."""

import pytest


@pytest.fixture
def every_chip():
    """All six kinds of other chips, for a test that reads them."""


@pytest.fixture(autouse=True)
def few_chips(request, monkeypatch):
    """The one of most stored results: six are more than half of what these tests would take."""
    if "every_chip" not in request.fixturenames:
        monkeypatch.setattr("spmd_lab.ui.predict.question.KINDS", ("v5e",))
