"""The worker process: owns the devices of one target, and runs experiments one after another until
its parent is gone.
"""

import argparse
import faulthandler
import os
import queue
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from typing import NoReturn

from spmd_core.base import Alone, LabError, WorkerError, descriptors, imported, member_words
from spmd_core.machine import parse_target
from spmd_core.results import Failure
from spmd_core.runs import (
    COMMANDS,
    READ_BYTES,
    CancelCommand,
    Command,
    Event,
    Failed,
    Lines,
    Phase,
    PingCommand,
    Pong,
    Ready,
    RestedCommand,
    RunCommand,
    Started,
    channel_to_parent,
    send,
)
from spmd_core.worker.members import Members, meeting_place

# A Dask worker pings its member each second: one that is stopped ends nothing any more
MOST_SILENT_S = 8
OF_ALL_MEMBERS = (Started, Ready, Failed, Pong)  # progress and results are the first one's


class Commands:
    """Reads commands in a thread of its own; the end of input ends the process, whatever native
    code is running. So does the silence of a parent that pings.
    """

    def __init__(
        self, channel: socket.socket, emit: Callable[[Event], None], is_pinged: bool = False
    ):
        self._channel, self._lines, self.emit = channel, Lines[Command](COMMANDS), emit
        self._look_s = 1.0 if is_pinged else None
        self._runs: queue.Queue[RunCommand] = queue.Queue()
        self.running: RunCommand | None = None  # the last one
        self._cancelled: set[str | None] = set()
        self._rested_s = 0.0
        self.members: Members | None = None  # to whom the first of them passes commands on
        threading.Thread(target=self._read, name="commands", daemon=True).start()

    def next_run(self) -> RunCommand:
        """The next run, once there is one."""
        command = self._runs.get()
        self.running = command
        return command

    def is_cancelled(self) -> bool:
        """Whether the current run was cancelled."""
        return self._run in self._cancelled

    @property
    def _run(self) -> str | None:
        return self.running.run if self.running else None

    def clock(self) -> float:
        """Seconds, as time.perf_counter() counts them, without those in which it was paused."""
        return time.perf_counter() - self._rested_s

    def _read(self) -> None:
        try:
            while data := self._received():
                for command in self._lines.feed(data):
                    if isinstance(command, CancelCommand):
                        self._cancelled.add(command.run or self._run)
                    elif isinstance(command, PingCommand):
                        self.emit(Pong())
                    elif isinstance(command, RestedCommand):
                        self._rested_s += command.seconds
                    else:
                        if self.members:
                            self.members.send(command)
                        self._runs.put(command)
        except (OSError, WorkerError) as error:
            print(f"commands ended: {error}", file=sys.stderr, flush=True)
        finally:
            # the parent is gone: let go of the devices at once, without waiting for native code
            os._exit(0)

    def _received(self) -> bytes:
        """What comes next; nothing where the parent is gone, or silent for MOST_SILENT_S looks: no
        second counts in which this process was stopped itself.
        """
        for _ in range(MOST_SILENT_S):
            if descriptors.readable([self._channel], self._look_s):
                return self._channel.recv(READ_BYTES)
        return b""


def main() -> int:
    """Report the devices, then run what the commands name."""
    parser = argparse.ArgumentParser(prog="python -m spmd_core.worker")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--member", type=int, default=0, help="of a run on several hosts")
    parser.add_argument("--hosts", type=int, default=0, help="how many members there are")
    parser.add_argument("--meet", default="", help="address of the first member, for all of them")
    arguments = parser.parse_args()
    channel = channel_to_parent(arguments.fd)
    faulthandler.enable()
    sending = threading.Lock()

    def emit(event: Event) -> None:
        if arguments.member == 0 or isinstance(event, OF_ALL_MEMBERS):
            with sending:
                send(channel, event)

    emit(Started())
    commands = Commands(channel, emit, is_pinged=arguments.hosts > 0)
    hosts = arguments.hosts or parse_target(arguments.target).hosts
    try:
        if hosts > 1:
            _join(arguments, hosts, commands)
        if parse_target(arguments.target).is_absent:
            _compile_only(arguments.target, commands, emit)
        _measure(arguments.target, commands, emit)
    # The last stop: reported in full, and the process ends. Functions of the user's own may raise
    # what is no Exception, such as KeyboardInterrupt
    except BaseException as error:
        if not isinstance(error, LabError | Alone):
            traceback.print_exc()
        failure = _failure(error, commands.running)
        if hosts > 1 and arguments.member == 0:  # who carries the lines of the others names them
            place = (0, hosts, arguments.target, socket.gethostname(), os.getpid())
            words = f"{member_words(*place)} failed: {failure.message}"
            failure = failure.model_copy(update={"message": words})
        emit(Failed(error=failure))
        return 1


def _join(arguments: argparse.Namespace, hosts: int, commands: Commands) -> None:
    """Become a member of a run on several hosts; where these are processes of this machine, the
    first starts the others.
    """
    with nullcontext(arguments.meet) if arguments.meet else meeting_place() as meeting:
        if not arguments.meet:
            commands.members = Members(arguments.target, meeting, commands.emit)
        from spmd_core.engine import members  # jax, after the thread that watches the parent

        members.join(hosts, arguments.member, meeting)


def _failure(error: BaseException, running: RunCommand | None) -> Failure:
    kind = type(error).__name__
    if isinstance(error, Exception | Alone) or running is None:
        return Failure(kind=kind, message=str(error) or kind)
    name = running.experiment.workload
    detail = f" ({error})" if str(error) else ""
    message = f"{name} raised {kind}{detail}, which ends the process: let it raise an Exception"
    return Failure(kind=kind, message=message)


def _measure(target: str, commands: Commands, emit: Callable[[Event], None]) -> NoReturn:
    """Run each experiment on the devices of the target, which must stay what they were."""
    # jax loads here, after the thread that watches the parent
    from spmd_core.engine import devices
    from spmd_core.engine.measured import compiled, run

    imported()
    ready = devices.describe(target)
    emit(Ready(environment=ready))
    while True:
        command = commands.next_run()
        environment = devices.describe(target, ready.device_count)
        now = (environment.platform, environment.device_kind)
        if now != (ready.platform, ready.device_kind):
            raise WorkerError(
                f"platform {environment.platform} is not the {ready.platform} that "
                "the worker started with: run it again"
            )
        work = compiled.compile_experiment if command.compile_only else run.run_experiment
        given = (command.experiment, command.run, environment, emit, commands.is_cancelled)
        if command.again:
            emit(run.run_again(*given, command.again, command.process))
            continue
        finished = work(*given)
        if command.experiment.is_mixed and not command.compile_only:
            from spmd_core.engine.absent import run as predict_run  # what only such a study needs

            finished = predict_run.with_predicted(finished, emit, commands.is_cancelled)
        emit(Phase(phase="write"))
        emit(finished)


def _compile_only(target: str, commands: Commands, emit: Callable[[Event], None]) -> NoReturn:
    """Compile for whichever topology each experiment names; of a new one its devices are named
    first.
    """
    from spmd_core.engine.absent import run as predict_run, topology as absent_devices

    imported()
    environment = absent_devices.describe(target)
    emit(Ready(environment=environment))
    while True:
        command = commands.next_run()
        if command.experiment.target != target:
            target, environment = (
                command.experiment.target,
                absent_devices.describe(command.experiment.target),
            )
            emit(Ready(environment=environment))
        finished = predict_run.predict_experiment(
            command.experiment,
            command.run,
            environment,
            emit,
            commands.is_cancelled,
            commands.clock,
        )
        emit(Phase(phase="write"))
        emit(finished)
        if finished.renew_worker:
            os._exit(0)  # at once: a compile that was not waited for keeps the cores busy


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # native threads of a failed backend must not keep the devices
