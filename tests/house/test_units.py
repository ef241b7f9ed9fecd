"""Sizes, durations and counts in words."""

import math

import ml_dtypes
import numpy as np
import pytest

from spmd_core.base import bytes_text, number_text, seconds_text, value_text

SCALES = (1e-30, 1e-3, 1.0, 1e6, 1e30)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.00123, "0.00123"),
        (1.5, "1.5"),
        (99.96, "100"),
        (999.4, "999"),
        (999.6, "1,000"),
        (2595.2, "2,595"),
    ],
)
def test_a_number_has_three_digits_and_no_exponent(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (1.23456e-5, "12.3 µs"),
        (0.0123, "12.3 ms"),
        (1234.5, "1,234 s"),
        (3e-12, "0.003 ns"),
    ],
)
def test_a_duration_has_its_unit(seconds, text):
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(None, "–"), (12, "12 B"), (3 * 2**20, "3.0 MiB"), (2**41, "2.0 TiB")]
)
def test_bytes_are_in_binary_units(count, text):
    assert bytes_text(count) == text


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_the_text_of_a_number_gives_the_same_number_back(dtype):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    drawn = np.random.default_rng(0).normal(size=500)
    for scale in SCALES if dtype != "float16" else (1e-3, 1.0, 1e3):
        for value in (drawn * scale).astype(kind):
            assert np.asarray(float(value_text(float(value), dtype))).astype(kind) == value


def test_the_tutorial_s_digits_and_no_more():
    assert value_text(float(np.float32(0.02138914)), "float32") == "0.02138914"
    assert value_text(float(np.float32(0.5989201)), "float32") == "0.5989201"
    assert [value_text(1.0, "float32"), value_text(496, "int32"), value_text(-1e-7, "float32")] == [
        "1.0",
        "496",
        "-1e-07",
    ]
    assert [
        value_text("nan", "float32"),
        value_text(True, "bool"),
        value_text(math.pi, "float64"),
    ] == ["nan", "True", "3.141592653589793"]
