"""The instant estimate of a training step in one line, to hold several side by side."""

from spmd_core.cost.constants import HOST_EFFICIENCY
from spmd_core.estimate.nearest_fit import nearest_fit
from spmd_core.estimate.step import estimate_step
from spmd_core.plan.plan import Plan
from spmd_core.units import bytes_text, seconds_text
from spmd_core.words.nearest import nearest_words
from spmd_core.words.predictions import memory_words, parts

_WIDTH = {"float32": 4, "bfloat16": 2}
_LARGE = 0.02  # of the step: a part that a line names


def in_a_line(plan: Plan, *, offering: bool = True) -> str:
    """Memory, step time, MFU and where the time goes; where it does not fit, the nearest that does,
    if that is not offered elsewhere.
    """
    found = estimate_step(plan)
    memory, time = found.memory_bytes, found.predicted_s
    said = memory_words(memory.peak, memory.capacity, found.fits, memory.missing, "should fit")
    if not found.fits or time is None:
        return f"{said}. {nearest_words(plan, nearest_fit(plan))}" if offering else f"{said}."
    shares = [f"{name} {share / time.estimate:.0%}" for name, share in parts(found).items()
              if share > _LARGE * time.estimate]
    return (f"{said}. {seconds_text(time.estimate)} a step at {found.mfu or 0.0:.1%} MFU: "
            f"{', '.join(shares)}.")


def moments_words(plan: Plan) -> str:
    """What keeping the optimizer's moments in host memory would move in a step, and how long that
    takes.
    """
    found = estimate_step(plan)
    moments = sum(_WIDTH[dtype] for dtype in plan.moment_dtypes)
    held = found.before_compiling["parts"]["parameters and optimizer"]
    nbytes = held * moments / (moments + _WIDTH[plan.parameter_dtype])
    chip = plan.topology.chip
    bandwidth = chip.host_bandwidth / chip.devices_per_chip * HOST_EFFICIENCY
    return (f"The moments are {bytes_text(nbytes)} per device. From host memory and back they "
            f"would take {seconds_text(2 * nbytes / bandwidth)} of every step.")
