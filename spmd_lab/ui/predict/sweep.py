"""A prediction varied: what is swept, what that costs, the curves as the compiles come in, and a
table to open each point from.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import dropwhile

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.answers import Figure, best_figures, point_state, points_table
from spmd_core.base import RequestError, bytes_text, seconds_text, span_text
from spmd_core.experiment import Experiment
from spmd_core.surveys import (
    GOOD,
    above_words,
    doubt_words,
    grown_most,
    may_fall_short,
    missing_words,
    point_title,
    points_words,
    reach_words,
    row_cost,
    run_cells,
    scaled_rows,
    step_tokens,
    sweep_headline,
    sweep_notes,
    total_batch,
)
from spmd_core.sweeps import (
    BEST,
    EFFICIENCIES,
    FIRST,
    PUBLISHED_SPAN,
    STRAGGLERS,
    VARIABLES,
    Meshes,
    Scaling,
    Sweep,
    SweepRow,
    Value,
    Variable,
    csv_text,
    curves,
    estimated,
    parse_sweep,
    variants,
)
from spmd_core.words import RANGE, predictions, share_words, tokens_text
from spmd_lab.ui import cards, choices, exports, links, price, state
from spmd_lab.ui.charts.base import Spec
from spmd_lab.ui.markdown import as_sentence, plain
from spmd_lab.ui.predict import compiling, question, sweep_charts
from spmd_lab.ui.predict.scaling_chart import (
    SCALING,
    scaling_alt,
    scaling_chart,
    span_words,
)
from spmd_lab.ui.predict.sweep_axes import TOO_LARGE
from spmd_lab.ui.shell import QUESTIONS, draw_figures, draw_table, refusal, refused
from spmd_lab.ui.tables import table_frame

_OF_SCALING = {"scaling": "weak", "meshes": "kept"}  # what a link leaves out
# of a point, whose others are in the CSV
_SHOWN = (
    "Mesh",
    "Remat",
    "State",
    "Tokens a step",
    "Step",
    "Tokens/s/chip",
    "Efficiency",
    "Days",
    "Dollars",
    "Chip-hours",
    "Memory",
    "Bound by",
)
_MOST_WAYS = 3  # buttons of points that do not fit
_ONE_BAR_PX = 60
_COLUMNS = 2  # of charts: titles and legends of three are cut in narrow windows
_WRITTEN = "predict:sweep:written"  # what was written to the address bar last
_KEPT: Meshes = "kept"
_WEAK: Scaling = "weak"
_MESHES: dict[Meshes, str] = {BEST: "Best of each", "kept": "This mesh, resized"}
_SCALING_HELP = (
    "Weak scaling has the same batch per chip, strong scaling the same in total. Of a mesh that is "
    "resized, fsdp or data takes the chips that come in, and the other axes stay"
)
_PLANS_HELP = (
    "The plan that Predict finds for each number of chips, or your own: what it saves, its microbatches "
    "and its mesh, which is resized"
)


def show(
    experiment: Experiment,
    fields: DeltaGenerator | None = None,
    downloads: DeltaGenerator | None = None,
) -> None:
    """The sweep of a valid experiment whose target is a topology, with its fields and its downloads
    at their places. It starts no compile until its button is pressed.
    """
    with fields or st.container():
        sweep, sentence = _fields(experiment)
    if sentence:
        sweep, _ = _linked(experiment)
        refused("predict", sentence, sweep is not None)
    if sweep is None:
        return
    _write_query(sweep)
    points = variants(sweep)
    outcomes = compiling.outcomes_of(points)
    rows = curves(points, list(map(estimated, points, outcomes)))
    alike, compiled = _alike(rows)
    rows = [
        replace(each, outcome=row.outcome, exposed_share=row.exposed_share)
        for row, each in zip(rows, alike, strict=True)
    ]
    total = total_batch(sweep)
    with st.container(border=True, key="answer"):
        others = _charts(sweep, alike, compiled, total)
        _reasons(sweep, rows)
        if not sentence:
            compiling.controls(points, outcomes, lambda point: point_title(sweep, point))
        _ways_out(sweep, rows)
    _table(sweep, alike if compiled else rows, known=rows if compiled else ())
    _downloads(downloads or st.container(), sweep, rows)
    _folded(sweep, alike, total, others)


def _folded(
    sweep: Sweep, rows: Sequence[SweepRow], total: Sequence[SweepRow], others: dict[str, Spec]
) -> None:
    """Draws what is made where it is opened: the meshes of the same total batch, the other curves."""
    if total:
        with st.expander("Same total batch: every plan", key="total", on_change="rerun") as folded:
            if folded.open:
                _table(replace(sweep, scaling="strong"), total, ("State",))
    if not others:
        return
    with st.expander("Every curve", key="curves", on_change="rerun") as folded:
        if folded.open:
            columns = st.columns(_COLUMNS)
            for place, (name, chart) in enumerate(others.items()):
                with columns[place % _COLUMNS]:
                    _chart(sweep, rows, name, chart)


def _reasons(sweep: Sweep, rows: Sequence[SweepRow]) -> None:
    """Draws the points without a place on the curves, and those of another mesh, by the reason, each
    reason once.
    """
    reasons: dict[str, list[SweepRow]] = {}
    for row in rows:
        if words := row.point.refusal or _replaced(row):
            reasons.setdefault(words, []).append(row)
        if words := _failed(row):
            reasons.setdefault(words, []).append(row)
    for words, each in reasons.items():
        st.caption(plain(f"{points_words(sweep, each)}: {words}"))


def _replaced(row: SweepRow) -> str:
    """Returns why a point that fits has another plan than the sweep; the table has which."""
    unfit = row.point.unfit
    return f"another mesh or remat than your plan, {unfit}" if unfit else ""


def _failed(row: SweepRow) -> str:
    if row.outcome.state not in ("failed", *TOO_LARGE):
        return ""
    return row.outcome.words or point_state(row) * (row.outcome.state == "failed")


def _alike(rows: Sequence[SweepRow]) -> tuple[Sequence[SweepRow], Sequence[SweepRow]]:
    """Returns rows that compare, and what stands beside them: where some points are compiled and
    others are estimated, the estimates of all, and the compiled ones.
    """
    timed = [row for row in rows if row.numbers.step_s]
    compiled = [row for row in timed if not row.is_estimated]
    if len(compiled) in (0, len(timed)):
        return rows, ()
    outcomes = [
        row.outcome if row.is_estimated or not row.numbers.step_s else estimated(row.point)
        for row in rows
    ]
    alike = curves([row.point for row in rows], outcomes)
    if sum(bool(row.numbers.step_s) for row in alike) < len(timed):
        return rows, ()
    return alike, compiled


_VIEWS = {"step": "One prediction", "sweep": "Sweep"}


def question_shown() -> str:
    """Returns the title of the view that is open: the question that it answers."""
    if not is_open():
        return QUESTIONS["predict"]
    return "How far does it scale?" if scales() else "What changes, and why?"


def scales() -> bool:
    """Returns True if the screen shows a sweep over chips."""
    linked = st.query_params.get("sweep", "").partition("=")[0] or FIRST
    vary = st.session_state.get(state.key("predict", "sweep"), linked)
    return is_open() and vary in VARIABLES and VARIABLES[vary].scales


def is_open() -> bool:
    """Whether the screen shows a sweep. It does where the query has `show=sweep`, or a sweep, or
    the tab that a sweep had before.
    """
    return (
        st.query_params.get(choices.SHOWN) == "sweep"
        or "sweep" in st.query_params
        or st.query_params.get(choices.TAB) == "Sweep"
    )


def choose() -> None:
    """A switch between one prediction and a sweep."""
    key = "predict:shown"
    st.session_state[key] = "sweep" if is_open() else "step"
    st.segmented_control(
        "What is shown",
        list(_VIEWS),
        format_func=lambda view: plain(_VIEWS[view]),
        key=key,
        required=True,
        on_change=_turn,
        args=(key,),
        label_visibility="collapsed",
        width="content",
    )


def _turn(key: str) -> None:
    """Write the chosen view to the address bar; a sweep belongs to its own view only."""
    _leave()
    if st.session_state[key] != "step":
        st.query_params[choices.SHOWN] = st.session_state[key]


def _leave() -> None:
    for name in ("sweep", *_OF_SCALING, choices.SHOWN):
        st.query_params.pop(name, None)
    if st.query_params.get(choices.TAB) == "Sweep":
        del st.query_params[choices.TAB]


# Fields
# ------------------------------------------------------------------------------------------------------------------


def _fields(experiment: Experiment) -> tuple[Sweep | None, str | None]:
    linked, notice = _linked(experiment)
    if notice:
        refusal(f"This link's sweep cannot be opened as it is. {notice}")
    # a link was opened: its fields take the place of those that were
    fresh = linked is not None and _swept() != st.session_state.get(_WRITTEN)
    first = linked.vary if linked else FIRST
    able = (None, *experiment.sizes)
    known = [name for name, row in VARIABLES.items() if row.needs in able or name == first]
    vary = st.selectbox(
        "Vary",
        known,
        key=_seeded("sweep", first, fresh),
        format_func=lambda name: VARIABLES[name].title,
    )
    variable = VARIABLES[vary]
    own = linked.values if linked and linked.vary == vary else None
    values = own or _from_first_fit(experiment, variable)
    text = _values(variable, experiment, variable.text_of(values), fresh)
    scaling, meshes = _WEAK, _KEPT
    if variable.scales:
        scaling, meshes = _ways_to_scale(experiment, linked, fresh)
    if experiment.plan:
        price.field(experiment.plan.topology.chip.generation)
    try:
        return parse_sweep(experiment, f"{vary}={text}", scaling, meshes), None
    except RequestError as error:
        return None, str(error)


def _from_first_fit(experiment: Experiment, variable: Variable) -> tuple[Value, ...]:
    """Returns the values worth starting with; of chips without those, fewer than its own, on which no
    plan fits.
    """
    values = variable.default(experiment)
    if not (variable.scales and experiment.plan):
        return values
    scaling, own = _first_scaling(experiment), experiment.plan.topology.chips

    def has_fit(chips: Value) -> bool:
        (point,) = variants(Sweep(experiment, variable.name, (chips,), scaling, BEST))
        return point.fits == "yes"

    return tuple(dropwhile(lambda chips: chips != own and not has_fit(chips), values))


def _ways_to_scale(
    experiment: Experiment, linked: Sweep | None, fresh: bool
) -> tuple[Scaling, Meshes]:
    first = linked.scaling if linked else _first_scaling(experiment)
    scaling = st.selectbox(
        "Scaling",
        list(SCALING),
        key=_seeded("sweep:scaling", first, fresh),
        format_func=lambda name: SCALING[name],
        help=_SCALING_HELP,
    )
    if not experiment.plan:
        return scaling, _KEPT
    meshes = linked.meshes if linked and linked.scaling == scaling else BEST
    chosen = st.segmented_control(
        "Plans",
        list(_MESHES),
        key=_seeded(f"sweep:meshes:{scaling}", meshes, fresh),
        format_func=lambda name: _MESHES[name],
        required=True,
        help=_PLANS_HELP,
    )
    return scaling, chosen or _KEPT


def _first_scaling(experiment: Experiment) -> Scaling:
    """Returns how a sweep begins: with the same total batch where a chip has less than a sequence, of
    which fewer chips would have none.
    """
    plan = experiment.plan
    return "strong" if plan and plan.batch < plan.topology.chips else _WEAK


def _values(variable: Variable, experiment: Experiment, values: str, fresh: bool) -> str:
    """The field of the values: a choice where a variable has few, else a text."""
    place = f"sweep:{variable.name}"
    if variable.is_of_topology:
        place = f"{place}:{experiment.device_count}"
    if variable.choices is None:
        return st.text_input(
            "Values",
            key=_seeded(place, values, fresh),
            help=plain(variable.help),
            placeholder=variable.example,
        )
    offered = variable.choices()
    key = _seeded(place, [v for v in values.split(variable.separator) if v in offered], fresh)
    chosen = st.multiselect(
        "Values", list(offered), key=key, format_func=offered.__getitem__, help=plain(variable.help)
    )
    return variable.separator.join(chosen)


def _seeded(field: str, value: object, fresh: bool) -> str:
    """The widget key of a field, with its first value, or with the value of a link that was just
    opened.
    """
    key = state.key("predict", field)
    if fresh:
        st.session_state[key] = value
    return state.seed(key, value)


def _swept() -> tuple[str, ...]:
    return tuple(st.query_params.get(name, "") for name in ("sweep", *_OF_SCALING))


def _linked(experiment: Experiment) -> tuple[Sweep | None, str | None]:
    text = st.query_params.get("sweep", "")
    if not text:
        return None, None
    try:
        return parse_sweep(
            experiment,
            text[:2000],
            "strong" if st.query_params.get("scaling") == "strong" else "weak",
            BEST if st.query_params.get("meshes") == BEST and experiment.plan else "kept",
        ), None
    except RequestError as error:
        return None, str(error)


def _write_query(sweep: Sweep) -> None:
    wanted = sweep.text
    if st.query_params.get("sweep") != wanted:
        st.query_params["sweep"] = wanted
    for name, usual in _OF_SCALING.items():
        if (value := getattr(sweep, name)) != usual:
            st.query_params[name] = value
        else:
            st.query_params.pop(name, None)
    st.session_state[_WRITTEN] = _swept()


_READING = f"Shaded, or as bars: the {RANGE} of a step. {predictions.RANGES_WORDS}"
_EFFICIENCY = (
    "Range of an estimated efficiency with one batch per chip: "
    f"{EFFICIENCIES} published ones were {PUBLISHED_SPAN[0]} to {PUBLISHED_SPAN[1]} times their estimates",
    "Of any other efficiency no range is known: errors of two steps of one model are largely common",
)


_ABOVE = (
    "Above 100% a chip does more in a second than at the first point, whose step is a range too"
)

# Curves
# ------------------------------------------------------------------------------------------------------------------


def _charts(
    sweep: Sweep,
    rows: Sequence[SweepRow],
    compiled: Sequence[SweepRow],
    total: Sequence[SweepRow],
) -> dict[str, Spec]:
    """Draws the answer, with the curve that decides it, compiled points beside those of the rows,
    and where the time of each point goes. Returns the other curves.
    """
    drawn = sweep_charts.charts_of(sweep, rows)
    if not drawn:  # every point is refused, with its reason below
        return {}
    first = next(iter(drawn))
    timed = scaled_rows(rows) if sweep.variable.scales else []
    _answer(sweep, rows, compiled, timed, total)
    parts = {
        row.point.label: predictions.by_words(row.numbers.shares_s)
        for row in rows
        if row.numbers.shares_s
    }
    height = {}
    is_split = bool(parts) and len(sweep.values) > 1
    left, right = st.columns(_COLUMNS, gap="medium") if is_split else (st.container(),) * 2
    if parts:
        alt = "; ".join(f"{label}: mostly {next(iter(each))}" for label, each in parts.items())
        chart = sweep_charts.parts_chart(sweep, rows, parts)
        height = {"height": chart["height"]}
        if not is_split:
            chart |= {"height": _ONE_BAR_PX}
        right.vega_lite_chart(chart, alt=alt, key="sweep:why")
    if len(sweep.values) < 2:  # a curve of one point is none
        return {}
    with left:
        if timed:
            chart = scaling_chart(sweep, rows, total, compiled)
        else:
            chart = sweep_charts.with_compiled(sweep, drawn[first], first, rows, compiled)
        _chart(sweep, rows, first, chart | height, scaling_alt(sweep, total))
    return {name: chart for name, chart in drawn.items() if name != first}


def _answer(
    sweep: Sweep,
    rows: Sequence[SweepRow],
    compiled: Sequence[SweepRow],
    timed: Sequence[SweepRow],
    total: Sequence[SweepRow],
) -> None:
    """Draws the headline and its figures: how far it scales, and which point is best for what."""
    if not (answer := _headline(sweep, rows, timed, total)):
        return
    missing = missing_words(sweep, rows)
    first = answer.removesuffix(missing).strip() or missing
    badges = cards.headline(plain(as_sentence(first)), _evidence(rows))
    if missing and missing != first:
        st.markdown(plain(missing))
    if may_fall_short(timed):
        badges.badge(f"{SCALING[sweep.scaling]}: may be below {GOOD:.0%}", color="orange")
    _unsure(sweep, rows, compiled, badges)
    above = any((row.efficiency or 0.0) > 1 for row in timed)
    efficiency = (*_EFFICIENCY, *[_ABOVE] * above) if timed else ()
    if above and (why := above_words(sweep, timed)):
        st.markdown(plain(why))
    doubts = doubt_words(sweep, rows)
    for doubt in (*doubts, *doubt_words(sweep, total, SCALING["strong"])):
        st.markdown(f":orange[{plain(doubt)}]")
    more = [*sweep_notes(sweep, rows, compiled), *efficiency, _READING]
    lines = (
        f"- {plain(as_sentence(line.rstrip('.')))}" for line in more if line and line not in doubts
    )
    cards.how_sure(badges).markdown("\n".join(lines))
    reached, grown = _figures(sweep, timed, scaled_rows(total))
    each = [*rows, *scaled_rows(total)]
    best = best_figures(sweep, each, question.tokens(), price.by_kind())
    draw_figures((*reached, *best), grown)


def _unsure(
    sweep: Sweep, rows: Sequence[SweepRow], compiled: Sequence[SweepRow], badges: DeltaGenerator
) -> None:
    """Draws a badge for the points that may not fit, where none of them is compiled."""
    known = {row.point.label for row in compiled}
    unsure = [
        row
        for row in rows
        if row.is_estimated and row.numbers.fit == "may not fit" and row.point.label not in known
    ]
    if unsure:
        badges.badge(plain(f"{points_words(sweep, unsure)} may not fit"), color="orange")


def _evidence(rows: Sequence[SweepRow]) -> str:
    """Returns how the points are known: by compiles only where none is an estimate."""
    is_guess = any(row.is_estimated for row in rows if row.numbers.step_s)
    is_compiled = any(row.outcome.state in ("predicted", "does not fit") for row in rows)
    return "Compiled" if is_compiled and not is_guess else "Estimated"


def _headline(
    sweep: Sweep,
    rows: Sequence[SweepRow],
    timed: Sequence[SweepRow],
    total: Sequence[SweepRow],
) -> str:
    """Returns the answer in a sentence; with the same batch per chip it has the same total batch, too."""
    if not timed or not (same := scaled_rows(total)):
        return sweep_headline(sweep, rows)
    own, other = (
        reach_words(each, max(row.point.chips for row in every), has_tokens=False)
        for each, every in ((timed, rows), (same, total))
    )
    weak, strong = (SCALING[each].lower() for each in (sweep.scaling, "strong"))
    if own == other:
        answer = f"It scales to {own}, with the {weak} as with the {strong}."
    else:
        other = other.removesuffix(" chips")  # named before
        answer = f"It scales to {own} with the {weak}, to {other} with the {strong}."
    return " ".join(filter(None, (answer, missing_words(sweep, rows))))


def _figures(
    sweep: Sweep, timed: Sequence[SweepRow], total: Sequence[SweepRow]
) -> tuple[list[Figure], list[Figure]]:
    """Returns the efficiency of the last point of a scaling sweep, each way to scale; its step, and
    what grew most.
    """
    if not timed:
        return [], []
    last, (cause, share) = timed[-1], grown_most(timed[0], timed[-1])
    at = point_title(sweep, last.point)
    reached = [_reached(f"Efficiency at {at}", timed, SCALING[sweep.scaling].lower())]
    if total and sweep.base.plan:
        reached.append(_reached(SCALING["strong"], total, step_tokens(sweep.base.plan)))
    time = last.numbers.time
    span = f"{RANGE} {span_text(time.low, time.high)}" if time and last.numbers.low_s else ""
    slices = f"{last.point.slices} slices over DCN" if last.point.slices > 1 else ""
    span = ", ".join(filter(None, (span, slices)))
    step = Figure(f"Step at {at}", seconds_text(last.numbers.step_s), span)
    by = ", assumed" * (cause == STRAGGLERS)
    grows = f"{share:.0%} of the step{by}" if cause else "for the same work"
    return reached, [step, Figure("Grows most", share_words(cause) or "nothing", grows)]


def _reached(title: str, rows: Sequence[SweepRow], batch: str) -> Figure:
    """Returns the efficiency of the last point, and of what it is."""
    last, first = rows[-1], next(row for row in rows if row.efficiency == 1)
    of = f"{span_words(last)} of a chip's speed at {first.point.label}, {batch}".strip()
    return Figure(title, f"{last.efficiency or 0.0:.0%}", of)


def _chart(sweep: Sweep, rows: Sequence[SweepRow], name: str, chart: Spec, more: str = "") -> None:
    alt = sweep_charts.chart_alt(name, sweep, rows) + more
    st.vega_lite_chart(chart, alt=alt, key=f"sweep:{name}")


def _table(
    sweep: Sweep,
    rows: Sequence[SweepRow],
    left_out: tuple[str, ...] = (),
    known: Sequence[SweepRow] = (),
) -> None:
    """Draws the points; where they are estimates to compare, with what is `known` of each as its
    state.
    """
    base = links.base_address("predict")
    prices, tokens = price.by_kind(), question.tokens()
    listed = table_frame(points_table(rows, "screen", prices, sweep, tokens))
    first, *others = listed.columns
    pages = {
        label: links.path(row.point.experiment, row.outcome.run, "predict")
        for label, row in zip(listed[first], known or rows, strict=True)
    }
    if known:
        listed["State"] = list(map(_known_state, known))

    def named(label: str) -> str:
        return f"[{plain(label)}]({base}{pages[label]})" if pages[label] else plain(label)

    left_out += ("Chip-hours",) * ("Dollars" in others)
    left_out += ("Tokens/s/chip",) * sweep.variable.scales
    kept = [name for name in _SHOWN if name in others and name not in left_out]
    shown = listed[[first, *kept]]
    draw_table(shown.rename(columns={"Days": f"Days for {tokens_text(tokens)}"}), named=named)
    if known:
        st.caption("Estimates of all, to compare; the state has what a point compiled to.")


def _known_state(row: SweepRow) -> str:
    """Returns the state of a point, with the step and memory that it compiled to."""
    state, numbers = point_state(row), row.numbers
    if row.is_estimated or not numbers.step_s:
        return state
    held = f", {bytes_text(numbers.peak_bytes)}" if numbers.peak_bytes else ""
    return f"{state}: {seconds_text(numbers.step_s)}{held}"


def _ways_out(sweep: Sweep, rows: Sequence[SweepRow]) -> None:
    """Draws buttons that open points that do not fit alone, with the plans near them that do."""
    lost = [row.point for row in rows if row.outcome.state in TOO_LARGE]
    with st.container(horizontal=True, gap="small", key="sweep:ways"):
        for at, point in enumerate(lost[:_MOST_WAYS]):
            st.button(
                plain(f"What fits near {point_title(sweep, point)}"),
                icon=":material/arrow_forward:",
                key=f"sweep:way:{at}",
                type="tertiary",
                on_click=_open,
                args=(point.experiment,),
            )


def _open(experiment: Experiment) -> None:
    state.replace("predict", experiment)
    state.set_run("predict", None)
    _leave()


def _downloads(place: DeltaGenerator, sweep: Sweep, rows: Sequence[SweepRow]) -> None:
    # a download is made later, outside of the screen's script
    dollars, tokens, is_run = price.by_kind(), question.tokens(), bool(sweep.base.plan)
    file, words = f"sweep-{sweep.vary}.csv", "All points with their numbers, in seconds and bytes."

    def made() -> str:
        return csv_text(rows, cells)

    def cells(row: SweepRow) -> dict[str, float | None]:
        run = run_cells(row, tokens, dollars) if is_run else {}
        return row_cost(row, dollars).to_json() | run

    exports.menu_of(place, lambda: exports.download("CSV", made, file, words))
