"""The slope between two counts: what it finds, and when it is refused."""

import pytest

from spmd_core.engine import timing
from spmd_core.engine.ceilings import operations


def machine(monkeypatch, call_s, each_s, noise=()):
    """A clock of calls that take `call_s` and `each_s` for each repetition, and noise in turns."""
    noise, asked = list(noise) or [0.0], []

    def time_calls(repeat, arguments, count):
        asked.append(arguments[0])
        return call_s + each_s * arguments[0] + noise[len(asked) % len(noise)]

    monkeypatch.setattr(timing, "time_calls", time_calls)
    return asked


def test_what_a_call_costs_is_in_no_slope(monkeypatch):
    asked = machine(monkeypatch, 170e-6, 4.7e-6)
    assert operations.each_s(lambda count: None, 0.0) == pytest.approx(4.7e-6)
    assert (max(asked) - 1) * 4.7e-6 >= operations.BETWEEN_S


def test_a_difference_under_its_own_spread_is_refused_and_never_kept_as_almost_nothing(monkeypatch):
    machine(monkeypatch, 1e-3, 1e-9, noise=(0.0, 0.3, 0.1, 0.5, 0.2))
    with pytest.raises(
        operations.Unsteady, match=r"more than one, less than the .* by which calls"
    ):
        operations.each_s(lambda count: None, 0.0, most=64)


def test_more_repetitions_are_tried_before_it_is_refused(monkeypatch):
    asked = machine(monkeypatch, 1e-3, 1e-4, noise=(0.0, 0.02, 0.005, 0.03, 0.01))
    assert operations.each_s(lambda count: None, 0.0) == pytest.approx(1e-4, rel=0.6)
    assert max(asked) > 4 * operations.BETWEEN_S / 1e-4
