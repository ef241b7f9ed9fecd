"""Pasted code, read as syntax: what is a spec, what is none, and that nothing runs."""

import ast

import jax
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

from spmd_core.base import RequestError
from spmd_core.experiment import read_pasted, read_spec, spec_code


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("P('x', None)", (("x",), ())),
        ("P()", ()),
        ('jax.sharding.PartitionSpec(("x", "y"), None, "z")', (("x", "y"), (), ("z",))),
        ("NamedSharding(mesh, P(None, 'y'))", ((), ("y",))),
        ("NamedSharding(mesh=mesh, spec=jax.P('x'))", (("x",),)),
        ("('x', None)", (("x",), ())),
        ("out_shardings=P('x',),"[len("out_shardings=") : -1], (("x",),)),
        ("  s = NamedSharding(Mesh(devices, ('x',)), P('x'))  # rows", (("x",),)),
    ],
)
def test_a_spec_is_read(text, spec):
    assert read_spec(text) == spec


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x = jax.device_put(x, NamedSharding(mesh, P('x', None)))", ["x"]),
        ("y = jax.lax.with_sharding_constraint(h, P('x'))", ["h"]),
        ("w_spec = P('y')\nx_spec = P('x')", ["w_spec", "x_spec"]),
        (
            "jax.jit(f, in_shardings=(P('x'), P(None)), out_shardings=P('y'))",
            ["", "", "out_shardings"],
        ),
    ],
)
def test_what_a_spec_is_for_is_read(text, names):
    assert [name for name, _ in read_pasted(text).specs] == names


@pytest.mark.parametrize(
    "text",
    [
        "mesh = jax.make_mesh((2, 4), ('x', 'y'))",
        "AbstractMesh((2, 4), ('x', 'y'))",
        "Mesh(np.array(jax.devices()).reshape(2, 4), ('x', 'y'))",
        "Mesh(np.array(jax.devices()).reshape((2, 4)), axis_names=('x', 'y'))",
    ],
)
def test_a_mesh_is_read(text):
    assert read_pasted(text).mesh == (("x", 2), ("y", 4))


def test_what_jax_prints_is_read():
    sharding = NamedSharding(jax.make_mesh((2, 4), ("x", "y")), P("x", ("y",)))
    found = read_pasted(repr(sharding))
    assert found.mesh == (("x", 2), ("y", 4))
    assert [spec for _, spec in found.specs] in ([(("x",), ("y",))],)
    assert read_spec(repr(P("x", None))) == (("x",), ())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello world",
        "x = 1",
        "import os",
        "P",
        "[1, 2]",
        "P('x'",
        "\0",
        "(" * 500,
        "(1, 2)",
        "f'{__import__(\"os\")}'",
        "x" * 5000,
        "lambda: 0",
        "P(*axes)",
        "P('x', name)",
        "P(1)",
        "P(open('/tmp/x').read())",
        "P(P('x'))",
        "P('x', unreduced={'y'})",
        "-" * 3000 + "1",
        "P(" + "-" * 900 + "1)",
        "P(" + "f(" * 900 + ")" * 901,
        "P(a" + ".b" * 900 + ")",
        "P('x', " + "1+" * 900 + "1)",
        f"P(0x{'f' * 3900})",
        "x = P('x'" * 24,
        f"f({'P(),' * 990})",
    ],
)
def test_what_is_no_spec_gets_one_sentence_and_never_runs(text):
    with pytest.raises(RequestError) as refused:
        read_spec(text)
    said = str(refused.value)
    assert "\n" not in said and len(said) < 400
    assert "write" in said or "paste" in said


def test_the_sentence_says_what_is_read():
    with pytest.raises(RequestError) as refused:
        read_spec("hello")
    assert str(refused.value) == (
        "'hello' has no PartitionSpec: write P('x', None), PartitionSpec(('x', 'y')), "
        "NamedSharding(mesh, P('x')) or a line with one; it is read, not evaluated"
    )


@pytest.mark.parametrize("text", ["P('x', None)", "P()", "P(('x', 'y'), None, 'z')"])
def test_a_spec_is_written_as_it_is_read(text):
    assert spec_code(read_spec(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        f"make_mesh((0x{'f' * 3900},), ('x',))",
        "make_mesh((2,), ('\\ud800',))",
        "make_mesh((99999999, 2), ('x', 'y'))",
    ],
)
def test_a_mesh_that_is_none_gets_one_sentence(text):
    with pytest.raises(RequestError) as refused:
        read_pasted(text).check()
    assert "mesh" in str(refused.value) and len(str(refused.value)) < 200


@pytest.mark.parametrize("text", ["P('\\ud800')", "P('a b')", "('x', '\\ud800')", "P(('x', ''))"])
def test_an_axis_that_no_mesh_can_have_is_refused(text):
    with pytest.raises(RequestError, match=r"mesh axis .* is not a name"):
        read_spec(text)


def test_many_specs_are_read_in_one_pass(monkeypatch):
    """How many nodes are looked at grows as the text does."""
    seen = 0
    children = ast.iter_child_nodes

    def counted(node):
        nonlocal seen
        seen += 1
        return children(node)

    monkeypatch.setattr(ast, "iter_child_nodes", counted)
    assert len(read_pasted(f"f({'P(),' * 390})").specs) == 390
    assert seen < 8_000


@pytest.mark.parametrize(
    ("text", "shape", "dtype", "specs"),
    [
        ("f32[8@x,16@y]", (8, 16), "float32", [(("x",), ("y",))]),
        ("ShapedArray(bfloat16[64,128@(x,y)])", (64, 128), "bfloat16", [((), ("x", "y"))]),
        ("s32[4@x]", (4,), "int32", [(("x",),)]),
        ("bf16[64,128]", (64, 128), "bfloat16", []),
        ("jnp.zeros((64, 128), jnp.bfloat16)", (64, 128), "bfloat16", []),
        (
            "x = jnp.zeros((64, 128), device=NamedSharding(mesh, P('x', None)))",
            (64, 128),
            None,
            [(("x",), ())],
        ),
        ("jax.ShapeDtypeStruct((8, 4), 'int32', sharding=P('x'))", (8, 4), "int32", [(("x",),)]),
        ("np.arange(512).reshape((8, 64))", (8, 64), None, []),
    ],
)
def test_shape_and_dtype_are_read_of_types_and_of_calls_that_make_an_array(
    text, shape, dtype, specs
):
    pasted = read_pasted(text)
    assert [(each.shape, each.dtype) for each in pasted.arrays] == [(shape, dtype)]
    assert [spec for _, spec in pasted.specs] == specs


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("f32[8@1x]", "is not a name"),
        ("f32[8@x,n]", "has no PartitionSpec"),
        ("jnp.zeros(shape)", "has no PartitionSpec"),
        (f"f32[{'2,' * 20}2]", "more than 16"),
    ],
)
def test_a_type_that_is_none_is_refused(text, said):
    with pytest.raises(RequestError, match=said):
        read_pasted(text)


_MESH = "mesh = jax.make_mesh((2, 4), ('x', 'y'))\n"


@pytest.mark.parametrize(
    "text",
    [
        "shape, axes = (2, 4), ('x', 'y')\nmesh = jax.make_mesh(shape, axes)",
        "n = 2\nmesh = jax.make_mesh(axis_shapes=(n, 4), axis_names=('x', 'y'))",
        "d = np.array(jax.devices()).reshape(2, 4)\nmesh = Mesh(d, ('x', 'y'))",
        "d = jax.devices()\nd = 1\nmesh = Mesh(np.reshape(d, (2, 4)), ('x', 'y'))",
        "from jax.experimental import mesh_utils as mu\nd = mu.create_device_mesh((2, 4))\n"
        "with jax.sharding.Mesh(d, axis_names=('x', 'y')) as mesh: pass",
        "Mesh(mesh_utils.create_hybrid_device_mesh((1, 4), (2, 1)), ('x', 'y'))",
        "from jax.sharding import Mesh as M\nM(np.array(jax.devices()).reshape(2, 4), ('x', 'y'))",
        "AbstractMesh((('x', 2), ('y', 4)))",
    ],
)
def test_a_mesh_is_read_through_variables_and_aliases(text):
    pasted = read_pasted(text)
    assert (pasted.mesh, pasted.unread) == ((("x", 2), ("y", 4)), ())


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("from jax.sharding import PartitionSpec as PS\nPS('x', None)", [("", (("x",), ()))]),
        ("S = jax.sharding.PartitionSpec\na = S('y')", [("a", (("y",),))]),
        ("s = NamedSharding(mesh, P('x'))\nw = jax.device_put(w, s)", [("w", (("x",),))]),
        ("rows = 'x'\naxes = (rows, None)\na = P(*axes)", [("a", (("x",), ()))]),
        ("a, b = P('x'), P('y')", [("a", (("x",),)), ("b", (("y",),))]),
    ],
)
def test_a_spec_is_read_through_variables_and_aliases(text, specs):
    pasted = read_pasted(text)
    assert (list(pasted.specs), pasted.unread) == (specs, ())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("P('x')\nmesh = jax.make_mesh((n, 4), ('x', 'y'))", 2),
        ("P('x')\n\nmesh = get_mesh()", 3),
        ("P('x')\nmesh = Mesh(devices, ('x', 'y'))", 2),
        ("P('x')\nmesh = Mesh(np.array(jax.devices()).reshape(2, -1), ('x', 'y'))", 2),
        ("P('x')\nfor n in (2, 4): mesh = jax.make_mesh((n,), ('x',))", 2),
        (_MESH + "other = jax.make_mesh((8,), ('x',))", 2),
        (_MESH + "x = jax.device_put(x, NamedSharding(mesh, PS('x')))", 2),
        (_MESH + "x = jax.device_put(x, sharding)", 2),
        (_MESH + "jax.jit(f, in_shardings=(s, P('y')))", 2),
        (_MESH + "s = P('x')\ns = P('y')\nx = jax.device_put(x, s)", 4),
        (_MESH + "P('x', name)", 2),
    ],
)
def test_a_mesh_or_spec_that_is_not_read_is_named_by_its_line(text, line):
    pasted = read_pasted(text)
    assert [each.line for each in pasted.unread] == [line]
    with pytest.raises(RequestError):
        pasted.check()


def test_names_of_names_end_soon():
    text = "a = P('x')\n" + "".join(
        f"{to} = ({of}, {of}, {of}, {of}, {of}, {of})\n"
        for of, to in zip("abcdefg", "bcdefgh", strict=True)
    )
    with pytest.raises(RequestError, match="paste fewer lines"):
        read_pasted(text + "jax.jit(f, in_shardings=h)")
    assert read_pasted("a = b\nb = a\nx = jax.device_put(x, a)").unread


@pytest.mark.parametrize(
    "code",
    [
        "s = NamedSharding(mesh, P('x'), memory_kind='pinned_host')",
        "s = NamedSharding(mesh, P('x'), memory_kind='device')",
        "kind = 'pinned_host'\ns = NamedSharding(mesh, P('x'), memory_kind=kind)",
        "s = NamedSharding(mesh, P('x')).with_memory_kind('pinned_host')",
        "base = NamedSharding(mesh, P('x'), memory_kind='device')\n"
        "s = base\ns = jax.device_put(x, base.with_memory_kind('pinned_host')).sharding",
        "s = NamedSharding(mesh, P('x'), memory_kind='pinned_host').with_memory_kind('device')",
    ],
)
def test_the_memory_kind_is_that_of_the_sharding_that_jax_makes(code):
    names = {"mesh": jax.make_mesh((1,), ("x",)), "x": jax.numpy.zeros(8)}
    exec(code, {"jax": jax, "NamedSharding": NamedSharding, "P": P}, names)
    assert read_pasted(code).memory == (names["s"].memory_kind,)


@pytest.mark.parametrize("kind", ["'disk'", "kind", "3"])
def test_a_memory_kind_that_is_not_known_is_refused(kind):
    pasted = read_pasted(f"s = NamedSharding(mesh, P('x'), memory_kind={kind})")
    with pytest.raises(RequestError, match="write 'device' or 'pinned_host'"):
        pasted.check()
