"""The sentences about program texts: what each is, and how two differ."""

from collections.abc import Iterator, Mapping

from spmd_core.base import numbered, sums_by_key
from spmd_core.program import ProgramText, Section, TextDifference, short

TEXTS = {"program": "Program", "jaxpr": "jaxpr", "stablehlo": "StableHLO", "hlo": "Compiled HLO"}
MEANINGS = {
    "program": "What was run, or compiled: plain JAX, with the mesh and the placement of every "
    "operand.",
    "jaxpr": "What JAX traced: one equation per operation, for whole arrays. A jaxpr inside "
    "another is what a call, a loop or shard_map runs.",
    "stablehlo": "What JAX handed to the compiler: the same operations with the shardings that "
    "were asked for. Only communication that the "
    "program itself asks for is here.",
    "hlo": "What the compiler made of it, for one device: arrays are shards, operations are "
    "fused, and all communication is here.",
}
_SECTION = {"jaxpr": "jaxpr", "stablehlo": "function", "hlo": "computation"}
_MOST_OPCODES = 6


def ops_word(text: ProgramText) -> str:
    """What one operation of a text is called."""
    return "equation" if text.kind == "jaxpr" else "op"


def collective_counts_words(collectives: Mapping[str, int]) -> str:
    """`2 all-reduce, 1 all-gather`; empty where there are none."""
    merged = sums_by_key((short(opcode), number) for opcode, number in collectives.items())
    return ", ".join(f"{number:,} {opcode}" for opcode, number in sorted(merged.items()))


def text_words(text: ProgramText) -> str:
    """What a text holds, in a sentence without its end."""
    if text.kind == "program":
        return numbered(len(text.lines), "line")
    sections = numbered(
        sum(not section.is_details for section in text.sections), _SECTION[text.kind]
    )
    return (
        f"{sections}, {numbered(len(text.ops), ops_word(text))}, "
        f"{collective_counts_words(text.collectives) or 'no communication'}"
    )


def section_words(text: ProgramText, section: Section) -> str:
    """A section in a line: how much it holds, its communication, who uses it."""
    holds = (
        numbered(section.stop - section.start, "line")
        if section.is_details or text.kind == "program"
        else numbered(len(section.ops), ops_word(text))
    )
    return " · ".join(
        part for part in (holds, collective_counts_words(section.collectives), section.note) if part
    )


def difference_words(difference: TextDifference, left: str, right: str) -> str:
    """The first sentence of a comparison: communication that one has and the other lacks, then the
    ops whose counts differ most.
    """
    if difference.is_none:
        return f"{left} and {right} are the same but for the names of their ops."
    sentences = [
        *_communication_words(difference, left, right),
        *_ops_words(difference, left, right),
    ]
    if difference.only_left or difference.only_right:
        sentences.append(
            f"{numbered(difference.only_left, 'line')} only in {left}, {difference.only_right:,} only "
            f"in {right}"
        )
    return ". ".join(sentences) + "."


def _communication_words(difference: TextDifference, left: str, right: str) -> Iterator[str]:
    ours, theirs = difference.left_collectives, difference.right_collectives
    parts = filter(None, (_more(ours, theirs, left, right), _more(theirs, ours, right, left)))
    if ours or theirs:
        yield "; ".join(parts) or f"Both communicate alike ({collective_counts_words(ours)})"


def _ops_words(difference: TextDifference, left: str, right: str) -> Iterator[str]:
    """The ops whose counts differ most; parameters are no work: every fusion has its own."""
    counts = {
        opcode: (difference.left_opcodes.get(opcode, 0), difference.right_opcodes.get(opcode, 0))
        for opcode in dict.fromkeys((*difference.left_opcodes, *difference.right_opcodes))
        if opcode != "parameter"
    }
    changed = sorted(
        (pair for pair in counts.items() if pair[1][0] != pair[1][1]),
        key=lambda pair: -abs(pair[1][0] - pair[1][1]),
    )
    named = ", ".join(
        f"{opcode} {ours:,} against {theirs:,}"
        for opcode, (ours, theirs) in changed[:_MOST_OPCODES]
    )
    left_out = len(changed) - _MOST_OPCODES
    more = f", and {left_out:,} other kinds" if left_out > 0 else ""
    if changed:
        yield f"Ops whose number differs, in {left} against {right}: {named}{more}"
    elif counts:
        yield "Every other kind of op is there equally often"


def _more(
    ours: Mapping[str, int], theirs: Mapping[str, int], our_name: str, their_name: str
) -> str:
    extra = {
        kind: number - theirs.get(kind, 0)
        for kind, number in ours.items()
        if number > theirs.get(kind, 0)
    }
    return (
        f"{our_name} has {collective_counts_words(extra)} that {their_name} lacks" if extra else ""
    )
