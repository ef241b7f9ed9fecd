"""Predict's mode for serving: the question in five fields, its answer, a picture, tables."""

from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.answers import (
    SERVING_LOADS,
    SPLITS,
    Figure,
    apart_headline,
    beside_words,
    chosen_for,
    compiled_table,
    copies_figure,
    copies_words,
    engine_words,
    enough_chips,
    enough_words,
    kinds_table,
    narrower_weights,
    served_chips,
    served_memory,
    serving_assumptions,
    serving_figures,
    serving_headline,
    serving_open_words,
    serving_sure,
    serving_table,
    token_parts,
    waiting_table,
    waiting_title,
    why_not_served,
)
from spmd_core.base import RequestError, between, bytes_text, number_text, seconds_text, span_text
from spmd_core.machine import CHIPS
from spmd_core.plan import MXFP4, SERVED_DTYPES, model_names
from spmd_core.search import (
    SERVING_FORM,
    ServingAnswer,
    ServingQuestion,
    ServingRow,
    generations,
    read_serving,
    serve,
    splits,
    with_compiled,
)
from spmd_core.sweeps import decode_points, with_steps
from spmd_core.terms import chip_title, listed
from spmd_core.time import Served, ServingLoad
from spmd_core.words import RANGE
from spmd_lab.ui import cards, forms, links, price, state
from spmd_lab.ui.charts import shares
from spmd_lab.ui.choices import Linked
from spmd_lab.ui.markdown import as_sentence, plain
from spmd_lab.ui.predict import compiling, run_answer
from spmd_lab.ui.serving import frontier, varied
from spmd_lab.ui.shell import QUESTIONS, draw_figures, refused
from spmd_lab.ui.tables import table_frame

SCREEN = "predict"
_FIRST = dict(SERVING_FORM) | {"model": "qwen3-32b", "chips": "v6e:..16"}
_LINKED = {name: Linked("serving", name, first) for name, first in _FIRST.items()}
_LONGEST = 200  # characters of a field
_ROWS, _COMPILED = 12, 3
_VALID = "serving.valid"  # the last question that had an answer
# name of the form -> label, help
_FIELDS = {
    "chips": (
        "Chips",
        "v6e:..16 is up to 16 v6e, tpu7x:4 is 4. Commas for several of " + ", ".join(CHIPS),
    ),
    "input": ("Prompt tokens", "Of each request. 512..2048 is any length between."),
    "output": ("Output tokens", "Of each request. 512..2048 is any length between."),
    "concurrency": ("Concurrency", "Requests at once: each that ends begins another."),
    "tpot": (
        "Time per token within",
        "Each token after the first, on average: 40 is 40ms. Empty: no limit.",
    ),
    "ttft": ("First token within", "On average: 2s. Empty: no limit."),
    "rate": ("Requests a second", "They arrive by chance. Empty: as many at once as above."),
    "mesh": ("Mesh of a replica", "data=4,tensor=2. Empty: searched."),
    "chunk": ("Chunk of prompts", "Tokens in a step, on each shard of data."),
    "accepted": ("Tokens accepted", "Of a request in a step, with speculation; 1 without."),
    "requests": ("Requests in all", "From the first on. Empty: a load that goes on."),
    "seed": ("Seed", "Of lengths and arrivals."),
}
_IN_SIGHT = 5
_EXAMPLES = {  # of what may be empty
    "tpot": "no limit, or 40ms",
    "ttft": "no limit, or 2s",
    "rate": "10",
    "mesh": "searched, or data=4,tensor=2",
    "requests": "1000",
}


def show(share: DeltaGenerator) -> None:
    """Draws the mode: the question in the sidebar, then the answer."""
    with st.container(horizontal=True, vertical_alignment="center", key="head"):
        st.title(QUESTIONS["serving"], width="stretch")
        kept = st.container(horizontal=True, width="content")
    with st.sidebar:
        form = {"model": _choice("model", "Model", model_names())}
        form["chips"], below = _text("chips"), st.container()
        for name in list(_FIELDS)[1:_IN_SIGHT]:
            form[name] = _text(name)
        with forms.fold(SCREEN, "Change the question", "fields:serving", ":material/tune:"):
            price.field()
            for name in list(_FIELDS)[_IN_SIGHT:]:
                form[name] = _text(name)
            form["weights_dtype"] = _choice("weights_dtype", "Weights", (*SERVED_DTYPES, MXFP4))
            form["kv_dtype"] = _choice("kv_dtype", "Cache", tuple(SERVED_DTYPES))
    try:
        prices = price.text_of(generations(filter(None, map(str.strip, form["chips"].split(",")))))
        question = read_serving(form | {"price": prices})
        answer = _answered(question)
        state.set_aside(SCREEN, _VALID, question)
        below.caption(plain(_chips_words(question)))
    except RequestError as error:
        question = state.aside(SCREEN, _VALID)
        refused(SCREEN, as_sentence(_in_words(str(error))), question is not None)
        if question is None:
            links.share_box(share, SCREEN)
            return
        answer = _answered(question)
    with st.container(border=True, key="answer"):
        shown = st.container()
        answer = _compiled(answer)
        with shown:
            way_out = _headline(answer)
        frontier.draw(answer, partial(_answered_as, answer), _ask, way_out)
    _details(answer)
    varied.draw(question, partial(_answered_as, answer), SCREEN)
    with kept:
        file = varied.outputs(answer)
    links.share_box(share, SCREEN, file=file)


def _chips_words(question: ServingQuestion) -> str:
    """Returns the numbers of chips that are tried, of each kind: `1 to 16 v6e`."""
    counts: dict[str, list[int]] = {}
    for each in question.topologies:
        counts.setdefault(each.chip.generation, []).append(each.chips)
    return listed(
        [
            f"{between(f'{min(every):,}', f'{max(every):,}')} {chip_title(kind)}"
            for kind, every in counts.items()
        ]
    )


_answered = lru_cache(maxsize=32)(serve)


def _answered_as(known: ServingAnswer, asked: ServingQuestion) -> ServingAnswer:
    """Returns the answer to another question, by the steps that are compiled of what is `known`."""
    steps = {row.plan: row.compiled for row in known.rows if row.compiled}
    return with_compiled(_answered(asked), steps)


def _in_words(sentence: str) -> str:
    """Returns a refusal with the label of the field that it is about.

    >>> _in_words("tpot='-5' is not a time")
    "Time per token within '-5' is not a time"
    """
    name, _, rest = sentence.partition("=")
    return f"{_FIELDS[name][0]} {rest}" if name in _FIELDS else sentence


def _compiled(answer: ServingAnswer) -> ServingAnswer:
    """The answer with those of its best steps that are compiled, and a button for others."""
    points = decode_points(answer, _COMPILED)
    steps = tuple(points.values())
    outcomes = compiling.outcomes_of(steps)
    is_kept = answer.best is not None
    compiling.controls(steps, outcomes, lambda point: point.label, "best decode step", is_kept)
    answer = with_steps(answer, points, [each.numbers for each in outcomes])
    both = zip(steps, outcomes, strict=True)
    failed = (f"{step.label}: {each.words}" for step, each in both if each.words)
    if lines := [each for each in (engine_words(answer), *failed) if each]:
        _points_of(lines)
    if known := compiled_table(answer):
        run_answer.draw_filled(known)
    return answer


def _text(name: str) -> str:
    """Draws a field of text, and returns its text."""
    label, words = _FIELDS[name]
    empty = _EXAMPLES.get(name) or (_FIRST.get(name) or "")
    text = st.text_input(
        label, key=_seeded(name), max_chars=_LONGEST, help=words, placeholder=empty
    )
    return _LINKED[name].keep(text)


def _ask(concurrency: int) -> None:
    st.session_state[state.key(SCREEN, "serve.concurrency")] = str(concurrency)


def _choice(name: str, label: str, options: tuple[str, ...]) -> str:
    key = _seeded(name)
    if st.session_state[key] not in options:  # of a link: a model's own name, or several dtypes
        options = (*options, st.session_state[key])
    return _LINKED[name].keep(st.selectbox(label, options, key=key))


def _seeded(name: str) -> str:
    key, linked = state.key(SCREEN, f"serve.{name}"), _LINKED[name]
    fresh, text = linked.from_query(), linked.now()
    if fresh:
        st.session_state[key] = text
    return state.seed(key, text)


def _headline(answer: ServingAnswer) -> DeltaGenerator | None:
    """Draws the best sharding: its output, speed and memory, and what they are of. Returns where a
    load that keeps the limits is offered; None where the best keeps them.
    """
    lead = answer.lead
    headline = plain(serving_headline(answer, is_figured=True))
    if not lead or not (pool := lead.pool) or not (served := lead.served):
        _none_holds(answer, headline)
        return None
    with (badges := cards.headline(headline, "Compiled" if lead.compiled else "Estimated")):
        if served.waiting:
            st.badge(plain(f"{served.waiting:,} wait"), color="orange")
        if unsure := serving_open_words(answer):
            st.badge(plain(unsure), color="orange")
    way_out = None if answer.best else st.container()
    waiting = waiting_table(answer)
    if not waiting and (cost := beside_words(answer)):
        st.markdown(plain(cost))
    with cards.how_sure(badges):
        _points_of((*serving_sure(answer), *serving_assumptions(lead)))
    _figures(answer, lead, served)
    if waiting:
        st.markdown(f"**{plain(waiting_title(answer))}**")
        run_answer.draw_filled(waiting)
    st.html(shares.token_bar(token_parts(served)))
    st.html(shares.memory_bar(served_memory(lead), pool.capacity, when=""))
    return way_out


def _figures(answer: ServingAnswer, lead: ServingRow, served: Served) -> None:
    """Draws output, speed and memory of a row, and what they are of."""
    chips, _, token, made, _ = serving_figures(lead, answer.question.load)
    waits = span_text(served.ttft.low, served.ttft.high)
    held, room = sum(served_memory(lead).values()), served.pool.capacity
    memory = Figure("Memory per device", bytes_text(held), f"of {bytes_text(room)}")
    first = Figure("First token", seconds_text(served.ttft_s), waits)
    has_range = bool(
        served.output_times(answer.question.load)
    )  # a rate that it keeps up with has none
    more = f"{RANGE} {made.more}" if has_range else made.more
    draw_figures(
        [
            made._replace(title=f"Output {made.title.lower()}", more=more),
            token,
            first,
            memory,
        ],
        [*_of(answer, lead), Figure("Slice", chips.more)],
    )


def _none_holds(answer: ServingAnswer, headline: str) -> None:
    """Draws that no sharding holds a request, and buttons that serve on chips, or with weights, that
    do.
    """
    cards.headline(f":red[{headline}]", "Estimated")
    if row := answer.emptiest:  # what an engine leaves them of a device
        st.caption(plain(serving_assumptions(row)[0]))
    more, fewer = enough_chips(answer, _answered), narrower_weights(answer, _answered)
    if more and more.best:
        where = served_chips(more.best.plan)
        _way_out(more, f"Serve on {where}", "more-chips", "chips", more.question.chips[0])
    if fewer and fewer.best:
        dtype = fewer.best.plan.weights_dtype
        _way_out(fewer, f"Serve with {dtype} weights", "narrower", "weights_dtype", dtype)


def _way_out(held: ServingAnswer, label: str, key: str, name: str, text: str) -> None:
    """Draws an answer that holds the load, and a button that gives the question its field."""
    st.markdown(f":material/lightbulb: **{plain(enough_words(held))}**")
    st.button(
        plain(label),
        type="primary",
        key=f"serving:{key}",
        icon=":material/arrow_forward:",
        on_click=st.session_state.update,
        args=({state.key(SCREEN, f"serve.{name}"): text},),
    )


def _of(answer: ServingAnswer, lead: ServingRow) -> Iterator[Figure]:
    """Yields what the figures of the best sharding are of."""
    if (
        answer.question.tpot_s or answer.question.ttft_s
    ):  # without limits the headline names what is ranked by
        yield chosen_for(answer)
    yield Figure("Tokens/s of all chips", number_text(lead.per_chip * lead.chips))
    yield copies_figure(lead.plan)
    weights, cache = lead.plan.weights_dtype, lead.plan.kv_dtype
    yield Figure("Weights and cache in", weights if weights == cache else f"{weights} and {cache}")


def _details(answer: ServingAnswer) -> None:
    kinds = kinds_table(answer)
    if len(kinds.rows) > 1:
        st.subheader("Each kind of chips, at its best", anchor=False)
        run_answer.draw_filled(kinds)
    if answer.by_load:
        _loads(answer)
    with st.expander("Each mesh", key="serving-meshes"):
        run_answer.draw_filled(serving_table(answer, _ROWS))
        if copies := copies_words(answer):
            st.caption(plain(copies))
    if answer.by_load:
        with st.expander("Each load", key="serving-loads"):
            run_answer.draw_filled(SERVING_LOADS.table(answer.by_load, "screen"))
    if reasons := why_not_served(answer):
        with st.expander("Why not another"):
            _points_of(reasons)
    title, key = "Prefill apart from decode?", "serving-apart"
    with st.expander(title, key=key, on_change="rerun") as folded:
        if folded.open:
            listed = splits(answer.question)
            st.markdown(f"**{plain(apart_headline(answer, listed))}**")
            if listed:
                run_answer.draw_filled(SPLITS.table(listed[:_ROWS], "screen"))


def _loads(answer: ServingAnswer) -> None:
    """Draws the best of each load: lengths down, concurrency across; the mesh where it changes. Each
    cell has a line for each figure, as the first cell of the head names them.
    """
    loads = table_frame(SERVING_LOADS.table(answer.by_load, "screen")).map(escape)
    meshes, across = ([*dict.fromkeys(loads[name])] for name in ("Best sharding", "Concurrency"))
    titles = {"Tokens/s per chip": "b", "Time per token": "small", "Best sharding": "small"}
    if len(meshes) == 1:
        del titles["Best sharding"]
    assert answer.lead
    best = f": {meshes[0]} is best for each" if len(meshes) == 1 else ""
    st.subheader(plain(f"Other loads on {served_chips(answer.lead.plan)}{best}"), anchor=False)
    loads["Cell"] = [_late(answer.question, row) for _, row in answer.by_load]
    asked = answer.question.load
    loads["Cell"] += [
        '<small class="asked">the case above</small>' * (_sizes(load) == _sizes(asked))
        for load, _ in answer.by_load
    ]
    for name, tag in reversed(titles.items()):
        loads["Cell"] = f"<{tag}>" + loads[name] + f"</{tag}>" + loads["Cell"]
    key = "".join(f"<{tag}>{name}</{tag}>" for name, tag in titles.items())
    head = "".join(f"<th>{each}</th>" for each in across)
    grid = loads.pivot(index="Prompt, output", columns="Concurrency", values="Cell")[across]
    rows = "".join(
        f"<tr><th>{name}<small>prompt, output</small></th>"
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + "</tr>"
        for name, cells in zip(grid.index, grid.values, strict=True)
    )
    above = f'<th rowspan="2">{key}</th><th colspan="{len(across)}">requests at once</th>'
    st.html(f'<table class="stacked"><tr>{above}</tr><tr>{head}</tr>{rows}</table>')


def _late(question: ServingQuestion, row: ServingRow) -> str:
    """Returns as HTML by what a cell misses its question: requests that wait, and limits."""
    if (served := row.served) is None:
        return ""
    waiting = f"{served.running:,} run, {served.waiting:,} wait"
    limits = (
        (served.ttft.estimate, question.ttft_s, "first"),
        (served.tpot.estimate, question.tpot_s, "each"),
    )
    late = [waiting] * bool(served.waiting) + [
        f"misses {seconds_text(limit_s)} {what}"
        for seconds, limit_s, what in limits
        if limit_s and seconds > limit_s
    ]
    return "".join(f"<em>{escape(each)}</em>" for each in late)


def _sizes(load: ServingLoad) -> tuple[object, ...]:
    return load.input, load.output, load.concurrency


def _points_of(sentences: Iterable[str]) -> None:
    first, *others = sentences
    if not others:
        st.markdown(plain(first))
    else:
        st.markdown("\n".join(f"- {plain(each)}" for each in (first, *others)))
