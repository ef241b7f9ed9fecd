"""Who sharded an axis, in the words of screens, the terminal and notebooks."""

import pytest

from spmd_core.advice.programs import accident_words, lost_batch_words
from spmd_core.facts import Accident, AxisOrigin, Collective, LostBatch, NoOrigin, OriginStep, Step
from spmd_core.words import texts
from spmd_core.words.origins.set_by import all_set_by_words, set_by_words

SPEC = (("x",), ())


def origin(name, *operations, **more):
    steps = tuple(OriginStep(operation=each, source="f.py:3") for each in operations)
    return AxisOrigin(**{"axis": "x", "kind": "argument", "name": name, "spec": SPEC, "steps": steps} | more)  # fmt: skip


def gather(*origins, against=()):
    return Collective(
        kind="all-gather", axes=("x",), bytes=8, count=1, origin=origins, against=against
    )


@pytest.mark.parametrize(
    ("origins", "words"),
    [
        ([origin("w", "while"), origin("w", "squeeze")], "argument `w` P('x', None) through `while` of f.py:3"),
        ([origin("w", "w")], "argument `w` P('x', None)"),
        ([origin("output 0", kind="output")], "`output 0` P('x', None)"),
        ([origin("0/loss", kind="output")], "output `0/loss` P('x', None)"),
        (
            [origin("", "sharding_constraint", kind="constraint", source="f.py:3")],
            "constraint of f.py:3 P('x', None)",
        ),
        ([origin("p/" * 5000)], f"argument `…{('p/' * 5000)[-59:]}` P('x', None)"),
    ],
)  # fmt: skip
def test_an_origin_is_said_once_and_not_through_itself(origins, words):
    assert set_by_words(gather(*origins)) == words


@pytest.mark.parametrize("why", NoOrigin)
def test_why_there_is_no_origin_follows_set_by(why):
    words = set_by_words(gather().model_copy(update={"no_origin": why}))
    assert words.startswith(("an unknown origin: ", "no argument or constraint: "))


@pytest.mark.parametrize(("values", "said"), [(1, "1 value is"), (2, "2 values are")])
def test_the_smaller_side_is_counted_in_its_number(values, said):
    words = set_by_words(gather(origin("w", values=values), against=[origin("v", values=8)]))
    assert words.endswith(
        f"; if unwanted, change argument `w`: only {said} sharded by it, 8 by the other"
    )


def test_findings_name_one_origin_or_several():
    both = (origin("v"), origin("w"))
    named = "argument `v` P('x', None) and argument `w` P('x', None)"
    lost = LostBatch(axes=("x",), source="f.py:3", work=1.0, share=0.5, origin=both)
    assert lost_batch_words(lost).startswith(
        f"the batch is lost over `x` at f.py:3, named there by {named}: 50% of"
    )
    repeated = Accident(kind="repeated_work", axes=("x",), source="f.py:3", share=0.5, origin=both)
    assert f"; named there by {named}: shard a dim" in accident_words(repeated)
    none = repeated.model_copy(update={"origin": ()})
    assert "; named there by no argument or constraint: shard a dim" in accident_words(none)
    unknown = repeated.model_copy(update={"origin": None})
    assert "FLOPs are surplus; shard a dim" in accident_words(unknown)


@pytest.mark.parametrize(
    ("work", "said"),
    [(1.02, "without it"), (2.5, "without it, 2.5 times a device's even share of work")],
)
def test_a_lost_batch_says_how_much_work_is_uneven_and_not_that_it_is_even(work, said):
    lost = LostBatch(axes=("x",), source="f.py:3", work=work, share=0.5)
    assert lost_batch_words(lost).endswith(f"50% of the matmul FLOPs are computed {said}")


def test_a_path_shows_lines_of_its_own_files_only():
    """Whatever an archive calls a line."""
    value = Step(
        operation="add", shape=(8, 8), dtype="f32", spec=SPEC, source="b.py:2", origins=(origin("w"),)
    )  # fmt: skip
    lines = {"a.py:9": "x", "b.py:1": "y", "b.py:2": "z", "c.py:²": "", f"c.py:{'1' * 5000}": ""}
    assert texts.path_lines(value, lines) == [("b.py:1", "y", ""), ("b.py:2", "z", "this value")]
    long = value.model_copy(update={"origins": (origin("p/" * 5000),)})
    assert all(len(text) < 80 for text, _ in texts.chips(long))
    assert texts.shape_words(value, is_typed=True) == "f32[8@x,8]"
    other = value.model_copy(update={"shape": (8,)})
    assert texts.shape_words(other, is_typed=True) == "f32[8]"


def test_collectives_of_a_line_that_are_needed_alike_have_a_sentence_and_layers_one():
    """None is named as needing what it has set itself."""
    a, x = origin("A", values=4), origin("x", "add", values=4)
    layers = [gather(origin(f"blocks/{at}/up", values=1), against=[x]) for at in range(8)]
    other = origin("x", "dot_general", values=4)  # the same place by another way
    words = all_set_by_words(
        [gather(a, against=[x]), gather(a, against=[other]), gather(x), *layers]
    )
    assert words == [
        "argument `A` P('x', None) and argument `blocks/*/up` P('x', None); needed otherwise by argument `x` P('x', None) through `add` of f.py:3; if unwanted, change argument `x`: only 4 values are sharded by it, 12 by the other",
        "argument `x` P('x', None) through `add` of f.py:3",
    ]  # fmt: skip
    brief = all_set_by_words([gather(a, against=[x]), *layers], is_brief=True)
    assert brief == [
        "argument `A` P('x', None) and argument `blocks/*/up` P('x', None); needed otherwise by argument `x` P('x', None); if unwanted, change argument `x`",
    ]  # fmt: skip
    many = [gather(origin("w"), against=[origin(f"v{at}")]) for at in range(5)]
    assert all_set_by_words(many)[-1] == "and 2 more"
