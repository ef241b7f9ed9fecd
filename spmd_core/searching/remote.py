"""What a Dask worker does for a search: it compiles one experiment with its own Lab, and says what
versions it has. Only JSON goes either way.
"""

import atexit
import json
import shutil
import tempfile
import threading
from pathlib import Path

from spmd_core.cost.version import versions
from spmd_core.experiment.experiment import parse_experiment_text
from spmd_core.lab import Lab

_guard = threading.Lock()
_lab: Lab | None = None


def versions_here() -> str:
    """The versions that decide what a prediction says, as JSON."""
    return json.dumps(versions(), sort_keys=True)


def compiled(spec: str, timeout_s: float) -> str:
    """The result of an experiment as JSON: `{"result": …}`, or `{"error": sentence}` where the run
    left none.
    """
    lab = _opened()
    run = lab.submit(parse_experiment_text(spec))
    status = lab.wait(run, timeout_s)
    if not status.is_over:
        lab.cancel(run)
        lab.wait(run, 15.0)
        return json.dumps({"error": f"it took longer than {timeout_s:.0f} s"})
    result = lab.result(run)
    if result is None:
        why = status.error.message if status.error else f"the run {status.state}"
        return json.dumps({"error": why})
    return json.dumps({"result": result.model_dump(mode="json")})


def _opened() -> Lab:
    """The Lab of this process, on a folder of its own, whose compiler stays warm between tasks."""
    global _lab
    with _guard:
        if _lab is None:
            folder = Path(tempfile.mkdtemp(prefix="spmd-lab-dask-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            _lab = Lab.open(folder)
        return _lab
