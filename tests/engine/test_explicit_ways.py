"""Ways to let an expression of a user's file trace under Explicit axes."""

import ast
from types import SimpleNamespace
from typing import Any

import jax
import pytest
from jax.sharding import PartitionSpec as P

from spmd_core.engine.explicit.attempt import spec_text
from spmd_core.engine.explicit.reshards import branches, loop


class Layer:
    """A module of Flax that holds variables has no hash, and may not be compared."""

    def __hash__(self) -> int:
        raise TypeError("Can't call __hash__ on modules that hold variables.")

    def __eq__(self, other: object) -> bool:
        raise TypeError("Can't compare modules that hold variables.")


def test_a_module_that_is_called_is_neither_a_loop_nor_a_branch():
    editor: Any = SimpleNamespace(attempt=SimpleNamespace(function=Layer(), args=(1, 2, 3)))
    assert [*loop(editor), *branches(editor, [P()])] == []


@jax.tree_util.register_pytree_node_class
class Box:
    """A library's own node, whose text is no Python."""

    def __init__(self, inside: Any):
        self.inside = inside

    def tree_flatten(self) -> Any:
        return (self.inside,), None

    @classmethod
    def tree_unflatten(cls, _: None, inside: Any) -> "Box":
        return cls(*inside)


@pytest.mark.parametrize(
    "tree",
    [
        P(),
        P("x", None),
        P(("x", "y"), "z"),
        (P("x"),),
        [P("x"), None],
        {"a": (P("x"), [P(("x", "y"))]), "b": {}},
    ],
)
def test_specs_are_written_as_python_that_gives_them(tree):
    text = spec_text(tree, "jax.P")
    ast.parse(text, mode="eval")
    assert eval(text, {"jax": SimpleNamespace(P=P)}) == jax.tree.map(lambda each: each, tree) or (
        text == 'jax.P("x")'  # what is not sharded at the end is left out
    )


@pytest.mark.parametrize("tree", [Box(P("x")), {"it's": P("x")}, {3: P("x")}, (Box(P()),)])
def test_specs_in_a_node_that_python_does_not_write_are_refused(tree):
    with pytest.raises(ValueError, match="cannot be written out"):
        spec_text(tree, "P")
