"""The early module against the full compile: the same program's estimate, eight plans on v5e and v5p.

Each is compiled to its end, once, in a process of its own (half a minute to minutes of a core); what
the compiler wrote of its schedule on the way is priced beside the program that it came to.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.figures import Figures
from spmd_core.experiment.plan.plan import Plan
from spmd_core.experiment.plan.reading import parse_plan
from spmd_core.time.cost.comm import Cluster
from spmd_core.time.cost.predict import Useful, predict

WITHIN = 0.01
PLANS = (
    {"target": "tpu:v5e:2x2", "model": "scaled:1", "mesh": {"fsdp": 4}, "layers": 2},
    {"target": "tpu:v5e:4x4", "model": "scaled:1", "mesh": {"fsdp": 16}, "layers": 4},
    {"target": "tpu:v5e:4x4", "model": "scaled:1", "mesh": {"fsdp": 4, "tensor": 4}},
    {"target": "tpu:v5e:4x4*2", "model": "scaled:1", "mesh": {"data": 2, "fsdp": 16}},
    {"target": "tpu:v5e:8x8", "model": "llama-2-7b", "mesh": {"fsdp": 64}},
    {"target": "tpu:v5p:2x2x2", "model": "scaled:1", "mesh": {"fsdp": 8}},
    {"target": "tpu:v5p:4x4x4", "model": "scaled:8", "mesh": {"fsdp": 64}},
    {
        "target": "tpu:v5p:4x4x4",
        "model": "scaled:32",
        "mesh": {"fsdp": 16, "tensor": 4},
        "batch_per_device": 6,
        "remat": "minimal",
    },
)


def compile_both(plan: Plan) -> dict[str, list[float]]:
    """Seconds and bytes by the schedule and by the final program, in this process."""
    from spmd_core.engine.absent.early import scheduled
    from spmd_core.engine.absent.lower import lower_experiment
    from spmd_core.engine.absent.topology import compiled_program, scheduled_program
    from spmd_core.engine.lower import Steps
    from spmd_core.experiment.plans import experiment_of

    ahead = lower_experiment(experiment_of(plan), "auto", Steps(lambda phase: None))
    with tempfile.TemporaryDirectory(prefix="early-module-") as name:
        compiled = ahead.lowered.compile(
            compiler_options={"xla_dump_to": name, "xla_dump_hlo_as_text": True}
        )
        early = scheduled(Path(name))
    assert early is not None, "the compiler wrote no schedule"
    answers = {
        "scheduled": scheduled_program(ahead.lowered, early, ahead.mesh),
        "final": compiled_program(ahead.lowered, compiled, ahead.mesh),
    }
    found = {}
    for program, answer in answers.items():
        priced = predict(
            answer.text,
            Cluster(plan.topology, answer.devices),
            answer.memory,
            plan.mesh,
            Useful(plan.flops, plan.tokens),
        )
        assert priced.predicted_s is not None
        found[program] = [priced.predicted_s.estimate, float(priced.memory_bytes.peak or 0)]
    return found


def main() -> int:
    """Print each plan's two estimates; exit code 1 where they differ by more than 1 %."""
    if len(sys.argv) == 2:
        print(
            json.dumps(compile_both(parse_plan({"batch_per_device": 1} | PLANS[int(sys.argv[1])])))
        )
        return 0
    figures = Figures()
    for number, request in enumerate(PLANS):
        plan = parse_plan({"batch_per_device": 1} | request)
        flags = " ".join(f"--{name}={value}" for name, value in plan.flags.items())
        environ = os.environ | {
            "JAX_PLATFORMS": "cpu",
            "TPU_SKIP_MDS_QUERY": "1",
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
            "LIBTPU_INIT_ARGS": flags,
        }
        done = subprocess.run(
            [sys.executable, "-m", "bench.early_module", str(number)],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        name = f"early over full, {plan.model} on {plan.topology.name}"
        if done.returncode:
            figures.add(
                name, float("nan"), least=-WITHIN, most=WITHIN, note=done.stderr.strip()[-300:]
            )
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        (early_s, early_peak), (full_s, full_peak) = found["scheduled"], found["final"]
        figures.add(
            name,
            early_s / full_s - 1,
            least=-WITHIN,
            most=WITHIN,
            note=f"{early_s:.4f} s; peak {early_peak / 2**30:.2f} and {full_peak / 2**30:.2f} GiB",
        )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
