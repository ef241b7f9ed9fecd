"""The values and ops of a module as Shardy's propagation leaves it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

CONSTRAINTS = ("sdy.sharding_constraint", "sdy.reshard")
MANUAL = "sdy.manual_computation"  # a shard_map
End = tuple[str, int]  # "operand" or "result", and its number


@dataclass(slots=True, eq=False)
class Value:
    """A result of an op, or an argument of a function or a region.

    Attributes:
      axes: the dim that each mesh axis shards.
      labels: the name that Shardy gives the origin of each axis.
      written: the mesh axes that the program itself gives this value.
      closed: the dims that propagation leaves as they are written.
    """

    shape: tuple[int, ...] = ()
    axes: dict[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    op: "Op | None" = None
    index: int = 0
    users: list[tuple["Op", int]] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)
    closed: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Edge:
    """A step of propagation: `axis` went from one end of an op to others."""

    step: int
    axis: str
    source: End
    targets: tuple[End, ...]


@dataclass(slots=True, eq=False)
class Region:
    """A region of an op: its arguments, and the values that it returns."""

    arguments: list[Value] = field(default_factory=list)
    yields: list[Value] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Op:
    """An op.

    Attributes:
      flows: of an op with regions, the edges of each result.
      enters: of one, the edges of each argument of its region.
      label: the name that Shardy gives it as an origin.
      specs: shardings that a constraint or a manual computation writes, of each result.
      arguments_specs: those of a manual computation's operands.
      rule: of each operand and result, the factors of each dim.
      blocked: the factors over which nothing propagates.
      carried: names of the arguments of a loop's regions.
    """

    kind: str
    results: list[Value] = field(default_factory=list)
    operands: list[Value] = field(default_factory=list)
    edges: tuple[Edge, ...] = ()
    flows: tuple[tuple[Edge, ...], ...] = ()
    enters: tuple[tuple[Edge, ...], ...] = ()
    label: str = ""
    regions: list[Region] = field(default_factory=list)
    specs: tuple[dict[str, int], ...] = ()
    arguments_specs: tuple[dict[str, int], ...] = ()
    closed: tuple[frozenset[int], ...] = ()  # dims of each of `specs`
    rule: tuple[tuple[tuple[str, ...], ...], ...] = ()
    blocked: frozenset[str] = frozenset()
    carried: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Graph:
    """The main function of a module. `outputs` have the axes that the caller requests."""

    arguments: list[Value] = field(default_factory=list)
    returned: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
