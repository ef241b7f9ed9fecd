"""Cards and rows: what a run, a recipe or a screen looks like in a list."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core import history
from spmd_core.base import (
    RequestError,
    UnreadableRun,
    number_text,
    numbered,
    seconds_text,
)
from spmd_core.experiment import Experiment, link
from spmd_core.history import shape_words
from spmd_core.machine import default_target, parse_target
from spmd_core.plan import get_model
from spmd_core.recipes import recipe_of
from spmd_core.runs import Labels, RunSummary
from spmd_core.search import KeptSearch, link as search_link
from spmd_core.terms import (
    DOES_NOT_FIT,
    ago,
    experiment_words,
    outcome_words,
    state_words,
)
from spmd_lab.ui import choices, style
from spmd_lab.ui.charts import colors, glimpse
from spmd_lab.ui.lab import find, kept, lab
from spmd_lab.ui.markdown import plain

_COLORS = {
    "succeeded": "green",
    "queued": "blue",
    "starting": "blue",
    "running": "blue",
    "cancelled": "gray",
    "interrupted": "orange",
    "cannot tell": "gray",  # and verdicts; what is red is wrong, or failed
    "faster": "green",
    "slower": "orange",
    "the same": "gray",
    "too small": "orange",
    "fits": "green",
    "wrong": "orange",
    "known": "gray",
}


# screen -> its name in the menu
STARTS = {
    "recipes": "Recipes",
    "layout": "Layout",
    "compare": "Compare",
    "predict": "Predict",
    "search": "Find a sharding",
    "serving": "Serving",
    "programs": "Programs",
    "collectives": "Collectives",
}
# of those that are a view of another screen: that screen, and the query of its link
_VIEWS = {"serving": ("predict", {choices.SHOWN: "serving"})}
ACROSS, _STARTS_ACROSS = 3, 4  # cards in a row
_KINDS, _GRAY, _ROOM = colors.KINDS, "#a9b4c2", "light-dark(#dfe4ea,#3a4350)"
_SHADES = colors.colors(np.arange(8), 8)
# screen -> blocks of its picture (left, top, width, height, color): who holds which shard; two times;
# memory that fits above what a step takes; ranked intervals; what is replicated; prompts and tokens of requests; a gather; a course
SKETCHES: dict[str, tuple[tuple[float, float, float, float, str], ...]] = {
    "layout": tuple((at % 4 * 50.0, at // 4 * 50.0, 50.0, 50.0, shade) for at, shade in enumerate(_SHADES)),
    "compare": ((0, 14, 74, 28, _KINDS["matmul"]), (0, 58, 200, 28, _GRAY)),
    "predict": (
        (0, 14, 138, 28, _KINDS["memory"]),
        (138, 14, 62, 28, _ROOM),
        (0, 58, 116, 28, _KINDS["matmul"]),
        (116, 58, 52, 28, _KINDS["kernel"]),
        (168, 58, 32, 28, _KINDS["exposed"]),
    ),
    "search": tuple(
        block
        for at, (left, shade) in enumerate(((0, _KINDS["matmul"]), (34, _GRAY), (62, _GRAY), (96, _GRAY)))
        for block in ((left, at * 26.0 + 8, 104, 5, shade), (left + 44.0, at * 26.0 + 2, 16, 17, shade))
    ),
    "programs": (
        (0, 0, 124, 100, colors.WRONG),
        (126, 0, 74, 49, _KINDS["memory"]),
        (126, 51, 36, 49, _KINDS["memory"]),
        (164, 51, 36, 49, _KINDS["kernel"]),
    ),
    "serving": tuple(
        block
        for at, (left, tokens) in enumerate(((0, 5), (24, 6), (84, 4), (60, 5)))
        for block in (
            (left, at * 26.0 + 2, 44, 18, _KINDS["matmul"]),
            *((left + 50.0 + 18 * each, at * 26.0 + 2, 12, 18, _KINDS["kernel"]) for each in range(tokens)),
        )
    ),
    "collectives": (
        *((0, at * 26.0, 46, 22, _SHADES[at]) for at in range(4)),
        *((120.0 + 20 * at, row * 26.0, 20, 22, _SHADES[at]) for at in range(4) for row in range(4)),
    ),
    "recipes": (
        (0, 48, 200, 4, _GRAY),
        *((at * 43.0, 36, 28, 28, shade) for at, shade in enumerate(_SHADES[:5])),
    ),
}  # fmt: skip


def starts(questions: Mapping[str, str], toured: Callable[[], bool]) -> None:
    """Draws a card for each question to start with, and its screen; of the first what `toured`
    draws, where it returns True.
    """
    with st.container(key="starts", gap="small"):
        for first in range(0, len(STARTS), _STARTS_ACROSS):
            for column, screen in zip(st.columns(_STARTS_ACROSS), [*STARTS][first:], strict=False):
                with column.container(border=True, height="stretch"):
                    blocks = [glimpse.rect(*each) for each in SKETCHES[screen]]
                    sent = glimpse.arrow(44.0, 122.0, 100.0, 18.0) * (screen == "collectives")
                    drawn = glimpse.drawing(200.0, 100.0, blocks + sent)
                    st.html(glimpse.image(drawn, STARTS[screen], "glimpse"))
                    if screen == "recipes" and toured():
                        continue
                    page, shown = _VIEWS.get(screen, (screen, None))
                    st.page_link(
                        f"pages/{page}.py",
                        label=f"**{plain(questions[screen])}**",
                        icon=":material/arrow_forward:",
                        icon_position="right",
                        query_params=shown,
                    )
                    is_simulated = (
                        screen == "compare" and parse_target(default_target()).is_simulated
                    )
                    st.caption(plain(STARTS[screen] + _NOT_REAL * is_simulated))


def query(experiment: Experiment, run: str | None = None) -> dict[str, str]:
    """The query of a link to an experiment, with its stored run; the run alone where the experiment
    is too long for a link.
    """
    try:
        return {"experiment": link.encode(experiment)} | ({"run": run} if run else {})
    except RequestError:
        return {"run": run} if run else {}


def is_serving(kept: KeptSearch) -> bool:
    """Returns True if a kept search is an answer on serving."""
    return kept.question.get("kind") == search_link.SERVING


def search_glimpse(kept: KeptSearch) -> str:
    """Returns the picture of a kept search as HTML."""
    name, words = ("serving", "Serving") if is_serving(kept) else ("search", "A search")
    drawn = glimpse.drawing(200.0, 100.0, [glimpse.rect(*each) for each in SKETCHES[name]])
    return glimpse.image(drawn, words, "glimpse")


def page_of(experiment: Experiment) -> str:
    """The script of the screen that shows an experiment."""
    return f"pages/{link.screen_of(experiment)}.py"


def same(run: RunSummary) -> object:
    """Returns what runs of one row have in common that have no name, note or tag: the batch, else the
    experiment and how it ended.
    """
    if run.labels != Labels():
        return run.run
    return run.batch or (run.experiment, run.state)


def compared_s(run: RunSummary) -> float | None:
    """Returns the time that a row leads with: the best sharded row's, else the lowest; None of none."""
    came = _came(run.run)
    return came.sides_s[0] if came and came.sides_s else run.answer and run.answer[1]


def distinct(runs: Iterable[RunSummary], many: int = ACROSS) -> list[RunSummary]:
    """Returns the first of each experiment, at most so many."""
    firsts: dict[object, RunSummary] = {}
    for run in runs:
        firsts.setdefault(same(run), run)
    return list(firsts.values())[:many]


def last_runs(recent: Sequence[RunSummary]) -> None:
    """Draws the last runs as cards in a row, and a link to all."""
    with st.container(key="recent", gap="small"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown("**Last runs**", width="stretch")
            st.page_link("pages/history.py", label="All runs", icon=":material/history:")
        names = called(recent)
        for column, summary in zip(st.columns(ACROSS), recent, strict=False):
            with column.container(border=True, height="stretch"):
                run_row(summary, card_lines(summary), names[summary.run])


def called(runs: Sequence[RunSummary]) -> dict[str, str]:
    """Returns what each run is called among others: its name, else what it was, and in what it differs
    from those that are called alike.
    """
    plain_names = {run.run: run.labels.name or short_words(run.experiment) for run in runs}
    names = dict(plain_names)
    for name in {*plain_names.values()}:
        alike = [run for run in runs if plain_names[run.run] == name]
        rows = history.difference_rows([run.experiment for run in alike])
        for at, run in enumerate(alike if len(alike) > 1 else ()):
            parts = [history.part_words(label, texts[at]) for label, texts in rows[:_MOST_APART]]
            names[run.run] = " · ".join((name, *parts))
    return names


def run_row(summary: RunSummary, lines: str = "", called: str = "") -> None:
    """Draws a stored run: its shards, what it is `called`, else its name or what it was (a link that
    opens it), and `lines`, else how its rows compare or how it ended, what came out and when.
    """
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", key=f"row-{summary.run}"
    ):
        st.html(glimpse.html(summary.best_experiment), width=96)
        with st.container(gap=None):
            st.page_link(
                page_of(summary.experiment),
                label=plain(called or summary.labels.name or short_words(summary.experiment)),
                query_params=query(summary.experiment, summary.run),
                help=plain(experiment_words(summary.experiment)),
            )
            st.caption(lines or f"{badges(summary)} {_outcome(summary)}")


def card_lines(summary: RunSummary) -> str:
    """Returns lines of Markdown: what came out of a stored run, by how much or its figure, how it is
    known, and when it ended.
    """
    color, head, words = outcome(summary)
    kind, _ = history.evidence_of(summary)
    colored = f":{plain(color)}[**{plain(head)}**]" if head else ""
    shown = (
        _answer(summary)
        if head in (history.PLACED, history.FITS) or words in ("", history.FITS.lower())
        else plain(words)
    )
    badge = style.evidence_badge(kind or "Measured") if summary.answer else ""
    last = f"{badge} {plain(ago(summary.finished_at or summary.submitted_at))}".strip()
    return "  \n".join(part for part in (colored, shown, last) if part)


def evidence_of_most(runs: Iterable[RunSummary]) -> str:
    """Returns the evidence of most times, "" where that is of attached devices."""
    kinds = Counter(history.evidence_of(run)[0] for run in runs if run.answer)
    return max(kinds, key=kinds.__getitem__, default="")


def badges(summary: RunSummary) -> str:
    """Returns what came out of a stored run, in color, or a badge of how it ended, as Markdown; and a
    badge where its time is simulated or predicted.
    """
    color, head, words = outcome(summary)
    came = _came(summary.run)
    is_compared = bool(came and came.judged)
    parts = (plain(head), colors.sentence(words, summary.experiment))
    shown = " ".join(part for part in parts if part)
    first = f":{plain(color)}{'' if is_compared else '-badge'}[{shown}]" if shown else ""
    kind, _ = history.evidence_of(summary)
    kinds = f" {style.evidence_badge(kind)}" if kind else ""
    return f"{first}{kinds}".strip()


def outcome(summary: RunSummary) -> tuple[str, str, str]:
    """Returns the color of what came out of a stored run, it in a few words, and what there is to it:
    its verdict, else how it ended.
    """
    kind, head, words = history.outcome(summary, _came(summary.run))
    start, bracket, span = words.partition("(")  # a range stays on a line
    return _COLORS.get(kind, "red"), head, start + bracket + span.replace(" ", "\u00a0")


def tag_badges(tags: Iterable[str]) -> str:
    """Returns badges of a run's tags as Markdown."""
    return " ".join(f":gray-badge[#{plain(tag)}]" for tag in tags)


_MOST_APART = 2  # differences of runs that are called alike
_NOT_REAL = ": times of simulated devices"
_ROUGH_S = 5.0  # seconds of an estimate
_LAST = 20  # runs among which one of the same target is looked for


def headline(answer: str, evidence: str = "", words: str = "", about: str = "") -> DeltaGenerator:
    """Draws the answer of a card, as Markdown, and the badge of its evidence, in `words` where there
    are any; `about`: how it was made. Returns their row.
    """
    row = st.container(horizontal=True, vertical_alignment="top", gap="small")
    with row:
        st.subheader(answer, anchor=False, width="content", help=plain(about) or None)
        if evidence:
            style.evidence(evidence, words)
    return row


def how_sure(row: DeltaGenerator, of: str = "") -> DeltaGenerator:
    """Draws the button that opens what the answer rests on, in the row of its badges; `of`: names
    an answer that a screen draws beside another.
    """
    return row.popover("How sure?", type="tertiary", key=f"how-sure{of and f'-{of}'}")


def usually_takes_s(experiment: Experiment, size: Callable[[Experiment], float]) -> float | None:
    """Returns the seconds that a run takes by the last one of its workload and target, in proportion
    to the size of both; None where there is none.
    """
    last = lab().history(
        workload=experiment.workload, state="succeeded", source="here", limit=_LAST
    )
    alike = [each.experiment for each in last if each.experiment.target == experiment.target]
    # the same one first, as the seconds are of it where it ran
    before = next((each for each in alike if each == experiment), alike[0] if alike else None)
    took_s = lab().last_took_s(experiment)
    return took_s * size(experiment) / size(before) if before and took_s is not None else None


def roughly(seconds: float) -> str:
    """Returns seconds as `about 15 s`."""
    return f"about {seconds_text(_ROUGH_S * max(1, round(seconds / _ROUGH_S)))}"


def computed_words(experiment: Experiment) -> str:
    """Returns what is computed, and its sizes."""
    sizes = "" if experiment.plan else "×".join(str(size) for _, size in experiment.dims)
    recipe, name = recipe_of(experiment), shape_words(experiment)["Workload"]
    if recipe and experiment.what.is_small_program:
        return recipe.title
    if step := experiment.served:
        return f"{step.plan.model}, {name} of {numbered(step.requests, 'request')}"
    with suppress(RequestError):  # a program that was never held here
        name = experiment.exported.described.name if experiment.exported else name
    return f"{name} {sizes}".strip()


def short_words(experiment: Experiment, has_mesh: bool = True) -> str:
    """Returns what is computed, its sizes, how it is sharded, and where that is not here; `has_mesh`:
    with the mesh where no dim is sharded.
    """
    cells = shape_words(experiment)
    sharded = cells["Sharding"].replace(" sharded", "") or cells["Mesh"] * has_mesh
    target = cells["Target"] if experiment.target != default_target() else ""
    computed = computed_words(experiment).removeprefix("Training step: ")
    if experiment.plan and experiment.plan.model.startswith("scaled"):  # a name that few know
        count = get_model(experiment.plan.model).parameters
        computed += f", {number_text(count / 1e9)} B parameters"
    return " · ".join(filter(None, (computed, sharded, target.removeprefix("tpu:"))))


def figure(summary: RunSummary) -> tuple[str, str]:
    """Returns the figure of a stored run, and what is beside it; "" where nothing came out."""
    return history.figure(summary, _came(summary.run))


@kept(1_000)
def _came(run: str) -> history.Came | None:
    with suppress(UnreadableRun):
        facts = lab().facts(run)
        if facts is None:
            return None
        came, recipe = history.came_out(facts), recipe_of(facts.experiment)
        findings = recipe.findings(facts) if recipe else ()
        return replace(came, judged=("known", "", findings[0])) if findings else came
    return None


def _answer(summary: RunSummary) -> str:
    """Returns the figure of a stored run as Markdown; "" where nothing came out."""
    answer = ", ".join(filter(None, figure(summary)))
    if not answer and outcome_words(summary) == DOES_NOT_FIT:
        answer = "does not fit"
    return plain(answer)


def _outcome(summary: RunSummary) -> str:
    return ", ".join(part for part in (_answer(summary), ago(summary.submitted_at)) if part)


def stored_runs(experiment: Experiment) -> tuple[RunSummary, ...]:
    """Those of an experiment that succeeded here, the newest first."""
    return lab().history(experiment=experiment, state="succeeded", source="here")


def stored(experiment: Experiment) -> bool:
    """How many runs of an experiment are stored, and a link to the last; False where there are
    none.
    """
    runs = stored_runs(experiment)
    if not runs:
        return False
    with st.container(border=True, key="stored"):
        many = f"{numbered(len(runs), 'stored run')} of this experiment."
        st.markdown(f":material/history: **{plain(many)}**")
        st.page_link(
            page_of(experiment),
            label=f"**Open the last one:** {_outcome(runs[0])}",
            icon=":material/arrow_forward:",
            query_params=query(experiment, runs[0].run),
        )
    return True


def shown_before(last: str | None) -> None:
    """A link to the run that the screen showed before its fields were edited."""
    status = find(last) if last else None
    if status is None:
        return
    at_work = "Running now" if status.state == "running" else state_words(status.state)
    words = "Shown before" if status.is_over else at_work
    st.page_link(
        page_of(status.experiment),
        label=f"{plain(words)}: {plain(short_words(status.experiment))}",
        icon=":material/arrow_back:",
        query_params=query(status.experiment, status.run),
    )
