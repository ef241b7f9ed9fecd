"""The specs that are offered for replicated weights."""

import pytest

from spmd_core.advice import (
    all_findings,
    compiled_findings,
    costs_words,
    grouped_findings,
    held_bytes,
)
from spmd_core.facts import Accident
from spmd_core.results import StrategyResult
from spmd_core.workloads import Described, Leaf, Program

MESH = (("data", 2), ("model", 4))
W1, EVERY = ((), ("data",), ("model",)), ((), (), ("data", "model"))


def offered(path="params/layers/w2", sizes=(24, 512, 128), **specs):
    """What mends a replicated weight beside w1, [24, 128, 512], and beside others, by path."""
    shapes = {"params/layers/w1": (24, 128, 512), path: sizes}
    leaves = [
        Leaf(
            path=each,
            sizes=tuple(map(str, shapes.get(each, sizes))),
            dtype="float32",
            spec=spec,
            is_donated=True,
        )
        for each, spec in ({path: ((),) * len(sizes), "params/layers/w1": W1} | specs).items()
    ]
    outputs = [leaf.model_copy(update={"path": f"0/{leaf.path}", "replaces": leaf.path}) for leaf in leaves]  # fmt: skip
    described = Described(
        program="", name="", function="f", platforms=("tpu",), mesh=MESH, devices=8, bytes=0,
        arguments=tuple(leaves), outputs=tuple(outputs),
    )  # fmt: skip
    (found,) = grouped_findings(Program(described, MESH))
    return found


@pytest.mark.parametrize(
    ("given", "spec"),
    [
        ({}, ((), ("model",), ("data",))),  # w1 transposed
        ({"sizes": (24, 128, 512)}, W1),
        ({"sizes": (24, 256, 1024)}, EVERY),  # of no weight beside it
        ({"params/layers/w3": EVERY}, EVERY),  # of its shape, before a transposed one
        ({"params/head/w3": W1}, ((), ("model",), ("data",))),  # the nearer one
        ({"params/layers/w1": ((), ("data",), ())}, EVERY),  # which holds fewer bytes
    ],
)
def test_a_replicated_weight_is_offered_the_spec_of_the_weight_beside_it(given, spec):
    found = offered(**given)
    assert found.kind == "replicated" and dict(found.specs) == {"params/layers/w2": spec}


@pytest.mark.parametrize(
    ("weights", "batch", "axes", "specs"),
    [
        # data shards a weight and no batch: the rows of all its arrays, but for what has others
        ("data", (), "data", {"batch/tok": (("data",), ()), "batch/tgt": (("data",), ())}),
        ("data", ("model",), "data", {}),  # weights that are sharded beside a sharded batch
        ("data", ("data",), "data", {}),  # it names the axis
        (
            "",
            ("data",),
            "model",
            dict.fromkeys(("batch/tok", "batch/tgt"), (("data", "model"), ())),
        ),
    ],
)
def test_work_that_an_axis_repeats_is_offered_the_rows_of_the_batch(weights, batch, axes, specs):
    leaf = lambda path, sizes, spec: Leaf(path=path, sizes=sizes, dtype="float32", spec=spec)  # noqa: E731
    w = leaf("params/w", ("64", "64"), ((weights,) if weights else (), ()))
    rows = [leaf(f"batch/{name}", ("16", "32"), (batch, ())) for name in ("tok", "tgt")]
    seed = leaf("batch/seed", ("2",), ((),))
    described = Described(
        program="", name="", function="f", platforms=("tpu",), mesh=MESH, devices=8, bytes=0,
        arguments=(w, *rows, seed), outputs=(w.model_copy(update={"replaces": w.path}),),
    )  # fmt: skip
    repeated = Accident(kind="repeated_work", axes=(axes,), source="f.py:3", share=1, work=4)
    result = StrategyResult(status="ok", accidents=(repeated,))
    (found,) = compiled_findings(result, Program(described, MESH))
    assert dict(found.specs) == specs
    named = "no dim of batch/tok and batch/tgt, the batch, is sharded over it"
    assert (named in found.sentence) == bool(specs)


@pytest.mark.parametrize(
    ("spec", "is_refuted", "ends"),
    [
        ((("ep",), ("dp",)), False, "the constraint of f.py:2 drops it: constrain it to P('ep', 'dp')"),
        ((("ep",), ("dp",)), True, "the constraint of f.py:2 drops it"),
        ((), False, "the constraint of f.py:2 drops it: name it there"),
    ],
)  # fmt: skip
def test_a_constraint_that_drops_an_axis_is_offered_the_spec_that_keeps_it(spec, is_refuted, ends):
    repeated = Accident(
        kind="repeated_work", axes=("dp",), source="f.py:3", dropped_at="f.py:2", spec=spec
    )
    specs = {"@f.py:2": spec} if spec else {}
    result = StrategyResult(status="ok", accidents=(repeated,))
    (found,) = compiled_findings(result, refuted=[specs] if is_refuted else [])
    assert dict(found.specs) == ({} if is_refuted else specs)
    assert found.sentence.endswith(ends)


def test_a_table_is_not_offered_the_transposed_spec_of_a_head_beside_it():
    found = offered(path="params/embed", **{"params/layers/w1": W1})
    assert dict(found.specs) == {"params/embed": EVERY}


@pytest.mark.parametrize(
    ("rows", "spec"),
    [("16", "P('data', None, None)"), ("6", "P(None, None, ('data', 'model'))")],
)
def test_a_replicated_result_is_offered_the_rows_of_the_batch_else_most_parts(rows, spec):
    leaf = lambda path, sizes, spec: Leaf(path=path, sizes=sizes, dtype="float32", spec=spec)  # noqa: E731
    batch = leaf("batch", ("16", "32"), (("data",), ()))
    w = leaf("params/w", ("64", "64"), ((), ("model",)))
    described = Described(
        program="", name="", function="f", platforms=("tpu",), mesh=MESH, devices=8, bytes=0,
        arguments=(w, batch), outputs=(leaf("logits", (rows, "512", "512"), ((), (), ())),),
    )  # fmt: skip
    (found,) = grouped_findings(Program(described, MESH))
    assert found.kind == "replicated_output"
    assert f"try {spec} there" in found.sentence


def test_a_donated_argument_that_leaves_otherwise_is_named_as_it_enters():
    w = Leaf(path="params/w", sizes=("64", "64"), dtype="float32", spec=(("data",), ()))
    described = Described(
        program="", name="", function="f", platforms=("tpu",), mesh=MESH, devices=8, bytes=0,
        arguments=(w,), outputs=(w.model_copy(update={"replaces": w.path}),),
    )  # fmt: skip
    leaves = Accident(kind="resharded_donation", path=w.path, bytes=2**20, spec=((), ("data",)))
    result = StrategyResult(status="ok", accidents=(leaves,))
    (found,) = compiled_findings(result, Program(described, MESH))
    assert found.sentence.endswith("name in its out_shardings P('data', None)")


@pytest.mark.parametrize(
    ("path", "leaves", "others", "is_mended"),
    [
        ("mu/w", None, 0, True),  # as its fix lets it enter
        ("mu/w", ((), ("data",)), 0, False),  # otherwise
        ("mu/w", None, 1, False),  # beside one without a fix
        ("params/w", None, 0, False),
    ],
)
def test_a_donated_argument_that_leaves_as_its_fix_has_it_is_no_finding_of_its_own(
    path, leaves, others, is_mended
):
    """A moment that is replicated leaves as its weight is sharded: its own finding has the fix."""
    w = Leaf(path="params/w", sizes=("4096", "4096"), dtype="float32", spec=((), ("model",)))
    m = w.model_copy(update={"path": "mu/w", "spec": ((), ())})
    arguments = tuple(each.model_copy(update={"is_donated": True}) for each in (w, m))
    described = Described(
        program="", name="", function="f", platforms=("tpu",), mesh=MESH, devices=8, bytes=0,
        arguments=arguments, outputs=tuple(e.model_copy(update={"replaces": e.path}) for e in arguments),
    )  # fmt: skip
    program = Program(described, MESH)
    (own,) = grouped_findings(program)
    spec = leaves or dict(own.specs)[m.path]
    accident = Accident(kind="resharded_donation", path=path, bytes=2**20, spec=spec, others=others)
    listed = all_findings(program, StrategyResult(status="ok", accidents=(accident,)))
    assert own in listed
    assert ("resharded_donation" in [each.kind for each in listed]) is (not is_mended)


def test_what_a_crossed_weight_gathers_is_a_bound_of_a_step():
    crossed = Accident(kind="crossed_weight", path="params/w", bytes=2**24, spec=())
    result = StrategyResult(status="ok", accidents=(crossed,))
    words = costs_words("crossed_weight", "params/w", result)
    assert words == "at least 16.0 MiB a device and step"


def test_other_specs_of_an_array_follow_a_fix_that_is_worse_those_over_axes_of_weights_first():
    refuted = [dict(offered_again([]).specs)]
    assert refuted == [{"params/embed": ((), ("data", "model"))}]
    while specs := dict(offered_again(refuted).specs):
        refuted.append(specs)
    others = [each["params/embed"] for each in refuted[1:]]
    assert others[:2] == [(("model",), ()), ((), ("model",))], "which shards a weight"
    assert (("data", "model"), ()) in others and len(others) == len({*others}) == 5
    assert "try" not in offered_again(refuted).sentence
    assert "try P('model', None)" in offered_again(refuted[:1]).sentence


def offered_again(refuted):
    """The finding of a replicated table, where specs are known to be worse."""
    given = {
        "params/embed": (("48", "512"), ((), ())),
        "params/w1": (("128", "512"), ((), ("model",))),
    }
    leaves = tuple(
        Leaf(path=path, sizes=sizes, dtype="float32", spec=spec, is_donated=True)
        for path, (sizes, spec) in given.items()
    )
    outputs = tuple(each.model_copy(update={"replaces": each.path}) for each in leaves)
    described = Described(
        program="", name="", function="f", platforms=("tpu",), mesh=MESH, devices=8, bytes=0,
        arguments=leaves, outputs=outputs,
    )  # fmt: skip
    (found,) = grouped_findings(Program(described, MESH), refuted)
    return found


def test_a_finding_whose_fix_is_worse_offers_and_recommends_none():
    constrain = Accident(
        kind="dropped_batch", axes=("data",), source="f.py:3", spec=(("data",), ())
    )
    specs = {"@f.py:3": (("data",), ())}
    result = StrategyResult(status="ok", accidents=(constrain,))
    for refuted, is_offered in (((), True), ([specs], False)):
        (found,) = compiled_findings(result, None, refuted)
        assert bool(found.specs) == is_offered == ("constrain it to" in found.sentence)


def test_fixes_of_replicated_state_give_back_what_both_give_back_together():
    """An update that the compiler sharded stays so where the fix of another array is given."""
    spec, replicated = (("data", "model"), ()), ((), ())
    leaf = lambda path, **more: Leaf(  # noqa: E731
        path=path, sizes=("64", "64"), dtype="float32", is_donated=True, **more
    )
    arguments = [leaf(f"mo/{name}", spec=replicated) for name in ("down", "up")]
    outputs = [
        Leaf(path=f"0/{each.path}", sizes=each.sizes, dtype="float32", propagated=spec)
        .model_copy(update={"replaces": each.path, "is_update": True})
        for each in arguments
    ]  # fmt: skip
    described = Described(
        program="", name="", function="f", platforms=("tpu",), mesh=MESH, devices=8, bytes=0,
        arguments=tuple(arguments), outputs=tuple(outputs),
    )  # fmt: skip
    program, each_bytes = Program(described, MESH), 64 * 64 * 4
    fixes = [{each.path: spec} for each in arguments]
    one, other, both = (
        held_bytes(program, some, donated=()) for some in (*fixes, fixes[0] | fixes[1])
    )
    assert held_bytes(program, {}, donated=()) == 2 * (each_bytes + each_bytes // 8)
    assert one == other == each_bytes + 2 * each_bytes // 8
    assert both == 2 * each_bytes // 8


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("leaves_as", [((), ("model",)), ((), ())])
def test_a_donated_buffer_is_reused_where_the_result_is_sharded_alike_on_the_mesh(size, leaves_as):
    """An axis of size 1 shards nothing, whether the result's spec has it or not."""
    argument = Leaf(path="mom/up", sizes=("64", "2048"), dtype="float32", spec=((), ("model",)))
    output = argument.model_copy(
        update={"path": "0/up", "replaces": "mom/up", "is_update": True, "spec": leaves_as}
    )
    mesh = (("data", 8 // size), ("model", size))
    described = Described(
        program="", name="", function="f", platforms=("tpu",), mesh=mesh, devices=8, bytes=0,
        arguments=(argument,), outputs=(output,),
    )  # fmt: skip
    program = Program(described, mesh)
    each = 64 * 2048 * 4 // size
    (leaving,) = (of.bytes_per_device for of in program.kept_outputs())
    is_reused = leaving == each
    assert is_reused is (size == 1 or leaves_as == argument.spec)
    held = held_bytes(program, {}, donated=["mom"])
    assert held == (each if is_reused else each + leaving)
