"""The answer of a search with its sentences, to be kept."""

from collections.abc import Sequence

from spmd_core.base import seconds_text
from spmd_core.search import (
    TOP,
    Answer,
    Candidate,
    KeptCandidate,
    KeptSearch,
    Ranked,
    StandardSharding,
    link,
    price_per_billion,
)
from spmd_core.surveys.search.answer import (
    ahead_words,
    asked_words,
    cost_text,
    front_words,
    next_words,
    paid_goal,
    proof_run_words,
    proof_sentence,
    search_headline,
    space_words,
    state_words,
)
from spmd_core.surveys.search.candidates import (
    batches_words,
    hours_text,
    known_by,
    named_words,
    rule_words,
    standard_words,
    ties_words,
    why_not,
)
from spmd_core.words import fact_words


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
        "winner": _form_row(winner, answer) if winner else None,
        "best_by_target": {
            target: _form_row(each, answer) for target, each in answer.best_by_target.items()
        },
        "ranking": [
            {**_form_row(entry.candidate, answer), "alike": len(entry.alike)}
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


def _form_row(candidate: Candidate, answer: Answer) -> dict[str, object]:
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


def kept_search(answer: Answer, state: str, at: float) -> KeptSearch:
    """What is kept of an answer, whose search is in that `state` at a moment (epoch seconds)."""
    winner, proof, price = answer.winner, answer.proof_of_winner, dict(answer.question.price)
    remarks = [
        ahead_words(answer),
        ties_words(answer.rivals),
        batches_words(answer.best_by_batch),
        front_words(answer.front),
        front_words(answer.front_of_price, price),
        proof_run_words(proof) if proof else "",
        space_words(answer),
        state_words(answer),
        next_words(answer),
        *map(fact_words, answer.notes),
    ]
    runs = [winner.run if winner else None, proof.run if proof else None]
    return KeptSearch.model_validate(
        {
            "search": answer.question.id,
            "title": asked_words(answer.question),
            "question": answer.question.to_json(),
            "state": state,
            "at": at,
            "spent_s": answer.seconds,
            "space": answer.space,
            "words": search_headline(answer),
            "has_winner": winner is not None,
            "complete": answer.complete,
            "ranking": tuple(_row(group, answer) for group in answer.listed(TOP)),
            "standards": tuple(standard_words(answer, each) for each in answer.standards),
            "remarks": tuple(filter(None, remarks)),
            "counts": dict(answer.counts),
            "pruned": dict(answer.pruned),
            "runs": tuple(dict.fromkeys(filter(None, runs))),
        }
    ).within()


def kept_words(kept: KeptSearch) -> str:
    """Returns the winner of a search that is kept in a line: its time, of a model for a billion tokens,
    how that is known, its name; of serving, or without a winner, the sentence of the answer.
    """
    first = kept.winner
    if first is None or kept.question.get("kind") == link.SERVING:
        return kept.words
    if "model" not in kept.question:
        return f"{seconds_text(first.seconds)} {first.stage}: {named_words(first.name)}"
    hours = hours_text(first.seconds / first.tokens * 1e9 / 3600)
    return f"{hours} for a billion tokens, {first.known_by}: {first.name}"


def by_words(kept: KeptSearch, text: str) -> str:
    """Returns a text of a kept search of a computation with its candidates in words; of other searches
    as it is.
    """
    if "model" in kept.question or kept.question.get("kind") == link.SERVING:
        return text
    for name in sorted((each.name for each in kept.ranking), key=len, reverse=True):
        text = text.replace(name, named_words(name))
    return text


def kept_candidate(
    each: Candidate, answer: Answer, others: int = 0, why: str = ""
) -> KeptCandidate:
    """Returns what is kept of a candidate; `others`: of the same mesh and batch."""
    question, (low, high) = answer.question, each.span or (None, None)
    goal = paid_goal(question.minimize, bool(question.price), each.step is not None)
    return KeptCandidate(
        name=each.name,
        target=each.target,
        stage=each.stage,
        known_by=known_by(each, answer.proof_of_winner),
        seconds=each.seconds or 0.0,
        low_s=low,
        high_s=high,
        tokens=each.tokens,
        memory_bytes=each.memory_bytes,
        host_bytes=each.host_bytes,
        fits=each.fits,
        mfu=each.mfu,
        mfu_causal=each.mfu_causal,
        cost=cost_text(each, goal, dict(question.price)) if each.seconds else "",
        alike=others,
        why=why,
    )


def _row(group: Sequence[Ranked], answer: Answer) -> KeptCandidate:
    each, others = group[0].candidate, sum(1 + len(entry.alike) for entry in group) - 1
    why = why_not(answer, each).removeprefix(each.name).lstrip(": ")
    return kept_candidate(each, answer, others, why)
