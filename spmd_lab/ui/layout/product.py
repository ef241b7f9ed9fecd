"""A step in pictures, on Layout: operands and their product, each sharded, and what it needs."""

from functools import partial
from typing import Any

import streamlit as st

from spmd_core.base import RequestError, bytes_text, mesh_text
from spmd_core.experiment import (
    Experiment,
    dtype_of,
    layout_of,
    parse_experiment,
    read_spec,
    spec_code,
)
from spmd_core.fields import axes_json, axes_of, padded
from spmd_core.pictures import is_product, product, time_of
from spmd_core.terms import layout_headline, listed
from spmd_core.workloads import Array
from spmd_lab.ui import forms, inputs, links, mesh_fields, shell, state
from spmd_lab.ui.charts import glimpse, layout_words as words, together
from spmd_lab.ui.lab import lab
from spmd_lab.ui.layout import moves, paste, picture
from spmd_lab.ui.markdown import coded, plain
from spmd_lab.ui.state import Form

SCREEN = "layout"
ONE, STEP = "An array", "A product"
_WORKLOAD = {ONE: "array", STEP: "layer"}


def choose() -> bool:
    """Draw the choice between one array and a product; whether it is a product."""
    now = STEP if is_product(state.experiment(SCREEN).what) else ONE
    key = state.seed(state.key(SCREEN, "kind"), now)
    chosen = (
        st.segmented_control(
            "Shows", [ONE, STEP], key=key, required=True, label_visibility="collapsed"
        )
        or now
    )
    if chosen != now:
        state.replace(SCREEN, begun(state.experiment(SCREEN), chosen))
        state.set_run(SCREEN, None)
        st.rerun()
    return now == STEP


def begun(before: Experiment, kind: str) -> Experiment:
    """An array, or a product, to begin with on the same mesh and target. A matrix and the left operand
    of a product, which is on devices, have the same sizes, specs and dtype; else the first dim is sharded over the
    first axis, and another over the last; sizes divide.
    """
    (first, size), (last, other) = before.mesh[0], before.mesh[-1]
    side = -(-64 // (size * other)) * size * other
    names = ("d0", "d1") if kind == ONE else ("batch", "in")
    held = before.what.operands[0].name
    sizes = [before.sizes[dim] for dim in before.what.operands[0].present(before.sizes)]
    sharding, kept = {names[0]: first} | ({names[1]: last} if last != first else {}), {}
    if len(sizes) == len(names):
        specs = map(axes_json, before.spec(held))
        sharding = dict(zip(names, specs, strict=True))
        kept = {"dtype": before.dtype}
    else:
        sizes = [side, 2 * side]
    return parse_experiment(
        {
            "workload": _WORKLOAD[kind],
            "target": before.target,
            "mesh": before.axis_sizes,
            "dims": dict(zip(names, sizes, strict=True)) | ({"out": side} if kind == STEP else {}),
            "sharding": sharding,
            **kept,
        }
    )


def fields() -> Form:
    """Mesh, sizes, and a spec for each array that is drawn, as text."""
    now, draft = state.experiment(SCREEN), state.draft(SCREEN)
    first = st.container()
    with forms.fold(SCREEN, f"Mesh: {plain(mesh_text(draft['mesh'], ' '))}", "fields:mesh"):
        mesh = mesh_fields.mesh_input(SCREEN)
    with first:
        dims = inputs.dims_input(SCREEN, now.what, mesh)
    about = f"Target: {plain(draft['target'])}, {plain(draft['dtype'])}"
    with st.expander(about, key="fields:target"):
        dtype = inputs.dtype_input(SCREEN, now.what)
        target = inputs.target_input(SCREEN)
    overrides = dict(draft["overrides"])
    with st.expander("Specs, as code", key="fields:specs"):
        for array in together.drawn(now, is_large=True):
            spec = _spec_input(now, array)
            if spec is None:
                overrides.pop(array.name, None)
            else:
                overrides[array.name] = spec
    present = {array.name: array.present(now.sizes) for array in together.drawn(now, is_large=True)}
    paste.box(SCREEN, present)
    return (
        state.draft(SCREEN)
        | dims
        | {"mesh": mesh, "dtype": dtype, "target": target, "overrides": overrides}
    )


def _spec_input(experiment: Experiment, array: Array) -> list[Any] | None:
    own = state.draft(SCREEN)["overrides"].get(array.name)
    shown = "" if own is None else spec_code(tuple(map(axes_of, own)))
    key = state.seed(state.key(SCREEN, f"code.{array.name}"), shown)
    text = st.text_input(
        f"Spec of {plain(array.name)}",
        key=key,
        max_chars=400,
        placeholder=spec_code(experiment.table_spec(array.name)),
        help="Empty: as the dims above say. Read as code, never evaluated.",
    )
    if not text:
        return None
    try:
        spec = read_spec(text)
    except RequestError as error:
        st.error(plain(str(error)), icon=":material/error:")
        return own
    rank = len(array.present(experiment.sizes))
    return [axes_json(axes) for axes in padded(spec, rank)]


def screen(share: Any) -> None:
    """All of the screen but its choice: fields, the answer, the steps, the pictures."""
    with st.sidebar:
        experiment, refusal = state.edit(SCREEN, fields())
    st.title(shell.QUESTIONS["layout"], anchor=False)
    st.caption(plain(f"{experiment.what.title}: {experiment.what.formula}"))
    if refusal:
        shell.refused(SCREEN, refusal)
    if paste.is_unread(SCREEN):
        paste.no_picture()
        return
    with st.container(key="answer"):
        _needs(experiment)
        with st.container(key="product-picture"):
            glimpse.show(experiment)
        page, query = links.elsewhere(experiment)
        with st.container(key="main-link-compile", width="content"):
            st.page_link(
                shell.PAGES[page][0],
                label=f"Compile it on {shell.PAGES[page][1]}",
                icon=":material/play_arrow:",
                query_params=query,
            )
    with st.expander("Each array, with the mesh", key="each", on_change="rerun") as fold:
        if fold.open:
            for array in together.drawn(experiment, is_large=True):
                held, dtype = layout_of(experiment, array.name), dtype_of(experiment, array.name)
                dims = ", ".join(array.present(experiment.sizes))
                spec = spec_code(experiment.spec(array.name))
                st.markdown(
                    f"**{plain(array.name)}** ({plain(dims)}) {coded(f'`{spec}`')}: "
                    f"{plain(layout_headline(held, dtype))}"
                )
                picture.draw(held, dtype, f"picture:{array.name}")
    links.write_query(SCREEN, experiment)
    links.share_box(share, SCREEN, experiment)


def _needs(experiment: Experiment) -> None:
    times = moves.times_here(experiment)
    to_order = times.for_order(experiment, lab().hardware().cores)

    of = partial(time_of, mesh=experiment.mesh, times=times)
    try:
        needed = product(experiment, to_order)
    except RequestError as error:
        shell.refusal(str(error))
        return
    st.subheader(coded(words.product_headline(experiment, needed, of)), anchor=False)
    held = {
        array.name: layout_of(experiment, array.name).shard_bytes(dtype_of(experiment, array.name))
        for array in together.drawn(experiment, is_large=True)
    }
    each = listed([f"{name} {bytes_text(nbytes)}" for name, nbytes in held.items()])
    shell.draw_figure(bytes_text(sum(held.values())), f"on each device: {each}")
    if needed.moves:
        moves.table(needed.moves, of, lambda move: words.why(experiment, needed, move))
        st.caption(coded(f"{words.time_source(needed.collectives, of)} {words.NEEDED}"))
