"""Changes to a computation of arrays that may remove a collective: of the sharding of a dim, an
operand or a result, of memory, of the strategy.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from spmd_core.base import Inexpressible, RequestError
from spmd_core.experiment import Experiment
from spmd_core.facts import AxisOrigin, Change, Collective, LostBatch, LostValue, Step
from spmd_core.fields import Axes, Spec, axes_json
from spmd_core.roofline import TimeModel, closed_form_s, formula_of, least_s, time_model
from spmd_core.script import program_text
from spmd_core.trials.remedies.candidate import MOST, MOST_MORE, MOST_VALUES, SUMS, RemedyCandidate
from spmd_core.workloads import STRATEGIES, VALUE, Program

BEST_PLACES = 2  # dims that are tried in place of one before other changes are
_BACKWARD = "transpose("  # in the names of a backward pass, which quotes lines of the forward one
# Changes, and the fields of the JSON form that they replace
Move = tuple[tuple[Change, ...], dict[str, object]]


def candidates(
    experiment: Experiment,
    strategy: str,
    collective: Collective,
    times: TimeModel | None = None,
    cores: int = 1,
    below_s: float = math.inf,
    lost: LostBatch | None = None,
    steps: Sequence[Step] = (),
) -> list[RemedyCandidate]:
    """Changes to try for one collective of a strategy: the MOST that are nearest to what causes it,
    then MOST_MORE others whose lower bound is below `below_s`, both the cheapest first by a closed
    form; without those that the rules refuse or the strategy cannot express. `times`: what is known
    of the target; `lost`: where an exported program loses its batch, which is tried before all;
    `steps` of an exported program, whose value at the collective's line is constrained.
    """
    base = experiment.vary(strategies=[strategy])
    formula = formula_of(base, times or time_model(base), cores)
    places = lost.places if lost else ()
    batch = [*((each,) for each in places), *([places] if len(places) > 1 else [])]
    origins = list(_origins(base, collective))
    moves = (
        *_constrained(base, batch),
        *(_with_specs(base, each) for each in origins),
        *_moves(base, strategy, frozenset(collective.axes)),
        *_constrained(base, [(each,) for each in values_of(base, collective, steps)]),
    )
    kept = [
        RemedyCandidate(varied, name, changes, closed_form_s(formula, varied, name))
        for varied, name, changes in _expressible(base, moves)
    ]
    causes = {f"{VALUE}{each.source}" for each in places} | {next(iter(each)) for each in origins}
    first = _first(experiment, collective, kept, causes)
    rest = [
        each
        for each in sorted(kept, key=lambda each: each.seconds)
        if each not in first and least_s(formula, each.experiment, each.strategy) < below_s
    ]
    return first + rest[:MOST_MORE]


def _first(
    experiment: Experiment,
    collective: Collective,
    kept: list[RemedyCandidate],
    causes: Collection[str],
) -> list[RemedyCandidate]:
    """The constraints that keep the batch and other specs of the origins, the nearest changes, then
    constraints of other values.
    """
    values = [each for each in kept if each.changes[0].field == "specs"]
    constrained = [each for each in values if each.changes[0].name in causes]
    near = [each for each in _nearest(experiment, collective, kept) if each not in values]
    first = [*constrained, *sorted(near, key=lambda each: each.seconds)][:MOST]
    return first + [each for each in values if each not in constrained][:MOST_VALUES]


def _expressible(
    base: Experiment, moves: Iterable[Move]
) -> Iterator[tuple[Experiment, str, tuple[Change, ...]]]:
    """Each changed experiment once, with its strategy, where the rules allow it."""
    seen = {base.id}
    for changes, fields in moves:
        try:
            varied = base.vary(**fields)
            (name,) = varied.strategies
            program_text(varied, name)
        except (RequestError, Inexpressible):
            continue
        if varied.id not in seen:
            seen.add(varied.id)
            yield varied, name, changes


def _constrained(base: Experiment, groups: Iterable[Sequence[LostValue]]) -> Iterator[Move]:
    given = {name: _spec(spec) for name, spec in base.specs}
    for group in groups:
        changes = tuple(
            Change(field="specs", name=f"{VALUE}{each.source}", after=_spec(each.spec))
            for each in group
        )
        yield changes, {"specs": given | {each.name: each.after for each in changes}}


def _origins(base: Experiment, collective: Collective) -> Iterator[dict[str, Spec]]:
    """What put a collective's axes where they are, with its other specs: a pattern of arguments with
    these axes on another of its dims, the largest first, then without one of them, then without them,
    and its optimizer state likewise; or the line of a constraint without them.
    """
    program = base.exported
    for origin in (*collective.origin, *collective.against) if program else ():
        axes = tuple(axis for dim in origin.spec for axis in dim if axis in collective.axes)
        if axes and origin.kind == "constraint" and origin.source:
            for fewer in _each_and_all(axes):
                yield {f"{VALUE}{origin.source}": _moved(origin.spec, fewer, None)}
        elif axes and program and origin.kind == "argument":
            yield from _with_state(program, origin, axes)


def _with_state(program: Program, origin: AxisOrigin, axes: Axes) -> Iterator[dict[str, Spec]]:
    held = {each.leaf.path: each for each in program.arguments()}
    group = program.described.patterns.get(origin.name, origin.name)
    groups = program.described.groups
    own = {
        each: (held[groups[each][0].path].spec if each in groups else None) or origin.spec
        for each in program.described.with_state(group)
    }
    shape = held[origin.name].shape if origin.name in held else ()
    parts = math.prod(dict(program.mesh)[axis] for axis in axes)
    sizes = sorted(enumerate(shape), key=lambda each: -each[1])
    free = [at for at, size in sizes if not origin.spec[at] and size % parts == 0]
    for place in free:
        yield {each: _moved(spec, axes, place) for each, spec in own.items()}
    for fewer in _each_and_all(axes):
        yield {each: _moved(spec, fewer, None) for each, spec in own.items()}


def _each_and_all(axes: Axes) -> Iterator[Axes]:
    """Yields one of several axes at a time, then all: what gives up no more than it has to is first."""
    yield from ((axis,) for axis in axes if len(axes) > 1)
    yield axes


def _moved(spec: Spec, axes: Axes, place: int | None) -> Spec:
    """Returns a spec without axes, or with them on one of its dims alone."""
    left = [tuple(axis for axis in dim if axis not in axes) for dim in spec]
    if place is not None:
        left[place] = (*left[place], *axes)
    return tuple(left)


def _with_specs(base: Experiment, specs: Mapping[str, Spec]) -> Move:
    given = {each: _spec(spec) for each, spec in base.specs}
    after = {name: _spec(spec) for name, spec in specs.items()}
    changes = tuple(Change(field="specs", name=name, after=to) for name, to in after.items())
    return changes, {"specs": after | {k: v for k, v in given.items() if k not in after}}


def values_of(
    base: Experiment, collective: Collective, steps: Sequence[Step]
) -> Iterator[LostValue]:
    """The value of a collective's line with other specs: replicated over its axes, or any one dim
    sharded over them. Of several arrays of a rank the last, as a constraint means it.
    """
    sizes, axes = dict(base.mesh), tuple(name for name, _ in base.mesh if name in collective.axes)
    parts = math.prod(sizes[axis] for axis in axes)
    of_line = [
        each
        for each in steps
        if each.source and each.source == collective.source and _BACKWARD not in each.op
    ]
    for value in {
        len(each.shape): each for each in of_line if each.spec and not each.manual
    }.values():
        spec = value.spec or ()
        left = tuple(tuple(axis for axis in entry if axis not in axes) for entry in spec)
        for other in (left, *_sharded(left, axes)):
            held = [math.prod(sizes[axis] for axis in entry) for entry in other]
            divides = all(size % by == 0 for size, by in zip(value.shape, held, strict=True))
            if other != spec and parts > 1 and divides:
                yield LostValue(source=value.source, spec=other)


def _nearest(
    experiment: Experiment, collective: Collective, kept: list[RemedyCandidate]
) -> list[RemedyCandidate]:
    """The MOST that are nearest to the cause; of equally near ones the cheapest, and of dims in
    whose place others may be sharded the two best of each before the rest.
    """
    cheapest = sorted(kept, key=lambda each: each.seconds)  # stable: the plainest change first
    places: dict[tuple[str, ...], int] = {}
    ranked = []
    for each in cheapest:
        far = _distance(experiment, collective, each.changes)
        if each.changes[-1].shards_more:  # in the others' place
            source = tuple(change.name for change in each.changes[:-1])
            places[source] = places.get(source, 0) + 1
            far += places[source] > BEST_PLACES
        ranked.append((far, len(ranked), each))
    return [each for *_, each in sorted(ranked)[:MOST]]


def _distance(experiment: Experiment, collective: Collective, changes: tuple[Change, ...]) -> int:
    """How far a change is from the cause: 0 where it is the dim that is summed over, or the array
    whose shards move.
    """
    first, is_sum = changes[0], collective.kind in SUMS
    if first.field == "sharding":
        summed = experiment.summed_dims(collective.axes)
        return 0 if not is_sum or any(each.name in summed for each in changes) else 1
    if first.field == "overrides":
        is_result = first.name in {each.name for each in experiment.what.results}
        if f"`{first.name}`" in (collective.reason or ""):
            return 0
        return 1 if is_result or not is_sum else 2
    return 1 if first.field == "strategies" else 2


def _moves(base: Experiment, strategy: str, axes: frozenset[str]) -> Iterator[Move]:
    if axes:
        yield from _of_dims(base, axes)
        yield from _of_arrays(base, axes)
    for name in base.what.strategies:
        kind = STRATEGIES[name]
        if kind.is_sharding and not kind.is_single_device and name != strategy:
            change = Change(field="strategies", before=strategy, after=name)
            yield (change,), {"strategies": [name]}
    kinds = dict(base.memory)
    for name, kind in kinds.items():
        left = {other: at for other, at in kinds.items() if other != name}
        change = Change(field="memory", name=name, before=kind, after="device")
        yield (change,), {"memory": left}


def _of_dims(base: Experiment, axes: frozenset[str]) -> Iterator[Move]:
    """A dim that is sharded over these axes left replicated, or another sharded in its place."""
    table = dict(base.sharding)
    used = [dim for dim, over in table.items() if axes & set(over)]
    moved = tuple(axis for axis, _ in base.mesh if axis in axes)
    # each alone; and all together, which is what data parallelism in place of them is
    for dims in [*((dim,) for dim in used), *([tuple(used)] if len(used) > 1 else [])]:
        left = {dim: tuple(axis for axis in table[dim] if axis not in axes) for dim in dims}
        changes = tuple(_sharding(dim, table[dim], left[dim]) for dim in dims)
        yield changes, {"sharding": _table(table | left)}
        for other in base.sizes:
            if other not in dims and not axes & set(table.get(other, ())):
                full = table | left | {other: (*table.get(other, ()), *moved)}
                more = *changes, _sharding(other, table.get(other, ()), full[other])
                yield more, {"sharding": _table(full)}


def _sharding(dim: str, before: Axes, after: Axes) -> Change:
    return Change(field="sharding", name=dim, before=axes_json(before), after=axes_json(after))


def _of_arrays(base: Experiment, axes: frozenset[str]) -> Iterator[Move]:
    """One operand or result left replicated over these axes, sharded over them along any one dim,
    or as the table has it.
    """
    given = dict(base.overrides)
    for array in base.what.arrays:
        spec = base.spec(array.name)
        over = tuple(axis for axis, _ in base.mesh if axis in axes)
        left = tuple(tuple(axis for axis in entry if axis not in axes) for entry in spec)
        tried = [each for each in (left, *_sharded(left, over)) if each != spec]
        if array.name in given:
            tried.append(base.table_spec(array.name))
        for after in tried:
            change = Change(
                field="overrides", name=array.name, before=_spec(spec), after=_spec(after)
            )
            own = {name: _spec(each) for name, each in given.items()} | {array.name: _spec(after)}
            if after == base.table_spec(array.name):
                del own[array.name]
            yield (change,), {"overrides": own}


def _sharded(spec: Spec, axes: Axes) -> Iterator[Spec]:
    """A spec with one dim more sharded over these axes, the first dims first."""
    for place in range(len(spec)):
        yield tuple(
            (*entry, *axes) if number == place else entry for number, entry in enumerate(spec)
        )


def _spec(spec: Spec) -> list[Any]:
    return [axes_json(entry) for entry in spec]


def _table(table: Mapping[str, Axes]) -> dict[str, object]:
    return {dim: axes_json(axes) for dim, axes in table.items() if axes}
