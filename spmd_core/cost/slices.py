"""What several slices cost beside what they send: every step waits for the slowest of them."""

from functools import cache
from statistics import NormalDist

from spmd_core.cost.constants import SLICE_JITTER


@cache
def straggling(slices: int) -> float:
    """The share of a step that is waited for the slowest slice, 0 for one.

    Steps of one slice vary; of n that are drawn from a normal distribution, the slowest is expected at
    its quantile (n - 3/8) / (n + 1/4) (Blom, "Statistical estimates and transformed beta-variables",
    1958). With the jitter of the constants 3 % for 2 slices, 8 % for 8 and 11 % for 32.
    """
    if slices < 2:
        return 0.0
    return SLICE_JITTER * NormalDist().inv_cdf((slices - 0.375) / (slices + 0.25))
