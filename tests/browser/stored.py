"""What lies in the data folder of the dashboard before it starts: a measured run and two predictions."""

from pathlib import Path

from bench.values import result, strategy
from spmd_core.pictures import text as timeline
from tests.pictures.timeline.values import EXPOSED, timeline as exposed_timeline
from tests.ui.predictions import MODEL, predicted, store

MEASURED, PREDICTED, WALKED = (f"20260101-000000-{letter * 6}" for letter in "abc")
WALKED_IN = MODEL.vary(dims={"batch": 256, "sequence": 1024})  # its timeline is stored


def fill(folder: Path) -> None:
    """Store them. A dashboard that works the queue would take them for runs that wait."""
    text = timeline.to_text(exposed_timeline(EXPOSED))
    store(folder, result({"auto": strategy(1e-5)}, run=MEASURED))
    store(folder, predicted(run=PREDICTED))
    store(folder, predicted(WALKED_IN, WALKED), {"auto": {timeline.NAME: text}})
