"""One question has one answer: 200 random collectives, each asked through the functions that every
screen and command calls; and nobody but `time` reads a chip's rates.
"""

import ast
import math
import random
from dataclasses import dataclass

import pytest

import spmd_lab.ui.layout.moves as layout_screen
from bench.values import ENVIRONMENT
from spmd_core.experiment import parse_experiment
from spmd_core.facts import Collective
from spmd_core.fields import Axes, Mesh
from spmd_core.machine import get_topology, mesh_places
from spmd_core.pictures import Move, time_of
from spmd_core.results import Ceiling, MoveCost, Point, Result, StrategyResult
from spmd_core.roofline import (
    Calibration,
    Duration,
    Unknown,
    on_topology,
    program_time,
    times_where_run,
    with_expected,
    with_roofline,
)
from spmd_core.search import Space, read_array_question
from spmd_core.time import predict
from spmd_core.time.cost.comm import Cluster
from spmd_core.workloads import COLLECTIVES
from tests.layers import ROOT, source_files
from tests.roofline.test_expected import machine

TARGETS = (
    *("cpu:8", "local", "tpu:v5e:2x4", "tpu:v5p:2x2x2", "tpu:v5e:4x4", "tpu:v4:2x2x4"),
    *("gpu:h100:8", "gpu:h100:8x2", "gpu:a100:8"),
)
ABSENT = ("tpu", "gpu")
FLOOR_S = 5e-5
CORES = 2
BODIES = {
    "all-gather": "all-gather(%p), dimensions={{0}}, {groups}",
    "all-reduce": "all-reduce(%p), to_apply=%sum, {groups}",
    "reduce-scatter": "reduce-scatter(%p), dimensions={{0}}, to_apply=%sum, {groups}",
    "all-to-all": "all-to-all(%p), dimensions={{0}}, {groups}",
    "collective-permute": "collective-permute(%p), source_target_pairs={pairs}",
}
TEXT = """HloModule m, is_scheduled=true, num_partitions={devices}

%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}}

ENTRY %main (p: f32[{operand}]) -> f32[{result}] {{
  %p = f32[{operand}]{{0}} parameter(0)
  ROOT %c = f32[{result}]{{0}} {body}
}}
"""


@dataclass(frozen=True)
class Asked:
    """How long does this take here?"""

    target: str
    mesh: Mesh
    kind: str
    axes: Axes
    nbytes: int
    known: StrategyResult | None  # a calibration of this target and mesh

    @property
    def devices(self) -> int:
        return math.prod(size for axis, size in self.mesh if axis in self.axes)

    @property
    def groups(self) -> list[list[int]]:
        """Positions in the mesh of each group's devices."""
        positions = range(math.prod(size for _, size in self.mesh))
        found: dict[tuple[int, ...], list[int]] = {}
        for position in positions:
            rest, key = position, []
            for axis, size in reversed(self.mesh):
                if axis not in self.axes:
                    key.append(rest % size)
                rest //= size
            found.setdefault(tuple(key), []).append(position)
        return list(found.values())

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Around the ring of the first group, where it is a permute."""
        first = self.groups[0]
        ring = tuple(zip(first, [*first[1:], first[0]], strict=True))
        return ring if self.kind == "collective-permute" else ()

    def experiment(self, **fields):
        mesh = dict(self.mesh)
        return parse_experiment({"target": self.target, "mesh": mesh, **fields})

    def result(self, experiment, found: StrategyResult) -> Result:
        here = {**ENVIRONMENT, "simulated": self.target.startswith("cpu")}
        return Result.model_validate(
            {
                "run": "r",
                "experiment": experiment,
                "environment": here,
                "strategies": {"auto": found},
            }
        )

    @property
    def calibrated(self) -> Result | None:
        """The run of its calibration."""
        return self.known and self.result(self.experiment(workload="calibrate"), self.known)


def draw(random_: random.Random) -> Asked:
    target = random_.choice(TARGETS)
    devices = get_topology(target).devices if target.startswith(ABSENT) else 8
    meshes = [(devices,), (2, devices // 2), (devices // 2, 2), (2, 2, devices // 4)]
    mesh = tuple(zip("xyz", random_.choice(meshes), strict=False))
    axes = tuple(axis for axis, _ in mesh if random_.random() < 0.6) or ("x",)
    nbytes = 4 * devices * random_.randint(1, 2**17)
    known = None
    if not target.startswith(ABSENT) and random_.random() < 0.7:
        known = calibration(random_, mesh)
    return Asked(target, mesh, random_.choice(COLLECTIVES), axes, nbytes, known)


def calibration(random_: random.Random, mesh: Mesh) -> StrategyResult:
    """One that has some kinds over some axes, within programs or as programs of their own."""
    groups = [(axis,) for axis, _ in mesh] + [tuple(axis for axis, _ in mesh)]
    moves, points = [], []
    for kind in random_.sample(COLLECTIVES, 3):
        for axes in random_.sample(groups, random_.randint(1, len(groups))):
            devices = math.prod(size for axis, size in mesh if axis in axes)
            within = random_.random() < 0.5
            for nbytes in (2**14, 2**18, 2**22):
                seconds = random_.uniform(1, 2) * (1e-4 + nbytes / 1e9)
                fields = {"kind": kind, "axes": axes, "devices": devices, "bytes": nbytes}
                if within:
                    moves.append(MoveCost(**fields, seconds=seconds))
                else:
                    points.append(Point(**fields, dtype="float32", time_s=seconds + FLOOR_S))
    found = machine(moves=tuple(moves), points=tuple(points)).outcome
    floor = Ceiling(
        name="dispatch_mesh", title="", value=FLOOR_S, interval=(FLOOR_S, FLOOR_S), unit="s"
    )
    ceilings = [each for each in found.ceilings if each.name != floor.name]
    return found.model_copy(update={"ceilings": (*ceilings, floor)})


def on_layout(asked: Asked, monkeypatch) -> Duration | Unknown:
    class Lab:
        def latest(self, experiment):
            return "r" if asked.known else None

        def result(self, run):
            return asked.calibrated

        def hardware(self):
            return self

        cores = CORES

    monkeypatch.setattr(layout_screen, "lab", Lab)
    times = layout_screen.times_here(asked.experiment(workload="array"))
    return time_of(Move(asked.kind, asked.axes, asked.nbytes, pairs=asked.pairs), asked.mesh, times)


def on_collectives(asked: Asked) -> float | None:
    """Beside a point: the time of a call that does nothing else, so without the floor here."""
    options = {"kinds": asked.kind, "axes": "+".join(asked.axes), "points": 1}
    sizes = {"smallest": asked.nbytes, "largest": asked.nbytes}
    experiment = asked.experiment(workload="collectives", options=options | sizes)
    if experiment.place.is_absent:
        (point,) = on_topology(experiment)
        return point.predicted_s
    point = Point(
        kind=asked.kind, axes=asked.axes, devices=asked.devices, dtype="", bytes=asked.nbytes
    )
    found = asked.result(experiment, StrategyResult(status="ok", points=(point,)))
    (point,) = with_expected(found, asked.calibrated).strategies["auto"].points
    return None if point.predicted_s is None else point.predicted_s - FLOOR_S


def program(asked: Asked) -> tuple[Result, StrategyResult]:
    """A run whose program has this collective alone."""
    sent = Collective(
        kind=asked.kind,
        axes=asked.axes,
        bytes=asked.nbytes,
        count=1,
        group_size=asked.devices,
    )
    found = StrategyResult(status="ok", collectives=(sent,), operations=())
    experiment = asked.experiment(workload="layer", strategies=["auto"], dims=LARGE)
    return asked.result(experiment, found), found


LARGE = {"batch": 64, "in": 64, "out": 64}


def on_compare(asked: Asked) -> float | None:
    run, _ = program(asked)
    found = with_roofline(run, asked.calibrated).strategies["auto"]
    if found.roofline is not None and found.predicted_s is not None:
        assert found.predicted_s.estimate - FLOOR_S == pytest.approx(found.roofline.communication_s)
    return found.roofline and found.roofline.communication_s


def by_remedies(asked: Asked) -> float | None:
    run, found = program(asked)
    times = times_where_run(run.experiment, run.environment, asked.calibrated)
    time = program_time(run.experiment, "auto", found, times)
    return time and time.each_s[0]


def on_search(asked: Asked) -> Duration | Unknown:
    spec = {"workload": "layer", "target": asked.target, "mesh": dict(asked.mesh), "dims": LARGE}
    question = read_array_question(spec | {"sharding": None}, 8)
    known = {asked.target: Calibration(asked.known)} if asked.known else {}
    space = Space(question, CORES, known)
    found = space.times(asked.target).collective(asked.kind, asked.mesh, asked.axes, asked.nbytes)
    ranked = space._formulas[asked.target].times
    again = ranked.collective(asked.kind, asked.mesh, asked.axes, asked.nbytes)
    assert isinstance(again, Duration), "every candidate has a place in the order"
    assert isinstance(found, Unknown) or found == again
    return found


def by_predict(asked: Asked) -> float:
    """Compiled for a topology: the text of a program with this collective."""
    topology = get_topology(asked.target)
    places = mesh_places(topology, [size for _, size in asked.mesh]).reshape(-1, 5).tolist()
    groups = ",".join("{" + ",".join(map(str, group)) + "}" for group in asked.groups)
    pairs = ",".join(f"{{{source},{target}}}" for source, target in asked.pairs)
    whole, part = asked.nbytes // 4, asked.nbytes // 4 // asked.devices
    sizes = {"all-gather": (part, whole), "reduce-scatter": (whole, part)}
    operand, result = sizes.get(asked.kind, (whole, whole))
    body = BODIES[asked.kind].format(groups=f"replica_groups={{{groups}}}", pairs=f"{{{pairs}}}")
    text = TEXT.format(devices=len(places), operand=operand, result=result, body=body)
    cluster = Cluster(topology, tuple(map(tuple, places)))
    (found,) = predict(text, cluster, {}, asked.mesh).collectives
    assert found.bytes == asked.nbytes and found.seconds is not None
    return found.seconds


def test_two_hundred_questions_have_one_answer_each_whoever_asks(monkeypatch):
    random_, sources = random.Random(0), []
    for _ in range(200):
        asked = draw(random_)
        answer = on_layout(asked, monkeypatch)
        assert on_search(asked) == answer, asked
        if isinstance(answer, Unknown):
            others = on_collectives(asked), on_compare(asked), by_remedies(asked)
            assert others == (None, None, None) and answer.reason.count(".") >= 1, asked
            sources.append(answer.reason)
            continue
        assert answer.low <= answer.seconds <= answer.high
        sources.append("stand-in" if answer.stand_in else answer.source)
        if asked.target.startswith(ABSENT):
            others = on_collectives(asked), by_predict(asked)
        elif asked.known:
            assert answer.floor_s == FLOOR_S
            others = on_collectives(asked), on_compare(asked), by_remedies(asked)
        else:  # a guess is no prediction to hold beside what was measured
            assert (on_collectives(asked), on_compare(asked)) == (None, None)
            others = (by_remedies(asked),)
        assert others == pytest.approx((answer.seconds,) * len(others)), asked
    assert {"nominal", "calibrated", "stand-in", "guessed"} <= set(sources)
    assert len({source for source in sources if " " in source}) >= 2, "two reasons for no seconds"


@pytest.mark.parametrize("target", [name for name in TARGETS if name.startswith(ABSENT)])
@pytest.mark.parametrize("kind", COLLECTIVES)
def test_nothing_is_sent_over_an_axis_of_size_1_whoever_asks(kind, target, monkeypatch):
    devices = get_topology(target).devices
    asked = Asked(target, (("x", 1), ("y", devices)), kind, ("x",), 4096, None)
    answer = on_layout(asked, monkeypatch)
    assert isinstance(answer, Duration) and on_search(asked) == answer
    assert (answer.seconds, on_collectives(asked), by_predict(asked)) == (0.0, 0.0, 0.0)


RATES = {
    *("peak_flops", "device_flops", "hbm_bandwidth", "device_hbm_bandwidth", "link_bandwidth"),
    *("dcn_bandwidth", "host_bandwidth", "device_host_bandwidth"),
    *("latency_s", "move_costs", "ceilings", "fp8_flops", "float32_flops"),
    *("matmul_share", "fp8_share", "hbm_share", "ring_share", "switch_share"),
}
# What makes a calibration, or shows what was measured as a table, a sentence or JSON: no seconds
# are made of it there.
SHOWN = {
    "spmd_core/commands/collectives.py",
    "spmd_core/commands/printed/report.py",
    "spmd_core/engine/ceilings/calibration.py",
    "spmd_core/answers/machine_sheets.py",
    "spmd_core/answers/serving_sheet.py",
    "spmd_core/reports/run_document.py",
    "spmd_core/terms/bandwidth.py",
    "spmd_lab/ui/collectives/bandwidths.py",
}
OWNERS = ("spmd_core/time/", "spmd_core/roofline/", "spmd_core/machine/", "spmd_core/results/")


def rates_read(source: str) -> set[str]:
    """Names of rates that a source reads as attributes."""
    return {
        node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)
    } & RATES


def test_only_time_reads_the_rates_of_a_chip_or_of_a_calibration():
    found = {}
    for path in source_files():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(OWNERS) or name in SHOWN:
            continue
        if read := rates_read(path.read_text("utf-8")):
            found[name] = read
    assert found == {}
    assert all((ROOT / name).exists() for name in SHOWN)


def test_a_file_that_read_a_rate_would_be_found():
    assert rates_read("seconds = nbytes / topology.chip.link_bandwidth") == {"link_bandwidth"}
    assert rates_read("times.collective(kind, mesh, axes, nbytes)") == set()
