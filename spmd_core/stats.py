"""What samples say: median, spread, intervals, and whether two strategies differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 2000
SPREAD_NOTICE, SPREAD_WARNING = 0.10, 0.25  # inter-quartile range over median
OUTLIER_FENCE = 3.0  # inter-quartile ranges beyond a quartile (Tukey's "far out")


@dataclass(frozen=True, slots=True)
class Summary:
    """Median, inter-quartile range and 95 % interval of the median, in seconds; indices of samples far out."""

    median_s: float
    iqr_s: float
    ci95_s: tuple[float, float] | None  # None for a single sample
    outliers: tuple[int, ...]

    @property
    def spread(self) -> float:
        """Inter-quartile range over median."""
        return self.iqr_s / self.median_s if self.median_s else 0.0


def summarize(samples_s: Sequence[float], seed: int = 0) -> Summary:
    """Every sample counts; none is dropped."""
    samples = np.asarray(samples_s, np.float64)
    low, median, high = np.percentile(samples, [25, 50, 75])
    fence = OUTLIER_FENCE * (high - low)
    outliers = np.flatnonzero((samples < low - fence) | (samples > high + fence)) if len(samples) >= 4 else np.array([], int)
    interval = bootstrap_interval(samples, CONFIDENCE, seed) if len(samples) > 1 else None
    return Summary(float(median), float(high - low), interval, tuple(int(index) for index in outliers))


def bootstrap_interval(samples: np.ndarray, confidence: float, seed: int = 0) -> tuple[float, float]:
    """Percentile interval of the median over RESAMPLES resamples, drawn at once."""
    draws = np.random.default_rng(seed).integers(0, len(samples), (RESAMPLES, len(samples)))
    medians = np.median(samples[draws], axis=1)
    tail = 50 * (1 - confidence)
    low, high = np.percentile(medians, [tail, 100 - tail])
    return float(low), float(high)
