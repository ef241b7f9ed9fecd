"""What the program texts are, what they hold and how two of them differ, in words; no Streamlit
here.
"""

from collections.abc import Mapping

from spmd_core.ir.diff import Difference, short
from spmd_core.ir.text import ProgramText, Section

TEXTS = {"program": "Program", "jaxpr": "jaxpr", "stablehlo": "StableHLO", "hlo": "Compiled HLO"}
MEANINGS = {
    "program": "What was run, or compiled: plain JAX, with the mesh and the placement of every operand.",
    "jaxpr": "What JAX traced: one equation per operation, for whole arrays. A jaxpr inside another is what a call, a loop or shard_map runs.",
    "stablehlo": "What JAX handed to the compiler: the same operations with the shardings that were asked for. Only communication that the "
                 "program itself asks for is here.",
    "hlo": "What the compiler made of it, for one device: arrays are shards, operations are fused, and all communication is here.",
}
_SECTION = {"jaxpr": "jaxpr", "stablehlo": "function", "hlo": "computation"}
_MOST_OPCODES = 6


def count(number: int, word: str) -> str:
    """A number with its word: `1 op`, `12 ops`, `2 matches`."""
    return f"{number:,} {word}" + ("" if number == 1 else "es" if word.endswith("ch") else "s")


def ops_word(text: ProgramText) -> str:
    """What one operation of a text is called."""
    return "equation" if text.kind == "jaxpr" else "op"


def collectives_words(collectives: Mapping[str, int]) -> str:
    """`2 all-reduce, 1 all-gather`; empty where there are none."""
    merged: dict[str, int] = {}
    for opcode, number in collectives.items():
        merged[short(opcode)] = merged.get(short(opcode), 0) + number
    return ", ".join(f"{number:,} {opcode}" for opcode, number in sorted(merged.items()))


def text_words(text: ProgramText) -> str:
    """What a text holds, in a sentence without its end."""
    if text.kind == "program":
        return count(len(text.lines), "line")
    sections = count(sum(not section.is_details for section in text.sections), _SECTION[text.kind])
    return f"{sections}, {count(len(text.ops), ops_word(text))}, {collectives_words(text.collectives) or 'no communication'}"


def section_words(text: ProgramText, section: Section) -> str:
    """A section in a line: how much it holds, its communication, who uses it."""
    holds = count(section.stop - section.start,
                  "line") if section.is_details or text.kind == "program" else count(
        len(section.ops), ops_word(text))
    return " · ".join(part for part in (holds, collectives_words(section.collectives), section.note)
                      if part)


def difference_words(found: Difference, left: str, right: str) -> str:
    """The first sentence of a comparison: communication that one has and the other lacks, then the
    ops whose counts differ most.
    """
    if found.is_none:
        return f"{left} and {right} are the same but for the names of their ops."
    sentences = []
    if found.left_collectives or found.right_collectives:
        parts = [part
                 for part in (_more(found.left_collectives, found.right_collectives, left, right),
                              _more(found.right_collectives, found.left_collectives, right, left))
                 if part]
        sentences.append("; ".join(parts) if parts else f"Both communicate alike ({collectives_words(found.left_collectives)})")
    # parameters are no work: every fusion has its own
    others = {opcode: (found.left_opcodes.get(opcode, 0), found.right_opcodes.get(opcode, 0))
              for opcode in dict.fromkeys((*found.left_opcodes, *found.right_opcodes))
              if opcode != "parameter"}
    changed = sorted((pair for pair in others.items() if pair[1][0] != pair[1][1]),
                     key=lambda pair: -abs(pair[1][0] - pair[1][1]))
    if changed:
        named = ", ".join(f"{opcode} {ours:,} against {theirs:,}"
                          for opcode, (ours, theirs) in changed[:_MOST_OPCODES])
        more = f", and {len(changed) - _MOST_OPCODES:,} other kinds" if len(
            changed) > _MOST_OPCODES else ""
        sentences.append(f"Ops whose number differs, in {left} against {right}: {named}{more}")
    elif others:
        sentences.append("Every other kind of op is there equally often")
    if found.only_left or found.only_right:
        sentences.append(f"{count(found.only_left, 'line')} only in {left}, {found.only_right:,} only in {right}")
    return ". ".join(sentences) + "."


def _more(ours: Mapping[str, int], theirs: Mapping[str, int], our_name: str,
          their_name: str) -> str:
    """What the one has beyond the other."""
    extra = {kind: number - theirs.get(kind, 0) for kind, number in ours.items()
             if number > theirs.get(kind, 0)}
    return f"{our_name} has {collectives_words(extra)} that {their_name} lacks" if extra else ""
