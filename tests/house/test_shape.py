"""The shape of the code: counts that may fall and never rise."""

import ast

import pytest

from tests.layers import ROOT, source_files

pytestmark = pytest.mark.fast

LONGEST = 40  # lines of a function
# Of the program: as many as there are; lower it with them. The aim: at most 5, none, at most 60.
MOST_CHAINED, MOST_LONG, MOST_ANY = 7, 49, 141


def chained(tree: ast.AST) -> list[int]:
    """Lines of conditional expressions whose alternative is another one: `a if b else c if d else e`."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.IfExp) and isinstance(node.orelse, ast.IfExp)
    ]


def long_functions(tree: ast.AST) -> list[str]:
    """Functions of more than `LONGEST` lines, from their `def` to their last line."""
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > LONGEST
    ]


def any_values(tree: ast.AST) -> list[int]:
    """Lines of `dict[str, Any]`."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and ast.unparse(node) == "dict[str, Any]"
    ]


def found(count) -> list[str]:
    """`file:what` for each occurrence in the program."""
    return [
        f"{path.relative_to(ROOT)}:{each}"
        for path in source_files()
        for each in count(ast.parse(path.read_text("utf-8")))
    ]


@pytest.mark.parametrize(
    ("count", "most"),
    [(chained, MOST_CHAINED), (long_functions, MOST_LONG), (any_values, MOST_ANY)],
)
def test_what_makes_code_hard_to_read_does_not_come_back(count, most):
    assert len(listed := found(count)) <= most, "\n".join(listed)


def test_the_counters_see_what_they_count():
    body = "\n".join(f"    x = {line}" for line in range(LONGEST))
    tree = ast.parse(f"y = 1 if a else 2 if b else 3\ndef f(z: dict[str, Any]):\n{body}\n")
    assert (chained(tree), long_functions(tree), any_values(tree)) == ([1], ["f"], [2])
    assert chained(ast.parse("(1 if a else 2) if b else 3")) == []
