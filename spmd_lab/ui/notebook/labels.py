"""A run's name, note, tags and pin: shown, and edited in place."""

from functools import partial

import streamlit as st

from spmd_core.history import origin_words
from spmd_core.reports import marked
from spmd_core.runs import Labels
from spmd_lab.ui import cards, shell
from spmd_lab.ui.lab import as_viewer, lab, may_act
from spmd_lab.ui.markdown import code, plain

_HELP = "Words, separated by spaces. Search for one with `tag:word`."


def draw(run: str) -> None:
    """What was added to a run, a button that edits it, and where a foreign run is from."""
    notebook = lab().notebook
    labels = notebook.labels(run)
    with st.container(horizontal=True, vertical_alignment="center", key=f"labels-{run}"):
        if words := heading(labels):
            st.markdown(words, width="content")
        if may_act():
            empty = labels == Labels()
            box = st.popover(
                "Name, note, tags" if empty else "Edit",
                icon=":material/edit_note:",
                key=f"edit:{run}",
                on_change="rerun",
            )
            if box.open:
                with box:
                    _form(run, labels)
    origin = notebook.origin(run)
    is_example = origin is not None and origin.is_example
    if labels.note and not is_example:  # whose recipe and tour have its question
        st.markdown(note_markdown(labels.note))
    if origin and (result := lab().result(run)):
        sentence = origin_words(origin, result.experiment, result.environment.device_kind)
        draw_words = st.caption if is_example else partial(st.info, icon=":material/move_to_inbox:")
        draw_words(plain(sentence))


def is_foreign(run: str) -> bool:
    """Returns True if a run is from elsewhere, and did not come with the program."""
    origin = lab().notebook.origin(run)
    return origin is not None and not origin.is_example


def heading(labels: Labels) -> str:
    """Pin, name and tags of a run as Markdown."""
    parts = [
        ":material/keep:" if labels.is_pinned else "",
        f"**{plain(labels.name)}**" if labels.name else "",
        cards.tag_badges(labels.tags),
    ]
    return " ".join(part for part in parts if part)


def note_markdown(note: str) -> str:
    """A note as Markdown that shows it line by line, with bold and code."""
    return "  \n".join(marked_markdown(line) or "\u00a0" for line in note.split("\n"))


def marked_markdown(text: str) -> str:
    """A line of people's text as Markdown: `**bold**` and code, and all else as it is."""
    return "".join(_marked(kind, part) for kind, part in marked(text))


def _marked(kind: str, text: str) -> str:
    """A part of a line; the spaces at its ends are those between words."""
    if kind == "code":
        return code(text)
    if kind == "bold":
        return f"**{plain(text)}**" if text.strip() else ""
    left = " " if text[:1].isspace() else ""
    right = " " if text[-1:].isspace() else ""
    return f"{left}{plain(text)}{right}"


def _form(run: str, now: Labels) -> None:
    """Fields of a run's labels, as they were when they were first drawn: what another person saves
    meanwhile is reported, and not undone.
    """
    kept = f"labels:{run}"
    was: Labels
    was, number = st.session_state.setdefault(kept, (now, hash(now)))
    key = f"{kept}:{number}"  # what was saved is in the fields that are drawn next
    with st.form(key, border=False):
        name = st.text_input("Name", was.name, key=f"{key}:name", max_chars=120)
        tags = st.text_input("Tags", " ".join(was.tags), key=f"{key}:tags", help=_HELP)
        note = st.text_area(
            "Note",
            was.note,
            key=f"{key}:note",
            height=160,
            help="**bold** and `code` are shown so.",
        )
        pinned = st.checkbox("Pin: list it first", was.is_pinned, key=f"{key}:pin")
        if not st.form_submit_button("Save", type="primary", icon=":material/save:"):
            return
    edited = Labels(name, note, tuple(tags.replace(",", " ").split()), pinned)
    changes = {
        field: getattr(edited, field)
        for field in ("name", "note", "tags", "is_pinned")
        if getattr(edited, field) != getattr(was, field)
    }
    if not changes or shell.done(lambda: as_viewer(lab().notebook.label, run, was=was, **changes)):
        st.session_state.pop(kept, None)
        st.rerun()
    else:  # the next edit begins at what is stored now, with the text that was typed
        st.session_state[kept] = (lab().notebook.labels(run), number)
