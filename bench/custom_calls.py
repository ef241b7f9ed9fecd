"""Custom calls of exported programs with one thing wrong: each is refused, and no call that is not
refused ends the process that runs it.

Right calls are those that JAX lowers now, and those of the files that it promises to read. Each draw
changes one thing of a right call. What is not refused runs on the CPU, each in a process of its own.
Some misfits run there too, without the check: how many end their process is what the check prevents.

    python -m bench.custom_calls [--draws 12] [--unchecked 60]
"""

import importlib
import itertools
import multiprocessing
import os
import pkgutil
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax import export
from jax._src.internal_test_util import export_back_compat_test_data as files_of_old
from jax._src.interpreters import mlir
from jax._src.lax import linalg
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from bench.exported_linalg import DTYPES, ROUTINES, arguments
from bench.figures import Asked, Figures, measure
from spmd_core.base import RequestError
from spmd_core.engine.exported.allowed import check_module, operations
from spmd_core.engine.exported.signatures import SIGNED

MOST_S = 20  # of a call that runs
SCALE = 16  # of the sizes: what is written past a small buffer may go unnoticed
ON_CPU = re.compile(r"lapack_\w+_ffi|Qr|Eigh|ProductOfElementaryHouseholderReflectors")
# the last operand may be smaller, or the result larger: another size alone is no misfit
FREE = re.compile(r"\w*(or|un)gqr_ffi|Product\w+|\w+_lu_pivots_to_permutation")
_CALL = re.compile(r".*custom_call @\"?([\w.]+)\"?\(.*?\) (?:\{(.*)\} )?: \((.*)\) -> \(?(.*?)\)?$")
_LEFT_OUT = re.compile(
    r"output_operand_aliases = \[(?:#stablehlo[^>]*>,? ?)*\],? ?|,? ?sdy\.sharding_rule = .*>"
)
_DTYPES = {"f32": "float32", "f64": "float64", "i32": "int32", "ui32": "uint32"} | {
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}


@dataclass(frozen=True)
class Call:
    """A call as text: its types are those of MLIR."""

    target: str
    attributes: str
    operands: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def module(self) -> str:
        """A module whose main function makes the call."""
        names = ", ".join(f"%a{at}" for at in range(len(self.operands)))
        given = ", ".join(f"%a{at}: {kind}" for at, kind in enumerate(self.operands))
        types, returned = ", ".join(self.operands), ", ".join(self.results)
        parts = ", ".join(f"%0#{at}" for at in range(len(self.results)))
        return (
            "module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n"
            f"func.func public @main({given}) -> ({returned}) {{\n"
            f"%0:{len(self.results)} = stablehlo.custom_call @{self.target}({names}) "
            f"{{{self.attributes}}} : ({types}) -> ({returned})\n"
            f"return {parts} : {returned} }} }}"
        )


def right_calls() -> dict[str, list[Call]]:
    """Right calls by target."""
    found: dict[str, list[Call]] = {}
    for module in (*lowered(), *of_files()):
        for op in operations(module.operation):
            if (match := _CALL.fullmatch(str(op).strip())) and match[1] in SIGNED:
                attributes = _LEFT_OUT.sub("", match[2] or "").strip().rstrip(",")
                operands, results = (tuple(match[at].split(", ")) for at in (3, 4))
                if "?" not in str(op) and "tuple<" not in str(op):
                    call = Call(match[1], attributes, operands, results)
                    found.setdefault(match[1], []).append(call)
    return found


def lowered() -> Iterator[ir.Module]:
    """Each routine in each dtype for the CPU, with and without a batch, and some for TPUs."""
    on = [(name, "cpu") for name in ROUTINES] + [(name, "tpu") for name in ("qr", "lu", "eigh")]
    for (name, platform), dtype, batch in itertools.product(on, DTYPES, ((), (3,))):
        if platform == "tpu" and (dtype, batch) != ("float32", ()):
            continue
        function = ROUTINES[name][0]
        mapped = jax.vmap(function) if batch else function
        given = arguments(name, dtype, batch, SCALE)
        exported = export.export(jax.jit(mapped), platforms=[platform])(*given)
        with mlir.make_ir_context():
            yield exported.mlir_module(serialized=False)


def of_files() -> Iterator[ir.Module]:
    """The modules of the files that JAX promises to read."""
    for info in pkgutil.walk_packages(files_of_old.__path__, f"{files_of_old.__name__}."):
        names = vars(importlib.import_module(info.name))
        waiting = [value for name, value in names.items() if name.startswith("data")]
        while waiting:
            match waiting.pop():
                case {"mlir_module_serialized": module}:
                    with mlir.make_ir_context() as context:
                        yield stablehlo.deserialize_portable_artifact(context, module)
                case dict() as more:
                    waiting += more.values()


def _resized(kind: str, rng: random.Random) -> str:
    """A type with another size of one dim."""
    dims = list(re.finditer(r"\d+(?=x)", kind))
    if not dims:
        return kind
    dim = rng.choice(dims)
    size = rng.choice([each for each in (1, 2, 3, 5) if each != int(dim[0])])
    return kind[: dim.start()] + str(size) + kind[dim.end() :]


def result_size(call: Call, rng: random.Random) -> Call:
    """A size of a result."""
    at = rng.randrange(len(call.results))
    kinds = [
        _resized(kind, rng) if at == place else kind for place, kind in enumerate(call.results)
    ]
    return call if FREE.fullmatch(call.target) and "pivots" in call.target else replace(call, results=tuple(kinds))  # fmt: skip


def operand_size(call: Call, rng: random.Random) -> Call:
    """A size of an operand."""
    first, *others = call.operands
    if FREE.fullmatch(call.target):
        return call if "pivots" in call.target else replace(call, operands=(_resized(first, rng), *others))  # fmt: skip
    at = rng.randrange(len(call.operands))
    kinds = [
        _resized(kind, rng) if at == place else kind for place, kind in enumerate(call.operands)
    ]
    return replace(call, operands=tuple(kinds))


def dtype(call: Call, rng: random.Random) -> Call:
    """The dtype of a result."""
    at = rng.randrange(len(call.results))
    kind = call.results[at]
    other = "f16>" if not kind.endswith("f16>") else "f32>"
    new = re.sub(r"(complex<f\d\d>|u?[if]\d+|bf16)>$", other, kind)
    return replace(call, results=(*call.results[:at], new, *call.results[at + 1 :]))


def fewer(call: Call, rng: random.Random) -> Call:
    """A result that is missing, with its layout."""
    if len(call.results) == 1:
        return call
    attributes = re.sub(r"(, dense<[^>]*> : tensor<\dxindex>)\](?!.*tensor<\dxindex>)", "]", call.attributes)  # fmt: skip
    return replace(call, results=call.results[:-1], attributes=attributes)


def attribute(call: Call, rng: random.Random) -> Call:
    """An attribute with a value that no call has, of another type, or one too many."""
    if "mhlo.backend_config = {" not in call.attributes:
        return replace(call, attributes='backend_config = "3"')
    choices = [("backend_config = {", "backend_config = {zz = 1 : i32" + (", " if "config = {}" not in call.attributes else ""))]  # fmt: skip
    choices += [(f"{number} : ui8", "3 : ui8") for number in re.findall(r"(\d+) : ui8", call.attributes)]  # fmt: skip
    choices += [(" : ui8", " : i32")] if " : ui8" in call.attributes else []
    before, after = rng.choice(choices)
    return replace(call, attributes=call.attributes.replace(before, after, 1))


def interface(call: Call, rng: random.Random) -> Call:
    """Another version of the interface."""
    return replace(call, attributes=f"{call.attributes}, api_version = 3 : i32".lstrip(", "))


def batch(call: Call, rng: random.Random) -> Call:
    """Another number of dims that count as a batch."""
    given = re.sub(r"mhlo\.frontend_attributes = \{[^}]*\},? ?", "", call.attributes)
    more = 'mhlo.frontend_attributes = {num_batch_dims = "7"}'
    return replace(call, attributes=f"{given}, {more}".strip(", "))


CHANGES = (result_size, operand_size, dtype, fewer, attribute, interface, batch)


def is_refused(call: Call) -> bool:
    """Returns True if the call cannot be read, or the check refuses it."""
    with mlir.make_ir_context():
        try:
            check_module(ir.Module.parse(call.module), is_final=True)
        except (RequestError, ir.MLIRError):
            return True
    return False


def _run(call: Call) -> None:
    """Runs a call; a Python exception is an answer."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    linalg.initialize_lapack()
    with mlir.make_ir_context():
        module = ir.Module.parse(call.module)
        main: Any = ir.SymbolTable(module.operation)["main"]
        shapes = [
            [(tuple(each.shape), _DTYPES[str(each.element_type)]) for each in map(ir.RankedTensorType, side)]
            for side in (main.type.inputs, main.type.results)
        ]  # fmt: skip
        rng = np.random.default_rng(0)
        given = [np.asarray(3 * rng.normal(size=shape)).astype(name) for shape, name in shapes[0]]
        function = lambda *x: tuple(jax.numpy.zeros(shape, name) for shape, name in shapes[1])  # noqa: E731
        program = jax.jit(function, keep_unused=True).trace(*given).lower()
        lowering: Any = program._lowering
        lowering._hlo = module
        jax.block_until_ready(program.compile()(*given))


def status(call: Call) -> int | None:
    """Returns how a process that runs the call ends: 0, 1 for an exception, the negative number of a
    signal; None if it takes too long.
    """
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__spec__.name if __spec__ else __name__])
    child = processes.Process(target=_run, args=(call,))
    child.start()
    child.join(MOST_S)
    ended = child.exitcode
    child.kill()
    child.join()
    return ended


def main(asked: Asked, figures: Figures) -> None:
    """Draw, check and run."""
    jax.config.update("jax_enable_x64", True)
    rng, found = random.Random(1), right_calls()
    rights = [rng.choice(calls) for calls in found.values() for _ in range(2)]
    figures.add("targets with a signature that were drawn", len(found), least=len(SIGNED))
    wrong = sum(map(is_refused, rights))
    figures.add("right calls refused", wrong, most=0, note=f"of {len(rights)}")
    drawn = [
        (change, changed)
        for calls in found.values()
        for change in CHANGES
        for call in rng.choices(calls, k=asked.draws)
        if (changed := change(call, rng)) != call
    ]
    taken = [(change.__name__, call) for change, call in drawn if not is_refused(call)]
    for name, call in taken[:5]:
        print(name, call)
    figures.add("misfits not refused", len(taken), most=0, note=f"of {len(drawn):,}")
    run = [call for call in rights if ON_CPU.fullmatch(call.target)]
    ended = [status(call) for call in run]
    figures.add("right calls that run", ended.count(0), least=len(run), note=f"of {len(run)}")
    more = [status(call) for _, call in taken if ON_CPU.fullmatch(call.target)]
    crashed = sum(each is not None and each < 0 for each in (*ended, *more))
    figures.add("calls not refused that end their process", crashed, most=0)
    unchecked = [call for _, call in drawn if ON_CPU.fullmatch(call.target)]
    some = rng.sample(unchecked, min(asked.unchecked, len(unchecked)))
    crashed = sum((status(call) or 0) < 0 for call in some)
    figures.add("misfits that end it without the check", crashed, note=f"of {len(some)}")


if __name__ == "__main__":
    measure(main, __doc__, draws=12, unchecked=60)
