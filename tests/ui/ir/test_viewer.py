"""The viewer of program texts, on the texts of a real run: what is read on the screen for each
choice.
"""

import os
import re
from html import unescape

import pytest
from streamlit.testing.v1 import AppTest

from spmd_core.base import numbered
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.program import read_text
from spmd_lab.ui.ir import steps
from spmd_lab.ui.ir.html import LONGEST, Line, listing, marked
from spmd_lab.ui.ir.words import collective_counts_words

pytestmark = pytest.mark.slow

STRATEGIES = ("single", "auto", "shard_map")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A finished run of the tutorial's layer in a data folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPMD_LAB_DATA", str(tmp_path_factory.mktemp("viewer") / "data"))
        lab = Lab.open()
        run = lab.submit(
            parse_experiment(
                {
                    "workload": "layer",
                    "target": "cpu:8",
                    "mesh": {"x": 8},
                    "sharding": {"in": "x"},
                    "strategies": list(STRATEGIES),
                    "timing": {"samples": 2, "min_seconds": 0},
                }
            )
        )
        assert lab.wait(run, 120).state == "succeeded"
        patch.setenv("VIEWER_RUN", run)
        yield run
        lab.close()


def screen(stored) -> AppTest:
    def script():
        import os

        from spmd_lab.ui.ir import viewer

        viewer.show(os.environ["VIEWER_RUN"], ("single", "auto", "shard_map"), "v")

    assert os.environ["VIEWER_RUN"] == stored
    return choose(
        choose(AppTest.from_function(script, default_timeout=30).run(), "Strategy", "auto"),
        "Text",
        "hlo",
    )


def choose(at: AppTest, label: str, value: str) -> AppTest:
    group = next(group for group in at.button_group if group.label == label)
    return group.set_value(value).run()


def listings(at: AppTest) -> list[str]:
    """The text of each listing, tags taken off, rows on lines of their own."""
    assert not at.exception
    bodies = [
        element.proto.body for element in at.get("html") if 'class="program"' in element.proto.body
    ]
    return [
        unescape(re.sub(r"<[^>]*>", "", body.replace('<div class="row', '\n<div class="row')))
        for body in bodies
    ]


def tinted(at: AppTest, tint: str) -> list[str]:
    bodies = [
        element.proto.body for element in at.get("html") if 'class="program"' in element.proto.body
    ]
    rows = [
        row for body in bodies for row in re.findall(rf'<div class="row {tint}">(.*?)</div>', body)
    ]
    return [unescape(re.sub(r"<[^>]*>", "", row)) for row in rows]


def said(at: AppTest) -> str:
    return " ".join(element.value.replace("\\", "") for element in (*at.markdown, *at.caption))


def test_the_entry_is_open_without_metadata_and_the_rest_is_folded(stored):
    at = screen(stored)
    assert "3 computations" in said(at) and "1 all-reduce." in said(at)
    labels = [expander.label.replace("\\", "") for expander in at.expander]
    assert labels[0].startswith("**Entry: main") and "1 all-reduce" in labels[0]
    assert any("the arithmetic of %all-reduce" in label for label in labels[1:])
    (entry,) = listings(at)
    assert "all-reduce(" in entry and "metadata" not in entry
    at.toggle[0].set_value(True).run()
    assert "metadata={" in listings(at)[0]
    assert at.expander[-1].label.startswith("**Head of the module**")


def test_search_counts_lists_and_marks_and_reads_markup_as_text(stored):
    at = screen(stored)
    at.text_input[0].set_value("ADD(").run()
    found, entry = listings(at)
    rows = [row for row in found.splitlines() if re.match(r"\d", row)]
    assert all("add(" in row for row in rows) and len(rows) == 3
    assert "3 matches for “ADD(” in 3 lines of 2 sections:" in said(at)
    assert "in fused_computation" in found and "in fused_computation" not in entry
    for nothing in (".*", "<script>alert(1)</script>", "[A-Z]+", "stack_frame_id"):
        at.text_input[0].set_value(nothing).run()
        assert "No match for" in said(at)
    assert "turn them on" in said(at)


def test_another_strategy_s_collective_is_the_first_thing_said(stored):
    at = choose(screen(stored), "What to do", "Compare two")
    assert "Automatic has 1 all-reduce that Single device lacks" in said(at)
    removed, added = tinted(at, "removed"), tinted(at, "added")
    assert any("all-reduce(" in row for row in removed) and not any(
        "all-reduce(" in row for row in added
    )
    at.selectbox[0].set_value("shard_map").run()
    assert "Automatic and shard_map are the same but for the names of their ops." in said(at)
    choose(at, "Text", "jaxpr")
    assert "shard_map has 1 psum_invariant that Automatic lacks" in said(at)
    choose(at, "Layout", "Side by side")
    assert "psum_invariant" in listings(at)[0]


@pytest.mark.parametrize(
    ("kind", "op"),
    [("hlo", "all-reduce"), ("stablehlo", "all_reduce"), ("jaxpr", "psum_invariant")],
)
def test_an_op_leads_to_its_line_and_the_line_to_its_ops(stored, kind, op):
    at = choose(choose(screen(stored), "Strategy", "shard_map"), "Text", kind)
    choose(at, "What to do", "Source lines")
    # communication comes first
    assert re.search(rf"{op} \S+ was made from line \d+ of layer_shard_map.py", said(at))
    (line,) = tinted(at, "strong")
    assert "jax.lax.psum(" in line
    choose(at, "Way", "From a line to its ops")
    number = int("".join(re.findall(r"^\d+", line)))
    at.selectbox[0].set_value(number).run()
    assert f"Line {number} made" in said(at) and f"1 {op}." in said(at)
    program, ops = listings(at)
    assert "jax.lax.psum(" in program and op in ops


def test_an_equation_of_several_lines_is_shown_whole(stored):
    at = choose(
        choose(choose(screen(stored), "Strategy", "auto"), "Text", "jaxpr"),
        "What to do",
        "Source lines",
    )
    box = at.selectbox[0]
    box.set_value(
        next(
            number for number, option in enumerate(box.options) if option.startswith("dot_general")
        )
    ).run()
    equation = listings(at)[-1].strip().splitlines()
    assert "dot_general[" in equation[0] and len(equation) > 2
    assert equation[-1].lstrip("0123456789 ").startswith("]")


def test_a_program_text_is_shown_as_it_is_and_searched(stored):
    at = choose(screen(stored), "Text", "program")
    (program,) = listings(at)
    assert "def program(x, weights, bias):" in program
    assert not at.toggle
    at.text_input[0].set_value("jax.jit").run()
    assert "1 match for" in said(at) and "@jax.jit" in listings(at)[0]
    choose(at, "What to do", "Source lines")
    assert re.search(r"Line \d+ made \d+ ops of the Compiled HLO, with 1 all-reduce\.", said(at))


def test_text_is_never_markup():
    assert marked("<b>&", ((0, 3),)) == "<mark>&lt;b&gt;</mark>&amp;"
    assert "<img" not in listing([Line(1, "<img src=x onerror=alert(1)>")], '"><img src=x>')


def test_a_long_line_is_cut_around_what_was_found():
    shown = marked("a" * 5000 + "here" + "b" * 5000, ((5000, 5004),))
    assert "<mark>here</mark>" in shown
    assert len(shown) < LONGEST + 200 and "4,940 characters before" in shown


def test_words_count():
    assert numbered(1, "match") == "1 match"
    assert [numbered(2, "match"), numbered(1200, "op")] == ["2 matches", "1,200 ops"]
    assert (
        collective_counts_words({"all-gather-start": 2, "all-gather": 1, "all-reduce": 1})
        == "3 all-gather, 1 all-reduce"
    )


@pytest.mark.parametrize(("text", "word"), [("hlo", "all-reduce("), ("program", "jnp.matmul")])
def test_the_selected_collective_is_marked_in_each_text(stored, text, word):
    at = choose(screen(stored), "Text", text)
    (marked,) = tinted(at, "strong")
    assert word in marked and "▸" in marked
    assert not tinted(choose(at, "Strategy", "single"), "strong")


def test_types_under_explicit_axes_are_read_off_the_trace(monkeypatch):
    program = "@jax.jit\ndef f(a, b):\n    h = (a @ b)\n    return h + 1"
    jaxpr = """{ lambda ; a:f32[8@x,4] b:f32[4,2]. let
    c:f32[8@x,2] = dot_general[  # layer_explicit.py:3:8 (f)
      dimension_numbers=(([1], [0]), ([], []))
    ] a b
    d:f32[8@x,2] = add c 1.0:f32[]  # layer_explicit.py:4:11 (f)
  in (d,) }"""
    texts = {"program": program, "jaxpr": jaxpr}
    monkeypatch.setattr(steps.stored, "text", lambda run, strategy, kind: read_text(texts[kind], kind))  # fmt: skip
    monkeypatch.setattr(steps.stored, "own_file", lambda *_: "layer_explicit.py")
    assert steps.types("run", "explicit") == "`h: f32[8@x,2]`, `f(): f32[8@x,2]`"
