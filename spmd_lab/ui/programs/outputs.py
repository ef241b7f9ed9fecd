"""The outputs that a program leaves to the compiler: what they follow, and what a change does to them."""

from contextlib import suppress
from dataclasses import replace

import streamlit as st

from spmd_core.base import LabError, bytes_text
from spmd_core.experiment import Experiment
from spmd_core.terms import listed
from spmd_core.workloads import Held, Program
from spmd_lab.ui.lab import as_viewer, lab
from spmd_lab.ui.markdown import plain


def following(experiment: Experiment) -> Program | None:
    """Returns an exported program with what its outputs follow, where propagation has answered."""
    program = experiment.exported
    if program is None or not program.is_changed:  # whose file has it
        return program
    with suppress(LabError):  # `what_if.draw` reports it
        return replace(program, followed=as_viewer(lab().followed, experiment))
    return program


def told(opened: Program, program: Program) -> None:
    """Draws what the changes of a program did to outputs that they do not name."""
    if words := followed_words(opened, program, "now"):
        st.caption(f":orange[**It moves outputs too:**] {plain(words)}.", width="stretch")


def foretold(program: Program, mended: Experiment) -> None:
    """Draws what a fix that is offered will do to outputs that it does not name."""
    after = following(mended)
    if after and (words := followed_words(program, after, "then")):
        st.caption(f":orange[**This fix moves outputs too:**] {plain(words)}.", width="stretch")


def followed_words(before: Program, after: Program, when: str = "now") -> str:
    """Returns which outputs a change shards otherwise though it names neither them nor the arguments
    that they replace, and the bytes that this adds on a device; "" where there is none.
    """
    moved = [
        ends
        for ends in zip(before.outputs(), after.outputs(), strict=True)
        if _is_moved(*ends, before, after)
    ]
    if not moved:
        return ""
    names = [now.leaf.replaces or now.leaf.path for _, now in moved]
    more = sum((now.bytes_per_device or 0) - (was.bytes_per_device or 0) for was, now in moved)
    how = "sharded otherwise" if any(any(now.spec or ()) for _, now in moved) else "replicated"
    verb, them = ("is", "it") if len(moved) == 1 else ("are", "them")
    size = f", {'+' if more > 0 else '−'}{bytes_text(abs(more))} on each device" if more else ""
    return f"{listed(names)} {verb} {how} {when}{size}, since no out_shardings name {them}"


def _is_moved(was: Held, now: Held, before: Program, after: Program) -> bool:
    leaf = after.described.leaves.get(now.leaf.replaces or "")
    is_named = leaf is not None and before.spec(leaf) != after.spec(leaf)
    is_known = None not in (was.spec, now.spec) and now.is_propagated
    return is_known and not is_named and was.spec != now.spec
