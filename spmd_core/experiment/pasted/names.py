"""Names of pasted code: what its imports and assignments bind them to."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spmd_core.base import RequestError, refuse, shorten

_HOPS = 8  # from a name to a name


@dataclass(frozen=True, slots=True)
class Names:
    """Names of a code: other names of what is imported, and the expression of each assigned name,
    None where it has several or one that is no assignment's (an argument, a loop's).
    """

    code: str
    imported: Mapping[str, str]
    values: Mapping[str, ast.expr | None]

    def value(self, node: ast.expr) -> ast.expr:
        """Returns the expression that a name is assigned to; any other expression unchanged."""
        for _ in range(_HOPS):
            after = self.values.get(node.id) if isinstance(node, ast.Name) else None
            if after is None:
                return node
            node = after
        return node

    def called(self, call: ast.Call) -> str:
        """Returns the name of the function that is called, as its module has it."""
        function = self.value(call.func)
        if isinstance(function, ast.Attribute):
            return function.attr
        name = getattr(function, "id", "")
        return self.imported.get(name, name)

    def elements(self, node: ast.expr | None) -> list[ast.expr] | None:
        """Returns the elements of a tuple or list, starred ones expanded; None for anything else."""
        node = None if node is None else self.value(node)
        return self.expanded(node.elts) if isinstance(node, (ast.Tuple, ast.List)) else None

    def expanded(self, nodes: Sequence[ast.expr]) -> list[ast.expr] | None:
        """Returns expressions with starred tuples in place; None where one is not written down."""
        flat: list[ast.expr] = []
        for node in nodes:
            inner = self.value(node.value) if isinstance(node, ast.Starred) else node
            if isinstance(node, ast.Starred) and not isinstance(inner, (ast.Tuple, ast.List)):
                return None
            flat += inner.elts if isinstance(node, ast.Starred) else [node]  # pyright: ignore[reportAttributeAccessIssue]
        return [self.value(each) for each in flat]

    def constants(self, nodes: Sequence[ast.expr] | None, kind: type) -> list[Any] | None:
        """Returns the values of constants of one type; None where a node is none of them."""
        values = [
            each.value
            for each in map(self.value, nodes or ())
            if isinstance(each, ast.Constant) and type(each.value) is kind
        ]
        return values if nodes is not None and len(values) == len(nodes) else None

    def written(self, node: ast.AST) -> str:
        """Returns the code of a node unchanged: a number of thousands of digits has no other text."""
        return shorten(" ".join((ast.get_source_segment(self.code, node) or "").split()))

    def unread(self, node: ast.expr, is_no: str, fix: str) -> RequestError:
        """Returns the refusal of an expression that is not written down in the text."""
        node = self.value(node)
        name = node.id if isinstance(node, ast.Name) else ""
        if name in self.values:
            is_no = "is assigned more than once, or by more than an assignment"
        elif name:
            is_no = "is not assigned in the text"
        return refuse(self.written(node), is_no, fix)


def names_of(nodes: Sequence[ast.AST], code: str) -> Names:
    """Returns the names that the nodes of a code bind."""
    imported: dict[str, str] = {}
    values: dict[str, ast.expr | None] = {}
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imported |= {
                each.asname: each.name.split(".")[-1] for each in node.names if each.asname
            }
        for name, value in _bound(node):
            values[name] = None if name in values else value
    stored = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    given = {node.arg for node in nodes if isinstance(node, ast.arg)}
    return Names(code, imported, values | dict.fromkeys(stored - values.keys() | given))


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Each name that a node binds, with the expression, None where that is not written down."""
    if isinstance(node, ast.Assign):
        pairs = [(target, node.value) for target in node.targets]
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        pairs = [(node.target, node.value)]
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        pairs = [(node.optional_vars, node.context_expr)]
    elif isinstance(node, (ast.AugAssign, ast.For)):
        pairs = [(node.target, None)]
    else:
        return
    for target, value in pairs:
        if isinstance(target, ast.Name):
            yield target.id, value
        elif isinstance(target, (ast.Tuple, ast.List)):
            same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            each = value.elts if same else [None] * len(target.elts)  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
            for one, of in zip(target.elts, each, strict=True):
                if isinstance(one, ast.Name):
                    yield one.id, of
