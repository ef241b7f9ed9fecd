"""What is wrong with a program, each with its fix; and, once it ran or was predicted, the same answer
as any other workload has.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.advice import (
    COST_TIME,
    all_findings,
    checked_words,
    clean_words,
    copied_bytes,
    costs_words,
    held_bytes,
    idle_words,
    in_front,
    limit_of,
    saved_bytes,
    unchecked_words,
    without_idle,
)
from spmd_core.answers import PEAK, SENT, STEP, WORK, WORSE, WORSE_TIMED, Figure, WhatIf, small
from spmd_core.base import (
    bytes_text,
    capital,
    change_text,
    mesh_text,
    numbered,
    seconds_text,
)
from spmd_core.experiment import Experiment
from spmd_core.facts import Estimate
from spmd_core.fields import Spec
from spmd_core.machine import get_topology
from spmd_core.results import Result, StepFinding, StrategyResult
from spmd_core.runs import Partitioned, RunStatus
from spmd_core.search import Candidate
from spmd_core.surveys.search import Own, is_close
from spmd_core.terms import ago, listed as in_words
from spmd_core.words import predictions, waiting, waits_at
from spmd_core.workloads import Described, Program, matches
from spmd_lab.ui import cards, live, remedies, state
from spmd_lab.ui.compare import comparison, questions, view as views
from spmd_lab.ui.lab import find, lab
from spmd_lab.ui.markdown import as_sentence, code, coded, plain
from spmd_lab.ui.notebook import labels
from spmd_lab.ui.predict import prediction
from spmd_lab.ui.programs import (
    arrays,
    better,
    compiled,
    constrain,
    done,
    earlier,
    fix,
    notes,
    outputs,
    peak,
    treemap,
)
from spmd_lab.ui.search import answer as search
from spmd_lab.ui.shell import draw_figures, draw_table

SHOWN_FINDINGS = 8
RUN = "compile:run"  # the key of the button that compiles or runs it
_ROOMY = 0.8  # of HBM: below, what a step waits for comes before what it holds
_MOST = 0.5  # of the step: what waits for less is behind what is wrong
_PRODUCTS = ("matmul", "kernel", "grouped kernel")  # parts of a step with the FLOPs of products
_LITTLE = 0.05  # of the step, of products; of the peak: a fix that saves less of it is behind what a step waits for
_TRY = re.compile(r": try P\(.*\)")  # a spec that is not compared
_CLAUSE = re.compile(
    r"(?:: |; |\. )"
)  # ends what is wrong in a sentence: behind it what that costs
_THREE = (PEAK, STEP, SENT)  # figures that the card has in every state
NO_GAIN = "no faster, by the estimate"  # of a fix that saves neither time nor peak
WAITS = "…"  # of a figure that is being computed
_ALONE = "what a press changes: about, before it is compared"
# of each kind: its title, and what is wrong in plain words
_TITLES = {
    "unused_axis": ("Unused mesh axis", "Devices along axis {} repeat the same work."),
    "replicated": ("Replicated", "Each device holds all of {}."),
    "resharded_state": ("Resharded on each call", "Each call reshards {}."),
    "moved_state": ("Moved to another memory", "Each call moves {} to another memory."),
    "missing_donation": ("Not donated", "{} is held twice on each device."),
    "float32_leak": ("float32 among bfloat16", "{} is float32, the rest bfloat16."),
    "rule": ("Sharded differently", "{} is not sharded like the arrays beside it."),
    "replicated_output": ("Result replicated", "Each device gets all of the result {}."),
    "lost_batch": ("Batch no longer sharded", "The batch is no longer sharded after {}."),
    "replicated_batch": ("Batch replicated", "No axis shards {}, the batch."),
    "crossed_weight": ("Forces a gather", "The sharding of {} forces a gather at each use."),
    "repeated_work": ("Repeated work", "Several devices compute the same at {}."),
    "wide_products": (
        "Products in a wider dtype",
        "Products at {} are of a wider dtype than the weights.",
    ),
    "constant": ("Constant", "Each device holds a constant of {}."),
    "dropped_batch": (
        "Constraint drops the batch",
        "The constraint at {} drops an axis of the batch.",
    ),
    "replicated_carry": (
        "Sum replicated in a loop",
        "Each turn of a loop replicates its sum at {}.",
    ),
    "resharded_donation": (
        "Donated, leaves resharded",
        "{} is donated and leaves in another sharding.",
    ),
    "gathered_whole": ("All layers gathered", "All layers are gathered at once at {}."),
}
_STATE = ("Replicated", "Each device holds all of {}.")  # of what is sharded beside it


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
      as_is: what the compiler makes of the program as it is, where no fix is compared with it.
      unchecked: what a compile found before the last change, and nothing has checked since.
      opened: the program as its author sharded it.
      seen: what judged the program: its own result, else the program as it is partitioned.
    """

    program: Program
    fixes: fix.Fixes
    change: WhatIf | None
    held: Sequence[int]
    capacity: int
    compiled: StrategyResult | None
    result: Result | None = None
    when: str = ""
    as_is: WhatIf | None = None
    unchecked: Sequence[StepFinding] = ()
    opened: Experiment | None = None
    seen: StrategyResult | Partitioned | None = None

    @property
    def now(self) -> Partitioned | None:
        """The program as it is, as the compiler partitions it; None where that is not known."""
        if self.change:
            return self.change.programs[1]
        known = self.fixes.known or self.as_is
        return known.programs[0] if known else None

    @property
    def takes(self) -> Estimate | None:
        """The time of a step as the program is: as it was compiled, else as it is partitioned."""
        if self.compiled:
            predicted = self.compiled.prediction
            return predicted.predicted_s if predicted else None
        return self.now.predicted_s if self.now else None

    @property
    def is_finished(self) -> bool:
        """Returns True if nothing is wrong with the compiled program, or it fits and arguments to
        donate are left, and what no spec is known to make faster; with others left that save little
        memory, if it has room and waits for collectives.
        """
        fixes = self.fixes
        listed = [each for each in fixes.listed if each.kind != "missing_donation"]
        left = [each for each in listed if not (fixes.is_spent(each) or fixes.is_idle(each))]
        if self.compiled is None or self.is_worse:
            return False
        predicted = self.compiled.prediction
        if not left:
            return not self.fixes.listed or (predicted is not None and predicted.fits)
        takes_time = any(each.kind in COST_TIME or fixes.is_faster(each) for each in left)
        if predicted is None or takes_time or not self._has_room or not waiting(predicted):
            return False
        memory = self.compiled.memory_bytes
        peak = (memory.peak if memory else None) or 1
        return max(fixes.saved_peak(each, self.program) for each in left) < _LITTLE * peak

    @property
    def _has_room(self) -> bool:
        memory = self.compiled.memory_bytes if self.compiled else None
        return bool(memory and memory.peak and memory.peak < _ROOMY * self.capacity)

    @cached_property
    def best(self) -> StrategyResult | None:
        """The program with the best of the changes that were tried, where the card offers that first."""
        is_other = self.is_worse or fix.waits() or not _has_changes(self)
        if is_other or not self.result or (self.fixes.offered and not self.is_finished):
            return None
        return compiled.with_best(self.result)

    @property
    def titles(self) -> tuple[str, ...]:
        """Titles of the figures of all changes since the program was opened that the card has."""
        if self.is_worse or self.change is None or self.best:
            return ()
        is_of_all = self.is_finished or not self.fixes.listed
        if is_of_all or (self.compiled and not self.fixes.offered):
            return (PEAK, STEP, SENT, WORK)
        of_fix = {each.title for each in _of_fix(self, self.fixes.known, "")[0]}
        return tuple(each for each in _THREE if each not in of_fix)

    @property
    def is_worse(self) -> bool:
        """Returns True if what was changed is known to be worse."""
        return self.change is not None and bool(self.change.raised)


def judged(experiment: Experiment, run: str | None, before: Experiment) -> Wrong:
    """Returns what is wrong with an exported program, by its file and by what a run compiled of it.
    `before`: the program as its author sharded it.
    """
    program = outputs.following(experiment)
    assert program is not None
    status = find(run) if run else None
    found = _compiled_of(status, experiment)
    own = found.strategies["auto"] if found else None
    estimated = None if own else fix.estimated(experiment)
    partitioned = estimated.programs[0] if estimated else None
    seen = own or (partitioned if partitioned and partitioned.accidents is not None else None)
    judged_by = run if own and run else "partitioned" * bool(seen)
    fixes = fix.judged(partial(_left, program, seen, better.is_chosen(experiment)), judged_by)
    if own:
        earlier.keep(program, fixes.listed, all_findings(program))
    is_absent = experiment.place.is_absent
    change = fix.changed(before)
    is_alone = not (own or change or fixes.is_pursued)
    return Wrong(
        program=program,
        fixes=fixes,
        change=change,
        as_is=(estimated or fix.as_it_is(experiment)) if is_alone else None,
        held=[
            _held(None, program),
            *([_held(fixes.lead, program, fixes.listed)] if fixes.lead else []),
        ],
        capacity=get_topology(experiment.target).chip.device_hbm_bytes if is_absent else 0,
        compiled=own,
        result=found if is_absent and own and own.prediction else None,
        when=ago(status.finished_at or status.submitted_at) if status else "",
        opened=before,
        unchecked=() if seen else earlier.unchecked(program, fixes.listed),
        seen=seen,
    )


def of_file(before: Experiment) -> list[StepFinding]:
    """Returns the findings of a program as it was opened."""
    program = before.exported
    return all_findings(program) if program else []


def findings(wrong: Wrong) -> None:
    """Draws each finding with its fix, by what that saves; where the bytes of a device are."""
    program = wrong.program
    if wrong.fixes.listed or wrong.unchecked:
        _findings(wrong)
    done_in_code(program)
    arrays.picture_of(program, None if wrong.fixes.is_comparing else _mended(wrong))
    if not program.described.mesh and not any(map(any, program.array_specs().values())):
        st.info(
            "Every device holds all of it, since the file has no shardings. Choose mesh and specs "
            "beside, or let them be found below.",
            icon=":material/grid_on:",
        )


def _findings(wrong: Wrong) -> None:
    fixes, program = wrong.fixes, wrong.program
    counted = [each for each in fixes.listed if not _is_note(each, wrong)]
    notes = [each for each in fixes.listed if _is_note(each, wrong)]
    listed, unchecked = [*counted, *notes], unchecked_words(wrong.seen)
    so_far = earlier.count_words(len(wrong.unchecked)) or " so far" * bool(unchecked)
    shown = listed[:SHOWN_FINDINGS]
    saves = [_changes(each, wrong) for each in shown]
    alone = f'<small title="{_ALONE}">its fix alone, on each device</small>' * any(saves)
    with st.container(key="findings", gap=None):
        count = max(_numbers(counted), default=0)
        st.html(f"<h2>{_count(count, len(notes))}{so_far}{alone}</h2>")
        rows = zip(shown, _numbers(shown), saves, strict=True)
        for at, (each, number, changes) in enumerate(rows):
            specs = dict(each.specs) or None
            copied = copied_bytes(program, specs) if specs else 0
            _finding(at, number, each, copied, changes, wrong)
        earlier.draw(wrong.unchecked, _TITLES)
    if (more := len(listed) - SHOWN_FINDINGS) > 0:
        st.caption(f"{more} more, which `program FILE` lists.")
    if unchecked:
        st.caption(plain(unchecked))


def card(wrong: Wrong, experiment: Experiment, can_compile: bool) -> None:
    """Draws what costs the most and what mends it: its figures before and after; of a change that is
    worse these, and the way back.
    """
    fixes, held, capacity = wrong.fixes, wrong.held, wrong.capacity
    room = f"of {bytes_text(capacity)} HBM" if capacity else ""
    is_of_all = wrong.is_worse or wrong.is_finished or not fixes.listed
    shown = wrong.change if is_of_all else fixes.known
    kept = wrong.change or wrong.as_is
    with st.container(key="answer-wrong"):
        row = cards.headline(plain(_headline(wrong)))
        _badge(row, wrong, shown or (kept if _kept(wrong, room) and not wrong.compiled else None))
        if wrong.result or shown or _kept(wrong, room):
            with cards.how_sure(row):
                _sure(wrong, shown or kept)
        if not fixes.listed and not done.donated(wrong.program.described.program):
            _checked(wrong)
        figures, peaks = _figures(wrong, shown, room)
        if figures:
            draw_figures(figures)
        if _awaits(wrong, figures):
            fix.follow_estimate(experiment)
        if _differ(held, peaks) and fixes.listed and not wrong.is_worse:
            _bars(held, peaks, capacity)
        if wrong.compiled and (misfit := compiled.misfit_words(wrong.compiled)):
            st.markdown(f":red[:material/error: {plain(misfit)}.]")
        elif not wrong.is_worse:
            known = None if is_of_all else fixes.known
            after = compiled.named_parts(known.programs[1]) if known else None
            after = compiled.step_parts(wrong.best) if wrong.best else after
            compiled.limits(wrong.compiled, wrong.now, wrong.change, after)
        if wrong.result and wrong.is_finished and (own := compiled.requested(wrong.result)):
            st.markdown(f":material/info: {plain(own)}")
        if not wrong.is_worse:
            notes.draw(wrong.program, wrong.seen)
        fix.refused(fixes)
        _told(wrong)
        if fixes.lead and not wrong.is_finished and fixes.is_spent(fixes.lead):
            fix.compared(fixes)
        _next(wrong, experiment, can_compile)


def _awaits(wrong: Wrong, figures: Sequence[Figure]) -> bool:
    """Returns True while the estimate of a program whose fixes are not compared is to come."""
    is_judged = wrong.seen or wrong.change or wrong.as_is or not fix.is_opened()
    is_left = not is_judged and fix.is_estimable(state.experiment("programs"))
    return not wrong.fixes.is_pursued and (is_left or any(each.value == WAITS for each in figures))


def _checked(wrong: Wrong) -> None:
    """Draws what was compared where nothing is wrong: what only the compiler shows may still be."""
    checked = plain(checked_words(wrong.program, wrong.seen))
    kinds = in_words([title for title, _ in _TITLES.values()])
    sign = ":green[:material/check:]" if wrong.seen else ":material/pending:"
    st.caption(f"{sign} {checked}", help=plain(f"{kinds}."))


def _badge(row: DeltaGenerator, wrong: Wrong, of: WhatIf | None) -> None:
    """Draws how far the compiler went for the figures of the card."""
    if wrong.compiled:
        row.badge("Compiled", icon=":material/check:", color="green")
    if of and not (wrong.compiled and wrong.is_finished):
        made = "Its fix is estimated" if wrong.compiled else of.made
        row.badge(plain(made), icon=":material/bolt:", color="orange")


def _told(wrong: Wrong) -> None:
    """Draws what the fix costs, and what the last change did."""
    of = {wrong.change.before.id: wrong.titles} if wrong.change else {}
    if idle := idle_words(state.experiment("programs")):
        st.markdown(f":orange[:material/warning: {plain(idle)}]")
    known, opened = wrong.fixes.known, wrong.opened
    if opened is None or opened.exported is None:
        return
    fix.told_changes(None if wrong.is_worse else known, of, opened)
    outputs.told(opened.exported, wrong.program)
    if known and _in_card(wrong):
        outputs.foretold(wrong.program, known.after)


def _sure(wrong: Wrong, shown: WhatIf | None) -> None:
    """Draws what the figures of the card rest on."""
    if shown:
        opened = "As it was opened: " * wrong.is_finished
        made = f"{opened}{small(shown.made) if opened else shown.made}"
        if not any(each.is_compiled for each in shown.programs) and not shown.is_propagated:
            made += ": XLA sharded and scheduled it, and made no code"
        rule = (WORSE_TIMED if shown.is_timed else WORSE) * bool(wrong.fixes.offered)
        lines = filter(None, (f"{made}. {shown.agreement}".strip(), rule))
        st.markdown("\n".join(f"- {plain(each)}" for each in lines))
    if wrong.result:
        compiled.sure(wrong.result, wrong.when)


def _figures(
    wrong: Wrong, shown: WhatIf | None, room: str
) -> tuple[list[Figure], list[int | None]]:
    """Returns the figures of the card, with those of all changes that these lack, and the peaks that
    its bars show. First is what is worse, which the headline names; then the step, and its peak: of
    what does not fit these the other way about.
    """
    of_fix, peaks = _of_fix(wrong, shown, room)
    titles = {each.title for each in of_fix}
    figures = [*of_fix, *(each for each in _kept(wrong, room) if each.title not in titles)]
    raised = shown.raised if shown else ()
    order = [*raised, STEP, PEAK] if _fits(wrong) else [*raised, PEAK, STEP]
    places = {title: at for at, title in reversed([*enumerate(order)])}
    return sorted(figures, key=lambda each: places.get(each.title, len(order))), peaks


def _fits(wrong: Wrong) -> bool:
    predicted = wrong.compiled.prediction if wrong.compiled else None
    if predicted is not None:
        return predicted.fits
    return not wrong.capacity or (_peak(wrong) or 0) <= wrong.capacity


def _kept(wrong: Wrong, room: str) -> list[Figure]:
    """Returns peak, step time and bytes sent as the program was opened, and as it is; of one that was
    not changed all its figures.
    """
    if wrong.is_worse or wrong.is_finished:
        return []
    if wrong.change is None and wrong.compiled and wrong.result:
        listed = compiled.figures(wrong.compiled, None, room)
        return [each for each in listed if each.title in _THREE]
    if wrong.change is None:
        of = wrong.as_is.figures[:-1] if wrong.as_is else ()
        return [each._replace(more=each.more or room * (each.title == PEAK)) for each in of]
    of = wrong.change.figures
    if wrong.compiled:
        of = compiled.figures(wrong.compiled, wrong.change, "")
    opened = "as opened → now"
    more = {each.title: room if each.title == PEAK else each.more for each in of}
    return [
        each._replace(
            more=", ".join(filter(None, (opened * ("→" in each.value), more[each.title])))
        )
        for each in of
        if each.title in _THREE
    ]


def _of_fix(wrong: Wrong, shown: WhatIf | None, room: str) -> tuple[list[Figure], list[int | None]]:
    """Returns what the compiler makes of the change, else what arguments take."""
    lead, held = wrong.fixes.lead, wrong.held
    if wrong.compiled and wrong.best:
        return compiled.ends(wrong.compiled, wrong.best, room), []
    if wrong.is_finished and wrong.compiled:
        return compiled.figures(wrong.compiled, shown, room), []
    if shown and len(shown.figures) > 1:  # the last is of arguments alone
        no_gain = NO_GAIN * (shown is wrong.fixes.known)  # a mesh may be given for its memory
        why = {STEP: shown.slower or no_gain} if shown.is_no_gain else {}
        figures = [
            each._replace(more=why.get(each.title) or each.more or room * (each.title == PEAK))
            for each in shown.figures[:-1]
        ]
        return figures, [each.peak_bytes for each in shown.programs]
    if wrong.compiled and not wrong.fixes.offered:
        memory = wrong.compiled.memory_bytes
        figures = compiled.figures(wrong.compiled, wrong.change, room)
        return figures, [memory.peak if memory else None]
    if wrong.fixes.is_pursued:
        # the figure that its answer has first: attached devices have no step
        return [Figure(STEP if wrong.capacity else PEAK, WAITS, "being compared")], []
    has_any = bool(wrong.compiled or wrong.now)
    if (
        not has_any
        and (not lead or wrong.fixes.offered)
        and fix.is_estimable(state.experiment("programs"))
    ):
        return [Figure(STEP, WAITS, "being estimated")], []
    if has_any and wrong.fixes.offered:
        return [], [None, None]
    if not lead or lead.kind in COST_TIME or wrong.fixes.is_spent(lead):
        return [], [None, None]
    change = _change(held[0], held[-1])
    figures = [Figure("Held on each device", change, "now → once donated")] if change else []
    if peak_bytes := _peak(wrong):
        # temporaries that took the room of outputs need their own once these are donated
        return [*figures, Figure(PEAK, bytes_text(peak_bytes), room or "as it is")], [peak_bytes]
    return [each._replace(more=room or each.more) for each in figures], [None, None]


def _peak(wrong: Wrong) -> int | None:
    """Returns the peak of the program as it is, where it was compiled or partitioned."""
    memory = wrong.compiled.memory_bytes if wrong.compiled else None
    known = [memory.peak if memory else None]
    known += [wrong.now.peak_bytes if wrong.now else None]
    return next(filter(None, known), None)


def searched(wrong: Wrong, experiment: Experiment) -> None:
    """Draws the search of other meshes and specs, or its button."""
    mine = own(wrong, experiment)
    best, fixed_s = better.ahead(mine), min(_fix_and_tried_s(wrong))
    if best and fixed_s <= (best.seconds or 0.0):
        words = (
            f"The fix above takes less than the best that the search has: {seconds_text(fixed_s)}."
        )
        st.caption(plain(words))
    better.draw(experiment, mine, is_offered=offered_best(wrong, mine) is not None)


def own(wrong: Wrong, experiment: Experiment) -> Own | None:
    """Returns what the program takes as it is, which a search's best is set beside."""
    return better.own(experiment, wrong.takes, _peak(wrong))


def offered_best(wrong: Wrong, mine: Own | None) -> Candidate | None:
    """Returns the best of a search, where no other known change of the program is as fast."""
    if fix.waits() or wrong.is_worse or not _fits(wrong) or not (best := better.ahead(mine)):
        return None
    return best if (best.seconds or math.inf) < min(_fix_and_tried_s(wrong)) else None


def _fix_and_tried_s(wrong: Wrong) -> tuple[float, float]:
    """Returns the seconds of a step with the card's fix, and with the best change that was tried; each
    infinite where it has no time.
    """
    known, remedy = wrong.fixes.known, remedies.best(wrong.result) if wrong.result else None
    fixed = known.programs[1].predicted_s if known else None
    tried_s = remedy.predicted_s.after if remedy else math.inf
    return fixed.estimate if fixed else math.inf, tried_s


def _next(wrong: Wrong, experiment: Experiment, can_compile: bool) -> None:
    """Draws the one thing to press next, and the way back."""
    is_worse, mine = wrong.is_worse, own(wrong, experiment)
    best = offered_best(wrong, mine)
    is_sure = best is not None and mine is not None and not is_close(mine, best)
    busy = without_idle(experiment) if can_compile and not fix.waits() else None
    with st.container(horizontal=True, vertical_alignment="center"):
        if busy:
            _use_all(busy, is_first=not is_worse)
        if best and is_sure:
            search.offer(best, mine, is_first=not busy)
        fixed_s, tried_s = _fix_and_tried_s(wrong)
        is_beaten = tried_s < fixed_s < math.inf
        is_offered = _offer_fix(wrong, is_first=not (is_worse or is_sure or busy or is_beaten))
        has_first = is_sure or bool(busy) or _is_donation(_in_card(wrong))
        has_first |= is_offered and not (wrong.fixes.is_no_gain or is_beaten)
        waits = ""
        if not wrong.compiled:
            is_absent = experiment.place.is_absent
            label, place = ("Compile and predict", "run") if is_absent else ("Compile", "card")
            kind = "secondary" if has_first or is_worse else "primary"
            _ask(label, experiment, not can_compile or fix.waits(), place, kind=kind)
        elif not is_worse and not fix.waits():
            waits = _offer_changes(wrong, experiment, is_offered, is_first=not has_first)
        if best and not is_sure:
            search.offer(best, mine, is_first=False)
        fix.undo(is_first=is_worse)
        if waits:
            st.caption(plain(waits), width="stretch")
        better.told(experiment, mine)
    if is_offered and not fix.waits():
        fix.compared_first(wrong.fixes)


def _use_all(busy: Experiment, is_first: bool) -> None:
    """Draws the button that gives a program the mesh that leaves no device idle."""
    kind = "primary" if is_first else "secondary"
    label = f"Use {plain(mesh_text(busy.mesh, ' '))}"
    if st.button(label, type=kind, icon=":material/grid_on:", key="use:all"):
        constrain.put(busy)


def _offer_fix(wrong: Wrong, is_first: bool) -> bool:
    """Draws the button of the card's fix; False where that is none of a spec."""
    fixes, program, lead = wrong.fixes, wrong.program, wrong.fixes.lead
    if fix.waits():
        return fix.offer(fixes, program)
    if not lead or not _has_next(wrong):
        return False
    if _is_donation(lead):
        _donate(fixes.listed, "first", kind="primary" if is_first else "secondary")
        return False
    is_offered = fix.offer(fixes, program, is_first)
    fix.offer_alike(fixes)
    return is_offered


def _offer_changes(wrong: Wrong, experiment: Experiment, is_offered: bool, is_first: bool) -> str:
    """Draws what would shorten a compiled step; returns what it waits for, for below the buttons."""
    if not wrong.result:
        return ""
    if wrong.is_finished:
        compiled.next_steps(wrong.result, experiment, is_first and _is_worth_more(wrong))
    elif is_offered or _has_changes(wrong):
        return compiled.changes_beside(wrong.result, is_first)
    return ""


def _is_worth_more(wrong: Wrong) -> bool:
    """Returns True if a compiled program has something wrong, or waits for most of its step: what else
    may shorten a step needs no press.
    """
    predicted = wrong.compiled.prediction if wrong.compiled else None
    return bool(wrong.fixes.listed) or (predicted is not None and waiting(predicted) >= _MOST)


def _has_changes(wrong: Wrong) -> bool:
    """Returns True if the card of a compiled program has what would shorten its step: not of one whose
    first is a donation alone.
    """
    lead = wrong.fixes.lead
    return wrong.is_finished or (lead is not None and not _is_donation(lead))


def _has_next(wrong: Wrong) -> bool:
    """Returns True if the card has what mends its finding; after a change that is worse, of what is known
    to save something, and of a finished program what its headline has.
    """
    fixes = wrong.fixes
    if fix.waits():
        return False
    if wrong.is_finished:
        return _is_donation(fixes.lead) and not _limit(wrong)
    return not wrong.is_worse or (fixes.known is not None and not fixes.is_no_gain)


def _in_card(wrong: Wrong) -> StepFinding | None:
    """Returns the finding whose button the card has; None where it has none: its row does then."""
    lead = wrong.fixes.lead
    has_button = lead is not None and (bool(lead.specs) or _is_donation(lead))
    return lead if has_button and _has_next(wrong) else None


def _is_donation(each: StepFinding | None) -> bool:
    return each is not None and each.kind == "missing_donation"


def room(wrong: Wrong, experiment: Experiment, free: int | None) -> str:
    """Returns why a run would not fit into the memory of this machine, which holds all devices; ""
    where it may. `free`: bytes that are free.
    """
    peak = _peak(wrong) or wrong.held[0]
    need = peak * experiment.device_count
    if not experiment.place.is_simulated or free is None or need <= free:
        return ""
    return (
        f"A run needs {bytes_text(need)}, {bytes_text(peak)} on each of {experiment.device_count} "
        f"devices: {bytes_text(free)} are free here. Compile it instead: nothing runs."
    )


def run_button(wrong: Wrong, experiment: Experiment, can_run: bool) -> None:
    """Draws the button of the header: it runs the program, or compiles anew what was compiled of an
    absent target. The card has the one that compiles it first.
    """
    if experiment.place.is_absent:
        if wrong.compiled:
            _ask("Recompile", experiment, not can_run, icon=":material/refresh:")
        return
    lacking = room(wrong, experiment, lab().hardware().available_bytes)
    if st.button(
        "Run",
        icon=":material/play_arrow:",
        key=RUN,
        disabled=not can_run or bool(lacking),
        help=plain(lacking) or None,
    ):
        live.ask("programs", experiment)


def _ask(
    label: str,
    experiment: Experiment,
    disabled: bool,
    place: str = "run",
    icon: str = ":material/bolt:",
    kind: Literal["primary", "secondary"] = "secondary",
) -> None:
    """Draws a button that compiles the program, and runs nothing of it."""
    nothing = "Nothing runs: its memory, its collectives, its batch and its work are checked."
    if st.button(
        label, type=kind, icon=icon, key=f"compile:{place}", disabled=disabled, help=nothing
    ):
        live.ask("programs", experiment, compile_only=not experiment.place.is_absent)


def _differ(held: Sequence[int], peaks: Sequence[int | None]) -> bool:
    """Returns True if bars before and after a fix would show a difference."""
    ends = zip(held, (each or 0 for each in peaks), strict=False)
    return len({tuple(map(bytes_text, each)) for each in ends}) > 1


def _bars(held: Sequence[int], peaks: Sequence[int | None], capacity: int) -> None:
    ends = zip(held, peaks, strict=False)
    rows = dict(zip((peak.NOW, peak.FIXED), ends, strict=False))
    st.html(peak.bars(rows, capacity))


def _held(mended: StepFinding | None, program: Program, listed: Sequence[StepFinding] = ()) -> int:
    """Returns what a device holds of arguments and of results beside arguments that are not donated:
    as it is, or with the fix of a finding: of a donation all that are `listed`, which one line donates.
    """
    if mended is None:
        return held_bytes(program, {}, donated=())
    is_donated = mended.kind == "missing_donation"
    cast = 0 if mended.specs or is_donated else saved_bytes(mended, program)
    others = (each.path for each in listed if _is_donation(each))
    donated = [mended.path, *others] if is_donated else []
    return held_bytes(program, dict(mended.specs), donated) - cast


def _mended(wrong: Wrong) -> int:
    """Returns what a device holds with the fixes of all findings, which share bytes."""
    specs: dict[str, Spec] = {}
    donated, cast = [], 0
    for each in wrong.fixes.listed:
        specs = in_front(specs, dict(each.specs))
        is_donated = each.kind == "missing_donation"
        donated += [each.path] * is_donated
        cast += 0 if each.specs or is_donated else saved_bytes(each, wrong.program)
    return held_bytes(wrong.program, specs, donated) - cast


def _change(was: int, now: int) -> str:
    return change_text(bytes_text(was), bytes_text(now)) if now < was else ""


def _count(number: int, notes: int = 0) -> str:
    noted = numbered(notes, "note") if notes else ""
    if not number:
        return noted or "Nothing is wrong so far"
    wrong = "1 thing is wrong" if number == 1 else f"{number} things are wrong"
    return ", ".join(filter(None, (wrong, noted)))


def _numbers(listed: Sequence[StepFinding]) -> list[int]:
    """Returns the numbers of findings: donations, which one line makes, have that of the first."""
    keys = dict.fromkeys(_numbered_as(each) for each in listed)
    places = {key: at for at, key in enumerate(keys, 1)}
    return [places[_numbered_as(each)] for each in listed]


def _numbered_as(each: StepFinding) -> fix.Key:
    return ("missing_donation", "") if _is_donation(each) else fix.key(each)


def _is_note(each: StepFinding, wrong: Wrong) -> bool:
    """Returns True of a finding that is not counted as wrong: what would mend it is known to save neither
    time nor peak, or it takes little of the step.
    """
    fixes = wrong.fixes
    is_little = each.is_note and not fixes.is_faster(each)
    is_useless = fixes.is_spent(each) or fixes.is_idle(each)
    return is_little or is_useless or bool(_slight(each, wrong.compiled))


def _limit(wrong: Wrong) -> str:
    """Returns what a compiled step waits for where that comes before what is wrong in its arguments:
    half of it and more, or all that is left saves nothing; "" else.
    """
    of, result = wrong.compiled, wrong.result
    if not (wrong.is_finished and of and result) or wrong.is_worse:
        return ""
    has_more = bool(wrong.fixes.listed or remedies.best(result) or compiled.requested(result))
    if not has_more or not of.prediction or not (share := waiting(of.prediction)):
        return ""
    lead = wrong.fixes.lead
    is_behind = lead is None or wrong.fixes.is_no_gain or _slight(lead, of)
    if share < _MOST and not is_behind:
        return ""
    limit, at = limit_of(of), waits_at(of.prediction)
    part, _, line = at.partition(" at ")
    if line and limit.startswith(f"{part} of"):  # all of it waits there
        return capital(f"{limit} at {line}")
    return capital("; ".join(filter(None, (limit, at))))


def _headline(wrong: Wrong) -> str:
    change = wrong.change
    if not change or not change.raised:
        if limit := _limit(wrong):
            return f"{limit}."
        fixes = wrong.fixes
        if slight := _slight(fixes.lead, wrong.compiled):
            return slight
        if donations := _not_donated(wrong):
            return donations
        first = _first(fixes.lead, wrong.compiled, wrong.program, wrong.seen or wrong.now)
        why = NO_GAIN if fixes.is_no_gain else ""
        if fixes.lead and fixes.is_spent(fixes.lead):
            why = "worse"
        return f"{first.removesuffix('.')}; its fix is {why}." if why else first
    of = ", ".join(map(small, change.raised))
    return f"Worse than before: {of} {'rises' if len(change.raised) == 1 else 'rise'}."


def _not_donated(wrong: Wrong) -> str:
    """Returns how many groups one line donates where that is first, and what a device then holds; "" of
    one group.
    """
    number = sum(map(_is_donation, wrong.fixes.listed))
    if not _is_donation(wrong.fixes.lead) or number < 2:
        return ""
    return f"{number} groups are not donated: {_change(wrong.held[0], wrong.held[-1])} held."


def _slight(first: StepFinding | None, of: StrategyResult | None) -> str:
    """Returns what limits a step in which products of a wider dtype are first and take little time, in
    a sentence; "" else.
    """
    if not first or first.kind != "wide_products" or not of or not of.prediction:
        return ""
    parts = of.prediction.shares_s
    share = sum(parts.get(name, 0.0) for name in _PRODUCTS) / (sum(parts.values()) or 1.0)
    # products stream such operands, too
    if share >= _LITTLE or predictions.notes_of_parts(of.prediction):
        return ""
    return f"{capital(limit_of(of))}; products of a wider dtype take {share:.1%} of it."


def _changes(each: StepFinding, wrong: Wrong) -> str:
    """Returns what a press on the fix of a finding changes, `…` while that is compared."""
    fixes = wrong.fixes
    if fixes.is_compared(each):
        return WAITS
    saved = 0 if fixes.is_spent(each) else wrong.held[0] - _held(each, wrong.program)
    return _saves(each, saved, fixes)


def _saves(each: StepFinding, saved: int, fixes: fix.Fixes) -> str:
    """Returns what a press on the fix of a finding changes: about what a device then holds less, of
    its peak or its step once that is known.
    """
    is_time = each.kind in COST_TIME
    if known := fixes.answers.get(fix.key(each)):
        values = {of.title: of.value for of in known.figures}
        if known.is_no_gain:
            sent = f"sent {values[SENT]}" if "→" in values.get(SENT, "") else ""
            held = f"held: about −{bytes_text(saved)}" * (saved > 0)
            return " · ".join(filter(None, (NO_GAIN, sent, held)))
        if is_time and "→" in values.get(STEP, ""):
            return f"step {values[STEP]}"
        if is_time and SENT in values:
            return f"sent {values[SENT]}"
        listed = [("peak", PEAK), ("step", STEP)]
        ends = {of: values[title] for of, title in listed if title in values}
        changed = {of: value for of, value in ends.items() if "→" in value}
        return " · ".join(map(" ".join, (changed or ends).items()))
    if is_time:
        return "gain not compared yet" * bool(each.specs)
    return f"held: about −{bytes_text(saved)}" * (saved > 0)


def _titled(each: StepFinding, program: Program | None) -> tuple[str, str]:
    """Returns the title of a finding, and what is wrong in plain words."""
    leaf = program.described.leaves.get(each.path) if program and each.kind == "rule" else None
    is_replicated = leaf is not None and program and not any(program.spec(leaf))
    return _STATE if is_replicated else _TITLES[each.kind]


def _first(
    first: StepFinding | None,
    of: StrategyResult | None = None,
    program: Program | None = None,
    seen: StrategyResult | Partitioned | None = None,
) -> str:
    if not first:
        return clean_words(of, seen if isinstance(seen, Partitioned) else None, program)
    has_others = first.kind == "replicated" and len(first.specs) > 1
    (title, words), array = _titled(first, program), _arrays(first)
    if not array:  # no line of the program's own is known
        words = words.replace(" at {}", "")
    sentence = words.format(f"{array}{' and its optimizer state' * has_others}")
    costs = costs_words(first.kind, first.path, seen) if seen else ""
    if first.kind == "rule" and title == _STATE[0]:
        costs = bytes_text(first.bytes_per_device)
    return f"{sentence.removesuffix('.')}: {costs}." if costs else sentence


def _arrays(each: StepFinding) -> str:
    """Returns the path of an array, or the pattern of those in several layers."""
    patterns = [name for name, _ in each.specs if matches(name, each.path)]
    return next(iter(patterns), each.path)


def _finding(
    at: int,
    number: int,
    each: StepFinding,
    copied: int,
    costs: str,
    wrong: Wrong,
) -> None:
    words = _words(each, wrong)
    if copied and each.kind == "replicated":
        words += f" {bytes_text(copied)} of it, not donated, is held twice."
    with st.container(horizontal=True, vertical_alignment="center", key=f"finding-{at}"):
        title, _ = _titled(each, wrong.program)
        numbered_title = f":{'orange' if at else 'red'}[**{plain(f'{number}. {title}')}**]"
        if _is_note(each, wrong):
            numbered_title = f":gray[**{plain(title)}**]"
        has_fix = each.specs or each.kind == "missing_donation"  # else the sentence has what to do
        short = (_CLAUSE.split(words)[0] if has_fix else words).removesuffix(".")
        shown = f"{code(each.path)} {coded(short)}"
        if each.path in short:
            shown = coded(short.replace(each.path, f"`{each.path}`"))
        if not at and each.kind == "replicated":  # which the card words
            shown = code(_arrays(each))
        elif each.kind == "unused_axis":  # which name the axis
            shown = coded(short)
        more = coded(words) if words != f"{short}." else None
        st.markdown(f"{numbered_title}  \n:small[{shown}]", width="stretch", help=more)
        lines = "  \n".join(f"**{plain(each)}**" for each in costs.split(" · ") if each)
        st.markdown(lines, width=170)
        with st.container(width=250):
            _fix(at, each, wrong)


def _words(each: StepFinding, wrong: Wrong) -> str:
    """Returns the sentence of a finding after its path, without a spec that is not compared."""
    is_compared = fix.key(each) in wrong.fixes.answers
    sentence = each.sentence if is_compared else _TRY.sub("", each.sentence)
    rest = sentence.removeprefix(each.path).strip()
    return f"{rest}." if rest != sentence else as_sentence(rest)


def _fix(at: int, each: StepFinding, wrong: Wrong) -> None:
    fixes = wrong.fixes
    specs, worse = dict(each.specs), fixes.worse.get(fix.key(each), ())
    is_donated = each.kind == "missing_donation"
    if fixes.is_spent(each):
        number = len(worse)
        many = f"{number} specs are worse" if number > 1 else "Its fix is worse"
        answer = worse[0][1]
        st.caption(plain(f"{many}: {answer.worse_by}."), help=plain(f"{answer.verdict}."))
    elif each is _in_card(wrong):
        st.caption(":material/arrow_upward: Above")
    elif fix.compares(fixes, each, wrong.program):
        return
    elif fixes.is_compared(each):
        fix.follow(specs, "Comparing it with the program as it is…")
    elif specs:
        _use(each, specs, fixes)
    elif is_donated and each is not _first_donation(fixes):
        st.caption(":material/arrow_upward: In the same line")
    elif is_donated:
        _donate(fixes.listed, str(at), "stretch")


def _first_donation(fixes: fix.Fixes) -> StepFinding:
    return next(each for each in fixes.listed if each.kind == "missing_donation")


def _use(each: StepFinding, specs: fix.Specs, fixes: fix.Fixes) -> None:
    is_compared = fix.key(each) in fixes.answers
    label = f"Use {fix.words(specs)}" if is_compared else fix.COMPARE
    tried = None if is_compared else f"{fix.label(specs)}: used if it is no worse."
    at = ":".join(fix.key(each))  # a press acts on the finding that was read
    if st.button(label, key=f"mend:{at}", width="stretch", disabled=fix.waits(), help=tried):
        fix.use(specs)


def _donate(
    listed: Sequence[StepFinding],
    key: str,
    width: Literal["stretch", "content"] = "content",
    kind: Literal["primary", "secondary"] = "secondary",
) -> None:
    """Draws a button with the line that donates the arguments that are held twice: no spec of them
    changes; and one that marks it as done there.
    """
    kept = state.experiment("programs").program
    paths = tuple(each.path for each in listed if each.kind == "missing_donation")
    names = dict.fromkeys(path.partition("/")[0] for path in (*done.donated(kept), *paths))
    # a key of its own: another program's is closed again
    with st.popover("Copy `donate_argnames`", type=kind, key=f"donate:{key}:{kept}", width=width):
        st.caption("In the call of `jax.jit`:")
        quoted = "".join(f"{json.dumps(each)}, " for each in names)
        st.code(f"donate_argnames=({quoted.strip()})", language="python", width="content")
        if st.button("Done in my code", icon=":material/check:", key=f"donated:{key}"):
            done.mark(kept, (*done.donated(kept), *paths))
            state.note_act("programs")
            st.rerun()


def _left(
    program: Program,
    of: StrategyResult | Partitioned | None,
    is_chosen: bool,
    refuted: Collection[fix.Specs],
) -> list[StepFinding]:
    """Returns the findings but donations that are done in the author's code, and arrays that stay
    replicated where a search chose all specs.
    """
    names = done.donated(program.described.program)

    def is_done(each: StepFinding) -> bool:
        is_donated = each.kind == "missing_donation" and each.path in names
        return is_donated or (is_chosen and each.kind == "replicated")

    listed = notes.apart(all_findings(program, of, refuted))
    return [each for each in listed if not is_done(each)]


def done_in_code(program: Program) -> None:
    """Draws what is done in the author's code alone, which no figure of the file has, and a button
    that takes it back.
    """
    if names := done.donated(program.described.program):
        with st.container(horizontal=True, vertical_alignment="center", key="done-in-code"):
            words = f"{in_words(names)} donated in your code: export it again for its figures."
            st.caption(f":material/check: {plain(words)}", width="content")
            take_back = partial(done.mark, program.described.program, ())
            st.button("Take back", key="donated:undo", type="tertiary", on_click=take_back)


def example(described: Described) -> None:
    """Draws what the screen makes of a program that nobody has opened yet."""
    program = Program(described, described.mesh)
    held = arrays.on_device(program)
    placed = treemap.tiles(held)
    listed = all_findings(program)
    st.markdown(f"**An example.** {plain(_first(next(iter(listed), None)))}")
    chart = treemap.chart(placed, arrays.odd(program))
    st.vega_lite_chart(chart, alt=treemap.alt(placed), key="example-picture")


def _compiled_of(status: RunStatus | None, experiment: Experiment) -> Result | None:
    """The result of a run that compiled an experiment; None of another's, and where it did not get
    so far.
    """
    if status is None or not status.is_over or not status.experiment.is_alike(experiment):
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
        has_best = _has_changes(wrong) and not wrong.is_worse and not fix.waits()
        compiled.changes(wrong.result, has_best)
        is_open = wrong.is_finished or not wrong.fixes.listed
        is_open = is_open and not better.is_begun(status.experiment)  # whose answer is below
        return partial(compiled.details, wrong.result, status, is_open)
    result = prediction.result_of(status, status.experiment)
    if result is not None:
        prediction.headline(result, ago(status.finished_at or status.submitted_at))
        labels.draw(status.run)
    return lambda: None
