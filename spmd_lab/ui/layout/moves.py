"""What has to move, on Layout: a table of steps, and from one spec to another with both pictures."""

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from spmd_core.base import RequestError, bytes_text
from spmd_core.experiment import Experiment, Layout, layout, read_spec
from spmd_core.fields import padded
from spmd_core.pictures import Move, missing_bytes, reshard, time_of
from spmd_core.roofline import Calibration, TimeModel, calibration, measured, time_model
from spmd_core.terms import layout_headline
from spmd_core.workloads import DTYPE_BYTES
from spmd_lab.ui import choices
from spmd_lab.ui.charts import layout_words as words
from spmd_lab.ui.lab import lab
from spmd_lab.ui.layout import picture
from spmd_lab.ui.markdown import coded, unbroken
from spmd_lab.ui.shell import draw_table, refusal

NONE = "–"


def times_here(experiment: Experiment) -> TimeModel:
    """What is known of the experiment's target, by what is stored of it."""
    known = calibration(experiment, lab().latest, lab().result)
    placed = Calibration(measured(known)) if known else None
    return time_model(experiment, placed, lab().hardware().cores)


def table(moves: Sequence[Move], time_of: words.TimeOf, why: Callable[[Move], str]) -> None:
    """The steps in order: what, over which axes, bytes per device, seconds, why."""
    named = any(move.array for move in moves)
    rows = {"Array": [move.array for move in moves]} if named else {}
    steps = rows | {
        "Step": [move.kind for move in moves],
        "Over": [", ".join(move.axes) for move in moves],
        "Operand or result, per device": [
            bytes_text(move.nbytes) if move.sends else NONE for move in moves
        ],
        "Time": [
            unbroken(words.takes_text(time_of(move))) if move.sends else NONE for move in moves
        ],
        "Why": [why(move) for move in moves],
    }
    draw_table(steps)


def reshard_view(experiment: Experiment, placed: Layout) -> None:
    """The array's spec to another one: what moves, what it costs, and the other picture."""
    st.subheader("Reshard it", anchor=False)
    text = st.text_input(
        "To the PartitionSpec",
        key=choices.TO,
        bind="query-params",
        max_chars=400,
        placeholder="P(None, 'x')",
        help="A spec, or a line of code with one. It is read, never evaluated.",
    )
    if not text:
        st.caption("Write a spec, such as P(None, 'x'), to see what moves and what it costs.")
        return
    try:
        after = padded(read_spec(text), len(placed.shape))
        item = DTYPE_BYTES[experiment.dtype]
        new = layout(placed.mesh, placed.shape, after)
        moves = reshard(placed.mesh, placed.shape, placed.spec, after, item)
        missing = missing_bytes(placed.mesh, placed.shape, placed.spec, after, item)
    except RequestError as error:
        refusal(str(error))
        return
    of = partial(time_of, mesh=placed.mesh, times=times_here(experiment))
    sentence = words.reshard_headline(placed.spec, after, moves, missing, of)
    st.markdown(f"**{coded(sentence)}**")
    if moves:
        table(moves, of, words.step_why)
    sent = [move for move in moves if move.sends]
    kind = experiment.memory_kind("array")
    if kind != "device":
        held = bytes_text(placed.shard_bytes(experiment.dtype))
        st.markdown(coded(words.from_host(kind, held)))
    st.caption(coded(f"{words.time_source(sent, of)} {words.NEEDED}".strip()))
    st.markdown(coded(f"Then {layout_headline(new, experiment.dtype)}"))
    picture.draw(new, experiment.dtype, "picture:to")
