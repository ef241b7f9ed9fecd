"""What each device holds of a program's arguments and outputs, and which of that is an accident."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Literal

from spmd_core.base import by_key
from spmd_core.fields import Axes, Mesh, Spec, padded
from spmd_core.workloads.exported.description import SYMBOL_SIZE, Described, Leaf
from spmd_core.workloads.exported.patterns import matches
from spmd_core.workloads.exported.sizes import size_of
from spmd_core.workloads.workload import item_bytes

SMALLEST = 2**16  # bytes: below it a replicated or undonated leaf costs nothing that matters
SMALLEST_VECTOR = 2**20  # of a replicated vector, and of a replicated output
ADAPTERS = 0.1  # of all weights: what is trained beside frozen ones is small, and meant replicated
SHARE = 0.01  # of the state's bytes on a device: the same
USED = 0.5  # of the sharded weights' bytes, which an axis shards that divides work
DEVICE = "device"  # the memory kind of HBM
VALUE = "@"  # before `file:line`, in specs: the value of a source line, not an argument
Kind = Literal[
    "unused_axis",
    "replicated",
    "replicated_output",
    "resharded_state",
    "moved_state",
    "missing_donation",
    "float32_leak",
    "rule",
]


@dataclass(frozen=True, slots=True)
class Held:
    """An argument or output on a mesh. `spec`, `bytes_per_device` and `copies` are None where the
    compiler decides, and of an argument that the program does not use: its file has no sharding.
    `is_propagated`: the file leaves it to the compiler, and Shardy's propagation alone, before any
    compile, gives this spec: the compiler's may be another. `divided`: the spec without axes of size
    1, over which a dim is replicated.
    """

    leaf: Leaf
    shape: tuple[int, ...]
    spec: Spec | None
    bytes: int
    bytes_per_device: int | None
    copies: int | None
    is_propagated: bool = False
    divided: Spec | None = None

    @property
    def memory(self) -> str | None:
        """Its memory kind, where the file names another than the device's."""
        return None if self.leaf.memory == DEVICE else self.leaf.memory


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that its author hardly meant; `others` are the paths of what goes with it, and
    `spec` and `meant` the specs that it is about.
    """

    kind: Kind
    path: str
    bytes_per_device: int
    others: tuple[str, ...] = ()
    spec: Spec | None = None
    meant: Spec | None = None


@dataclass(frozen=True)
class Program:
    """A program on a mesh: `mesh` has a size for each of its axes, `specs` are by pattern, the
    first that matches counts, `dims` are the sizes of its symbols, by default `SYMBOL_SIZE` each.
    `followed`: what propagation gives outputs with these specs, by path, where it has answered.
    """

    described: Described
    mesh: Mesh
    specs: tuple[tuple[str, Spec], ...] = ()
    dims: Mapping[str, int] | None = None
    followed: Mapping[str, Spec] | None = None

    def arguments(self) -> tuple[Held, ...]:
        """What each device holds of each argument."""
        return self._arguments

    def outputs(self) -> tuple[Held, ...]:
        """The same of each output."""
        return self._outputs

    # a screen reads each of them some twenty times
    @cached_property
    def _arguments(self) -> tuple[Held, ...]:
        return tuple(
            self._held(leaf, self.spec(leaf) if leaf.is_kept else None)
            for leaf in self.described.arguments
        )

    @cached_property
    def _outputs(self) -> tuple[Held, ...]:
        is_left = self.described.mesh != ()
        return tuple(
            replace(
                self._held(leaf, self.output_spec(leaf)),
                is_propagated=is_left and leaf.spec is None,
            )
            for leaf in self.described.outputs
        )

    @property
    def constraints(self) -> tuple[tuple[str, Spec], ...]:
        """`file:line` of values that are constrained, and the spec of each."""
        return tuple(
            (pattern[1:], spec) for pattern, spec in self.specs if pattern.startswith(VALUE)
        )

    def spec(self, leaf: Leaf) -> Spec:
        """The spec of an argument: the first pattern's that matches it, else its file's, else what
        Shardy gave it when the file was read.
        """
        given = next((spec for pattern, spec in self.specs if matches(pattern, leaf.path)), None)
        return padded(given if given is not None else leaf.known or (), len(leaf.sizes))

    def output_spec(self, leaf: Leaf) -> Spec | None:
        """The spec of an output: what it follows where its file leaves it to the compiler, its
        argument's where its file shards both alike, else its file's, else what Shardy gave it when
        the file was read; None where that is not known.
        """
        if self.followed and leaf.spec is None and leaf.path in self.followed:
            return padded(self.followed[leaf.path], len(leaf.sizes))
        of = self.described.leaves.get(leaf.replaces or "")
        if of is not None and leaf.known == of.known:
            return self.spec(of)
        known = leaf.spec if self.is_changed else leaf.known
        return None if known is None else padded(known, len(leaf.sizes))

    def with_specs(self, specs: tuple[tuple[str, Spec], ...]) -> "Program":
        """Returns the program with other specs: of outputs whose arguments these shard otherwise it is
        not known what they follow.
        """
        changed, leaves = replace(self, specs=specs), self.described.leaves
        of = {leaf.path: leaves.get(leaf.replaces or "") for leaf in self.described.outputs}
        left = {
            path: spec
            for path, spec in (self.followed or {}).items()
            if (leaf := of[path]) is None or self.spec(leaf) == changed.spec(leaf)
        }
        return replace(changed, followed=left)

    def kept_outputs(self) -> tuple[Held, ...]:
        """The outputs, each updated argument that no change names as Shardy gave it when the file was
        read: another's change has not resharded it.
        """
        if not self.is_changed or self.mesh != self.described.mesh:
            return self._outputs
        opened, leaves = replace(self, specs=()), self.described.leaves
        of = [leaves.get(each.leaf.replaces or "") for each in self._outputs]
        return tuple(
            was if leaf and now.spec is None and self.spec(leaf) == opened.spec(leaf) else now
            for now, was, leaf in zip(self._outputs, opened.outputs(), of, strict=True)
        )

    def array_specs(self) -> dict[str, Spec]:
        """Path -> spec of every argument and output; replicated where the compiler decides."""
        outputs = {
            leaf.path: self.output_spec(leaf) or ((),) * len(leaf.sizes)
            for leaf in self.described.outputs
        }
        return outputs | {leaf.path: self.spec(leaf) for leaf in self.described.arguments}

    @cached_property
    def _findings(self) -> tuple[Finding, ...]:
        return _all(self)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The size of each symbol."""
        return dict.fromkeys(self.described.symbols, SYMBOL_SIZE) | dict(self.dims or {})

    @property
    def is_changed(self) -> bool:
        """Whether mesh or specs are others than its file's."""
        return bool(self.specs) or self.mesh != self.described.mesh

    def shape(self, leaf: Leaf) -> tuple[int, ...]:
        """Its sizes as numbers; RequestError where one is none with these dims."""
        return tuple(size_of(size, self.sizes) for size in leaf.sizes)

    def _held(self, leaf: Leaf, spec: Spec | None) -> Held:
        shape, sizes = self.shape(leaf), dict(self.mesh)
        total = math.prod(shape) * item_bytes(leaf.dtype)
        if spec is None:
            return Held(leaf, shape, None, total, None, None)
        parts = math.prod(sizes.get(axis, 1) for axes in spec for axis in axes)
        return Held(
            leaf,
            shape,
            spec,
            total,
            -(-total // parts),
            math.prod(sizes.values()) // parts,
            divided=moving(spec, self.mesh),
        )


def device_bytes(arrays: Iterable[Held]) -> tuple[int, int]:
    """Bytes of arrays per device, in its memory and in its host's."""
    held = [(each.memory is None, each.bytes_per_device or 0) for each in arrays]
    return sum(size for near, size in held if near), sum(size for near, size in held if not near)


def findings(program: Program) -> tuple[Finding, ...]:
    """What its author hardly meant, the most bytes first."""
    return program._findings


def _all(program: Program) -> tuple[Finding, ...]:
    held = {each.leaf.path: each for each in program.arguments()}
    checks: tuple[Callable[[Program, Mapping[str, Held]], Iterator[Finding]], ...] = (
        _unused_axes,
        _replicated,
        _resharded,
        _moved,
        _replicated_outputs,
        _not_donated,
        _float32,
        _other_than_its_group,
        _unmatched,
    )
    listed = [finding for check in checks for finding in check(program, held)]
    return tuple(sorted(_once(listed), key=lambda finding: -finding.bytes_per_device))


def _once(listed: Sequence[Finding]) -> Iterator[Finding]:
    """Yields findings, of replicated arrays once, with the spec of those layers that are sharded."""
    usual = {each.path: each.meant for each in listed if each.kind == "rule"}
    replicated = [each for each in listed if each.kind == "replicated"]
    known = {path for each in replicated for path in (each.path, *each.others)}
    for each in listed:
        if each.kind == "replicated":
            yield replace(each, meant=usual.get(each.path))
        elif (
            each.kind != "rule"
            or _axes(each.spec)
            or not known.issuperset((each.path, *each.others))
        ):
            yield each


def grouped(listed: Iterable[Finding], program: Program) -> tuple[tuple[Finding, ...], ...]:
    """Findings, the most bytes first: together are those of one kind about an array in several
    layers, or of outputs, which one change mends; a parameter is before its optimizer's state.
    """
    patterns, optimizer = program.described.patterns, program.described.optimizer
    groups: dict[object, list[Finding]] = {}
    for each in listed:
        path = optimizer.get(each.path, each.path) if each.kind == "rule" else each.path
        of = None if each.kind in ("resharded_state", "moved_state") else patterns.get(path, path)
        key = each.kind, of, each.spec, each.meant
        groups.setdefault(key, []).append(each)
    bytes_of = lambda group: sum(each.bytes_per_device for each in group)  # noqa: E731
    return tuple(
        tuple(sorted(group, key=lambda each: each.path in optimizer))
        for group in sorted(groups.values(), key=bytes_of, reverse=True)
    )


def _unused_axes(program: Program, held: Mapping[str, Held]) -> Iterator[Finding]:
    """Mesh axes that the program names nowhere, or of a step that updates its weights only in specs of
    less than `USED` of the sharded ones, so that the devices along them repeat work. `others` are
    the arrays of the batch that they divide.
    """
    described = program.described
    if described.named_axes is None or not described.mesh:
        return
    used = _used_axes(program, held) | {*described.named_axes, *described.manual_axes}
    used |= {axis for _, spec in program.constraints for axis in _axes(spec)}
    total = sum(each.bytes_per_device or 0 for each in held.values())
    for axis, size in program.mesh:
        if size > 1 and axis not in used:
            yield Finding("unused_axis", axis, total, batch_rows(program, (axis,)))


def _used_axes(program: Program, held: Mapping[str, Held]) -> set[str]:
    """The axes of results, of arguments that are neither weights nor their moments, and of USED of
    the weights; of a program that updates none, of any argument.
    """
    described = program.described
    made = (each for each in program.outputs() if not each.leaf.replaces)
    weights = _paths(described.weights)
    updated = weights | {*described.optimizer} if described.parameters else set[str]()
    arrays = (*made, *(each for path, each in held.items() if path not in updated))
    used = {axis for each in arrays for axis in _axes(each.divided)}
    return used | {axis for axis, _ in program.mesh if weights_over(program, axis) >= USED}


def weights_over(program: Program, axis: str) -> float:
    """Returns the share that an axis shards of the bytes of those weights that any axis shards."""
    paths = _paths(program.described.weights)
    weights = [each for each in program.arguments() if each.leaf.path in paths]
    sharded = [(each.bytes, _axes(each.divided)) for each in weights if _axes(each.divided)]
    over = sum(size for size, axes in sharded if axis in axes)
    return over / (sum(size for size, _ in sharded) or 1)


def batch_rows(program: Program, axes: Axes) -> tuple[str, ...]:
    """Returns the paths of the batch's arrays with as many rows as the largest, where these divide over
    more axes too.
    """
    held, sizes = {each.leaf.path: each for each in program.arguments()}, dict(program.mesh)
    batch = [held[path] for path in program.described.batch if held[path].shape]
    count = max(batch, key=lambda each: each.bytes).shape[0] if batch else 0
    over = lambda each: math.prod(sizes[axis] for axis in (*(each.spec or ((),))[0], *axes))  # noqa: E731
    return tuple(
        each.leaf.path for each in batch if each.shape[0] == count and count % over(each) == 0
    )


def _large(program: Program, held: Mapping[str, Held]) -> float:
    described = program.described
    paths = _paths((*described.state, *described.weights))
    return max(SMALLEST, SHARE * sum(held[path].bytes_per_device or 0 for path in paths))


def _replicated(program: Program, held: Mapping[str, Held]) -> Iterator[Finding]:
    described, least = program.described, _large(program, held)
    sharded = [leaf for leaf in described.weights if _axes(held[leaf.path].divided)]
    if not sharded:  # data parallelism replicates them all, and means it, whoever holds the state
        return
    trained, weights = _paths(described.parameters), _paths(described.weights)
    total, small = (sum(held[path].bytes for path in some) for some in (weights, trained))
    are_adapters = small < ADAPTERS * total and not any(leaf.path in trained for leaf in sharded)
    sizes = dict(program.mesh)
    smallest = min(sizes[axis] for leaf in sharded for axis in _axes(held[leaf.path].divided))
    owners = described.optimizer
    for leaf in described.weights:
        each = held[leaf.path]
        if are_adapters and leaf.path in trained:
            continue
        if _axes(each.divided) or (each.copies or 1) == 1:
            continue
        if len(each.shape) < 2 and each.bytes < SMALLEST_VECTOR:
            continue  # such as a bias, which is replicated nearly everywhere
        if any(_is_too_short(each, held[other.path], sizes) for other in sharded):
            continue  # such as keys of fewer heads than devices beside queries over heads
        with_it = [
            path
            for path, owner in owners.items()
            if owner == leaf.path and not _axes(held[path].divided)
        ]
        total = sum(held[path].bytes_per_device or 0 for path in (leaf.path, *with_it))
        if total >= least and any(size % smallest == 0 for size in each.shape):
            yield Finding("replicated", leaf.path, total, tuple(with_it))


def _is_too_short(each: Held, other: Held, sizes: Mapping[str, int]) -> bool:
    """Whether an array is as one beside it but for a dim that the axes there do not divide."""
    if each.leaf.path.rpartition("/")[0] != other.leaf.path.rpartition("/")[0]:
        return False
    dims = list(zip(each.shape, other.shape, other.spec or (), strict=False))
    if len({len(each.shape), len(other.shape), len(dims)}) > 1:
        return False
    odd = [(size, axes) for size, theirs, axes in dims if size != theirs]
    return any(axes for _, axes in odd) and all(
        size % math.prod(sizes[axis] for axis in axes) for size, axes in odd if axes
    )


def _resharded(program: Program, held: Mapping[str, Held]) -> Iterator[Finding]:
    """Outputs that the file shards otherwise than the arguments they replace. One that it leaves to
    the compiler is not judged: propagation alone gives other specs than the compiler.
    """
    for output in program.outputs():
        of = held.get(output.leaf.replaces or "")
        if of and output.bytes_per_device and _is_moved(of, output, program.mesh):
            most = max(output.bytes_per_device, of.bytes_per_device or 0)
            if most >= SMALLEST:
                yield Finding(
                    "resharded_state", of.leaf.path, most, (output.leaf.path,), of.spec, output.spec
                )


def _moved(program: Program, held: Mapping[str, Held]) -> Iterator[Finding]:
    """Outputs that the file leaves in another memory than the arguments they replace."""
    for output in program.outputs():
        if (of := held.get(output.leaf.replaces or "")) is None:
            continue
        is_known = None not in (of.leaf.memory, output.leaf.memory)
        size = of.bytes_per_device or 0
        if is_known and of.leaf.memory != output.leaf.memory and size >= SMALLEST:
            yield Finding("moved_state", of.leaf.path, size, (output.leaf.path,))


def _is_moved(of: Held, output: Held, mesh: Mesh) -> bool:
    """Returns True if the file shards an output otherwise than the argument that it replaces."""
    if output.is_propagated or of.spec is None or output.spec is None:
        return False
    return moving(of.spec, mesh) != moving(output.spec, mesh)


def _replicated_outputs(program: Program, held: Mapping[str, Held]) -> Iterator[Finding]:
    """Results that the file itself replicates, such as logits, where arguments are sharded."""
    if not any(_axes(each.divided) for each in held.values()):
        return
    for output in program.outputs():
        is_copied = not output.is_propagated and (output.copies or 1) > 1
        is_large = output.bytes >= SMALLEST_VECTOR and not output.leaf.replaces
        if is_copied and is_large and not _axes(output.divided):
            yield Finding("replicated_output", output.leaf.path, output.bytes)


def _not_donated(program: Program, held: Mapping[str, Held]) -> Iterator[Finding]:
    """State that an output of its sharding continues and that is not donated: both are held at
    once. A gradient, or a result of a parameter's sizes, leaves the parameter in use. An output of
    other bytes on a device, as far as propagation knows them, takes no buffer of its argument.
    """
    updates = [output for output in program.kept_outputs() if output.leaf.is_update]
    of = {output.leaf.replaces: held.get(output.leaf.replaces or "") for output in updates}
    resized = {
        output.leaf.replaces
        for output in updates
        if (before := of[output.leaf.replaces])
        and output.bytes_per_device not in (None, before.bytes_per_device)
    }
    kind = lambda leaf: (leaf.sizes, leaf.dtype)  # noqa: E731
    moved = {  # JAX gives the buffers of one kind to outputs of its own choice
        kind(output.leaf)
        for output in updates
        if (before := of[output.leaf.replaces]) and _is_moved(before, output, program.mesh)
    }
    kept = by_key(
        (leaf.path.partition("/")[0], held[leaf.path])
        for leaf in program.described.state
        if leaf.path in of.keys() - resized and not leaf.is_donated and kind(leaf) not in moved
    )
    for name, leaves in kept.items():
        total = sum(each.bytes_per_device or 0 for each in leaves)
        if total >= SMALLEST:
            yield Finding("missing_donation", name, total, tuple(each.leaf.path for each in leaves))


def _float32(program: Program, held: Mapping[str, Held]) -> Iterator[Finding]:
    """Parameters in float32 where most of them are bfloat16."""
    parameters = [held[leaf.path] for leaf in program.described.parameters]
    halves = sum(each.bytes for each in parameters if each.leaf.dtype == "bfloat16")
    wide = [each for each in parameters if each.leaf.dtype == "float32"]
    if 2 * halves <= sum(each.bytes for each in wide):
        return
    least = max(SMALLEST, SHARE * halves)
    for each in wide:
        if each.bytes >= least:
            yield Finding("float32_leak", each.leaf.path, each.bytes_per_device or 0)


def _other_than_its_group(program: Program, held: Mapping[str, Held]) -> Iterator[Finding]:
    """Leaves that are sharded otherwise than those of the same path in other layers, and moments
    otherwise than their parameter.
    """
    described = program.described
    for pattern, leaves in described.groups.items():
        alike = [held[leaf.path] for leaf in leaves]
        usual = Counter([each.divided or () for each in alike]).most_common(1)[0][0]
        odd = [each for each in alike if (each.divided or ()) != usual]
        if 2 * len(odd) >= len(alike) and not _are_layers(program, held, pattern):
            continue  # such as two matrices of an MLP, sharded one by its rows, one by its columns
        if odd and odd[0].bytes >= SMALLEST:
            total = sum(each.bytes_per_device or 0 for each in odd)
            others = tuple(each.leaf.path for each in odd[1:])
            yield Finding("rule", odd[0].leaf.path, total, others, odd[0].divided, usual)
    for path, owner in described.optimizer.items():
        each, of = held[path], held[owner]
        if (
            None not in (each.divided, of.divided)
            and not has_all(each.divided or (), of.divided or ())
            and each.bytes >= SMALLEST
        ):
            total = each.bytes_per_device or 0
            yield Finding("rule", path, total, (owner,), each.divided, of.divided)


def has_all(spec: Spec, least: Spec) -> bool:
    """Returns True if each dim has the axes of another spec: state over more axes, as of ZeRO, is meant."""
    dims = zip_longest(least, spec, fillvalue=())
    return all({*one} <= {*other} for one, other in dims)


def _are_layers(program: Program, held: Mapping[str, Held], pattern: str) -> bool:
    """Whether other arrays under the same number are sharded, and alike under every number."""
    head, star, _ = pattern.rpartition("*")
    for other, leaves in program.described.groups.items():
        if star and other != pattern and other.startswith(f"{head}*"):
            specs = {held[leaf.path].divided for leaf in leaves}
            if len(specs) == 1 and len(leaves) > 1 and _axes(specs.pop()):
                return True
    return False


def _unmatched(program: Program, held: Mapping[str, Held]) -> Iterator[Finding]:
    for pattern, spec in program.specs:
        if not pattern.startswith(VALUE) and not any(matches(pattern, path) for path in held):
            yield Finding("rule", pattern, 0, spec=spec)


def _paths(leaves: Iterable[Leaf]) -> set[str]:
    return {leaf.path for leaf in leaves}


def _axes(spec: Spec | None) -> Axes:
    return tuple(axis for axes in spec or () for axis in axes)


def moving(spec: Spec, mesh: Mesh) -> Spec:
    """A spec without axes of size 1, which change nothing."""
    sizes = dict(mesh)
    return tuple(tuple(axis for axis in axes if sizes.get(axis, 1) > 1) for axes in spec)
