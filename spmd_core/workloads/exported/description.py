"""The description of a program of `jax.export`, before anything is compiled: values, no jax."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import prod

from spmd_core.base import Frozen, by_key
from spmd_core.fields import Axes, Mesh, Spec
from spmd_core.workloads.exported.patterns import patterns
from spmd_core.workloads.exported.sizes import size_of
from spmd_core.workloads.exported.state import Continues, is_frozen, is_kept_alone, owners, replaced

NAME = "program_file"
SYMBOL_SIZE = 64  # of a dim that is not given
MOST_PLATFORMS, MOST_PLATFORM = 8, 20  # that a list has of a program, and characters of each


class Leaf(Frozen):
    """One argument or output: `sizes` are numbers, or expressions of the program's symbols.

    `spec` is None where the program leaves the sharding to the compiler; `propagated` is what
    Shardy then gives it, and `known` the one that there is. `replaces` is the path of the argument
    that an output takes the place of. `memory` is the memory kind that its file names.
    """

    path: str
    sizes: tuple[str, ...]
    dtype: str
    spec: Spec | None = None
    memory: str | None = None
    propagated: Spec | None = None
    is_donated: bool = False
    is_kept: bool = True  # False: the program does not use it
    index_below: int | None = None  # an integer that indexes a dim of this size
    replaces: str | None = None
    is_update: bool = True  # it continues what it replaces, of which nothing else is left

    @property
    def known(self) -> Spec | None:
        """Its spec: the file's, else what Shardy gives it."""
        return self.propagated if self.spec is None else self.spec


class Listed(Frozen):
    """What a list of programs has of one: few bytes, whatever its file holds."""

    program: str
    name: str
    viewer: str
    address: str
    platforms: tuple[str, ...]
    mesh: Mesh
    bytes: int
    argument_count: int


class Described(Frozen):
    """A program as its file describes it; `name` is what its owner calls it."""

    program: str  # sha256 of the file that was taken
    name: str
    function: str
    platforms: tuple[str, ...]
    mesh: Mesh  # () where it was exported for one device
    devices: int
    symbols: tuple[str, ...] = ()
    manual_axes: Axes = ()  # used inside shard_map, so that their sizes are part of the program
    # what its constraints and shard_maps name; None where an older version read the file
    named_axes: Axes | None = None
    kernels: tuple[str, ...] = ()  # targets of custom calls that hold a platform's own code
    arguments: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    bytes: int  # of the file
    viewer: str = ""  # who handed it in, of a dashboard
    address: str = ""  # and from which network address, without a login
    flops: int = 0  # of its matrix products and convolutions, over all devices
    # the same at several sizes of its symbols, that of each first: of a polynomial
    flops_at: tuple[tuple[tuple[int, ...], int], ...] = ()
    files: tuple[str, ...] = ()  # its author's source files, by the last two parts of their paths

    def flops_of(self, sizes: Mapping[str, int]) -> int | None:
        """Returns the FLOPs with these sizes of its symbols; None where they are not counted."""
        if not self.symbols:
            return self.flops
        if not self.flops_at:
            return None
        total = Fraction(0)
        for point, count in self.flops_at:
            part = Fraction(count)
            for at, size in enumerate(point):
                others = {each[at] for each, _ in self.flops_at} - {size}
                now = sizes[self.symbols[at]]
                part *= prod(Fraction(now - other, size - other) for other in others)
            total += part
        return max(0, round(total))

    def kept_shapes(self, sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
        """Returns the shapes of the arguments that it uses, with these sizes of its symbols."""
        kept = (leaf for leaf in self.arguments if leaf.is_kept)
        return [tuple(size_of(each, sizes) for each in leaf.sizes) for leaf in kept]

    @property
    def listed(self) -> Listed:
        """What a list of programs has of this one."""
        return Listed(
            program=self.program,
            name=self.name,
            viewer=self.viewer,
            address=self.address,
            platforms=tuple(each[:MOST_PLATFORM] for each in self.platforms[:MOST_PLATFORMS]),
            mesh=self.mesh,
            bytes=self.bytes,
            argument_count=len(self.arguments),
        )

    @cached_property
    def leaves(self) -> Mapping[str, Leaf]:
        """Arguments by path."""
        return {leaf.path: leaf for leaf in self.arguments}

    @cached_property
    def patterns(self) -> Mapping[str, str]:
        """Path of an argument -> the pattern of its group."""
        return patterns(self.arguments)

    @cached_property
    def groups(self) -> Mapping[str, tuple[Leaf, ...]]:
        """The arguments that the program uses, by the pattern of their group, in order."""
        groups = by_key((self.patterns[leaf.path], leaf) for leaf in self.arguments if leaf.is_kept)
        return {pattern: tuple(leaves) for pattern, leaves in groups.items()}

    @cached_property
    def state(self) -> tuple[Leaf, ...]:
        """The arguments that an output replaces: parameters, and the optimizer's state."""
        replaced = {leaf.replaces for leaf in self.outputs}
        return tuple(leaf for leaf in self.arguments if leaf.path in replaced)

    @cached_property
    def optimizer(self) -> Mapping[str, str]:
        """Path of a leaf of the optimizer's state -> path of the parameter that it belongs to."""
        return owners(self.state)

    def with_state(self, group: str) -> tuple[str, ...]:
        """Returns the pattern of a group of arguments, then those of its optimizer state of the same
        shape; of a group of the state those of its parameters. Others alone.
        """
        if group not in self.groups:
            return (group,)
        first = self.groups[group][0]
        owner = self.optimizer.get(first.path, first.path)
        there = [owner, *(path for path, of in self.optimizer.items() if of == owner)]
        alike = [path for path in there if self.leaves[path].sizes == first.sizes]
        used = dict.fromkeys(self.patterns[path] for path in alike)
        return tuple(each for each in used if each in self.groups)

    @cached_property
    def parameters(self) -> tuple[Leaf, ...]:
        """The state but for what the optimizer keeps."""
        kept = self.optimizer
        return tuple(
            leaf for leaf in self.state if leaf.path not in kept and not is_kept_alone(leaf.path)
        )

    @cached_property
    def updated(self) -> Mapping[str, str]:
        """Path of an output -> path of the parameter that it updates, or whose state it is."""
        kept = self.optimizer
        return {
            leaf.path: kept.get(leaf.replaces, leaf.replaces)
            for leaf in self.outputs
            if leaf.replaces is not None
        }

    @cached_property
    def weights(self) -> tuple[Leaf, ...]:
        """The parameters, and weights that the program only reads: frozen ones, or those of a
        forward pass.
        """
        state, parameters = ({leaf.path for leaf in some} for some in (self.state, self.parameters))
        return tuple(
            leaf
            for leaf in self.arguments
            if leaf.path in parameters or (leaf.path not in state and is_frozen(leaf.path))
        )

    @property
    def donated(self) -> Mapping[str, tuple[int, int]]:
        """Path of a donated argument -> its number, among the arguments that the program uses, and
        that of the output which replaces it and whose sharding is left to the compiler.
        """
        at = {path: n for path, n in self.numbers.items() if self.leaves[path].is_donated}
        return {
            leaf.replaces: (at[leaf.replaces], number)
            for number, leaf in enumerate(self.outputs)
            if leaf.replaces in at and leaf.spec is None
        }

    @property
    def batch(self) -> Mapping[str, int]:
        """Path -> number of each argument that is neither state nor weights: the batch. Empty where
        nothing is known as a weight.
        """
        held = {leaf.path for leaf in (*self.state, *self.weights)}
        return {path: at for path, at in self.numbers.items() if path not in held} if held else {}

    @property
    def weight_numbers(self) -> Mapping[str, int]:
        """Path -> number of each weight among the arguments that the program uses."""
        numbers = self.numbers
        return {leaf.path: numbers[leaf.path] for leaf in self.weights if leaf.path in numbers}

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Path -> number of each argument among those that the program uses."""
        return {leaf.path: at for at, leaf in enumerate(e for e in self.arguments if e.is_kept)}


def with_replaced(
    arguments: tuple[Leaf, ...], outputs: tuple[Leaf, ...], continued: Sequence[Continues]
) -> tuple[Leaf, ...]:
    """Outputs, each with the argument that it replaces; where several would replace one, that which
    continues it, such as new parameters beside their gradients.
    """
    pairs = list(replaced(arguments, outputs, continued))
    updated = {path for path, is_update in pairs if is_update}
    returned = {path for ways in continued for path, way in ways.items() if way == "same"}
    return tuple(
        leaf.model_copy(
            update={
                "replaces": path if is_update or path not in updated else None,
                "is_update": is_update and path not in returned,
            }
        )
        for leaf, (path, is_update) in zip(outputs, pairs, strict=True)
    )
