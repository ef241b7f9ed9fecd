from pathlib import Path

import pytest

from spmd_core.base import ChildAnswer, RequestError
from spmd_core.engine.exported import describe
from spmd_core.experiment import programs


class _Here:
    """Reads files in this process, by the function of the process that else does."""

    def ask(self, question: tuple[str, str], seconds: float, most_bytes: int | None) -> ChildAnswer:
        try:
            text = describe.described_file(*map(Path, question))
        except RequestError as error:
            text = f"!{error}"
        return ChildAnswer(text, 0, "")


@pytest.fixture
def read_here(monkeypatch):
    """A process for each file, which imports JAX, takes longer than what most tests ask of it."""
    monkeypatch.setattr(programs, "_parser", _Here())
