"""A study of plans on Compare: estimates at once, rows that are compiled one by one and stay."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from spmd_core.base import seconds_text
from spmd_core.experiment import parse_experiment, study_of
from spmd_core.sweeps import Outcome, curves, estimated, members
from spmd_core.time import estimate_step
from spmd_core.workloads import DEFAULT_SPEC
from spmd_lab.ui.compare.plan_rows import grid_headline, ranked_rows
from spmd_lab.ui.predict import compiling
from tests.standin_lab import StandInLab, found

pytestmark = pytest.mark.slow


def a_study():
    plan = {**DEFAULT_SPEC, "target": "tpu:v5e:4x4", "dims": {"batch": 32, "sequence": 2048}}
    meshes = ({"fsdp": 16}, {"fsdp": 4, "tensor": 4})
    return study_of([(None, parse_experiment(plan | {"mesh": mesh})) for mesh in meshes])


def step_time() -> str:
    """The time of a step of the first plan, by its estimate."""
    plan = a_study().members[0].experiment.plan
    assert plan is not None
    return seconds_text(estimate_step(plan).predicted_s.estimate)


def script():
    from spmd_core.experiment.experiment import parse_experiment
    from spmd_lab.ui import state
    from spmd_lab.ui.compare import plan_rows
    from tests.ui.compare.test_plan_rows import a_study

    if not state.variants("compare"):
        state.replace("compare", a_study())
    plan_rows.show(parse_experiment(state.study("compare")))


@pytest.fixture
def lab(tmp_path, monkeypatch):
    lab = StandInLab(tmp_path)
    monkeypatch.setattr(compiling, "lab", lambda: lab)
    monkeypatch.setattr("spmd_lab.ui.lab.lab", lambda: lab)  # which a batch of runs asks
    return lab


def table(test: AppTest) -> list[dict]:
    return test.dataframe[0].value.to_dict("records")


def said(test: AppTest) -> str:
    return test.subheader[0].value.replace("\\", "")


def test_rows_are_estimated_at_once_then_compiled_one_by_one_and_a_cancel_keeps_them(lab):
    test = AppTest.from_function(script, default_timeout=30).run()
    assert not test.exception
    assert [row["State"] for row in table(test)] == ["estimate"] * 2
    assert all("%" in row["Causal MFU"] and " to " in row["Interval"] for row in table(test))
    # the intervals overlap: none of them is named the fastest
    assert said(test) == (
        f"mesh fsdp=16 has the lowest time per token: {step_time()} a step, estimated. "
        "mesh fsdp=4 tensor=4 may be as fast: the intervals overlap."
    )
    test.button(key="sweep:start").click().run()
    assert len(lab.queue) == 2
    first = lab.queue[0]
    lab.end(first.run, "succeeded", found=found(0.1, 16))
    test.run()
    assert sorted(row["State"] for row in table(test)) == ["compiled", "in the queue"]
    assert "1 of 2" in test.get("progress")[0].proto.text
    test.button(key="sweep:cancel").click().run()
    assert sorted(row["State"] for row in table(test)) == [
        "compiled",
        "estimate",
    ]
    assert said(test).removeprefix("mesh ").startswith("fsdp=16")


def of_fields():
    import streamlit as st

    from spmd_lab.ui import state
    from spmd_lab.ui.predict import plan_inputs
    from tests.ui.compare.test_plan_rows import a_study

    if not state.variants("compare"):
        state.replace("compare", a_study())
    state.edit("compare", plan_inputs.plan_fields("compare"))
    st.json([form["options"] for _, form in state.variants("compare")])


def test_fields_that_nobody_changed_write_no_option_into_the_variant_they_show():
    test = AppTest.from_function(of_fields, default_timeout=30).run()
    assert not test.exception
    shown, other = json.loads(test.json[0].value)
    assert shown == other


def test_a_copy_competes_with_no_one():
    plan, _ = a_study().members
    points = members(study_of([(None, plan.experiment), ("copy", plan.experiment)]))
    rows = ranked_rows(
        curves(points, [estimated(each, Outcome("not compiled")) for each in points])
    )
    assert (
        grid_headline(rows, {})
        == f"variant 1 is the fastest per token: {step_time()} a step, estimated."
    )


def test_each_plan_goes_on_each_target_and_prices_are_of_each_kind_of_chip(lab):
    test = AppTest.from_function(script, default_timeout=30).run()
    test.text_input(key="plans:targets").set_value("v5e:16, v5p:8")
    test.button(key="plans:spread").click().run()
    assert not test.exception
    assert len(table(test)) == 4
    assert "Cost per billion tokens" not in table(test)[0]
    test.text_input(key="costs:0:price").set_value("v5e=1.2, v5p=4.2").run()
    assert all(row["Cost per billion tokens"].startswith("$") for row in table(test))
    test.text_input(key="plans:targets").set_value("v9:16")
    test.button(key="plans:spread").click().run()
    assert "v9" in test.error[0].value and len(table(test)) == 4
