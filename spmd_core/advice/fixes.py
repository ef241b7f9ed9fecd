"""The specs that mend what is wrong with a program, and what a device holds with them."""

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice, takewhile
from math import prod
from typing import TypeVar

from spmd_core.experiment import Experiment, spec_code
from spmd_core.fields import Axes, Spec, padded
from spmd_core.results import StepFinding
from spmd_core.workloads import (
    VALUE,
    Finding,
    Held,
    Program,
    batch_rows,
    device_bytes,
    findings,
    has_all,
)

COST_TIME = (  # kinds of findings that do
    *("lost_batch", "replicated_batch", "repeated_work", "unused_axis"),
    *("crossed_weight", "wide_products", "dropped_batch", "replicated_carry"),
)
_BACK = {
    "missing_donation": 1.0,
    "float32_leak": 0.5,
}  # the share of its bytes that a fix gives back
MOST_EXPECTED = 12  # lines of a test
MOST_OTHERS = 7  # specs of an array that are compared after its fix is refuted
_TEST = """import pytest
from jax.sharding import PartitionSpec as P

from train import arguments, step  # yours


@pytest.mark.spmd(devices={devices})
def test_the_step_keeps_its_shardings(spmd):
    expected = spmd.expect(step)(*arguments())"""
T = TypeVar("T")
Specs = Mapping[str, Spec]  # by pattern of arguments, or by @file:line of a value
_TABLES = ("embed", "wte", "wpe", "token", "vocab")  # what names of tables that are looked up have
_BY_SPECS = ("replicated", "rule")  # the kinds of findings that specs mend


def mending(group: Sequence[Finding], program: Program, refuted: Collection[Specs] = ()) -> Specs:
    """Returns the specs that mend findings of one kind: of an odd array those of its layers, of a
    replicated one these too, else those of a weight beside it, else the dim that the most devices
    divide; of an axis that is not used the rows of the batch. None of a pattern that matches no
    argument, nor of an array that no axis divides.

    Args:
      group: the findings.
      program: their program.
      refuted: specs that are known to be worse; of an array the others of `other_specs` follow.
    """
    first = group[0]
    if first.kind == "unused_axis":
        return unrefuted(_rows_over(first.others, (first.path,), program), refuted)
    if first.kind not in _BY_SPECS or first.path not in program.described.patterns:
        return {}
    own = _mending_arrays(group, program)
    if own not in refuted:
        return own
    if first.kind != "replicated" or first.meant:  # what other layers have mends it alone
        return {}
    return next((each for each in other_specs(own, program) if each not in refuted), {})


def unrefuted(specs: Specs, refuted: Collection[Specs]) -> Specs:
    """Returns specs, none where they are known to be worse."""
    return {} if specs in refuted else specs


def other_specs(specs: Specs, program: Program) -> Iterator[Specs]:
    """Yields other specs for the arrays of a fix: one of their dims over axes that divide it, those
    first that shard weights, then those of the most devices; `MOST_OTHERS` at most. Arrays of
    other shapes than the first keep what the fix gives them; the optimizer state goes along.
    """
    first = next(iter(specs))
    patterns = dict.fromkeys(at for each in specs for at in (each, *_state_of(each, program)))
    shapes = {pattern: _shape(pattern, program) for pattern in patterns}
    alike = [pattern for pattern in patterns if shapes[pattern] == shapes[first]]
    listed = sorted(_one_dim_over(shapes[first], program), key=lambda spec: _rank(spec, program))
    others = (dict(specs) | dict.fromkeys(alike, spec) for spec in listed if spec != specs[first])
    yield from islice(others, MOST_OTHERS)


def _state_of(pattern: str, program: Program) -> list[str]:
    """Returns the groups of the optimizer state of a parameter, of its shape; [] of what is none."""
    first, *state = program.described.with_state(pattern)
    return state if first == pattern else []


def with_state(specs: Specs, program: Program) -> Specs:
    """Returns specs of arguments for all layers' and, of parameters, for their optimizer state."""
    named = {program.described.patterns.get(path, path): spec for path, spec in specs.items()}
    return {at: spec for path, spec in named.items() for at in (path, *_state_of(path, program))}


def _shape(pattern: str, program: Program) -> tuple[int, ...]:
    return program.shape(program.described.groups[pattern][0])


def _one_dim_over(shape: tuple[int, ...], program: Program) -> Iterator[Spec]:
    """Yields the specs of a dim over each set of axes that divides it."""
    sizes = {axis: size for axis, size in program.mesh if size > 1}
    sets = [axes for count in range(1, len(sizes) + 1) for axes in combinations(sizes, count)]
    for at, size in enumerate(shape):
        for axes in sets:
            if size % prod(sizes[axis] for axis in axes) == 0:
                yield tuple(axes if dim == at else () for dim in range(len(shape)))


def _rank(spec: Spec, program: Program) -> tuple[bool, int]:
    weights = program.described.weights
    used = {axis for leaf in weights for axes in program.spec(leaf) for axis in axes}
    return not used.issuperset(axis for axes in spec for axis in axes), -_parts(spec, program)


def _mending_arrays(group: Sequence[Finding], program: Program) -> Specs:
    first, patterns = group[0], program.described.patterns
    of = {each.leaf.path: each for each in program.arguments()}
    specs: dict[str, Spec] = {}
    for each in group:
        own = each.meant or _as_beside(of[each.path], program)
        with_it = each.others if each.kind == "replicated" else ()
        for path in (each.path, *with_it):
            is_alike = of[path].shape == of[each.path].shape
            specs[patterns[path]] = own if is_alike else over_most(of[path].shape, program)
    for pattern, spec in [*specs.items()]:
        for state in _state_of(pattern, program):
            if not has_all(of[program.described.groups[state][0].path].spec or (), spec):
                specs.setdefault(state, spec)
    is_less = first.meant or held_bytes(program, specs) < held_bytes(program, {})
    return specs if is_less else {}


def _rows_over(paths: Iterable[str], axes: Axes, program: Program) -> Specs:
    """Returns the specs of arrays with their rows over more axes."""
    specs = {path: program.spec(program.described.leaves[path]) for path in paths}
    return {path: ((*rows, *axes), *others) for path, (rows, *others) in specs.items()}


def batch_over(axes: Axes, program: Program) -> Specs:
    """Returns the specs that shard the rows of the batch over axes too. None where an argument of it
    has an axis of them, and where weights have them while other axes shard the batch.
    """
    used, by_weights = (
        {axis for leaf in some for dim in program.spec(leaf) for axis in dim}
        for some in (
            [program.described.leaves[path] for path in program.described.batch],
            program.described.weights,
        )
    )
    if used & {*axes} or (used and by_weights & {*axes}):
        return {}
    return _rows_over(batch_rows(program, axes), axes, program)


def result_spec(path: str, program: Program) -> Spec:
    """Returns the spec to try for a result that is replicated: its rows as those of the batch, where
    it has as many, else that of `over_most`.
    """
    of = next(each for each in program.outputs() if each.leaf.path == path)
    batch = [each for each in program.arguments() if each.leaf.path in program.described.batch]
    rows = [each.spec[0] for each in batch if each.spec and each.shape[:1] == of.shape[:1]]
    if axes := next(filter(None, rows), ()):
        return padded((axes,), len(of.shape))
    return over_most(of.shape, program)


def held_bytes(program: Program, specs: Specs, donated: Collection[str] | None = None) -> int:
    """Returns the bytes of arguments in a device's memory with these specs in front of others; with
    `donated` also those of the results beside arguments that are not donated, nor named there.
    """
    tried = program.with_specs(tuple(in_front(specs, dict(program.specs)).items()))
    results = () if donated is None else results_beside(tried, donated)
    return device_bytes([*tried.arguments(), *results])[0]


def results_beside(program: Program, donated: Collection[str] = ()) -> Iterator[Held]:
    """Yields the results that a device holds beside the state in whose place they are, by the paths of
    that: as the argument, where nothing gives the result another sharding.
    """
    arguments = {each.leaf.path: each for each in program.arguments()}
    twice = held_twice(program, donated)
    for each in program.kept_outputs():
        path = each.leaf.replaces or ""
        if path in twice:
            yield arguments[path]
        elif path in arguments and each.leaf.is_update and each.bytes_per_device is not None:
            of = arguments[path]
            is_reused = of.leaf.is_donated or path.partition("/")[0] in donated
            is_moved = of.spec is not None and of.divided != each.divided
            if not is_reused or is_moved:  # a buffer keeps its sharding
                yield replace(each, leaf=each.leaf.model_copy(update={"path": path}))


def copied_bytes(program: Program, specs: Specs) -> int:
    """Returns the bytes on a device of those arguments with specs that are not donated: the results
    in their place.
    """
    twice, patterns = held_twice(program), program.described.patterns
    copied = [e for e in program.arguments() if patterns.get(e.leaf.path) in specs]
    return device_bytes([each for each in copied if each.leaf.path in twice])[0]


def held_twice(program: Program, donated: Collection[str] = ()) -> frozenset[str]:
    """Returns the paths of state that is held twice, since its argument is not donated."""
    return frozenset(
        path
        for each in findings(program)
        if each.kind == "missing_donation" and each.path not in donated
        for path in each.others
    )


def saved_bytes(each: StepFinding, program: Program) -> int:
    """Returns the bytes that the fix of a finding saves on a device; 0 where that is not known."""
    if each.specs:
        return held_bytes(program, {}) - held_bytes(program, dict(each.specs))
    return int(each.bytes_per_device * _BACK.get(each.kind, 0.0))


def by_cost(
    listed: Iterable[StepFinding], program: Program, fits: bool = True
) -> list[StepFinding]:
    """Returns findings by what their fixes save, then by their bytes, the largest first. Before them
    are those that cost time, unless the program does not fit; behind all are notes.
    """
    first = COST_TIME if fits else ()
    return sorted(
        listed,
        key=lambda e: (
            e.is_note,
            e.kind not in first,
            -saved_bytes(e, program),
            -e.bytes_per_device,
        ),
    )


def in_front(specs: Mapping[str, T], old: Mapping[str, T]) -> dict[str, T]:
    """Returns old specs with others in front: the first that matches an array counts."""
    return dict(specs) | {name: spec for name, spec in old.items() if name not in specs}


def what_if_words(specs: Specs) -> str:
    """Returns the words of `what-if` that give a program specs.

    >>> what_if_words({"params/*/up": ((), ("fsdp", "tensor"))})
    "--spec 'params/*/up=None,fsdp+tensor'"
    >>> what_if_words({"@model.py:88": (("data",), ())})
    '--constrain model.py:88=data,None'
    """
    words = []
    for name, spec in specs.items():
        axes = ",".join("+".join(dim) or "None" for dim in spec)
        flag = "--constrain" if name.startswith(VALUE) else "--spec"
        words += [flag, f"{name.removeprefix(VALUE)}={axes}"]
    return shlex.join(words)


def gate_words(experiment: Experiment, file: str, accepted: Iterable[StepFinding] = ()) -> str:
    """Returns the command that ends with 1 while a program has a finding, compiled where its target
    is absent.

    Args:
      experiment: the program on its target.
      file: the name of its file.
      accepted: findings that it may have.
    """
    words = ["spmd-lab", "program", file, "--fail-on", "any"]
    for each in accepted:
        words += ["--accept", f"{each.kind}:{each.path}"]
    words += ["--target", experiment.target] * experiment.place.is_absent
    return shlex.join(words)


def specs_words(experiment: Experiment) -> str:
    """Returns the specs that an experiment changes as code, and the constraints; "" where it has none."""
    program = experiment.exported
    assert program is not None
    specs = [
        f"    {name!r}: {spec_code(spec)},"
        for name, spec in program.specs
        if not name.startswith(VALUE)
    ]
    parts = [f"specs = {{\n{chr(10).join(specs)}\n}}"] if specs else []
    parts += [
        f"# {line}, its last value\nx = jax.lax.with_sharding_constraint(x, {spec_code(spec)})"
        for line, spec in program.constraints
    ]
    used = (
        "import jax\n" * bool(program.constraints) + "from jax.sharding import PartitionSpec as P"
    )
    return "\n\n".join((used, *parts)) if parts else ""


def expected_words(experiment: Experiment) -> str:
    """Returns a test that expects the specs of a program's largest sharded arguments, those in several
    layers by their pattern; "" where none is sharded.
    """
    program = experiment.exported
    assert program is not None
    held = {each.leaf.path: each for each in program.arguments()}
    listed: list[tuple[bool, int, str, Spec]] = []  # odd layers last: each of them is a line
    for pattern, leaves in program.described.groups.items():
        of = [held[leaf.path] for leaf in leaves]
        is_alike = len({each.spec for each in of}) == 1
        shown = [(of[0], pattern)] if is_alike else [(each, each.leaf.path) for each in of]
        listed += [(is_alike, each.bytes, name, each.spec or ()) for each, name in shown]
    sharded = sorted((each for each in listed if any(each[-1])), reverse=True)
    lines = [
        f"    expected.is_sharded({name!r}, {spec_code(spec)})"
        for *_, name, spec in sharded[:MOST_EXPECTED]
    ]
    devices = prod(size for _, size in program.mesh)
    return "\n".join((_TEST.format(devices=devices), *lines)) if lines else ""


def _as_beside(held: Held, program: Program) -> Spec:
    """Returns the spec of the nearest weight of its shape, else the transposed one of a weight with
    two dims swapped; that of `over_most` where it holds fewer bytes, and of a table: a lookup is no
    product, as of a head beside it.
    """
    most = over_most(held.shape, program)
    is_table = any(name in held.leaf.path.lower() for name in _TABLES)
    weights = {leaf.path for leaf in program.described.weights}
    beside = [
        (_shared(each.leaf.path, held.leaf.path), at is None, spec)
        for each in program.arguments()
        if each.leaf.path in weights and each.spec and any(each.spec)
        for at in _swaps(held.shape, each.shape)
        if not (at and is_table)
        if _parts(spec := _swapped(each.spec, at), program) >= _parts(most, program)
    ]
    return max(beside, key=lambda each: each[:2], default=(0, True, most))[2]


def _swaps(shape: tuple[int, ...], other: tuple[int, ...]) -> list[tuple[int, int] | None]:
    """Returns the two dims that are swapped in another shape, [None] of the same shape; [] if neither."""
    if shape == other:
        return [None]
    odd = [at for at, sizes in enumerate(zip(shape, other, strict=False)) if len({*sizes}) > 1]
    if len(shape) != len(other) or len(odd) != 2:
        return []
    one, two = odd
    return [(one, two)] if (shape[one], shape[two]) == (other[two], other[one]) else []


def _swapped(spec: Spec, at: tuple[int, int] | None) -> Spec:
    dims = [*spec]
    if at:
        dims[at[0]], dims[at[1]] = dims[at[1]], dims[at[0]]
    return tuple(dims)


def _shared(path: str, other: str) -> int:
    """Returns how many parts two paths begin with in common."""
    parts = zip(path.split("/"), other.split("/"), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], parts))


def _parts(spec: Spec, program: Program) -> int:
    sizes = dict(program.mesh)
    return prod(sizes[axis] for axes in spec for axis in axes)


def over_most(shape: tuple[int, ...], program: Program) -> Spec:
    """Returns the spec of the dim that the most devices divide, of equals the last: a table's lookup
    along its first dim then communicates nothing. A shard narrower than a TPU's 128 lanes is not
    padded for it: the compiler stores one of 32000 by 64 transposed, f32[32000,64]{0,1:T(8,128)}.
    """
    specs: list[Spec] = [((),) * len(shape)]
    for at, left in enumerate(shape):
        axes = []
        for name, size in program.mesh:
            if size > 1 and left % size == 0:
                axes, left = [*axes, name], left // size
        specs.append(tuple(tuple(axes) if dim == at else () for dim in range(len(shape))))
    return max(reversed(specs), key=lambda spec: _parts(spec, program))
