"""The answer of a search as lines of text: the winner first; why; the ranking; what was pruned."""

from spmd_core.answers.candidates import best_table, ranking_table
from spmd_core.search import Answer
from spmd_core.sheets import sheet_lines
from spmd_core.surveys import search as words
from spmd_core.sweeps import none_fits
from spmd_core.words import fact_words


def search_lines(answer: Answer, top: int) -> list[str]:
    """Returns the lines of an answer, with `top` rows of its ranking."""
    printed = [words.search_headline(answer)]
    if answer.winner is None:
        near = none_fits(answer)
        return [
            *printed,
            *([words.fits_near_words(near)] if near else []),
            words.space_words(answer),
        ]
    printed += filter(None, [words.ahead_words(answer), words.held_words(answer)])
    if len(answer.best_by_target) > 1:
        printed += _best_of_each(answer)
    printed += [f"  {words.standard_words(answer, each)}" for each in answer.standards]
    printed += ["", *sheet_lines(ranking_table(answer, "terminal", top)), ""]
    if near := words.ties_words(answer.rivals):
        printed.append(near)
    printed += _curves(answer)
    if answer.proof_of_winner:
        printed.append(words.proof_run_words(answer.proof_of_winner))
    printed.append(words.space_words(answer))
    printed.append(words.state_words(answer))
    printed += [following] if (following := words.next_words(answer)) else []
    return [*printed, *(f"note: {fact_words(note)}" for note in answer.notes)]


def _best_of_each(answer: Answer) -> list[str]:
    priced = answer.question.price
    hint = [] if priced else ["No price is given: --price v5p=4.2,v5e=1.2 adds that of each."]
    return ["", f"{words.BEST_OF_EACH}:", *sheet_lines(best_table(answer)), *hint, ""]


def _curves(answer: Answer) -> list[str]:
    """MFU by batch, and time against memory and price, where there are several to choose from."""
    price = dict(answer.question.price)
    return [
        line
        for line in (
            words.batches_words(answer.best_by_batch),
            words.front_words(answer.front),
            words.front_words(answer.front_of_price, price),
        )
        if line
    ]
