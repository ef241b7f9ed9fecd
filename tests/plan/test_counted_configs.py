"""Parameters of configs whose fields are changed one by one, as transformers 5.24.0 counts them."""

import json
from pathlib import Path

import pytest

from spmd_core.plan import read_config

# A line for each architecture: a config, and of each field that is left out ("<absent>") or has
# another value, the parameters in all and for a token. Counted on torch's device "meta", with the
# biases that choose experts, which transformers has as buffers, and without Gemma 4's 1 a layer.
LINES = (Path(__file__).parent / "configs" / "counted.jsonl").read_text().splitlines()
COUNTED = {each["name"]: each for each in map(json.loads, LINES)}


@pytest.mark.parametrize("name", COUNTED)
def test_a_changed_field_changes_the_parameters_as_in_transformers(name):
    wrong = []
    for field, value, total, active in COUNTED[name]["cases"]:
        config = json.loads(json.dumps(COUNTED[name]["config"]))
        if value == "<absent>":
            del config[field]
        elif field != "base":
            config[field] = value
        size = read_config(json.dumps(config)).size
        if (size.parameters, size.active_parameters) != (total, active):
            wrong.append((field, value, size.parameters - total, size.active_parameters - active))
    assert not wrong and len(COUNTED[name]["cases"]) > 10


def test_counted_configs_are_of_many_architectures():
    cases = [case for each in COUNTED.values() for case in each["cases"]]
    assert len(COUNTED) >= 45 and len(cases) > 900
    assert len({(total, active) for *_, total, active in cases}) > 400
