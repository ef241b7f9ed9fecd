"""What `python -m spmd_core search` prints."""

from spmd_core.base import bytes_text, seconds_text
from spmd_core.commands.printed.table import table
from spmd_core.search import Answer, Candidate, Ranked, axis_rules, rules_text
from spmd_core.words import search as words

BEST_NUMBERS = (1, 2, 3, 4, 5)  # columns of the best of each target
_HEAD = (
    "candidate",
    "",
    "time",
    "between",
    "memory",
    "fits",
    "known by",
    "alike",
)  # "": what it costs


def lines(answer: Answer, top: int) -> list[str]:
    """The winner first; why; the ranking; what was pruned."""
    printed = [words.search_headline(answer)]
    winner = answer.winner
    if winner is None:
        return [*printed, words.space_words(answer)]
    if len(answer.best_by_target) > 1:
        best = [words.best_row(each, answer) for each in answer.best_by_target.values()]
        printed += [
            "",
            "Best of each target:",
            *table([words.BEST_TITLES, *best], numbers=BEST_NUMBERS),
            "",
        ]
    printed += [f"  {words.standard_words(answer, each)}" for each in answer.standards]
    cost = words.cost_title(winner, answer.question.minimize)
    rows = [_row(place, entry, answer) for place, entry in enumerate(answer.ranking[:top], 1)]
    head = tuple(title or cost for title in _HEAD if title or cost)
    printed += [
        "",
        *table([("", *head), *rows], numbers=(0, 2, 3, 5, 8) if cost else (0, 2, 4, 7)),
        "",
    ]
    if near := words.ties_words(answer.ties):
        printed.append(near)
    printed += _curves(answer)
    if answer.proof_of_winner:
        printed.append(words.proof_run_words(answer.proof_of_winner))
    printed.append(words.space_words(answer))
    printed.append(words.state_words(answer))
    printed += [following] if (following := words.next_words(answer)) else []
    return [*printed, *(f"note: {note}" for note in answer.notes)]


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


def _row(place: int, entry: Ranked, answer: Answer) -> tuple[str, ...]:
    each, question = entry.candidate, answer.question
    cost = words.cost_text(each, question.minimize, dict(question.price))
    span = each.span
    between = f"{seconds_text(span[0])} to {seconds_text(span[1])}" if span else "–"
    alike = f"+{len(entry.alike)}" if entry.alike else ""
    return (
        str(place),
        each.name,
        *([cost] if cost else []),
        seconds_text(each.seconds),
        between,
        bytes_text(each.memory_bytes),
        each.fits,
        words.known_by(each, answer.proof_of_winner),
        alike,
    )


def rules(candidate: Candidate) -> list[str]:
    """The axis rules of a candidate with a plan, as MaxText and Flax write them; of an exported
    program its partition rules.
    """
    plan = candidate.plan
    if plan is None:
        return ["", rules_text(candidate.experiment)] if candidate.experiment.exported else []
    return [
        "",
        "# MaxText",
        axis_rules.maxtext(plan),
        "",
        "# Flax",
        axis_rules.flax(plan),
    ]
