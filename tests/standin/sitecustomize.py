"""Put on PYTHONPATH by tests: gives a worker process an engine without jax, whose seed says how it
misbehaves.
"""

import ctypes
import os
import signal
import sys
import time
import types

(
    QUICK,
    ENDLESS,
    STUBBORN,
    STRAY,
    JUNK,
    ROUNDS,
    DEAF,
    RENEW,
    ABORT,
    LARGE,
    RAISES,
    NOISY,
    NO_DEVICES,
    HALF_LINE,
    SUMS,
    ENDS_AGAIN,
    STOPS_AGAIN,
    FAILS_ALONE,
    FAILS_AT_LENGTH,
) = range(19)
# rounds: ten minutes, so that no machine is too slow to find such a run at work
LONG = int(os.environ.get("STANDIN_LONG", 30_000))


def describe(target, expected_device_count=None):
    from spmd_core.base.errors import WorkerError
    from spmd_core.results.machine import Environment

    if os.environ.get("STANDIN_NO_DEVICES"):
        raise WorkerError("target has no usable device: this is a test")
    if os.environ.get("STANDIN_DIES_AT_START"):
        os.write(2, b"cannot load the driver\n")
        os._exit(3)
    return Environment(
        jax="0", jaxlib="0", python="3", platform="cpu", device_kind="stand-in", device_count=8
    )


def run_experiment(experiment, run_id, environment, emit, cancelled):
    from spmd_core.runs.events import Phase, Texts

    if log := os.environ.get("STANDIN_LOG"):
        with open(log, "a") as file:
            file.write(f"{run_id} {os.getpid()} {os.getppid()}\n")
    emit(Phase(phase="compile", strategy="single"))
    _progress(emit, 1)
    behave = {
        ENDLESS: _endless,
        STUBBORN: _stubborn,
        STRAY: _stray,
        JUNK: _junk,
        ABORT: _abort,
        RAISES: _raise,
        NOISY: _noisy,
        HALF_LINE: _half_line,
        FAILS_ALONE: _fail_alone,
        FAILS_AT_LENGTH: _fail_at_length,
    }
    if experiment.seed in behave:
        behave[experiment.seed](emit)
    rounds = LONG if experiment.seed in (ROUNDS, DEAF) else int(os.environ.get("STANDIN_ROUNDS", 2))
    emit(Phase(phase="sample"))
    for done in range(1, rounds + 1):
        if cancelled() and experiment.seed != DEAF:
            return _finished(experiment, run_id, environment, partial=True)
        if rounds > 2:
            _progress(emit, done)
            time.sleep(0.02)
    while (awaited := os.environ.get("STANDIN_UNTIL")) and not os.path.exists(awaited):
        time.sleep(0.005)  # until the test has made this file
    while (tickets := os.environ.get("STANDIN_TICKETS")) and not _took_one(tickets):
        if cancelled():
            return _finished(experiment, run_id, environment, partial=True)
        time.sleep(0.005)
    size = 8_000_000 if experiment.seed == LARGE else 10
    emit(Texts(strategy="single", texts={"program": "text " * (size // 5)}))
    return _finished(
        experiment, run_id, environment, notes=("x" * size,), renew=experiment.seed == RENEW
    )


def run_again(experiment, run_id, environment, emit, cancelled, again, process):
    """As if measured in a further process: in the same time, unless its seed ends or stops it."""
    if log := os.environ.get("STANDIN_LOG"):
        with open(log, "a") as file:
            file.write(f"{run_id} {os.getpid()} {os.getppid()}\n")
    if experiment.seed == ENDS_AGAIN:
        os.abort()
    if experiment.seed == STOPS_AGAIN:
        while not cancelled():
            _progress(emit, 1)
            time.sleep(0.01)
        return _finished(experiment, run_id, environment, partial=True)
    return _finished(experiment, run_id, environment)


def compile_experiment(experiment, run_id, environment, emit, cancelled):
    """As if compiled: a sum over `x` where rows are sharded over it and y is not; sharded columns
    are fatal.
    """
    from spmd_core.facts.collective import Collective
    from spmd_core.results.result import MemoryBytes

    if experiment.seed == SUMS and "cols" in dict(experiment.sharding):
        os.abort()
    found = run_experiment(experiment, run_id, environment, emit, cancelled)
    sums = (Collective(kind="all-reduce", axes=("x",), bytes=2**24, count=1),)
    listed = sums if dict(experiment.sharding) and not experiment.overrides else ()
    held = MemoryBytes(argument=2**20 if listed else 2**21, output=0, temp=0)
    compiled = {
        name: each.model_copy(update={"collectives": listed, "memory_bytes": held})
        for name, each in found.result.strategies.items()
    }
    here = environment.model_copy(update={"simulated": True, "cores": 2})
    return found.model_copy(
        update={
            "result": found.result.model_copy(update={"strategies": compiled, "environment": here})
        }
    )


def predict_experiment(experiment, run_id, environment, emit, cancelled, clock):
    if experiment.seed == SUMS:
        return compile_experiment(experiment, run_id, environment, emit, cancelled)
    started, wall = clock(), time.perf_counter()
    found = run_experiment(experiment, run_id, environment, emit, cancelled)
    rested = (time.perf_counter() - wall) - (clock() - started)
    notes = (f"rested for {rested:.1f} s",)
    return found.model_copy(update={"result": found.result.model_copy(update={"notes": notes})})


def _took_one(folder):
    """Whether there was a file in a folder, which nobody else takes then: one run may end for each."""
    for ticket in os.scandir(folder):
        try:
            os.unlink(ticket)
            return True
        except FileNotFoundError:
            continue
    return False


def _progress(emit, done):
    from spmd_core.runs.events import Progress

    emit(Progress(done=done, of=LONG, medians_s={"single": 0.001}))


def _finished(experiment, run_id, environment, partial=False, notes=(), renew=False):
    from spmd_core.results.result import Result, StrategyResult
    from spmd_core.runs.events import Finished

    outcomes = {}
    for row in experiment.rows:
        seconds = 0.001 * len(row.experiment.mesh)
        turns = tuple((seconds,) for _ in range(experiment.timing.samples))
        outcomes[row.key] = StrategyResult(
            status="cancelled" if partial else "ok",
            median_s=seconds,
            samples_s=(seconds,),
            turns_s=turns if experiment.variants else (),
            correct=True if experiment.variants else None,
        )
    comparison = None
    if experiment.variants:
        from spmd_core.results import stats

        comparison = stats.compare({key: each.turns_s for key, each in outcomes.items()})
    result = Result(
        run=run_id,
        experiment=experiment,
        environment=environment,
        strategies=outcomes,
        comparison=comparison,
        partial=partial,
        notes=notes,
    )
    return Finished(result=result, renew_worker=renew)


def _endless(emit):
    while True:
        # native code that keeps the interpreter's lock: no Python thread runs any more
        ctypes.PyDLL(None).pause()


def _stubborn(emit):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _endless(emit)


def _stray(emit):
    print("a stray print")
    print('{"event": "finished"}', flush=True)
    os.write(1, b"\x00\xff bytes from C++\n")
    os.write(2, b"E0000 on stderr\n")


def _junk(emit):
    os.write(int(sys.argv[sys.argv.index("--fd") + 1]), b"this is no event\n")
    _endless(emit)


def _half_line(emit):
    os.write(int(sys.argv[sys.argv.index("--fd") + 1]), b'{"event": "finished", "result": ')
    os._exit(7)


def _abort(emit):
    print("a stray print", flush=True)
    os.write(2, b"F0000 the rendezvous was not reached in time\n")
    os.abort()


def _raise(emit):
    raise RuntimeError("a mistake in the engine")


def _fail_alone(emit, words="a mistake in this member"):
    """In the second member of a run on several hosts; the others wait for it."""
    if "--member=1" in "=".join(sys.argv):
        raise RuntimeError(words)
    _endless(emit)


def _fail_at_length(emit):
    """With an error whose line is fetched, since it is too long to be sent."""
    _fail_alone(emit, f"a mistake in this member {'of many words ' * 2000}")


def _noisy(emit):
    for _ in range(40):
        os.write(2, b"noise " * 200_000)
    os.write(2, b"the last words\n")
    os.abort()


if "-m" in sys.orig_argv and "spmd_core.worker" in sys.orig_argv:
    engine = types.ModuleType("spmd_core.engine")
    engine.devices = types.SimpleNamespace(describe=describe)
    engine.members = types.SimpleNamespace(join=lambda *arguments: None)
    engine.measured = types.ModuleType("spmd_core.engine.measured")
    engine.measured.run = types.SimpleNamespace(run_experiment=run_experiment, run_again=run_again)
    engine.measured.compiled = types.SimpleNamespace(compile_experiment=compile_experiment)
    engine.absent = types.ModuleType("spmd_core.engine.absent")
    engine.absent.topology = types.SimpleNamespace(describe=describe)
    engine.absent.run = types.SimpleNamespace(predict_experiment=predict_experiment)
    sys.modules["spmd_core.engine"] = engine
    sys.modules["spmd_core.engine.absent"] = engine.absent
    sys.modules["spmd_core.engine.measured"] = engine.measured
