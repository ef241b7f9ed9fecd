"""The state among a program's arguments: which output replaces which argument, which are
parameters, and what an optimizer keeps for each. By their paths: a file has no types.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import Literal, Protocol, TypeVar

from spmd_core.base import by_key

_PARAMETERS = frozenset(
    ("params", "param", "parameters", "weights", "model", "variables", "theta", "master_params")
)
# First parts of paths whose arrays are weights also where no output replaces them
_FROZEN = _PARAMETERS | frozenset(
    (
        *("frozen", "frozen_params", "base", "base_params", "backbone", "pretrained", "teacher"),
        *("teacher_params", "target_params", "reference", "ref_params"),
    )
)
# Parts of a path that name an optimizer's state; as first part, the argument, also short names
_KEPT = frozenset(
    (
        *("opt_state", "opt", "optim", "optimizer", "optimizer_state", "inner_state", "trace"),
        *("inner_opt_state", "v_row", "v_col", "acc_grads", "slots", "momentum", "momenta"),
        *("moments", "velocity", "exp_avg", "exp_avg_sq", "mu", "nu", "nu_max", "ema"),
        *("ema_params", "adam", "adamw", "sgd", "lion"),
    )
)
_SHORT = frozenset(("m", "v", "mom", "s", "state"))
_ALONE = _KEPT - {"mu", "nu", "ema", "trace", "model"}  # that mean it without a parameter too
# How an output continues an argument: as it is, changed, changed in a program that has a backward
# pass, or as a term that an unknown number scales
Continued = Literal["changed", "trained", "same", "scaled"]
_CHANGED = ("changed", "trained")
Continues = Mapping[str, Continued]  # by the paths of arguments


class Array(Protocol):
    """An argument or output."""

    @property
    def path(self) -> str:
        """Its path, the parts separated by `/`."""
        ...

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes of its dims."""
        ...

    @property
    def dtype(self) -> str:
        """The dtype of its elements."""
        ...


Leaf = TypeVar("Leaf", bound=Array)


def replaced(
    arguments: Iterable[Array], outputs: Iterable[Array], continued: Iterable[Continues] = ()
) -> Iterator[tuple[str | None, bool]]:
    """For each output the path of the argument that it replaces, and whether it continues it: the
    one of the same path within its argument, sizes and dtype; without one, an argument that a
    training step changes to it. Where several have it, one that the output continues; of these,
    outputs take arguments in their order, parameters first.
    """
    arguments = list(arguments)
    kinds = {leaf.path: (leaf.sizes, leaf.dtype) for leaf in arguments}
    by_path = by_key(
        ((key, leaf.sizes, leaf.dtype), leaf.path)
        for leaf in arguments
        for key in {leaf.path, _key(leaf.path)} - {""}
    )
    taken: dict[str, str] = {}  # first part of outputs -> argument
    for leaf, ways in zip(outputs, chain(continued, repeat({})), strict=False):
        keys = ((key, leaf.sizes, leaf.dtype) for key in (leaf.path, _key(leaf.path)) if key)
        matches = next((by_path[key] for key in keys if key in by_path), [])
        matches = matches or [
            path
            for path, way in ways.items()
            if way == "trained" and kinds[path] == (leaf.sizes, leaf.dtype)
        ]
        updates = [path for path in matches if ways.get(path) in _CHANGED] or [
            path for path in matches if ways.get(path) == "scaled" and role(path) == "kept"
        ]
        same = [path for path in matches if ways.get(path) == "same"]
        some = updates or same or matches
        yield some[0] if len(some) == 1 else _chosen(leaf.path, some, taken), bool(updates)


def _chosen(output: str, matches: list[str], taken: dict[str, str]) -> str | None:
    by_argument = {_first(path): path for path in matches}
    own = _first(output)
    if taken.get(own) not in by_argument:
        free = [name for name in by_argument if name not in taken.values()]
        if not free:
            return None
        taken[own] = own if own in free else min(free, key=_rank)
    return by_argument[taken[own]]


def owners(state: Iterable[Leaf]) -> Mapping[str, str]:
    """Path of a leaf of the optimizer's state -> path of the parameter that it belongs to: of the
    same sizes, its path ends as the parameter's does.
    """
    leaves = list(state)
    roles = _roles([leaf.path for leaf in leaves])
    by_tail: dict[tuple[object, ...], str] = {}
    candidates = [leaf for leaf in leaves if roles[leaf.path] != "kept"]
    for leaf in sorted(candidates, key=lambda leaf: _rank(_first(leaf.path))):
        for tail in _tails(leaf.path):
            by_tail.setdefault((tail, leaf.sizes), leaf.path)
    by_leaf = {}
    for leaf in leaves:
        if roles[leaf.path] == "parameter":
            continue
        tails = list(_tails(leaf.path))
        if roles[leaf.path] == "":  # no word names it: the full path of a parameter ends its own
            full = {tail: by_tail.get((tail, leaf.sizes)) for tail in tails}
            tails = [tail for tail, path in full.items() if path is not None and _key(path) == tail]
        owner = next(
            (by_tail[tail, leaf.sizes] for tail in tails if (tail, leaf.sizes) in by_tail), None
        )
        if owner is not None and owner != leaf.path:
            by_leaf[leaf.path] = owner
    return by_leaf


def _roles(paths: Iterable[str]) -> dict[str, str]:
    """Returns the role of each path. Beside parameters, as in a train state of `params`, `m` and `v`,
    a short name is that of what an optimizer keeps.
    """
    parts = {path: path.split("/") for path in paths}
    roles = {path: role(path) for path in parts}
    beside = {
        tuple(each[:at])
        for each in parts.values()
        for at, part in enumerate(each[:-1])
        if part in _PARAMETERS
    }
    for path, each in parts.items():
        is_short = any(
            part in _SHORT and tuple(each[:at]) in beside for at, part in enumerate(each[:-1])
        )
        roles[path] = roles[path] or ("kept" if is_short else "")
    return roles


def is_kept_alone(path: str) -> bool:
    """Whether it is an optimizer's state that belongs to no parameter, such as a count."""
    return role(path) == "kept" and bool(_ALONE & set(path.split("/")))


def is_frozen(path: str) -> bool:
    """Whether what no output replaces is a weight, by the argument that it is in.

    >>> is_frozen("frozen/layers/0/up"), is_frozen("params/w"), is_frozen("batch/weights")
    (True, True, False)
    """
    first, _, rest = path.partition("/")
    return bool(rest) and first in _FROZEN


def role(path: str) -> str:
    """`parameter` or `kept`, by the first part of a path that names it; "" where none does.

    >>> role("params/attn/v/kernel"), role("state/opt_state/0/mu/kernel"), role("x")
    ('parameter', 'kept', '')
    """
    for place, part in enumerate(path.split("/")):
        if part in _PARAMETERS:
            return "parameter"
        if part in _KEPT or (place == 0 and part in _SHORT - {"state"}):
            return "kept"
    return ""


def _rank(argument: str) -> int:
    """The place of an argument among those of the same paths: parameters, others, what is kept."""
    return {"parameter": 0, "": 1, "kept": 2}[role(argument)]


def _tails(path: str) -> Iterator[str]:
    """What a path ends with, the longest first."""
    parts = path.split("/")
    return ("/".join(parts[start:]) for start in range(1, len(parts)))


def _key(path: str) -> str:
    return path.partition("/")[2]


def _first(path: str) -> str:
    return path.partition("/")[0]
