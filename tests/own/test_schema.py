"""The JSON Schema of an explanation, as pydantic writes it: `python -m tests.own.test_schema`."""

import json
from pathlib import Path

import spmd_lab

FILE = Path(__file__).resolve().parents[2] / "docs/step.schema.json"
COLLECTIVE = "kind axes count bytes dtype source line function scope reason origin exposed_s"
STEP = "schema versions mesh target collectives arguments outputs findings peak_bytes predicted_s"


def text() -> str:
    return json.dumps(spmd_lab.schema(), indent=1) + "\n"


def test_the_file_is_what_pydantic_writes():
    assert FILE.read_text("utf-8") == text(), "write it anew: python -m tests.own.test_schema"


def test_it_has_the_keys_that_are_promised():
    schema = spmd_lab.schema()
    assert set(STEP.split()) <= set(schema["properties"])
    assert set(COLLECTIVE.split()) <= set(schema["$defs"]["StepCollective"]["properties"])
    assert schema["properties"]["schema"]["const"] == 1
    assert {"low", "estimate", "high"} <= set(schema["$defs"]["Estimate"]["properties"])


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
