"""A sweep: one prediction varied in a variable of the table, as a frozen value, and its points."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from spmd_core.base import RequestError, mesh_text, numbered, refuse, shorten
from spmd_core.experiment import Experiment, experiment_of
from spmd_core.facts import Fits
from spmd_core.fields import Mesh
from spmd_core.machine import Topology, get_topology, topology_of_chips
from spmd_core.plan import (
    DATA_AXES,
    Plan,
    fewer_microbatches,
    option_words,
    remat_words,
    undivided_axes,
)
from spmd_core.search import REMATS
from spmd_core.sweeps.best_mesh import BEST, best_mesh
from spmd_core.sweeps.least_memory import least_memory
from spmd_core.sweeps.training import TrainingQuestion
from spmd_core.sweeps.training_search import train
from spmd_core.sweeps.variables import VARIABLES, Scaling, Value, Variable
from spmd_core.time import estimate_memory, estimate_step

Meshes = Literal["kept", "best"]
MAX_POINTS = 24
_MAY_FIT: tuple[Fits, ...] = ("unlikely", "likely")  # the less sure first
# Rough seconds of a decoder's step on two cores: 34 to 669 s were seen for v6e, tpu7x is a guess.
_COMPILE_S = {"v6e": 150.0, "tpu7x": 120.0}
_DECODER_S, _SMALL_S = 60.0, 4.0  # 60 to 121 s were seen on v5e and v5p, with other work beside
_SERVED_S = 15.0  # of a serving step, 10 to 30 s


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is varied, over which values.

    `vary` names a row of VARIABLES. `scaling` is for chips: `weak` keeps the batch per chip,
    `strong` the total batch. With the best of `meshes` each number of chips has the plan that Predict
    finds for it, else the base's with its mesh resized.
    """

    base: Experiment
    vary: str
    values: tuple[Value, ...]
    scaling: Scaling = "weak"
    meshes: Meshes = "kept"

    @property
    def variable(self) -> Variable:
        """The row of the table."""
        return VARIABLES[self.vary]

    @property
    def is_categorical(self) -> bool:
        """Whether the values have no order of their own."""
        return self.variable.is_categorical

    @property
    def is_tuned(self) -> bool:
        """Whether a point that is not sure to fit has the plan of its own that Predict finds: one over
        chips, unless you keep the mesh.
        """
        is_free = self.scaling == "weak" or self.meshes == BEST
        return self.base.plan is not None and self.variable.scales and is_free

    @property
    def text(self) -> str:
        """As the command line writes it, e.g. `chips=8,64,512`."""
        return f"{self.vary}={self.variable.text_of(self.values)}"


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One value of a sweep: its experiment, or the sentence why there is none.

    `expected_bytes` is the peak per device estimated from the sizes, before any compile, `fits` the
    verdict on its interval, and `host_bytes` what is offloaded; None where only the compiler knows.
    """

    label: str
    value: Value
    experiment: Experiment | None = None
    refusal: str | None = None
    chips: int = 0
    slices: int = 1
    capacity_bytes: int = 0
    expected_bytes: int | None = None
    fits: Fits | None = None
    host_capacity_bytes: int = 0
    host_bytes: int | None = None
    plans_tried: int | None = None  # of which its own is the fastest
    instead: str | None = None  # its plan, and why it replaces that of the sweep
    unfit: str | None = None  # whether that may or does not fit, and why

    @property
    def is_too_large(self) -> bool:
        """Whether it does not fit by its sizes alone."""
        return self.fits == "no"

    @property
    def strategy(self) -> str:
        """The strategy that is compiled."""
        return self.experiment.strategies[0] if self.experiment else ""


def parse_sweep(
    base: Experiment, text: str, scaling: Scaling = "weak", meshes: Meshes = "kept"
) -> Sweep:
    """`chips=8,64,512` and so on as a sweep of `base`; RequestError where it is none."""
    name, separator, values = text.partition("=")
    vary = name.strip().lower().replace("_", "-")
    if vary not in VARIABLES or not separator:
        known = ", ".join(VARIABLES)
        raise refuse(
            f"sweep {shorten(text)}",
            f"does not say what to vary, of {known}",
            f"write for example chips={VARIABLES['chips'].example}",
        )
    if meshes == BEST and not (base.plan and VARIABLES[vary].scales):
        raise refuse("mesh best", "is for numbers of chips of a model", "name a mesh")
    return Sweep(base, vary, parse_values(VARIABLES[vary], values), scaling, meshes)


def parse_values(variable: Variable, text: str) -> tuple[Value, ...]:
    """`8,64,512`, or meshes with semicolons between them; RequestError where one is none."""
    parts = [part.strip() for part in text.split(variable.separator) if part.strip()]
    if not parts:
        raise refuse(
            f"sweep over {variable.name}",
            "names no values",
            f"write for example {variable.example}",
        )
    if len(parts) > MAX_POINTS:
        raise refuse(f"sweep of {len(parts)} values", f"is longer than {MAX_POINTS}", "use fewer")
    values = tuple(_parsed(variable, parts))
    for value in values:
        if values.count(value) > 1:
            raise refuse(f"{variable.name}={value}", "appears twice", "name it once")
    return values


def _parsed(variable: Variable, parts: Sequence[str]) -> Iterator[Value]:
    """The values; RequestError with all that are none."""
    refused: dict[str, RequestError] = {}
    for part in parts:
        try:
            yield variable.parse(part)
        except RequestError as error:
            refused[part] = error
    if len(refused) > 1:
        what = f"{variable.name}={shorten(','.join(refused))}"
        raise refuse(what, "are no values of it", f"write for example {variable.example}")
    for error in refused.values():
        raise error


def variants(sweep: Sweep) -> tuple[SweepPoint, ...]:
    """One point for each value, in order; a value that cannot be is a point with its refusal."""
    return tuple(_point(sweep, value) for value in sweep.values)


def members(study: Experiment) -> tuple[SweepPoint, ...]:
    """One point for each variant of a study, by its name."""
    return tuple(_valid(each.name, each.name, each.experiment) for each in study.members)


def _point(sweep: Sweep, value: Value) -> SweepPoint:
    variable = sweep.variable
    try:
        if sweep.meshes == BEST and sweep.base.plan:
            experiment, tried = _with_best(sweep.base, sweep.base.plan, int(value), sweep.scaling)
        else:
            experiment, tried = _varied(sweep, value), None
        label = variable.label_of(value, get_topology(experiment.target))
        point = replace(_valid(label, value, experiment), plans_tried=tried)
        return _tuned(point, sweep.base.plan) if sweep.is_tuned else point
    except RequestError as error:
        chips = value if variable.scales and isinstance(value, int) else 0
        return SweepPoint(variable.label_of(value), value, refusal=str(error), chips=chips)


def _tuned(point: SweepPoint, base: Plan | None) -> SweepPoint:
    """Returns a point, with the plan of its chips and batch that is sure to fit if its own is less
    sure to than that of the sweep; where none fits, with the plan that comes nearest.
    """
    plan = point.experiment.plan if point.experiment else None
    if plan is None or point.fits in ("yes", *_as_sure(base)):
        return point
    try:
        best = best_mesh(plan.to_json(), plan.topology.target, plan.batch, REMATS)
    except RequestError:
        return point
    experiment = experiment_of(best.plan).vary(strategies=[point.strategy])
    tuned = _valid(point.label, point.value, experiment)
    if tuned.fits != "yes":
        return _nearest(point, plan) if point.is_too_large else point
    verb = "does" if point.is_too_large else "may"
    why = "; ".join(undivided_axes(plan)) if point.is_too_large else ""
    unfit = f"which {verb} not fit{f': {why}' if why else ''}"
    words = f"{_policy(best.plan)} in place of {_policy(plan)}, {unfit}"
    return replace(tuned, instead=words, unfit=unfit, plans_tried=point.plans_tried)


def _as_sure(base: Plan | None) -> tuple[Fits, ...]:
    """Returns the verdicts on memory of points that are as sure to fit as the plan of the sweep."""
    verdict = estimate_memory(base).fits(base.topology.chip.capacity) if base else "yes"
    return _MAY_FIT[_MAY_FIT.index(verdict) :] if verdict in _MAY_FIT else ()


def _nearest(point: SweepPoint, plan: Plan) -> SweepPoint:
    least = least_memory(plan)
    if least == plan:
        return point
    experiment = experiment_of(least).vary(strategies=[point.strategy])
    nearest = _valid(point.label, point.value, experiment)
    words = f"nearest to fitting: {_policy(least)}"
    return replace(nearest, instead=words, plans_tried=point.plans_tried)


def _policy(plan: Plan) -> str:
    saved = remat_words(plan.remat, plan.save, plan.offload)
    return f"{mesh_text(plan.mesh, ' ')} ({', '.join([saved, *option_words({'microbatches': plan.microbatches})])})"


def _valid(label: str, value: Value, experiment: Experiment) -> SweepPoint:
    topology = get_topology(experiment.target)
    capacity = topology.chip.capacity
    expected = estimate_memory(experiment.plan) if experiment.plan else None
    return SweepPoint(
        label,
        value,
        experiment,
        None,
        topology.chips,
        topology.slices,
        capacity.device,
        expected.peak if expected else None,
        expected.fits(capacity) if expected else None,
        capacity.host,
        expected.host if expected else None,
    )


def _with_best(
    base: Experiment, plan: Plan, chips: int, scaling: Scaling
) -> tuple[Experiment, int]:
    topology = topology_of_chips(plan.topology.chip.generation, chips)
    batch = plan.batch * chips / plan.topology.chips if scaling == "weak" else plan.batch
    try:
        if (trained := _trained(plan, topology, batch)) is None:
            mesh = best_mesh(plan.to_json(), topology.target, batch, REMATS)
            trained = mesh.plan, mesh.plans
    except RequestError as error:
        if scaling == "weak" or topology.devices == plan.devices:
            raise
        is_power = chips.bit_count() == 1
        raise refuse(
            f"{numbered(plan.batch, 'sequence')} a step",
            f"divide over no mesh of {chips:,} chips",
            f"use {'other chips' if is_power else 'a power of two'}, or the same batch per chip",
        ) from error
    best, tried = trained
    chosen = _faster(plan, best) if batch == plan.batch else best
    return experiment_of(chosen).vary(strategies=base.strategies), tried


def _trained(plan: Plan, topology: Topology, batch: float) -> tuple[Plan, int] | None:
    """Returns the plan that Predict finds for so many chips and sequences, and of how many; None
    without one of these that may fit.
    """
    if batch < 1 or batch != int(batch):
        return None
    kind, chips = topology.chip.generation, topology.chips
    (row,) = train(TrainingQuestion(plan.to_json(), 1.0, batch, (kind,), chips)).rows
    if row.run is None or row.plan is None or row.plan.batch != batch:
        return None
    return (row.plan, row.plans) if row.plan.target == topology.target else None


def _faster(own: Plan, best: Plan) -> Plan:
    """Returns the plan of a sweep at its own chips, unless it does not fit or that of another mesh
    has the shorter step."""
    if own.target != best.target:
        return best
    steps = [estimate_step(each) for each in (own, best)]
    if steps[0].fit == "does not fit" or not (mine := steps[0].predicted_s):
        return best
    other = steps[1].predicted_s
    return own if other is None or mine.estimate <= other.estimate else best


def _varied(sweep: Sweep, value: Value) -> Experiment:
    base, needs = sweep.base, sweep.variable.needs
    if needs is not None and needs not in base.sizes:
        has = ", ".join(base.sizes) or "none"
        raise refuse(
            f"workload {base.workload}",
            f"has no dim {needs!r} here",
            f"vary something else, it has {has}",
        )
    parallel = (name for name in base.strategies if name != "single")
    strategies = [next(parallel, base.strategies[0])]
    changes = sweep.variable.vary(base, value, sweep.scaling)
    if sweep.variable.scales and sweep.scaling == "strong" and base.plan:
        _check_total(base.plan, changes["mesh"])
    if base.plan and base.plan.microbatches:
        batch, mesh = changes.get("dims", base.sizes)["batch"], changes.get("mesh", base.mesh)
        fewer = fewer_microbatches(base.plan.microbatches, batch, mesh)
        changes["options"] = changes.get("options", dict(base.options)) | {"microbatches": fewer}
    return base.vary(strategies=strategies, **changes)


def _check_total(plan: Plan, mesh: Mesh) -> None:
    among = [(axis, size) for axis, size in mesh if axis in DATA_AXES]
    if plan.batch % math.prod(size for _, size in among):
        raise refuse(
            f"{numbered(plan.batch, 'sequence')} a step",
            f"do not divide over {' x '.join(axis for axis, _ in among)} of the mesh, resized",
            "take the best mesh of each number of chips",
        )


def compile_seconds(point: SweepPoint, like: Sequence[float] = ()) -> float:
    """A rough guess of how long a point's compile takes on one core; for the user. `like`: seconds
    that other points of its sweep took.
    """
    if point.experiment is None:
        return 0.0
    if like:
        return median(like)
    if point.experiment.plan is None:
        return _SERVED_S if point.experiment.served else _SMALL_S
    return _COMPILE_S.get(get_topology(point.experiment.target).chip.generation, _DECODER_S)
