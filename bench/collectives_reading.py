"""The program's list of collectives against another reading of the same modules; needs libtpu.

    python -m bench.collectives_reading [--quick]

25 experiments x 4 strategies and 12 FSDP-like ones, on v5e:4x4 and on v5p:2x2x2: kind, axes, bytes,
count, device ids, whether asynchronous, and the line where the op itself names one.
"""

from collections import Counter
from typing import Any

from bench.communicating import EXPERIMENTS, FSDP_LIKE, MESHES, STRATEGIES, on
from bench.compiled import own_lab, results
from bench.figures import Asked, Figures, measure
from bench.reader import Seen, read
from spmd_core.experiment import Experiment, device_numbers, parse_experiment
from spmd_core.facts import Collective
from spmd_core.lab import Lab
from spmd_core.program import file_name

Key = tuple[Any, ...]


def main(options: Asked, figures: Figures) -> None:
    experiments, like = (
        (EXPERIMENTS[::8], FSDP_LIKE[2:6:3]) if options.quick else (EXPERIMENTS, FSDP_LIKE)
    )
    good = of = listed = 0
    with own_lab() as lab:
        for target in MESHES:
            for specs, strategies in ((experiments, STRATEGIES), (like, ("auto",))):
                for spec, result in results(lab, [on(spec, target) for spec in specs], strategies):
                    for strategy, found in result.strategies.items():
                        of += 1
                        if found.collectives is None:
                            print(f"{spec['workload']} {strategy}: {found.error}", flush=True)
                            continue
                        wrong = differences(lab, result.run, spec, strategy, found.collectives)
                        good += not wrong
                        listed += len(found.collectives)
                        for line in wrong:
                            print(
                                f"{target} {spec['workload']} {spec['sharding']} "
                                f"{strategy}: {line}",
                                flush=True,
                            )
    figures.add(
        f"programs whose list another reading confirms, of {of}",
        good,
        least=of,
        note=f"{listed} collectives in all",
    )


def differences(
    lab: Lab, run: str, spec: dict[str, Any], strategy: str, listed: tuple[Collective, ...]
) -> list[str]:
    """What the list has that the other reading lacks, and the other way round, in words."""
    experiment = parse_experiment(spec)
    seen = read(lab.texts(run, strategy)["hlo"], file_name(experiment.workload, strategy))
    ids = device_numbers(experiment)
    numbers = [] if ids is None else ids.tolist()
    ours = Counter(map(told, listed))
    theirs = Counter(other(each, experiment, numbers) for each in seen)
    wrong = [f"only in the list: {key} x {n}" for key, n in (ours - theirs).items()]
    wrong += [f"only in the other reading: {key} x {n}" for key, n in (theirs - ours).items()]
    lines = Counter(each.line for each in seen if each.line) - Counter(
        each.source for each in listed if each.source
    )
    return wrong + [f"line {line} x {n} is not in the list" for line, n in lines.items()]


def told(one: Collective) -> Key:
    """What the list says of one."""
    return one.kind, one.axes, one.bytes, one.count, one.asynchronous, one.groups


def other(one: Seen, experiment: Experiment, numbers: list[int]) -> Key:
    """What the other reading says of one: axes are those along which some group's members differ."""
    sizes = [size for _, size in experiment.mesh]
    axes = []
    for at, (name, _) in enumerate(experiment.mesh):
        stride = 1
        for size in sizes[at + 1 :]:
            stride *= size
        if any(len({member // stride % sizes[at] for member in group}) > 1 for group in one.groups):
            axes.append(name)
    ids = tuple(tuple(numbers[member] for member in group) for group in one.groups)
    return one.kind, tuple(axes), one.bytes, one.count, one.asynchronous, ids


if __name__ == "__main__":
    measure(main, __doc__, quick=False)
