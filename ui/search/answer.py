"""The answer of a search: the winner first, the ranking, what was pruned, and why not another."""

import pandas as pd
import streamlit as st

from spmd_core.base import bytes_text, count_text, seconds_text
from spmd_core.script import script_text
from spmd_core.search import SAME, Answer, Candidate, axis_rules, price_per_billion, rules_text
from spmd_core.trials import Search
from spmd_core.words import predict_command
from spmd_core.words import search as words
from ui import cards, exports
from ui.lab import end
from ui.markdown import coded, plain
from ui.search import charts
from ui.shell import attempt
from ui.tables import sheet

ROWS, MOST_LISTED = 15, 200
INTERVAL_S = 1.0
_SHARED = ("Batch", "Chips", "Target", "Strategy")  # a column where rows differ in it
_CANDIDATE = "candidate"  # of the query string: the number of the one that is chosen


@st.fragment(run_every=INTERVAL_S)
def watch(search: Search) -> None:
    """Progress of a search, its answer so far, and a way to stop it; the screen is drawn again when
    it is over.
    """
    if search.is_over:
        st.rerun()
    with (
        st.container(border=True, key="search-live"),
        st.container(horizontal=True, vertical_alignment="center"),
    ):
        st.markdown(
            plain(words.doing(search.glance, search.doing, search.spent_s, search.budget_s)),
            width="stretch",
        )
        if st.button(
            "Cancel",
            key="search:cancel",
            icon=":material/stop_circle:",
            help="Keeps what was found; searching again goes on from there.",
        ):
            if sentence := attempt(end, "search"):
                st.toast(plain(sentence))
            else:
                search.cancel()
    answer = search.glance
    if (
        search.doing == "estimating" and search.earlier_words
    ):  # which the estimates below are only part of
        st.markdown(f"**{plain(words.SAID)}** {plain(search.earlier_words)}")
    if answer.space:
        st.progress(
            min(
                1.0,
                search.spent_s / search.budget_s
                if search.budget_s
                else len(answer.found) / answer.space,
            )
        )
    if answer.ranking:
        st.dataframe(sheet(ranking_table(answer)), hide_index=True, key="search:live")


def headline(answer: Answer) -> None:
    """The winner with its number, and how sure it is."""
    winner = answer.winner
    if winner is None:
        st.error(plain(words.search_headline(answer)), icon=":material/block:")
        return
    st.subheader(plain(winner.name), anchor=False)
    known = words.STAGES[winner.stage]
    goal, price = answer.question.minimize, dict(answer.question.price)
    time, memory = (
        (f"{'Time of a step' if winner.step else 'Time'}, {known}", seconds_text(winner.seconds)),
        ("Memory per device", bytes_text(winner.memory_bytes)),
    )
    paid = "price" if goal == "time" and winner.step and price else goal
    cost = words.cost_title(winner, paid), words.cost_text(winner, paid, price)
    costs = [cost] if cost[0] else []
    share = [("MFU", f"{winner.mfu:.1%}")] if winner.mfu else []
    # what is minimized comes first
    of_goal = {"memory": [memory, time, *share], "time": [time, *costs, *share, memory]}
    figures = of_goal.get(goal, [*costs, time, *share, memory])
    if len(figures) < 3:
        figures.append(("Candidates", count_text(answer.space)))
    for column, (title, value) in zip(st.columns(len(figures)), figures, strict=True):
        column.metric(plain(title), plain(value))
    sure = words.sure_words(answer), words.looked_words(answer), words.risk_words(answer)
    st.markdown(plain(" ".join(each for each in sure if each)))
    if len(answer.best_by_target) > 1:
        rows = [words.best_row(each, answer) for each in answer.best_by_target.values()]
        table = pd.DataFrame(rows, columns=list(words.BEST_TITLES))
        st.markdown("**Best of each target**")
        st.dataframe(sheet(table if price else table.drop(columns="Price")), hide_index=True)
    if following := words.next_words(answer):
        st.markdown(plain(following))
    if (proof := answer.proof_of_winner) is not None:
        st.page_link(
            "pages/compare.py",
            label="**Open the proof on Compare**",
            icon=":material/open_in_new:",
            query_params=cards.query(proof.experiment, proof.run),
        )


def details(answer: Answer) -> None:
    """Everything else, in the order in which a reader needs it."""
    winner = answer.winner
    st.caption(
        f"{plain(words.space_words(answer))} "
        f"{plain(words.state_words(answer))} {coded(' '.join(answer.notes))}"
    )
    if winner is None:
        every(answer)
        return
    chosen = _ranking(answer) or winner
    st.markdown(plain(words.why_not(answer, chosen)))
    actions(chosen)
    if (chart := charts.batch_chart(answer.best_by_batch)) is not None:
        st.subheader("MFU against the batch", anchor=False)
        alt = words.batches_words(answer.best_by_batch)
        st.vega_lite_chart(chart, alt=alt, key="search:batch")
    if answer.standards:
        st.subheader("Against the standard shardings", anchor=False)
        for each in answer.standards:
            st.markdown(f"- {plain(words.standard_words(answer, each))}")
    fronts(answer)
    every(answer)


def fronts(answer: Answer) -> None:
    """Time against memory; against price first, where chips have one."""
    price = dict(answer.question.price)
    by_price = [("price", answer.front_of_price, price)] if price else []
    for what, front, prices in (*by_price, ("memory", answer.front, None)):
        chart = charts.front_chart(answer.ranking, front, prices)
        if len(front) == 1:
            st.caption(plain(words.front_words(front, prices)))
        elif chart is not None:
            st.subheader(f"Time against {plain(what)}", anchor=False)
            st.vega_lite_chart(
                chart, alt=words.front_words(front, prices), key=f"search:front:{what}"
            )


def _ranking(answer: Answer) -> Candidate | None:
    """The ranking; the candidate of the row that was chosen."""
    st.subheader("Ranking", anchor=False)
    shown = answer.ranking[:ROWS]
    asked = st.query_params.get(_CANDIDATE, "")
    picked = [at for at, each in enumerate(shown) if str(each.candidate.number) == asked]
    event = st.dataframe(
        sheet(ranking_table(answer)),
        hide_index=True,
        key="search:ranking",
        on_select="rerun",
        selection_mode="single-row",
        selection_default={"selection": {"rows": picked}},
    )
    rest, first = len(answer.ranking) - len(shown), shown[0].candidate
    more = f" {coded(words.ranked_words(answer))}" if rest > 0 else ""
    same = f" Of times within {SAME:.1%} of the best the simplest is first." if first.step else ""
    stages = dict.fromkeys(entry.candidate.stage for entry in shown)
    order = (
        f"Rows that are {' come before rows that are '.join(stages)}." if len(stages) > 1 else ""
    )
    st.caption(f"Choose a row to see what it costs, and to open it. {plain(order)}{same}{more}")
    rows = event["selection"]["rows"]
    chosen = shown[rows[0]].candidate if rows and rows[0] < len(shown) else None
    if chosen:
        st.query_params[_CANDIDATE] = str(chosen.number)
    else:
        st.query_params.pop(_CANDIDATE, None)
    return chosen


def ranking_table(answer: Answer) -> pd.DataFrame:
    """A row per candidate, the best first."""
    goal, price, rows = answer.question.minimize, dict(answer.question.price), []
    proof = answer.proof_of_winner
    for place, entry in enumerate(answer.ranking[:ROWS], 1):
        each = entry.candidate
        low, high = each.span or (None, None)
        # how it is known beside the time, in sight of a narrow window too
        rows.append(
            {
                "": place,
                "Cost": words.cost_text(each, goal, price),
                "Time": seconds_text(each.seconds),
                "Known by": words.known_by(each, proof),
                **columns(each),
                **figures(each, {} if goal == "price" else price),  # which "Cost" has
                "Memory": bytes_text(each.memory_bytes),
                "Fits": each.fits if each.plan else "",
                "Interval": f"{seconds_text(low)} to {seconds_text(high)}" if low else "–",
                "Others": f"{count_text(len(entry.alike))} of the same time" if entry.alike else "",
            }
        )
    table = pd.DataFrame(rows)
    if answer.winner is not None and (title := words.cost_title(answer.winner, goal)):
        table = table.rename(columns={"Cost": title})
    return table.drop(
        columns=[
            name
            for name in ("Cost", "Others", "Fits", "MFU", "$ per billion tokens", *_SHARED)
            if name in table
            and (not any(table[name]) or (name in _SHARED and len({*table[name]}) == 1 < len(rows)))
        ]
    )


def figures(candidate: Candidate, price: dict[str, float]) -> dict[str, str]:
    """MFU, and the price of a billion tokens where it is not what is minimized; "" of none."""
    cost = price_per_billion(candidate, price)
    return {
        "$ per billion tokens": "" if cost is None else f"{cost:.2f}",
        "MFU": f"{candidate.mfu:.1%}" if candidate.mfu else "",
    }


def columns(candidate: Candidate) -> dict[str, str]:
    """The parts of a candidate's name, by what they are."""
    parts = candidate.name.split(" · ")
    titles = (
        ("Mesh", "Remat", "Batch", "Chips")
        if candidate.point is None
        else ("Mesh", "Sharding", "Strategy", "Target")
    )
    return dict(zip(titles, parts, strict=False))


def actions(candidate: Candidate) -> None:
    """Open a candidate on its screen, download its script, and its axis rules."""
    experiment = candidate.experiment
    page = cards.page_of(experiment)
    with st.container(horizontal=True, vertical_alignment="center"):
        title = "Predict" if candidate.step or experiment.place.is_absent else "Compare"
        title = "Programs" if experiment.exported else title
        page = f"pages/{title.lower()}.py" if not candidate.step else page
        st.page_link(
            page,
            label=f"**Open on {title}**",
            icon=":material/open_in_new:",
            query_params=cards.query(experiment, candidate.run),
        )
        exports.text_button(
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
    box = st.expander(_title(answer), key="search:every", on_change="rerun")
    if not box.open:  # tens of thousands of names: filtered only for who looks
        return
    with box:
        left, right = st.columns([3, 2])
        text = left.text_input(
            "Words of the name", key="search:filter", placeholder="tensor=4", max_chars=100
        )
        state = right.selectbox("Stage", ["all", *words.STAGES], key="search:fate")
        wanted = text.replace(" · ", " ").split()
        listed = [
            each
            for each in answer.found
            if state in ("all", each.stage) and all(word in each.name for word in wanted)
        ]
        place = {entry.candidate.number: at for at, entry in enumerate(answer.ranking)}
        listed.sort(key=lambda each: (place.get(each.number, len(place)), not each.is_ranked))
        if not listed:
            st.caption("No candidate has these words and this stage.")
            return
        shown = listed[:MOST_LISTED]
        event = st.dataframe(
            sheet(fates_table(shown, dict(answer.question.price))),
            hide_index=True,
            key="search:fates",
            on_select="rerun",
            selection_mode="single-row",
        )
        rows = event["selection"]["rows"]
        if rows and rows[0] < len(shown):
            st.markdown(plain(words.why_not(answer, shown[rows[0]])))
        st.caption(
            f"{count_text(len(shown))} of {count_text(len(listed))} shown. "
            "Choose a row to see what it costs, and where it first loses."
        )


def _title(answer: Answer) -> str:
    looked = " that was looked at" if words.looked_words(answer) else ""
    return f"Every candidate{looked} ({count_text(len(answer.found))})"


def fates_table(candidates: list[Candidate], price: dict[str, float]) -> pd.DataFrame:
    """A row per candidate: what became of it, and why."""
    return pd.DataFrame(
        [
            {
                **columns(each),
                "Stage": words.STAGES[each.stage],
                "Why": each.reason or "",
                "Rule": each.detail,
                "Time": seconds_text(each.seconds),
                "Memory": words.memory_words(each),
                **figures(each, price),
            }
            for each in candidates
        ]
    )
