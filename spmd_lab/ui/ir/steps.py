"""How each step of a program is sharded, beside the line that it comes from."""

import streamlit as st
from pydantic import ValidationError

from spmd_core.base import bytes_text
from spmd_core.program import NAME
from spmd_core.results import Shardings, Step
from spmd_core.words import texts as words
from spmd_lab.ui.lab import kept, lab
from spmd_lab.ui.markdown import as_sentence, plain
from spmd_lab.ui.tables import sheet

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
    rows = table([step for step in shardings.steps if every or words.is_listed(step)])
    st.dataframe(
        sheet(rows),
        hide_index=True,
        key=f"{key}:steps:{strategy}:{every}",
        height="content" if len(rows) <= _ROWS else 560,
        column_config={
            name: st.column_config.TextColumn(width=width) for name, width in _WIDTHS.items()
        },
    )
    if shardings.left_out:
        st.caption(plain(words.left_steps(shardings.left_out)))


def table(steps: list[Step]) -> list[dict[str, str]]:
    """A row per step, in the program's order, each with its line."""
    loops, known = any(step.inside for step in steps), any(step.origins for step in steps)
    several = len({step.source.rpartition(":")[0] for step in steps if step.source}) > 1
    return [
        {
            "Value": words.value_words(step),
            "Shape": words.shape_words(step),
            "Sharded": words.sharded_words(step),
            "Per device": bytes_text(step.bytes),
            "Before it": words.before_words(step),
            "Line": step.source if several else step.source.rpartition(":")[2] or "–",
            "Source": step.code or "operand",
        }
        | ({"Set by": words.set_by_words(step)} if known else {})
        | ({"Inside": step.inside or "–"} if loops else {})
        for step in steps
    ]
