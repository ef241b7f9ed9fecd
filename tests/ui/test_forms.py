"""The widgets of a table of fields hold the options that they are given, and give them back."""

import pytest
from streamlit.testing.v1 import AppTest

from spmd_core.plan import PLAN_FIELDS
from tests.ui import errors, opened

OPTIONS = {name: each.default for row in PLAN_FIELDS.values() for name, each in row.options.items()}
OTHERS = {
    "remat": "minimal",
    "save": "query,key",
    "fused_qkv": True,
    "attention_blocks": 512,
    "keys_block": 256,
    "second_moment_dtype": "bfloat16",
    "gate": "ungated",
    "dropless": True,
    "imbalance": "1.5",
    "compiler_flags": "xla_a=1 xla_b=2",
}


def page():
    import streamlit as st

    from spmd_core.plan import PLAN_FIELDS
    from spmd_lab.ui import forms

    st.session_state["drawn"] = forms.draw_fields(
        forms.keyed("predict"), PLAN_FIELDS.values(), st.session_state["now"]
    )


@pytest.mark.parametrize("options", [OPTIONS, OPTIONS | OTHERS])
def test_options_are_drawn_and_read_back(options):
    test = AppTest.from_function(page, default_timeout=60)
    test.session_state["now"] = options
    test.run()
    assert not test.exception
    assert test.session_state["drawn"] == options


def test_a_change_of_a_widget_is_the_change_of_its_option():
    test = AppTest.from_function(page, default_timeout=60)
    test.session_state["now"] = OPTIONS
    test.run()
    find = {each.label: each for each in (*test.toggle, *test.selectbox, *test.number_input)}
    find["Experts drop no token"].set_value(True)
    find["Mlp"].set_value("gated")
    find["Imbalance, dropless"].set_value(2.5)
    find["Block of queries"].set_value(256)
    test.run()
    drawn = {"dropless": True, "gate": "gated", "imbalance": "2.5", "attention_blocks": 256}
    assert test.session_state["drawn"] == OPTIONS | drawn


def folds(screen):
    return {
        each.label.partition(":")[0].strip("\\"): each.proto.expanded for each in screen.expander
    }


@pytest.mark.parametrize(
    ("page", "fold", "field", "bad"),
    [("predict", "Change the plan", "Sequences per device", 0.3),
     ("predict", "Change the plan", "heads", 7),
     ("search", "Change the question", "Price per chip-hour ($)", "cheap"),
     ("search", "Change the question", "Mesh axes", "sideways"),
     ("collectives", "Mesh", "Axis 1 size", 4096),
     ("layout", "Mesh", "Axis 2 size", 3),
     ("compare", "Sizes", "rows", 3)],
)  # fmt: skip
def test_a_refused_field_in_a_closed_fold_opens_it(data_folder, page, fold, field, bad):
    screen = opened(page)
    assert folds(screen)[fold] is False
    next(
        each for each in (*screen.number_input, *screen.text_input) if each.label == field
    ).set_value(bad).run(timeout=60)
    assert errors(screen) and folds(screen)[fold] is True, "what is to be mended is in sight"
    screen.run()
    assert folds(screen)[fold] is True and len(screen.error) == 1


def test_the_fields_of_a_plan_are_under_headings_and_those_that_are_set_come_first(data_folder):
    groups = {row.group for row in PLAN_FIELDS.values()}
    assert "" not in groups and len(groups) <= 6
    screen = opened("predict")
    set_ = [name for name, is_open in folds(screen).items() if is_open]
    assert set_ == ["Memory, 2 set"], "of the plan of a first visit"
    headings = [name.partition(",")[0] for name in folds(screen)]
    listed = [name for name in headings if name in groups]
    assert {*listed} == groups and listed[0] == "Memory"
    next(each for each in screen.selectbox if each.label == "Matmuls").set_value("float8")
    screen.run(timeout=60)
    assert folds(screen)["Precision, 1 set"] is False, "a change moves and opens nothing"
    assert [name.partition(",")[0] for name in folds(screen)] == headings
