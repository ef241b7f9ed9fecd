"""Every measurement that takes less than a minute on an idle machine: `python -m bench`; ends with 1 where one of them misses a goal."""

import subprocess
import sys
import time

# In a process each: they set up JAX differently. Left out, since they take minutes: same_or_different (a quarter of an hour),
# memory_growth, predict_calibration, predict_fits, busy_collectives.
QUICK = ("layout_speed", "response_times", "rerun_cpu", "click_to_median", "map_overhead", "timing_overhead", "against_tutorial",
         "predict_collectives")


def main() -> int:
    """Run them one after another."""
    missed = []
    for name in QUICK:
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
