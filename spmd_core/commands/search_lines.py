"""What `python -m spmd_core search` prints."""

from spmd_core.base import bytes_text, seconds_text
from spmd_core.commands.printed.table import table
from spmd_core.search import Answer, Candidate, Ranked, axis_rules, rules_text
from spmd_core.words import search as words

_HEAD = ("candidate", "", "time", "between", "memory", "known by", "alike")  # "": what it costs


def lines(answer: Answer, top: int) -> list[str]:
    """The winner first; why; the ranking; what was pruned."""
    said = [words.search_headline(answer)]
    winner = answer.winner
    if winner is None:
        return [*said, words.space_words(answer)]
    said += [f"  {words.classic_words(answer, each)}" for each in answer.classics]
    cost = words.cost_title(winner, answer.question.minimize)
    rows = [_row(place, entry, answer) for place, entry in enumerate(answer.ranking[:top], 1)]
    head = tuple(title or cost for title in _HEAD if title or cost)
    said += [
        "",
        *table([("", *head), *rows], numbers=(0, 2, 3, 5, 7) if cost else (0, 2, 4, 6)),
        "",
    ]
    if near := words.ties_words(answer.ties):
        said.append(near)
    price = dict(answer.question.price)
    said += [
        told
        for told in (
            words.front_words(answer.front),
            words.front_words(answer.front_of_price, price),
        )
        if told
    ]
    if answer.proof_of_winner:
        said.append(words.proof_run_words(answer.proof_of_winner))
    said.append(words.space_words(answer))
    said.append(words.state_words(answer))
    said += [following] if (following := words.next_words(answer)) else []
    return [*said, *(f"note: {note}" for note in answer.notes)]


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
        words.known_by(each, answer.proof_of_winner),
        alike,
    )


def rules(candidate: Candidate) -> list[str]:
    """The axis rules of a candidate with a plan, as MaxText and Flax write them; of an exported
    program its partition rules.
    """
    if candidate.plan is None:
        found = candidate.experiment
        return ["", rules_text(found)] if found.specs else []
    return [
        "",
        "# MaxText",
        axis_rules.maxtext(candidate.plan),
        "",
        "# Flax",
        axis_rules.flax(candidate.plan),
    ]
