"""The candidates of an exported program: meshes of its axes, and specs for groups of its arguments."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from spmd_core.base import by_key, mesh_text
from spmd_core.experiment import Experiment, spec_code
from spmd_core.facts import Estimate, StoredFact
from spmd_core.fields import Axes, Mesh, Spec, axes_json, axes_of
from spmd_core.machine import get_topology, parse_target
from spmd_core.roofline import Calibration, Duration, TimeModel, data_sheet, time_model
from spmd_core.search.array_question import ArrayQuestion
from spmd_core.search.candidate import Candidate, Reason, Rule, too_large
from spmd_core.search.spaces.array_space import meshes
from spmd_core.search.standards import AS_EXPORTED
from spmd_core.workloads import FLOATS, VALUE, Held, Program, as_regex, item_bytes, moving, programs

# How far the estimate may be off, either way: a guess, since it only orders
_LOW, _HIGH = 0.25, 4.0
# of a parameter that is sharded over the batch's axes, or of the rows that it multiplies: forward,
# backward, gradient
_GATHERS = 3
STRATEGY = "auto"
Specs = tuple[tuple[str, Spec], ...]


@dataclass(frozen=True)
class ProgramPoint:
    """A program on a mesh with specs by pattern; `kind`: as exported, data, fsdp, tensor,
    mixed; "" for none.
    """

    question: ArrayQuestion
    target: str
    mesh: Mesh
    specs: Specs
    kind: str

    def experiment(self, strategies: tuple[str, ...]) -> Experiment:
        """As it is compiled or run; RequestError where it cannot be."""
        specs = {name: [axes_json(axes) for axes in spec] for name, spec in self.specs}
        given = {"specs": specs} if "specs" in self.question.searched else {}
        return self.question.experiment(self.target, mesh=self.mesh, strategies=strategies, **given)

    @property
    def alike(self) -> tuple[object, ...]:
        """Its own: the program's specs mean another sharding on each mesh."""
        return self.key

    @property
    def key(self) -> tuple[object, ...]:
        """What one compile answers."""
        return self.target, self.mesh, self.specs


class ProgramSpace:
    """The candidates of a question about an exported program, in an order of the question alone."""

    def __init__(
        self,
        question: ArrayQuestion,
        cores: int,
        known: Mapping[str, Calibration] = MappingProxyType({}),
    ):
        self.question, self._cores, self._known = question, cores, known
        self._described = programs.find(str(question.spec["program"]))

    @cached_property
    def size(self) -> int:
        """Candidates, before anything is pruned."""
        return sum(1 for _ in self._points())

    def candidates(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Candidate]:
        """Every candidate in order, pruned or estimated; until `stop`."""
        seen: dict[object, int] = {}
        models = {target: self._times(target) for target in self.question.targets}
        for number, point in enumerate(self._points()):
            if stop():
                return
            yield self._candidate(number, point, models[point.target], seen)

    def _points(self) -> Iterator[ProgramPoint]:
        for target in self.question.targets:
            for mesh in meshes(self.question, target):
                for kind, specs in self._choices(mesh):
                    yield ProgramPoint(self.question, target, mesh, specs, kind)

    def _choices(self, mesh: Mesh) -> Iterator[tuple[str, Specs]]:
        """Its file's specs; where specs are searched also the standard ones, and each group."""
        given = dict(self.question.spec.get("specs") or {})
        own = self._described.mesh
        is_resized = bool(own) and dict(own) != dict(mesh)
        kind = "" if given or is_resized else AS_EXPORTED
        yield kind, tuple((name, tuple(map(axes_of, spec))) for name, spec in given.items())
        if "specs" not in self.question.searched:
            return
        axes = tuple(name for name, size in mesh if size > 1)
        for kind, rows, weights in _STANDARDS:
            if kind != "mixed" or len(axes) > 1:
                yield kind, self._standard(mesh, rows(axes), weights(axes))
        program = Program(self._described, mesh, (), self._dims)
        for group, leaves in self._described.groups.items():
            if leaves[0].path in self._parameters:
                for spec in _specs(program.shape(leaves[0]), mesh):
                    yield "", tuple((each, spec) for each in self._described.with_state(group))

    def _standard(self, mesh: Mesh, rows: Axes, weights: tuple[Axes, ...]) -> Specs:
        """Specs of all groups: the batch's first dim over `rows`, parameters over `weights`: the
        largest dim that divides over the first of these, the next over the second.
        """
        program = Program(self._described, mesh, (), self._dims)
        sizes, specs = dict(mesh), dict[str, Spec]()
        for group, leaves in self._described.groups.items():
            shape = program.shape(leaves[0])
            is_state = leaves[0].path in self._state
            specs[group] = (
                _largest(shape, weights, sizes)
                if is_state
                else _largest(shape[:1], (rows,), sizes) + ((),) * (len(shape) - 1)
            )
        return tuple((group, spec) for group, spec in specs.items())

    @cached_property
    def _state(self) -> frozenset[str]:
        held = (*self._described.state, *self._described.weights)
        return frozenset(leaf.path for leaf in held)

    @cached_property
    def _over_as_exported(self) -> frozenset[str]:
        own = self._described
        return (
            self._over(Program(own, own.mesh, (), self._dims).arguments())
            if own.mesh
            else frozenset()
        )

    def _over(self, held: Iterable[Held]) -> frozenset[str]:
        """Returns the mesh axes that shard the batch."""
        batch = [each for each in held if each.leaf.path not in self._state]
        return frozenset(axis for each in batch for axes in each.spec or () for axis in axes)

    @cached_property
    def _parameters(self) -> frozenset[str]:
        return frozenset(leaf.path for leaf in self._described.weights)

    @property
    def _dims(self) -> dict[str, int]:
        return self.question.sample.sizes

    def _times(self, target: str) -> TimeModel:
        sample = self.question.sample_on(target)
        model = time_model(sample, self._known.get(target), self._cores)
        return model.for_order(sample, self._cores)

    def _candidate(
        self, number: int, point: ProgramPoint, model: TimeModel, seen: dict[object, int]
    ) -> Candidate:
        held = Program(self._described, point.mesh, point.specs, self._dims).arguments()
        problem = _ruled_out(held, point, self.question.memory_bytes)
        specs = tuple(moving(each.spec or (), point.mesh) for each in held)
        same = seen.setdefault((point.target, point.mesh, specs), number)
        changed = point.specs[:1]  # the state of a group goes with it
        words = _standard_words(point.kind, point.mesh) or " ".join(
            f"{name} {spec_code(spec)}" for name, spec in changed
        )
        name = f"{mesh_text(point.mesh, ',')} · {words or AS_EXPORTED}"
        if problem is None and same != number:
            problem = (
                "equal to another by renaming",
                StoredFact(kind="named twice", values={"number": same}),
            )
        chips = math.prod(size for _, size in point.mesh)
        each = sum(leaf.bytes_per_device or 0 for leaf in held)
        if problem is not None:
            reason, detail = problem
            equal = same if same != number else None
            return Candidate(
                number, name, point.target, chips, "pruned", reason, detail, STRATEGY,
                memory_bytes=each, equal=equal, point=point,
            )  # fmt: skip
        parts = {
            "matmul": _seconds(model.matmul(self._flops_per_device(held, point.mesh))),
            "memory": _seconds(model.memory(each)),
            "communication": self._moved(held, model, point.mesh),
        }
        seconds = sum(parts.values())
        return Candidate(
            number, name, point.target, chips, "estimated", strategy=STRATEGY,
            predicted=Estimate(low=_LOW * seconds, estimate=seconds, high=_HIGH * seconds),
            memory_bytes=each, parts=tuple(parts.items()), point=point,
            bound_s=_bound_s(point.target, each), moved=len(self._over(held) ^ self._over_as_exported),
        )  # fmt: skip

    def _flops_per_device(self, held: tuple[Held, ...], mesh: Mesh) -> float:
        """FLOPs of its products, over the axes that any argument names: others repeat the work."""
        used = {axis for each in held for axes in each.spec or () for axis in axes}
        flops = self._described.flops_of(self._dims) or 0
        return flops / math.prod(size for axis, size in mesh if axis in used)

    def _moved(self, held: tuple[Held, ...], model: TimeModel, mesh: Mesh) -> float:
        """Seconds of gathered parameters, or of the rows that they multiply where these are less,
        and of added gradients, and of the partial sums that a parameter makes which is sharded over
        other axes than the batch.
        """
        batch = [each for each in held if each.leaf.path not in self._state]
        rows = tuple({axis: None for each in batch for axes in each.spec or () for axis in axes})
        count = max(map(_rows, batch), default=0.0)
        sizes, total = dict(mesh), 0.0
        for each in held:
            if each.leaf.path not in self._parameters or not each.bytes_per_device:
                continue
            own = {axis for axes in each.spec or () for axis in axes}
            shared = tuple(axis for axis in rows if axis in own)
            others = tuple(axis for axis in rows if axis not in own)
            inner = tuple(own - set(rows))
            values = count * min(each.shape, default=1) * item_bytes(each.leaf.dtype)
            if shared:
                parts = math.prod(sizes[axis] for axis in shared)
                least = min(each.bytes_per_device, values if len(each.shape) > 1 else math.inf)
                total += _GATHERS * _seconds(
                    model.collective("all-gather", mesh, shared, parts * least)
                )
            if others:
                total += _seconds(
                    model.collective("all-reduce", mesh, others, each.bytes_per_device)
                )
            if inner:
                total += 2 * _seconds(model.collective("all-reduce", mesh, inner, values))
        return total


def with_constraint(base: Candidate, number: int, source: str, spec: Spec) -> Candidate:
    """Returns a candidate with a constraint on the value of a line, `file:line`, not looked at yet."""
    point = base.point
    assert isinstance(point, ProgramPoint)
    return replace(
        base,
        number=number,
        name=f"{base.name} · {source} {spec_code(spec)}",
        stage="estimated",
        point=replace(point, specs=(*point.specs, (f"{VALUE}{source}", spec)), kind=""),
        constrained=(base.number, source, spec),
        partitioned=False,
        run=None,
        study=None,
        measured_s=None,
        interval_s=None,
    )


def rules_text(experiment: Experiment) -> str:
    """Mesh and specs of a program as partition rules, to paste: regular expression, PartitionSpec;
    below them its constraints.
    """
    rows = [
        f"    ({f'^{as_regex(pattern)}$'!r}, {spec_code(spec)}),"
        for pattern, spec in experiment.specs
        if not pattern.startswith(VALUE)
    ]
    values = [
        f"# {pattern.removeprefix(VALUE)}: about value = "
        f"jax.lax.with_sharding_constraint(value, {spec_code(spec)})"
        for pattern, spec in experiment.specs
        if pattern.startswith(VALUE)
    ]
    rest = "rules = (" if rows else "# specs as exported"
    mesh = f"# mesh: {mesh_text(experiment.mesh)}"
    return "\n".join([mesh, rest, *rows, *[")"] * bool(rows), *values])


_STANDARDS: tuple[tuple[str, Callable[[Axes], Axes], Callable[[Axes], tuple[Axes, ...]]], ...] = (
    ("data", lambda axes: axes, lambda axes: ()),
    ("fsdp", lambda axes: axes, lambda axes: (axes,)),
    ("tensor", lambda axes: (), lambda axes: (axes,)),
    ("mixed", lambda axes: axes[:1], lambda axes: (axes[:1], axes[1:])),
)


def _standard_words(kind: str, mesh: Mesh) -> str:
    """Returns what standard specs shard; "" of others.

    >>> _standard_words("fsdp", (("data", 4), ("model", 2)))
    'batch and weights over data and model'
    """
    for name, rows, weights in _STANDARDS:
        if name == kind:
            axes = tuple(axis for axis, size in mesh if size > 1)
            sharded = {"batch": rows(axes), "weights": tuple(a for of in weights(axes) for a in of)}
            alike = by_key((over, what) for what, over in sharded.items() if over)
            named = (
                f"{' and '.join(whats)} over {' and '.join(over)}" for over, whats in alike.items()
            )
            return ", ".join(named) or kind
    return kind


def _largest(shape: tuple[int, ...], weights: tuple[Axes, ...], sizes: Mapping[str, int]) -> Spec:
    """The largest dim that divides over the first axes, the largest of the others over the next."""
    spec: list[Axes] = [()] * len(shape)
    left = sorted(range(len(shape)), key=lambda dim: -shape[dim])
    for axes in weights:
        parts = math.prod(sizes[axis] for axis in axes)
        dim = next((dim for dim in left if parts > 1 and shape[dim] % parts == 0), None)
        if dim is not None:
            spec[dim] = axes
            left.remove(dim)
    return tuple(spec)


def _specs(shape: tuple[int, ...], mesh: Mesh) -> Iterator[Spec]:
    """Replicated, one dim over one axis, and two dims over two axes, where they divide."""
    rank, used = len(shape), [(name, size) for name, size in mesh if size > 1]
    yield ((),) * rank
    one = [(dim, name) for dim in range(rank) for name, size in used if shape[dim] % size == 0]
    for dim, name in one:
        yield tuple((name,) if at == dim else () for at in range(rank))
    for dim, name in one:
        for other, second in one:
            if dim < other and name != second:
                chosen = {dim: (name,), other: (second,)}
                yield tuple(chosen.get(at, ()) for at in range(rank))


def _ruled_out(
    held: tuple[Held, ...], point: ProgramPoint, most: int | None
) -> tuple[Reason, Rule] | None:
    sizes, total = dict(point.mesh), 0
    for each in held:
        total += each.bytes_per_device or 0
        for dim, (size, axes) in enumerate(zip(each.shape, each.spec or (), strict=True)):
            if size % math.prod(sizes.get(axis, 1) for axis in axes):
                over = " and ".join(f"{axis}={sizes[axis]}" for axis in axes)
                values = {"what": f"dim {dim} of {each.leaf.path}, {size},", "over": over}
                return "does not divide", StoredFact(kind="does not divide", values=values)
    place = parse_target(point.target)
    room = get_topology(place).chip.device_hbm_bytes if place.is_absent else None
    limit = min((each for each in (room, most) if each is not None), default=None)
    if limit is not None and total > limit:
        return "does not fit", too_large(total, limit, room, "as arguments")
    return None


def _bound_s(target: str, nbytes: int) -> float | None:
    """What reading its arguments once takes at least, on a topology."""
    place = parse_target(target)
    if not place.is_absent:
        return None
    return nbytes / data_sheet(get_topology(place).chip)["hbm of a device"]


def _rows(held: Held) -> float:
    """Rows of a batch's array on a device: its elements; where it has features, those but for them."""
    has_features = len(held.shape) > 1 and held.leaf.dtype in FLOATS
    shape = held.shape[:-1] if has_features else held.shape
    return math.prod(shape) * (held.bytes_per_device or 0) / max(1, held.bytes)


def _seconds(duration: object) -> float:
    return duration.seconds if isinstance(duration, Duration) else 0.0
