"""What is wrong with a program, each with its fix; and, once it ran or was predicted, the same answer
as any other workload has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import streamlit as st

from spmd_core.advice import (
    COST_TIME,
    all_findings,
    clean_words,
    copied_bytes,
    costs_words,
    held_bytes,
    held_twice,
    saved_bytes,
)
from spmd_core.answers import PEAK, WORSE, Figure, WhatIf, small
from spmd_core.base import bytes_text, change_text, numbered
from spmd_core.experiment import Experiment
from spmd_core.fields import Spec
from spmd_core.machine import get_topology
from spmd_core.results import Result, StepFinding, StrategyResult
from spmd_core.runs import RunStatus
from spmd_core.terms import ago
from spmd_core.workloads import Described, Program, matches
from spmd_lab.ui import cards, live, state
from spmd_lab.ui.compare import comparison, questions, view as views
from spmd_lab.ui.lab import find, lab
from spmd_lab.ui.markdown import as_sentence, code, coded, plain
from spmd_lab.ui.notebook import labels
from spmd_lab.ui.predict import prediction
from spmd_lab.ui.programs import arrays, compiled, fix, peak, treemap
from spmd_lab.ui.shell import draw_figures, draw_table

SHOWN_FINDINGS = 8
_IN_ORDER = "what each fix saves after those above it"
_COMPILED = " Compiled, it keeps its batch and repeats no work."
_NOT_COMPILED = " Compile it to check its batch and its work, too."
# of each kind: its title, and what is wrong in plain words
_TITLES = {
    "unused_axis": ("Axis not used", "Devices along axis {} repeat the same work."),
    "replicated": ("Replicated", "Each device holds all of {}."),
    "resharded_state": ("Resharded on each call", "Each call reshards {}."),
    "moved_state": ("Moved to another memory", "Each call moves {} to another memory."),
    "missing_donation": ("Not donated", "{} is held twice on each device."),
    "float32_leak": ("float32 among bfloat16", "{} is float32, the rest bfloat16."),
    "rule": ("Odd one out", "{} is not sharded like its neighbors."),
    "replicated_output": ("Result replicated", "Each device gets all of the result {}."),
    "lost_batch": ("Batch lost", "The batch is no longer sharded after {}."),
    "replicated_batch": ("Batch replicated", "No axis shards {}, the batch."),
    "repeated_work": ("Repeated work", "Several devices compute the same at {}."),
    "wide_products": ("Wide products", "Products at {} are of a wider dtype."),
    "constant": ("Constant", "Each device holds a constant of {}."),
    "dropped_batch": ("Batch dropped", "The constraint at {} drops an axis of the batch."),
    "replicated_carry": ("Sum replicated", "Each turn of a loop replicates its sum at {}."),
    "resharded_donation": ("Leaves resharded", "{} is donated and leaves in another sharding."),
    "gathered_whole": ("Gathered at once", "All layers are gathered at once at {}."),
}


@dataclass(frozen=True)
class Wrong:
    """What is wrong with a program, and what mends the first of it.

    Attributes:
      program: the program.
      fixes: its findings, the costliest first, and what the compiler makes of their fixes.
      change: what its last change does where that is worse, else what all changes do.
      held: bytes of a device as it is, then with the fix of each and of those before it.
      capacity: bytes of HBM; 0 of attached devices.
      compiled: the program's own result.
      result: the prediction that it is of; None of attached devices.
      when: how long ago that was.
    """

    program: Program
    fixes: fix.Fixes
    change: WhatIf | None
    held: Sequence[int]
    capacity: int
    compiled: StrategyResult | None
    result: Result | None = None
    when: str = ""

    @property
    def is_finished(self) -> bool:
        """Returns True if nothing is wrong with the compiled program."""
        return self.compiled is not None and not self.fixes.listed and not self.is_worse

    @property
    def has_told_all(self) -> bool:
        """Returns True if the card has the figures of all changes since the program was opened."""
        return not self.fixes.listed and not self.is_worse and self.change is not None

    @property
    def is_worse(self) -> bool:
        """Returns True if what was changed is known to be worse."""
        return self.change is not None and bool(self.change.raised)


def judged(experiment: Experiment, run: str | None, before: Experiment) -> Wrong:
    """Returns what is wrong with an exported program, by its file and by what a run compiled of it.
    `before`: the program as its author sharded it.
    """
    program = experiment.exported
    assert program is not None
    status = find(run) if run else None
    found = _compiled_of(status, experiment)
    own = found.strategies["auto"] if found else None
    fixes = fix.judged(partial(all_findings, program, own))
    is_absent = experiment.place.is_absent
    return Wrong(
        program=program,
        fixes=fixes,
        change=fix.changed(before),
        held=_held([each for each in fixes.listed if not fixes.is_spent(each)], program),
        capacity=get_topology(experiment.target).chip.device_hbm_bytes if is_absent else 0,
        compiled=own,
        result=found if is_absent and own and own.prediction else None,
        when=ago(status.finished_at or status.submitted_at) if status else "",
    )


def findings(wrong: Wrong) -> None:
    """Draws each finding with its fix, by what that saves; where the bytes of a device are."""
    program = wrong.program
    if wrong.fixes.listed:
        _findings(wrong)
    arrays.picture_of(program)
    if not program.described.mesh and not any(map(any, program.array_specs().values())):
        st.info(
            "Every device holds all of it, since the file has no shardings. Choose mesh and specs "
            "beside, or let them be found below.",
            icon=":material/grid_on:",
        )
    elif not wrong.fixes.listed:
        st.caption(
            "No large array is replicated beside sharded ones. The state is donated and keeps its "
            "sharding." + (_COMPILED if wrong.compiled else _NOT_COMPILED)
        )


def _findings(wrong: Wrong) -> None:
    fixes, held, program = wrong.fixes, wrong.held, wrong.program
    listed = fixes.listed
    with st.container(key="findings", gap=None):
        costs = f"saves, of {bytes_text(held[0])} held"
        st.html(f'<h2>{_count(listed)}<small title="{_IN_ORDER}">{costs}</small></h2>')
        for at, each in enumerate(listed[:SHOWN_FINDINGS]):
            specs = dict(each.specs) or None
            copied = copied_bytes(program, specs) if specs else 0
            saved = 0 if fixes.is_spent(each) else held[at] - held[at + 1]
            costs = _saves(each, at, saved, fixes)
            is_above = not at and specs is not None and fixes.known is not None
            if each.kind == "missing_donation" and 0 < saved < each.bytes_per_device:
                saves = f"{each.sentence}, which saves {bytes_text(saved)} after the fixes above"
                each = each.model_copy(update={"sentence": saves})
            _finding(at, each, copied, costs, is_above, wrong)
    if (more := len(listed) - SHOWN_FINDINGS) > 0:
        st.caption(f"{more} more, which `program FILE` lists.")


def card(wrong: Wrong, experiment: Experiment, can_compile: bool) -> None:
    """Draws what costs the most and what mends it: its figures before and after; of a change that is
    worse these, and the way back.
    """
    fixes, held, capacity = wrong.fixes, wrong.held, wrong.capacity
    room = f"of {bytes_text(capacity)} HBM" if capacity else ""
    shown = wrong.change if wrong.is_worse or not fixes.listed else fixes.known
    with st.container(key="answer-wrong"):
        row = cards.headline(plain(_headline(wrong)))
        if wrong.is_finished:
            row.badge("Compiled", icon=":material/check:", color="green")
        elif shown:
            row.badge(plain(shown.made), icon=":material/bolt:", color="orange")
        if wrong.result or shown:
            with cards.how_sure(row):
                _sure(wrong, shown)
        figures, peaks = _figures(wrong, shown, room)
        if figures:
            draw_figures(figures)
        if figures and fixes.listed and not wrong.is_worse:
            _bars(held, peaks, capacity)
        if wrong.is_finished and wrong.compiled:
            compiled.limits(wrong.compiled)
        elif wrong.compiled and (misfit := compiled.misfit_words(wrong.compiled)):
            st.markdown(f":red[:material/error: {plain(misfit)}.]")
        fix.refused()
        if fixes.listed and fixes.is_spent(fixes.listed[0]):
            fix.compared(fixes)
        _next(wrong, experiment, can_compile)


def _sure(wrong: Wrong, shown: WhatIf | None) -> None:
    """Draws what the figures of the card rest on."""
    if shown:
        opened = "As it was opened: " * wrong.is_finished
        made = [f"{opened}{small(shown.made)}."] if opened else []
        st.markdown(plain(" ".join(filter(None, (*made, shown.agreement, WORSE)))))
    if wrong.result:
        compiled.sure(wrong.result, wrong.when)


def _figures(
    wrong: Wrong, shown: WhatIf | None, room: str
) -> tuple[list[Figure], list[int | None]]:
    """Returns the figures of the card, and the peaks that its bars show: what the compiler makes of
    the change, else what arguments take.
    """
    listed, held = wrong.fixes.listed, wrong.held
    if wrong.is_finished and wrong.compiled:
        return compiled.figures(wrong.compiled, shown, room), []
    if shown and len(shown.figures) > 1:  # the last is of arguments alone
        figures = [
            each._replace(more=each.more or room * (each.title == PEAK))
            for each in sorted(shown.figures[:-1], key=lambda each: each.title not in shown.raised)
        ]  # first what is worse, which the headline names
        return figures, [each.peak_bytes for each in shown.programs]
    if wrong.compiled and not wrong.fixes.offered:
        memory = wrong.compiled.memory_bytes
        return compiled.figures(wrong.compiled, None, room), [memory.peak if memory else None]
    if not listed or listed[0].kind in COST_TIME or wrong.fixes.is_spent(listed[0]):
        return [], [None, None]
    change = _change(held[0], held[min(1, len(held) - 1)])
    return [Figure("Held on each device", change, room)] if change else [], [None, None]


def _next(wrong: Wrong, experiment: Experiment, can_compile: bool) -> None:
    """Draws the one thing to press next, and the way back."""
    listed, is_worse = wrong.fixes.listed, wrong.is_worse
    with st.container(horizontal=True, vertical_alignment="center"):
        if not is_worse or fix.waits():
            if listed and listed[0].kind == "missing_donation" and not fix.waits():
                _donate(listed[0], "first")
            elif not fix.offer(wrong.fixes, wrong.program):
                _after_fixes(wrong, experiment, can_compile)
        fix.undo(is_first=is_worse)


def _after_fixes(wrong: Wrong, experiment: Experiment, can_compile: bool) -> None:
    if not wrong.compiled:
        compile_button(experiment, "card", can_compile, is_first=True)
    elif wrong.result and wrong.is_finished:
        compiled.next_steps(wrong.result, experiment)


def room(wrong: Wrong, experiment: Experiment, free: int | None) -> str:
    """Returns why a run would not fit into the memory of this machine, which holds all devices; ""
    where it may. `free`: bytes that are free.
    """
    memory = wrong.compiled.memory_bytes if wrong.compiled else None
    change, asked = wrong.change, wrong.fixes.known
    known = [memory.peak if memory else None]
    known += [change.programs[1].peak_bytes if change else None]
    known += [asked.programs[0].peak_bytes if asked else None]
    peak = next(filter(None, known), wrong.held[0])
    need = peak * experiment.device_count
    if not experiment.place.is_simulated or free is None or need <= free:
        return ""
    return (
        f"A run needs {bytes_text(need)}, {bytes_text(peak)} on each of {experiment.device_count} "
        f"devices: {bytes_text(free)} are free here. Compile it instead: nothing runs."
    )


def compile_button(
    experiment: Experiment, place: str, can_compile: bool, is_first: bool = False
) -> None:
    """Draws the button that compiles the program, and runs nothing of it."""
    pressed = st.button(
        "Compile and predict" if experiment.place.is_absent else "Compile",
        type="primary" if is_first else "secondary",
        icon=":material/bolt:",
        key=f"compile:{place}",
        disabled=not can_compile,
        help="Nothing runs: its memory, its collectives, its batch and its work are checked.",
    )
    if pressed:
        live.ask("programs", experiment, compile_only=not experiment.place.is_absent)


def _bars(held: Sequence[int], peaks: Sequence[int | None], capacity: int) -> None:
    ends = zip(held, peaks, strict=False)
    rows = dict(zip((peak.NOW, peak.FIXED), ends, strict=False))
    st.html(peak.bars(rows, capacity))


def _held(listed: Sequence[StepFinding], program: Program) -> list[int]:
    """Returns what a device holds of arguments and of results beside arguments that are not donated:
    first as it is, then with each fix and those before it.
    """
    specs: dict[str, Spec] = {}
    donated: list[str] = []
    cast = 0
    held = [held_bytes(program, specs, held_twice(program))]
    for each in listed:
        specs |= dict(each.specs)
        if each.kind == "missing_donation":
            donated.append(each.path)
        elif not each.specs:
            cast += saved_bytes(each, program)
        twice = held_twice(program, donated)
        held.append(held_bytes(program, specs, twice) - cast)
    return held


def _change(was: int, now: int) -> str:
    return change_text(bytes_text(was), bytes_text(now)) if now < was else ""


def _count(listed: Sequence[StepFinding]) -> str:
    return "1 thing is wrong" if len(listed) == 1 else f"{len(listed)} things are wrong"


def _headline(wrong: Wrong) -> str:
    change = wrong.change
    if not change or not change.raised:
        return _first(wrong.fixes.listed, wrong.compiled)
    of = ", ".join(map(small, change.raised))
    return f"Worse than before: {of} {'rises' if len(change.raised) == 1 else 'rise'}."


def _saves(each: StepFinding, at: int, saved: int, fixes: fix.Fixes) -> str:
    """Returns what the fix of a finding saves: of the first its peak of memory, once that is known."""
    if not at and fixes.known:
        peak = next((of.value for of in fixes.known.figures if of.title == PEAK), "")
        return f"peak {peak}" if peak else ""
    return "time" if each.kind in COST_TIME else bytes_text(saved) * (saved > 0)


def _first(listed: Sequence[StepFinding], of: StrategyResult | None = None) -> str:
    if not listed:
        return clean_words(of)
    first = listed[0]
    has_others = first.kind == "replicated" and len(first.specs) > 1
    sentence = _TITLES[first.kind][1].format(
        f"{_arrays(first)}{' and its optimizer state' * has_others}"
    )
    costs = costs_words(first.kind, first.path, of) if of else ""
    return f"{sentence.removesuffix('.')}: {costs}." if costs else sentence


def _arrays(each: StepFinding) -> str:
    """Returns the path of an array, or the pattern of those in several layers."""
    patterns = [name for name, _ in each.specs if matches(name, each.path)]
    return next(iter(patterns), each.path)


def _finding(
    at: int,
    each: StepFinding,
    copied: int,
    costs: str,
    is_above: bool,
    wrong: Wrong,
) -> None:
    rest = each.sentence.removeprefix(each.path).strip()
    words = coded(f"{rest}." if rest != each.sentence else as_sentence(rest))
    if copied and each.kind == "replicated":
        words += " " + plain(f"{bytes_text(copied)} of it, not donated, is held twice.")
    with st.container(horizontal=True, vertical_alignment="center", key=f"finding-{at}"):
        title = f":{'orange' if at else 'red'}[**{plain(f'{at + 1}. {_TITLES[each.kind][0]}')}**]"
        is_headline = not at and each.kind == "replicated"  # which the card words
        shown = code(_arrays(each)) if is_headline else f"{code(each.path)} {words}"
        shown = words if each.kind == "unused_axis" else shown  # which name the axis
        more = words if is_headline else None
        st.markdown(f"{title}  \n:small[{shown}]", width="stretch", help=more)
        st.markdown(f"**{plain(costs)}**" if costs else "", width=130)
        with st.container(width=250):
            _fix(at, each, is_above, wrong)


def _fix(at: int, each: StepFinding, is_above: bool, wrong: Wrong) -> None:
    fixes = wrong.fixes
    specs, worse = dict(each.specs), fixes.worse.get(fix.key(each), ())
    is_donated = each.kind == "missing_donation"
    if fixes.is_spent(each):
        number = len(worse)
        many = f"{number} specs are worse" if number > 1 else "Its fix is worse"
        st.caption(plain(f"{many}: {worse[0][1].verdict}."))
    elif is_above or (is_donated and not at):
        st.caption(":material/arrow_upward: Above")
    elif at and fix.compares(fixes, each, wrong.program):
        return
    elif specs and st.button(
        f"Use {fix.words(specs)}", key=f"mend:{at}", width="stretch", disabled=fix.waits()
    ):
        fix.use(specs)
    elif is_donated:
        _donate(each, str(at), "stretch")


def _donate(each: StepFinding, key: str, width: Literal["stretch", "content"] = "content") -> None:
    """Draws a button that says how an argument is donated: no spec of it changes."""
    name = each.path.partition("/")[0]
    kind: Literal["primary", "secondary"] = "primary" if key == "first" else "secondary"
    with st.popover(f"Donate {plain(name)}", key=f"donate:{key}", width=width, type=kind):
        st.caption("In the call of `jax.jit`:")
        st.code(f'donate_argnames=("{name}",)', language="python", width="content")


def example(described: Described) -> None:
    """Draws what the screen makes of a program that nobody has opened yet."""
    program = Program(described, described.mesh)
    held = arrays.on_device(program)
    placed = treemap.tiles(held)
    listed = all_findings(program)
    st.markdown(f"**An example.** {plain(_first(listed))}")
    chart = treemap.chart(placed, arrays.odd(program))
    st.vega_lite_chart(chart, alt=treemap.alt(placed), key="example-picture")


def stored(experiment: Experiment) -> str | None:
    """Returns the last run that compiled an experiment here, which the screen then shows; None where
    nothing was, and after it was edited.
    """
    runs = cards.stored_runs(experiment)
    if not runs:
        return None
    state.set_run("programs", runs[0].run)
    return runs[0].run


def _compiled_of(status: RunStatus | None, experiment: Experiment) -> Result | None:
    """The result of a run that compiled an experiment; None of another's, and where it did not get
    so far.
    """
    if status is None or not status.is_over or status.experiment != experiment:
        return None
    result = lab().result(status.run)
    own = result.strategies.get("auto") if result else None
    return result if own and own.status == "ok" else None


def answer(status: RunStatus, wrong: Wrong) -> Callable[[], None]:
    """Draws the answer of a run, as Predict and Compare do, but what the card has; returns what draws
    its details.
    """
    if status.compile_only:
        return partial(_compiled_only, status)
    if status.experiment.place.is_absent:
        return _predicted(status, wrong)
    view = views.view(status.run)
    if view is None:
        return lambda: None
    when = ago(status.finished_at or status.submitted_at)
    comparison.headline(view, when, lab().result(status.run))
    labels.draw(status.run)
    return partial(questions.draw, view)


def _compiled_only(status: RunStatus) -> None:
    """Draws what communicates in a program of which nothing ran."""
    view = views.view(status.run)
    if view is None or not view.collectives.rows:
        return
    number = len(view.collectives.rows)
    label = f"What communicates: {numbered(number, 'kind')} of collectives"
    with st.expander(label, icon=":material/sync_alt:", key="compiled-collectives"):
        draw_table(view.collectives)


def _predicted(status: RunStatus, wrong: Wrong) -> Callable[[], None]:
    if wrong.result is not None:
        compiled.changes(wrong.result)
        return partial(compiled.details, wrong.result, status)
    result = prediction.result_of(status, status.experiment)
    if result is not None:
        prediction.headline(result, ago(status.finished_at or status.submitted_at))
        labels.draw(status.run)
    return lambda: None
