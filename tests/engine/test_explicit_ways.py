"""Ways to let an expression of a user's file trace under Explicit axes."""

from types import SimpleNamespace
from typing import Any

from jax.sharding import PartitionSpec as P

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
