"""Reads a compiled program; the only module that knows jaxlib's private HloModule.

The text has what the private objects lack (shapes and roots on JAX 0.10, the entry, source lines);
the objects have
no grammar to misread. So the text is read, and its collectives are counted against the objects.
"""

from collections import Counter
from typing import Any

from spmd_core.program import HloError, Module, kind_of, parse_module

# the enum's name -> as HLO writes it
_OTHER_NAMES = {"Log1p": "log-plus-one", "Expm1": "exponential-minus-one", "TopK": "topk"}


def read_module(compiled: Any) -> Module:
    """The compiled program as values. HloError where its text lacks a collective that the program
    has.
    """
    module = parse_module(compiled.as_text())
    held = walked_collectives(compiled)
    if held is not None and (missing := held - _text_collectives(module)):
        raise HloError(
            f"the text of compiled program {module.name!r} lacks {', '.join(missing)}, which the "
            f"program contains"
        )
    return module


def _text_collectives(module: Module) -> Counter[str]:
    kinds = (
        kind_of(instruction.opcode)
        for computation in module.computations
        for instruction in computation.instructions
    )
    return Counter(kind for kind in kinds if kind)


def walked_opcodes(compiled: Any) -> dict[str, str] | None:
    """Instruction name -> opcode by jaxlib's own objects; None where this jaxlib does not offer
    them.
    """
    try:
        modules = compiled.runtime_executable().hlo_modules()
        return {
            instruction.name: opcode_text(instruction.opcode)
            for module in modules
            for computation in module.computations()
            for instruction in computation.instructions()
        }
    except (AttributeError, NotImplementedError, TypeError):
        return None


def walked_collectives(compiled: Any) -> Counter[str] | None:
    """How many collectives of each kind the program has by jaxlib's own objects; a pair counts
    once. None as above.
    """
    opcodes = walked_opcodes(compiled)
    if opcodes is None:
        return None
    kinds = (kind_of(opcode) for opcode in opcodes.values())
    return Counter(kind for kind in kinds if kind)


def opcode_text(opcode: Any) -> str:
    """`HloOpcode.kAllReduce` as HLO writes it: `all-reduce`."""
    name = opcode.name.removeprefix("k")
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    return "".join(
        f"-{letter.lower()}" if letter.isupper() and index else letter.lower()
        for index, letter in enumerate(name)
    )
