"""From an op to the line of the program that made it, and from a line of the program to its ops."""

from collections import Counter
from collections.abc import Sequence

import streamlit as st

from spmd_core.base import numbered
from spmd_core.program import Op, ProgramText, made_from, program_lines, short, spans_of
from spmd_lab.ui import state
from spmd_lab.ui.ir import stored
from spmd_lab.ui.ir.html import Line, listing
from spmd_lab.ui.ir.words import TEXTS, collective_counts_words, ops_word
from spmd_lab.ui.markdown import plain

_BY_OP, _BY_LINE = "From an op to its line", "From a line to its ops"
_OPS_OFFERED = 300
_OPS_SHOWN = 200
_OP_LINES = 12  # shown of one op
_AROUND = 5  # lines shown around those that are marked
_WANTED = 200  # characters of what is searched for
_LABEL = 90  # characters of a line in a list to choose from


def draw(run: str, strategy: str, kind: str, key: str, *, by_line: bool) -> None:
    """Choose an op of a text or a line of the program, and see what belongs to it; `by_line`: a
    line is offered first.
    """
    text = stored.text(run, strategy, kind)
    if text is None:
        st.info(f"There is no {TEXTS[kind]} of this strategy.")
        return
    source = stored.source(run, strategy, text)
    if source is None:
        st.info(
            "This text does not name lines of the program: no op in it says where it comes from."
        )
        return
    file, code = source
    located = _located(text, file, code)
    way = st.segmented_control(
        "Way",
        (_BY_OP, _BY_LINE),
        key=state.seed(_way_key(key, by_line), _BY_LINE if by_line else _BY_OP),
        required=True,
        label_visibility="collapsed",
    )
    here = _here(run, strategy, text.kind, key)
    if way == _BY_LINE:
        _from_line(text, located, file, code, here)
    else:
        _from_op(text, located, file, code, here)


def lead(run: str, strategy: str, kind: str, key: str, number: int) -> None:
    """Choose a line of the program, where it made ops; for callbacks, which run before it is drawn."""
    text = stored.text(run, strategy, kind)
    source = stored.source(run, strategy, text) if text else None
    if text is None or source is None:
        return
    st.session_state[_way_key(key, False)] = _BY_LINE
    if any(number in program_lines(op, source[0]) for op in _located(text, *source)):
        st.session_state[_line_key(_here(run, strategy, kind, key))] = number


def _located(text: ProgramText, file: str, code: Sequence[str]) -> list[Op]:
    return [op for op in text.ops if any(number <= len(code) for number in program_lines(op, file))]


def _way_key(key: str, by_line: bool) -> str:
    return f"{key}:way:{by_line}"


def _here(run: str, strategy: str, kind: str, key: str) -> str:
    return f"{key}:{run}:{strategy}:{kind}"


def _line_key(here: str) -> str:
    return f"{here}:line"


def _from_op(
    text: ProgramText, located: Sequence[Op], file: str, code: Sequence[str], here: str
) -> None:
    ordered = sorted(located, key=lambda op: not op.communicates)
    wanted = ""
    if len(ordered) > _OPS_OFFERED:
        wanted = st.text_input(
            "Only ops that hold", key=f"{here}:narrow", placeholder="e.g. all-gather"
        ).strip()[:_WANTED]
        ordered = (
            [op for op in ordered if spans_of(text.quiet[op.line], wanted)] if wanted else ordered
        )
    if not ordered:
        st.caption(f"No op whose line is known holds “{plain(wanted)}”.")
        return
    offered = ordered[:_OPS_OFFERED]
    words = [
        f"{short(op.opcode)}   {op.name or ''}   line {program_lines(op, file)[0]}"
        for op in offered
    ]
    at = st.selectbox(
        "Op",
        range(len(offered)),
        format_func=words.__getitem__,
        key=f"{here}:op:{wanted}:{len(offered)}",
    )
    if len(ordered) > _OPS_OFFERED:
        st.caption(f"The first {_OPS_OFFERED} of {len(ordered):,}, communication first.")
    op = offered[at or 0]
    numbers = [number for number in program_lines(op, file) if number <= len(code)]
    called = (
        f", which line {' and line '.join(map(str, numbers[1:]))} called" if numbers[1:] else ""
    )
    st.markdown(
        f"**{plain(f'{op.opcode} {op.name} was made from line {numbers[0]} of {file}{called}.')}**"
    )
    st.html(listing(_excerpt(code, numbers[:1], numbers[1:]), f"Lines of {file}"))
    st.caption(plain(f"The op, in {_where(text, op)}:"))
    st.html(listing(_op_text(text, op), "The op"))


def _op_text(text: ProgramText, op: Op) -> list[Line]:
    """The lines of an op until its brackets close, or the first of them; one in HLO."""
    rows, depth = list[Line](), 0
    for number, line in enumerate(text.quiet[op.line : op.line + _OP_LINES], op.line + 1):
        rows.append(Line(number, line))
        depth += sum(line.count(bracket) for bracket in "([{") - sum(
            line.count(bracket) for bracket in ")]}"
        )
        if text.kind != "jaxpr" or depth <= 0:
            return rows
    return [*rows, Line(None, "⋯", tint="aside")]


def _from_line(
    text: ProgramText, located: Sequence[Op], file: str, code: Sequence[str], here: str
) -> None:
    number, word = _line_field(text, located, file, code, here), ops_word(text)
    ops = sorted(made_from(located, file, number), key=lambda op: not op.communicates)
    collectives = collective_counts_words(Counter(op.opcode for op in ops if op.communicates))
    ending = f", with {collectives}." if collectives else ", and no communication."
    made_of = "" if text.kind == "jaxpr" else f" of the {TEXTS[text.kind]}"
    st.markdown(f"**{plain(f'Line {number} made {numbered(len(ops), word)}{made_of}{ending}')}**")
    st.html(listing(_excerpt(code, [number], []), f"Lines of {file}"))
    st.html(listing(_op_lines(text, ops[:_OPS_SHOWN], file, number), "Ops"))
    if len(ops) > _OPS_SHOWN:
        st.caption(f"The first {_OPS_SHOWN} of {len(ops):,} ops.")


def _line_field(
    text: ProgramText, located: Sequence[Op], file: str, code: Sequence[str], here: str
) -> int:
    """A line of the program that made ops: at first the one with the most ops of its own, and one
    that communicates before others.
    """
    made = Counter(number for op in located for number in program_lines(op, file))
    direct = Counter(program_lines(op, file)[0] for op in located)
    communicates = {
        number for op in located if op.communicates for number in program_lines(op, file)
    }
    numbers = sorted(number for number in made if number <= len(code))
    best = max(
        numbers,
        key=lambda number: (number in communicates and direct[number] > 0, direct[number]),
    )
    word = ops_word(text)
    return st.selectbox(
        "Line of the program",
        numbers,
        key=state.seed(_line_key(here), best),
        format_func=lambda number: (
            f"{number}:   {str(code[number - 1]).strip()[:_LABEL]}   ({numbered(made[number], word)})"
        ),
    )


def _op_lines(text: ProgramText, ops: Sequence[Op], file: str, number: int) -> list[Line]:
    """The lines of ops that line `number` of the program made, below the name of their section."""
    rows, section = list[Line](), ""
    for op in ops:
        if (where := _where(text, op)) != section:
            rows.append(Line(None, f"in {where}", tint="aside"))
        section = where
        through = program_lines(op, file)[0]
        remark = f"   ⟵ line {through}" if through != number else ""
        tint = "strong" if op.communicates else ""
        rows.append(Line(op.line + 1, text.quiet[op.line] + remark, tint=tint))
    return rows


def _where(text: ProgramText, op: Op) -> str:
    section = text.owners[op.line]
    return "the text" if section is None else text.sections[section].name


def _excerpt(code: Sequence[str], strong: Sequence[int], light: Sequence[int]) -> list[Line]:
    """Lines around those that are marked, with gaps where lines are left out. Numbers count from 1."""
    near = sorted(
        {
            at
            for number in (*strong, *light)
            for at in range(max(1, number - _AROUND), min(len(code), number + _AROUND) + 1)
        }
    )
    rows, last = list[Line](), 0
    for number in near:
        if last and number != last + 1:
            rows.append(Line(None, "⋯", tint="aside"))
        tint = "light" if number in light else ""
        rows.append(Line(number, code[number - 1], tint="strong" if number in strong else tint))
        last = number
    return rows
