"""The operands of a run: drawn once, and placed once for all strategies that place them alike."""

import weakref
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding, SingleDeviceSharding


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
                return self._alike(array, sharding)
        placed = self._on_devices(name, sharding)
        self._placed[name].append(weakref.ref(placed))
        return placed

    @staticmethod
    def _alike(array: jax.Array, sharding: Sharding) -> jax.Array:
        """The array's own buffers under another name of its sharding."""
        if sharding.is_fully_addressable:
            return jax.device_put(array, sharding)
        shards = [shard.data for shard in array.addressable_shards]
        return jax.make_array_from_single_device_arrays(array.shape, sharding, shards)

    def _on_devices(self, name: str, sharding: Sharding) -> jax.Array:
        """Each process makes the shards of its own devices: every one has drawn the operand."""
        if sharding.is_fully_addressable:
            return jax.device_put(self[name], sharding)
        values = np.asarray(self[name])
        places = sharding.addressable_devices_indices_map(values.shape)
        shards = [
            jax.device_put(
                values[index], SingleDeviceSharding(at, memory_kind=sharding.memory_kind)
            )
            for at, index in places.items()
        ]
        return jax.make_array_from_single_device_arrays(values.shape, sharding, shards)
