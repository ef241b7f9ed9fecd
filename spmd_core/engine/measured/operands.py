"""The operands of a run: drawn once, and placed once for all strategies that place them alike."""

import weakref
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import Sharding


class Operands(dict[str, Any]):
    """Operand name -> NumPy array. Strategies share what they place alike: memory is spent once,
    and its luck (address, page size) is the same.
    """

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values or {})
        self._placed: dict[str, list[weakref.ref[jax.Array]]] = defaultdict(list)

    def place(self, name: str, sharding: Sharding | None) -> jax.Array:
        """An operand with this sharding, over the buffers of one that is still in use and placed
        alike, or else anew.

        None: uncommitted, on the default device.
        """
        if sharding is None:
            return jax.numpy.asarray(self[name])
        for reference in self._placed[name]:
            array = reference()
            if array is not None and array.sharding.is_equivalent_to(sharding, array.ndim):
                return jax.device_put(array, sharding)
        placed = jax.device_put(self[name], sharding)
        self._placed[name].append(weakref.ref(placed))
        return placed
