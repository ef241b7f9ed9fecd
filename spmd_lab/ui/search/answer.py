"""The answer of a search: the winner first, the ranking, what was pruned, and why not another."""

import itertools
from collections.abc import Sequence
from statistics import median

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.advice import predict_command
from spmd_core.answers import (
    Figure,
    best_table,
    every_table,
    kept_ranking,
    ranking_table,
)
from spmd_core.base import (
    between,
    bytes_text,
    count_text,
    even_seconds,
    span_text,
)
from spmd_core.machine import compiler_refusal, get_topology
from spmd_core.program import rows as collective_rows
from spmd_core.script import script_text
from spmd_core.search import (
    SAME,
    Answer,
    AnyQuestion,
    Candidate,
    Ranked,
    axis_rules,
    rules_text,
)
from spmd_core.sheets import Table
from spmd_core.surveys import search as words
from spmd_core.sweeps import first_look
from spmd_core.trials import Search, searches as running
from spmd_core.words import RANGE, fact_words, predictions, tokens_text
from spmd_lab.ui import cards, choices, exports, state, style
from spmd_lab.ui.charts import glimpse
from spmd_lab.ui.lab import as_viewer, asker, begin as allowed, end, find, lab
from spmd_lab.ui.markdown import coded, plain
from spmd_lab.ui.predict import question as training
from spmd_lab.ui.predict.compiling import roughly
from spmd_lab.ui.price import PRICE
from spmd_lab.ui.search import charts, none_fits, rows
from spmd_lab.ui.shell import attempt, done, draw_figures, refusal
from spmd_lab.ui.tables import sheet, table_frame

ROWS, _MOST_ROWS, MOST_LISTED = 15, 60, 200
_LONG = "Remat"  # the column with the longest texts
_WIDTHS_PX = {"Mesh": 165, _LONG: 250}  # in which most names have room
_BEHIND = ("Causal MFU", "Host memory")  # columns behind it
BEFORE = "Before"  # when an answer is of other fields
INTERVAL_S = 1.0
_LINK = ":material/open_in_new:"
_FIT = {"yes": "fits", "likely": "may not fit", "unlikely": "may not fit"}  # as a gauge has it
# where rows differ in it
_SHARED = ("Per device", "Chips", "Target", "Strategy", "Fits", "Known by")
_COULD_WIN = "could win"  # of the stages that are listed
_CANDIDATE = "candidate"  # of the query string: the number of the one that is chosen


def begin(question: AnyQuestion, budget_s: float | None, few: int | None = None) -> None:
    """Starts a search and draws the screen again; the sentence where that is refused."""
    if running.running() >= running.AT_ONCE:
        refusal("Two searches are at work already: wait for one, or cancel it.")
    elif done(
        lambda: running.start(
            lab(), question, budget_s, allowed("search") if budget_s else asker(), few
        )
    ):
        st.rerun()


def may_begin(search: Search) -> bool:
    """Returns True unless a search has an answer that needs no other, or offers one itself."""
    answer = search.answer
    is_offered = words.next_label(answer) == words.AGAIN
    return not (search.is_over and answer.winner) or (answer.is_partial and not is_offered)


def is_next(question: AnyQuestion, search: Search | None) -> bool:
    """Returns True unless the answer offers what comes next: it has a winner, or more chips."""
    if search:
        return not (search.answer.winner or none_fits.offers_more(search.answer))
    return not none_fits.offers_more(first_look(question))


@st.fragment(run_every=INTERVAL_S)
def watch(search: Search, own: words.Own | None = None) -> None:
    """Progress of a search, its answer so far, and a way to stop it; the screen is drawn again when
    it is over. `own`: of a program as it is.
    """
    if search.is_over:
        st.rerun()
    with (
        st.container(border=True, key="search-live"),
        st.container(horizontal=True, vertical_alignment="center"),
    ):
        st.markdown(
            plain(words.doing(search.glance, search.doing, search.spent_s, search.most_s)),
            width="stretch",
        )
        if not search.is_ending and st.button(
            "Cancel",
            key="search:cancel",
            icon=":material/stop_circle:",
            help="Keeps what was found; searching again goes on from there.",
        ):
            if sentence := attempt(end, "search"):
                st.toast(plain(sentence))
            else:
                search.cancel()
    if search.doing == "estimating" and lab().searches.has(search.question.id):
        # its estimates are read again, and rank nothing before all are there
        kept = lab().searches.find(search.question.id)
        st.markdown(f"**{plain(words.READ_AGAIN)}** {plain(kept.words)}")
        st.dataframe(sheet(table_frame(kept_ranking(kept))), hide_index=True, key="search:kept")
        return
    st.progress(search.share)
    answer = search.glance
    if answer.winner is None:  # nothing better is known yet
        look(search.question)
        return
    headline(answer, when="So far", own=own)
    ranked(answer, is_counted=search.doing != "estimating")


def _best_of_each(answer: Answer) -> None:
    if len(answer.best_by_target) > 1:
        st.markdown(f"**{words.BEST_OF_EACH}**")
        st.dataframe(sheet(_shown(best_table(answer), answer)), hide_index=True)


def _figures(winner: Candidate, answer: Answer, own: words.Own | None = None) -> list[Figure]:
    goal, price = answer.question.minimize, dict(answer.question.price)
    of_steps, known = winner.step is not None, words.STAGES[winner.stage]
    span = span_text(winner.span[0], winner.span[1]) if winner.span else known
    own = own or words.as_exported(answer)
    took = even_seconds(winner.seconds)
    if own and (change := words.time_change(own, winner)):
        took, span = change, f"{f'{own.called} → found, ' * ('→' in change)}{span}"
    time = Figure("Time of a step" if of_steps else "Time", took, span)
    held = get_topology(winner.target).chip.device_hbm_bytes if of_steps else 0
    ends = between(*map(bytes_text, winner.memory_span)) if winner.memory_span else ""
    room = f"{ends} of {bytes_text(held)}".strip() if held else ""
    if winner.host_bytes and winner.host_capacity_bytes:
        room += f", {predictions.host_words(winner.host_bytes, winner.host_capacity_bytes)}"
    holds = bytes_text(winner.memory_bytes)
    if own and (change := words.memory_change(own, winner)):
        holds = change
        room = f"{own.called} → found" * ("→" in holds)
    memory = Figure(
        "Memory per device",
        holds,
        room,
        (winner.memory_bytes or 0) / held if held else 0.0,
        _FIT[winner.fits],
    )
    paid = words.paid_goal(goal, bool(price), of_steps)
    cost = Figure(words.cost_title(paid, of_steps), words.cost_text(winner, paid, price))
    costs = [cost] if cost.title else []
    times = [time]
    if of_steps:
        tokens = training.tokens()
        span = f"{RANGE} {words.days_span_of_tokens(winner, tokens)}, " * bool(winner.span)
        made = f"{span}{words.time_of_tokens(winner)} a billion tokens"
        days = words.days_of_tokens(winner, tokens)
        times.insert(0, Figure(f"For {tokens_text(tokens)}", days, made))
    share = [Figure("Causal MFU", f"{causal:.1%}")] if (causal := winner.mfu_causal) else []
    of_goal = {"memory": [memory, *times, *share], "time": [*times, *costs, *share, memory]}
    return of_goal.get(goal, [*costs, *times, *share, memory])


def _made_of(winner: Candidate) -> list[Figure]:
    """Returns the batch of a step, what it saves, and on which chips."""
    if not (plan := winner.plan):
        return []
    _, *policy, _, where = winner.name.split(" · ")
    batch = f"{plan.batch:,} × {plan.sequence:,}"
    return [
        Figure("Global batch", batch, "sequences × tokens"),
        Figure("Remat", " · ".join(policy)),
        Figure("On", where, plan.topology.called),
    ]


def headline(
    answer: Answer,
    when: str = "",
    ended: str = "",
    own: words.Own | None = None,
    is_offered: bool = False,
) -> bool:
    """The winner with its picture, its numbers, how sure it is, and what to do next; `when`: what it
    is the answer of, in a word, where nothing can go on with it; `ended`: why the search is over;
    `own`: the program as it is, which the winner is set beside; `is_offered`: a card above has the
    button that uses it. Returns True if the button that goes on was pressed.
    """
    winner = answer.winner
    if winner is None:
        first = answer.ranking[0].candidate if answer.ranking else None
        may = (_figures(first, answer), _made_of(first)) if first else None
        if not none_fits.draw(answer, may):
            st.error(plain(words.search_headline(answer)), icon=":material/block:")
        return False
    with st.container(border=True, key="answer"):
        with _beside_picture(winner):
            badges = _named(answer, winner, when, own)
            draw_figures(_figures(winner, answer, own), _made_of(winner))
        dropped = words.dropped_words(own, winner) if own else ""
        for why in filter(None, (*_whys(answer), words.held_words(answer, own), dropped)):
            st.markdown(plain(why))
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            pressed = _next(answer, winner, not when, ended)
            if winner.experiment.exported and not is_offered:
                _offer_best(answer, winner, own)
        with cards.how_sure(badges, "search"):
            for sentence in words.how_sure(answer):
                st.markdown(plain(sentence))
            st.caption(coded(" ".join(map(fact_words, answer.notes))))
        if winner.experiment.exported:  # whose card has no room beside it
            st.html(_picture(winner))
    _best_of_each(answer)
    return pressed


def _whys(answer: Answer) -> Sequence[str]:
    """Returns why the winner is ahead, in sentences of which some may be empty."""
    if answer.proof_of_winner is not None:
        return (words.verdict_words(answer),)
    return words.ahead_estimates(answer), words.ahead_of(answer)


def _named(answer: Answer, winner: Candidate, when: str, own: words.Own | None) -> DeltaGenerator:
    known = ", ".join(filter(None, (when, _KNOWN_AS[winner.stage])))
    headline = plain(words.best_words(answer, winner, own))
    with (row := cards.headline(headline, winner.stage.capitalize(), known)):
        unsure = words.open_words(answer)
        if unsure and not winner.experiment.exported:  # whose headline has it
            st.badge(plain(unsure), color="orange")
        if winner.experiment.place.is_simulated:
            style.evidence("Simulated")
    return row


def _beside_picture(winner: Candidate) -> DeltaGenerator:
    """Returns where an answer is written: of a computation beside its picture, with its longest
    collective once it was run.
    """
    if winner.step:
        return st.container()
    if winner.experiment.exported:
        return st.container()
    left, right = st.columns(2, gap="medium", vertical_alignment="center")
    right.html(_picture(winner))
    return left


def _picture(winner: Candidate) -> str:
    result = lab().result(winner.run) if winner.run else None
    outcome = result.strategies.get(winner.strategy) if result else None
    sent = next(iter(collective_rows(outcome.collectives or ())), None) if outcome else None
    return glimpse.html(winner.experiment, sent, large=True)


def _next(answer: Answer, winner: Candidate, is_over: bool, ended: str) -> bool:
    missing = compiler_refusal(winner.target) if winner.stage == "estimated" else None
    further = words.next_words(answer) if is_over else ""
    is_open = bool(further and words.open_words(answer)) and not missing  # not to be taken yet
    if further and missing:
        st.caption(coded(further))
    pressed = is_over and st.button(
        plain(words.next_label(answer)),
        type="primary" if is_open else "secondary",
        icon=":material/play_arrow:",
        key="search:next",
        help=coded(further),
    )
    seconds = _compile_s(answer) if is_open else 0.0
    key = "main-link-winner" if is_over and not is_open else "open-winner"
    if (proof := answer.proof_of_winner) is not None:
        with st.container(key=key, width="content"):
            label, query = "**Open the proof on Compare**", cards.query(proof.experiment, proof.run)
            st.page_link("pages/compare.py", label=label, icon=_LINK, query_params=query)
    elif not winner.experiment.exported:
        _open(winner, answer, key)
    takes = f"{roughly(seconds)} more." if seconds else ""
    if is_over and (more := " ".join(filter(None, (ended, takes)))):
        st.caption(plain(more), width="content")
    return pressed


def _compile_s(answer: Answer) -> float:
    """Returns how long the next compiles take if each takes as those of the search; 0 if none is known."""
    runs = [find(each.run) for each in answer.found if each.stage == "compiled" and each.run]
    took = [each.elapsed_s for each in runs if each and each.elapsed_s]
    return answer.next_compiles * median(took) if took else 0.0


_KNOWN_AS = {
    "measured": "Measured",
    "compiled": style.IN_FULL["Compiled"],
    "estimated": "Estimated",
}


def ranked(answer: Answer, is_counted: bool = True) -> None:
    """Draws the best meshes as rows: what was measured, compiled and only estimated; above them how
    many candidates got how far, where these are all counted.
    """
    if not (listed := rows.ranked_rows(answer.shardings, answer.proof_of_winner)):
        return
    if is_counted:
        st.caption(plain(words.funnel_words(answer)))
    _, title, _ = charts.times_of([row.candidate for row in listed])
    is_by_time = answer.question.minimize == "time"
    opened = answer.open_numbers, answer.proof_of_winner
    st.html(rows.html(listed, title, answer.counts, is_by_time, *opened))
    drawn = {number for row in listed for number in (row.candidate.number, *row.others)}
    if is_counted and (more := len(answer.open_numbers - drawn)):
        st.caption(f"{count_text(more)} more could win: *Every candidate* lists them.")


def look(question: AnyQuestion) -> bool:
    """What estimates of a few candidates show before anything is searched; False if there are none."""
    answer = first_look(question)
    if answer is None or not (answer.ranking or answer.question.kind == "model"):
        return False
    headline(answer, when="A first look")
    if answer.winner is None:  # of a few that were looked at
        ranked(answer, is_counted=False)
        return True
    ranked(answer)
    fronts(answer)
    every(answer)
    return True


def details(answer: Answer) -> None:
    """Everything else, in the order in which a reader needs it."""
    if answer.winner is None:
        st.caption(plain(f"{words.space_words(answer)} {words.state_words(answer)}"))
        every(answer)
        return
    ranked(answer)
    if answer.winner.experiment.exported:  # beside the answers of the screen
        with st.expander("Ranking, standard shardings, time against memory", key="search:more"):
            _ranked_in_full(answer)
    else:
        _ranked_in_full(answer)
    every(answer)


def _folded(title: str, key: str, answer: Answer, is_open: bool = False) -> DeltaGenerator:
    """Returns where a part is folded, unless all parts are."""
    is_within = answer.winner is not None and answer.winner.experiment.exported
    return st.container() if is_within else st.expander(title, is_open, key=key)


def _ranked_in_full(answer: Answer) -> None:
    is_chosen = _CANDIDATE in st.query_params
    with _folded("Every number, and what a plan costs", "search:plans", answer, is_chosen):
        _order(answer)
        chosen = _ranking(answer)
        st.markdown(plain(words.why_not(answer, chosen)))
        actions(chosen, answer)
    if (chart := charts.batch_chart(answer.best_by_batch)) is not None:
        st.subheader("Causal MFU against the batch", anchor=False)
        alt = words.batches_words(answer.best_by_batch)
        st.vega_lite_chart(chart, alt=alt, key="search:batch")
    if answer.standards:
        with _folded("Against the standard shardings", "search:standards", answer):
            if answer.winner and answer.winner.experiment.exported:
                st.subheader("Against the standard shardings", anchor=False)
            for each in answer.standards:
                st.markdown(f"- {plain(words.standard_words(answer, each))}")
    fronts(answer)


def fronts(answer: Answer) -> None:
    """Time against memory; against price first, where chips have one."""
    price = dict(answer.question.price)
    by_price = [("price", answer.front_of_price, price)] if price else []
    stage = words.STAGES[answer.ranking[0].candidate.stage]
    stage += " side by side" * bool(answer.proof_of_winner)
    of = f", of what is {stage}" if stage != "estimate" and answer.counts["estimated"] else ""
    for what, front, prices in (*by_price, ("memory", answer.front, None)):
        chart = charts.front_chart(answer.comparable, front, prices)
        if len(front) == 1:
            st.caption(plain(words.front_words(front, prices)))
        elif chart is not None:
            st.subheader(plain(f"Time against {what}{of}"), anchor=False)
            st.vega_lite_chart(
                chart, alt=words.front_words(front, prices), key=f"search:front:{what}"
            )


def _ranking(answer: Answer) -> Candidate:
    place, most = st.container(), most_rows(answer)
    shown = answer.listed(most)
    asked = st.query_params.get(_CANDIDATE, "")
    numbers = [[str(each.candidate.number) for each in group] for group in shown]
    choices.offered(_CANDIDATE, itertools.chain(*numbers))
    picked = [at for at, group in enumerate(numbers) if asked in group]
    table = _shown(ranking_table(answer, "screen", most), answer)
    event = st.dataframe(
        sheet(table),
        hide_index=True,
        height="content",
        key="search:ranking",
        on_select="rerun",
        selection_mode="single-row",
        selection_default={"selection": {"rows": picked}},
        column_config={"": st.column_config.Column(width=36)}
        | {name: st.column_config.Column(width=px) for name, px in _WIDTHS_PX.items()},
    )
    first = shown[0][0].candidate
    of_plans = (
        "A row is a mesh and a batch under its best policy. Of times within "
        f"{SAME:.1%} of the best the simplest is first. "
        f"{'1B: a billion tokens. ' if any('1B' in name for name in table) else ''}"
        if first.step
        else ""
    )
    more = coded(words.ranked_words(answer)) if len(answer.shardings) > len(shown) else ""
    stages = {each[0].candidate.stage for each in shown}
    order = "" if len(stages) == 1 else words.KNOWN_FIRST + " "
    fits = f"{words.FITS} " if "Fits" in table else ""
    place.subheader("Ranking", anchor=False, help=f"{of_plans}{fits}{order}")
    st.caption(f"Choose a row to see what it costs, and to open it. {more}")
    picks = [row for row in event["selection"]["rows"] if row < len(shown)]
    chosen = _policy(shown[picks[0] if picks else 0], asked)
    if picks or chosen is not first:
        st.query_params[_CANDIDATE] = str(chosen.number)
    else:
        st.query_params.pop(_CANDIDATE, None)
    return chosen


def _order(answer: Answer) -> None:
    """Draws the order of rows of which some may not fit."""
    firsts = [group[0].candidate for group in answer.listed(most_rows(answer))]
    if any(each.step and each.fits != "yes" for each in firsts):
        st.caption("First what is sure to fit, by time; then what may not fit.")


def most_rows(answer: Answer) -> int:
    """Returns how many rows of the ranking have all that could win among them, within bounds."""
    open_ = answer.open_numbers
    last = [
        at for at, group in enumerate(answer.shardings, 1) if group[0].candidate.number in open_
    ]
    return min(_MOST_ROWS, max([ROWS, *last[-1:]]))


def _policy(group: Sequence[Ranked], asked: str) -> Candidate:
    """The candidate of a row whose policy is chosen: what is saved, offloaded and recomputed."""
    policies = {str(each.candidate.number): each.candidate for each in group[:MOST_LISTED]}
    first = next(iter(policies))
    if len(policies) == 1 or not policies[first].step:
        return policies[asked if asked in policies else first]
    key = f"search:policy:{first}"
    number = st.selectbox(
        "Remat",
        list(policies),
        key=state.seed(key, asked if asked in policies else first),
        format_func=lambda number: words.policy_words(policies[number]),
        help="What the forward pass saves or offloads. The best of this mesh and batch first.",
    )
    return policies[number]


def _shown(table: Table, answer: Answer) -> pd.DataFrame:
    """A table without the columns that are alike in each row, which the headline has."""
    alike = {*_SHARED} - ({"Chips", "Target"} if len(answer.best_by_target) > 1 else set())
    drawn = table_frame(table)
    same = [name for name in table.columns if len({*drawn[name]}) == 1 < len(drawn)]
    drawn = drawn.drop(columns=[name for name in same if name in alike])
    if _LONG not in drawn:
        return drawn
    # how a time is known is in the title of its column; what may not fit is beside the memory
    last = [_LONG, *(name for name in _BEHIND if name in drawn)]
    order = [name for name in drawn if name not in (*last, "Fits", "Known by")]
    if "Fits" in drawn:
        order.insert(order.index("Memory") + 1, "Fits")
    return drawn[[*order, *last]]


def _prices(answer: Answer, title: str) -> dict[str, str]:
    """Returns the prices of a question, as a link to Predict has them."""
    listed = [f"{kind}={each:.12g}" for kind, each in answer.question.price]
    return {PRICE: ",".join(listed)} if listed and title == "Predict" else {}


def _open(candidate: Candidate, answer: Answer, key: str) -> None:
    experiment = candidate.experiment
    title = "Predict" if candidate.step or experiment.place.is_absent else "Compare"
    title = "Programs" if experiment.exported else title
    page = cards.page_of(experiment) if candidate.step else f"pages/{title.lower()}.py"
    query = cards.query(experiment, candidate.run) | _prices(answer, title)
    if experiment.exported:
        _use(candidate, key)
    else:
        with st.container(key=key, width="content"):
            st.page_link(page, label=f"**Open on {title}**", icon=_LINK, query_params=query)
    if (
        candidate.stage == "estimated"
        and not candidate.is_pipeline
        and not key.endswith("winner")
        and st.button(
            "Compile it" if experiment.place.is_absent else "Run it",
            icon=":material/play_arrow:",
            key=f"{key}:compile",
        )
    ):
        done(
            lambda: st.switch_page(
                page, query_params=cards.query(experiment, as_viewer(lab().submit, experiment))
            )
        )


def _use(candidate: Candidate, key: str) -> None:
    """Draws the button that gives a program a mesh and specs, which `Undo` takes back."""
    if state.experiment("programs").is_alike(candidate.experiment):
        st.badge("In use", icon=":material/check:", color="green")
    elif st.button("Use its mesh and specs", icon=":material/build:", key=f"use:{key}"):
        _show(candidate)


def _offer_best(answer: Answer, winner: Candidate, own: words.Own | None) -> None:
    """Draws the button that uses a search's best; nothing where that is not faster."""
    own = own or words.as_exported(answer)
    if state.experiment("programs").is_alike(winner.experiment):
        st.badge("In use", icon=":material/check:", color="green")
    elif own is None or words.is_ahead(own, winner):
        offer(winner, own, is_first=False, key="winner")


def offer(winner: Candidate, own: words.Own | None, is_first: bool, key: str = "card") -> None:
    """Draws the button that gives a program the mesh and specs of a search's best. `own`: what the
    program takes as it is; `is_first`: no other button is.
    """
    kind = "primary" if is_first else "secondary"
    label = plain(f"Use {words.choice_words(own, winner)}")
    if st.button(label, type=kind, icon=":material/build:", key=f"use:{key}"):
        _show(winner)


def _show(candidate: Candidate) -> None:
    """Opens a program with other mesh and specs, and with their run."""
    before, after = state.experiment("programs"), candidate.experiment.without_own_specs()
    if before.program == after.program:
        state.note_change("programs", before, after)
        state.note_act("programs")
        state.set_aside("programs", state.OPENED, after.id)  # by a press
    st.switch_page("pages/programs.py", query_params=cards.query(after, candidate.run))


def _stage_field(place: DeltaGenerator, answer: Answer) -> str:
    kinds = ["all", *[_COULD_WIN] * bool(answer.open_numbers), *words.STAGES]
    called = {"pruned": words.STAGES["pruned"]}
    return place.selectbox(
        "Stage", kinds, key="search:fate", format_func=lambda kind: called.get(kind, kind)
    )


def _is_of(each: Candidate, state: str, answer: Answer) -> bool:
    return (
        each.number in answer.open_numbers if state == _COULD_WIN else state in ("all", each.stage)
    )


def actions(candidate: Candidate, answer: Answer) -> None:
    """Open a candidate of an answer on its screen, download its script, and its axis rules."""
    experiment = candidate.experiment
    with st.container(horizontal=True, vertical_alignment="center"):
        _open(candidate, answer, "open-chosen")
        exports.download(
            "Script",
            lambda: script_text(experiment),
            "search.py",
            "A Python script of plain JAX that reproduces it.",
        )
    if experiment.exported:
        st.code(rules_text(experiment), language="python")
    if (plan := candidate.plan) is not None:
        st.code(predict_command(plan), language="bash", wrap_lines=True)
        with st.expander("Axis rules for MaxText and Flax"):
            st.code(axis_rules.maxtext(plan), language="yaml")
            st.code(axis_rules.flax(plan), language="python")


def every(answer: Answer) -> None:
    """Every candidate with its stage, filtered by words."""
    looked = " that was looked at" if answer.counts["not looked at"] else ""
    title = f"Every candidate{looked} ({count_text(len(answer.found))})"
    box = st.expander(title, key="search:every", on_change="rerun")
    if not box.open:  # tens of thousands of names: filtered only for who looks
        return
    with box:
        left, right = st.columns([3, 2])
        text = left.text_input(
            "Words of the name", key="search:filter", placeholder="tensor=4", max_chars=100
        )
        state = _stage_field(right, answer)
        wanted = text.replace(" · ", " ").split()
        listed = [
            each
            for each in answer.found
            if _is_of(each, state, answer) and all(word in each.name for word in wanted)
        ]
        place = {entry.candidate.number: at for at, entry in enumerate(answer.ranking)}
        listed.sort(key=lambda each: (place.get(each.number, len(place)), not each.is_ranked))
        if not listed:
            st.caption("No candidate has these words and this stage.")
            return
        shown = listed[:MOST_LISTED]
        event = st.dataframe(
            sheet(table_frame(every_table(shown, answer))),
            hide_index=True,
            key="search:fates",
            on_select="rerun",
            selection_mode="single-row",
        )
        picks = event["selection"]["rows"]
        if picks and picks[0] < len(shown):
            st.markdown(plain(words.why_not(answer, shown[picks[0]])))
        st.caption(
            f"{count_text(len(shown))} of {count_text(len(listed))} shown. "
            "Choose a row to see what it costs, and where it first loses."
        )
