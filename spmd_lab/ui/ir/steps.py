"""How each step of a program is sharded, beside the line that it comes from."""

import re
from collections.abc import Mapping, Sequence
from itertools import cycle

import streamlit as st
from pydantic import ValidationError

from spmd_core.base import bytes_text
from spmd_core.facts import Shardings, Step
from spmd_core.program import NAME, assigned, program_lines
from spmd_core.results import safe_cell
from spmd_core.words import texts as words
from spmd_lab.ui.ir import stored
from spmd_lab.ui.ir.html import Line, listing
from spmd_lab.ui.lab import kept, lab
from spmd_lab.ui.markdown import as_sentence, coded, plain
from spmd_lab.ui.tables import sheet

_COLORS = ("blue", "orange", "green", "violet", "red", "yellow", "gray")  # of origins, in turn
_TYPE = re.compile(r"\s*\w+:(\S+\[\S*\]) = ")
_ROWS = 14  # of a table that is as high as its rows
# Pixels: what is long gets what is left of a usual screen
_WIDTHS = {
    "Value": 120,
    "Shape": 140,
    "Sharded": 130,
    "Per device": 80,
    "Set by": 240,
    "Before it": 240,
    "Line": 45,
    "Source": 420,
    "Inside": 70,
}


@kept(8)
def of_run(run: str, strategy: str) -> Shardings | None:
    """What a run left of a strategy's steps; None where they were not read."""
    text = lab().text(run, strategy, NAME)
    if text is None:
        return None
    try:
        return words.read_shardings(text)
    except ValidationError:
        return Shardings(reason=words.OTHER_VERSION)


def draw(run: str, strategy: str, key: str) -> None:
    """The answer in a sentence, and a row per value: those that a variable names, or all."""
    shardings = of_run(run, strategy)
    if shardings is None:
        st.info(words.NEVER_READ)
        return
    st.markdown(f"**{plain(as_sentence(words.steps_headline(shardings)))}**")
    if shardings.reason:
        return
    st.caption(words.STEPS_ABOUT)
    every = st.toggle(words.EVERY, key=f"{key}:every:{strategy}", help=words.EVERY_HELP)
    steps = [step for step in shardings.steps if every or words.is_listed(step)]
    chips = {safe_cell(text): of for step in steps for text, of in words.chips(step)}
    colors = dict(zip(dict.fromkeys(chips.values()), cycle(_COLORS)))
    if chips:
        st.caption(words.PICK)
    picked = st.dataframe(
        sheet(table(steps, is_typed=is_typed(run, strategy))),
        hide_index=True,
        key=f"{key}:steps:{strategy}:{every}",
        height="content" if len(steps) <= _ROWS else 560,
        column_order=list(_WIDTHS),
        column_config={
            name: st.column_config.TextColumn(width=width) for name, width in _WIDTHS.items()
        }
        | {
            "Set by": st.column_config.MultiselectColumn(
                width=_WIDTHS["Set by"],
                options=[*chips],
                color=[colors[of] for of in chips.values()] or None,
            )
        },
        on_select="rerun" if chips else "ignore",
        selection_mode="single-row",
    )
    if shardings.left_out:
        st.caption(plain(words.left_steps(shardings.left_out)))
    for at in getattr(picked, "selection", {"rows": []})["rows"][:1]:
        _path(run, strategy, steps[at], shardings.steps)


def _path(run: str, strategy: str, step: Step, steps: Sequence[Step]) -> None:
    """Who put each axis of a value there, and the lines of the program on which they came."""
    name = words.value_words(step)
    st.markdown(f"**{plain(name)} {plain(words.sharded_words(step))}**: {coded(words.set_by_words(step))}")  # fmt: skip
    lines = {each.source: each.code for each in steps if each.source}
    if (text := stored.text(run, strategy, "program")) is not None:
        file = stored.own_file(run, strategy)
        if any(source.startswith(f"{file}:") for source in lines):
            lines |= {f"{file}:{at}": line for at, line in enumerate(text.lines, 1)}
    rows, last = list[Line](), ""
    for at, code, did in words.path_lines(step, lines):
        file, _, number = at.rpartition(":")
        rows += [Line(None, file, tint="aside")] if file != last else []
        tint = ("strong" if "set here" in did or at == step.source else "light") if did else ""
        rows.append(Line(int(number), f"{code}   ⟵ {did}" if did else code, tint=tint))
        last = file
    st.html(listing(rows, f"The path to {name}"))


def is_typed(run: str, strategy: str) -> bool:
    """Returns True if a strategy's program has Explicit axes, whose types name them."""
    rows = lab().status(run).experiment.rows
    return any(row.key == strategy and row.strategy == "explicit" for row in rows)


def types(run: str, strategy: str) -> str:
    """Returns the types of the values that the program names, as JAX traced them."""
    jaxpr, program = (stored.text(run, strategy, kind) for kind in ("jaxpr", "program"))
    if jaxpr is None or program is None:
        return ""
    names, file = assigned(program.lines), stored.own_file(run, strategy)
    typed = {
        names[number]: typing[1]
        for op in jaxpr.ops
        for number in program_lines(op, file)[:1]
        if number in names and (typing := _TYPE.match(jaxpr.lines[op.line]))
    }
    return ", ".join(f"`{name}: {of}`" for name, of in typed.items())


def table(steps: list[Step], *, is_typed: bool = False) -> Sequence[Mapping[str, object]]:
    """A row per step, in the program's order, each with its line."""
    loops, known = any(step.inside for step in steps), any(step.origins for step in steps)
    several = len({step.source.rpartition(":")[0] for step in steps if step.source}) > 1
    return [
        {
            "Value": words.value_words(step),
            "Shape": words.shape_words(step, is_typed=is_typed),
            "Sharded": words.sharded_words(step),
            "Per device": bytes_text(step.bytes),
            "Before it": words.before_words(step),
            "Line": step.source if several else step.source.rpartition(":")[2] or "–",
            "Source": step.code or "operand",
        }
        | ({"Set by": [safe_cell(text) for text, _ in words.chips(step)]} if known else {})
        | ({"Inside": step.inside or "–"} if loops else {})
        for step in steps
    ]
