"""The sharding type errors of the owner's declared steps under Explicit axes."""

import streamlit as st

from spmd_core.facts import ExplicitError, ExplicitReport
from spmd_core.own import cost_words, explicit, explicit_headline
from spmd_core.workloads import files
from spmd_lab.ui import shell, state
from spmd_lab.ui.lab import as_viewer, lab
from spmd_lab.ui.markdown import code, plain

_KEPT = "explicit"  # the reports of a visitor, by path


def draw(screen: str) -> None:
    """A button for each of the owner's files that lists the errors of its step, and what it lists."""
    for number, path in enumerate(files.paths()):
        kept: dict[str, ExplicitReport] = state.aside(screen, _KEPT) or {}
        label = f"List the errors of Explicit axes in {plain(path.name)}"
        if st.button(label, icon=":material/rule:", key=f"explicit:{number}"):
            with st.spinner("Tracing the step under Explicit axes…"):
                sentence = shell.attempt(_list, screen, str(path), kept)
            if sentence:
                shell.refusal(sentence)
                continue
        if (report := kept.get(str(path))) is not None:
            _report(report)


def _list(screen: str, path: str, kept: dict[str, ExplicitReport]) -> None:
    as_viewer(lab().check_may_run_declared)
    state.set_aside(screen, _KEPT, kept)
    kept[path] = explicit(path)


def _report(report: ExplicitReport) -> None:
    st.subheader(plain(explicit_headline(report)), anchor=False)
    for error in report.errors:
        with st.expander(f"{plain(error.source)}: {code(error.line)}"):
            _error(error)
    for note in report.notes:
        st.caption(plain(note))
    if report.patch:
        st.code(report.patch, language="diff")


def _error(error: ExplicitError) -> None:
    st.markdown(code(", ".join(error.operands)))
    st.caption(plain(error.message))
    if error.refused:
        st.warning(plain(error.refused))
    for at, fix in enumerate(error.fixes):
        st.markdown(
            f"**{plain(fix.how)}**{' in the patch' if at == 0 else ''}: {plain(cost_words(fix))}"
        )
        st.code(fix.lines, language="python")
