"""The compiling process: a request as JSON on standard input, the compiled program as files in a folder; its crash is only its own."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Compile what standard input asks for into the folder that the first argument names; `done.json` is written last."""
    folder = Path(sys.argv[1])
    request = json.loads(sys.stdin.read())
    answer: dict[str, Any]
    try:
        answer = _compile(request, folder)
    except Exception as error:  # the last stop: the parent tells the user in the compiler's words
        answer = {"error": {"kind": type(error).__name__, "message": str(error) or type(error).__name__}}
    (folder / "done.json").write_text(json.dumps(answer))
    return 0


def _compile(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    from spmd_core.cost.version import versions
    from spmd_core.engine.plan import compile_plan
    from spmd_core.plan.plan import parse_plan

    if "experiment" in request:
        from spmd_core.engine.absent.lower import compile_experiment
        from spmd_core.experiment.experiment import parse_experiment

        compiled = compile_experiment(parse_experiment(request["experiment"]), request["strategy"])
    else:
        compiled = compile_plan(parse_plan(request["plan"]))
    with gzip.open(folder / "module.txt.gz", "wt", compresslevel=3) as file:
        file.write(compiled.text)
    return {"memory": dict(compiled.memory), "lower_s": compiled.lower_s, "compile_s": compiled.compile_s, "peak_rss_bytes": compiled.peak_rss_bytes,
            "devices": compiled.devices, "versions": versions(), "asked": compiled.asked}


if __name__ == "__main__":
    sys.exit(main())
