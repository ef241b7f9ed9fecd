"""Returns what the compiler makes of a program's shardings without a compile of its code, and how
propagation alone shards its values.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from spmd_core.base import refuse
from spmd_core.engine.absent.early import memory_account
from spmd_core.engine.absent.run import predict_experiment
from spmd_core.engine.absent.topology import describe
from spmd_core.engine.codeless import own_buffers, without_code
from spmd_core.engine.exported.constrained import own_line
from spmd_core.engine.exported.leaves import of_sharding, propagate, result_specs
from spmd_core.engine.exported.lower import complete, meshed, quoted_files
from spmd_core.engine.lower import execute, structs
from spmd_core.engine.shardings import PASSES, judged_of
from spmd_core.experiment import Experiment, type_text
from spmd_core.facts import Collective
from spmd_core.machine import dump_folder
from spmd_core.program import Module, Reasons, file_name, parse_module, read_collectives
from spmd_core.roofline import operations_of
from spmd_core.runs import Event, Partitioned, Requested, Texts
from spmd_core.script import program_text
from spmd_core.workloads import STRATEGIES

_TEXT, _BUFFERS = "*after_optimizations.txt", "*after_optimizations-buffer-assignment.txt"


def partitioned(experiment: Experiment, strategy: str) -> Partitioned:
    """Returns the collectives of the program of a strategy, its memory, and for an absent target the
    estimate of its time. For attached devices simulated ones stand in.

    Raises:
      RequestError: the compiler refuses it.
    """
    if STRATEGIES[strategy].is_map:
        raise refuse(f"strategy {strategy}", "is not partitioned by the compiler", "use auto")
    if experiment.place.is_absent:
        return _predicted(experiment, strategy)
    with dump_folder() as folder:
        options = {"xla_dump_to": str(folder), "xla_dump_hlo_as_text": True}
        options |= {"xla_dump_hlo_pass_re": PASSES} if experiment.exported else {}
        try:
            program = lowered(experiment, strategy)
            with without_code(program):
                program.compile(compiler_options=options)
        except jax.errors.JaxRuntimeError as error:
            raise _refused(str(error)) from error
        text, buffers = (next(folder.glob(name)).read_text() for name in (_TEXT, _BUFFERS))
        against = judged_of(experiment, folder).against if experiment.exported else None
    module = parse_module(text)
    collectives = read_collectives(
        module,
        experiment.mesh,
        file=quoted_files(experiment, strategy),
        reasons=Reasons(experiment, strategy, module),
    )
    peak = memory_account(own_buffers(text, buffers))["peak_memory"]
    return Partitioned(
        collectives=_with_dims(collectives, module),
        peak_bytes=peak,
        operations=operations_of(module),
        **(dict(against) if against else {}),
    )


def lowered(experiment: Experiment, strategy: str) -> Any:
    """Returns the program of a strategy, lowered for simulated devices."""
    text = program_text(experiment, strategy)
    names = complete(execute(text, file_name(experiment.workload, strategy)), experiment)
    return names["program"].trace(*structs(experiment, names)).lower()


def _predicted(experiment: Experiment, strategy: str) -> Partitioned:
    texts: dict[str, str] = {}

    def keep(event: Event) -> None:
        if isinstance(event, Texts):
            texts.update(event.texts)

    given = experiment.vary(strategies=[strategy])
    finished = predict_experiment(given, "", describe(given.target), keep, lambda: False)
    (outcome,) = finished.result.strategies.values()
    if outcome.error is not None:
        raise _refused(outcome.error.message)
    prediction = outcome.prediction
    assert prediction is not None
    if "hlo" not in texts:  # memory ran out
        raise _refused(" ".join(str(each.values.get("words")) for each in prediction.facts or ()))
    module = parse_module(texts["hlo"])
    return Partitioned(
        collectives=_with_dims(prediction.collectives, module),
        peak_bytes=prediction.memory_bytes.peak,
        is_compiled=prediction.program == "final",
        predicted_s=prediction.predicted_s,
        shares_s=prediction.shares_by_axis,
        lost_batch=outcome.lost_batch,
        accidents=outcome.accidents,
    )


def _refused(why: str) -> Exception:
    return refuse(
        "partitioning this program", f"fails ({' '.join(why.split())[:300]})", "change a spec"
    )


def _with_dims(collectives: tuple[Collective, ...], module: Module) -> tuple[Requested, ...]:
    """The collectives with the dim of the array that each moves; None of a sum, and of a merged one."""
    dims = {
        each.name: dims.strip("{}")
        for computation in module.computations
        for each in computation.instructions
        if (dims := each.attributes.get("dimensions"))
    }
    own = [dims.get(each.name or "", "") for each in collectives]
    return tuple(
        Requested(**dict(each), dim=int(dim) if dim.isdigit() else None)
        for each, dim in zip(collectives, own, strict=True)
    )


def propagated(experiment: Experiment, strategy: str) -> Partitioned:
    """Returns the types of the values of a strategy's program as propagation shards them. Its
    collectives are the compiler's: those that Shardy makes of the same shardings are others.
    """
    if program := experiment.exported:
        kind = experiment.place.kind
        module = meshed(program, kind if kind in ("tpu", "gpu") else "cpu", runs=False)
    else:
        module = lowered(experiment, strategy).compiler_ir("stablehlo")
    files = quoted_files(experiment, strategy)
    own, values = (files,) if isinstance(files, str) else files, Counter[tuple[str, str]]()
    with module.context:
        propagate(module)
        for (location, types, shardings), number in Counter(_alike(module.operation)).items():
            line = own_line(location, own)
            for of in _type_texts(types, shardings):
                values[line, of] += number
        outputs = tuple(result_specs(module, program.mesh)) if program and program.mesh else None
    listed = tuple((*of, n) for of, n in values.items())
    return Partitioned(collectives=(), values=listed, outputs=outputs)


def _alike(op: Any) -> Iterator[tuple[str, tuple[ir.Type, ...], ir.Attribute | None]]:
    """Yields the location, types and shardings of each operation that an operation's regions have:
    of many that are alike, text is made once.
    """
    for each in (each.operation for region in op.regions for block in region for each in block):
        if each.regions:
            yield from _alike(each)
        if each.name.startswith("stablehlo.") and each.name != "stablehlo.constant":
            shardings = each.attributes.get("sdy.sharding")
            yield str(each.location), tuple(of.type for of in each.results), shardings


def _type_texts(types: tuple[ir.Type, ...], shardings: ir.Attribute | None) -> Iterator[str]:
    given: list[Any] = [None] * len(types)
    if shardings is not None:
        given = [*sdy.TensorShardingPerValueAttr(shardings).shardings]
    for kind, sharding in zip(types, given, strict=True):
        if isinstance(kind, ir.RankedTensorType):
            shape = tuple(kind.shape)
            spec = ((),) * len(shape) if sharding is None else of_sharding(sharding, None)
            element = re.sub("^i1$", "bool", str(kind.element_type).replace("ui", "u"))
            yield str(sharding) if spec is None else type_text(element, shape, spec)
