"""Another reading of a compiled module's collectives, line by line with regular expressions.

It shares nothing with the program's own reader: no parsed instructions, no walk with callers. Lines
are sorted by computation; how often a computation runs follows from the lines that name it.
"""

import math
import re
from collections import defaultdict
from dataclasses import dataclass

KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute"
BYTES = {
    "pred": 1,
    "s8": 1,
    "u8": 1,
    "bf16": 2,
    "f16": 2,
    "s16": 2,
    "u16": 2,
    "f32": 4,
    "s32": 4,
    "u32": 4,
    "f64": 8,
    "s64": 8,
    "u64": 8,
}
_LINE = re.compile(
    r"\s+(?:ROOT )?%(?P<name>\S+) = (?P<shape>.*?) (?P<op>[a-z][a-z\d-]*)\((?P<rest>.*)"
)
_OP = re.compile(rf"(?P<kind>{KINDS})(?P<start>-start)?")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_NAMES = re.compile(r"%([\w.-]+)")


@dataclass(frozen=True)
class Seen:
    """A collective as the lines show it. Groups are positions; of a permute, pairs."""

    kind: str
    bytes: int
    count: int | None
    groups: tuple[tuple[int, ...], ...]
    asynchronous: bool
    line: str | None


def nbytes(shape: str) -> int:
    """Bytes of all arrays of a shape's text."""
    return sum(
        BYTES[kind] * math.prod(int(size) for size in dims.split(",") if size)
        for kind, dims in _ARRAY.findall(re.sub(r"/\*.*?\*/", "", shape))
        if kind in BYTES
    )


def read(text: str, file: str) -> list[Seen]:
    """Every collective, in no order. `file` is the name of the program's text."""
    bodies, entry = _bodies(text)
    frames = _frames(text, file)
    counts = _counts(bodies, entry)
    devices = math.prod(
        int(n)
        for n in re.findall(r"(?:num_partitions|replica_count)=(\d+)", text.split("\n", 1)[0])
    )
    owner = _owners(bodies)
    begun = {
        _channel(line)
        for lines in bodies.values()
        if any('"AsyncCollectiveStart"' in line for line in lines)
        for line in lines
        if _is_collective(line)
    }
    found = []
    for body, lines in bodies.items():
        caller = owner.get(body)
        for line in lines:
            if _is_collective(line) and _counts_here(lines, line, caller, begun):
                found.append(_seen(line, lines, caller, counts, body, devices, frames))
            elif re.search(r" send\(.*megascale", line):
                found.append(_send(line, lines, counts[body], frames))
    return [each for each in found if each.count != 0]


def _bodies(text: str) -> tuple[dict[str, list[str]], str]:
    bodies: dict[str, list[str]] = {}
    entry, at = "", None
    for line in text.splitlines():
        if head := re.match(r"(ENTRY )?%(\S+) \(.*\{$", line):
            at = head[2]
            bodies[at] = []
            entry = at if head[1] else entry
        elif line == "}":  # (metadata of a kernel has lines that begin with brackets)
            at = None
        elif at is not None:
            bodies[at].append(line)
    return bodies, entry


def _op(line: str) -> str:
    match = _LINE.match(line)
    return match["op"] if match else ""


def _shape(line: str) -> str:
    match = _LINE.match(line)
    assert match, line[:300]
    return match["shape"]


def _is_collective(line: str) -> bool:
    return bool(_OP.fullmatch(_op(line)))


def _channel(line: str) -> tuple[str, str]:
    match = re.search(r"channel_id=(\d+)", line)
    return _op(line), match[1] if match else ""


def _owners(bodies: dict[str, list[str]]) -> dict[str, tuple[str, str]]:
    """Fused computation -> (computation, line) of the fusion that calls it."""
    found = {}
    for body, lines in bodies.items():
        for line in lines:
            if _op(line) in ("fusion", "async-start") and (
                called := re.search(r"calls=%([\w.-]+)", line)
            ):
                found[called[1]] = (body, line)
    return found


def _counts_here(
    lines: list[str],
    line: str,
    caller: tuple[str, str] | None,
    begun: set[tuple[str, str]],
) -> bool:
    """Whether a line is where a collective starts, rather than where it is carried on or ended."""
    joined = "".join(lines)
    if '"AsyncCollectiveDone"' in joined:
        return False
    if caller is None or '"AsyncCollectiveStart"' in joined or "kind=kCustom" in caller[1]:
        return True
    return _channel(line) not in begun


def _counts(bodies: dict[str, list[str]], entry: str) -> dict[str, int | None]:
    """Computation -> how often it runs, None where that is unknown; 0 where nothing calls it."""
    calls: dict[str, list[tuple[str, int | None]]] = defaultdict(list)
    for body, lines in bodies.items():
        for line in lines:
            op = _op(line)
            if op == "while":
                inner = re.search(r"body=%([\w.-]+)", line)
                test = re.search(r"condition=%([\w.-]+)", line)
                assert inner and test
                turns = _turns(line, lines, bodies[inner[1]], bodies[test[1]], bodies)
                calls[inner[1]].append((body, turns))
                calls[test[1]].append((body, None if turns is None else turns + 1))
            elif op == "conditional":
                for name in _NAMES.findall(line.split("computation", 1)[1]):
                    calls[name].append((body, None))
            elif op in ("fusion", "call", "async-start") and not re.search(r"-done\(", line):
                for name in re.findall(r"(?:calls|to_apply)=%([\w.-]+)", line):
                    calls[name].append((body, 1))
    known: dict[str, int | None] = {entry: 1}

    def count(name: str) -> int | None:
        if name not in known:
            each = [(count(caller), times) for caller, times in calls[name]]
            unknown = any(a is None or b is None for a, b in each if a != 0)
            known[name] = None if unknown else sum((a or 0) * (b or 0) for a, b in each)
        return known[name]

    return defaultdict(int, {name: count(name) for name in bodies})


def _turns(
    line: str,
    around: list[str],
    body: list[str],
    test: list[str],
    bodies: dict[str, list[str]],
) -> int | None:
    """Turns of a loop over a counter: (limit - start) / step, each an integer in the text."""
    told = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
    if told:
        return int(told[1])
    limit = _integers(test)
    compare = next((each for each in test if _op(each) == "compare" or "ROOT" in each), "")
    slot = _slot(compare, test)
    if len(limit) != 1 or slot is None:
        return None
    start = _start(line, around, slot)
    step = _step(body, slot, bodies)
    if start is None or not step:
        return None
    return -(-(limit[0] - start) // step)


def _integers(lines: list[str]) -> list[int]:
    found = (re.search(r"= [su]32\[\]\S* constant\((-?\d+)\)", line) for line in lines)
    return [int(each[1]) for each in found if each]


def _slot(line: str, lines: list[str]) -> int | None:
    """Which element of the loop's state an instruction reads."""
    for name in _NAMES.findall(line.split("= ", 1)[-1]):
        held = next(
            (each for each in lines if re.match(rf"\s+(ROOT )?%{re.escape(name)} = ", each)), ""
        )
        if match := re.search(r"get-tuple-element\(.*index=(\d+)", held):
            return int(match[1])
    return None


def _elements(line: str) -> list[str]:
    inner = line.split(" tuple(", 1)[-1]
    return _NAMES.findall(inner.split(")", 1)[0])


def _find(name: str, lines: list[str]) -> str:
    return next(
        (each for each in lines if re.match(rf"\s+(ROOT )?%{re.escape(name)} = ", each)), ""
    )


def _start(line: str, around: list[str], slot: int) -> int | None:
    state = _find(_NAMES.findall(line.split(" while(", 1)[1])[0], around)
    while " copy(" in state:
        state = _find(_NAMES.findall(state.split(" copy(", 1)[1])[0], around)
    if " tuple(" not in state:
        return None
    held = _find(_elements(state)[slot], around)
    while _op(held) == "copy":
        held = _find(_NAMES.findall(held.split(" copy(", 1)[1])[0], around)
    match = re.search(r"constant\((-?\d+)\)", held)
    return int(match[1]) if match else None


def _step(body: list[str], slot: int, bodies: dict[str, list[str]]) -> int | None:
    root = next(each for each in body if "ROOT" in each)
    changed = _find(_elements(root)[slot], body)
    while _op(changed) == "copy":
        changed = _find(_NAMES.findall(changed.split(" copy(", 1)[1])[0], body)
    lines = body
    if called := re.search(r"calls=%([\w.-]+)", changed):
        lines = bodies[called[1]]
        changed = next(each for each in lines if "ROOT" in each)
    if _op(changed) != "add":
        return None
    for name in _NAMES.findall(changed.split(" add(", 1)[1].split(")")[0]):
        held = _find(name, lines)
        if match := re.search(r"constant\((-?\d+)\)", held):
            return int(match[1])
        if (number := re.search(r"parameter\((\d+)\)", held)) and lines is not body:
            call = _find(_elements(root)[slot], body)
            outer = _NAMES.findall(call.split("fusion(", 1)[-1].split(")")[0])
            if match := re.search(r"constant\((-?\d+)\)", _find(outer[int(number[1])], body)):
                return int(match[1])
    return None


def _seen(
    line: str,
    lines: list[str],
    caller: tuple[str, str] | None,
    counts: dict[str, int | None],
    body: str,
    devices: int,
    frames: dict[int, str],
) -> Seen:
    match = _LINE.match(line)
    said = match and _OP.fullmatch(match["op"])
    assert match and said, line[:300]
    kind, start = said["kind"], bool(said["start"])
    put_in = [_shape(_find(name, lines)) for name in _NAMES.findall(match["rest"].split(")", 1)[0])]
    taken = nbytes(match["shape"])
    if start:
        name = re.escape(match["name"])
        done = next((each for each in lines if re.search(rf"-done\(.*%{name}\)", each)), None)
        # (a done in the loop's next turn is not among these lines: then the start's own shape
        # tells)
        taken = nbytes(_shape(done)) if done else taken // 2
    apart = start or "async_collective_name" in line
    apart = apart and '"is_sync":true' not in line.replace(" ", "")
    if caller is not None:
        apart = '"AsyncCollectiveStart"' in "".join(lines) or "async-start" in caller[1]
        less = _elements_of(_shape(caller[1])) < sum(map(_elements_of, put_in))
        kind = "reduce-scatter" if kind == "all-reduce" and less and not apart else kind
    place = _line_of(line, frames) or (_line_of(caller[1], frames) if caller else None)
    return Seen(
        kind,
        max(sum(map(nbytes, put_in)), taken),
        counts[body],
        _groups(line, devices),
        apart,
        place,
    )


def _elements_of(shape: str) -> int:
    return sum(
        math.prod(int(size) for size in dims.split(",") if size)
        for _, dims in _ARRAY.findall(shape)
    )


def _send(line: str, lines: list[str], count: int | None, frames: dict[int, str]) -> Seen:
    operand = _find(_NAMES.findall(line.split(" send(", 1)[1])[0], lines)
    return Seen("send", nbytes(_shape(operand)), count, (), True, _line_of(line, frames))


def _groups(line: str, devices: int) -> tuple[tuple[int, ...], ...]:
    if match := re.search(r"(?:replica_groups|source_target_pairs)=\{(\{[\d,{}]*\})\}", line):
        return tuple(
            tuple(int(n) for n in each.split(",")) for each in re.findall(r"\{([\d,]+)\}", match[1])
        )
    if "replica_groups={}" in line:
        return (tuple(range(devices)),)
    if match := re.search(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line):
        return _iota(int(match[1]), int(match[2]), match[3], match[4])
    match = re.search(
        r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\((.*?)\))? \{([^}]*)\}", line
    )
    assert match, line[:300]
    axes = [(name, int(size)) for name, size in re.findall(r"'?([\w.]+)'?=(\d+)", match[1])]
    moved = re.findall(r"'?([\w.]+)'?(?::\((\d+)\)(\d+))?", match[3])  # an axis, or a part of one
    ids = list(range(math.prod(size for _, size in axes)))
    if match[2]:
        told = re.fullmatch(r"\[([\d,]+)\](?:<=\[([\d,]+)\])?(?:T\(([\d,]+)\))?", match[2].strip())
        assert told, match[2]
        ids = list(_iota(1, len(ids), told[2] or told[1], told[3])[0])
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for at, device in enumerate(ids):
        rest, place = at, {}
        for name, size in reversed(axes):
            rest, place[name] = divmod(rest, size)
        for name, before, size in moved:
            whole = dict(axes)[name]
            after = whole // (int(before) * int(size)) if size else 1
            digit = place[name] // after % (int(size) if size else whole)
            place[name] -= digit * after
        groups[tuple(place[name] for name, _ in axes)].append(device)
    return tuple(tuple(group) for group in groups.values())


def _iota(rows: int, columns: int, reshape: str, order: str | None) -> tuple[tuple[int, ...], ...]:
    """0, 1, 2, ... in the shape `reshape`, transposed by `order`, in rows."""
    dims = [int(size) for size in reshape.split(",")]
    turned = [int(axis) for axis in order.split(",")] if order else list(range(len(dims)))
    strides = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
    flat = [0]
    for axis in turned:
        flat = [base + step * strides[axis] for base in flat for step in range(dims[axis])]
    return tuple(tuple(flat[row * columns : (row + 1) * columns]) for row in range(rows))


def _frames(text: str, file: str) -> dict[int, str]:
    """Stack frame -> innermost line of the program's own text."""
    tables = {
        name: dict(re.findall(r"^(\d+) (.*)$", block, re.M))
        for name, block in re.findall(
            r"^(FileNames|FileLocations|StackFrames)\n((?:\d+ .*\n)+)", text, re.M
        )
    }
    found = {}
    for number in tables.get("StackFrames", {}):
        at, steps = number, 0
        while at in tables["StackFrames"] and steps < 100:
            frame = tables["StackFrames"][at]
            place = tables["FileLocations"][_number("file_location_id", frame)]
            name = tables["FileNames"][_number("file_name_id", place)].strip('"')
            if name == file or name.endswith(f"/{file}"):
                found[int(number)] = f"{file}:{_number(' line', place)}"
                break
            parent = re.search(r"parent_frame_id=(\d+)", frame)
            at = str(int(parent[1]) - 1) if parent else ""
            steps += 1
    return found


def _number(key: str, text: str) -> str:
    match = re.search(rf"{key}=(\d+)", text)
    return match[1] if match else ""


def _line_of(line: str, frames: dict[int, str]) -> str | None:
    match = re.search(r"stack_frame_id=(\d+)", line)
    return frames.get(int(match[1])) if match else None
