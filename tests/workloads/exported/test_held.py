"""Which arrays of a program are alike, and what its author hardly meant: values alone."""

from dataclasses import replace

import pytest

from spmd_core.advice import checked_words, held_spec
from spmd_core.base import RequestError
from spmd_core.workloads import Described, Leaf, Program, findings, grouped, patterns
from spmd_core.workloads.exported.sizes import size_of
from spmd_core.workloads.exported.state import owners, replaced
from spmd_lab.ui.programs import treemap

NESTED = "b"
for _ in range(12):
    NESTED = f"floordiv({NESTED}, c)^8"


MESH = (("x", 4), ("y", 2))


def program(**specs):
    """A program whose outputs replace its arguments: path, with `__` for `/` -> spec."""
    leaves = [
        Leaf(path=path.replace("__", "/"), sizes=("512", "512"), dtype="float32", spec=spec, is_donated=True)
        for path, spec in specs.items()
    ]  # fmt: skip
    outputs = [leaf.model_copy(update={"path": f"0/{leaf.path}", "replaces": leaf.path}) for leaf in leaves]  # fmt: skip
    described = Described(
        program="", name="", function="f", platforms=("cpu",), mesh=MESH, devices=8, bytes=0,
        arguments=tuple(leaves), outputs=tuple(outputs),
    )  # fmt: skip
    return Program(described, MESH)


ROWS, COLUMNS, WHOLE = (("x",), ()), ((), ("x",)), ((), ())


@pytest.mark.parametrize(
    ("specs", "kinds"),
    [
        ({"params__a": WHOLE, "params__b": ROWS}, {"replicated"}),
        # each device has every parameter, and a part of the moments
        ({"params__a": WHOLE, "opt_state__mu__a": ROWS}, set()),
        ({"params__a": ROWS, "opt_state__mu__a": COLUMNS}, {"rule"}),
        ({"params__a": ROWS, "opt_state__mu__a": WHOLE}, {"rule"}),
        # moments over one more axis than their parameter, as of ZeRO
        ({"params__a": ROWS, "opt_state__mu__a": (("x",), ("y",))}, set()),
        ({"params__a": ROWS, "opt_state__mu__a": (("x", "y"), ())}, set()),
        # two matrices, one sharded by rows, one by columns
        ({"params__Dense_0__kernel": COLUMNS, "params__Dense_1__kernel": ROWS}, set()),
        (
            {f"params__block_{at}__{name}": ROWS for at in (0, 1) for name in ("up", "down")}
            | {"params__block_1__up": COLUMNS},
            {"rule"},
        ),
    ],
)
def test_what_is_found(specs, kinds):
    assert {each.kind for each in findings(program(**specs))} == kinds


@pytest.mark.parametrize("ones", [(("z",), ()), ((), ("z",)), (("z",), ("z", "z2"))])
def test_a_dim_over_axes_of_size_one_is_replicated(ones):
    """In findings as in pictures and tables; the spec itself stays as it was given."""
    mesh = (*MESH, ("z", 1), ("z2", 1))
    judged = lambda given: replace(program(params__a=given, params__b=ROWS), mesh=mesh)  # noqa: E731
    as_given, as_whole = judged(ones), judged(WHOLE)
    assert findings(as_given) == findings(as_whole)
    assert {each.kind for each in findings(as_given)} == {"replicated"}
    held, whole = (each.arguments()[0] for each in (as_given, as_whole))
    assert held.divided == WHOLE and held.spec == ones and held_spec(held) == held_spec(whole)
    assert treemap.how(treemap.Tile("a", (held,))) == treemap.REPLICATED


def test_a_clean_program_of_replicated_weights_says_that_it_holds_all_of_them():
    whole = replace(program(params__a=(("z",), ()), params__b=WHOLE), mesh=(*MESH, ("z", 1)))
    assert not findings(whole)
    held = "Each of 8 devices holds all weights, 2.0 MiB, as data parallelism does."
    assert held in checked_words(whole, None)
    assert "holds all weights" not in checked_words(program(params__a=ROWS, params__b=ROWS), None)


def test_what_a_program_holds_is_worked_out_once_and_anew_for_other_specs():
    one = program(params__a=WHOLE, params__b=ROWS)
    assert one.arguments() is one.arguments() and one.outputs() is one.outputs()
    assert findings(one) is findings(one)
    other = replace(one, specs=(("params/a", ROWS),))
    assert [each.spec for each in other.arguments()] == [ROWS, ROWS]
    assert findings(one) and not findings(other)


def with_batch(rows, spec=None, named=(), mesh=MESH, keys=("2",)):
    """Tensor parallelism over y, of tokens of `rows` rows and a key."""
    made = program(params__a=((), ("y",))).described
    batch = [Leaf(path=path, sizes=sizes, dtype="int32", spec=spec) for path, sizes in (("tokens", (rows, "64")), ("key", keys), ("step", ()))]  # fmt: skip
    update = {"arguments": (*made.arguments, *batch), "named_axes": named, "mesh": mesh}
    return Program(made.model_copy(update=update), mesh)


def test_an_axis_that_nothing_names_is_found_with_the_rows_that_it_divides():
    (found,) = findings(with_batch("16"))
    assert (found.kind, found.path, found.others) == ("unused_axis", "x", ("tokens",))
    specs = (("tokens", (("x",), ())),)
    assert findings(Program(with_batch("16").described, MESH, specs)) == ()
    (odd,) = findings(with_batch("6"))  # which four devices do not divide
    assert (odd.kind, odd.others) == ("unused_axis", ())
    two = findings(with_batch("8", mesh=(*MESH, ("z", 2))))
    assert [(each.path, each.others) for each in two] == [("x", ("tokens",)), ("z", ("tokens",))]
    (both,) = findings(with_batch("8", (("x",), ()), mesh=(*MESH, ("z", 4))))
    assert (both.path, both.others) == ("z", ()), "four of each of four devices need 16 rows"


def test_an_axis_that_shards_few_of_the_weights_and_none_of_the_batch_divides_no_work():
    """Of weights of one size an embedding alone, a half of them, or moments alone."""
    base = with_batch("16").described
    leaf = base.leaves["params/a"]
    over = lambda path, spec: leaf.model_copy(update={"path": path, "spec": spec})  # noqa: E731
    for others, kinds in (
        ([over("params/b", (("x",), ())), over("params/c", ((), ("y",)))], {"unused_axis"}),
        ([over("params/b", (("x",), ()))], set()),
        ([over("opt_state/mu/a", (("x",), ("y",)))], {"unused_axis"}),
    ):
        made = [each.model_copy(update={"path": f"0/{each.path}", "replaces": each.path}) for each in others]  # fmt: skip
        update = {"arguments": (*base.arguments, *others), "outputs": (*base.outputs, *made)}
        found = findings(Program(base.model_copy(update=update), MESH))
        assert {each.kind for each in found} == kinds, others
        assert all(each.path == "x" and each.others == ("tokens",) for each in found)


@pytest.mark.parametrize(
    "given", [{"named": ("x",)}, {"named": None}, {"spec": (("x",), ())}, {"mesh": (("x", 1), ("y", 8))}]
)  # fmt: skip
def test_an_axis_that_something_names_or_that_has_one_device_is_used(given):
    assert findings(with_batch("16", **given)) == ()


@pytest.mark.parametrize(("heads", "kinds"), [("2", set()), ("8", {"replicated"})])
def test_keys_of_fewer_heads_than_devices_are_meant_to_be_replicated(heads, kinds):
    spec = ((), ("x",), ())
    sizes = {"q": ("512", "16", "64"), "k": ("512", heads, "64")}
    arguments = tuple(
        Leaf(path=f"params/{name}", sizes=sizes[name], dtype="float32", spec=spec if name == "q" else ((),) * 3)
        for name in sizes
    )  # fmt: skip
    described = program(params__q=ROWS).described
    outputs = [leaf.model_copy(update={"path": f"0/{leaf.path}", "replaces": leaf.path}) for leaf in arguments]  # fmt: skip
    given = described.model_copy(update={"arguments": arguments, "outputs": tuple(outputs)})
    found = {each.kind for each in findings(Program(given, MESH))}
    assert found - {"missing_donation"} == kinds


@pytest.mark.parametrize(("spec", "count"), [(WHOLE, 1), (None, 0), (ROWS, 0)])
def test_a_large_result_that_the_file_replicates_is_found(spec, count):
    given = program(params__a=ROWS)
    logits = Leaf(path="logits", sizes=("512", "512"), dtype="float32", spec=spec, propagated=WHOLE)
    described = given.described.model_copy(update={"outputs": (*given.described.outputs, logits)})
    kinds = [each.kind for each in findings(Program(described, MESH))]
    assert kinds == ["replicated_output"] * count


def test_what_layers_have_in_common_is_said_once():
    given = {f"params__block_{at}__up": WHOLE for at in range(9)} | {"params__out": ROWS}
    found = program(**given)
    assert len(findings(found)) == 9
    (group,) = grouped(findings(found), found)
    assert len(group) == 9


def test_arrays_of_one_pattern_are_of_one_size():
    sizes = {
        **{f"p/blocks/{at}/up": "8" for at in (0, 1)},
        **{f"p/block_{at}/Dense_{of}/kernel": str(of) for at in (0, 1) for of in (3, 4)},
        "p/head_0": "8",
        "p/head_1": "8",
        "p/head_last": "8",
    }
    leaves = [Leaf(path=path, sizes=(size,), dtype="float32") for path, size in sizes.items()]
    found = patterns(leaves)
    assert set(found.values()) == {
        *("p/blocks/*/up", "p/block_*/Dense_3/kernel", "p/block_*/Dense_4/kernel"),
        *("p/head_0", "p/head_1", "p/head_last"),  # `p/head_*` would be `p/head_last` too
    }


LAYER = ("wi", "wo")


@pytest.mark.parametrize(
    "layer",
    ("{}", "layer_{}", "l{}", "h{}", "block{}", "h{}_mlp", "h.{}.mlp", "2d_block{}"),
)
def test_layers_are_alike_whatever_word_their_number_is_in(layer):
    names = [layer.format(at) for at in range(3)]
    found = patterns(leaves(*[f"p/{name}/{each}" for name in names for each in LAYER], "p/emb"))
    assert set(found.values()) == {"p/emb", *(f"p/{layer.format('*')}/{each}" for each in LAYER)}


@pytest.mark.parametrize(
    ("paths", "sizes"),
    [
        (["p/w1", "p/w2", "p/w3"], {}),  # of one layer
        ([f"p/conv{at}/{each}" for at in (1, 2, 3) for each in ("kernel", "bias")], {"bias": ("8",)}),
        ([f"p/l{at}/{each}" for at in (0, 1) for each in LAYER], {}),  # too few
        ([f"p/l{at}/{each}{at}" for at in range(3) for each in LAYER], {}),  # other arrays
        ([f"p/l{at}/{each}" for at in range(3) for each in LAYER] + ["p/last/wi"], {}),
    ],
)  # fmt: skip
def test_one_number_in_a_word_is_no_layer(paths, sizes):
    listed = [
        each.model_copy(update={"sizes": sizes.get(each.path.rpartition("/")[2], each.sizes)})
        for each in leaves(*paths)
    ]
    assert patterns(listed) == {path: path for path in paths}


def test_the_odd_one_of_layers_is_found_whatever_word_their_number_is_in():
    given = {f"params__h{at}__{each}": ROWS for at in range(4) for each in LAYER}
    (found,) = findings(program(**given | {"params__h2__wi": COLUMNS}))
    assert (found.kind, found.path, found.meant) == ("rule", "params/h2/wi", ROWS)


def leaves(*paths):
    return [Leaf(path=path, sizes=("8", "4"), dtype="float32") for path in paths]


def test_outputs_of_the_same_paths_replace_arguments_in_order_parameters_first():
    arguments = leaves("m/up", "m/down", "params/up", "params/down")
    outputs = leaves("0/up", "0/down", "1/up", "1/down", "2")
    found = [path for path, _ in replaced(arguments, outputs)]
    assert found == ["params/up", "params/down", "m/up", "m/down", None]
    named = [path for path, _ in replaced(arguments, leaves("output/m/up", "output/params/up"))]
    assert named == ["m/up", "params/up"]


def test_an_optimizer_keeps_what_ends_as_a_parameter():
    for parameter, kept in (
        ("params/attn/v/kernel", "opt_state/0/mu/attn/v/kernel"),
        ("params/attn/v/kernel", "m/attn/v/kernel"),
        ("state/params/Dense_0/kernel", "state/opt_state/0/nu/Dense_0/kernel"),
        ("state/0/a/kernel/value", "state/1/opt_state/0/mu/a/kernel/value"),
    ):
        other = parameter.replace("v", "k").replace("Dense_0", "Dense_1").replace("/a/", "/b/")
        assert owners(leaves(other, kept, parameter)) == {kept: parameter}


def test_moments_of_a_train_state_belong_to_the_parameter_beside_them():
    names = [
        f"state/{each}/{name}" for each in ("m", "params", "v") for name in ("embed", "attn/v/w")
    ]
    owned = owners(leaves(*names))
    assert owned == {
        f"state/{each}/{name}": f"state/params/{name}"
        for each in "mv"
        for name in ("embed", "attn/v/w")
    }
    assert owners(leaves("state/v/w", "state/k/w")) == {}, "without parameters beside them"


def test_a_replicated_weight_of_a_train_state_is_one_finding_with_its_moments():
    others = {f"state__{each}__layers__up": ROWS for each in ("m", "params", "v")}
    given = {f"state__{each}__embed": () for each in ("m", "params", "v")}
    (found,) = findings(program(**given | others))
    assert found.path == "state/params/embed"
    assert {*found.others} == {"state/m/embed", "state/v/embed"}


def test_an_expression_has_the_value_that_it_says():
    assert size_of("8*b + floordiv(c, 2) - mod(c, 2)", {"b": 3, "c": 5}) == 25
    assert size_of("max(b, 1)^2", {"b": 4}) == 16


@pytest.mark.parametrize(
    "expression",
    [
        NESTED,
        "b^-1",
        "9" * 5000,
        "9" * 30,
        "²",
        "max()",
        "floordiv(b)",
        "floordiv(b, 0)",
        "b.c",
        "\x00",
        "-" * 9000 + "b",
    ],
)
def test_what_is_no_size_is_refused(expression):
    with pytest.raises(RequestError, match="is none with b=9, c=1: use other dims"):
        size_of(expression, {"b": 9, "c": 1})
