"""Display names of strategies, workloads, states and machines."""

import time
from collections.abc import Iterable, Mapping, Sequence, Set

from spmd_core.base import bytes_text, capital, mesh_text, numbered, shorten
from spmd_core.experiment import Experiment, Row
from spmd_core.machine import GPUS, parse_target, sheet_bytes
from spmd_core.results import Environment, Result
from spmd_core.runs import RunSummary
from spmd_core.workloads import PROGRAM_FILE, STRATEGIES, WORKLOADS

DOES_NOT_FIT = "Does not fit"
COLORS = 8  # of a palette
# none that reads as a direction; with the colors they make 96 pairs, the rows of the largest study
MARKERS = "●■▲◆✚▼★○□△◇▽"
_WIDENED = {"bfloat16": "float32", "float8_e4m3fn": "float16", "float8_e5m2": "float16"}  # by XLA
_TURN = 24  # places after which pairs of place % 8 and place % 12 come again


def title(strategy: str) -> str:
    """A strategy's name in sentences and tables; that of a study's row with its variant's."""
    variant, _, own = strategy.rpartition("/")
    if variant:
        return f"{variant} · {title(own)}"
    return STRATEGIES[strategy].title if strategy in STRATEGIES else strategy


def row_title(result: Result, name: str) -> str:
    """A row's name beside others of its result; a training step has no strategies to choose from."""
    if result.experiment.plan and not result.experiment.variants:
        return "Step"
    return _of_study(result.row(name), result.experiment, result.baselines)


def planned_title(experiment: Experiment, name: str) -> str:
    """The same before there is a result."""
    baselines = {row.key for row in experiment.rows_once} & experiment.baselines
    return _of_study(experiment.rows_by_key[name], experiment, baselines)


def _of_study(row: Row, experiment: Experiment, baselines: Set[str]) -> str:
    """Of a study whose variants are ranked by one strategy the variant; its only baseline is of none."""
    ranked = {each.strategy for each in experiment.ranked_rows}
    if row.variant and len(ranked) == 1 and row.key not in baselines:
        return row.variant
    return title(row.strategy if baselines == {row.key} else row.key)


def spoken(name: str, result: Result | None = None) -> str:
    """A row's name in a sentence; between quotes where it has that of a variant, which may have
    commas and words of its own.

    >>> spoken("auto"), spoken("batch over x, out over y/auto")
    ('Automatic', '“batch over x, out over y · Automatic”')
    """
    shown, variant = row_title(result, name) if result else title(name), name.rpartition("/")[0]
    return in_quotes(shown) if variant and shown.startswith(variant) else shown


def in_quotes(variant: str) -> str:
    """The name of a variant in a sentence."""
    return f"“{variant}”"


def marker(experiment: Experiment, name: str) -> str:
    """A row's marker, which no other row of its experiment has in the same color."""
    place = experiment.palette_place(name)
    return MARKERS[(place + place // _TURN) % len(MARKERS)]


def titles(strategies: Sequence[str]) -> str:
    """Several strategies: `Automatic, Explicit and shard_map`."""
    return listed([title(name) for name in strategies])


def listed(names: Sequence[str], last: str = "and") -> str:
    """Names with commas and an `and`.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def margin_text(share: float) -> str:
    """A share with one digit where it has one.

    >>> margin_text(0.03), margin_text(0.025)
    ('3%', '2.5%')
    """
    return f"{100 * share:.3g}%"


def workload_title(name: str) -> str:
    """A workload's name; a user's own workload has the name that they gave it."""
    if name == PROGRAM_FILE:
        return "Exported program"
    return WORKLOADS[name].title if name in WORKLOADS else name


def state_words(state: str) -> str:
    """A run state: `Succeeded`, `Timed out`."""
    return capital(state.replace("_", " "))


def outcome_words(run: RunSummary) -> str:
    """How a stored run ended, and of one that succeeded whether its time was measured or predicted:
    `Measured`, `Measured, imprecise`, `Measured, 1 of 3 failed`, `Measured, not ranked`, `Does not fit`,
    `Cancelled, partial`.
    """
    words = state_words(run.state)
    if run.state == "succeeded" and run.answer is not None:
        words = "Predicted" if run.answer[2] else "Measured"
        words += ", imprecise" if run.is_imprecise else ""
    elif (
        run.state == "succeeded" and run.experiment.what.is_of_machine
    ):  # with several strategies, none has a time
        words = "Predicted" if run.experiment.place.is_absent else "Measured"
    elif run.state == "succeeded" and run.experiment.place.is_absent:
        words = DOES_NOT_FIT  # on no strategy, or there would be a time
    elif run.state == "succeeded" and any(run.medians_s.values()):
        words = "Measured, not ranked"  # its values are wrong, or could not be judged
    if run.state == "succeeded" and (without := _without_time(run)):
        words = f"{words}, {without}"
    return f"{words}, partial" if run.partial else words


def _without_time(run: RunSummary) -> str:
    """How many of a run's strategies have no time beside some that have: failed, or where they are
    predicted, not fitting; "" where all or none have one.
    """
    missing = [
        name
        for name, median in run.medians_s.items()
        if median is None and name not in run.predicted_s
    ]
    if not missing or run.answer is None:
        return ""
    why = "without a time" if run.answer[2] else "failed"
    return f"{len(missing)} of {len(run.medians_s)} {why}"


def ago(moment: float, now: float | None = None) -> str:
    """How long ago, coarsely: `just now`, `5 min ago`, `3 h ago`, else the day and time."""
    passed = (time.time() if now is None else now) - moment
    if passed < 60:
        return "just now"
    if passed < 3600:
        return f"{passed // 60:.0f} min ago"
    if passed < 86400:
        return f"{passed // 3600:.0f} h ago"
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def predicted_words(environments: Mapping[str, Environment]) -> str:
    """The devices of absent targets in a line: `predicted for 16 × TPU v5 lite`."""
    kinds = [f"{each.device_count} × {each.device_kind}" for each in environments.values()]
    return f"predicted for {listed(kinds)}"


def pool_words(environment: Environment) -> str | None:
    """How much of a GPU's memory JAX takes, beside the data sheet's; None off
    attached GPUs."""
    held = next((each.memory_bytes for each in environment.devices if each.memory_bytes), None)
    if environment.platform != "gpu" or held is None:
        return None
    sheet = sheet_bytes(environment.device_kind)
    if held == sheet:  # of GPUs that are not attached
        return None
    of = f" of the {bytes_text(sheet)} in the data sheet" if sheet else ""
    return (
        f"JAX takes up to {bytes_text(held)} of each GPU{of}, as programs need it: "
        "XLA_PYTHON_CLIENT_MEM_FRACTION sets the share, XLA_PYTHON_CLIENT_PREALLOCATE=true takes "
        "it at once"
    )


def widened_words(dtypes: Iterable[str]) -> str:
    """Returns which of a program's dtypes XLA's CPU compiler communicates in a wider one; "" if none.

    >>> widened_words(["bfloat16", "float32"])
    "XLA's CPU compiler widens bfloat16 to float32: devices hold more than a TPU's, and send up to twice as much"
    """
    widened = [f"{each} to {_WIDENED[each]}" for each in sorted(set(dtypes) & _WIDENED.keys())]
    if not widened:
        return ""
    more = "devices hold more than a TPU's, and send up to twice as much"
    return f"XLA's CPU compiler widens {' and '.join(widened)}: {more}"


def environment_notes(environment: Environment, target: str) -> tuple[str, ...]:
    """What a reader of times must know of what they were, or were not, measured on."""
    if parse_target(target).is_absent:
        return (
            f"no {environment.platform.upper()} is attached: programs are compiled for this topology "
            "and timed by the cost model, none is executed",
        )
    if not environment.simulated:
        return ()
    count, cores = environment.device_count, environment.cores
    shared = numbered(cores, "core") if cores else "the cores of one machine"
    return (f"{count} simulated devices share {shared}: their times say nothing of real devices",)


def environment_words(environment: Environment) -> str:
    """The devices of a target in one line: `8 simulated CPU devices sharing 2 cores, JAX 0.10.2`."""
    count, kind = environment.device_count, environment.device_kind
    devices = f"{count} simulated CPU devices" if environment.simulated else f"{count} × {kind}"
    cores = (
        f" sharing {environment.cores} cores" if environment.simulated and environment.cores else ""
    )
    count = environment.process_count
    host = f", {count} processes" if count > 1 else ""
    given = {"XLA_FLAGS": environment.xla_flags, "LIBTPU_INIT_ARGS": environment.libtpu_init_args}
    flags = "".join(f", {name}={shorten(text, 80)}" for name, text in given.items() if text)
    return f"{devices}{cores}{host}, JAX {environment.jax}{flags}"


def mesh_words(mesh: tuple[tuple[str, int], ...]) -> str:
    """A mesh as an experiment writes it: `x=2 y=4`."""
    return mesh_text(mesh, " ")


def chip_title(kind: str) -> str:
    """Returns the short name of a chip.

    >>> chip_title("tpu7x"), chip_title("h100"), chip_title("v5p")
    ('TPU7x', 'H100', 'v5p')
    """
    return kind.upper() if kind in GPUS else kind.replace("tpu", "TPU")
