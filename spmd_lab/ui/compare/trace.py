"""What happened on the devices: the traced step of a strategy, device by device."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from spmd_core.base import RequestError, numbered, seconds_text
from spmd_core.experiment import Experiment, Timing
from spmd_core.facts import Trace
from spmd_core.pictures import text
from spmd_core.results import Environment, Result, apart
from spmd_core.terms import spoken
from spmd_core.words import traces as words
from spmd_lab.ui import choices, live, shell
from spmd_lab.ui.charts import colors
from spmd_lab.ui.compare import selected
from spmd_lab.ui.compare.view import View
from spmd_lab.ui.lab import batch, find, lab
from spmd_lab.ui.markdown import as_sentence, plain, unbroken
from spmd_lab.ui.shell import done
from spmd_lab.ui.tables import NONE, sheet
from spmd_lab.ui.timeline import view as timeline_view

TAB = "Trace"
_COLUMNS = 16  # devices up to which each has a column of its own
_BATCH = "search traces"  # listed with the runs of searches
_FEWEST = Timing(samples=1, min_seconds=0.0, processes=1)
Cells = dict[str, str | int]  # a row of a table by column
_ROWS = 12  # of a table that is as high as its rows


def draw(view: View) -> None:
    """The answer in a sentence, the timeline, and the tables; a way to get them where there are
    none.
    """
    run, traces = _of(view.result)
    if not traces:
        _ask(view)
        return
    trace = traces[name := _strategy(traces)]
    who = colors.sentence(spoken(name, view.result), view.result.experiment)
    st.markdown(f"{who}, a call with the profiler on")
    st.markdown(f"**{plain(as_sentence(trace.sentence))}**")
    if trace.notes:
        st.caption(plain(" ".join(as_sentence(note) for note in trace.notes)))
    whose, row = selected.of(view.result)
    picked = [each.name or "" for each in row.members] if row and whose == name else []
    if _timeline(run, name, text.NAME, picked, words.PREDICTED_ABOVE):
        st.caption(words.TRACED_BELOW)
    if _timeline(run, name, text.TRACED, picked) and trace.step_s is not None:
        st.caption(words.ABOUT)
    if trace.devices:
        _tables(trace, picked)


def _strategy(traces: Mapping[str, Trace]) -> str:
    asked, names = choices.now(choices.STRATEGY), list(traces)
    first = next((name for name in names if traces[name].collectives_s), names[0])
    return asked if asked in names else first


def _ask(view: View) -> None:
    """A button that traces the programs of a run; while they are traced, the progress."""
    asked = alone(view.result.experiment)
    if run := live.at_work_on(asked):
        live.watch(run)
        return
    for last in lab().history(experiment=asked, searched=True, limit=1):
        if status := find(last.run):
            live.outcome(status, words.LABEL)
    count = numbered(len(view.result.strategies), "program")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        pressed = st.button(
            words.LABEL, key="trace:ask", icon=":material/timeline:", help=words.WITHOUT_TIMES
        )
        st.caption(plain(f"{words.SHOWS_WHEN} Compiles {count} again."), width="stretch")
    if pressed and done(lambda: batch(_BATCH).submit(asked)):
        st.rerun()


def is_traced(view: View) -> bool:
    """Returns True if there is a trace to show."""
    return bool(_of(view.result)[1])


def offered(view: View) -> bool:
    """Whether there is a trace, or a button for one."""
    experiment = view.result.experiment
    return bool(traced(view.result)) or (
        experiment.what.is_traceable and not experiment.place.is_absent
    )


def _timeline(run: str, strategy: str, name: str, picked: Sequence[str], above: str = "") -> bool:
    """Draw a stored timeline, the first of `picked` marked, where there is one that this version
    reads; whether there is.
    """
    try:
        timeline = timeline_view.of_run(run, strategy, name)
    except RequestError as error:
        st.caption(plain(as_sentence(str(error))))
        return False
    if timeline is None:
        return False
    if above:
        st.caption(above)
    at = timeline_view.AT if name == text.TRACED else f"{timeline_view.AT}_{name}"
    first = next(iter(picked), "")
    timeline_view.show(timeline, f"{run}:{strategy}:{name}", f"{run}-{strategy}-{name}", at, first)
    return True


def _tables(trace: Trace, picked: Sequence[str]) -> None:
    st.markdown("**By device**")
    _table(device_rows(trace), "trace:devices")
    st.markdown("**By operation**")
    _table(operation_rows(trace, picked), "trace:operations")
    if trace.other_operations:
        st.caption(plain(words.others_words(trace.other_operations)))
    title = "Instruction and source line of each operation"
    if by_device := 1 < len(trace.devices) <= _COLUMNS:
        title = "Instruction, source line and time on each device of each operation"
    with st.expander(title, key="trace:instructions", on_change="rerun") as fold:
        if fold.open:
            st.dataframe(sheet(instruction_rows(trace, by_device)), hide_index=True)


def _table(rows: Sequence[Cells], key: str) -> None:
    if len(rows) <= _ROWS:
        shell.draw_table(pd.DataFrame(rows).astype(str))
    else:
        st.dataframe(sheet(rows), hide_index=True, key=key, height=460)


def device_rows(trace: Trace) -> list[Cells]:
    """Where each device's time went."""
    return [
        {
            "Device": str(each.device),
            "Compute": unbroken(seconds_text(each.compute_s)),
            "Collectives": unbroken(seconds_text(each.collectives_s)),
            "Exposed": unbroken(seconds_text(each.exposed_s)),
            "Waiting for devices": unbroken(seconds_text(each.waits_s)),
            "Copies": unbroken(seconds_text(each.copies_s)),
            "Idle": unbroken(seconds_text(each.idle_s)),
        }
        for each in trace.devices
    ]


def operation_rows(trace: Trace, picked: Sequence[str] = ()) -> list[Cells]:
    """How often each operation and collective ran, how long, and on which device longest; those
    `picked` are marked.
    """
    several = len(trace.devices) > 1
    return [
        {
            "Operation": (selected.MARK if each.name in picked else "")
            + words.operation_words(each),
            "Kind": words.kind_words(each.kind),
            "Times": each.count,
            "Mean": unbroken(seconds_text(each.mean_s)),
            **(
                {"Slowest": unbroken(seconds_text(each.most_s)), "On device": each.slowest}
                if several
                else {}
            ),
        }
        for each in trace.operations
    ]


def instruction_rows(trace: Trace, by_device: bool) -> list[Cells]:
    """What each operation is in the program, and its seconds on each device."""
    return [
        {
            "Operation": words.operation_words(each),
            "Source": each.source or NONE,
            "Instruction": each.name,
            **{
                f"Device {device.device}": seconds_text(seconds)
                for device, seconds in zip(trace.devices, each.device_s, strict=False)
                if by_device
            },
        }
        for each in trace.operations
    ]


def traced(result: Result) -> dict[str, Trace]:
    """The traces of a result by strategy, in its order."""
    return {name: outcome.trace for name, outcome in result.ordered if outcome.trace is not None}


def alone(experiment: Experiment) -> Experiment:
    """Returns the experiment that traces the programs of another, and times them no longer than
    that takes: a result keeps its times.
    """
    options = dict(experiment.options) | {"trace": True}
    return experiment.vary(options=options, timing=_FEWEST)


def _of(result: Result) -> tuple[str, dict[str, Trace]]:
    """Returns the run that has the timelines of a result's traces, and the traces: of the result,
    else of the last run that traced its programs.
    """
    if traces := traced(result):
        return result.run, traces
    run = lab().latest(alone(result.experiment))
    facts = lab().facts(run) if run else None
    if run is None or facts is None or not _is_alike(facts.environment, result.environment):
        return result.run, {}
    known = {
        name: facts.strategies[name].trace for name in result.order if name in facts.strategies
    }
    outcomes = {
        name: each.model_copy(update={"trace": known.get(name)})
        for name, each in result.strategies.items()
    }
    merged = result.model_copy(update={"strategies": outcomes})
    return run, {name: trace for name in result.order if (trace := words.in_words(merged, name))}


def _is_alike(one: Environment, other: Environment) -> bool:
    """Returns True if two runs had one machine's devices and one compiler."""
    return not apart(one, other, (0.0, 0.0), ("", ""))
