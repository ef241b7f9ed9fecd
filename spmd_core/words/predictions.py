"""The sentences about predictions: does it fit, how long is a step, what bounds it."""

import re
from collections.abc import Mapping

from spmd_core.base import (
    between,
    bytes_text,
    capital,
    even_seconds,
    number_text,
    numbered,
    scaled_text,
    seconds_text,
    sums_by_key,
    three_digits,
)
from spmd_core.facts import Estimate, Prediction
from spmd_core.machine import Topology
from spmd_core.plan import Plan, undivided_axes
from spmd_core.results import Result
from spmd_core.roofline import data_sheet
from spmd_core.sweeps import training_run
from spmd_core.terms import listed, mfu_words, money_text
from spmd_core.time import KERNELS
from spmd_core.words.strategies import predicted

# "neighbours" is as older runs wrote it
_SCATTERED = re.compile(
    r"(\d+) chips scattered over ((?:[xyz] \([^)]*\)(?: and )?)+?)(?= and \d|$)"
)
_PERMUTED = re.compile(r"(neighbou?rs|up to \d+ hops) over")
# What takes over half of a program, as rooflines call it
_BOUND = {
    "compute": "compute-bound",
    "memory": "HBM-bound",
    "links": "interconnect-bound",
    "host": "bound by transfers to the host",
    "data centre network": "DCN-bound",
    "pipeline": "bound by the pipeline's bubble",
}
# and the largest part of one that nothing takes over half of
_LARGEST = {
    "compute": "matrix products",
    "kernel": "attention kernels",
    "memory": "HBM-bound operations",
    "communication": "communication",
    "host": "waiting for the host",
    "pipeline": "waiting for other stages",
}
_CALLED = {"memory": "HBM", "kernel": "attention kernels"}
# The resources that shares of a step are of. Attention kernels are one of their own: on few tokens
# a device they take most of a step at a few percent of the peak
_OF_WORK = {"matmul": "compute", "grouped kernel": "compute"}
_OF_WAITS = {"wait: copy": "memory", "wait: host": "host", "wait: stages": "pipeline"}
_AS_FAST = ("matmul", "kernel", "grouped kernel")  # parts of products bound by compute
_BETWEEN_SLICES = ("wait: send", "wait: slices")
# Kinds of time in a schedule, in the order of a legend.
KINDS = {
    "matmul": "matrix products",
    "kernel": "attention kernels",
    "memory": "HBM-bound operations",
    "compute": "computation",
    "hidden": "hidden communication",
    "exposed": "exposed communication",
    "wait": "waiting for copies",
    "copy": "copies",
    "loop": "a loop inside",
}
# What a peak of memory is read off, by the program that an answer is of
MEMORY_ACCOUNTS = {
    "scheduled": "What the compiler's assignment of buffers reserves in HBM. No code was made: what "
    "only code generation refuses, as a fusion with too much VMEM, is not found.",
    "final": "What JAX's memory_analysis() of the finished program reports. Of large programs it has "
    "more temporaries than the assignment of buffers that programs without kernels are judged by.",
}
_PARTS = {  # keys are those of the JSON form
    "kept by the forward pass": "saved activations",
    "parameters and optimizer": "weights and optimizer state",
}
_WAITS = {
    "copy": "waiting for copies",
    "host": "waiting for the host",
    "send": "exposed transfer between slices",
    "slices": "waiting for stragglers",
    "stages": "waiting for other stages",
}


def answer(result: Result, limit: str = "") -> str:
    """The answer of a run of predictions; `limit`: what limits its one step, in other words."""
    predictions = [
        each.prediction for each in result.strategies.values() if each.prediction is not None
    ]
    if len(result.strategies) == 1 and predictions:
        experiment = result.experiment
        return headline(predictions[0], experiment.what.unit == "step", experiment.plan, limit)
    return predicted(result)


def headline(
    prediction: Prediction, step: bool = True, plan: Plan | None = None, limit: str = ""
) -> str:
    """How long a step (or the program) takes and what bounds it, `limit` where that is given;
    memory, and whether it fits, and why a `plan` does not."""
    time = prediction.predicted_s
    if not prediction.fits or time is None:
        return " ".join([f"{held_words(prediction)}.", *_undivided(plan)])
    mfu = mfu_words(prediction.mfu, prediction.mfu_causal)
    at = f" at {mfu}" if mfu else ""
    at += ", without MFU: FLOPs or peak are counted wrong" if prediction.impossible_mfu else ""
    bound = f", {limit or bound_by(prediction)}" if prediction.binds else ""
    what = "Step time" if step else "Time"
    return f"{what} {seconds_text(time.estimate)}{at}{bound}. {held_words(prediction)}."


def estimate(prediction: Prediction, plan: Plan | None = None) -> str:
    """Whether a plan fits by the estimate that is made of its sizes, before compiling, and why not."""
    why = () if prediction.is_timed else why_not(prediction, plan)
    return " ".join([f"{held_words(prediction)}.", *why])


# parts of memory in the order in which a reader would do without them, and what they are called
_IN_TURN = (
    ("weights and optimizer state", ("frozen weights", "parameters and optimizer", "embedding")),
    ("bfloat16 copies", ("bfloat16 copies",)),
    ("gradients", ("gradients", "gradients that are added up")),
    ("saved activations", ("kept by the forward pass", "other microbatches")),
)


def why_not(estimate: Prediction, plan: Plan | None = None) -> list[str]:
    """Returns why an estimate does not fit, in sentences: the first of its parts that are too much
    together, and mesh axes that shard no weights.
    """
    parts: Mapping[str, float] = estimate.before_compiling.get("parts", {})
    capacity, sums, named = estimate.memory_bytes.capacity, 0.0, list[str]()
    why: list[str] = []
    for words, names in _IN_TURN:
        more = sum(parts.get(name, 0.0) for name in names)
        sums, named = sums + more, [*named, *([words] if more else [])]
        if sums > capacity and not why:
            held = f"{bytes_text(sums, capacity).split()[0]} of {bytes_text(capacity)} per device"
            why = [f"{capital(listed(named))}{' alone' * (len(named) == 1)} take {held}."]
    return [*why, *_undivided(plan)]


def _undivided(plan: Plan | None) -> list[str]:
    """The sentences on mesh axes that shard no weights, for which a plan takes so much memory."""
    return [f"{words}." for words in undivided_axes(plan)] if plan else []


def held_words(prediction: Prediction) -> str:
    """HBM and host memory against what there is."""
    memory, room = prediction.memory_bytes, prediction.host_capacity_bytes
    host = (memory.host, room) if memory.host and room else None
    return memory_words(memory.peak, memory.capacity, prediction.fit, memory.missing, host)


def step_estimate(prediction: Prediction) -> str:
    """The step's time by the instant estimate, with its interval: number first."""
    time = prediction.predicted_s
    if time is None:
        return ""
    return (
        f"About {seconds_text(time.estimate)} a step ({seconds_text(time.low)} to "
        f"{seconds_text(time.high)}) at {mfu_words(prediction.mfu, prediction.mfu_causal)}, "
        f"{bound_by(prediction)}: estimate, not compiled."
    )


def memory_parts(prediction: Prediction) -> dict[str, float]:
    """Returns the bytes that are live at the peak on a device, by what a reader calls each part: of a
    compiled program its arguments and what else it holds.
    """
    held = prediction.memory_bytes
    if prediction.compiled and held.peak and held.argument and held.argument <= held.peak:
        others = held.peak - held.argument
        return {"arguments": held.argument, "temporaries": others} if others else {}
    parts: Mapping[str, float] = prediction.before_compiling.get("parts", {})
    return {_PARTS.get(name, name): size for name, size in parts.items() if size}


def host_words(held: float | None, room: float | None) -> str:
    """Returns what a device has in host memory, of its share of it.

    >>> host_words(28 * 2**30, 43 * 2**30)
    '28.0 GiB of 43.0 GiB on the host'
    """
    return f"{bytes_text(held)} of {bytes_text(room)} on the host"


def parts_words(parts: Mapping[str, float]) -> str:
    """The parts of an estimate of memory that are live at its peak, in a line.

    >>> parts_words({"gradients": 2.0**30, "one block's backward pass": 0.0})
    'gradients 1.0 GiB'
    """
    return "; ".join(
        f"{_PARTS.get(name, name)} {bytes_text(size)}" for name, size in parts.items() if size
    )


def memory_words(
    peak: float | None,
    capacity: float,
    fit: str,
    missing: float = 0,
    host: tuple[float, float] | None = None,
) -> str:
    """HBM against what there is, the number first. `host`: bytes in host memory, and a device's
    share of it.

    >>> memory_words(20 * 2**30, 16 * 2**30, "does not fit", 4 * 2**30)
    '20.0 GiB of 16.0 GiB per device: does not fit, 4.0 GiB too much'
    >>> memory_words(2**40, 16 * 2**30, "does not fit")
    '1,024.0 GiB of 16.0 GiB per device: does not fit'
    >>> memory_words(10 * 2**30, 16 * 2**30, "does not fit", host=(50 * 2**30, 40 * 2**30))
    '10.0 GiB of 16.0 GiB per device, 50.0 GiB of 40.0 GiB of host memory: does not fit, 10.0 GiB of host memory too much'
    """
    if peak:
        of = f"{bytes_text(peak, capacity)} of"
    elif fit == "does not fit":
        of = "more than"
    else:
        of = "of"
    over = (
        f", {bytes_text(missing, capacity)} too much"
        if missing > 1 and fit == "does not fit"
        else ""
    )
    beside = ""
    if host:
        held, room = host
        beside = f", {bytes_text(held)} of {bytes_text(room)} of host memory"
        over += f", {bytes_text(held - room)} of host memory too much" if held > room else ""
    return capital(f"{of} {bytes_text(capacity)} per device{beside}: {fit}{over}")


def bound_words(shares: Mapping[str, float], share: bool = True) -> str:
    """Returns what bounds a program by its shares: a resource only where it takes over half of the
    step, else the largest part, with its `share`; an en dash where none is known. All communication
    is one part, with waiting for stragglers.

    >>> bound_words({"matmul": 3.0, "kernel": 1.0, "memory": 1.0})
    'compute-bound'
    >>> bound_words({"matmul": 4.0, "memory": 3.0, "exposed: fsdp": 2.0, "wait: slices": 1.0})
    'largest share matrix products (40%)'
    >>> bound_words({"matmul": 4.0, "kernel": 1.0, "exposed: fsdp": 3.0, "exposed: tensor": 2.0})
    'largest share communication (50%)'
    """
    resources = sums_by_key((_resource(name), s) for name, s in shares.items())
    total = sum(resources.values())
    if not total:
        return "–"
    most = max(resources, key=lambda name: resources[name])
    if resources[most] > total / 2:
        bound = most
        if most == "communication":
            between_slices = sum(shares.get(name, 0.0) for name in _BETWEEN_SLICES)
            bound = "data centre network" if 2 * between_slices > resources[most] else "links"
        if bound in _BOUND:
            return _BOUND[bound]
    words = _LARGEST.get(most) or share_words(most)
    return f"largest share {words}" + (f" ({resources[most] / total:.0%})" if share else "")


def bound_parts(shares: Mapping[str, float]) -> tuple[str, str]:
    """Returns what bounds a program, for a heading `Bound by`, and its share of the step; "" for
    that of a resource that takes over half.

    >>> bound_parts({"matmul": 3.0, "memory": 1.0}), bound_parts({"matmul": 5.0, "memory": 5.0})
    (('compute', ''), ('matrix products', '50%'))
    """
    words, _, share = bound_words(shares).removeprefix("largest share ").partition(" (")
    return words.removesuffix("-bound").removeprefix("bound by "), share.removesuffix(")")


def bound_cell(shares: Mapping[str, float]) -> str:
    """Returns `bound_parts` as the cell of a table."""
    return " ".join(filter(None, bound_parts(shares)))


def bound_by(prediction: Prediction, share: bool = True) -> str:
    """Returns `bound_words` of a prediction, whose parts are those of its bar."""
    return bound_words(prediction.shares_by_axis, share)


def bound_shares(shares: Mapping[str, float]) -> str:
    """Returns the two resources that take most of a step, with their shares.

    >>> bound_shares({"matmul": 2.0, "kernel": 1.0, "memory": 1.0})
    'compute 50%, attention kernels 25%'
    """
    resources = sums_by_key((_resource(name), s) for name, s in shares.items())
    most = sorted(resources, key=lambda name: (-resources[name], name))[:2]
    total = sum(resources.values()) or 1.0
    return ", ".join(f"{_CALLED.get(name, name)} {resources[name] / total:.0%}" for name in most)


def _resource(share: str) -> str:
    """Returns the resource that a share of the step is of, a key of `_LARGEST`; the share itself of
    kernels that are neither matmuls nor attention."""
    if share.startswith(("wait: ", "exposed: ")):
        return _OF_WAITS.get(share, "communication")
    return _OF_WORK.get(share, share)


def chip_words(topology: Topology) -> str:
    """What a chip of the topology can do."""
    chip, sheet = topology.chip, data_sheet(topology.chip)
    links = "NVLink" if chip.is_gpu else "ICI links"
    return (
        f"{chip.title}: {scaled_text(sheet['flops'], 'FLOP/s')} in bfloat16, "
        f"{bytes_text(chip.hbm_bytes)} of HBM at {scaled_text(sheet['hbm'], 'B/s')}, "
        f"{links} of {scaled_text(sheet['link'], 'B/s')} each way"
    )


def parts(prediction: Prediction) -> dict[str, float]:
    """Where the estimate goes, seconds, by what the reader calls it, the largest first."""
    return by_words(prediction.shares_by_axis)


def notes_of_parts(prediction: Prediction) -> dict[str, str]:
    """Returns what a part of the estimate has that its name does not: products that stream operands
    from HBM are among what is bound by it. The MFU counts all products, and those that compute takes
    the time of are no faster than the peak: a larger MFU than their share is of others, too.
    """
    seconds = prediction.shares_s
    share = sum(seconds.get(name, 0.0) for name in _AS_FAST) / (sum(seconds.values()) or 1.0)
    is_beyond = prediction.mfu is not None and prediction.mfu > share
    return {KINDS["memory"]: ", products among them"} if is_beyond else {}


def by_words(shares: Mapping[str, float]) -> dict[str, float]:
    """Returns seconds by what a reader calls each part, the largest first."""
    words = sums_by_key((share_words(name), seconds) for name, seconds in shares.items())
    return dict(sorted(words.items(), key=lambda item: -item[1]))


def share_words(name: str) -> str:
    """A part of the estimate: `wait: all-gather` is `exposed all-gather`, `exposed: fsdp` is
    `exposed over fsdp`.
    """
    if name.startswith("wait: "):
        waited = name.removeprefix("wait: ")
        return _WAITS.get(waited, f"exposed {waited}")
    if name.startswith("exposed: "):
        axes = name.removeprefix("exposed: ").split()
        return f"exposed over {' and '.join(axes) or 'other groups'}"
    return KERNELS.get(name) or KINDS.get(name, name)


def bounds_words(prediction: Prediction) -> str:
    """The step with communication beside all other work, with none beside it, and as it was
    scheduled; "" where the bounds are not known."""
    if prediction.bounds_s is None:
        return ""
    scheduled = even_seconds(sum(prediction.shares_s.values()))
    how = "as scheduled" if prediction.compiled else "as estimated"
    return (
        f"{scheduled} {how}; "
        f"{even_seconds(prediction.bounds_s.overlapped)} if all communication ran beside other work, "
        f"{even_seconds(prediction.bounds_s.sequential)} if none did."
    )


def route_words(route: str) -> str:
    """Where a collective runs, without the names of links.

    >>> route_words("neighbors over ici x+, ici x-, ici y+")
    'neighbors along x and y'
    >>> route_words("up to 3 hops over ici x+, dcn")
    'up to 3 hops along x and between slices'
    >>> route_words("2 chips scattered over x (2, line) and y (2, line, every 3rd chip)")
    '2 chips apart along x and y'
    """
    far = _PERMUTED.match(route)
    if far is None:
        return _SCATTERED.sub(_apart, route)
    axes = [axis for axis in "xyz" if f"ici {axis}" in route]
    along = f" along {' and '.join(axes)}" if axes else ""
    how = "neighbors" if far[1].startswith("neigh") else far[1]
    return how + along + (" and between slices" if "dcn" in route else "")


def _apart(of: re.Match[str]) -> str:
    axes = re.findall(r"[xyz](?= \()", of[2])
    return f"{of[1]} chips apart along {' and '.join(axes)}"


def run_words(
    prediction: Prediction, plan: Plan, tokens: float, price: float | None = None
) -> str | None:
    """Returns what training on so many tokens takes: steps, days, chip-hours, and dollars at a price
    per chip-hour; None where it does not fit."""
    run = training_run(prediction, plan, tokens, price)
    if run is None:
        return None
    money = f", {money_text(run.money)}" if run.money is not None else ""
    return (
        f"{numbered(run.steps, 'step')}, {days_text(run.days.estimate)} without a stop "
        f"({days_span(run.days)}), {run.chip_hours:,.0f} chip-hours on "
        f"{numbered(plan.topology.chips, 'chip')}{money}"
    )


def tokens_text(tokens: float) -> str:
    """Returns a number of tokens.

    >>> tokens_text(15e12), tokens_text(2.5e9)
    ('15T tokens', '2.5B tokens')
    """
    unit, size = ("T", 1e12) if tokens >= 1e12 else ("B", 1e9)
    return f"{number_text(tokens / size)}{unit} tokens"


RANGE = "80% range"
# `bench.published_steps`: how many are in the range of their instant estimate, of how many
HELD, PUBLISHED = 50, 58
RANGES_WORDS = (
    f"Ranges are meant for 4 of 5 steps: those of instant estimates hold {HELD} of {PUBLISHED} "
    "published steps."
)
# `bench.predict_calibration` compiles four of them, to which constants were fitted
COMPILED_WORDS = "No published step was held against the range of a compiled one."

# `bench.memory_random`: peaks in the range of their estimate, of how many compiled, all for TPUs
PEAKS_HELD, PEAKS = 103, 104
PEAKS_WORDS = f"Ranges of memory hold {PEAKS_HELD} of {PEAKS} compiled peaks, all of them on TPUs."


_YEAR = 365  # days


def days_text(days: float) -> str:
    """Returns days, or hours or years, in words.

    >>> days_text(22.71), days_text(0.5), days_text(1), days_text(900)
    ('22.7 days', '12.0 hours', '1.00 days', '2.47 years')
    """
    unit, each = _unit_of(days)
    return f"{three_digits(each * days)} {unit}"


def days_span(days: Estimate) -> str:
    """Returns the interval of a time in days, in the unit of its estimate.

    >>> days_span(Estimate(low=0.98, estimate=1.13, high=1.27))
    '0.980 to 1.27 days'
    """
    unit, each = _unit_of(days.estimate)
    return between(*(f"{three_digits(each * end)} {unit}" for end in (days.low, days.high)))


def deadline_text(days: float) -> str:
    """Returns a deadline in the unit that it was given in.

    >>> deadline_text(30), deadline_text(0.01)
    ('30 days', '0.01 days')
    """
    return numbered(days, "day")


def _unit_of(days: float) -> tuple[str, float]:
    """Unit of a time, and how many are a day."""
    if days < 1:
        return "hours", 24.0
    return ("days", 1.0) if days < 2 * _YEAR else ("years", 1 / _YEAR)


def measured_words(prediction: Prediction, measured_s: float) -> str | None:
    """How far the estimate is from a measured time, and whether that is in the interval."""
    time = prediction.predicted_s
    if time is None or measured_s <= 0:
        return None
    inside = "inside" if time.low <= measured_s <= time.high else "outside"
    return (
        f"The estimate is {off_words(time.estimate / measured_s - 1, 1)} "
        f"({seconds_text(measured_s)}), which is {inside} the predicted interval."
    )


def off_words(error: float, digits: int = 0) -> str:
    """An estimate's relative error in words.

    >>> off_words(-0.147, 1), off_words(0.2), off_words(0.001)
    ('14.7% faster than measured', '20% slower than measured', 'as measured')
    """
    share = f"{abs(error):.{digits}%}"
    if float(share.rstrip("%")) == 0:
        return "as measured"
    return f"{share} {'faster' if error < 0 else 'slower'} than measured"


def part_kind(words: str) -> str:
    """The kind, as a legend has it, of such a part.

    >>> part_kind("exposed all-gather"), part_kind("matrix products"), part_kind("waiting for the host")
    ('exposed', 'matmul', 'wait')
    """
    known = {shown: kind for kind, shown in KINDS.items()} | dict.fromkeys(
        KERNELS.values(), "kernel"
    )
    if words in known:
        return known[words]
    return "exposed" if words.startswith("exposed") else "wait"
