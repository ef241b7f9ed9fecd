"""Mutations of shown values: the rules that change a cell, and the draw of places by a seed."""

import ast
import copy
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from tests.layers import ROOT

SHOWN = (
    "spmd_core/answers",
    "spmd_core/sheets",
    "spmd_core/terms",
    "spmd_core/words",
    "spmd_core/advice",
    "spmd_core/surveys",
    "spmd_core/history",
    "spmd_core/reports",
    "spmd_core/commands/printed",
    "spmd_lab/ui/compare",
    "spmd_lab/ui/collectives",
    "spmd_lab/ui/charts",
    "spmd_lab/ui/history",
    "spmd_lab/ui/predict",
    "spmd_lab/ui/search",
    "spmd_lab/ui/notebook",
)
SHOWN_FILES = (
    "spmd_core/commands",
    "spmd_lab/ui",
)  # modules of these folders, without what is in them
UNITS = {
    "ms": "s",
    " s": " ms",
    "GB/s": "MB/s",
    "GiB": "MiB",
    " %": "",
    "%": " ",
    "×": "%",
    "chip-": "",
}
FORMATTERS = (
    "seconds_text",
    "bytes_text",
    "number_text",
    "share_text",
    "count_text",
    "rate_words",
    "time_text",
)


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of one module: its rule, the place of the node, the lines where the functions around
    it begin, and the number of the node among those of its rule."""

    path: str
    rule: str
    number: int
    line: int
    place: str  # "" of one that is named
    functions: tuple[int, ...]
    text: str  # the source that is changed
    column: str = ""  # the title of the column that it is in, where it is in one
    instead: str = ""  # of one that is named: the source that takes its place

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        column = f" [{self.column}]" if self.column else ""
        return f"{where}{column} {self.rule}: {' '.join(self.text.split())[:90]}"


# Rules: of a node the changed node, None where the rule does not apply
# ------------------------------------------------------------------------------------------------


def _is_cell(node: ast.expr) -> bool:
    return isinstance(node, ast.Call | ast.JoinedStr | ast.IfExp | ast.Subscript)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return _name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_shown(node: ast.AST) -> bool:
    """Whether something in a node is formatted for a reader."""
    return any(
        (isinstance(each, ast.Call) and _name(each).endswith(("_text", "_words", "Cell")))
        or isinstance(each, ast.JoinedStr)
        for each in ast.walk(node)
    )


def swapped(node: ast.AST) -> ast.AST | None:
    """Two cells of a row exchanged."""
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        values = node.values
    elif isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load):
        values = node.elts
    else:
        return None
    if sum(map(_is_cell, values)) < 2 or not _is_shown(node):
        return None
    for at in range(len(values) - 1):
        one, other = values[at], values[at + 1]
        if _is_cell(one) and _is_cell(other) and ast.dump(one) != ast.dump(other):
            values[at], values[at + 1] = other, one
            return node
    return None


def inverted(node: ast.AST) -> ast.AST | None:
    """The other way round: a ratio."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)):
        return None
    if any(isinstance(each, ast.Constant | ast.JoinedStr) for each in (node.left, node.right)):
        return None
    node.left, node.right = node.right, node.left
    return node


def without_factor(node: ast.AST) -> ast.AST | None:
    """A product or quotient with a constant, without it; what is formatted, a thousand times."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        for constant, rest in ((node.right, node.left), (node.left, node.right)):
            if isinstance(constant, ast.Constant) and isinstance(constant.value, int | float):
                return rest
    if isinstance(node, ast.Call) and _name(node) in FORMATTERS and len(node.args) == 1:
        call = ast.parse("(lambda it: it if it is None else it * 1000)(0)", mode="eval").body
        assert isinstance(call, ast.Call)
        call.args = node.args
        node.args = [call]
        return node
    return None


def other_unit(node: ast.AST) -> ast.AST | None:
    """Another unit behind a number, or a share that is not in percent."""
    if isinstance(node, ast.JoinedStr):
        for at, each in enumerate(node.values):
            if isinstance(each, ast.FormattedValue) and isinstance(each.format_spec, ast.JoinedStr):
                spec = each.format_spec.values[-1]
                if isinstance(spec, ast.Constant) and str(spec.value).endswith("%"):
                    spec.value = f"{str(spec.value)[:-1]}f"
                    return node
            after = node.values[at + 1] if at + 1 < len(node.values) else None
            if isinstance(each, ast.FormattedValue) and isinstance(after, ast.Constant):
                for unit, other in UNITS.items():
                    if str(after.value).startswith((unit, f" {unit}")):
                        after.value = str(after.value).replace(unit, other, 1)
                        return node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        name = {"seconds_text": "bytes_text", "bytes_text": "seconds_text"}.get(node.func.id)
        if name:
            node.func = ast.parse(f"__import__('spmd_core.base').base.{name}", mode="eval").body
            return node
    return None


def _rows(node: ast.AST) -> bool:
    return isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp) and _is_shown(node)


def _sliced(node: ast.AST, part: str) -> ast.AST | None:
    if not _rows(node):
        return None
    loop = node.generators[0]  # pyright: ignore[reportAttributeAccessIssue]
    call = ast.parse(f"list(0)[{part}]", mode="eval").body
    call.value.args = [loop.iter]  # pyright: ignore[reportAttributeAccessIssue]
    loop.iter = call
    return node


def first_dropped(node: ast.AST) -> ast.AST | None:
    """Rows without the first."""
    return _sliced(node, "1:")


def last_merged(node: ast.AST) -> ast.AST | None:
    """Rows without the last, as if it were the same as the one before."""
    return _sliced(node, ":-1")


def flag_inverted(node: ast.AST) -> ast.AST | None:
    """A choice between two texts, made the other way."""
    if not isinstance(node, ast.IfExp):
        return None
    both = (node.body, node.orelse)
    if not all(isinstance(each, ast.Constant | ast.JoinedStr) for each in both):
        return None
    # an exit code and a width are no texts
    if any(isinstance(getattr(each, "value", ""), int | float) for each in both):
        return None
    node.body, node.orelse = node.orelse, node.body
    return node


def off_by_one(node: ast.AST) -> ast.AST | None:
    """A count that is one more."""
    if isinstance(node, ast.FormattedValue) and isinstance(node.format_spec, ast.JoinedStr):
        spec = node.format_spec.values
        if len(spec) == 1 and isinstance(spec[0], ast.Constant) and spec[0].value == ",":
            node.value = ast.BinOp(node.value, ast.Add(), ast.Constant(1))
            return node
    if isinstance(node, ast.Call) and _name(node) == "count_text" and node.args:
        node.args[0] = ast.BinOp(node.args[0], ast.Add(), ast.Constant(1))
        return node
    if isinstance(node, ast.Call) and _name(node) == "enumerate" and len(node.args) == 2:
        node.args.pop()
        return node
    if isinstance(node, ast.FormattedValue) and _name(node.value) == "len":
        node.value = ast.BinOp(node.value, ast.Add(), ast.Constant(1))
        return node
    return None


def reordered(node: ast.AST) -> ast.AST | None:
    """Rows the other way round, or the worst where the best is shown."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return None
    if node.func.id == "sorted" and not any(each.arg == "reverse" for each in node.keywords):
        node.keywords.append(ast.keyword("reverse", ast.Constant(True)))
        return node
    if node.func.id in ("min", "max") and any(each.arg == "key" for each in node.keywords):
        node.func.id = {"min": "max", "max": "min"}[node.func.id]
        return node
    return None


# Each with the nodes that it changes: of the rest none is copied
_ROWS = (ast.ListComp, ast.GeneratorExp, ast.DictComp)
RULES: dict[Callable[[ast.AST], ast.AST | None], tuple[type[ast.AST], ...]] = {
    swapped: (ast.Dict, ast.Tuple, ast.List),
    inverted: (ast.BinOp,),
    without_factor: (ast.BinOp, ast.Call),
    other_unit: (ast.JoinedStr, ast.Call),
    first_dropped: _ROWS,
    last_merged: _ROWS,
    flag_inverted: (ast.IfExp,),
    off_by_one: (ast.FormattedValue, ast.Call),
    reordered: (ast.Call,),
}


def place_of(path: str, node: ast.AST) -> str:
    """Where a node is, by its module, line and columns."""
    ends = (
        getattr(node, name, 0) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")
    )
    return ":".join(map(str, (path, *ends)))


class _Planted(ast.NodeTransformer):
    """Applies one rule: to the node of a number, or to none and notes all."""

    def __init__(self, rule: Callable[[ast.AST], ast.AST | None], number: int | None = None):
        self._rule, self._number = rule, number
        self.seen: list[tuple[ast.AST, tuple[int, ...], str, str]] = []
        self._functions: list[int] = []
        self._titles: list[str] = []
        self._of_definitions: set[int] = set()

    def visit(self, node: ast.AST) -> ast.AST:
        """Nodes in the body of a function; decorators and defaults are of what is around it, where
        they set how often a screen looks, or how much a cache keeps.
        """
        if id(node) in self._of_definitions:
            self._of_definitions.remove(id(node))
            *around, inner = self._functions
            self._functions = around
            node = self.visit(node)
            self._functions = [*around, inner]
            return node
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if is_function:
            first = getattr(node, "decorator_list", [])
            self._functions.append(first[0].lineno if first else node.lineno)
            given = (*first, *node.args.defaults, *node.args.kw_defaults)
            self._of_definitions |= {id(each) for each in given if each is not None}
        # an annotation, and the name of a widget, are no texts
        is_unseen = isinstance(node, ast.arg | ast.AnnAssign) or (
            isinstance(node, ast.keyword)
            and node.arg == "key"
            and isinstance(node.value, ast.JoinedStr)
        )
        if self._functions and isinstance(node, ast.expr | ast.FormattedValue) and not is_function:
            is_of_it = isinstance(node, RULES[self._rule])
            changed = self._rule(copy.deepcopy(node)) if is_of_it else None
            if changed is not None and ast.dump(changed) != ast.dump(node):
                column = self._titles[-1] if self._titles else ""
                self.seen.append((node, tuple(self._functions), ast.unparse(node), column))
                if self._number == len(self.seen) - 1:
                    return changed
        title = _title(node)
        self._titles += [title] if title else []
        result = node if is_unseen else self.generic_visit(node)
        if title:
            self._titles.pop()
        if is_function:
            self._functions.pop()
        return result


def _title(node: ast.AST) -> str:
    """The title of a column of a sheet, where a node is one: `seconds("Time", lambda row: …)`."""
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        is_column = any(isinstance(each, ast.Lambda | ast.Name) for each in node.args[1:2])
        return str(node.args[0].value) if is_column else ""
    return ""


@cache
def mutations(path: str) -> tuple[Mutation, ...]:
    """Every mutation of a module that a rule makes."""
    return tuple(_mutations(path, (ROOT / path).read_text("utf-8")))


def _mutations(path: str, source: str) -> Iterator[Mutation]:
    for rule in RULES:
        planted = _Planted(rule)
        planted.visit(ast.parse(source))
        for number, (node, functions, text, column) in enumerate(planted.seen):
            at, line = place_of(path, node), getattr(node, "lineno", 0)
            yield Mutation(path, rule.__name__, number, line, at, functions, text, column)


def mutated(mutation: Mutation) -> ast.Module:
    """The syntax of the module with the mutation; lines stay what they were."""
    source = (ROOT / mutation.path).read_text("utf-8")
    if mutation.rule == "named":
        assert source.count(mutation.text) == 1, f"{mutation.path} has no {mutation.text}"
        return ast.parse(source.replace(mutation.text, mutation.instead))
    rule = next(each for each in RULES if each.__name__ == mutation.rule)
    return ast.fix_missing_locations(_Planted(rule, mutation.number).visit(ast.parse(source)))


def shown_modules() -> list[str]:
    """The modules whose cells are mutated."""
    paths = {path for folder in SHOWN for path in (ROOT / folder).rglob("*.py")}
    paths |= {path for folder in SHOWN_FILES for path in (ROOT / folder).glob("*.py")}
    return sorted(str(path.relative_to(ROOT)) for path in paths if path.name != "__init__.py")


def drawn(seed: int, count: int) -> list[Mutation]:
    """Mutations by a seed: a rule first, then one of its places."""
    by_rule = defaultdict(list)
    for path in shown_modules():
        for each in mutations(path):
            by_rule[each.rule].append(each)
    draw, chosen = random.Random(seed), []
    for rule in sorted(by_rule):
        draw.shuffle(by_rule[rule])
    while len(chosen) < count and any(by_rule.values()):
        rule = draw.choice([rule for rule in sorted(by_rule) if by_rule[rule]])
        chosen.append(by_rule[rule].pop())
    return chosen
