"""The process that partitions programs: it holds no device, and answers until its parent is gone:
`python -m spmd_core.worker.partitioning --fd N`.
"""

import argparse
import faulthandler
import os
import time

from spmd_core.base import RequestError, imported
from spmd_core.results import Failure
from spmd_core.runs import (
    PARTITION,
    READ_BYTES,
    Failed,
    Lines,
    PartitionCommand,
    Partitioned,
    channel_to_parent,
    send,
)

# niceness of a compile: beside processes of the niceness that this one began with
_PATIENT = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)


def main() -> None:
    """Answer each command."""
    parser = argparse.ArgumentParser(prog="python -m spmd_core.worker.partitioning")
    parser.add_argument("--fd", type=int, required=True)
    channel = channel_to_parent(parser.parse_args().fd)
    faulthandler.enable()
    imported()
    lines = Lines(PARTITION)
    while data := channel.recv(READ_BYTES):
        for command in lines.feed(data):
            send(channel, _answer(command))


def _answer(command: PartitionCommand) -> Partitioned | Failed:
    from spmd_core.engine import partitioned  # jax, once a question has come

    start = time.process_time()
    try:
        if not command.is_quick:  # a screen shows what propagation answers first
            os.setpriority(os.PRIO_PROCESS, 0, _PATIENT)
        how = partitioned.propagated if command.is_quick else partitioned.partitioned
        answer = how(command.experiment, command.strategy)
    except Exception as error:  # whatever JAX raises is the answer
        kind = "RequestError" if isinstance(error, RequestError) else type(error).__name__
        return Failed(error=Failure(kind=kind, message=" ".join(str(error).split())[:600] or kind))
    return answer.model_copy(update={"seconds": time.process_time() - start})


if __name__ == "__main__":
    main()
    os._exit(0)
