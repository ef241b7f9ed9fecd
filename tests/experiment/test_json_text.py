"""JSON that others wrote takes no more memory than is planned for, whatever it looks like."""

import pytest

from spmd_core.base import RequestError
from spmd_core.fields import json_text, load_json

COMMAS = '"' + ",[{" * 100 + r"\"" + '"'  # of a string, which is one value


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(json_text, "MOST_VALUES", 10)
    monkeypatch.setattr(json_text, "_LARGE_BYTES", 40)


@pytest.mark.parametrize("text", [f"[{'{},' * 99}0]", "[" * 99, f'{{"a": [{"1," * 99}1]}}'])
def test_many_values_are_refused_before_they_are_made(text):
    for given in (text, text.encode()):
        with pytest.raises(RequestError, match="values has more than 10"):
            load_json(given)


@pytest.mark.parametrize("text", [f"[{COMMAS}]", f'{{"a": {COMMAS}, "b": 1}}'])
def test_long_strings_are_not_many_values(text):
    assert load_json(text) == load_json(text.encode())
