"""Lets an expression trace by resharding its operands, the first carry of a loop, or its branches."""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from spmd_core.engine.explicit.attempt import (
    Attempt,
    Editor,
    Fix,
    Proposal,
    Specs,
    axes_in,
    distinct,
    spec_of,
)
from spmd_core.engine.explicit.source import Edit, Slot

_MOST_TRIED = 40
_LOOPS = ((jax.lax.scan, 1, 0), (jax.lax.while_loop, 2, 1), (jax.lax.fori_loop, 3, 2))


def loop(editor: Editor) -> Iterator[Callable[[], Proposal]]:
    """The first carry of a loop as its body returns it."""
    for function, place, body in _LOOPS:  # what a library calls may have no hash: a module of Flax
        if editor.attempt.function is function:
            yield partial(_carry, editor, place, body)


def _carry(editor: Editor, place: int, body: int) -> Proposal:
    attempt = editor.attempt
    names = list(inspect.signature(attempt.function).parameters)
    held, called, rows = ((at if at < len(attempt.args) else names[at]) for at in (place, body, 2))
    init, edits = attempt.value((held,)), list[Edit]()
    if attempt.function is jax.lax.scan and (rows == 2 or rows in attempt.kwargs):
        xs = attempt.value((rows,))  # a turn takes a slice of their first dim
        unsliced = jax.tree.map(lambda each: PartitionSpec(None, *spec_of(each)[1:]), xs)
        attempt = attempt.with_values({(rows,): jax.tree.map(jax.sharding.reshard, xs, unsliced)})
        changed = _changed_leaves(editor, (rows,), xs, unsliced)
        edits += [edit for slot, specs in changed for edit in editor.reshard(slot, specs)]
    function, carry = attempt.value((called,)), init
    for _ in range(3):
        types = jax.tree.map(spec_of, _next_carry(attempt, function, carry))
        carry = jax.tree.map(jax.sharding.reshard, jax.tree.map(jnp.asarray, carry), types)
    changed = _changed_leaves(editor, (held,), init, types)
    edits += [edit for slot, specs in changed for edit in editor.reshard(slot, specs)]
    return Fix("reshard", tuple(edits)), attempt.with_values({(held,): carry})


def _next_carry(attempt: Attempt, body: Callable[..., Any], carry: Any) -> Any:
    if attempt.function is jax.lax.scan:
        names = ("f", "init", "xs", "length", "reverse")
        given = dict(zip(names, attempt.args, strict=False)) | dict(attempt.kwargs)
        return body(carry, jax.tree.map(lambda each: each[0], given.get("xs")))[0]
    return body(attempt.args[0], carry) if attempt.function is jax.lax.fori_loop else body(carry)


def _changed_leaves(
    editor: Editor, slot: Slot, before: Any, types: Specs
) -> list[tuple[Slot, Specs]]:
    """Operands, or elements of one that is written out, whose type is to change."""
    own = jax.tree.map(spec_of, jax.tree.map(jnp.asarray, before))
    if own == types:
        return []
    inner = [(*slot, at) for at in range(len(before))] if isinstance(before, tuple | list) else []
    if inner and all(each in editor.attempt.site.slots for each in inner):
        pairs = zip(inner, before, types, strict=True)
        return [
            change
            for each, value, specs in pairs
            for change in _changed_leaves(editor, each, value, specs)
        ]
    return [(slot, types)]


def branches(editor: Editor, specs: Sequence[Specs]) -> Iterator[Callable[[], Proposal]]:
    """Every branch returns the same type."""
    attempt = editor.attempt
    is_cond = attempt.function is jax.lax.cond
    if not (is_cond or attempt.function is jax.lax.switch) or len(attempt.args) < 3:
        return
    slots: list[Slot] = [(1,), (2,)] if is_cond else [(1, at) for at in range(len(attempt.args[1]))]
    given = attempt.args[3:] if is_cond else attempt.args[2:]
    types = [jax.tree.map(spec_of, attempt.value(slot)(*given)) for slot in slots]
    for wanted in distinct([*types, *specs]):
        yield partial(_branch, editor, wanted, [slot for slot, own in zip(slots, types, strict=True) if own != wanted])  # fmt: skip


def _branch(editor: Editor, specs: Specs, slots: Sequence[Slot]) -> Proposal:
    attempt = editor.attempt
    edits: list[Edit] = []
    values: dict[Slot, Any] = {}
    for slot in slots:
        before = f"lambda *given: {editor.name('jax.sharding.reshard')}(("
        edits += editor.around(
            attempt.site.slots[slot], before, f")(*given), {editor.specs(specs)})"
        )
        values[slot] = partial(_resharding, attempt.value(slot), specs)
    return Fix("reshard", tuple(edits)), attempt.with_values(values)


def _resharding(function: Callable[..., Any], specs: Specs, *given: Any) -> Any:
    return jax.sharding.reshard(function(*given), specs)


def resharded(editor: Editor, specs: Sequence[Specs]) -> Iterator[Callable[[], Proposal]]:
    """Operands of other specs: those of the result, those of each other, fewer axes."""
    arrays = {slot: value for slot, value in editor.attempt.arrays().items() if value.ndim}
    own = {slot: spec_of(value) for slot, value in arrays.items()}
    most = max((value.ndim for value in arrays.values()), default=0)
    targets = [each for each in specs if isinstance(each, PartitionSpec)]
    targets += [spec for spec in own.values() if len(spec) == most]
    tried: list[Mapping[Slot, PartitionSpec]] = []
    if arrays and editor.attempt.site.operator != "MatMult":
        tried += [_aligned(arrays, [*target, *[None] * (most - len(target))]) for target in targets]
    tried += [{slot: each} for slot, spec in own.items() for each in _fewer(spec)]
    tried += [
        dict(zip(own, chosen, strict=True))
        for chosen in list(product(*([spec, *_fewer(spec)] for spec in own.values())))[:_MOST_TRIED]
    ]
    for chosen in tried:
        if others := {slot: spec for slot, spec in chosen.items() if spec != own[slot]}:
            yield partial(_reshard, editor, arrays, others)


def _aligned(arrays: Mapping[Slot, Any], target: Sequence[Any]) -> dict[Slot, PartitionSpec]:
    """Specs of operands that broadcast to a result with this spec."""
    sizes = jax.typeof(next(iter(arrays.values()))).sharding.mesh.shape
    chosen = {}
    for slot, value in arrays.items():
        entries = target[len(target) - value.ndim :]
        fits = [
            entry
            if size % math.prod(sizes[axis] for axis in axes_in(entry)) == 0 and size > 1
            else None
            for entry, size in zip(entries, value.shape, strict=True)
        ]
        chosen[slot] = PartitionSpec(*fits)
    return chosen


def _fewer(spec: PartitionSpec) -> list[PartitionSpec]:
    """The spec without the axes of one dim, then without any."""
    sharded = [at for at, entry in enumerate(spec) if entry is not None]
    without = [PartitionSpec(*[None if at == dim else each for at, each in enumerate(spec)]) for dim in sharded]  # fmt: skip
    return [*without, *[PartitionSpec(*[None] * len(spec))][: len(sharded) - 1]]


def _reshard(
    editor: Editor, arrays: Mapping[Slot, Any], specs: Mapping[Slot, PartitionSpec]
) -> Proposal:
    edits = [edit for slot, spec in specs.items() for edit in editor.reshard(slot, spec)]

    def run() -> Any:
        values = {slot: jax.sharding.reshard(arrays[slot], spec) for slot, spec in specs.items()}
        return editor.attempt.with_values(values)()

    return Fix("reshard", tuple(edits)), run
