"""An experiment in a line. Two that differ have two names: a name has all that is not a default."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from spmd_core.base import RequestError, bytes_text, count_text, numbered, scaled_text, sums_by_key
from spmd_core.experiment import (
    MARGIN,
    Experiment,
    Layout,
    Timing,
    option_choices,
    shape_text,
    spec_code,
)
from spmd_core.facts import Prediction
from spmd_core.plan import PLAN_FIELDS, ModelSize, Plan, get_model
from spmd_core.terms.names import (
    listed,
    margin_text,
    mesh_words,
    titles,
    workload_title,
)
from spmd_core.workloads import Program, version_words

_DIGITS = 12  # of a program's hash, as it is named before its owner names it


def experiment_words(experiment: Experiment) -> str:
    """What is computed, how it is sharded and where, then whatever is not at its default; of a
    study its variants' names, and the first one in full.
    """
    if experiment.variants:
        names = "; ".join(each.name for each in experiment.variants)
        first = experiment_words(experiment.variants[0].experiment)
        return f"Study of {len(experiment.variants)} variants ({names}): {first}"
    if experiment.plan:
        return ", ".join(_of_plan(experiment.plan))
    where = f"mesh {mesh_words(experiment.mesh)} on {experiment.target}"
    if experiment.what.is_small_program:
        return ", ".join([f"Program {experiment.option('program')}", where, *_chosen(experiment)])
    if experiment.what.is_of_machine:
        return ", ".join(
            [
                workload_title(experiment.workload),
                dtype_words(experiment),
                where,
                *_chosen(experiment),
            ]
        )
    if program := experiment.exported:
        return ", ".join([*_of_program(program, experiment), where, *_chosen(experiment)])
    sizes = " ".join(f"{dim}={size}" for dim, size in experiment.dims)
    words = [workload_title(experiment.workload), sizes, dtype_words(experiment)]
    sharded = [] if experiment.served else [sharding_words(experiment)]  # by its plan
    return ", ".join([*words, *sharded, where, *_chosen(experiment)])


def _of_program(program: Program, experiment: Experiment) -> Iterator[str]:
    """The name of an exported program, sizes of its symbols, and specs other than its file's."""
    yield f"Program {program.described.name}"
    if program.dims:
        yield " ".join(f"{symbol}={size}" for symbol, size in program.dims.items())
    for pattern, spec in experiment.specs:
        yield f"{pattern} {spec_code(spec)}"


def sharding_words(experiment: Experiment) -> str:
    """The sharding table: `batch sharded over x, in over y`, or `replicated`."""
    dims = [f"{dim} over {listed(axes)}" for dim, axes in experiment.sharding]
    return ", ".join(dims).replace(" over ", " sharded over ", 1) if dims else "replicated"


def _chosen(experiment: Experiment) -> Iterator[str]:
    """What is not at its default, beside sizes, dtype and the sharding table."""
    for array, spec in experiment.overrides:
        yield f"{array} {spec_code(spec)}"
    yield from (f"{array} in {kind}" for array, kind in experiment.memory)
    yield from (f"{array} drawn as {draw}" for array, draw in experiment.data)
    choices = option_choices(experiment.what)
    for name, value in experiment.options:
        option = choices.get(name)
        default = option.default if option else None
        if name == "source":
            yield version_words(str(value))
        elif name != "program" and value != default:
            line = option.line if option else ""
            yield line or f"{name.replace('_', ' ')} {value}"
    if experiment.strategies != experiment.what.default_strategies:
        yield titles(experiment.strategies)
    timing, usual = experiment.timing, Timing()
    if timing != usual:
        yield timing_words(timing)
    if experiment.seed:
        yield f"seed {experiment.seed}"


def timing_words(timing: Timing) -> str:
    """A timing plan: `20 samples in at least 0.2 s`, and what is not usual."""
    processes = f" in {numbered(timing.processes, 'process')}" if timing.processes else ""
    margin = "" if timing.margin == MARGIN else f", the same within {margin_text(timing.margin)}"
    return f"{timing.samples} samples in at least {timing.min_seconds:g} s{processes}{margin}"


_SEEN = 0.05  # of the bytes of arguments: what is less, such as tokens, is not named


def dtype_words(experiment: Experiment) -> str:
    """Returns the dtype; of an exported program those of its arguments, that of most bytes first."""
    with suppress(RequestError):  # a program that was never held here
        if program := experiment.exported:
            held = sums_by_key((each.leaf.dtype, each.bytes) for each in program.arguments())
            least = _SEEN * sum(held.values())
            return ", ".join(sorted((e for e in held if held[e] > least), key=lambda e: -held[e]))
    return experiment.dtype


def parts_words(experiment: Experiment) -> dict[str, str]:
    """Every part of an experiment that is no study by its label, in words, so that two can be held
    side by side.
    """
    timing = experiment.timing
    parts = {
        "workload": workload_title(experiment.workload),
        **({"program": experiment.program[:_DIGITS]} if experiment.program else {}),
        "target": experiment.target,
        "mesh": mesh_words(experiment.mesh),
        "dtype": dtype_words(experiment),
    }
    parts |= {f"size of {dim}": str(size) for dim, size in experiment.dims}
    parts |= {f"{dim} sharded over": listed(axes) for dim, axes in experiment.sharding if axes}
    for array, spec in experiment.overrides:
        parts[f"spec of {array}"] = spec_code(spec)
    parts |= {f"spec of {group}": spec_code(spec) for group, spec in experiment.specs}
    parts |= {f"memory of {array}": kind for array, kind in experiment.memory}
    parts |= {f"values of {array}": str(draw) for array, draw in experiment.data}
    parts |= {name.replace("_", " "): str(value) for name, value in experiment.options}
    return parts | {
        "strategies": titles(experiment.strategies),
        "seed": str(experiment.seed),
        "timing": timing_words(timing),
    }


def model_words(plan: Plan) -> str:
    """A plan's model, and the sizes in which it differs from its preset: `llama-3.1-8b, layers=2`."""
    preset = get_model(plan.model)
    given = dict(plan.sizes) | ({"layers": plan.layers} if plan.layers else {})
    other = [f"{name}={size}" for name, size in given.items() if size != getattr(preset, name)]
    title = preset.title
    if title != plan.model:  # a config's: its sizes are in its name
        title = f"{title} of {preset.parameters:,} parameters"
    return f"{title} with {' '.join(other)}" if other else title


def _of_plan(plan: Plan) -> Iterator[str]:
    yield model_words(plan)
    yield f"{plan.batch_per_device:g} × {plan.sequence:,} tokens per device"
    yield f"mesh {mesh_words(plan.mesh)} on {plan.target}"
    rows = (row.named(getattr(plan, name)) for name, row in PLAN_FIELDS.items())
    yield from filter(None, rows)


def experiment_size_words(experiment: Experiment) -> str:
    """Bytes of operands and results, and the FLOPs of one execution: rounded, for a caption; of a
    training step its model.
    """
    if experiment.plan:
        return model_words(experiment.plan)
    what = experiment.what
    flops = what.flops(experiment.sizes)
    operands = what.operand_bytes(experiment.sizes, experiment.dtype)
    results = what.result_bytes(experiment.sizes, experiment.dtype)
    # none is known of users' own functions
    counted = f", {scaled_text(flops, 'FLOP')}" if flops else ""
    if (program := experiment.exported) and program.described.flops_of(program.sizes) is None:
        counted = ", FLOPs not counted at these sizes of its symbols"
    return f"operands {bytes_text(operands)}, results {bytes_text(results)}{counted}"


def layout_headline(layout: Layout, dtype: str) -> str:
    """The layout: `8 devices each hold 2 × 2 of 4 × 8: 16 B of 128 B; nothing is replicated`."""
    held, all_bytes = bytes_text(layout.shard_bytes(dtype)), bytes_text(layout.array_bytes(dtype))
    many = layout.device_count > 1
    who = f"{count_text(layout.device_count)} devices each hold" if many else "1 device holds"
    shape = shape_text(layout.shape)
    if layout.shard_count == 1:
        same = "; fully replicated" if many else ""
        return f"{who} all of {shape}: {all_bytes}{same}"
    share = f"{who} {shape_text(layout.shard_shape)} of {shape}: {held} of {all_bytes}"
    if layout.replication == 1:
        return f"{share}; nothing is replicated"
    axes = " and ".join(layout.replicated_axes)
    return f"{share}; replicated {count_text(layout.replication)}× over {axes}"


def parameters_words(size: ModelSize) -> str:
    """Parameters to the last one; of experts also those that a token visits.

    >>> from spmd_core.plan import get_model
    >>> parameters_words(get_model("mixtral-8x7b"))
    '46,702,792,704 parameters, 12,879,925,248 of them active'
    """
    active = f", {size.active_parameters:,} of them active" if size.experts > 1 else ""
    return f"{size.parameters:,} parameters{active}"


def ignored_words(names: Sequence[str]) -> str:
    """The fields of a config that change neither a size nor a time."""
    return f"not needed of the config: {', '.join(names)}" if names else ""


def convention_words(plan: Plan, prediction: Prediction) -> str:
    """What causal MFU counts, with the MFU that counts attention in full; "" without MFU."""
    if not prediction.mfu:
        return ""
    each = "6 FLOPs per active matmul parameter"
    if plan.lora_rank:
        each = "4 FLOPs per frozen matmul parameter, 6 per parameter of an adapter"
    return (
        f"Causal MFU counts {each} and token, and attention without "
        f"the masked pairs. With attention in full, as in many tables, MFU is {prediction.mfu:.1%}. "
        f"A step has {plan.tokens:,} tokens"
    )
