"""The contract with jaxlib's private HloModule, and with what XLA writes, on the JAX that is
installed.
"""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

from spmd_core.engine import hlo
from spmd_core.engine.hlo import opcode_text, read_module, walked_collectives, walked_opcodes
from spmd_core.program import HloError, read_collectives

MESH = (("x", 2), ("y", 4))


def grid(order=range(8)):
    return Mesh(
        np.array([jax.devices()[position] for position in order]).reshape(2, 4),
        ("x", "y"),
        axis_types=(AxisType.Auto,) * 2,
    )


def compiled(function, *specs, mesh=None, shape=(64, 64)):
    mesh = mesh or grid()
    arguments = [
        jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))
        for spec in specs
    ]
    return jax.jit(function).lower(*arguments).compile()


def looped(x, w):
    def body(carry, _):
        return jax.lax.with_sharding_constraint(
            carry @ w, NamedSharding(grid(), P("x", None))
        ), None

    y, _ = jax.lax.scan(body, x, None, length=5)
    y = jax.lax.with_sharding_constraint(y, NamedSharding(grid(), P("y", "x")))
    return y.sum(), jax.lax.while_loop(
        lambda state: state[0, 0] < 1, lambda state: state.at[0].add(state.sum()), y
    )


def by_hand(x):
    gathered = jax.lax.all_gather(x, "y", tiled=True)
    swapped = jax.lax.all_to_all(gathered, "x", 0, 1, tiled=True)
    passed = jax.lax.ppermute(swapped, "x", [(0, 1), (1, 0)])
    scattered = jax.lax.psum_scatter(passed, ("x", "y"), tiled=True)
    return scattered + jax.lax.psum(x.sum(), "x")


PROGRAMS = {
    "looped": lambda: compiled(looped, P("x", "y"), P("y", "x")),
    "by hand": lambda: compiled(
        jax.shard_map(
            by_hand,
            mesh=grid(),
            in_specs=P(("x", "y"), None),
            out_specs=P(("x", "y"), None),
            check_vma=False,
        ),
        P(("x", "y"), None),
    ),
    "on one device": lambda: (
        jax.jit(lambda x: jnp.tanh(x @ x).sum())
        .lower(jax.ShapeDtypeStruct((64, 64), jnp.float32))
        .compile()
    ),
    "scalar": lambda: jax.jit(lambda x: x + 1).lower(1.0).compile(),
    "sort and cumsum": lambda: compiled(
        lambda x: (jnp.sort(x, axis=0), jnp.cumsum(x, axis=1), jnp.argmax(x, axis=0)), P("x", "y")
    ),
    "random": lambda: compiled(
        lambda x: x + jax.random.normal(jax.random.key(0), x.shape), P("x", None)
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_and_the_private_objects_name_the_same_instructions(name):
    program = PROGRAMS[name]()
    walked = walked_opcodes(program)
    assert walked, (
        "this jaxlib no longer offers HloModule: read_module reads the text alone, unchecked"
    )
    module = read_module(program)
    text = {
        instruction.name: instruction.opcode
        for computation in module.computations
        for instruction in computation.instructions
    }
    assert text == walked
    objects = program.runtime_executable().hlo_modules()[0]
    operands = {
        instruction.name: tuple(operand.name for operand in instruction.operands())
        for computation in objects.computations()
        for instruction in computation.instructions()
    }
    assert operands == {
        instruction.name: instruction.operands
        for computation in module.computations
        for instruction in computation.instructions
    }


def test_the_counts_of_both_agree():
    program = PROGRAMS["by hand"]()
    assert walked_collectives(program) == Counter(
        {
            "all-gather": 1,
            "all-to-all": 1,
            "collective-permute": 1,
            "reduce-scatter": 1,
            "all-reduce": 1,
        }
    )


def test_a_text_that_lacks_a_collective_is_an_error(monkeypatch):
    program = PROGRAMS["by hand"]()
    monkeypatch.setattr(hlo, "walked_collectives", lambda compiled: Counter({"all-gather": 2}))
    with pytest.raises(HloError, match="lacks all-gather"):
        read_module(program)


def test_a_jaxlib_without_the_private_objects_is_read_by_its_text():
    class TextOnly:
        def as_text(self):
            return PROGRAMS["by hand"]().as_text()

    assert walked_opcodes(TextOnly()) is None
    assert len(read_collectives(read_module(TextOnly()), MESH, file="test_hlo.py")) == 5


def test_opcodes_are_written_as_in_hlo():
    class Opcode:
        name = "kAllReduceStart"

    assert opcode_text(Opcode) == "all-reduce-start"


def test_every_collective_by_hand_is_read_with_its_axes_and_line():
    found = {
        each.kind: each
        for each in read_collectives(read_module(PROGRAMS["by hand"]()), MESH, file="test_hlo.py")
    }
    assert {kind: (each.axes, each.bytes) for kind, each in found.items()} == {
        "all-gather": (("y",), 32 * 64 * 4),  # a shard is 8 x 64
        "all-to-all": (("x",), 32 * 64 * 4),
        "collective-permute": (("x",), 64 * 32 * 4),
        "reduce-scatter": (("x", "y"), 64 * 32 * 4),
        "all-reduce": (("x",), 4),
    }
    first = by_hand.__code__.co_firstlineno
    lines = {
        kind: int(each.source.removeprefix("test_hlo.py:")) - first for kind, each in found.items()
    }
    assert lines == {
        "all-gather": 1,
        "all-to-all": 2,
        "collective-permute": 3,
        "reduce-scatter": 4,
        "all-reduce": 5,
    }


def test_loops_count_and_a_loop_without_end_in_sight_does_not():
    found = read_collectives(read_module(PROGRAMS["looped"]()), MESH, file="test_hlo.py")
    assert 5 in [each.count for each in found if each.kind == "all-reduce"]
    assert None in [each.count for each in found]


def test_axes_in_a_mesh_whose_device_order_is_not_that_of_the_ids():
    """Groups count the program's devices, which are the mesh's, in the mesh's order."""
    mesh = grid(order=(0, 5, 2, 7, 4, 1, 6, 3))
    program = compiled(lambda x: x.sum(axis=0), P("x", "y"), mesh=mesh)
    order = list(mesh.devices.flat)
    positions = tuple(
        order.index(device) for device in program.runtime_executable().local_devices()
    )
    (found,) = read_collectives(read_module(program), MESH, file="test_hlo.py", positions=positions)
    assert (found.kind, found.axes) == ("all-reduce", ("x",))
