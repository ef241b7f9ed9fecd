"""The fields of the Search screen, as a question."""

import json
from collections.abc import Sequence
from typing import Any

import streamlit as st

from spmd_core.base import RequestError, refuse, shorten
from spmd_core.machine import CHIPS, parse_target
from spmd_core.plan import AXES_LINES, model_names
from spmd_core.search import (
    FEW,
    GOALS,
    MOST_GIB,
    REMATS,
    AnyQuestion,
    ArrayQuestion,
    Goal,
    ModelQuestion,
    Question,
    bytes_of,
    generations,
    price_example,
    read_array_question,
    read_prices,
    read_question,
    unknown_target,
)
from spmd_core.surveys import goal_words
from spmd_core.trials import FEW_S
from spmd_core.workloads import WORKLOADS, Workload, parse_mesh
from spmd_lab.ui import forms, state
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.search import own_model
from spmd_lab.ui.state import Form

SCREEN = "search"
_SCALED = tuple(f"scaled:{1 << power}" for power in range(9))
_FIXED_SPECS = {  # of a computation: label and example
    "sharding": ("Axes of dims", '{"batch": "x"}'),
    "overrides": ("Arrays that stay put", '{"w1": ["x", null]}'),
}
# of a spec, what has a field on the screen
_FIELDS = ("workload", "target", "dims", "dtype", "strategies", "mesh", *_FIXED_SPECS)
_KINDS = {"model": "A model", "array": "A computation"}
_GIB = 2**30
DEFAULT: dict[str, object] = {  # as Predict's first
    "model": "llama-3.1-8b",
    "chips": ["v5e:256"],
    "global_batch": 512,
    "sequence": 8192,
}
_DEFAULT_SPEC = {
    "workload": "mlp",
    "target": "cpu:8",
    "dims": {"batch": 1024, "in": 256, "hidden": 1024, "out": 256},
}
BUDGET_S, MOST_S = 60, 3600
_MORE = "Change the question"


def first() -> ModelQuestion:
    """The question that the screen begins with."""
    return read_question(DEFAULT)


def question() -> AnyQuestion:
    """The question that the screen shows: the last valid one."""
    held = state.aside(SCREEN, "question")
    if held is None:
        held = first()
        state.set_aside(SCREEN, "question", held)
    return held


def show(new: AnyQuestion) -> None:
    """Make every field show this question."""
    state.set_aside(SCREEN, "question", new)
    state.set_aside(SCREEN, "generation", (state.aside(SCREEN, "generation") or 0) + 1)


def fields() -> tuple[AnyQuestion, float | None, str | None]:
    """Draw every field: the question, the seconds for compiling and measuring (None: only
    estimates), and a sentence where the fields ask nothing.
    """
    now = question()
    kind = st.segmented_control(
        "Search",
        list(_KINDS),
        format_func=lambda name: _KINDS[name],
        key=_key("kind", now.kind),
        required=True,
    )
    try:
        asked = (
            _model(now if isinstance(now, ModelQuestion) else None)
            if kind == "model"
            else _array(now if isinstance(now, ArrayQuestion) else None)
        )
        refusal = None
        state.set_aside(SCREEN, "question", asked)
    except RequestError as error:
        asked, refusal = now, str(error)
    return asked, _budget(asked), refusal


def _key(name: str, value: Any) -> str:
    return state.seed(f"search:{state.aside(SCREEN, 'generation') or 0}:{name}", value)


def _model(now: ModelQuestion | None) -> ModelQuestion:
    now = now or first()
    models = list(dict.fromkeys((now.model, *model_names(), *_SCALED)))
    model = st.selectbox("Model", models, key=_key("model", now.model))
    text = st.text_input(
        "Chips",
        key=_key("chips", ", ".join(now.chips)),
        max_chars=1000,
        help="`v5p:64` is 64 chips (`v5p-128` on Google Cloud), `any:..64` at most 64 of any kind, "
        "`v5p:4x4x4*2` one topology. Commas between several.",
    )
    chips, goal = _parts(text), _goal(now, True)
    with forms.fold(SCREEN, _MORE, "fields:model", ":material/tune:"):
        model, plan = own_model.fields(model, dict(now.plan), _key)
        left, right = st.columns(2)
        batch = left.number_input(
            "Global batch",
            1,
            2**24,
            value=None,
            key=_key("batch", now.global_batch),
            placeholder=f"{now.batch_per_device:g} per device"
            if now.batch_per_device
            else "several",
            help="Sequences in a step, over all devices.",
        )
        sequence = right.number_input(
            "Sequence",
            128,
            2**20,
            step=128,
            key=_key("sequence", now.sequence),
            help="Tokens of a sequence.",
        )
        asked = {
            "global_batch": None if batch is None else int(batch),
            "batch_per_device": now.batch_per_device if batch is None else None,
            "sequence": int(sequence),
        } | {"model": model, "chips": chips, "plan": plan}
        return read_question(asked | _costs(now, chips, goal) | _fixed(now))


def _costs(now: ModelQuestion, chips: Sequence[str], goal: Goal) -> Form:
    named = generations(chips)
    price = dict(_prices(now, named))
    if goal == "price" and not price:
        st.caption("Type a price to minimize it; until then time is minimized.")
        goal = "time"
    return {"minimize": goal, "price": {name: price[name] for name in price if name in named}}


def _fixed(now: ModelQuestion) -> Form:
    with st.expander("What is fixed"):
        axes = st.text_input(
            "Mesh axes",
            key=_key("axes", ",".join(f"{name}={size}" for name, size in now.fixed)),
            placeholder="data=4,tensor=1",
            max_chars=100,
            help="Axes that keep this size; 1 leaves an axis unused.\n"
            + "\n".join(f"- {plain(line)}" for line in AXES_LINES),
        )
        remat = st.multiselect(
            "Rematerialization", list(REMATS), key=_key("remat", list(now.remat))
        )
        offload = st.toggle("May offload to host memory", key=_key("offload", now.offload))
        slices = st.text_input(
            "Slices",
            key=_key("slices", now.slices),
            max_chars=6,
            help="`fewest`, `any`, or a number.",
        )
        memory = _memory(now.memory_bytes)
    return {
        "fixed": parse_mesh(axes) if axes.strip() else (),
        "remat": remat,
        "offload": offload,
        "slices": slices.strip(),
        "memory_bytes": memory,
    }


def _memory(now: int | None) -> int | None:
    gib = st.number_input(
        "Memory per device, at most (GiB)",
        0.0,
        float(MOST_GIB),
        format="%g",
        key=_key("memory", (now or 0) / _GIB),
        help="0: all that it has.",
    )
    return bytes_of(gib) if gib else None


def _prices(now: Question | None, asked: Sequence[str] = ()) -> tuple[tuple[str, float], ...]:
    text = st.text_input(
        "Price per chip-hour ($)",
        max_chars=200,
        placeholder="e.g. 4.20",
        key=_key(
            "price", ", ".join(f"{name}={value:g}" for name, value in (now.price if now else ()))
        ),
        help=plain(
            f"Gives every row its price: {price_example(asked)}. One is that of every chip."
        ),
    )
    prices = read_prices(text, asked)
    return tuple(each for each in prices if each[0] in asked or each[0] not in CHIPS or not asked)


def _goal(now: Question | None, of_model: bool) -> Goal:
    return st.selectbox(
        "Minimize",
        list(GOALS),
        format_func=lambda name: goal_words(name, of_model),
        key=_key(f"goal.{of_model}", now.minimize if now else GOALS[0]),
    )


def _array(now: ArrayQuestion | None) -> ArrayQuestion:
    spec = _DEFAULT_SPEC if now is None else {**now.spec, "target": ", ".join(now.targets)}
    name = _computation(spec["workload"])  # pyrefly: ignore[bad-argument-type]
    target = st.text_input(
        "Targets",
        key=_key("target", spec["target"]),
        max_chars=200,
        help="`cpu:8`, `local`, `cluster:NAME`, or a topology such as `tpu:v5e:4x4` or `gpu:h100:8`.",
    )
    # what the fields do not change stays as it was written, or left out: another way to write it
    # would be another question, with no answer
    kept = spec if name == spec["workload"] else {}
    same = now if kept else None
    what = WORKLOADS[name]
    dims = _dims(what, kept)
    st.caption(plain(what.formula))
    with forms.fold(SCREEN, _MORE, "fields:array", ":material/tune:"):
        goal = _goal(now, False)
        price = same.price if same is not None and target == ", ".join(same.targets) else ()
        if goal == "price":
            price = _prices(now)
        dtype = _dtype(what, kept)
        strategies = _strategies(what, spec.get("strategies", ()), same)
        every_spec = st.toggle(
            "Every spec of every array",
            key=_key("overrides", bool(now and "overrides" in now.searched)),
            help="Instead of dims: each operand and result is sharded by itself. A large space.",
        )
        fixed = _fixed_specs(name, kept)
        memory_bytes = _memory(now.memory_bytes if now else None)
    rest = {field: value for field, value in kept.items() if field not in _FIELDS}
    targets = _parts(target)
    asked = rest | dtype | fixed | {"workload": name, "target": targets, "dims": dims}
    asked["strategies"] = strategies
    if every_spec:
        asked["overrides"] = None
    elif "sharding" not in fixed:
        asked["sharding"] = None
    more = {"minimize": goal, "price": price, "memory_bytes": memory_bytes}
    return read_array_question(asked, _devices(targets), **more)


def _computation(now: str) -> str:
    return st.selectbox(
        "Computation",
        [name for name, what in WORKLOADS.items() if what.kind == "computation"],
        key=_key("workload", now),
        format_func=lambda name: WORKLOADS[name].title,
    )


def _dims(what: Workload, kept: Form) -> Form | None:
    sizes = _pairs(kept.get("dims") or dict(what.defaults))
    text = st.text_input("Dims", key=_key(f"dims.{what.name}", sizes), max_chars=400)
    if kept and text == sizes:
        return kept.get("dims")
    return dict(parse_mesh(text.replace(" ", "")))


def _dtype(what: Workload, kept: Form) -> Form:
    """The dtype, left out where it is the default and was left out, so that a link stays as it is."""
    now = kept.get("dtype") or what.dtypes[0]
    chosen = st.selectbox("Dtype", what.dtypes, key=_key(f"dtype.{what.name}", now))
    return {"dtype": chosen} if chosen != what.dtypes[0] or kept.get("dtype") else {}


def _strategies(what: Workload, now: Sequence[str], same: ArrayQuestion | None) -> list[str] | None:
    """The strategies to search; None for those that the question searches without naming them."""
    named = [each for each in now if each in what.strategies]
    unnamed = list(same.strategies) if same and not named else []
    usual = [each for each in what.default_strategies if each in ("auto", "shard_map")]
    chosen = st.multiselect(
        "Strategies",
        list(what.strategies),
        key=_key(f"strategies.{what.name}", named or unnamed or usual),
    )
    return None if chosen == unnamed else chosen or None


def _fixed_specs(name: str, kept: Form) -> Form:
    mesh = st.text_input(
        "Mesh",
        max_chars=100,
        placeholder="x=2,y=4",
        key=_key(f"mesh.{name}", _pairs(dict(kept.get("mesh") or {}))),
        help="Empty: every mesh.",
    )
    fixed: Form = {"mesh": parse_mesh(mesh.replace(" ", "")) if mesh.strip() else None}
    for field, (label, example) in _FIXED_SPECS.items():
        text = st.text_input(
            label,
            max_chars=400,
            placeholder=example,
            key=_key(f"{field}.{name}", json.dumps(kept[field]) if kept.get(field) else ""),
        )
        if text.strip():
            fixed[field] = _object(label, text)
    return fixed


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _object(label: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise refuse(
            f"{label} {shorten(text)}", "is not JSON", 'write for example {"batch": "x"}'
        ) from None


def _devices(targets: list[str]) -> int | None:
    target = unknown_target(targets)
    known = lab().devices(target) if target else None
    return known.device_count if known else None


def _pairs(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _budget(asked: AnyQuestion) -> float | None:
    """Returns how long to compile and measure: to compile alone where no target is here to measure."""
    is_model = isinstance(asked, ModelQuestion)
    is_absent = is_model or all(parse_target(each).is_absent for each in asked.targets)
    kept = f"budget.{asked.kind}"
    usual = int(FEW_S) if is_model else BUDGET_S
    first = usual if (held := state.aside(SCREEN, kept)) is None else held
    seconds = st.number_input(
        "Compile for at most (s)" if is_absent else "Compile and measure for at most (s)",
        0 if is_model else 1,
        MOST_S,
        key=_key(kept, first),
        help=f"The best {FEW} in the background. 0: only the instant estimate of every candidate."
        if is_model
        else "The best first. Simulated and attached devices are measured, TPUs that are not "
        "attached "
        "compiled for.",
    )
    state.set_aside(SCREEN, kept, seconds)
    return float(seconds) or None
