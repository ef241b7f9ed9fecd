"""The process that holds the Dask client: for what is compiled, or, with a target, as the worker of
a named cluster. It has nothing of the lab's but a socket of JSON lines,
and ends with it.
"""

import argparse
import asyncio
import os
import resource
import socket
import sys
import traceback
from contextlib import suppress

from pydantic import BaseModel

from spmd_core.base import imported
from spmd_core.lab.cluster import hosts
from spmd_core.lab.cluster.client import DaskClient
from spmd_core.lab.cluster.messages import ALIVE_S, COMMANDS, Alive, Command, Refuse, Submit
from spmd_core.runs import READ_BYTES, Lines, channel_to_parent, encode

MOST_MEMORY = 4 * 2**30  # bytes of address space: a length that a stranger sends is not to be met


async def serve(channel: socket.socket, address: str, files: tuple[str, ...]) -> None:
    """Carry commands to the cluster, and events back, until the lab is gone."""
    reader, writer = await asyncio.open_connection(sock=channel)

    def emit(event: BaseModel) -> None:
        writer.write(encode(event))

    async def beat() -> None:
        while True:
            emit(Alive())
            await asyncio.sleep(ALIVE_S)

    async def listen() -> None:
        lines: Lines[Command] = Lines(COMMANDS)
        while data := await reader.read(READ_BYTES):
            for command in lines.feed(data):
                if isinstance(command, Submit):
                    client.submit(command)
                elif isinstance(command, Refuse):
                    client.refuse(command.run, command.how)
                else:
                    client.forget(command.run)
        os._exit(0)  # the lab is gone: whatever Dask's threads still do

    client = DaskClient(address, files, emit)
    await asyncio.gather(beat(), listen(), client.keep())


def main() -> None:
    """Serve the lab that started this process."""
    imported()
    parser = argparse.ArgumentParser(prog="python -m spmd_core.lab.cluster")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--target", default="", help="that members of the cluster are to run")
    parser.add_argument("--workloads", default="", help="hash of the lab's own, which hosts need")
    parser.add_argument("address")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    with suppress(ValueError, OSError):  # a system that has no such limit, or a lower one
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    channel = channel_to_parent(arguments.fd)
    try:
        place = arguments.address, tuple(arguments.files)
        carry = (
            hosts.serve(channel, hosts.MembersWanted(arguments.target, arguments.workloads), *place)
            if arguments.target
            else serve(channel, *place)
        )
        asyncio.new_event_loop().run_until_complete(carry)
    except (
        BaseException
    ) as error:  # the last stop: what a stranger's bytes lead to may raise SystemExit
        sys.stderr.writelines(traceback.format_exception_only(error))
        sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    main()
