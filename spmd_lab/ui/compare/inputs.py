"""The fields of the Compare screen, as the JSON form of an experiment."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.base import RequestError, mesh_text
from spmd_core.experiment import BY_POSITION, later_options, option_choices, source_of
from spmd_core.fields import TIMING, Field, axes_of
from spmd_core.machine import parse_target
from spmd_core.recipes import RECIPES
from spmd_core.surveys import studies
from spmd_core.terms import listed, workload_title
from spmd_core.workloads import (
    STRATEGIES,
    WORKLOADS,
    Workload,
    get_workload,
    program_sizes,
    workload_names,
)
from spmd_lab.ui import forms, inputs, mesh_fields, state
from spmd_lab.ui.compare import changed, variants
from spmd_lab.ui.markdown import code, plain
from spmd_lab.ui.predict import plan_inputs
from spmd_lab.ui.predict.drafts import topology_target
from spmd_lab.ui.state import Form, Mesh

_SCREEN = "compare"
# names that users of JAX type to find a workload, after its title
_ALSO = {"product": " (matmul)", "matmul": " (matmuls)", "mlp": " (MLP)"}
# program -> its words: the title of its recipe, or its own name where several recipes show it
_PROGRAMS: dict[str, str] = {}
for _recipe in RECIPES.values():
    if WORKLOADS[_recipe.spec["workload"]].is_small_program:
        _name = _recipe.spec["options"]["program"]
        _PROGRAMS[_name] = (
            _name.replace("_", " ").capitalize() if _name in _PROGRAMS else _recipe.title
        )


def compare_fields(top: DeltaGenerator) -> Form:
    """Draw every field of the screen; their values. Changing the workload changes the fields,
    so the screen is drawn again. Of a study what all variants share is at the `top`.
    """
    first, own, named = st.container(), st.container(), st.container()
    with named:
        variants.name_field()
    draft = state.draft(_SCREEN)
    shared = top if state.variants(_SCREEN) else None
    if shared:
        shared.markdown("**All variants**", help=plain(studies.shared_words(draft)))
    with shared or first:
        name = _workload_field(draft["workload"])
        family = get_workload(name, source_of(draft["options"]))
        if draft["dims"]:
            st.caption(code(family.formula))
    with own:
        return _fields(name, family, draft, shared or own)


def _fields(name: str, family: Workload, draft: Form, shared: DeltaGenerator) -> Form:
    if family.is_small_program:
        return draft | _program_fields()
    if family.named_axes:
        return plan_inputs.plan_fields(_SCREEN)
    options = dict(draft["options"]) | {
        option: _option(option, family) for option in family.options
    }
    what = family.chosen(options)
    if what.dims != family.chosen(draft["options"]).dims:
        changed.change_dims(what, options)
        st.rerun()
    table = st.container()
    otherwise = st.empty()  # beside the dims, once the arrays below are known
    fields = _program(what, {**draft, "workload": name}, table, shared)
    fields = draft | {"options": _changed(what, options)} | fields
    fields |= _folded(what, fields, options, shared)
    dims_of = {array.name: array.present(fields["dims"]) for array in what.arrays}
    if words := own_specs_words(dims_of, fields["sharding"], fields["overrides"]):
        otherwise.caption(f":material/edit: {plain(f'With a spec of its own, {words}.')}")
    return fields


def _program(what: Workload, draft: Form, table: DeltaGenerator, shared: DeltaGenerator) -> Form:
    sizes = " × ".join(str(size) for size in draft["dims"].values() if size is not None)
    with shared:
        sizes = forms.fold(_SCREEN, plain(f"Sizes: {sizes}"), "fields:sizes")
    with forms.fold(_SCREEN, f"Mesh: {plain(mesh_text(draft['mesh'], ' '))}", "fields:mesh"):
        on_mesh = st.container()
    with st.expander(
        f"Target: {plain(draft['target'])}, {plain(draft['dtype'])}", key="fields:target"
    ):
        fields: Form = {"workload": draft["workload"], "target": inputs.target_input(_SCREEN)}
        fields["dtype"] = inputs.dtype_input(_SCREEN, what)
    with on_mesh:
        mesh = fields["mesh"] = (
            mesh_fields.mesh_input(_SCREEN)
            if topology_target(fields["target"]) is None
            else plan_inputs.mesh_fields(_SCREEN, draft | fields)
        )
    fields |= inputs.dims_input(_SCREEN, what, mesh, (table, sizes))
    offered, chosen = _offered(what, fields["target"]), draft["strategies"]
    with st.expander(
        f"Strategies: {len(chosen)} of {len({*offered, *chosen})}", key="fields:strategies"
    ):
        fields["strategies"] = inputs.strategies_input(_SCREEN, "strategies", offered, chosen)
    return fields


def _offered(what: Workload, target: str) -> list[str]:
    try:
        place = parse_target(target)
    except RequestError:
        return list(what.strategies)
    return [name for name in what.strategies if STRATEGIES[name].runs_on(place)]


def _folded(what: Workload, fields: Form, options: Form, shared: DeltaGenerator) -> Form:
    """The fields that are drawn when they are opened: unseen they took a quarter of a rerun."""
    drawn: Form = {}
    with st.expander("Arrays: memory, spec, data", key="fields:arrays", on_change="rerun") as fold:
        if fold.open:
            drawn |= _arrays(what, fields["dims"], fields["mesh"])
    fold = shared.expander("Measuring and options", key="fields:measuring", on_change="rerun")
    with fold:
        if fold.open:
            drawn |= _measuring(what, options)
    return drawn


def _workload_field(now: str) -> str:
    known = {name: get_workload(name) for name in workload_names()}
    names = tuple(
        name
        for name, what in known.items()
        if not (what.is_bare_array or what.is_of_machine) and (name == now or not what.compile_only)
    )
    chosen = inputs.choice_input(
        *(_SCREEN, "workload", "Workload", names, now),
        words=lambda name: workload_title(name) + _ALSO.get(name, ""),
    )
    if chosen != now:
        changed.change_workload(chosen)
        st.rerun()
    return chosen


def _program_fields() -> Form:
    now = state.draft(_SCREEN)["options"]
    chosen = inputs.choice_input(
        _SCREEN,
        "program",
        "Program",
        tuple(_PROGRAMS),
        now.get("program", next(iter(_PROGRAMS))),
        words=lambda key: _PROGRAMS.get(key, key),
    )
    return {
        "workload": "program",
        "options": {"program": chosen} | _sizes(chosen, now),
        "target": inputs.target_input(_SCREEN),
        "mesh": mesh_fields.mesh_input(_SCREEN),
    }


def _sizes(program: str, now: Form) -> dict[str, int]:
    chosen = {}
    for size in program_sizes(program).values():
        field, words = (
            f"size.{program}.{size.name}",
            f"A whole number from {size.low:,} to {size.high:,}; written into the program.",
        )
        chosen[size.name] = inputs.number_input(
            _SCREEN, field, size.name.capitalize(), now.get(size.name, size.default), text=words
        )
    return chosen


def _arrays(what: Workload, dims: Form, mesh: Mesh) -> Form:
    draft = state.draft(_SCREEN)
    memory, overrides, data = {}, {}, {}
    for array in what.arrays:
        operand = array in what.operands
        st.markdown(
            f"**{plain(array.name)}** ({plain(', '.join(array.present(dims)))})"
            + ("" if operand else ", result")
        )
        left, right = st.columns(2, gap="small", vertical_alignment="bottom")
        with left:
            if array.name in what.memory:  # the workload itself sets its memory kind
                st.caption(f"Memory: {code(what.memory[array.name])}")
            else:
                memory |= inputs.memory_input(_SCREEN, (array.name,))
        if operand:
            with right:
                data[array.name] = inputs.choice_input(
                    _SCREEN,
                    f"data.{array.name}",
                    "Data",
                    what.draws,
                    draft["data"].get(array.name, "normal"),
                )
        spec = inputs.spec_input(_SCREEN, array.name, array.present(dims), mesh)
        if spec is not None:
            overrides[array.name] = spec
    return {
        "memory": {name: kind for name, kind in memory.items() if kind != "device"},
        "overrides": overrides,
        "data": {name: kind for name, kind in data.items() if kind != "normal"},
    }


def _measuring(what: Workload, options: Form) -> Form:
    fields = _timing()
    options |= {"device_order": _option("device_order", what)}
    if what.uses_precision:
        options |= {"precision": _option("precision", what)}
    if "in_axes" in later_options(what):
        options |= {"in_axes": _in_axes(what, options.get("in_axes", BY_POSITION))}
    if what.is_traceable:
        options |= {name: _option(name, what) for name in ("trace", "shardings")}
    return fields | {"options": _changed(what, options)}


def _changed(what: Workload, options: Form) -> Form:
    """Options without those that are at their default, as an experiment has them: a field that was
    only drawn is no change.
    """
    later = later_options(what)
    return {
        name: value for name, value in options.items() if name not in later or value != later[name]
    }


def _timing() -> Form:
    draft = state.draft(_SCREEN)
    now, rows = draft["timing"], [row for name, row in TIMING.items() if name != "margin"]
    drawn = forms.draw_fields(forms.keyed(_SCREEN), rows, now)
    timing = now | {row.name: row.decode(row.name, drawn[row.name]) for row in rows}
    if not timing["processes"]:
        del timing["processes"]
    text = "Of NumPy's generator that draws the operands."
    seed = inputs.number_input(_SCREEN, "seed", "Seed", draft["seed"], text=text)
    return {"timing": timing, "seed": seed}


def _in_axes(what: Workload, now: str) -> str:
    names = ", ".join(array.name for array in what.operands)
    text = f"the axis of {names} that is mapped, or None: 0, None. {BY_POSITION}: where the mapped dim is"
    option = Field(default=BY_POSITION, label="in_axes of vmap and pmap", help=text)
    return forms.draw_option(forms.keyed(_SCREEN), "in_axes", option, now)


def _option(name: str, what: Workload) -> Any:
    option = option_choices(what)[name]
    now = state.draft(_SCREEN)["options"].get(name, option.default)
    return forms.draw_option(forms.keyed(_SCREEN), name, option, now)


def own_specs_words(
    arrays: Mapping[str, Sequence[str]], sharding: Mapping[str, Any], overrides: Mapping[str, Any]
) -> str:
    """Which dims an array's own spec shards otherwise than the table: `weights: in over x`; "" where
    none does. `arrays`: the dims of each; the others as fields of an experiment's JSON form.
    """
    parts = []
    for name, spec in overrides.items():
        entries = zip(arrays.get(name, ()), spec, strict=False)
        apart = [(dim, own) for dim, own in entries if axes_of(own) != axes_of(sharding.get(dim))]
        words = [
            f"{dim} over {listed(axes_of(own))}" if own else f"{dim} not sharded"
            for dim, own in apart
        ]
        parts += [f"{name}: {', '.join(words)}"] if words else []
    return "; ".join(parts)
