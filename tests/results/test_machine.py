"""Rooflines: what a measured time reaches of them."""

from spmd_core.results import Roofline


def test_a_measured_time_reaches_a_share_of_the_largest_roof_and_an_mfu():
    roofs = {"compute_s": 2e-3, "memory_s": 4e-3, "communication_s": 0.0, "dispatch_s": 1e-6}
    found = Roofline(**roofs, ideal_s=1e-3).reached(8e-3)
    assert (found.binds, found.share, found.mfu) == ("memory", 0.5, 0.125)
    unmeasured = found.reached(None)
    assert unmeasured.share is None and unmeasured.mfu is None
