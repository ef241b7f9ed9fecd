"""The answer of a search as JSON."""

from spmd_core.search import TOP, Answer, Candidate, StandardSharding, price_per_billion
from spmd_core.words.facts import fact_words
from spmd_core.words.search.answer import proof_sentence, search_headline
from spmd_core.words.search.candidates import rule_words


def answer_json(answer: Answer, top: int = TOP) -> dict[str, object]:
    """The JSON form; `top` rows of the ranking."""
    winner, proof = answer.winner, answer.proof
    return {
        "search": answer.question.id,
        "headline": search_headline(answer),
        "question": answer.question.to_json(),
        "space": answer.space,
        "pruned": dict(answer.pruned),
        "counts": dict(answer.counts),
        "winner": _row(winner, answer) if winner else None,
        "best_by_target": {
            target: _row(each, answer) for target, each in answer.best_by_target.items()
        },
        "ranking": [
            {**_row(entry.candidate, answer), "alike": len(entry.alike)}
            for entry in answer.ranking[:top]
        ],
        "ranked": len(answer.ranking),
        "complete": answer.complete,
        "ties": [each.name for each in answer.ties],
        "proof": {**proof.to_json(), "sentence": proof_sentence(proof)} if proof else None,
        "front": [each.name for each in answer.front],
        "front_of_price": [each.name for each in answer.front_of_price],
        "classics": [_standard(each, answer) for each in answer.standards],
        "seconds": answer.seconds,
        "notes": list(map(fact_words, answer.notes)),
    }


def candidate_row(candidate: Candidate) -> list[object]:
    """A candidate in the list of all: name, stage, reason, rule, seconds, bytes."""
    return [
        candidate.name,
        candidate.stage,
        candidate.reason or "",
        rule_words(candidate.detail),
        candidate.seconds,
        candidate.memory_bytes,
    ]


def _row(candidate: Candidate, answer: Answer) -> dict[str, object]:
    price = price_per_billion(candidate, dict(answer.question.price))
    return {**candidate.to_json(), "price_per_billion_tokens": price}


def _standard(standard: StandardSharding, answer: Answer) -> dict[str, object]:
    """A standard sharding, and its time over the winner's where both were measured side by side."""
    each, proof = standard.candidate, answer.proof_of_winner
    return {
        "classic": standard.title,
        "why": rule_words(standard.why),
        "name": each.name if each else None,
        "predicted_s": each.to_json()["predicted_s"] if each else None,
        "proof": proof.against(each.name)
        if each and proof and each.name in proof.medians_s
        else None,
    }
