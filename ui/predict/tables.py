"""Predictions to words and tables for the screen; no Streamlit here."""

from collections.abc import Mapping

from spmd_core.machine.topologies import Topology
from spmd_core.plan import sharding
from spmd_core.plan.plan import Plan
from spmd_core.results.prediction import Prediction, merged
from spmd_core.results.result import Result, StrategyResult
from spmd_core.units import bytes_text, number_text, seconds_text
from spmd_core.workloads import decoder
from ui.markdown import plain, title

NONE = "–"
_HOUR, _DAY = 3600.0, 86400.0
_BINDS = {"compute": "compute binds", "memory": "memory bandwidth binds", "interconnect": "the links between chips bind",
          "host": "the transfer to the host binds", "data centre network": "the network between slices binds"}


def headline(found: Prediction, step: bool = True) -> str:
    """The answer in a sentence: fits or by how much not; how long a step (or the whole program) takes, and what binds."""
    memory, time = found.memory_bytes, found.predicted_s
    if not found.fits or time is None:
        needs = f"it needs {bytes_text(memory.peak)} of memory per device, and there are {bytes_text(memory.capacity)}" if memory.peak else \
            f"it needs more than the {bytes_text(memory.capacity)} of memory that a device has"
        over = f": {bytes_text(memory.missing)} too much" if memory.missing > 1 else ""
        return f"Does not fit: {needs}{over}."
    at = f" at {found.mfu:.1%} MFU" if found.mfu else ""
    binds = f"; {_BINDS.get(found.binds, found.binds)}" if found.binds else ""
    return f"Fits, and takes about {seconds_text(time.estimate)}{' a step' if step else ''}{at}{binds}."


def answer(result: Result) -> str:
    """The answer of a run of predictions, in a sentence."""
    predictions = [each.prediction for each in result.strategies.values() if each.prediction is not None]
    if len(result.strategies) == 1 and predictions:
        return headline(predictions[0], result.experiment.workload == decoder.NAME)
    return comparison(result.strategies)


def comparison(found: Mapping[str, StrategyResult]) -> str:
    """The answer about several strategies, in a sentence."""
    timed = {name: each.prediction.predicted_s for name, each in found.items() if each.prediction and each.prediction.predicted_s}
    if not timed:
        return "None of the strategies fits." if any(each.prediction for each in found.values()) else "No strategy was compiled to the end."
    order = sorted(timed, key=lambda name: timed[name].estimate)
    best = timed[order[0]]
    alike = [name for name in order if timed[name].estimate <= 1.005 * best.estimate]
    if len(alike) == len(timed) > 1:
        return f"{'Both' if len(timed) == 2 else f'All {len(timed)}'} strategies take the same, about {seconds_text(best.estimate)}."
    if len(timed) == 1:
        return f"{title(order[0])} takes about {seconds_text(best.estimate)}."
    names = " and ".join(title(name) for name in alike)
    worst = order[-1]
    return f"{names} {'is' if len(alike) == 1 else 'are'} fastest, about {seconds_text(best.estimate)}. {title(worst)} takes " \
           f"{timed[worst].estimate / best.estimate:.3g}× as long."


def strategies_table(found: Mapping[str, StrategyResult]) -> dict[str, list[str]]:
    """One row per strategy: time, interval, memory, what binds, exposed communication."""
    table: dict[str, list[str]] = {"Strategy": [], "Time": [], "Between": [], "Memory": [], "Binds": [], "Exposed communication": []}
    for name, each in found.items():
        prediction = each.prediction
        time = prediction.predicted_s if prediction else None
        table["Strategy"].append(title(name))
        table["Time"].append(nowrap(seconds_text(time.estimate)) if time else "does not fit" if prediction else "failed")
        table["Between"].append(f"{nowrap(seconds_text(time.low))} to {nowrap(seconds_text(time.high))}" if time else NONE)
        table["Memory"].append(nowrap(bytes_text(prediction.memory_bytes.peak)) if prediction else NONE)
        table["Binds"].append(str(prediction.binds or NONE) if prediction else NONE)
        table["Exposed communication"].append(nowrap(seconds_text(sum(c.exposed_s for c in prediction.collectives))) if time and prediction else NONE)
    return table


def collectives_table(found: Prediction, reasons: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Collectives alike in kind, axes, bytes and cause are one row, the longest first. `reasons` by name: of the experiment, where it tells."""
    table: dict[str, list[str]] = {name: [] for name in ("Collective", "Over", "Bytes", "Times", "Total", "Exposed", "Why")}
    for each in merged(found.collectives):
        table["Collective"].append(each.kind if each.asked is None else f"{each.asked} asked / {each.kind} compiled")
        axes = ", ".join(each.axes)
        table["Over"].append(f"{axes}: {route_words(each.route)}" if axes else route_words(each.route))
        table["Bytes"].append(nowrap(bytes_text(each.bytes)))
        table["Times"].append(f"{each.count:,}")
        table["Total"].append(nowrap(seconds_text(each.seconds)))
        table["Exposed"].append(nowrap(seconds_text(each.exposed_s)) if each.exposed_s > 0.005 * max(each.seconds, 1e-12) else "hidden")
        table["Why"].append(plain((reasons.get(each.name) or each.reason or NONE).replace("`", "")))
    return table


def route_words(route: str) -> str:
    """Where a collective runs, without the names of links.

    >>> route_words("neighbours over ici x+, ici x-, ici y+")
    'neighbours along x and y'
    """
    if not route.startswith("neighbours over"):
        return route
    axes = [axis for axis in "xyz" if f"ici {axis}" in route]
    return "neighbours" + (f" along {' and '.join(axes)}" if axes else "") + (" and between slices" if "dcn" in route else "")


def buffers_table(found: Prediction) -> dict[str, list[str]]:
    """The arrays that matter to memory, and the operation that they come from."""
    return {"Array": [plain(each.shape) for each in found.buffers], "Bytes": [nowrap(bytes_text(each.bytes)) for each in found.buffers],
            "From": [plain(operation(each.op) or each.name) for each in found.buffers]}


def operation(op: str | None) -> str:
    """The last parts of an operation's path, without what JAX wraps around.

    >>> operation("jit(train_step)/transpose(jvp())/while/body/bse,ehd->bshd/dot_general")
    'bse,ehd->bshd/dot_general'
    """
    return "/".join((op or "").split("/")[-2:])[-44:]


def memory_table(found: Prediction) -> dict[str, list[str]]:
    """The compiler's account, per device."""
    held = found.memory_bytes
    rows = {"Peak in use at once": held.peak, "Arguments (parameters, optimizer, data)": held.argument, "Temporaries": held.temp,
            "Results": held.output, "of which in the place of arguments": held.alias, "Program": held.code, "In host memory": held.host or None}
    rows = {name: size for name, size in rows.items() if size is not None}
    return {"Memory per device": list(rows), "Bytes": [nowrap(bytes_text(size)) for size in rows.values()]}


def run_words(found: Prediction, plan: Plan, tokens: float) -> str | None:
    """What training on so many tokens takes: steps, days, chip-hours; None where it does not fit."""
    time = found.predicted_s
    if time is None or tokens <= 0:
        return None
    steps = tokens / plan.tokens
    chips = plan.topology.chips

    def of(seconds: float) -> str:
        days = steps * seconds / _DAY
        return f"{number_text(days)} days" if days >= 1 else f"{number_text(steps * seconds / _HOUR)} hours"

    hours = chips * steps * time.estimate / _HOUR
    return (f"{steps:,.0f} steps, {of(time.estimate)} without a stop (between {of(time.low)} and {of(time.high)}), "
            f"{hours:,.0f} chip-hours on {chips:,} chips")


def measured_words(found: Prediction, measured_s: float) -> str | None:
    """How far the estimate is off a measured time, and whether that lies in the interval."""
    time = found.predicted_s
    if time is None or measured_s <= 0:
        return None
    inside = "inside" if time.low <= measured_s <= time.high else "outside"
    return f"The estimate is {time.estimate / measured_s - 1:+.1%} off your {seconds_text(measured_s)}, which is {inside} the interval."


def chip_words(topology: Topology) -> str:
    """What a chip of the topology can do."""
    chip = topology.chip
    return (f"{chip.title}: {chip.peak_flops / 1e12:,.0f} TFLOP/s in bfloat16, {bytes_text(chip.hbm_bytes)} of HBM at "
            f"{chip.hbm_bandwidth / 1e12:.2f} TB/s, each link {chip.link_bandwidth / 1e9:.0f} GB/s each way")


def sharding_table(plan: Plan) -> dict[str, list[str]]:
    """Dim -> mesh axes of a model, for activations and for parameters with their optimizer state."""
    rows = sharding.by_dim(plan)

    def words(choices: tuple[tuple[str, ...], ...] | None) -> str:
        if choices is None:
            return NONE
        return " or ".join(" and ".join(axes) if axes else "whole" for axes in choices)

    return {"Dim": list(rows), "of activations": [words(groups.get("activations")) for groups in rows.values()],
            "of parameters and optimizer": [words(groups.get("parameters")) for groups in rows.values()]}


def arrays_table(plan: Plan) -> dict[str, list[str]]:
    """Every array that matters: its dims with the axes that cut them, and the shape that one device holds."""
    found = sharding.arrays(plan)
    rename = sharding.WORDS

    def dims(array: sharding.CutArray) -> str:
        return ", ".join(f"{rename.get(dim, dim)} {size:,}" + (f" over {' and '.join(axes)}" if axes else "")
                         for (dim, size), axes in zip(array.dims, array.axes, strict=True))

    return {"Array": [f"{array.name} ({array.group[:-1]})" for array in found], "Dims, and what cuts them": [dims(array) for array in found],
            "On each device": [" × ".join(f"{size:,}" for size in array.held(plan.axis_sizes)) for array in found]}


def percent(new: float | None, old: float | None) -> str:
    """The change from old to new.

    >>> percent(1.1, 1.0), percent(None, 1.0)
    ('+10.0%', '–')
    """
    return NONE if new is None or not old else f"{new / old - 1:+.1%}"


def nowrap(text: str) -> str:
    """Text that a narrow column does not break."""
    return text.replace(" ", "\u00a0")
