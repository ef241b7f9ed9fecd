"""The search over models: how fast a space is estimated, and whether its winner is at least as fast
as the published settings. Nothing is compiled.
"""

import sys
import time

from bench.figures import command_line
from spmd_core.search.answer import Answer
from spmd_core.search.models import candidates, space_size
from spmd_core.search.question import ModelQuestion, read_question
from spmd_core.words.search import standard_words, why_not

SPACE_S, FIRST_S, TOP = 5.0, 10.0, 10
LARGE = {"model": "llama-3.1-70b", "chips": ["v5p:64"], "global_batch": 512, "sequence": 8192}
# name, question, what the published run keeps. Sources: AI-Hypercomputer/maxtext and tpu-recipes
PUBLISHED = (
    (
        "scaled:32 on 64 v5p",
        {"model": "scaled:32", "chips": ["v5p:4x4x4"], "batch_per_device": 6, "sequence": 2048},
    ),
    (
        "llama-3.1-8b on v6e 16x16",
        {"model": "llama-3.1-8b", "chips": ["v6e:16x16"], "batch_per_device": 4, "sequence": 8192},
    ),
    (
        "llama-3.1-70b on TPU7x 4x4x4",
        {
            "model": "llama-3.1-70b",
            "chips": ["tpu7x:4x4x4"],
            "batch_per_device": 2,
            "sequence": 8192,
            "plan": {"state_dtype": "bfloat16", "second_moment_dtype": "float32"},
        },
    ),
)


def searched(question: ModelQuestion) -> tuple[Answer, float]:
    """The answer, and the seconds of a core that it took."""
    begun = time.process_time()
    answer = Answer(question, space_size(question), tuple(candidates(question)), True)
    assert answer.winner is not None
    return answer, time.process_time() - begun


def main() -> int:
    """Print the figures; exit code 1 where one misses its goal."""
    (_, figures), begun = command_line(__doc__), time.monotonic()
    answer, core_s = searched(read_question(LARGE))
    first_s = time.monotonic() - begun
    note = f"{answer.space:,} candidates"
    figures.add("llama-3.1-70b on 64 v5p: all estimated", core_s, "s", most=SPACE_S, note=note)
    figures.add("first answer", first_s, "s", most=FIRST_S)
    for name, given in PUBLISHED:
        answer, core_s = searched(read_question(given))
        winner, standard = answer.winner, answer.standards[-1]
        assert winner is not None and winner.seconds is not None
        published = standard.candidate
        ratio = winner.seconds / published.seconds if published and published.seconds else 0.0
        note = f"{answer.space:,} candidates in {core_s:.1f} s of a core"
        figures.add(f"{name}: winner over published", ratio, most=1.0, note=note)
        print(f"  winner: {winner.name}, {winner.seconds:.3f} s")
        print(f"  {standard_words(answer, standard)}")
        top = [entry.candidate.number for entry in answer.ranking[:TOP]]
        if published and published.number not in top:
            print(f"  why not: {why_not(answer, published)}")
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
