"""Custom calls of a program that somebody hands in: what JAX writes is taken, and misfits are not."""

import importlib
import pkgutil
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax._src.internal_test_util import export_back_compat_test_data as files_of_old
from jax._src.interpreters import mlir
from jax.sharding import NamedSharding, PartitionSpec as P
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from bench.exported import abstract_mesh, written
from bench.exported_linalg import ROUTINES, arguments
from spmd_core.base import RequestError
from spmd_core.engine.exported import allowed, calls
from spmd_core.engine.exported.allowed import KERNELS, TARGETS, check_module, operations
from spmd_core.engine.exported.signatures import SIGNED
from spmd_core.workloads import programs
from tests.engine.exported.test_describe import rewritten
from tests.engine.exported.test_lower import compiled

pytestmark = pytest.mark.usefixtures("read_here")
ONCE = "stablehlo.dynamic_"  # calls that are gone once sizes are known


def custom_calls(module):
    """Each call of a module, with its target."""
    for op in operations(module.operation):
        if op.name.endswith(".custom_call"):
            yield op, ir.StringAttr(op.attributes["call_target_name"]).value


def modules_of_old():
    """The modules of the files that JAX promises to read."""
    for info in pkgutil.walk_packages(files_of_old.__path__, f"{files_of_old.__name__}."):
        waiting = [
            value
            for name, value in vars(importlib.import_module(info.name)).items()
            if name.startswith("data")
        ]
        while waiting:
            match waiting.pop():
                case {"mlir_module_serialized": module}:
                    yield module
                case dict() as more:
                    waiting += more.values()


def test_every_call_of_the_files_that_jax_promises_to_read_has_its_signature():
    seen = set()
    for data in modules_of_old():
        with mlir.make_ir_context() as context:
            for op, target in custom_calls(stablehlo.deserialize_portable_artifact(context, data)):
                calls.check_call(op, target, False)
                seen.add(target)
    assert seen >= SIGNED, "each signature was compared with a call"


def test_a_target_without_a_signature_is_known_by_name():
    unsigned = TARGETS - calls.KNOWN - KERNELS
    assert all(each.startswith(ONCE) for each in unsigned)


@pytest.mark.parametrize("name", ROUTINES)
def test_what_jax_lowers_now_is_taken(name):
    """Each dtype that is on without 64 bits, one in a batch under vmap, for each platform."""
    function, _ = ROUTINES[name]
    platforms = [["cpu"], ["tpu"], ["cuda"]]
    for (dtype, batch), platform in product((("float32", (2, 3)), ("complex64", ())), platforms):
        mapped = jax.vmap(function) if batch else function
        exporter = export.export(jax.jit(mapped), platforms=platform)
        try:
            exported = exporter(*arguments(name, dtype, batch))
        except (NotImplementedError, ValueError):
            assert platform != ["cpu"]  # eig and others are for the CPU alone
            continue
        with mlir.make_ir_context():
            check_module(exported.mlir_module(serialized=False), is_final=True)


def decomposed(x):
    """One of each kind of call for the CPU."""
    square = jnp.swapaxes(x, -1, -2) @ x + jnp.eye(x.shape[-1])
    return {
        "chol": jnp.linalg.cholesky(square),
        "lu": jax.lax.linalg.lu(square)[0],
        "qr": jnp.linalg.qr(x)[1],
        "svd": jnp.linalg.svd(x, full_matrices=False)[1],
        "eigh": jnp.linalg.eigh(square)[0],
        "solve": jnp.linalg.solve(square, jnp.swapaxes(x, -1, -2)),
    }


@pytest.mark.this_python
@pytest.mark.parametrize("spec", [P("x"), P(None, "x"), P(None, None, "x")])
def test_a_batch_of_decompositions_runs_on_every_sharding(spec):
    """Those of a batch are partitioned; others are gathered first."""
    shape = jax.ShapeDtypeStruct(
        (8, 16, 8), "float32", sharding=NamedSharding(abstract_mesh({"x": 8}), spec)
    )
    _, names, program = compiled(written(decomposed, {"x": shape}), mesh={"x": 8})
    x = next(iter(names["make_operands"]().values()))
    found = program(*(jax.device_put(x, names["placed"][at]) for at in names["placed"]))
    for one, expected in zip(found, jax.jit(decomposed)(x).values(), strict=True):
        np.testing.assert_allclose(np.abs(one), np.abs(expected), rtol=2e-3, atol=2e-5)


@pytest.mark.this_python
def test_symbolic_sizes_are_checked_once_they_are_known():
    b, n = export.symbolic_shape("b, n")
    shape = jax.ShapeDtypeStruct((b, n, 4), "float32")
    data = written(lambda x: jnp.linalg.svd(x, compute_uv=False), {"x": shape}, ("cpu",))
    compiled(data, mesh={"x": 8}, dims={"b": 8, "n": 6})
    # the shapes of results are operands: here more singular values than there are
    wrong = rewritten(data, lambda text: text.replace("stablehlo.minimum", "stablehlo.maximum"))
    programs.take(wrong)
    with pytest.raises(RequestError, match=r"'lapack_sgesdd_ffi' .* result 1 of type f32\[8,6\]"):
        compiled(wrong, mesh={"x": 8}, dims={"b": 8, "n": 6})


def with_call(text, line):
    """A module whose main function has one more call."""
    return text.replace("    return", f"    {line}\n    return", 1)


LAYOUTS = "operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>]"
LU = f'%unused:3 = stablehlo.custom_call @lapack_sgetrf_ffi(%arg0) {{has_side_effect = true, mhlo.backend_config = {{}}, {LAYOUTS}}} : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xi32>, tensor<i32>)'  # fmt: skip
MISFITS = {  # what is changed of a right call -> what the refusal has
    "result": ("-> (tensor<8x8xf32>", "-> (tensor<1x1xf32>", r"result 0 of type f32\[1,1\], not f32\[8,8\]"),
    "pivots": ("tensor<8xi32>", "tensor<1xi32>", r"result 1 of type i32\[1\], not i32\[8\]"),
    "dtype": ("lapack_sgetrf", "lapack_dgetrf", "operand of f32, not f64"),
    "attribute": ("backend_config = {}", "backend_config = {uplo = 76 : ui8}", "attributes 'uplo', not none"),
    "interface": ("mhlo.backend_config", "api_version = 2 : i32, mhlo.backend_config", "interface version 2"),
    "untyped": ("mhlo.backend_config = {}, ", "", "interface version 1"),
    "layout": ("dense<[0, 1]> : tensor<2xindex>]", "dense<[1, 0]> : tensor<2xindex>]", "operand_layouts"),
    "num_batch_dims": ("mhlo.backend", 'mhlo.frontend_attributes = {num_batch_dims = "1"}, mhlo.backend', "num_batch_dims"),
    "xla_shape": ("mhlo.backend", 'mhlo.other = "(f32[1,1])", mhlo.backend', "attribute 'mhlo.other', which"),
    "alias": (
        "mhlo.backend",
        "output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>, #stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>], mhlo.backend",
        "shares the buffer",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def square():
    """A program of one argument of 8 x 8."""
    return written(lambda x: x + 1, {"x": jax.ShapeDtypeStruct((8, 8), "float32")}, ("cpu",))


def test_the_call_that_is_changed_is_right(square):
    programs.take(rewritten(square, lambda text: with_call(text, LU)))


@pytest.mark.parametrize("kind", MISFITS)
def test_a_misfit_is_refused_when_it_is_taken(kind, square):
    before, after, words = MISFITS[kind]
    assert before in LU
    doctored = rewritten(square, lambda text: with_call(text, LU.replace(before, after, 1)))
    with pytest.raises(
        RequestError, match=rf"^custom call '\w+' of this program .*{words}.*: export"
    ):
        programs.take(doctored)


MATRIX, SMALL, SQUARE = "dense<[0, 1]> : tensor<2xindex>", "tensor<1x1xf32>", "tensor<8x8xf32>"
TOO_SMALL = {  # routine -> its operands, attributes, and the types of its results
    "getrf": ("%arg0", "", f"({SQUARE}) -> ({SMALL}, tensor<1xi32>, tensor<i32>)"),
    "syevd": (
        "%arg0",
        "mode = 86 : ui8, uplo = 76 : ui8",
        f"({SQUARE}) -> ({SMALL}, tensor<1xf32>, tensor<i32>)",
    ),
    "orgqr": ("%arg0, %taus", "", f"({SQUARE}, tensor<8xf32>) -> {SMALL}"),
    "trsm": (
        "%arg0, %arg0",
        "diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8",
        f"({SQUARE}, {SQUARE}) -> {SMALL}",
    ),
}


@pytest.mark.parametrize("name", TOO_SMALL)
def test_results_that_are_too_small_are_refused(name, square):
    """Each of these ended its worker by SIGSEGV."""
    operands, attributes, types = TOO_SMALL[name]
    left = "%unused:3" if "i32" in types else "%unused"
    call = f"{left} = stablehlo.custom_call @lapack_s{name}_ffi({operands}) {{has_side_effect = true, mhlo.backend_config = {{{attributes}}}}} : {types}"
    line = f"%taus = stablehlo.constant dense<0.0> : tensor<8xf32>\n    {call}"
    with pytest.raises(RequestError, match=rf"lapack_s{name}_ffi' .* of type f32\[1,1\], not f32"):
        programs.take(rewritten(square, lambda text: with_call(text, line)))


@pytest.mark.parametrize("mark", calls.MARKS)
def test_a_mark_that_xla_aborts_on_is_refused(mark, square):
    """XLA ends the process on a `Sharding` without its operand."""
    given = ("", "()") if calls.MARKS[mark][0] else ("%arg0", f"({SQUARE})")
    line = f"%unused = stablehlo.custom_call @{mark}({given[0]}) {{has_side_effect = true}} : {given[1]} -> {SQUARE}"
    with pytest.raises(RequestError, match=f"custom call '{mark}' of this program has . operands"):
        programs.take(rewritten(square, lambda text: with_call(text, line)))


@pytest.mark.parametrize("aggregate", [True, False])
def test_an_approximate_top_k_is_taken_and_its_misfits_are_not(aggregate):
    """JAX lowers one to such a call on every platform."""
    shape = jax.ShapeDtypeStruct((8, 512), "float32")
    step = lambda x: jax.lax.approx_max_k(x, 4, aggregate_to_topk=aggregate)  # noqa: E731
    data = written(step, {"x": shape})
    compiled(data, mesh={"x": 8})
    before = f"top_k = {4} : i64"
    for change in ((before, "top_k = 8 : i64"), ("reduction_dim = 1", "reduction_dim = 7")):
        wrong = rewritten(data, lambda text, change=change: text.replace(*change))
        with pytest.raises(RequestError, match="custom call 'ApproxTopK' of this program "):
            programs.take(wrong)


@pytest.mark.this_python
def test_a_call_without_a_signature_is_compiled_and_not_run(square, monkeypatch):
    data = rewritten(square, lambda text: with_call(text, LU))
    compiled(data, mesh={"x": 1}, target="cpu:1")
    monkeypatch.setattr(allowed, "KNOWN", ())
    with pytest.raises(RequestError, match=r"'lapack_sgetrf_ffi' .* is compiled, and not run"):
        compiled(data, mesh={"x": 1}, target="cpu:1")
