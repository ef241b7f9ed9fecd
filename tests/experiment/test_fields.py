"""The table of a plan's fields: a value passes through its option, its flag and its line."""

import json
from argparse import ArgumentParser
from pathlib import Path

import pytest

from spmd_core.base import RequestError
from spmd_core.commands.predict_arguments import HELD, flags_of, given_fields
from spmd_core.experiment import experiment_of, link
from spmd_core.fields import Choice, Integer, Number, Switch, Words
from spmd_core.plan import PLAN_FIELDS
from spmd_core.terms import experiment_words
from spmd_core.workloads import parse_plan

GOOD = {"target": "tpu:v5e:4x4", "model": "scaled:1", "mesh": {"fsdp": 16}, "batch_per_device": 2}
EXPERTS = GOOD | {"model": "mixtral-8x7b"}
STORED = Path(__file__).with_name("stored_links.jsonl").read_text("utf-8").splitlines()


def values(row):
    """Values of a row that are not its default."""
    if isinstance(row, Switch):
        return [True]
    if isinstance(row, Choice):
        return [value for word in row.choices if (value := row.decode(row.name, word)) != row.value]
    if isinstance(row, Integer):
        return [row.low, row.high]
    if isinstance(row, Words):
        return [row.known[:1], row.known[1:3]] if row.known else [("xla_a=1", "xla_b=2")]
    if isinstance(row, Number):
        span = min(2.0, row.high - row.low)
        return [row.low + span / 4, row.low + span / 2]
    return [256, (512, 256, 128), (128, 512, 256)]


CASES = [(name, value) for name, row in PLAN_FIELDS.items() for value in values(row)]


def plan_with(name, value):
    """A plan with one field of this value, where it means something."""
    base = EXPERTS if PLAN_FIELDS[name].unfit(parse_plan(GOOD).size) else GOOD
    narrow = {"matmul_dtype": "int8" if value == "int8" else "float8"}
    more: dict[str, object] = {
        "imbalance": {"dropless": True},
        "fsdp_on_experts": {"dropless": True, "mesh": {"fsdp": 8, "data": 2}},
        "backward_dtype": narrow,
        "scales": narrow,
        "gathered_dtype": narrow | {"scales": "static"},
        "microbatches": {"batch_per_device": 8192},
        "schedule": {"mesh": {"stage": 4, "fsdp": 4}},
        "repeats": {"mesh": {"stage": 2, "fsdp": 8}, "schedule": "circular", "layers": 256},
    }.get(name, {})
    return parse_plan(base | more | {name: value})


@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_value_passes_through_its_option_and_its_flag(name, value):
    row = PLAN_FIELDS[name]
    options = {option: each.default for option, each in row.options.items()}
    assert row.read(options) == row.value
    assert row.read(options | dict(row.encode(value))) == row.take(name, value) == value
    parser = ArgumentParser()
    for flag, words in flags_of(PLAN_FIELDS).items():
        parser.add_argument(flag, **words)
    assert given_fields(parser.parse_args(row.arguments(value)), PLAN_FIELDS) == {name: value}
    assert given_fields(parser.parse_args([]), PLAN_FIELDS) == {}
    assert (name in HELD) != row.searched


@pytest.mark.parametrize(("name", "value"), CASES)
def test_plans_that_differ_have_two_names_and_two_experiments(name, value):
    plan = plan_with(name, value)
    other = plan.model_copy(update={name: PLAN_FIELDS[name].value})
    if getattr(plan, name) == PLAN_FIELDS[name].value:  # the same beside this model and target
        assert plan == other
        return
    assert experiment_words(experiment_of(plan)) != experiment_words(experiment_of(other))
    assert experiment_of(plan).plan == plan and experiment_of(plan).id != experiment_of(other).id


@pytest.mark.parametrize("name", PLAN_FIELDS)
@pytest.mark.parametrize(
    "value",
    [[], {}, 7.5, "junk", -1, 10**400, float("nan"), [[]], [None]],
    ids=lambda value: repr(value)[:8],
)
def test_another_value_is_refused_in_one_sentence(name, value):
    row = PLAN_FIELDS[name]
    for read in (row.take, row.decode):
        try:
            read(name, value)
        except RequestError as error:
            assert "\n" not in str(error) and len(str(error)) < 400


@pytest.mark.parametrize("line", STORED)
def test_a_stored_link_opens_with_the_id_that_it_had(line):
    stored = json.loads(line)
    experiment = link.decode(stored["code"])
    assert experiment.id == stored["id"]
    assert bool(experiment.plan) == bool(stored["plan"])
    assert link.nearest(link.payload(stored["code"])) == (experiment, ())
