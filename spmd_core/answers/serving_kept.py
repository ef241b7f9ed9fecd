"""The answer of serving for machines, as JSON, and for later: what History keeps of it."""

from collections import Counter
from collections.abc import Iterator, Sequence

from spmd_core.answers.serving_sheet import (
    PART_NAMES,
    served_mesh,
    served_output,
    served_points_headline,
    serving_assumptions,
    serving_headline,
    token_parts,
    why_not_served,
    within_words,
)
from spmd_core.base import bytes_text, numbered
from spmd_core.search import (
    TOP,
    KeptCandidate,
    KeptSearch,
    ServingAnswer,
    ServingQuestion,
    ServingRow,
    frontier,
    link,
    serving_curves,
)
from spmd_core.sweeps import ServedPoint
from spmd_core.terms import listed
from spmd_core.time import Lengths


def serving_json(answer: ServingAnswer) -> dict[str, object]:
    """Returns the answer for machines: seconds, dollars, tokens; None where not known."""
    near = None if answer.best else answer.nearest
    lead = answer.lead
    return {
        "question": serving_question_json(answer.question),
        "answer": serving_headline(answer),
        "best": answer.best and _row_json(answer.best),
        "nearest": near and _row_json(near),
        "rows": [_row_json(row) for row in answer.rows],
        "front": [_row_json(row) for row in answer.front],
        "curves": list(_curves_json(answer)),
        "best_by_concurrency": [
            {
                "concurrency": load.concurrency,
                "input": _length_json(load.input),
                "output": _length_json(load.output),
                "row": _row_json(row),
            }
            for load, row in answer.by_load
        ],
        "why_not": list(why_not_served(answer)),
        "assumptions": list(serving_assumptions(lead)) if lead else [],
        "link": link.path({"kind": link.SERVING, **answer.question.form}),
    }


def _curves_json(answer: ServingAnswer) -> Iterator[dict[str, object]]:
    """Yields shardings at rising concurrency, with the points that no curve passes above marked."""
    curves = serving_curves(answer)
    front = {id(point) for _, point in frontier(curves)}
    for curve in curves:
        plan = curve.row.plan
        points = [
            {
                "concurrency": point.concurrency,
                "tokens_per_s_per_user": point.row.speed,
                "tokens_per_s_per_chip": point.row.per_chip,
                "is_on_front": id(point) in front,
            }
            for point in curve.points
        ]
        yield {
            "target": plan.target,
            "mesh": dict(plan.mesh),
            "replicas": plan.replicas,
            "weights_dtype": plan.weights_dtype,
            "kv_dtype": plan.kv_dtype,
            "points": points,
        }


def served_points_json(name: str, points: Sequence[ServedPoint]) -> dict[str, object]:
    """Returns a sweep for machines: the best row of each value, or why there is none."""
    rows = (
        {
            "value": each.value,
            "answer": each.answer and serving_headline(each.answer),
            "best": each.answer and each.answer.best and _row_json(each.answer.best),
            "nearest": each.answer and not each.answer.best and each.lead and _row_json(each.lead),
            "refusal": each.refusal,
        }
        for each in points
    )
    return {"sweep": name, "answer": served_points_headline(points), "points": list(rows)}


def _length_json(lengths: Lengths) -> object:
    return lengths.low if lengths.low == lengths.high else [lengths.low, lengths.high]


def serving_question_json(question: ServingQuestion) -> dict[str, object]:
    """Returns the question for machines."""
    load = question.load
    return {
        "model": question.model,
        "chips": list(question.chips),
        "input": _length_json(load.input),
        "output": _length_json(load.output),
        "concurrency": load.concurrency,
        "rate": load.rate,
        "requests": load.requests,
        "chunk": load.chunk,
        "accepted": load.accepted,
        "seed": load.seed,
        "ttft_s": question.ttft_s,
        "tpot_s": question.tpot_s,
        "weights_dtype": list(question.weights_dtypes),
        "kv_dtype": list(question.kv_dtypes),
        "price": dict(question.price),
        "mesh": dict(question.mesh) if question.mesh else None,
    }


def _row_json(row: ServingRow) -> dict[str, object]:
    plan, pool, served = row.plan, row.pool, row.served
    return {
        "target": plan.target,
        "chips": row.chips,
        "mesh": dict(plan.mesh),
        "replicas": plan.replicas,
        "weights_dtype": plan.weights_dtype,
        "kv_dtype": plan.kv_dtype,
        "tpot_s": served and served.tpot_s,
        "tpot_low_s": served and served.tpot.low,
        "tpot_high_s": served and served.tpot.high,
        "ttft_s": served and served.ttft_s,
        "ttft_low_s": served and served.ttft.low,
        "ttft_high_s": served and served.ttft.high,
        "ttft_p99_s": served and served.ttft_p99_s,
        "step_s": served and served.step_s,
        "batch": served and -(-served.running // plan.replicas),
        "chunk": served and served.chunk,
        "waiting": served and served.waiting,
        "binds": served and served.step.binds,
        "parts_s": served and served.step.parts,
        "tokens_per_s_per_chip": row.per_chip if served else None,
        "price_per_million_tokens": row.per_million(),
        "price_per_million_input_tokens": row.per_million(prompts=True),
        "kv_pool_tokens": pool and pool.tokens,
        "weights_bytes": pool and int(pool.weights),
        "cache_bytes": pool and int(max(0, pool.cache)),
        "capacity_bytes": pool and pool.capacity,
        "compiled_step_s": row.compiled and row.compiled.seconds,
        "compiled_estimate_s": row.compiled and row.compiled.estimate,
        "compiled_peak_bytes": row.compiled and row.compiled.peak,
        "fate": row.verdict,
        "fits": served is not None,
    }


def kept_serving(answer: ServingAnswer, at: float) -> KeptSearch:
    """Returns what is kept of an answer that was given at a moment (epoch seconds)."""
    question, lead = answer.question, answer.lead
    served = lead.served if lead else None
    held = served_memory(lead) if lead and served else {}
    return KeptSearch(
        search=question.id,
        title=_asked(question),
        question={"kind": link.SERVING, **question.form},
        at=at,
        space=len(answer.rows),
        words=serving_headline(answer),
        has_winner=answer.best is not None,
        complete=True,
        ranking=tuple(_kept(row) for row in answer.rows if row.served)[:TOP],
        standards=why_not_served(answer),
        remarks=tuple(
            f"{load.input.text} in, {load.output.text} out, {load.concurrency:,} at once: "
            + (f"{served_mesh(row)}, {served_output(row)}" if row.served else row.verdict)
            for load, row in answer.by_load
        ),
        counts=Counter(row.verdict for row in answer.rows),
        token_s=token_parts(served) if served else {},
        held_bytes={name: int(each) for name, each in held.items()},
        capacity_bytes=int(lead.pool.capacity) if lead and lead.pool and held else 0,
    ).within()


def served_memory(row: ServingRow) -> dict[str, float]:
    """Returns the bytes that each device of a sharding holds, with what an engine reserves of it."""
    if (pool := row.pool) is None:
        return {}
    held = {"weights": pool.weights, "cache": row.cache_used}
    left = pool.capacity - pool.weights - max(pool.cache, row.cache_used)
    return held | {"reserved by the engine": max(0, left)}


def held_words(kept: KeptSearch) -> str:
    """Returns a sentence on the memory of each device of a kept answer, and what is in it."""
    parts = [f"{name} {bytes_text(each)}" for name, each in kept.held_bytes.items() if each]
    held, room = sum(kept.held_bytes.values()), kept.capacity_bytes
    return f"Each device holds {bytes_text(held)} of {bytes_text(room)}: {listed(parts)}."


def _asked(question: ServingQuestion) -> str:
    load, limits = question.load, within_words(question)
    come = (
        f"{numbered(load.rate, 'request')} a second"
        if load.rate
        else f"{load.concurrency:,} at once"
    )
    asked = f"{question.model} on {', '.join(question.chips)}: {load.input.text} in, {load.output.text} out"
    return f"Serve {asked}, {come}" + f", within {limits}" * bool(limits)


def _kept(row: ServingRow) -> KeptCandidate:
    assert row.served
    tpot, plan, bound = row.served.tpot, row.plan, PART_NAMES[row.served.step.binds]
    dtypes = ", ".join(dict.fromkeys((plan.weights_dtype, plan.kv_dtype)))
    return KeptCandidate(
        name=f"{served_mesh(row)} · {plan.topology.name} · {dtypes}",
        target=plan.target,
        stage="compiled" if row.compiled else "estimated",
        known_by=f"{'compiled step' if row.compiled else 'estimate'}; {bound} binds",
        seconds=tpot.estimate,
        low_s=tpot.low,
        high_s=tpot.high,
        memory_bytes=int(sum(served_memory(row).values())) or None,
        fits=row.verdict,
        cost=served_output(row),
    )
