from streamlit.testing.v1 import AppTest

from ui.inputs import parse_shape, rename_axes


def test_shapes_as_people_write_them():
    assert parse_shape("4, 8") == parse_shape("(4, 8)") == parse_shape("4x8") == parse_shape("[4, 8,]") == {"d0": 4, "d1": 8}
    assert parse_shape("7") == {"d0": 7}
    assert parse_shape("1_000") == {"d0": 1000}


def test_what_is_no_size_is_kept_for_the_rules_to_refuse():
    assert parse_shape("4, abc") == {"d0": 4, "d1": "abc"}
    assert parse_shape("-4") == {"d0": -4}
    assert parse_shape("") == {"d0": 0}
    assert parse_shape("9" * 50)["d0"] == "9" * 50


def test_a_renamed_axis_is_renamed_in_sharding_and_overrides():
    draft = {"sharding": {"in": "x", "batch": ["y", "x"]}, "overrides": {"weights": [None, "x"]}}
    rename_axes(draft, {"x": "model"})
    assert draft == {"sharding": {"in": "model", "batch": ["y", "model"]}, "overrides": {"weights": [None, "model"]}}


def test_strategies_keep_the_order_of_the_link_that_they_came_with():
    """An order is part of an experiment: a link that is opened must not become another experiment."""
    def script(names):
        import streamlit as st

        from ui import inputs
        st.session_state["chosen"] = inputs.strategies_input("compare", "strategies", ("single", "auto", "explicit", "shard_map"), names)

    at = AppTest.from_function(script, kwargs={"names": ["shard_map", "auto"]}).run()
    assert at.session_state["chosen"] == ["shard_map", "auto"]
    at.button_group[0].set_value(["single", "auto", "shard_map"]).run()
    assert at.session_state["chosen"] == ["shard_map", "auto", "single"]
