"""Runs of a program with collectives that abort on a busy machine: XLA's simulated devices wait for
one another in a thread each.

Beside them, one process per core does nothing but count. With a thread for each device alone, XLA's
default, 4 of 31 runs ended in
SIGABRT; NPROC gives more (spmd_core/lab/supervisor/environment.py). Minutes. Run: python -m
bench.busy_collectives [runs]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.figures import Figures
from spmd_core.lab import Lab
from spmd_core.recipes import RECIPES

BUSY = "while True: pass"


def main() -> int:
    runs, figures = int(sys.argv[1]) if len(sys.argv) > 1 else 30, Figures()
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count() or 1)]
    try:
        with tempfile.TemporaryDirectory(prefix="spmd-lab-bench-") as folder:
            lab, failed = Lab.open(Path(folder)), []
            for _ in range(runs):
                run = lab.submit(RECIPES["linear_gradient"].experiment.vary(target="cpu:8"))
                status = lab.wait(run)
                failed += [status.error] if status.state != "succeeded" else []
                lab.release()  # each run in a process of its own
            lab.close()
    finally:
        for other in others:
            other.kill()
            other.wait()
    figures.add(
        "runs that failed beside other work",
        len(failed),
        f"of {runs}",
        most=0,
        note="; ".join(sorted({str(each) for each in failed})),
    )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
