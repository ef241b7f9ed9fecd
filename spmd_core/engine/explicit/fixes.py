"""Ways to let an expression trace under Explicit axes, each with the edits of its text."""

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.sharding import PartitionSpec

from spmd_core.base import parsed
from spmd_core.engine.explicit.attempt import (
    Attempt,
    Editor,
    Fix,
    Proposal,
    Specs,
    distinct,
    guesses,
)
from spmd_core.engine.explicit.reshards import branches, loop, resharded
from spmd_core.engine.explicit.source import Edit, EditedFile, Slot

_MOST_PROPOSED = 80


def proposals(
    attempt: Attempt, source: EditedFile, wanted: Sequence[Specs], scope: Mapping[str, Any]
) -> Iterator[Proposal]:
    """Changes that may let an expression trace, with what evaluates it so.

    Args:
        attempt: the expression.
        source: its file.
        wanted: specs of its result under Auto axes, where they are known.
        scope: the names that it may use.
    """
    editor = Editor(attempt, source)
    specs = distinct([*wanted, *_guessed(attempt)])
    made = (
        *_constraint(editor),
        *_with_out_sharding(editor, specs),
        *loop(editor),
        *branches(editor, specs),
        *resharded(editor, specs),
        *_auto(editor, specs, scope),
    )
    for make in made[:_MOST_PROPOSED]:
        # specs that cannot be written out, or that none has
        with suppress(ValueError, TypeError, SyntaxError):
            yield make()


def typed(attempt: Attempt, source: EditedFile, spec: PartitionSpec) -> Iterator[Proposal]:
    """Changes that give the result of an expression a type."""
    editor = Editor(attempt, source)
    for make in (*_with_out_sharding(editor, [spec]), partial(_around, editor, spec)):
        with suppress(ValueError):  # it is a statement
            yield make()


def _around(editor: Editor, spec: Specs) -> Proposal:
    attempt, site = editor.attempt, editor.attempt.site
    if site.kind == "augmented":
        raise ValueError("not an expression")
    before, after = f"{editor.name('jax.sharding.reshard')}(", f", {editor.specs(spec)})"
    run = lambda: jax.sharding.reshard(attempt(), spec)  # noqa: E731
    return Fix("reshard", editor.around(site.span, before, after)), run


def _guessed(attempt: Attempt) -> list[Specs]:
    """Specs for the result, by sizes of its dims. Its shape is that under Auto axes."""
    arrays = attempt.arrays()
    slots = list(arrays)
    run = lambda *values: attempt.with_values(dict(zip(slots, values, strict=True)))()  # noqa: E731
    try:
        result = jax.sharding.auto_axes(run, out_sharding=PartitionSpec())(*arrays.values())
    except Exception:  # whatever the function raises: its result has no shape then
        return [PartitionSpec()]
    operands = list(arrays.values())
    each = [list(guesses(leaf, operands)) for leaf in jax.tree.leaves(result)]
    tree = jax.tree.structure(result)
    return [jax.tree.unflatten(tree, [leaf[at] for leaf in each]) for at in range(2)]


def _constraint(editor: Editor) -> Iterator[Callable[[], Proposal]]:
    attempt = editor.attempt
    if attempt.function is jax.lax.with_sharding_constraint and attempt.site.function:
        start, end = attempt.site.function
        edit = Edit(start, 0, end, editor.name("jax.sharding.reshard"))
        other = replace(attempt, function=jax.sharding.reshard)
        yield lambda: (Fix("reshard", (edit,)), other)


def _with_out_sharding(editor: Editor, specs: Sequence[Specs]) -> Iterator[Callable[[], Proposal]]:
    attempt, site = editor.attempt, editor.attempt.site
    for spec in specs:
        yield from (partial(_out, editor, spec),) if _takes_it(attempt) else ()
        if site.kind == "binary" and site.operator == "MatMult":
            yield partial(_matmul, editor, spec)
        if site.kind == "item" and isinstance(attempt.args[0], jax.Array):
            yield partial(_get, editor, spec)


def _takes_it(attempt: Attempt) -> bool:
    if attempt.site.kind != "call" or "out_sharding" in attempt.kwargs:
        return False
    if ("self",) in attempt.arrays():  # a method, such as `reshape`, which has no signature
        return True
    try:
        parameters = inspect.signature(attempt.function).parameters
    except (TypeError, ValueError):  # of a builtin
        return False
    return "out_sharding" in parameters


def _out(editor: Editor, spec: Specs) -> Proposal:
    attempt = editor.attempt
    other = replace(attempt, kwargs={**attempt.kwargs, "out_sharding": spec})
    return Fix("out_sharding", editor.keyword(f"out_sharding={editor.specs(spec)}")), other


def _matmul(editor: Editor, spec: Specs) -> Proposal:
    attempt, (start, end) = editor.attempt, editor.attempt.site.span
    at = editor.source.after(attempt.site.slots[(0,)][1])
    stop = at
    while editor.source.text[stop - 1] in " \t":
        stop -= 1
    edits = (
        *editor.around((start, end), f"{editor.name('jnp.matmul')}(", f", out_sharding={editor.specs(spec)})"),
        Edit(stop, 0, at + 1, ","),
    )  # fmt: skip
    return Fix("out_sharding", edits), partial(jnp.matmul, *attempt.args, out_sharding=spec)


def _get(editor: Editor, spec: Specs) -> Proposal:
    site, (array, index) = editor.attempt.site, editor.attempt.args
    bracket = editor.source.after(site.slots[(0,)][1])
    end = Edit(site.span[1], site.span[1] - site.span[0], site.span[1], f".get(out_sharding={editor.specs(spec)})")  # fmt: skip
    edits = (Edit(bracket, 0, bracket, ".at"), end)
    return Fix("out_sharding", edits), lambda: array.at[index].get(out_sharding=spec)


def _auto(
    editor: Editor, specs: Sequence[Specs], scope: Mapping[str, Any]
) -> Iterator[Callable[[], Proposal]]:
    for spec in specs:
        yield partial(_auto_function, editor, spec)
        yield partial(_auto_lambda, editor, spec)
        yield partial(_auto_names, editor, spec, scope)
    slots = [slot for slot in editor.attempt.site.slots if len(slot) == 1 and slot[0] != "self"]
    if any(not isinstance(editor.attempt.value(slot), jax.Array) for slot in slots):
        for like in [
            [slot for slot in slots if isinstance(slot[0], int)],
            *([slot] for slot in slots),
        ]:
            yield partial(_auto_like, editor, like)


def _auto_like(editor: Editor, slots: Sequence[Slot]) -> Proposal:
    """A call under Auto axes whose results are sharded as operands, as those of an optimizer are."""
    values: Any = tuple(editor.attempt.value(slot) for slot in slots)
    text = ", ".join(editor.text(editor.attempt.site.slots[slot]) for slot in slots)
    values, text = (values, f"({text})") if len(slots) > 1 else (*values, text)
    specs = jax.tree.map(lambda each: jax.typeof(each).sharding.spec, values)
    tree, typeof = editor.name("jax.tree.map"), editor.name("jax.typeof")
    return _auto_function(editor, specs, f"{tree}(lambda a: {typeof}(a).sharding.spec, {text})")


def _auto_function(editor: Editor, spec: Specs, text: str = "") -> Proposal:
    attempt, site = editor.attempt, editor.attempt.site
    if site.kind != "call" or site.function is None:
        raise ValueError("not a call")
    start, opening = site.function[0], editor.source.after(site.function[1])
    length = opening - start
    edits = (
        Edit(start, -length, start, f"{editor.name('jax.sharding.auto_axes')}("),
        Edit(opening, length, opening, f", out_sharding={text or editor.specs(spec)})"),
    )
    called = jax.sharding.auto_axes(attempt.function, out_sharding=spec)
    return Fix("auto_axes", edits), partial(called, *attempt.args, **attempt.kwargs)


def _auto_lambda(editor: Editor, spec: Specs) -> Proposal:
    """The expression under Auto axes, as a function of its arrays."""
    attempt, site = editor.attempt, editor.attempt.site
    arrays = attempt.arrays()
    if site.kind == "augmented" or not arrays:
        raise ValueError("no operand is an array")
    names = {slot: f"a{at}" for at, slot in enumerate(arrays)}
    text, last = "", site.span[0]
    for slot in sorted(arrays, key=lambda slot: site.slots[slot]):
        start, end = site.slots[slot]
        if start < last:
            raise ValueError("operands are within each other")
        text, last = text + editor.text((last, start)) + names[slot], end
    text += editor.text((last, site.span[1]))
    values = ", ".join(editor.text(site.slots[slot]) for slot in arrays)
    auto = f"{editor.name('jax.sharding.auto_axes')}(lambda {', '.join(names.values())}: {text}"
    edit = Edit(*site.span[:1], 0, site.span[1], f"{auto}, out_sharding={editor.specs(spec)})({values})")  # fmt: skip
    run = lambda *given: attempt.with_values(dict(zip(arrays, given, strict=True)))()  # noqa: E731
    called = jax.sharding.auto_axes(run, out_sharding=spec)
    return Fix("auto_axes", (edit,)), partial(called, *arrays.values())


def _auto_names(editor: Editor, spec: Specs, scope: Mapping[str, Any]) -> Proposal:
    """The expression under Auto axes, as a function of the arrays that it names: a function within it
    uses them, too.
    """
    site = editor.attempt.site
    if site.kind == "augmented":
        raise ValueError("not an expression")
    text = editor.text(site.span)
    used = {node.id for node in ast.walk(parsed(f"({text})")) if isinstance(node, ast.Name)}
    values = {name: scope[name] for name in sorted(used & scope.keys())}
    arrays = {
        name: value
        for name, value in values.items()
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value))
    }
    names = ", ".join(arrays)
    function = eval(f"lambda {names}: ({text})", dict(scope))
    before = f"{editor.name('jax.sharding.auto_axes')}(lambda {names}: "
    after = f", out_sharding={editor.specs(spec)})({names})"
    called = jax.sharding.auto_axes(function, out_sharding=spec)
    return Fix("auto_axes", editor.around(site.span, before, after)), partial(called, *arrays.values())  # fmt: skip
