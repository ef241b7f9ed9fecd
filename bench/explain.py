"""Explains steps of other people's libraries in one call, and what that costs.

    python -m bench.explain [--only steps,overhead,imports,process] [--part K/N]

steps: 24 kinds of steps; each explained in one call; its collectives equal to those of JAX's own
compile; three facts of each, written beforehand, are in the first screen. overhead: the seconds of
the first explanation of a step of 8 layers beyond JAX's own lowering and compile. imports: seconds
of `import spmd_lab` in a new process, and whether JAX is imported. process: what of the caller's
process is another after an explanation. --part: every Nth step.
"""

import gc
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

import jax

import spmd_lab
from bench import explained_steps
from bench.figures import Asked, Figures, measure

_COLLECTIVE = re.compile(
    r" (all-(?:gather|reduce|to-all)|reduce-scatter|collective-permute)(?:-start)?\("
)
_IMPORT = "import time; s = time.perf_counter(); import spmd_lab; t = time.perf_counter() - s; import sys; print(t, 'jax' in sys.modules)"
LAYERS = 8


def steps(figures: Figures, part: slice) -> None:
    """Kinds of steps: explained, equal to JAX's own compile, and their facts."""
    explained, equal, facts, failed = 0, 0, 0, []
    listed = explained_steps.STEPS[part]
    for make in listed:
        case = make()
        try:
            with case.around():
                answer = spmd_lab.explain(case.step)(*case.args, **case.kwargs)
                own = Counter(_COLLECTIVE.findall(case.compiled().as_text()))
        except Exception as error:  # whatever the step, JAX or the lab raises is a failure
            failed.append(
                f"{make.__name__}: {type(error).__name__} {' '.join(str(error).split())[:160]}"
            )
            continue
        explained += 1
        found = Counter(each.kind for each in answer.collectives or ())
        equal += own == found
        failed += [] if own == found else [f"{make.__name__}: JAX {dict(own)}, here {dict(found)}"]
        text = " ".join(str(answer).split())  # sentences are wrapped
        missing = [fact for fact in case.facts if " ".join(fact.split()) not in text]
        facts += len(case.facts) - len(missing)
        failed += [f"{make.__name__}: no {fact!r}" for fact in missing]
    count = len(listed)
    figures.add(
        f"steps explained in one call, of {count}", explained, least=count, note="; ".join(failed)
    )
    figures.add(f"equal to JAX's own compile, of {count}", equal, least=count)
    figures.add(f"facts in the first screen, of {3 * count}", facts, least=3 * count)


def overhead(figures: Figures, rounds: int) -> None:
    """Seconds of a first explanation beyond those of JAX's own lowering and compile."""
    more = []
    for at in range(rounds):
        step, args = explained_steps.layers(LAYERS, 64 + 8 * at)
        began = time.perf_counter()
        jax.jit(step).lower(*args).compile()
        own = time.perf_counter() - began
        step, args = explained_steps.layers(LAYERS, 64 + 8 * at)
        began = time.perf_counter()
        str(spmd_lab.explain(step)(*args))
        more.append(time.perf_counter() - began - own)
    note = ", ".join(f"{each:.2f}" for each in more)
    figures.add(
        f"first explain of {LAYERS} layers beyond JAX's own, s",
        statistics.median(more),
        most=1.0,
        note=note,
    )


def imports(figures: Figures) -> None:
    """`import spmd_lab` in a new process."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(9)
    ]
    figures.add(
        "import spmd_lab, ms", 1e3 * statistics.median(float(each[0]) for each in runs), most=50.0
    )
    figures.add("imports that load JAX", sum(each[1] == "True" for each in runs), most=0)


def process(figures: Figures) -> None:
    """What of the caller's process is another after an explanation; the first one loads modules."""
    step, args = explained_steps.layers(2, 64)
    spmd_lab.explain(step)(*args)
    folder = Path(tempfile.mkdtemp(prefix="spmd-caller-"))
    os.chdir(folder)
    before = _state(folder)
    step, args = explained_steps.layers(2, 72)
    spmd_lab.explain(step)(*args)
    after = _state(folder)
    changed = [name for name, value in before.items() if after[name] != value]
    figures.add(
        f"of {len(before)} states changed in the caller",
        len(changed),
        most=0,
        note=", ".join(changed),
    )


def _state(folder: Path) -> dict[str, Any]:
    return {
        "environment": dict(os.environ),
        "jax.config": dict(jax.config.values),
        "cwd": os.getcwd(),
        "signal handlers": [signal.getsignal(each) for each in sorted(signal.valid_signals())],
        "gc": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "warnings": list(warnings.filters),
        "open files": sorted(os.listdir("/proc/self/fd"))[:-1],
        "children": Path(f"/proc/self/task/{os.getpid()}/children").read_text(),
        "threads": [each.name for each in threading.enumerate()],
        "files": sorted(folder.rglob("*")),
        "sys.path": list(sys.path),
    }


def main(arguments: Asked, figures: Figures) -> None:
    """Measure what is asked for."""
    first, every = map(int, arguments.part.split("/"))
    for name in arguments.only.split(","):
        if name == "steps":
            steps(figures, slice(first - 1, None, every))
        elif name == "overhead":
            overhead(figures, arguments.rounds)
        else:
            {"imports": imports, "process": process}[name](figures)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        only="steps,overhead,imports,process",
        rounds=(3, "how many steps are explained"),
        part=("1/1", "K/N: every Nth, from the Kth on"),
    )
