"""How a program comes in: dropped as a file, or chosen among those that are held."""

from collections import Counter
from functools import lru_cache
from pathlib import Path

import streamlit as st

from spmd_core.base import LabError, bytes_text, count_text, mesh_text, numbered, refuse
from spmd_core.experiment import Experiment, as_exported
from spmd_core.terms import ago
from spmd_core.workloads import Described, Listed, Program, files, programs
from spmd_lab.ui import shell, state
from spmd_lab.ui.lab import as_viewer, lab, prepare_parser
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.programs import constrain

SCREEN = "programs"
_FILE = "file."  # aside, before a program: the name of the file that it was dropped as
_CHANGES = "changes."  # aside, before a program: the experiment with its changed specs
_LINE = "spmd_lab.explain(step)(params, opt_state, batch).open()"
_COMMAND = "spmd-lab explain package.module:function --open"
# tests/example_program.py writes it, and beside it its description, which needs no parser
EXAMPLE = Path(__file__).parents[3] / "spmd_core/recipes/example.jaxexport"


def open_program(described: Described) -> None:
    """Make a program the screen's experiment, as its author sharded it; RequestError where it names
    no mesh.
    """
    _show(as_exported(described))


def _show(experiment: Experiment) -> None:
    state.replace(SCREEN, experiment)
    state.note_act(SCREEN)
    state.set_aside(SCREEN, constrain.OPENED, experiment.id)
    state.set_run(SCREEN, None)
    state.set_notice(SCREEN, None)


def file_name(experiment: Experiment) -> str:
    """Returns the name of the file that a program was dropped as, else one that its name gives."""
    program = experiment.exported
    assert program is not None
    described = program.described
    named = "step" if is_example(program) else described.name
    return state.aside(SCREEN, _FILE + described.program) or f"{named}.jaxexport"


def keep_changes(before: Experiment, experiment: Experiment) -> None:
    """Keeps the changes of a program, which its row among those that are held offers again."""
    if before.program == experiment.program:
        changed = experiment if experiment != before else None
        state.set_aside(SCREEN, f"{_CHANGES}{before.program}", changed)


def _continue(program: str) -> None:
    """Draws the button that opens a program with the changes that it had."""
    changed: Experiment | None = state.aside(SCREEN, f"{_CHANGES}{program}")
    if changed is None:
        return
    number = len(changed.to_json()["specs"] or {}) or 1
    label = f"Continue with {numbered(number, 'change')}"
    if st.button(label, key=f"programs:continue:{program}", type="primary"):
        _show(changed)
        st.rerun()


def drop() -> None:
    """The field to drop a file into; the program that it holds opens at once."""
    generation = state.aside(SCREEN, "dropped") or 0
    file = st.file_uploader(
        "Drop a file that `jax.export` wrote",
        key=state.key(SCREEN, f"file.{generation}"),
        help="The file is data: nothing in it runs when it is taken. It is kept in the data folder.",
    )
    if file is None:
        prepare_parser()
        if problem := state.aside(SCREEN, "refused"):
            shell.refusal(problem)
        return
    state.set_aside(
        SCREEN, "dropped", generation + 1
    )  # a new field: the server lets go of the file
    state.set_aside(SCREEN, "refused", None)
    with st.spinner("Reading the program…"):
        try:
            described = as_viewer(lab().take_program, file.getvalue(), Path(file.name).stem)
            state.set_aside(SCREEN, _FILE + described.program, file.name)
            open_program(described)
        except LabError as error:
            named = str(error).removeprefix("this file")
            words = f"{file.name}{named}" if named != str(error) else f"{file.name}: {error}"
            state.set_aside(SCREEN, "refused", words)
    st.rerun()


@lru_cache
def described_example() -> Described:
    """Returns the description of the program that came with the lab."""
    return Described.model_validate_json(EXAMPLE.with_suffix(".json").read_bytes())


def is_example(program: Program) -> bool:
    """Returns True if a program is the one that came with the lab."""
    return program.described.program == described_example().program


def example() -> None:
    """A button that takes the program that came with the lab."""
    pressed = st.button(
        "Try an example", type="primary", icon=":material/play_lesson:", key="example_program"
    )
    if pressed and shell.done(_take_example):
        st.rerun()


def _take_example() -> None:
    name = described_example().name
    open_program(as_viewer(lab().take_program, EXAMPLE.read_bytes(), name))


def declared() -> None:
    """A button that exports and takes the steps that the owner's files declare, where there are any."""
    if not files.paths():
        return
    label = "Take the steps that this server declares"
    if st.button(label, icon=":material/deployed_code_update:", key="declared_programs"):
        with st.spinner("Exporting the declared steps…"):
            sentence = shell.attempt(_take_declared)
        if sentence:
            shell.refusal(sentence)
        else:
            st.rerun()


def _take_declared() -> None:
    if not (taken := as_viewer(lab().take_declared_programs)):
        raise refuse(
            "the files of SPMD_LAB_WORKLOADS", "declare no step", "see docs/your_program.md"
        )
    if len(taken) == 1:
        open_program(taken[0])


def guide(is_open: bool = False) -> None:
    """The line that takes a step from its author's code."""
    with st.expander("From your code: one line where your step is jitted", is_open):
        st.markdown('Nothing runs. `.save("step.jaxexport")` writes the file.')
        st.code(f"import spmd_lab\n{_LINE}", language="python", wrap_lines=True)
        st.code(_COMMAND, language="bash", wrap_lines=True)


def held(chosen: str) -> None:
    """The programs that are held, each with its name, size and mesh."""
    listed = lab().programs()
    if not listed:
        return
    st.subheader("Programs held here", anchor=False)
    names = Counter(described.name for described in listed)
    for described in listed:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            row = _row(described, names[described.name] > 1)
            st.markdown(f"**{plain(described.name)}**  \n:small[{plain(row)}]", width="stretch")
            if described.program != chosen:
                _continue(described.program)
            if described.program != chosen and st.button(
                "Open", key=f"programs:open:{described.program}"
            ):
                if sentence := shell.attempt(
                    lambda held=described.program: open_program(programs.find(held))
                ):
                    state.set_aside(SCREEN, "refused", sentence)
                st.rerun()
            if st.button(
                "Delete",
                key=f"programs:delete:{described.program}",
                icon=":material/delete:",
                help=plain(f"Lets go of {described.name}. Its stored runs stay."),
            ):
                _delete(described, chosen)


def _row(described: Listed, is_ambiguous: bool) -> str:
    """Returns what a list has of a program; its hash where others have its name."""
    taken = programs.taken_at(described.program)
    parts = (
        f"taken {ago(taken)}" if taken else "",
        f"{count_text(described.argument_count)} arguments",
        f"mesh {mesh_text(described.mesh) if described.mesh else 'not given'}",
        ", ".join(described.platforms),
        bytes_text(described.bytes),
        described.program[:12] if is_ambiguous else "",
    )
    return " · ".join(filter(None, parts))


def _delete(described: Listed, chosen: str) -> None:
    if not shell.done(as_viewer, lab().delete_program, described.program):
        return
    if described.program == chosen:
        state.forget(SCREEN)
        st.query_params.clear()
    st.rerun()
