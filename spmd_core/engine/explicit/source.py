"""Watches the expressions of a user's files, and edits them by position; nothing is reformatted."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from spmd_core.base import parsed

WATCH = "__spmd_watch__"  # the name under which a watched module calls the watch
_UNWATCHED = frozenset(("super", "locals", "globals", "vars", "dir", "eval", "exec"))
_BLANK = " \t\r\n\\)"
Slot = tuple[int | str, ...]
Span = tuple[int, int]


@dataclass(frozen=True, order=True, slots=True)
class Edit:
    """Replaces text[start:end]. Of edits at one place the lower rank comes first."""

    start: int
    rank: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression of a file: where it is, and its operands by slot.

    Slots are the place of a positional argument, the name of a keyword, both with the place of an
    element where a list or tuple is written out; `self` is what a method is called on; `array`
    and `index` are those of `x.at[index]`.
    """

    path: str
    kind: str  # call, binary, item or augmented
    line: int
    span: Span
    text: str
    slots: Mapping[Slot, Span]
    function: Span | None = None
    operator: str = ""  # or the attribute that is called

    @property
    def key(self) -> tuple[str, int, str]:
        """What an expression is known by after others were edited."""
        return self.path, self.line, self.text


@dataclass(slots=True)
class EditedFile:
    """A file of the user's, as it is being edited."""

    path: str
    text: str
    original: str = ""
    sites: dict[int, Expression] = field(default_factory=dict)
    _starts: list[int] = field(default_factory=list)

    def watched(self, first: int = 0) -> ast.Module:
        """The syntax tree, whose calls, operators and subscripts go through the watch; their sites
        are numbered from `first`.
        """
        tree = parsed(self.text)
        self.sites = {}
        _Watching(self, first).visit(tree)
        return ast.fix_missing_locations(tree)

    def offset(self, line: int, column: int) -> int:
        """The place in the text of a position that `ast` gives, whose columns are bytes."""
        if not self._starts:
            lengths = (len(each) + 1 for each in self.text.split("\n"))
            self._starts = [0, *accumulate(lengths)]
        start, end = self._starts[line - 1 : line + 1]
        return start + len(self.text[start:end].encode()[:column].decode())

    def span(self, node: ast.expr) -> Span:
        """Start and end of an expression, without parentheses around it."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self.offset(node.lineno, node.col_offset)
        return start, self.offset(node.end_lineno, node.end_col_offset)

    def after(self, place: int) -> int:
        """The place of the next character that is no blank, comment or closing parenthesis."""
        while self.text[place] in _BLANK or self.text[place] == "#":
            place = self.text.index("\n", place) if self.text[place] == "#" else place + 1
        return place

    def names(self) -> dict[str, str]:
        """What the file calls `jax`, `jax.numpy` and `PartitionSpec`."""
        names: dict[str, str] = {}
        for node in parsed(self.text).body:
            if isinstance(node, ast.Import):
                for each in node.names:
                    names[each.name] = each.asname or each.name
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for each in node.names:
                    names[f"{node.module}.{each.name}"] = each.asname or each.name
        jax = names.get("jax", "jax")
        spec = names.get("jax.sharding.PartitionSpec") or names.get("jax.P")
        return {
            "jax": jax,
            "jnp": names.get("jax.numpy", f"{jax}.numpy"),
            "P": spec or f"{jax}.P",
            "imported": "jax" if "jax" in names else "",
        }

    def apply(self, edits: Sequence[Edit]) -> None:
        """Make edits, of which no two may overlap.

        Raises:
            ValueError: two edits overlap, or the result is no Python.
        """
        text, last = self.text, len(self.text)
        for edit in sorted(set(edits), reverse=True):
            if edit.end > last:
                raise ValueError("another change is made within the same expression")
            text = text[: edit.start] + edit.text + text[edit.end :]
            last = edit.start
        try:
            parsed(text)
        except SyntaxError as error:
            raise ValueError("the line would be no Python any more") from error
        self.put(text)

    def put(self, text: str) -> None:
        """Have another text."""
        self.text, self._starts = text, []

    def finished(self) -> str:
        """The text, with a line that imports jax where an edit needs it."""
        if self.text == self.original or self.names()["imported"]:
            return self.text
        body = parsed(self.text).body
        first = next(each for each in body if not _is_head(each))
        start = self.offset(first.lineno, 0)
        return f"{self.text[:start]}import jax\n{self.text[start:]}"


def _is_head(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


class _Watching(ast.NodeTransformer):
    """Lets expressions be evaluated by the watch, in the order and scope that they have."""

    def __init__(self, source: EditedFile, first: int) -> None:
        self._source, self._next = source, first

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.args.defaults = [self.visit(each) for each in node.args.defaults]
        node.body = [self.visit(each) for each in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.value = self.visit(node.value) if node.value else None
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        return node  # positions inside are not those of the file

    def visit_Call(self, node: ast.Call) -> ast.Call:
        if isinstance(node.func, ast.Name) and node.func.id in _UNWATCHED:
            self.generic_visit(node)
            return node
        slots = self._slots(node.args)
        for each in node.keywords:
            slots |= {(each.arg, *rest): span for (_, *rest), span in self._slots([each.value]).items()} if each.arg else {}  # fmt: skip
        if isinstance(node.func, ast.Attribute):
            slots[("self",)] = self._source.span(node.func.value)
            slots |= self._reference(node.func.value)
        attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        number = self._numbered(node, "call", slots, self._source.span(node.func), attribute)
        self.generic_visit(node)
        return self._replaced(node, "call", number, [node.func, *node.args], node.keywords)

    def visit_BinOp(self, node: ast.BinOp) -> ast.Call:
        slots = self._slots([node.left, node.right])
        number = self._numbered(node, "binary", slots, operator=type(node.op).__name__)
        self.generic_visit(node)
        return self._replaced(node, "binary", number, [node.left, node.right])

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) > 1 or isinstance(node.ops[0], ast.In | ast.NotIn | ast.Is | ast.IsNot):
            self.generic_visit(node)
            return node
        sides = [node.left, node.comparators[0]]
        operator = type(node.ops[0]).__name__
        number = self._numbered(node, "binary", self._slots(sides), operator=operator)
        self.generic_visit(node)
        return self._replaced(node, "binary", number, [node.left, node.comparators[0]])

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name):
            node.value = self.visit(node.value)
            return node
        slots: dict[Slot, Span] = {(1,): self._source.span(node.value)}
        operator = f"I{type(node.op).__name__}"
        number = self._numbered(node, "augmented", slots, operator=operator)
        left = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        value = self._replaced(node, "binary", number, [left, self.visit(node.value)])
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        is_reference = isinstance(node.value, ast.Attribute) and node.value.attr == "at"
        if not isinstance(node.ctx, ast.Load) or is_reference:
            self.generic_visit(node)
            return node
        slots = self._slots([node.value, node.slice])
        number = self._numbered(node, "item", slots, function=self._source.span(node.value))
        self.generic_visit(node)
        return self._replaced(node, "item", number, [node.value, _index(node.slice)])

    def _slots(self, values: Sequence[ast.expr]) -> dict[Slot, Span]:
        slots: dict[Slot, Span] = {}
        for place, value in enumerate(values):
            if any(isinstance(each, ast.Starred) for each in values[: place + 1]):
                break
            if not isinstance(value, ast.Slice):
                slots[(place,)] = self._source.span(value)
            if isinstance(value, ast.List | ast.Tuple):
                inner = self._slots(value.elts)
                slots |= {(place, at[0]): span for at, span in inner.items() if len(at) == 1}
        return slots

    def _reference(self, node: ast.expr) -> dict[Slot, Span]:
        if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute)):
            return {}
        if node.value.attr != "at" or isinstance(node.slice, ast.Slice | ast.Tuple):
            return {}
        spans = (self._source.span(each) for each in (node.value.value, node.slice))
        return dict(zip((("array",), ("index",)), spans, strict=True))

    def _numbered(
        self,
        node: ast.expr | ast.AugAssign,
        kind: str,
        slots: Mapping[Slot, Span],
        function: Span | None = None,
        operator: str = "",
    ) -> int:
        number, self._next = self._next, self._next + 1
        span = self._source.span(node)  # pyright: ignore[reportArgumentType]
        text = ast.unparse(node)
        self._source.sites[number] = Expression(
            self._source.path, kind, node.lineno, span, text, slots, function, operator
        )
        return number

    def _replaced(
        self,
        node: ast.expr | ast.stmt,
        method: str,
        number: int,
        arguments: Sequence[ast.expr],
        keywords: Sequence[ast.keyword] = (),
    ) -> ast.Call:
        watch = ast.Attribute(ast.Name(WATCH, ast.Load()), method, ast.Load())
        call = ast.Call(watch, [ast.Constant(number), *arguments], list(keywords))
        for each in (watch.value, watch, call.args[0], call):
            ast.copy_location(each, node)
        return call


def _index(node: ast.expr) -> ast.expr:
    """An index as a value: a slice is written out."""
    if isinstance(node, ast.Slice):
        parts = [each or ast.Constant(None) for each in (node.lower, node.upper, node.step)]
        return ast.copy_location(ast.Call(ast.Name("slice", ast.Load()), parts, []), node)
    if isinstance(node, ast.Tuple):
        node.elts = [_index(each) for each in node.elts]
    return node
