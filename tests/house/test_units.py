"""Sizes, durations and counts in words."""

import pytest

from spmd_core.base.units import bytes_text, number_text, seconds_text


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
