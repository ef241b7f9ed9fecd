"""Every measurement that takes less than a minute on an idle machine: `python -m bench`; ends with
1 where one of them misses a goal. It names those that it leaves out.
"""

import ast
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

SHARED = {
    "__init__",
    "__main__",
    "browser",
    "published_chart",
    "communicating",
    "compiled",
    "dashboard",
    "dask_processes",
    "exported",
    "exported_linalg",
    "explained_steps",
    "explicit_snippets",
    "exported_steps",
    "figures",
    "judging",
    "login_states",
    "mutated_steps",
    "odd_schedulers",
    "own_faults",
    "plain_page",
    "reader",
    "real_cells",
    "server",
    "values",
    "verdict_pairs",
}
# Minutes each: the reader of one of them asks for it by its name.
SLOW = {
    "accessible",
    "archives",
    "closed_doors",
    "cluster_doors",
    "cluster_kills",
    "cluster_liars",
    "collectives_reading",
    "custom_calls",
    "ended_logins",
    "every_cut",
    "expected_mutations",
    "explain",
    "explicit_errors",
    "exports_at_work",
    "few_descriptors",
    "first_results",
    "hostile_links",
    "hosts",
    "instant_estimate",
    "intermediate_shardings",
    "kills",
    "long_context",
    "many_clients",
    "many_runs",
    "moved_folders",
    "odd_surroundings",
    "pictures",
    "planner_hour",
    "planted_faults",
    "predict_calibration",
    "real_login",
    "real_sizes",
    "remedies",
    "repeated_answers",
    "right_answers",
    "search_block",
    "search_bounds",
    "search_verdicts",
    "serving",
    "settling",
    "small_predictions",
    "small_shapes",
    "study_report",
    "summing",
    "upload_abuse",
    "verdicts",
    "viewers",
    "visitors_apart",
}
SCRIPTS = {
    path.stem: path
    for path in sorted(Path(__file__).parent.glob("*.py"))
    if path.stem not in SHARED
}


def packages(path: Path) -> set[str]:
    """Packages that a script imports, itself or through a module of this folder."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            package, _, module = node.module.partition(".")
            if package != "bench":
                found.add(package)
                continue
            for name in [module] if module else [alias.name for alias in node.names]:
                if name != path.stem:  # a child process imports the script that started it
                    found |= packages(path.with_name(f"{name}.py"))
    return found


def left_out(path: Path) -> str | None:
    """Why a script is not run here; None where it is."""
    if path.stem in SLOW:
        return "takes minutes"
    missing = sorted(name for name in packages(path) if find_spec(name) is None)
    return f"needs {', '.join(missing)}: see requirements-dev.txt" if missing else None


def main() -> int:
    """Run them one after another, in a process each: they set up JAX differently."""
    reasons = {name: left_out(path) for name, path in SCRIPTS.items()}
    for name, reason in reasons.items():
        if reason:
            print(f"left out: python -m bench.{name} {reason}", flush=True)
    missed = []
    for name in (name for name, reason in reasons.items() if reason is None):
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
