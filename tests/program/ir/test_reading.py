"""Reading, searching and comparing program texts; the HLO ones are real modules, of a CPU and of a
TPU.
"""

import re
import sys
from pathlib import Path

import pytest

from spmd_core.program import (
    Section,
    compare,
    file_name,
    made_from,
    parse_module,
    program_lines,
    read_text,
    spans_of,
)
from spmd_lab.ui.ir.viewer import find

HLO = Path(__file__).parents[1] / "hlo"
MODULES = sorted(HLO.glob("*.hlo"))
JAXPR = """\
let relu = { lambda ; a:f32[4]. let b:f32[4] = max a 0.0:f32[] in (b,) } in
{ lambda ; c:f32[4] d:f32[4]. let
    e:f32[4] f:f32[3] = scan[  # layer_auto.py:7:11 (f)
      jaxpr={ lambda ; h:f32[4]{V:x} i:f32[4]. let
          k:f32[4] = psum[axes=('x',)] h  # layer_auto.py:6:27 (f.<locals>.body)
          l:f32[4] = jit[name=relu jaxpr=relu] k
        in (k, l) }
      length=3
    ] d c
    g:f32[4] = jit[  # layer_auto.py:9:3 (f)
      name=_where
      jaxpr={ lambda ; m:f32[4]. let n:f32[4] = neg m in (n,) }
    ] e
  in (g, f) }"""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_quick_reading_of_a_module_agrees_with_the_full_one(path):
    text = path.read_text()
    full, quick = parse_module(text), read_text(text, "hlo")
    sections = {section.name: section for section in quick.sections if not section.is_details}
    assert set(sections) == set(full.by_name)
    for computation in full.computations:
        found = sections[computation.name].ops
        assert [(op.name.lstrip("%"), op.opcode, op.frames) for op in found] == [
            (i.name, i.opcode, i.frames) for i in computation.instructions
        ]
        assert sections[computation.name].is_entry == computation.is_entry


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_quiet_lines_hold_no_metadata_and_all_else(path):
    text = read_text(path.read_text(), "hlo")
    for section in text.sections:
        for op in section.ops:
            line = text.quiet[op.line]
            assert (
                "metadata={" not in line
                and "backend_config=" not in line
                and "frontend_attributes" not in line
            )
            assert (
                line.lstrip().removeprefix("ROOT ").startswith(f"{op.name} = ")
                and f" {op.opcode}(" in line
            )
            if "calls=" in text.lines[op.line]:
                assert "calls=" in line


def test_the_entry_comes_first_and_the_others_say_who_uses_them():
    text = read_text((HLO / "scan_cpu_0.10.2.hlo").read_text(), "hlo")
    assert text.sections[0].is_entry
    assert [section.is_details for section in text.sections] == [False] * (
        len(text.sections) - 1
    ) + [True]
    notes = {section.note.split(" %")[0] for section in text.sections[1:-1]}
    assert {"body of", "condition of", "called by"} <= notes
    assert sum(text.collectives.values()) == sum(op.communicates for op in text.ops) > 0


def test_jaxprs_inside_a_jaxpr_are_sections_of_their_own():
    text = read_text(JAXPR, "jaxpr")
    assert [
        (section.name, section.note, [op.opcode for op in section.ops]) for section in text.sections
    ] == [
        ("The program", "", ["scan", "jit"]),
        ("relu", "shared", ["max"]),
        ("scan", "jaxpr of scan", ["psum", "jit"]),
        ("_where", "jaxpr of jit", ["neg"]),
    ]
    rows = text.visible(0)
    assert [row.name for row in rows if isinstance(row, Section)] == ["scan", "_where"]
    assert [row for row in rows if isinstance(row, int)] == [1, 2, 7, 8, 9, 10, 12, 13]
    assert text.sections[2].collectives == {"psum": 1}
    assert text.quiet[4] == "          k:f32[4] = psum[axes=('x',)] h"
    assert [program_lines(op, "layer_auto.py") for op in text.sections[2].ops] == [(6,), ()]


def test_ops_of_a_line_come_with_those_made_through_it_last():
    text = read_text((HLO / "scan_cpu_0.10.2.hlo").read_text(), "hlo")
    for line in {number for op in text.ops for number in program_lines(op, "scan.py")}:
        made = made_from(text.ops, "scan.py", line)
        direct = [program_lines(op, "scan.py")[0] == line for op in made]
        assert direct == sorted(direct, reverse=True)
        assert len(made) == sum(line in program_lines(op, "scan.py") for op in text.ops)
    assert any(op.opcode == "dot" for op in made_from(text.ops, "scan.py", 8))
    assert made_from(text.ops, "other.py", 8) == []


def test_search_takes_what_is_typed_as_plain_text():
    text = read_text((HLO / "scan_cpu_0.10.2.hlo").read_text(), "hlo")
    assert find(text, ".*", False) == find(text, "", True) == []
    upper = find(text, "ALL-REDUCE(", False)
    assert [match.line for match in upper] == [
        at for at, line in enumerate(text.lines) if " all-reduce(" in line
    ]
    for match in upper:
        assert [text.quiet[match.line][start:stop] for start, stop in match.spans] == [
            "all-reduce("
        ]
        assert match.line in range(
            text.sections[match.section].start, text.sections[match.section].stop
        )
    assert find(text, "stack_frame_id", False) == []
    assert len(find(text, "stack_frame_id", True)) == sum(
        "stack_frame_id" in line for line in text.lines
    )
    assert spans_of("a[0] A[0]", "a[0]") == ((0, 4), (5, 9))


def test_names_make_no_difference_and_an_op_does():
    text = (HLO / "scan_cpu_0.10.2.hlo").read_text()
    renamed = re.sub(r"%(\w+?)\.(\d+)", lambda name: f"%{name[1]}.{int(name[2]) + 700}", text)
    renamed = renamed.replace("channel_id=1", "channel_id=9")
    assert renamed != text
    left = read_text(text, "hlo")
    same = compare(left, read_text(renamed, "hlo"))
    assert same.is_none and same.hunks == ()
    collective = next(op for op in left.ops if op.communicates)
    lines = text.splitlines()
    lines[collective.line] = lines[collective.line].replace(
        f" {collective.opcode}(", " collective-broadcast("
    )
    found = compare(left, read_text("\n".join(lines), "hlo"))
    assert (
        found.left_collectives[collective.opcode] == found.right_collectives[collective.opcode] + 1
    )
    assert found.right_collectives["collective-broadcast"] == 1
    changed = [row for hunk in found.hunks for row in hunk if not row.same]
    assert collective.line in [row.left for row in changed]
    for row in changed:  # itself, and who reads its value
        assert row.left == row.right and re.search(
            rf"{re.escape(collective.name)}\b", left.lines[row.left]
        )


def test_a_jaxpr_differs_only_where_an_equation_does():
    other = (
        JAXPR.replace("k", "q")
        .replace("e:f32", "z:f32")
        .replace("] e", "] z")
        .replace("neg m", "exp m")
    )
    found = compare(read_text(JAXPR, "jaxpr"), read_text(other, "jaxpr"))
    assert (found.only_left, found.only_right) == (1, 1)
    assert found.left_opcodes["neg"] == found.right_opcodes["exp"] == 1


def calls_of(copies):
    """What is called to read and compare texts of so many copies of a program, each computation of
    which differs from those of the other side; and what was found.
    """
    text = (HLO / "scan_tpu_0.10.2.hlo").read_text()
    head, _, body = text.partition("\n\n%")
    bodies = [
        re.sub(r"%([\w.\-]+)", rf"%\1.copy{copy}", f"\n\n%{body}".replace("bf16[", f"bf16[{copy},"))
        for copy in range(copies)
    ]
    large = head + bodies[0] + "".join(bodies[1:]).replace("ENTRY ", "")
    other = large.replace("bf16[", "f32[")
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        found = compare(read_text(large, "hlo"), read_text(other, "hlo"))
    finally:
        sys.setprofile(None)
    return len(large), calls, found


def test_megabytes_are_read_and_compared_in_proportion_to_their_size():
    small, few, _ = calls_of(10)
    large, many, found = calls_of(100)
    assert large > 1_000_000
    assert found.left_out > 0 and found.only_left > 1000
    assert many / few < 1.5 * large / small


def test_the_name_of_a_program_s_file():
    assert file_name("dot", "pmap(jit)") == "dot_pmap_jit.py"


_SIZE = 100_000  # characters: minutes, for what looks at each of them from each of them


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("hlo", "m\nStackFrames\n1 {file_location_id=7 parent_frame_id=1}\nENTRY %a (x) {\n}\n"),
        ("hlo", "m\n\nENTRY %a (x) {\n" + "  %b = f32[4] add(%c), metadata={" * 3000),
        ("jaxpr", " " * _SIZE + " #"),
        ("jaxpr", " a:" * (_SIZE // 3)),
        ("jaxpr", "a" * _SIZE + "{ lambda"),
        ("jaxpr", "{ lambda\n" * (_SIZE // 9)),
        ("jaxpr", " # " + "x:1 (" * (_SIZE // 5)),
        ("stablehlo", "loc(((" * (_SIZE // 6)),
    ],
)
def test_a_text_that_nobody_has_written_is_shown_as_it_is(kind, text):
    read = read_text(text, kind)
    assert read.lines == tuple(text.splitlines()) and read.kind == kind
    assert len(read.owners) == len(read.quiet) == len(read.lines)
