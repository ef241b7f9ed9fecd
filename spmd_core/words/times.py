"""Where seconds come from, or why there are none."""

from spmd_core.time import Duration, Unknown

_SOURCES = {
    "nominal": "Seconds by the cost model, latency included.",
    "measured": "Seconds as the calibration of this mesh measured them.",
    "calibrated": "Seconds by the calibration of this mesh.",
    "guessed": "Seconds are guesses: this target was not calibrated. Calibrate it on Collectives.",
}


def source_words(duration: Duration | Unknown) -> str:
    """One sentence.

    >>> source_words(Unknown("The time is unknown."))
    'The time is unknown.'
    """
    if isinstance(duration, Unknown):
        return duration.reason
    if duration.stand_in:
        return f"Seconds by the calibration of this mesh, {duration.stand_in}."
    return _SOURCES[duration.source]
