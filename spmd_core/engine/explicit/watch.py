"""Evaluates the watched expressions of a user's files: where JAX refuses the types of one, the error
is kept, the expression is changed so that it traces, and tracing goes on.
"""

import operator
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.core import Tracer
from jax.sharding import AbstractMesh, AxisType, Mesh

from spmd_core.engine.explicit.attempt import OPERATORS, Attempt, axes_in, spec_of
from spmd_core.engine.explicit.fixes import Fix, proposals, typed
from spmd_core.engine.explicit.source import Edit, EditedFile, Expression

_JAX = os.path.dirname(jax.__file__)
_MESHES = (jax.make_mesh, Mesh, AbstractMesh)
_MOST_KEPT = 3  # ways to mend one expression by one function
_CHARACTERS = 400  # of an error of JAX's
_TYPED = -1  # the choice of the type under Auto axes, for an expression that JAX accepts
Key = tuple[str, int, str]


@dataclass
class Rejected:
    """An expression whose types JAX refuses, and what makes it trace, the chosen way first; or one
    that it accepts, whose type under Auto axes communicates less.
    """

    site: Expression
    message: str
    operands: tuple[str, ...]
    fixes: tuple[Fix, ...]
    accepted: bool


@dataclass
class Watch:
    """What the expressions of watched files call.

    Attributes:
        axis_type: of the meshes that the files make; None leaves them as they are.
        mends: whether expressions that JAX refuses are changed.
        wanted: specs of results under Auto axes, by expression.
        blocked: expressions that are not changed: an outer one is.
        choices: which of the ways to mend an expression is taken, the first where left out; `_TYPED`
            gives one that JAX accepts its type under Auto axes.
        others: expressions that JAX accepts with another type than under Auto axes.
    """

    axis_type: AxisType | None = None
    mends: bool = False
    probes: bool = False
    sources: dict[str, EditedFile] = field(default_factory=dict)
    sites: dict[int, Expression] = field(default_factory=dict)
    wanted: Mapping[Key, list[Any]] = field(default_factory=dict)
    blocked: dict[Key, str] = field(default_factory=dict)
    choices: dict[Key, int] = field(default_factory=dict)
    others: dict[Key, int] = field(default_factory=dict)
    refused: dict[Key, Rejected] = field(default_factory=dict)
    meshes: dict[Key, tuple[Expression, tuple[Edit, ...]]] = field(default_factory=dict)
    probed: list[tuple[Key, Any, tuple[tuple[int, ...], ...]]] = field(default_factory=list)

    def call(self, number: int, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Evaluate a call."""
        if self.axis_type is not None and any(function is each for each in _MESHES):
            return self._mesh(self.sites[number], function, args, kwargs)
        if self.axis_type is AxisType.Auto and jax.sharding.get_abstract_mesh().are_all_axes_auto:
            function, args, kwargs = _under_auto(function, args, kwargs)
        return self._evaluated(Attempt(self.sites[number], function, args, kwargs))

    def binary(self, number: int, left: Any, right: Any) -> Any:
        """Evaluate an operator."""
        site = self.sites[number]
        return self._evaluated(Attempt(site, OPERATORS[site.operator], (left, right), {}))

    def item(self, number: int, value: Any, index: Any) -> Any:
        """Evaluate a subscript."""
        return self._evaluated(Attempt(self.sites[number], operator.getitem, (value, index), {}))

    def _evaluated(self, attempt: Attempt) -> Any:
        try:
            result = attempt()
        except Exception as error:
            if not self.mends or _is_auto() or not _is_of_jax(error):
                raise
            return self._mended(attempt, error)
        if self.mends and not _is_auto():
            return self._typed(attempt, result)
        return self._probe(attempt.site.key, result) if self.probes else result

    def _typed(self, attempt: Attempt, result: Any) -> Any:
        """The result of an expression that JAX accepts, with its type under Auto axes if so chosen."""
        key = attempt.site.key
        wanted = self.wanted.get(key, ())
        if len(wanted) != 1:
            return result
        pairs = zip(jax.tree.leaves(wanted[0]), jax.tree.leaves(result), strict=False)
        if all(
            [*map(axes_in, spec)] == [*map(axes_in, spec_of(leaf))]
            for spec, leaf in pairs
            if isinstance(leaf, jax.Array)  # others, such as names, have no type
        ):
            return result
        self.others[key] = _TYPED
        if self.choices.get(key) == _TYPED:
            for fix, run in typed(attempt, self.sources[attempt.site.path], wanted[0]):
                with suppress(Exception):  # this way does not trace: the next one may
                    value = run()
                    types = (
                        ", ".join(map(_type, jax.tree.leaves(each))) for each in (result, value)
                    )
                    words = "is {}; as {}, as under Auto axes, it communicates less".format(*types)
                    self._keep(attempt, words, [fix], accepted=True)
                    return value
        return result

    def _mended(self, attempt: Attempt, error: Exception) -> Any:
        key = attempt.site.key
        if key in self.blocked:
            raise error
        before = dict(self.refused)
        kept: list[tuple[Fix, Any]] = []
        source = self.sources[attempt.site.path]
        enough = max(self.choices.get(key, 0), 0) + 1
        frame: Any = sys._getframe()
        while frame.f_code.co_filename != source.path:
            frame = frame.f_back
        scope = {**frame.f_globals, **frame.f_locals}
        for fix, run in proposals(attempt, source, self.wanted.get(key, ()), scope):
            others = [each.how for each, _ in kept]
            if (
                fix.edits
                and others.count(fix.how) < _MOST_KEPT
                and fix not in [each for each, _ in kept]
            ):
                noted = dict(self.refused)
                try:
                    kept.append((fix, run()))
                except Exception:  # this way does not trace: the next one may
                    self.refused = noted
        if not kept:
            self.refused = before
            self.blocked[key] = "no change of this expression alone makes it trace"
            raise error
        self._keep(attempt, error_words(error), [fix for fix, _ in kept])
        return kept[min(enough, len(kept)) - 1][1]

    def _keep(
        self, attempt: Attempt, message: str, fixes: list[Fix], accepted: bool = False
    ) -> None:
        key = attempt.site.key
        chosen = min(max(self.choices.get(key, 0), 0), len(fixes) - 1)
        fixes.insert(0, fixes.pop(chosen))
        operands = tuple(map(_type, attempt.arrays().values()))
        known = self.refused.get(key)
        if known is not None and known.fixes[0] != fixes[0]:
            self.blocked[key] = "its operands have other types from call to call"
        self.refused[key] = known or Rejected(
            attempt.site, message, operands, tuple(fixes), accepted
        )

    def _mesh(
        self, site: Expression, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """A mesh with the axis types of this trace; where the file names Auto ones, that is edited."""
        given = function(*args, **kwargs)
        types = (self.axis_type,) * len(given.axis_names)
        if self.mends and AxisType.Auto in given.axis_types:
            source = self.sources[site.path]
            text = f"({source.names()['jax']}.sharding.AxisType.Explicit,) * {len(types)}"
            if (span := site.slots.get(("axis_types",))) is not None:
                was = source.text[slice(*span)]
                is_named = "AxisType.Auto" in was
                text = was.replace("AxisType.Auto", "AxisType.Explicit") if is_named else text
                edits = (Edit(span[0], 0, span[1], text),)
            else:
                end = site.span[1] - 1
                edits = (Edit(end, 0, end, f", axis_types={text}"),)
            self.meshes[site.key] = site, edits
        return function(*args, **{**kwargs, "axis_types": types})

    def _probe(self, key: Key, result: Any) -> Any:
        leaves, tree = jax.tree.flatten(result)
        if not any(isinstance(leaf, Tracer) for leaf in leaves):
            return result
        number = len(self.probed)
        marked = []
        for at, leaf in enumerate(leaves):
            with suppress(Exception):  # arrays that have no barrier: keys, refs
                if isinstance(leaf, Tracer) and leaf.ndim:
                    with jax.named_scope(f"spmd_probe_{number}_{at}_"):
                        leaf = jax.lax.optimization_barrier(leaf)
            marked.append(leaf)
        self.probed.append((key, tree, tuple(map(_dims, leaves))))
        return jax.tree.unflatten(tree, marked)


def _dims(leaf: Any) -> tuple[int, ...]:
    """The dims of a value among those that it has with what it is mapped over by `vmap`."""
    mapped, at = list[int](), leaf
    while isinstance(at, Tracer):
        mapped += [dim] if (dim := getattr(at, "batch_dim", None)) is not None else []
        at = getattr(at, "val", getattr(at, "primal", None))
    dims = list(range(getattr(leaf, "ndim", 0) + len(mapped)))
    for dim in reversed(mapped):
        dims.pop(dim)
    return tuple(dims)


def _type(value: Any) -> str:
    return jax.typeof(value).str_short(short_dtypes=True)


def _is_of_jax(error: Exception) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.startswith(_JAX)


def _under_auto(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """A call for Explicit axes as it is under Auto ones: what it reshards is constrained."""
    if function is jax.sharding.reshard:
        return jax.lax.with_sharding_constraint, args, kwargs
    if function is jax.sharding.auto_axes or kwargs.get("out_sharding") is None:
        return function, args, kwargs
    given = dict(kwargs)
    spec = given.pop("out_sharding")
    constrained = lambda *args, **kwargs: jax.lax.with_sharding_constraint(function(*args, **kwargs), spec)  # noqa: E731  # fmt: skip
    return constrained, args, given


def _is_auto() -> bool:
    """Whether this is within `auto_axes`, where no types are refused but those from outside."""
    return AxisType.Auto in jax.sharding.get_abstract_mesh().axis_types


def error_words(error: Exception) -> str:
    """JAX's words for an error, on one line."""
    text = str(error).partition("--------------------")[0]
    return " ".join(f"{type(error).__name__}: {text}".split())[:_CHARACTERS]
