"""Refuses to start a compiled program that needs more memory than is free."""

from typing import Any

import jax

from spmd_core.base import bytes_text, refuse
from spmd_core.machine import spare_bytes


def check_room(compiled: Any, devices: int) -> None:
    """Checks the temporaries and results of a program, once compiled, against free memory.

    Args:
        compiled: for CPU devices, which share the memory of their host: without a limit of its own
            it takes all of that. Others refuse by themselves.
        devices: how many of this process run it at once.

    Raises:
        RequestError: they need more than may be taken.
    """
    stats, spare = compiled.memory_analysis(), spare_bytes()
    if jax.default_backend() != "cpu" or stats is None or spare is None:
        return
    each = stats.temp_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
    if (needed := each * devices) > spare:
        raise refuse(
            f"{bytes_text(needed)} of temporaries and results on {devices} simulated devices",
            f"exceed the {bytes_text(spare)} that may be taken of what is free",
            "use smaller sizes, or a topology such as tpu:v5e:4x4",
        )
