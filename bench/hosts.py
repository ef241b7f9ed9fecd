"""Where the lab is used: calibration beside loops by hand, machines that are not here, members of a
cluster. `python -m bench.hosts PART`; see `PARTS`.
"""

import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.figures import Asked, Figures, measure
from spmd_core.base import seconds_text

DEVICES, WAIT_S = 8, 300.0


def calibration(figures: Figures, rounds: int) -> None:
    """Slopes beside long loops that are written here: copies, matmuls, collectives. In turns, since
    the machine may be busy; the faster quarter of each side's rounds is compared.
    """
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    from spmd_core.engine.ceilings import calibration as measured
    from spmd_core.engine.ceilings.collective_sweep import measure
    from spmd_core.engine.ceilings.operations import Repeated, Unsteady, each_s
    from spmd_core.engine.lower import execute
    from spmd_core.experiment import parse_experiment
    from spmd_core.roofline import Case
    from spmd_core.script import program_text

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    fields = {"target": f"cpu:{DEVICES}", "mesh": {"x": DEVICES}}
    names, swept = (
        execute(
            program_text(parse_experiment({"workload": name, **fields}), "as_written"), f"{name}.py"
        )
        for name in ("calibrate", "collectives")
    )
    mesh, spec = names["mesh"], PartitionSpec("x")

    def by_hand(
        body: Callable[..., Any], count: int, *shapes: tuple[int, ...]
    ) -> Callable[[], float]:
        """Seconds of one turn of a loop of so many. A call's own (its result's fresh pages take as
        long as tens of turns that copy) are lost among them.
        """
        place = NamedSharding(mesh, spec)
        arrays = [jax.device_put(jnp.full((DEVICES, *shape), 0.01), place) for shape in shapes]

        def run(first: Any, *others: Any) -> Any:
            inside = tuple(each[0] for each in others)
            return jax.lax.scan(lambda x, _: (body(x, *inside), None), first[0], length=count)[0][
                None
            ]

        whole = jax.shard_map(
            run, mesh=mesh, in_specs=(spec,) * len(arrays), out_specs=spec, check_vma=False
        )
        call = jax.jit(whole).lower(*arrays).compile()

        def seconds() -> float:
            start = perf_counter()
            jax.block_until_ready(call(*arrays))
            return (perf_counter() - start) / count

        return seconds

    def of_operation(once: str, *shapes: tuple[int, ...]) -> Callable[[], float]:
        arrays = [names["filled"](mesh, shape, "float32") for shape in shapes]
        program = Repeated(names, mesh, names[once], arrays)

        def seconds() -> float:
            try:
                return each_s(program, measured.POINT_S)
            except Unsteady:
                return math.inf  # refused, which is not slow

        return seconds

    def of_collective(kind: str, nbytes: int) -> Callable[[], float]:
        case = Case(kind, ("x",), DEVICES, "float32", (nbytes,))

        def seconds() -> float:
            point = measure(case, nbytes, swept, measured.POINT_S)
            return point.time_s or math.inf

        return seconds

    turning = [(place, (place + 1) % DEVICES) for place in range(DEVICES)]
    twice: dict[str, Callable[[Any], Any]] = {
        "all-reduce": lambda x: jax.lax.psum(jax.lax.psum(x, "x"), "x"),
        "collective-permute": lambda x: jax.lax.ppermute(
            jax.lax.ppermute(x, "x", turning), "x", turning
        ),
        "all-to-all": lambda x: jax.lax.all_to_all(
            jax.lax.all_to_all(x, "x", 0, 0, tiled=True), "x", 0, 0, tiled=True
        ),
    }
    rows = {
        f"copy {side}": (
            of_operation("added", (side, side)),
            by_hand(lambda x: x + 1, max(200, 5 * 10**8 // side**2), (side, side)),
            1,
        )
        for side in (128, 1024, 2896)
    } | {
        f"matmul {side}": (
            of_operation("products", *[(side, side)] * 3),
            by_hand(lambda a, b, c: (a @ b) @ c, max(6, 3 * 10**9 // side**3), *[(side, side)] * 3),
            1,
        )
        for side in (64, 256, 512)
    }
    for kind, body in twice.items():
        for nbytes in (2**14, 2**20):
            count = 600 if nbytes < 2**18 else 300
            rows[f"{kind} {nbytes}"] = (
                of_collective(kind, nbytes),
                by_hand(body, count, (nbytes // 4,)),
                2,
            )
    for name, (ours, theirs, times) in rows.items():
        theirs()
        pairs = [(ours(), theirs() / times) for _ in range(rounds)]
        told = [pair for pair in pairs if pair[0] < math.inf]
        best = [sorted(each)[len(told) // 4] for each in zip(*told, strict=True)] if told else []
        figures.add(
            f"{name}, over a loop by hand",
            best[0] / best[1] if best else math.nan,
            least=0.9,
            most=1.1,
            note=f"{seconds_text(best[0]) if best else 'nothing'}, refused {rounds - len(told)} of {rounds}",
        )


CLUSTER, ALIKE = "cluster:local:4x1", "cpu:4"
WORKLOADS: tuple[dict[str, Any], ...] = (
    {"workload": "matmul", "dims": {"batch": 4, "m": 32, "k": 32, "n": 32}},
    {"workload": "elementwise", "dims": {"rows": 32, "cols": 16}},
    {"workload": "contraction"},
    {"workload": "layer"},
    {"workload": "dot", "dims": {"n": 16, "k": 4}},
    {"workload": "normalize"},
    {"workload": "mlp"},
    {"workload": "attention"},
    {"workload": "train_step"},
    {"workload": "transfer"},
)
MESHES = ({"x": 4}, {"x": 2, "y": 2}, {"x": 4, "y": 1})
STRATEGIES = ["auto", "constrained", "shard_map"]


def experiments(count: int) -> Iterator[dict[str, Any]]:
    """Experiments that are small: each workload on each mesh, its first dims sharded."""
    from spmd_core.experiment import parse_experiment
    from spmd_core.workloads import get_workload

    for number in range(count):
        fields, mesh = WORKLOADS[number % len(WORKLOADS)], MESHES[number // len(WORKLOADS) % 3]
        what = get_workload(fields["workload"])
        used = [axis for axis, size in mesh.items() if size > 1]
        sizes = parse_experiment(fields | {"target": ALIKE, "mesh": mesh}).sizes
        dims = [dim for dim in what.dims if sizes.get(dim, 1) % 4 == 0 and dim in sizes][
            : len(used)
        ]
        kept = [name for name in STRATEGIES if name in what.strategies]
        yield fields | {
            "mesh": mesh,
            "strategies": kept,
            "sharding": dict(zip(dims, used, strict=False)),
            "seed": number,
            "timing": {"samples": 5, "min_seconds": 0.05},
        }


def answers(figures: Figures, count: int) -> None:
    """Right answers, collectives and layouts of experiments on four processes of one device,
    against four devices of one process.
    """
    differ, slowest = list[str](), 0.0
    with opened() as lab:
        for number, fields in enumerate(experiments(count)):
            told = []
            for target in (ALIKE, CLUSTER):
                run, since = submitted(lab, fields | {"target": target}), perf_counter()
                lab.wait(run, WAIT_S)
                slowest = max(slowest, perf_counter() - since)
                told.append(facts_of(lab, run))
            if told[0] != told[1]:
                differ.append(f"{number} {fields['workload']} {fields['mesh']}")
                print("differs:", differ[-1], *told, sep="\n  ", flush=True)
    note = f"of {count}; the slowest took {seconds_text(slowest)}"
    figures.add("experiments that differ", len(differ), note, most=0)


def facts_of(lab: Any, run: str) -> Any:
    """What a run says of its programs apart from times: verdicts, collectives, shards of results."""
    result = lab.result(run)
    if result is None:
        return lab.status(run).error
    return {
        name: (
            each.status,
            each.correct,
            sorted((one.kind, one.axes, one.times) for one in each.collectives or ()),
            [
                (key, report.shape, report.spec, [shard.index for shard in report.shards or ()])
                for key, report in each.outputs.items()
            ],
        )
        for name, each in result.strategies.items()
    }


def kills(figures: Figures, count: int) -> None:
    """Kills (-9) of a random process of a run on several: the run ends by name, nothing is left,
    and the next run works.
    """
    dice, stuck, orphans, unnamed, slowest = random.Random(7), 0, 0, 0, 0.0
    long = next(experiments(1)) | {
        "target": "cluster:local:3x1",
        "mesh": {"x": 3},
        "sharding": {},
        "timing": {"samples": 1000, "min_seconds": 60},
    }
    with opened() as lab:
        for number in range(count):
            run = submitted(lab, long | {"seed": number})
            while (status := lab.status(run)).state not in ("running", "crashed", "failed"):
                time.sleep(0.02)
            time.sleep(dice.random() * 2)
            family = [status.worker_pid, *children(status.worker_pid)]
            struck = dice.randrange(len(family))
            os.kill(family[struck], signal.SIGKILL)
            since = perf_counter()
            status = lab.wait(run, 30)
            slowest = max(slowest, perf_counter() - since)
            stuck += status.state != "crashed"
            said = status.error.message if status.error else ""
            unnamed += struck > 0 and f"member {struck} of" not in said
            time.sleep(max(0.0, 2 - (perf_counter() - since)))
            orphans += sum(is_alive(pid) for pid in family)
            print(number, "struck", struck, status.state, said[:140], flush=True)
        run = submitted(lab, next(experiments(1)) | {"target": "cluster:local:2"})
        stuck += lab.wait(run, WAIT_S).state != "succeeded"
    figures.add("runs that did not end as crashed", stuck, f"of {count}", most=0)
    figures.add("members that were killed and not named", unnamed, most=0)
    figures.add("orphans after 2 s", orphans, most=0)
    figures.add("until the run had ended", slowest, "s", most=10)


def warm(figures: Figures, count: int) -> None:
    """Seconds from submitting a run to its first sample, on members that are up."""
    with opened() as lab:
        for target in ("cluster:local:2", "cluster:local:4"):
            took = list[float]()
            for number in range(count + 1):
                fields = next(experiments(1)) | {"target": target, "seed": number}
                run, since = submitted(lab, fields), perf_counter()
                while (status := lab.status(run)).phase != "sample" and not status.is_over:
                    time.sleep(0.01)
                took.append(perf_counter() - since)
                lab.wait(run, WAIT_S)
            figures.add(f"warm start on {target}", sorted(took[1:])[count // 2], "s", most=3)


ALONE, BESIDE = "cpu:4", "cluster:local:2"  # four devices each
SAMPLED: tuple[dict[str, Any], ...] = (
    {"workload": "elementwise", "dims": {"rows": 512, "cols": 1024}, "sharding": {"rows": "x"}},
    {
        "workload": "matmul",
        "dims": {"batch": 1, "m": 256, "k": 1024, "n": 256},
        "sharding": {"k": "x"},
    },
)
# the program of a run, called by hand in one process or two: the seconds of its median call
BARE = """
import sys
from time import perf_counter

import jax

path, member, meeting, calls = sys.argv[1:]
if meeting:
    jax.distributed.initialize(meeting, 2, int(member))
names = {}
exec(open(path).read(), names)
arrays = {
    name: jax.make_array_from_callback(each.shape, names["placed"][name], lambda at, a=each: a[at])
    for name, each in names["make_operands"]().items()
}
call, took = names["program"].lower(**arrays).compile(), []
for _ in range(int(calls)):
    start = perf_counter()
    jax.block_until_ready(call(**arrays))
    took.append(perf_counter() - start)
print(sorted(took)[len(took) // 2])
"""


def by_hand(text: str, target: str, calls: int = 400) -> float:
    """Seconds of a program's call without the lab, on the processes of a target."""
    from bench.odd_schedulers import free_address
    from spmd_core.lab.supervisor.environment import worker_environment
    from spmd_core.machine import parse_target, read_hardware

    environ, hosts = worker_environment(target, read_hardware()), parse_target(target).hosts
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(text)
        file.flush()
        meeting = free_address().removeprefix("tcp://") if hosts > 1 else ""
        words = [[file.name, str(member), meeting, str(calls)] for member in range(hosts)]
        started = [
            subprocess.Popen([sys.executable, "-c", BARE, *each], env=environ, stdout=-1, text=True)
            for each in words
        ]
        return max(float(each.communicate()[0].split()[-1]) for each in started)


def sample(figures: Figures, rounds: int) -> None:
    """A sample on two processes over one on one process of as many devices, beside what the same
    two programs differ by when they are called by hand: gloo's own.
    """
    from spmd_core.experiment import parse_experiment
    from spmd_core.script import program_text

    with opened() as lab:
        for each in SAMPLED:
            rows = list[dict[str, float]]()
            for number in range(rounds):
                row, fields = {}, each | {"strategies": ["auto"], "mesh": {"x": 4}, "seed": number}
                for target in (ALONE, BESIDE):
                    experiment = parse_experiment(fields | {"target": target})
                    run = lab.submit(experiment)
                    lab.wait(run, WAIT_S)
                    row[target] = lab.result(run).strategies["auto"].median_s
                    lab.release()  # what waits for its next run is not to disturb the other
                    row[f"{target} by hand"] = by_hand(program_text(experiment, "auto"), target)
                rows.append(row)
            best = {name: sorted(row[name] for row in rows)[rounds // 4] for name in rows[0]}
            gloo = best[f"{BESIDE} by hand"] - best[f"{ALONE} by hand"]
            told = ", ".join(f"{name} {seconds_text(took)}" for name, took in best.items())
            figures.add(
                f"a sample of {each['workload']}, over one process and gloo's own",
                best[BESIDE] / (best[ALONE] + gloo),
                most=1.1,
                note=told,
            )


SLICE = {"TPU_WORKER_HOSTNAMES": "a,b,c,d", "TPU_WORKER_ID": "2", "TPU_TOPOLOGY": "4x4"}
GKE = SLICE | {"TPU_PROCESS_ADDRESSES": "a:8476,b:8476,c:8476,d:8476", "TPU_HOST_BOUNDS": "2,2,1"}
NO_METADATA = {"TPU_SKIP_MDS_QUERY": "1"}
ACCEL, VFIO = "dev/accel{}", "dev/vfio/{}"
# name, file pattern, files, PCI id, chips on PCI, environment -> title, chips, host, hosts, bounds
MACHINES: tuple[tuple[Any, ...], ...] = (
    ("v2-8", ACCEL, 4, "0x0027 0x004e", 4, {}, "TPU v2", 4, None, 1, None),
    ("v3-8", ACCEL, 4, "0x0027 0x004f", 4, {}, "TPU v3", 4, None, 1, None),
    ("v4-8", ACCEL, 4, "0x005e", 4, {}, "TPU v4", 4, None, 1, None),
    ("v4-32 host 2", ACCEL, 4, "0x005e", 4, SLICE, "TPU v4", 4, 2, 4, "2,2,1"),
    ("v5e-1", ACCEL, 1, "0x0063", 1, {}, "TPU v5e", 1, None, 1, None),
    ("v5e-4", VFIO, 4, "0x0063", 4, {}, "TPU v5e", 4, None, 1, None),
    ("v5e-8", VFIO, 8, "0x0063", 8, {}, "TPU v5e", 8, None, 1, None),
    ("v5e-16 host 2", VFIO, 4, "0x0063", 4, SLICE, "TPU v5e", 4, 2, 4, "2,2,1"),
    ("v5e-32 of hosts of 8", VFIO, 8, "0x0063", 8, SLICE, "TPU v5e", 8, 2, 4, "2,4,1"),
    ("v5p-8", VFIO, 4, "0x0062", 4, {}, "TPU v5p", 4, None, 1, None),
    ("v5p-32 host 2", VFIO, 4, "0x0062", 4, SLICE, "TPU v5p", 4, 2, 4, "2,2,1"),
    ("v6e-1", VFIO, 1, "0x006f", 1, {}, "TPU v6e", 1, None, 1, None),
    ("v6e-8", VFIO, 8, "0x006f", 8, {}, "TPU v6e", 8, None, 1, None),
    ("TPU7x-8", VFIO, 8, "0x0076", 4, {}, "TPU7x", 4, None, 1, None),
    ("GKE pod, v5e", VFIO, 4, "0x0063", 4, GKE, "TPU v5e", 4, 2, 4, "2,2,1"),
    ("GKE pod, v6e", VFIO, 4, "0x006f", 4, GKE, "TPU v6e", 4, 2, 4, "2,2,1"),
    ("GKE pod, one of 4 chips", VFIO, 1, "0x0063", 4, {}, "TPU v5e", 1, None, 1, None),
    ("NVIDIA", "dev/nvidia{}", 2, "", 0, {}, "NVIDIA GPU", 2, None, 1, None),
    ("a network card on vfio", "dev/vfio/9{}", 1, "0x101e", 1, {}, None, 0, None, 1, None),
    ("nothing", "dev/null{}", 1, "", 0, {}, None, 0, None, 1, None),
)


def machines(figures: Figures, count: int) -> None:
    """Folders that imitate machines: what the lab reads there, and what its worker starts with."""
    from spmd_core.lab.supervisor.environment import worker_environment
    from spmd_core.machine import read_hardware

    wrong = list[str]()
    for name, pattern, files, ids, chips, environ, *expected in MACHINES:
        with tempfile.TemporaryDirectory() as folder:
            for number in range(files):
                written(Path(folder) / pattern.format(number), "")
            for number in range(chips):
                card, device, *subsystem = (
                    Path(folder) / f"sys/bus/pci/devices/0000:00:0{number}.0",
                    *ids.split(),
                )
                written(card / "vendor", "0x15b3\n" if device == "0x101e" else "0x1ae0\n")
                written(card / "device", f"{device}\n")
                written(card / "subsystem_device", f"{(*subsystem, '0x0')[0]}\n")
            hardware = read_hardware(Path(folder), environ | NO_METADATA)
        given = worker_environment("local", hardware, environ)
        bounds = given.get("TPU_CHIPS_PER_PROCESS_BOUNDS")
        left = [key for key in environ if given.get(key) == environ[key]]
        read = [hardware.name, hardware.chips, hardware.slice_host, hardware.slice_hosts, bounds]
        if read != expected or left:
            wrong.append(name)
            print("differs:", name, read, expected, left, flush=True)
    figures.add("machines that are read wrong", len(wrong), f"of {len(MACHINES)}", most=0)


def written(path: Path, text: str) -> None:
    """A file of an imitated machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def recording(figures: Figures, count: int) -> None:
    """A profile of TPUs (`SPMD_LAB_RECORDING`), as the lab reads it and by hand: devices, events,
    executions, busy seconds of each device.
    """
    import jax

    from spmd_core.engine.measured.tracing import read

    data = jax.profiler.ProfileData.from_file(os.environ["SPMD_LAB_RECORDING"])
    read_here = read(data)
    differences = 0
    for plane in data.planes:
        if not plane.name.startswith("/device:TPU:"):
            continue
        device = int(plane.name.rpartition(":")[2])
        lines = {line.name: list(line.events) for line in plane.lines}
        ours = [each for each in read_here.events if each.device == device and not each.beside]
        theirs = lines.get("XLA Ops", [])
        beside = sum(each.device == device and each.beside for each in read_here.events)
        runs = sum(each.device == device for each in read_here.executions)
        busy = sum(each.length_s for each in ours), sum(each.duration_ns for each in theirs) / 1e9
        modules = len(lines.get("XLA Modules", ()))
        print(plane.name, len(ours), len(theirs), runs, modules, beside, *busy, flush=True)
        differences += (len(ours), runs) != (len(theirs), modules)
        differences += beside != len(lines.get("Async XLA Ops", []))
        differences += not math.isclose(*busy, rel_tol=1e-6)
    figures.add("devices that are read otherwise than by hand", differences, most=0)


@contextmanager
def opened() -> Iterator[Any]:
    """A lab with a data folder of its own."""
    from spmd_core.lab import Lab

    with tempfile.TemporaryDirectory(prefix="spmd-lab-hosts-") as name:
        lab = Lab.open(Path(name))
        try:
            yield lab
        finally:
            lab.close()


def submitted(lab: Any, fields: dict[str, Any]) -> str:
    """The run of an experiment."""
    from spmd_core.experiment import parse_experiment

    return lab.submit(parse_experiment(fields))


def children(pid: int) -> list[int]:
    """The processes that one started."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z"


PARTS: dict[str, Callable[[Figures, int], None]] = {
    "calibration": calibration,
    "answers": answers,
    "kills": kills,
    "warm": warm,
    "sample": sample,
    "machines": machines,
    "recording": recording,
}


def main(options: Asked, figures: Figures) -> None:
    PARTS[options.part](figures, options.count)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        part={"place": True, "choices": PARTS, "nargs": "?", "default": "calibration"},
        count=(7, "rounds, machines, runs or kills"),
    )
