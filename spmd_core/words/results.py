"""A stored result with its sentences, which are made of its facts each time it is read."""

from collections.abc import Callable

from spmd_core.results import Comparison, Result
from spmd_core.words import runs, strategies, traces
from spmd_core.words.advice.next import next_step


def in_words(result: Result) -> Result:
    """A result with its answer, the words of its traces, and what to try next; what an older
    version stored of these is replaced.
    """
    return result.model_copy(
        update={
            "strategies": {
                name: outcome.model_copy(update={"trace": traces.in_words(result, name)})
                if outcome.trace
                else outcome
                for name, outcome in result.strategies.items()
            },
            "comparison": _with_sentence(result.comparison, runs.run_headline, result),
            "predicted": _with_sentence(result.predicted, strategies.predicted, result),
            "next": next_step(result),
        }
    )


def _with_sentence(
    comparison: Comparison | None, sentence: Callable[[Result], str], result: Result
) -> Comparison | None:
    return comparison and comparison.model_copy(update={"sentence": sentence(result)})
