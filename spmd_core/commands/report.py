"""A result as text: the answer first, then a row per strategy, then what a reader of the numbers needs to know."""

from collections.abc import Iterator

from spmd_core.commands.table import table
from spmd_core.machine.targets import parse_target
from spmd_core.results.environment import Environment
from spmd_core.results.result import Result, StrategyResult
from spmd_core.units import bytes_text, seconds_text, value_text
from spmd_core.words.strategies import sentence

MAX_VALUES_SHOWN = 8


def report(result: Result) -> list[str]:
    """Lines of text."""
    mesh = ", ".join(f"{axis}={size}" for axis, size in result.experiment.mesh)
    lines = [f"run {result.run}: {result.experiment.what.title.lower()} on mesh {mesh} of {result.experiment.target}, {place(result.environment)}"]
    if result.partial:
        lines.append("The run ended before it was done: these are the samples taken until then.")
    if parse_target(result.experiment.target).kind == "tpu":
        return [*lines, sentence(result), "", *table(_predicted(result), numbers=(2, 3, 7)), *_remarks(result)]
    if result.comparison:
        lines.append(result.comparison.sentence)
    ratios = {ratio.strategy: ratio for ratio in result.comparison.ratios} if result.comparison else {}
    head = ("strategy", "median", "95 % interval", "× fastest", "compile", "collectives", "peak/device", "error")
    rows: list[tuple[str, ...]] = [head]
    for name, found in result.strategies.items():
        ratio = ratios.get(name)
        interval = f"{seconds_text(found.ci95_s[0])} – {seconds_text(found.ci95_s[1])}" if found.ci95_s else "–"
        times = f"{ratio.ratio:.2f}" if ratio else "1" if result.comparison and result.comparison.fastest == name else "–"
        rows.append((name, seconds_text(found.median_s), interval, times, seconds_text(found.phases_s.compile), collectives(found),
                     bytes_text(found.memory_bytes.peak if found.memory_bytes else None), _error(found)))
    return [*lines, "", *table(rows, numbers=(1, 3, 4, 6)), *_remarks(result)]


def _predicted(result: Result) -> list[tuple[str, ...]]:
    """A row for each strategy that was compiled for a topology that is not attached."""
    rows: list[tuple[str, ...]] = [("strategy", "fits", "predicted", "between", "binds", "collectives", "peak/device", "compile")]
    for name, found in result.strategies.items():
        prediction, time = found.prediction, found.predicted_s
        held = prediction.memory_bytes if prediction else None
        missing = f" ({bytes_text(held.missing)} too much)" if held and held.missing else ""
        rows.append((name, "–" if prediction is None else "yes" if prediction.fits else "no", seconds_text(time.estimate if time else None),
                     f"{seconds_text(time.low)} – {seconds_text(time.high)}" if time else "–", (prediction.binds if prediction else None) or "–",
                     collectives(found), f"{bytes_text(held.peak)} of {bytes_text(held.capacity)}{missing}" if held else "–",
                     seconds_text(found.phases_s.compile)))
    return rows


def place(environment: Environment) -> str:
    """The devices in words, e.g. `8 × cpu (simulated on 2 cores)`."""
    simulated = f" (simulated on {environment.cores} cores)" if environment.simulated and environment.cores else ""
    return f"{environment.device_count} × {environment.device_kind}{simulated}, JAX {environment.jax}"


def collectives(found: StrategyResult) -> str:
    """The collectives of a program, e.g. `all-reduce over x`; an en dash where they are not known."""
    if found.collectives is None:
        return "–"
    texts = dict.fromkeys(f"{one.kind} over {' '.join(one.axes)}" if one.axes else one.kind for one in found.collectives)
    return ", ".join(texts) or "none"


def _error(found: StrategyResult) -> str:
    if found.status != "ok":
        return found.status
    if found.max_rel_error is None:
        return "–"
    return f"{found.max_rel_error:.1e}" + ("" if found.correct else " WRONG")


def _remarks(result: Result) -> Iterator[str]:
    """What was printed, noted, warned of or went wrong, strategy by strategy; the values of small results."""
    remarks = [line for name, found in result.strategies.items() for line in _of_strategy(name, found)]
    yield from ["", *remarks] if remarks else []
    yield from (f"note: {note}" for note in result.notes)


def _of_strategy(name: str, found: StrategyResult) -> Iterator[str]:
    if found.error:
        yield f"{name}: {found.error.kind}: {' '.join(found.error.message.split())}"
    if found.from_unsharded and found.from_unsharded.median_s is not None:
        yield f"{name}: {seconds_text(found.from_unsharded.median_s)} from unsharded operands, which every call reshards"
    for what, text in found.printed.items():
        yield f"{name}: {what}: {text}"
    for array, reported in found.outputs.items():
        if reported.values is not None:
            shown = " ".join(value_text(value, reported.dtype) for value in reported.values[:MAX_VALUES_SHOWN])
            yield f"{name}: {array} = {shown}{' …' if len(reported.values) > MAX_VALUES_SHOWN else ''}"
    if found.bytes_per_s is not None:
        yield f"{name}: {found.bytes_per_s / 1e9:.3g} GB/s"
    if found.predicted_s and found.prediction_error is not None:
        yield f"{name}: predicted {seconds_text(found.predicted_s.estimate)}, {found.prediction_error:+.0%} against what was measured"
    yield from (f"{name}: {note}" for note in (*found.notes, *(found.prediction.notes if found.prediction else ())))
    yield from (f"{name}: compiler: {warning}" for warning in found.warnings)
