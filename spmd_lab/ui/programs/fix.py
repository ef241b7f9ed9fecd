"""The fixes of what is wrong with a program: partitioned in the background, judged, and given by a press."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from itertools import takewhile
from typing import Literal

import streamlit as st

from spmd_core.advice import COST_TIME, Specs, in_front, other_specs, saved_bytes
from spmd_core.answers import PEAK, SENT, WORSE, WhatIf, small
from spmd_core.base import LabError, capital
from spmd_core.experiment import Experiment, spec_code
from spmd_core.fields import Spec
from spmd_core.results import StepFinding
from spmd_core.sheets import Sheet, text
from spmd_core.workloads import VALUE, Program
from spmd_lab.ui import live, state
from spmd_lab.ui.lab import as_viewer, lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.programs import constrain, what_if
from spmd_lab.ui.shell import draw_table

_WORSE = "worse_fix"  # aside: specs that were pressed and not used, with the compiler's answer
_WAITS = "waiting_fix"  # aside: specs that were pressed, for which experiment, and when
_UNCHECKED = "unchecked_fix"  # aside: the id of the experiment with specs not compared, and why
_FIRST = "first_fixes"  # aside: the program, and the findings that were its first
_REFUSED = "refused_estimate"  # aside: the id of the experiment of which there is no estimate
_PLACES = "places"  # aside: since which press findings have their places, and the findings
_CHEAP_S = 15.0  # CPU seconds of a program as it is, below which every fix is compared unasked
COMPARE = "Compare and use its fix"  # the label of what is not compared yet
_KINDS_NAMED = 2  # specs that a change is named by
Key = tuple[str, str]  # kind and path of a finding
Tried = tuple[Specs, WhatIf]


@dataclass(frozen=True)
class Fixes:
    """What the compiler makes of the fixes of findings.

    Attributes:
      listed: the findings, with specs that are not known to be worse, the costliest first as of the
        last press: what is compared since moves none.
      worse: specs that are known to be worse, and the compiler's answer, by finding.
      answers: the answer on the specs of a finding, if it is there, by finding.
      unasked: the findings whose fixes are compared without a press.
    """

    listed: Sequence[StepFinding]
    worse: Mapping[Key, Sequence[Tried]]
    answers: Mapping[Key, WhatIf]
    unasked: Collection[Key] = ()

    @property
    def lead(self) -> StepFinding | None:
        """The finding that the card has: the first whose fix is not known to save nothing, else the
        first of which not every fix is worse, else the first.
        """
        left = [each for each in self.listed if not self.is_spent(each)]
        saving = (each for each in left if not self.is_idle(each))
        return next(saving, next(iter([*left, *self.listed]), None))

    def is_idle(self, each: StepFinding) -> bool:
        """Returns True if the fix of a finding is known to save neither time nor peak."""
        return (known := self.answers.get(key(each))) is not None and known.is_no_gain

    def is_faster(self, each: StepFinding) -> bool:
        """Returns True if the fix of a finding is known to shorten the step."""
        return (known := self.answers.get(key(each))) is not None and known.is_faster

    def saved_peak(self, each: StepFinding, program: Program) -> int:
        """Returns the bytes of a device's peak that the fix of a finding saves, of its arguments where
        that is not compared.
        """
        known = self.answers.get(key(each))
        was, now = (each.peak_bytes for each in known.programs) if known else (None, None)
        return was - now if was and now else saved_bytes(each, program)

    @property
    def known(self) -> WhatIf | None:
        """The answer on the specs of the card's finding, if it is there."""
        return self.answers.get(key(self.lead)) if self.lead else None

    @property
    def offered(self) -> Specs | None:
        """The specs that mend the card's finding."""
        return (dict(self.lead.specs) or None) if self.lead else None

    @property
    def is_pursued(self) -> bool:
        """Returns True if the compiler compares specs of the card's finding without a press, or has."""
        return self.offered is not None and (is_opened() or self.known is not None)

    @property
    def is_no_gain(self) -> bool:
        """Returns True if the card's fix is known to save neither time nor peak."""
        return self.lead is not None and self.is_idle(self.lead)

    @property
    def alike(self) -> Specs:
        """The specs that mend all findings of the card's kind; {} where only one has some."""
        if not self.lead:
            return {}
        kind = self.lead.kind
        some = [dict(each.specs) for each in self.listed if each.kind == kind and each.specs]
        merged = reduce(in_front, some, dict[str, Spec]())
        return merged if len(some) > 1 else {}

    def is_compared(self, each: StepFinding) -> bool:
        """Returns True while the compiler compares the fix of a finding."""
        is_asked = key(each) in self.unasked or key(each) in self.worse
        return is_asked and bool(each.specs) and key(each) not in self.answers and is_opened()

    @property
    def is_comparing(self) -> bool:
        """Returns True while the compiler compares any fix."""
        return any(map(self.is_compared, self.listed))

    def is_spent(self, each: StepFinding) -> bool:
        """Returns True if all that would mend a finding is worse."""
        return key(each) in self.worse and not each.specs


def key(each: StepFinding) -> Key:
    """Returns what names a finding, whatever mends it."""
    return each.kind, each.path


def judged(find: Callable[[Collection[Specs]], list[StepFinding]], compiled: str = "") -> Fixes:
    """Returns findings with those of their fixes that are not known to be worse: fixes are partitioned
    in the background, and others in the place of those that are worse.

    Args:
      find: returns the findings that offer none of these specs.
      compiled: the run that compiled the program, which adds findings.
    """
    worse: dict[Key, list[Tried]] = {}
    every = opened = find(())
    places = _places(compiled)
    while True:
        known = [specs for tried in worse.values() for specs, _ in tried]
        spent = [each for each in every if key(each) in worse and not each.specs]
        left = _by_gain([each for each in every if each not in spent], opened)
        left.sort(key=lambda each: places.get(key(each), len(places)))
        unasked = _unasked(left)
        asked = {key(each): _answer(each, key(each) in (*unasked, *worse)) for each in left}
        answers = {name: answer for name, answer in asked.items() if answer}
        news = [
            (each, answers[key(each)])
            for each in left
            if key(each) in answers and answers[key(each)].raised and dict(each.specs) not in known
        ]
        if not news:
            listed = sorted([*left, *spent], key=lambda e: places.get(key(e), len(places)))
            _keep_places(compiled, listed)
            return Fixes(listed, worse, answers, unasked)
        for each, answer in news:
            worse.setdefault(key(each), []).append((dict(each.specs), answer))
        every = find([specs for tried in worse.values() for specs, _ in tried])


def _since(compiled: str) -> tuple[str, int, str]:
    """Returns the press since which findings keep their places: what is compared meanwhile fills in
    figures, and whoever presses a button has read its row.
    """
    return state.experiment("programs").id, state.acts("programs"), compiled


def _places(compiled: str) -> dict[Key, int]:
    """Returns the places of the findings that were drawn since the last press; {} before."""
    since, kept = state.aside("programs", _PLACES) or (None, ())
    return {name: at for at, name in enumerate(kept)} if since == _since(compiled) else {}


def _keep_places(compiled: str, listed: Sequence[StepFinding]) -> None:
    state.set_aside("programs", _PLACES, (_since(compiled), tuple(map(key, listed))))


def _unasked(left: Sequence[StepFinding]) -> tuple[Key, ...]:
    """Returns the findings whose fixes are compared without a press: the first, those that were the
    first before, and once it is compared, of a program that is cheap to partition, all.
    """
    fixable = [each for each in left if each.specs]
    if not fixable or not is_opened():
        return ()
    of = state.experiment("programs").program
    before, kept = state.aside("programs", _FIRST) or (None, ())
    now = tuple(dict.fromkeys((*(kept if before == of else ()), key(fixable[0]))))
    state.set_aside("programs", _FIRST, (of, now))
    first = _checked_before(dict(fixable[0].specs))
    is_cheap = first is not None and first.programs[0].seconds < _CHEAP_S
    return tuple(dict.fromkeys((*now, *map(key, fixable)))) if is_cheap else now


def _by_gain(listed: Sequence[StepFinding], opened: Sequence[StepFinding]) -> list[StepFinding]:
    """Returns findings in the order of their fixes before any of them was compared. A donation spares
    memory alone: it is behind a spec that saves over half as much. What was compared does not count:
    a program that is opened again has its rows in their places.
    """
    program = state.experiment("programs").exported
    front = [key(each) for each in takewhile(lambda each: each.kind in COST_TIME, opened)]
    saves = {key(each): saved_bytes(each, program) if program else 0 for each in opened}
    at = {key(each): number for number, each in enumerate(opened)}

    def place(each: StepFinding) -> tuple[int, float, int]:
        name, share = key(each), 0.5 if each.kind == "missing_donation" else 1.0
        if name in front:
            return front.index(name), 0.0, 0
        return len(front), -share * saves.get(name, 0), at.get(name, len(at))

    return sorted(listed, key=place)


def _checked_before(specs: Specs) -> WhatIf | None:
    """Returns what the compiler made of specs; None, and nothing is requested, where it has not."""
    before = state.experiment("programs")
    with suppress(LabError):
        if before.exported:
            return as_viewer(lab().what_if_known, before, constrain.changed(specs))
    return None


def _answer(each: StepFinding, is_checked: bool) -> WhatIf | None:
    if not (specs := dict(each.specs)):
        return None
    tried = next((of for name, of in _tried() if name == specs), None)
    return tried or (_checked if is_checked else _checked_before)(specs)


def _checked(specs: Specs) -> WhatIf | None:
    """Returns what the compiler makes of specs; None until it has answered, and where it refuses. Of
    a link that is followed, what it answered before.
    """
    if not is_opened():
        return _checked_before(specs)
    try:
        before, after = state.experiment("programs"), constrain.changed(specs)
        if as_viewer(lab().is_partitioned, before, after):
            return as_viewer(lab().what_if, before, after)
    except LabError:
        state.set_aside("programs", constrain.OPENED, None)
    return None


def is_opened() -> bool:
    """Returns True if the user opened the program here: of a link that is followed no fix is
    partitioned unasked.
    """
    return state.aside("programs", constrain.OPENED) == state.experiment("programs").id


@st.fragment(run_every=live.INTERVAL_S)
def follow(specs: Specs, words: str) -> None:
    """Draws that specs are being compared, and draws the screen again when they are."""
    st.caption(words)
    if as_viewer(lab().is_partitioned, state.experiment("programs"), constrain.changed(specs)):
        st.rerun()


def offer(fixes: Fixes, program: Program, is_first: bool = True) -> bool:
    """Draws the button of the card's fix, or how far the compiler is with it; False where there is
    none. `is_first`: no other button of the card is.
    """
    if waited := _waits():
        _wait(*waited)
        return True
    if (specs := fixes.offered) is None:
        return False
    assert fixes.lead
    if compares(fixes, fixes.lead, program):
        return True
    named = f"Use {label(specs)}" if fixes.known else COMPARE
    kind: Literal["primary", "secondary"] = (
        "secondary" if fixes.is_no_gain or not is_first else "primary"
    )
    named_by = ":".join(key(fixes.lead))  # a press acts on the finding that was read
    pressed = st.button(named, type=kind, icon=":material/build:", key=f"mend-card:{named_by}")
    if fixes.known is None and is_opened():
        follow(specs, "Comparing it with the program as it is…")
    elif fixes.known is None:
        st.caption("It is compared first, and not used if it is worse.")
    if pressed:
        use(specs)
    return True


def offer_alike(fixes: Fixes) -> None:
    """Draws the button that mends all findings of the card's kind at once."""
    if not (specs := fixes.alike) or not fixes.lead or fixes.is_no_gain:
        return
    number = sum(bool(each.specs) and each.kind == fixes.lead.kind for each in fixes.listed)
    many = "both" if number == 2 else f"all {number}"
    tried = f"{label(specs)}: used if they are no worse."
    if st.button(plain(f"Compare and use {many} fixes"), key="mend-alike", help=tried):
        use(specs)


def compared_first(fixes: Fixes) -> None:
    """Draws by what another spec of the card's finding is worse than the one that is offered."""
    if not fixes.lead or fixes.offered is None or fixes.known is None:
        return
    for specs, answer in fixes.worse.get(key(fixes.lead), ())[:1]:
        st.caption(f"Compared first: {words(specs)}, worse: {plain(answer.worse_by)}.")


def compares(fixes: Fixes, each: StepFinding, program: Program) -> bool:
    """Draws which of the specs of a finding is being compared, after others were worse; False where
    none is.
    """
    worse, specs = fixes.worse.get(key(each), ()), dict(each.specs)
    if not worse or not specs or key(each) in fixes.answers or not is_opened():
        return False
    of, number = 1 + len([*other_specs(worse[0][0], program)]), len(worse) + 1
    follow(specs, f"Comparing spec {number} of {of} for {plain(_named(specs))}…")
    return True


def undo(is_first: bool = False) -> None:
    """Draws the button that takes the last change back, and why a fix was not compared."""
    if before := state.before_change("programs"):
        change = made_of(before, state.experiment("programs"))
        st.button(
            "Undo",
            type="primary" if is_first else "secondary",
            icon=":material/undo:",
            key="fix:undo",
            on_click=_undo,
            help=f"Takes the last change back: {change}.",
        )
    of_id, why = state.aside("programs", _UNCHECKED) or ("", "")
    if of_id == state.experiment("programs").id:
        st.caption(f":orange[**Not checked**]: {plain(why)}.", width="stretch")


def _undo() -> None:
    state.undo("programs")
    state.set_aside("programs", constrain.OPENED, state.experiment("programs").id)  # by a press


def changed(before: Experiment) -> WhatIf | None:
    """Returns what all changes do, but what the last one does where that or they are worse; None where
    they are not partitioned. `before`: the program as it was opened.
    """
    last, every = (_beside(old) for old in (state.before_change("programs"), before))
    if last and (last.raised or every is None or every.raised):
        return last
    return every


def _beside(old: Experiment | None) -> WhatIf | None:
    """What the screen's program does beside an earlier one, where both are partitioned."""
    now = state.experiment("programs")
    with suppress(LabError):  # `what_if.draw` reports it
        if old is not None and old != now and as_viewer(lab().is_partitioned, old, now):
            return as_viewer(lab().what_if, old, now)
    return None


def told_changes(
    known: WhatIf | None, shown: Mapping[str, Collection[str]], opened: Experiment
) -> None:
    """Draws what rises though it is no worse with the fix that is offered; and the last of several
    changes, with what it did unless that is worse, which the card's figures are about.

    Args:
      known: the answer on the fix that is offered.
      shown: titles of figures that the card has, by the id of the experiment that they are beside.
      opened: the program as its author sharded it.
    """
    if known and known.costs:
        st.caption(f":orange[**This fix costs:**] {plain(known.costs)}.", width="stretch")
    before = state.before_change("programs")
    if before and not before.is_alike(opened) and (last := _beside(before)):
        of, moved = made_of(before, last.after), last.moved(shown.get(before.id, ()))
        did = f": {plain(moved)}" if moved and not last.raised else ""
        st.caption(f"**Last change**, {of}{did}.", width="stretch")


def made_of(before: Experiment, after: Experiment) -> str:
    """Returns how a change moved target and mesh, and the specs that it gave: of many kinds their number."""
    was, now = before.exported, after.exported
    given = (
        {name: each for name, each in now.specs if (name, each) not in was.specs}
        if was and now
        else {}
    )
    alike: dict[object, dict[str, Spec]] = {}
    for name, spec in given.items():
        axes = tuple(spec)
        while axes and not axes[-1]:
            axes = axes[:-1]
        alike.setdefault((axes, name.startswith(VALUE)), {})[name] = spec
    if not 0 < len(alike) <= _KINDS_NAMED:
        return plain(what_if.changed_words(before, after))
    parts = (what_if.place_change(before, after), *map(_label, alike.values()))
    return plain(", ".join(filter(None, parts)))


def as_it_is(experiment: Experiment) -> WhatIf | None:
    """Returns what the compiler makes of the screen's program as it is; None until it has answered,
    and where it refuses.
    """
    if not is_estimable(experiment):
        return None
    try:
        return as_viewer(lab().as_it_is, experiment)
    except LabError:  # a compile reports it; it is not requested anew
        state.set_aside("programs", _REFUSED, experiment.id)
        return None


def estimated(experiment: Experiment) -> WhatIf | None:
    """Returns the same; of a link that is followed what the compiler answered before."""
    if is_opened():
        return as_it_is(experiment)
    with suppress(LabError):
        return as_viewer(lab().what_if_known, experiment, experiment)
    return None


def is_estimable(experiment: Experiment) -> bool:
    """Returns True unless the compiler refused to estimate the program as it is."""
    return state.aside("programs", _REFUSED) != experiment.id


@st.fragment(run_every=live.INTERVAL_S)
def follow_estimate(experiment: Experiment) -> None:
    """Draws the screen again once the program as it is has its estimate, or is refused one."""
    if as_it_is(experiment) or not is_estimable(experiment):
        st.rerun()


def waits() -> bool:
    """Returns True if pressed specs are being partitioned."""
    return _waits() is not None


def _waits() -> tuple[Specs, float] | None:
    specs, of, since = state.aside("programs", _WAITS) or ({}, None, 0.0)
    return (specs, since) if of == state.experiment("programs") else None


@st.fragment(run_every=live.INTERVAL_S)
def _wait(specs: Specs, since: float) -> None:
    _settle(specs)
    took_s = time.monotonic() - since
    with st.container(horizontal=True, vertical_alignment="center", key="fix-waits"):
        words = f"Partitioning {label(specs)}: {took_s:.0f} s"
        st.progress(min(took_s / lab().PARTITION_S, 1.0), text=words)
        cancel = partial(state.set_aside, "programs", _WAITS, None)
        if st.button("Cancel", icon=":material/stop_circle:", key="fix:cancel", on_click=cancel):
            st.rerun()
        if st.button("Use it unchecked", key="fix:unchecked", help="Without waiting."):
            _give_unchecked(specs, "it was used before it was partitioned")


def _settle(specs: Specs) -> None:
    """Gives the program specs once they are partitioned and not worse, else keeps by what they are;
    draws the screen again then.
    """
    before, after = state.experiment("programs"), constrain.changed(specs)
    try:
        if not as_viewer(lab().is_partitioned, before, after):
            return
        answer = as_viewer(lab().what_if, before, after)
    except LabError as error:  # what is not partitioned is not known to be worse
        _give_unchecked(specs, str(error))
        return
    state.set_aside("programs", _WAITS, None)
    if not answer.raised:
        constrain.give(specs)
    else:
        others = [each for each in _tried() if each[0] != specs]
        state.set_aside("programs", _WORSE, (*others, (specs, answer)))
        state.set_aside("programs", constrain.OPENED, before.id)  # by a press
        state.note_act("programs")
        st.rerun()


def _give_unchecked(specs: Specs, why: str) -> None:
    state.set_aside("programs", _WAITS, None)
    state.set_aside("programs", _UNCHECKED, (constrain.changed(specs).id, why))
    constrain.give(specs)


def refused(fixes: Fixes) -> None:
    """Draws by what the fix that was pressed last is worse, and a button that gives it all the same;
    nothing where other specs of its arrays are offered.
    """
    offered = {name for each in fixes.listed for name, _ in each.specs}
    if (tried := _tried()) and not offered & {*tried[-1][0]}:
        specs, answer = tried[-1]
        with st.container(horizontal=True, vertical_alignment="center", key="refused-fix"):
            words = f"Not used: {label(specs)}. {plain(capital(answer.verdict))}."
            st.info(words, width="stretch")
            if st.button("Use it all the same", key="fix:anyway"):
                constrain.give(specs)


def compared(fixes: Fixes) -> None:
    """Draws the specs of the card's finding that are worse, with their figures, where nothing else is
    left of it.
    """
    assert fixes.lead
    tried = fixes.worse[key(fixes.lead)]
    number = f"{len(tried)} specs compared: each is" if len(tried) > 1 else "1 spec compared: it is"
    st.markdown(f"**{number} worse than {plain(_named(tried[0][0]))} as it is.**", help=WORSE)
    draw_table(_COMPARED.table(tried, "screen"))


def _tried() -> list[Tried]:
    """Returns specs that were pressed and not used, the last one last."""
    now = state.experiment("programs")
    return [each for each in state.aside("programs", _WORSE) or () if each[1].before == now]


def use(specs: Specs) -> None:
    """Has specs partitioned, which the program gets once they are known to be no worse."""
    state.set_aside("programs", _WAITS, (specs, state.experiment("programs"), time.monotonic()))
    _settle(specs)
    st.rerun()


def label(specs: Specs) -> str:
    """Returns specs with the arguments that get them."""
    return plain(_label(specs))


def _label(specs: Specs) -> str:
    at = "at" if next(iter(specs)).startswith(VALUE) else "for"
    return f"{spec_code(next(iter(specs.values())))} {at} {_named(specs)}"


def _named(specs: Specs) -> str:
    first, *others = (name.removeprefix(VALUE) for name in specs)
    return first + (
        f" and {others[0] if len(others) == 1 else f'{len(others)} more'}" if others else ""
    )


def words(specs: Specs) -> str:
    """Returns the spec of the first argument."""
    return plain(spec_code(next(iter(specs.values()))))


def _figure(title: str, of: WhatIf) -> str:
    return next((each.value for each in of.figures if each.title == title), "–")


_COMPARED: Sheet[Tried] = Sheet(
    (
        text("Spec", lambda each: spec_code(next(iter(each[0].values())))),
        text(PEAK, lambda each: _figure(PEAK, each[1])),
        text(SENT, lambda each: _figure(SENT, each[1])),
        text("Rises", lambda each: ", ".join(map(small, each[1].raised))),
    )
)
