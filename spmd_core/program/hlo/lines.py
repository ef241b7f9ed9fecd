"""Source lines and op names of collectives, and a fingerprint of a program without them."""

import hashlib
import re
from collections.abc import Iterator

from spmd_core.program.hlo.collective_ops import Site, end_of_carried
from spmd_core.program.hlo.module import Computation, Frame, Instruction, Module
from spmd_core.program.hlo.requested import call_of

_MOST_SEEN = 16  # instructions that a search for a source line looks at
File = str | tuple[str, ...]  # the name of a program's own text, or those of several


def op_name(site: Site, module: Module, file: File) -> str | None:
    """The operation in the program; the bare name of an argument only where there is no other."""
    start = site.start
    own = start.inner.op_name or start.outer.op_name
    if own and "/" in own:
        return own
    # A collective without an op name, or with that of a sum, has one in the computation that it
    # applies.
    for name in (each.op_name for each in _arithmetic(site, module)):
        if call_of(name):
            return name
    names = [each.op_name for each in _located(site, module, file) if each.op_name]
    return next((name for name in names if "/" in name), names[0] if names else None)


def source(site: Site, module: Module, file: File) -> str | None:
    """`file:line` of the innermost line of the program's own text; None if unknown."""
    frame = source_frame(site, module, file)
    return place(frame) if frame else None


def named_line(source: str | None, file: File) -> str | None:
    """Returns how a sentence names a line: by its number in a program's one text, which is shown
    beside it, and with its file in a program of several.

    >>> named_line("layer_auto.py:31", "layer_auto.py"), named_line("step.py:31", ("a/step.py",))
    ('line 31', 'step.py:31')
    """
    if source is None or not isinstance(file, str):
        return source
    return f"line {source.rpartition(':')[2]}"


def source_frame(site: Site, module: Module, file: File) -> Frame | None:
    """The innermost frame of the program's own text that caused a collective; None if unknown."""
    return next(filter(None, (frame_of(each, file) for each in _located(site, module, file))), None)


def line_of(instruction: Instruction, file: File) -> str | None:
    """`file:line` of an instruction's innermost line of the program's own text."""
    frame = frame_of(instruction, file)
    return place(frame) if frame else None


def frame_of(instruction: Instruction, file: File) -> Frame | None:
    """The innermost frame of an instruction in the program's own text."""
    return next((frame for frame in instruction.frames if is_of(frame.file, file)), None)


def place(frame: Frame) -> str:
    """A frame as `file:line`."""
    return f"{frame.file.rsplit('/', 1)[-1]}:{frame.line}"


def is_of(path: str, file: File) -> bool:
    """Whether a path is that of a file, or of one of several."""
    names = (file,) if isinstance(file, str) else file
    return path in names or path.endswith(tuple(f"/{name}" for name in names))


def _located(site: Site, module: Module, file: File) -> Iterator[Instruction]:
    """Instructions whose metadata may name the source of a collective, the most reliable first.

    The collective, its reduction, its users, its callers, then its operands.
    """
    start = site.start
    own = [start.inner] if start.inner is start.outer else [start.inner, start.outer]
    yield from own
    if any(is_of(frame.file, file) for each in own for frame in each.frames):
        return
    yield from _arithmetic(site, module)
    end = end_of_carried(module, site.computation, start) or start.outer
    yield from _nearby(site.computation, end, forward=True)
    yield from (caller for _, caller in reversed(site.callers))
    yield from _nearby(site.computation, start.outer, forward=False)


def _arithmetic(site: Site, module: Module) -> tuple[Instruction, ...]:
    """Instructions of what a reduction applies; none where other collectives share it."""
    name = site.start.inner.attributes.get("to_apply", "").lstrip("%")
    if not name or module.appliers.get(name, 0) != 1:
        return ()
    return module.computation(name, site.start.inner).instructions


def _nearby(
    computation: Computation,
    start: Instruction,
    *,
    forward: bool,
) -> list[Instruction]:
    """The next instructions with a source line, breadth first over users or operands.

    Other collectives are skipped: they have source lines of their own.
    """
    queue, seen, nearby = [start], {start.name}, []
    while queue and len(seen) < _MOST_SEEN:
        at = queue.pop(0)
        near = (
            computation.users[at.name]
            if forward
            else [computation.by_name[name] for name in at.operands]
        )
        for instruction in near:
            if instruction.name in seen:
                continue
            seen.add(instruction.name)
            if instruction.frames and not call_of(instruction.op_name):
                nearby.append(instruction)
            elif not instruction.frames:
                queue.append(instruction)
    return nearby


_QUOTED = r'"(?:[^"\\]|\\.)*"'
_METADATA = re.compile(rf", metadata=\{{(?:[^{{}}\"]|{_QUOTED})*\}}")
_NAME = re.compile(r"%[\w.\-]+")
# in a computation's header, names may lack the %
_PARAMETER = re.compile(r"[\w.\-]+(?=: )")
_CHANNEL = re.compile(r", channel_id=\d+")
_HEADS = ("%", "ENTRY ")


def fingerprint(text: str) -> str:
    """16 hex digits, equal for compiled texts whose instructions, order, shapes, groups and
    schedules are the same.
    """
    digest, numbers = hashlib.sha256(), {}

    def numbered(match: re.Match[str]) -> str:
        return f"%{numbers.setdefault(match[0], len(numbers))}"

    within = False
    for line in text.splitlines():
        if line.startswith(_HEADS) and line.endswith("{"):
            within, line = True, _PARAMETER.sub("", line)
        # the text before the first computation names the module and its source lines
        if within:
            digest.update(
                _NAME.sub(numbered, _CHANNEL.sub("", _METADATA.sub("", line))).encode() + b"\n"
            )
        within = within and line != "}"
    return digest.hexdigest()[:16]
