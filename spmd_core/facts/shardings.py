"""The sharding of every value of a program, from its operands to its results, and what put each
mesh axis there; and its type errors under Explicit axes.
"""

from enum import StrEnum
from typing import Literal

from spmd_core.base import Frozen
from spmd_core.fields import Mesh

Spec = tuple[tuple[str, ...], ...]  # mesh axes of each dim, major first
OriginPlace = tuple[str, str, str | None, str | None]  # kind, name, source, called
OriginKind = Literal["argument", "constraint", "output", "shard_map"]


class NoOrigin(StrEnum):
    """Why the origin of an axis is unknown."""

    NO_RECORD = (
        "no record"  # the compiler wrote none: it does not use Shardy, or is another version
    )
    TOO_LARGE = "too large"
    UNREADABLE = "unreadable"
    NO_OPERATION = "no operation"  # none before partitioning has the collective's name and line
    NO_VALUE = "no value"  # none there is sharded over the axis: the compiler moves shards over it
    NOT_FOLLOWED = "not followed"  # a step of the propagation was not recorded


class OriginStep(Frozen):
    """An operation that carried an axis; `backward` if it went from a result to an operand."""

    operation: str
    source: str = ""  # file:line
    backward: bool = False


class AxisOrigin(Frozen):
    """What put an axis on a value.

    `name` is the path of an argument or an output, the function of a `shard_map`, `exported.call` of
    the shardings that an exported function brings; `source` is the
    line of a constraint or a `shard_map`; `called` is the line that calls the function which
    constrains, where several do; `spec` is what is written there. `steps` lead from there to the value; `left_out` counts those in their middle that are not listed.
    `values` counts the values of the program that have the axis by it.
    `also`: it has put the axis nowhere, but would if the others did not; `elsewhere`: on another dim.
    `inferred`: it is the nearest place that names the axis on that dim, where the compiler keeps no
    record of its propagation, as of a program with a `shard_map`.
    """

    axis: str
    kind: OriginKind
    name: str = ""
    source: str | None = None
    called: str | None = None
    spec: Spec = ()
    steps: tuple[OriginStep, ...] = ()
    left_out: int = 0
    also: bool = False
    elsewhere: bool = False
    inferred: bool = False
    values: int | None = None

    @property
    def place(self) -> OriginPlace:
        """Where it is in the program."""
        return self.kind, self.name, self.source, self.called


class NoShardings(StrEnum):
    """Why no step was read, where no error is the reason."""

    NO_DUMP = "no dump"
    ONE_DEVICE = "one device"
    NOT_COMPILED = "not compiled"


class Reshard(Frozen):
    """An operand that a step reshards: from which spec to which.

    `free`: each device has its part already, so that nothing is sent. `origins` are of the axes that
    leave a dim, `against` of those that are needed instead.
    """

    operand: str
    before: Spec
    after: Spec
    free: bool = False
    origins: tuple[AxisOrigin, ...] = ()
    against: tuple[AxisOrigin, ...] = ()


class Step(Frozen):
    """A value: its name in the program, or its operation; its logical shape and its sharding.

    `spec` is None if the compiler's sharding cannot be written with mesh axes. Over `manual` axes
    the program shards by itself (shard_map): there `shape` is that of a shard. `sums` are the axes
    over which each device holds a partial sum that is added here. `inside` names the loop.
    """

    name: str = ""  # the variable that the line assigns; "" for what is inside a line
    operation: str
    op: str = ""
    shape: tuple[int, ...]
    dtype: str
    spec: Spec | None
    manual: tuple[str, ...] = ()
    bytes: int | None = None  # per device
    source: str = ""  # file:line
    code: str = ""  # that line
    inside: str = ""
    reshards: tuple[Reshard, ...] = ()
    sums: tuple[str, ...] = ()
    constraint: str = ""  # file:line of the program's with_sharding_constraint that it follows from
    origins: tuple[AxisOrigin, ...] = ()  # of the axes of `spec`
    collectives: tuple[str, ...] = ()  # of the compiled program, by the same operation and line


class Shardings(Frozen):
    """The steps of a program in its order, operands first; `left_out` counts those beyond."""

    steps: tuple[Step, ...] = ()
    left_out: int = 0
    reason: str | None = None  # why there are none: a `NoShardings`, or an error's message


class LostValue(Frozen):
    """A value at a gather or a loop's carry that has lost the batch: its line, and the spec that
    would keep it.
    """

    source: str  # file:line
    spec: Spec


class LostBatch(Frozen):
    """Where a program loses its batch first, over which axes: `work` is a device's matmul FLOPs over
    an even share, `share` that of the FLOPs which are computed without the batch's axes. `places`
    are the values that would keep it, once constrained; `origin` is what names these axes there.
    """

    axes: tuple[str, ...]
    source: str  # file:line
    work: float
    share: float
    places: tuple[LostValue, ...] = ()
    origin: tuple[AxisOrigin, ...] | None = None


class RingNote(Frozen):
    """A ring of devices that sends more than it needs, by the `kind` of its accident.

    Of `surplus_permute`, `permutes` run in a step, of which `needed` suffice, in loops of `turns`. Of
    `larger_rotated`, a block of `moved` comes `by` devices further each turn, of `size`; the other has
    `kept_bytes` and divides the dim `dim` of the result. A product of both has the `shape`.
    """

    permutes: int = 0
    needed: int = 0
    turns: int = 0  # 0 where they are in no loop, or in several
    size: int = 0
    by: int = 1
    moved: str = ""  # the argument; "" of what was computed
    kept_bytes: int = 0
    dim: int = 0
    shape: tuple[int, ...] = ()


class Accident(Frozen):
    """Something that a compiled program does and its author hardly meant, at a source line.

    `share`: of a device's matmul FLOPs. `work`: a device's over what it were without; of a replicated
    batch, the bytes moved over those of all weights. `bytes`: per device. `in_map`: whether it is
    within a shard_map, whose in_specs decide. `is_minor`: too little work to be a mistake for sure.
    `dropped_at`: the constraint
    by which most of the work loses the axes, or the product of a crossed weight; "" where it is none.
    `lost_at`: the operation `lost_by` that has operands with the axes and a result without.
    `spec`: with which a constraint would keep the batch, a loop's carry or the axes that it drops,
    that would shard the batch, with which a donated argument leaves, or a weight is not crossed.
    `path`: of that argument, and `others` how many more do.
    `ring`: of a block that goes round, where `path` could in its place, and `spec` is the result's then.
    `origin`: what names these axes at that line; () where nothing does, None where that is unknown.
    """

    kind: Literal[
        "replicated_batch",
        "crossed_weight",
        "repeated_work",
        "wide_products",
        "constant",
        "gathered_whole",
        "dropped_batch",
        "replicated_carry",
        "resharded_donation",
        "larger_rotated",
        "surplus_permute",
    ]
    path: str = ""
    axes: tuple[str, ...] = ()
    source: str = ""  # file:line; "" where no line of the program's own is known
    share: float = 0.0
    work: float = 1.0
    bytes: int = 0
    others: int = 0
    dtype: str = ""
    dropped_at: str = ""  # file:line
    in_map: bool = False
    is_minor: bool = False
    lost_at: str = ""  # file:line
    lost_by: str = ""
    spec: Spec = ()
    origin: tuple[AxisOrigin, ...] | None = None
    ring: RingNote | None = None


class Against(Frozen):
    """What is known against a compiled program."""

    lost_batch: LostBatch | None = None
    accidents: tuple[Accident, ...] = ()


class Judged(Against):
    """The same, with its matmul FLOPs over all devices that do nothing new: what each device of an axis
    computes alike in a shard_map, and what a checkpoint computes again.
    """

    mapped_flops: float = 0.0
    recomputed_flops: float = 0.0

    @property
    def against(self) -> Against:
        """What a result keeps of it."""
        return Against(lost_batch=self.lost_batch, accidents=self.accidents)


class ExplicitFix(Frozen):
    """A change of one expression.

    Attributes:
        how: `out_sharding`, `reshard` or `auto_axes`.
        lines: the lines of the file with it.
        bytes: of the collectives on these lines, a device and step; None where the step needs
            further changes to trace with it.
        collectives: these collectives, such as `all-reduce over tensor`.
        in_auto: whether the program under Auto axes has as many bytes of each.
    """

    how: str
    lines: str
    bytes: int | None = None
    collectives: tuple[str, ...] = ()
    in_auto: bool | None = None


class ExplicitError(Frozen):
    """An expression that JAX refuses under Explicit axes; the first of `fixes` is in the patch.
    `refused` is why there is none; `accepted`: JAX traces it, with a type that communicates more.
    """

    source: str
    line: str
    message: str
    operands: tuple[str, ...]
    fixes: tuple[ExplicitFix, ...] = ()
    refused: str | None = None
    accepted: bool = False


class ExplicitReport(Frozen):
    """Every sharding type error of a step, and its patch.

    Attributes:
        patch: a unified diff of the user's files; empty where nothing is to be changed.
        texts: the changed files by path.
        traces: whether the patched files trace under Explicit axes.
        wrong: elements of results that differ from the step's own beyond what rounding allows;
            None where they were not compared, which `notes` give the reason of.
        compared: elements that were compared.
        beyond: collectives that the program under Auto axes does not have.
        outputs: types of the results under Explicit axes, as JAX writes them.
    """

    function: str
    mesh: Mesh
    errors: tuple[ExplicitError, ...]
    patch: str = ""
    texts: dict[str, str] = {}
    traces: bool
    wrong: int | None = None
    compared: int = 0
    beyond: tuple[str, ...] = ()
    outputs: dict[str, str] = {}
    notes: tuple[str, ...] = ()
