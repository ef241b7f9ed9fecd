"""What a program's rings send more than they need: no spec changes it, its author's code does."""

from collections.abc import Iterable

import streamlit as st

from spmd_core.advice import RING_KINDS, changed_code, compiled_findings
from spmd_core.results import StepFinding, StrategyResult
from spmd_core.runs import Partitioned
from spmd_core.workloads import Program
from spmd_lab.ui.markdown import as_sentence, coded


def apart(listed: Iterable[StepFinding]) -> list[StepFinding]:
    """Returns findings without these notes, which are not wrong."""
    return [each for each in listed if each.kind not in RING_KINDS]


def draw(program: Program, of: StrategyResult | Partitioned | None) -> None:
    """Draws each note of a compiled program, with the lines that change it."""
    if of is None:
        return
    for each in compiled_findings(of, program):
        if each.kind not in RING_KINDS:
            continue
        st.markdown(f":material/lightbulb: {coded(as_sentence(each.sentence))}")
        if lines := changed_code(each, of):
            st.code(lines, language="python", wrap_lines=True)
