"""Every measurement that takes less than a minute on an idle machine: `python -m bench`; ends with
1 where one of them misses a goal.
"""

import subprocess
import sys
import time
from pathlib import Path

SHARED = {
    "__init__",
    "__main__",
    "communicating",
    "compiled",
    "dashboard",
    "figures",
    "judging",
    "odd_schedulers",
    "own_faults",
    "plain_page",
    "reader",
    "real_cells",
}
# Minutes each: the reader of one of them asks for it by its name.
SLOW = {
    "busy_collectives",
    "cluster_doors",
    "collectives_reading",
    "every_cut",
    "hostile_links",
    "intermediate_shardings",
    "instant_estimate",
    "kills",
    "many_clients",
    "memory_growth",
    "odd_surroundings",
    "pictures",
    "planted_faults",
    "predict_calibration",
    "predict_fits",
    "predicted_here",
    "real_sizes",
    "remedies",
    "right_answers",
    "same_list",
    "same_or_different",
    "search_block",
    "settling",
    "small_predictions",
    "study_rates",
    "sweep_repeated",
    "timeline_speed",
    "trace_speed",
    "viewers",
    "visitors_apart",
    "closed_doors",
}
SCRIPTS = {
    path.stem: path
    for path in sorted(Path(__file__).parent.glob("*.py"))
    if path.stem not in SHARED
}


def main() -> int:
    """Run them one after another, in a process each: they set up JAX differently."""
    missed = []
    for name in sorted(SCRIPTS.keys() - SLOW):
        print(f"+ python -m bench.{name}", flush=True)
        begun = time.monotonic()
        if subprocess.run([sys.executable, "-m", f"bench.{name}"]).returncode:
            missed.append(name)
        print(f"  {time.monotonic() - begun:.0f} s", flush=True)
    for name in missed:
        print(f"MISSED: {name}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
