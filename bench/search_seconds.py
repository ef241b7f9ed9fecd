"""CPU seconds of searches over a model's space by estimates, and seconds until the first compiled one.

python -m bench.search_seconds [--compiled]
"""

import tempfile
import time
from pathlib import Path

from bench.figures import Asked, Figures, measure
from spmd_core.lab import Lab
from spmd_core.search import Answer, candidates, read_question, space_size
from spmd_core.trials import searches

MOST_S, FIRST_MOST_S = 5.0, 120.0
DEEPSEEK = {"model": "deepseek-v3-671b", "chips": ["tpu7x:256"]}
# long enough that `context` is tried, and on several slices, over which stages are worth their place
SEVENTY = {"model": "llama-3.1-70b", "chips": ["v5p:256"], "sequence": 32_768}
SEARCHES = {
    "DeepSeek-V3 on 256 chips of TPU7x": DEEPSEEK,
    "70B on 256 chips, context and stage open": SEVENTY,
    "70B on two slices, context and stage open": SEVENTY | {"chips": ["v5p:4x4x8*2"]},
    "70B at 8k on 256 chips": SEVENTY | {"sequence": 8192},
}


def main(asked: Asked, figures: Figures) -> None:
    """Estimate every space, then compile of the first one."""
    for name, given in SEARCHES.items():
        question = read_question(given)
        begun = time.process_time()
        found = tuple(candidates(question))
        took = time.process_time() - begun
        winner = Answer(question, space_size(question), found, True).winner
        assert winner is not None
        note = f"{len(found):,} of {space_size(question):,}; {winner.name}"
        figures.add(name, took, "CPU s", most=MOST_S, note=note)
    if asked.compiled:
        with tempfile.TemporaryDirectory() as folder:
            figures.add("first compiled", _first_compiled_s(Path(folder)), "s", most=FIRST_MOST_S)


def _first_compiled_s(folder: Path) -> float:
    """Seconds from the question about DeepSeek-V3 to the first candidate that was compiled."""
    lab = Lab.open(folder, serve=True)
    begun = time.monotonic()
    search = searches.start(lab, read_question(DEEPSEEK), None)
    while not (search.is_over or any(each.stage == "compiled" for each in search.answer.found)):
        time.sleep(0.2)
    took = time.monotonic() - begun if not search.problem else float("nan")
    lab.close()
    return took


if __name__ == "__main__":
    measure(main, __doc__, compiled=(False, "compile the best of the first, too"))
