"""Reads the text of a module that Shardy writes before and after its propagation."""

import re
from collections.abc import Iterator

from spmd_core.program.hlo.module import HloError
from spmd_core.program.hlo.text import closing, split
from spmd_core.program.ir.stablehlo import quiet
from spmd_core.program.origins.graph import CONSTRAINTS, MANUAL, Edge, Graph, Op, Region, Value

_OP = re.compile(r'\s*(?:(%[^=]+) = )?"?((?:\w+\.[\w.]+)|return|call)"?(?=[\s("<])')
_RESULT = re.compile(r"(%[\w$.-]+)(?::(\d+))?")
_NAME = re.compile(r"%[\w$.-]+(?:#\d+)?(?!\w*:)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_INNERMOST = re.compile(r"\{[^{}]*\}")
_INITIAL = re.compile(r"\((%[\w$.#-]+) init: (%[\w$.#-]+)\)")
_CARRIED = re.compile(r"(%[\w$.-]+) = (%[\w$.#-]+)")
_ARGUMENT = re.compile(r"(%[\w$.-]+): ")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)[^<>]*(?:<[^<>]*>)?>")
_SHARDING = re.compile(
    r"<(?:@[\w$.-]+|@\"[^\"]*\"|mesh<[^>]*>), \[((?:\{[^}]*\}(?:p\d+)?(?:, )?)*)\]"
)
_DIM = re.compile(r"\{([^}]*)\}")
_AXIS = re.compile(r'"([^"]+)"')
_STEP = re.compile(r"\{step-(\d+) = \[((?:\{[^}]*\}(?:, )?)*)\]\}")
_MOVE = re.compile(r'\{"([^"]+)"(?::\(\d+\)\d+)? = (operand|result)-(\d+) -> \[([^\]]*)\]\}')
_ENDS = re.compile(r"(operand|result)-(\d+)")
_LABELS = re.compile(r'(?:"([^"]+)"|([\w.$-]+))(?::\(\d+\)\d+)? = "([^"]*)"')
_LABEL = re.compile(r'sdy\.sharding_origin_name = "([^"]*)"')
_RULE = re.compile(
    r"sdy\.sharding_rule = #sdy\.op_sharding_rule<\((.*?)\)->\((.*?)\)(?: \{[^}]*\})?([^>]*)>"
)
_BLOCKED = re.compile(r"blocked_propagation=\{([^}]*)\}")
_MAPPED = re.compile(r"\[([^\]]*)\]")
_FACTOR = re.compile(r"[a-z](?:_\d+)?")
_MESH = re.compile(r"^ *sdy\.mesh @\S+ = <\[([^\]]*)\]", re.MULTILINE)
_SIZE = re.compile(r'"([^"]+)"=(\d+)')
_RETURNS = ("stablehlo.return", "sdy.return", "return")


def read_dump(text: str) -> Graph:
    """Reads the main function of a module.

    Args:
      text: the module, as XLA writes it where Shardy's propagation is dumped.

    Raises:
      HloError: the text has no function `main`, or an op of an unknown form.
    """
    reader = _Reader()
    for line in text.splitlines():
        reader.line(quiet(line) if "loc(" in line else line)
        if reader.done:
            return reader.graph
    raise HloError("the module of the propagation has no function main")


def meshes_of(text: str) -> list[tuple[tuple[str, int], ...]]:
    """ProgramNames and sizes of the axes of each mesh of a module."""
    return [
        tuple((name, int(size)) for name, size in _SIZE.findall(match[1]))
        for match in _MESH.finditer(text)
    ]


class _Reader:
    """Reads line by line; `open` are the ops whose regions are being read, with their scopes."""

    def __init__(self) -> None:
        self.graph, self.done = Graph(), False
        self._scopes: list[dict[str, Value]] = []
        self._open: list[Op] = []
        self._last: Op | None = None

    def line(self, line: str) -> None:
        """Reads a line of the main function; others are skipped."""
        text = line.strip()
        if not self._scopes:
            if text.startswith("func.func") and "@main(" in text:
                self._head(text)
            return
        if text.startswith(("}", "cond {", "do {", "reducer(", "^")):
            self._brace(text)
        elif match := _OP.match(line):
            self._op(line, match)

    def _head(self, text: str) -> None:
        start = text.index("@main(") + len("@main")
        end = closing(text, start)
        scope: dict[str, Value] = {}
        for at, part in enumerate(split(text[start + 1 : end])):
            if part:
                value = _declared(part)
                value.index = at
                scope[part.partition(":")[0]] = value
                self.graph.arguments.append(value)
        rest = text[end + 1 :].strip().removeprefix("->").removesuffix("{").strip()
        parts = split(rest[1 : closing(rest, 0)]) if rest.startswith("(") else [rest]
        self.graph.outputs = [_declared(part) for part in parts if part]
        self._scopes.append(scope)

    def _brace(self, text: str) -> None:
        if text.startswith("^"):
            self._declare(text)
            return
        if text.startswith("}"):
            self._scopes.pop()
            if not self._scopes:
                self.done = True
                return
            if not text.endswith("{"):
                self._last = self._open.pop()
                _with_shapes(self._last, _without_braces(text.lstrip("})")))
                self._attributes(self._last, text)
                return
        elif self._last is not None:  # the first region, on a line of its own
            self._open.append(self._last)
        self._enter()
        if text.startswith("reducer("):
            self._declare(text)

    def _enter(self) -> None:
        op = self._open[-1]
        op.regions.append(Region())
        inner: dict[str, Value] = {}
        if op.kind == "stablehlo.while":
            op.regions[-1].arguments = [Value(shape=each.shape) for each in op.results]
            inner = dict(zip(op.carried, op.regions[-1].arguments, strict=True))
        self._scopes.append(inner)

    def _declare(self, text: str) -> None:
        for match in _ARGUMENT.finditer(_without_braces(text)):
            value = Value(index=len(self._open[-1].regions[-1].arguments))
            self._open[-1].regions[-1].arguments.append(value)
            self._scopes[-1][match[1]] = value

    def _value(self, name: str) -> Value | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _op(self, line: str, match: re.Match[str]) -> None:
        kind, rest = match[2], line[match.end() :]
        bare = _without_braces(rest)
        names = self._operand_names(kind, bare)
        operands = [value for name in names if (value := self._value(name)) is not None]
        if kind in _RETURNS:
            if self._open:
                self._open[-1].regions[-1].yields = operands
            else:
                self.graph.returned = operands
            return
        op = Op(kind, operands=operands)
        self._results(op, match, bare)
        if kind == "stablehlo.while":
            op.carried = tuple(each[1] for each in _CARRIED.finditer(bare))
        self.graph.ops.append(op)
        self._attributes(op, rest)
        self._last = op
        if rest.rstrip().endswith("{"):
            self._open.append(op)
            self._enter()
            if kind == MANUAL:
                self._declare(bare)
        for at, value in enumerate(operands):
            value.users.append((op, at))

    def _operand_names(self, kind: str, bare: str) -> list[str]:
        if kind == "stablehlo.while":
            return [each[2] for each in _CARRIED.finditer(bare)]
        if kind == "stablehlo.reduce" and (pairs := _INITIAL.findall(bare)):
            return [each for each, _ in pairs] + [each for _, each in pairs]
        return _NAME.findall(bare)

    def _results(self, op: Op, match: re.Match[str], bare: str) -> None:
        for name, count in _RESULT.findall(match[1] or ""):  # `%values, %indices = mhlo.topk(…)`
            for at in range(int(count or 1)):
                op.results.append(Value(op=op, index=len(op.results)))
                self._scopes[-1][f"{name}#{at}" if count else name] = op.results[-1]
        _with_shapes(op, bare)

    def _attributes(self, op: Op, text: str) -> None:
        if label := _LABEL.search(text):
            op.label = label[1]
        op.edges = (*op.edges, *_edges(_attribute(text, "sdy.propagation_edges")))
        op.flows = op.flows or _listed_edges(_attribute(text, "sdy.result_propagation_edges"))
        op.enters = op.enters or _listed_edges(_attribute(text, "sdy.block_arg_propagation_edges"))
        shardings = _specs(_attribute(text, "sdy.sharding"))
        labels = _attribute(text, "sdy.sharding_origins")
        if rule := _RULE.search(text):
            op.rule, op.blocked = _rule(rule)
        if op.kind in CONSTRAINTS:
            own = text.partition("{sdy.")[0]
            op.specs, op.closed = _specs(own), _closed(own)
            shardings = op.specs
        elif op.kind == MANUAL and "in_shardings" in text:
            before, _, after = text.partition("out_shardings")
            own = after.partition("manual_axes")[0]
            op.arguments_specs, op.specs, op.closed = _specs(before), _specs(own), _closed(own)
            shardings = op.specs
        for value, axes in zip(op.results, shardings, strict=False):
            value.axes = axes
        of_each = [labels] if labels.startswith("{") else _DIM.findall(labels)
        for value, each in zip(op.results, of_each, strict=False):
            value.labels = _labels(each)


def _declared(part: str) -> Value:
    shape = _TENSOR.search(part)
    sharding = _attribute(part, "sdy.sharding")
    axes = next(iter(_specs(sharding)), {})
    return Value(
        closed=next(iter(_closed(sharding)), frozenset()),
        shape=_dims(shape[1]) if shape else (),
        axes=axes,
        labels=_labels(_attribute(part, "sdy.sharding_origins")),
    )


def _with_shapes(op: Op, bare: str) -> None:
    """The types behind the last colon, of the results if those of operands differ."""
    behind = bare.rpartition("->")[2] if "->" in bare else bare.rpartition(" : ")[2]
    shapes = [_dims(match[1]) for match in _TENSOR.finditer(behind)]
    if not shapes:
        return
    if len(shapes) != len(op.results):
        shapes = shapes[-1:] * len(op.results)
    for value, shape in zip(op.results, shapes, strict=True):
        value.shape = shape


def _dims(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split("x") if size)


def _without_braces(text: str) -> str:
    """A line without strings and attributes; a brace that opens a region stays."""
    text = _STRING.sub("", text)
    while "{" in text and (shorter := _INNERMOST.sub("", text)) != text:
        text = shorter
    return text


def _attribute(text: str, name: str) -> str:
    start = text.find(f"{name} = ")
    if start < 0:
        return ""
    start += len(name) + 3
    opening = min((at for at in map(text.find, "{[", (start, start)) if at >= 0), default=-1)
    return text[start : closing(text, opening) + 1] if opening >= 0 else ""


def _specs(text: str) -> tuple[dict[str, int], ...]:
    return tuple(
        {
            axis: dim
            for dim, axes in enumerate(_DIM.findall(match[1]))
            for axis in _AXIS.findall(axes)
        }
        for match in _SHARDING.finditer(text)
    )


def _closed(text: str) -> tuple[frozenset[int], ...]:
    """The dims of every sharding in a text that propagation does not shard further."""
    return tuple(
        frozenset(dim for dim, axes in enumerate(_DIM.findall(match[1])) if "?" not in axes)
        for match in _SHARDING.finditer(text)
    )


def _rule(match: re.Match[str]) -> tuple[tuple[tuple[tuple[str, ...], ...], ...], frozenset[str]]:
    """The factors of each dim of operands and results, and those that are blocked."""
    mapped = (
        tuple(tuple(_FACTOR.findall(dim)) for dim in each.split(", ") if dim)
        for each in _MAPPED.findall(f"{match[1]}, {match[2]}")
    )
    blocked = _BLOCKED.search(match[3])
    return tuple(mapped), frozenset(_FACTOR.findall(blocked[1]) if blocked else ())


def _labels(text: str) -> dict[str, str]:
    return {match[1] or match[2]: match[3] for match in _LABELS.finditer(text)}


def _edges(text: str) -> Iterator[Edge]:
    for step in _STEP.finditer(text):
        for move in _MOVE.finditer(step[2]):
            targets = tuple((kind, int(at)) for kind, at in _ENDS.findall(move[4]))
            yield Edge(int(step[1]), move[1], (move[2], int(move[3])), targets)


def _listed_edges(text: str) -> tuple[tuple[Edge, ...], ...]:
    parts = split(text[1:-1]) if len(text) > 2 else []
    return tuple(tuple(_edges(part)) for part in parts)
