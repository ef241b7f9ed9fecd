"""What the members of a run on several hosts agree on. Each runs the same steps: the first decides
what depends on time, and each judges the shards that it holds. In a process of its own all of it is
free.
"""

import itertools
import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import numpy as np
from jax._src.distributed import global_state
from jax.experimental import multihost_utils

from spmd_core.base import Alone
from spmd_core.reference import Reference
from spmd_core.results import Failure, HostTime

# Longer than any run may take: a member that is gone ends the others otherwise
WAIT_MS = 24 * 3600 * 1000
HEARTBEAT_S = 24 * 3600  # JAX's own watch would end members that were paused
MEET_S = 60.0  # a member waits so long for the others ahead of a program of all
ALIKE_S = 10.0  # what fails in all of them does so within this; longer than a host may be silent
T = TypeVar("T")
_numbers = itertools.count()


def join(hosts: int, member: int, address: str) -> None:
    """Become one of so many members: JAX then lists the devices of all. The first waits for the
    others at an address, which all of them are given.
    """
    jax.distributed.initialize(
        address,
        hosts,
        member,
        coordinator_bind_address=address,
        heartbeat_timeout_seconds=HEARTBEAT_S,
    )


def agreed(value: T) -> T:
    """The first member's value, in all of them: what JSON holds. All call it at the same step."""
    if jax.process_count() == 1:
        return value
    key = f"spmd_lab/{next(_numbers)}"
    client: Any = global_state.client
    if jax.process_index() == 0:
        client.key_value_set(key, json.dumps(value))
        return value
    return json.loads(client.blocking_key_value_get(key, WAIT_MS))


def gathered(value: T, within_s: float = WAIT_MS / 1e3, step: str = "value") -> list[T]:
    """Every member's value, in their order, in all of them. Alone where one does not send its own
    within that time; a `step` that not all of them may come to has a name.
    """
    if jax.process_count() == 1:
        return [value]
    key, client = f"spmd_lab/{step}/{next(_numbers)}", global_state.client
    assert client is not None
    client.key_value_set(f"{key}/{jax.process_index()}", json.dumps(value))
    values = list[T]()
    for member in range(jax.process_count()):
        try:
            sent = client.blocking_key_value_get(f"{key}/{member}", int(within_s * 1e3))
        except jax.errors.JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
            raise Alone(f"member {member} was waited for in vain for {within_s:.0f} s") from None
        values.append(json.loads(sent))
    return values


@contextmanager
def alike(is_of_all: bool = True) -> Iterator[None]:
    """A step of all members, in which the others may wait for this one: an error of it is raised on
    where all of them have one, and ends the run where they have not.
    """
    try:
        yield
    except Exception as error:
        if not is_of_all:
            raise
        try:
            gathered(None, ALIKE_S, "failed")
        except Alone:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            has_traceback = any(line.startswith("Traceback") for line in lines)
            cause = lines[-1] if has_traceback else " ".join(lines)  # a callback's has one in it
            raise Alone(f"{type(error).__name__}: {cause} (in this member alone)") from error
        raise


def shared_failure(own: Failure | None, within_s: float = WAIT_MS / 1e3) -> Failure | None:
    """The failure of a member, in all of them; with its name where others have none."""
    place = f"member {jax.process_index()} (host {socket.gethostname()}, process {os.getpid()})"
    sent = gathered(own and (place, own.model_dump()), within_s)
    failed = [each for each in sent if each]
    if not failed or len(failed) == len(sent):
        return own
    where, fields = failed[0]
    words = f"{where} failed alone: {fields['message']}"  # pyrefly: ignore[bad-index]
    return Failure(kind=fields["kind"], message=words)  # pyrefly: ignore[bad-index]


def nothing(*arguments: object) -> None:
    """What a member calls where a program runs on another's devices alone."""


@dataclass(frozen=True, slots=True)
class Shards:
    """The parts of an array that this member holds, each with its place in the full array."""

    parts: tuple[tuple[Any, np.ndarray], ...]

    @property
    def nbytes(self) -> int:
        """Bytes that are held here."""
        return sum(part.nbytes for _, part in self.parts)

    def among(self, right: Reference, shape: Sequence[int]) -> np.ndarray:
        """An array of the full shape that is right wherever it is not held here."""
        complete = np.zeros(shape)
        if right.rows is None:
            complete[...] = right.values.reshape(shape)
        else:
            complete[(slice(None),) * right.axis + (right.rows,)] = right.values
        for index, part in self.parts:
            complete[index] = part
        return complete


def on_host(array: Any, shape: Sequence[int]) -> np.ndarray | Shards:
    """An array's values in that shape; the shards that are held here where there are others."""
    if not isinstance(array, jax.Array) or array.is_fully_addressable:
        return np.asarray(array).reshape(shape)
    if array.shape != tuple(shape):
        return complete(array).reshape(shape)
    return Shards(
        tuple((shard.index, np.asarray(shard.data)) for shard in array.addressable_shards)
    )


def complete(array: Any) -> np.ndarray:
    """An array's values, gathered from all members, all of which call it."""
    if array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


def host_times(medians: Sequence[tuple[str, int, float]]) -> tuple[HostTime, ...]:
    """Of each member that ran a program its host, devices and median seconds."""
    return tuple(
        HostTime(host=host, process=process, devices=devices, median_s=median)
        for process, (host, devices, median) in enumerate(medians)
        if median > 0
    )


def here() -> tuple[str, int]:
    """This member's host, and how many devices it has."""
    return socket.gethostname(), len(jax.local_devices())
