"""Plants mutations of shown values in copies of the tree, and counts those that are caught:

    python -m tests.house.mutate [--seed 1] [--count 100] [--against goldens|mirrors]

A rule and a place are drawn for each: two cells exchanged, a ratio inverted, a factor lost, another
unit, a row dropped or the last one, a flag inverted, off by one, another order. Places are the
cells of the modules that turn results into words, tables and documents. `goldens`: the renderings
that run the changed function, against what is recorded (`tests/golden`). `mirrors`: the tests that
mirror the module. What no renderer runs counts as not caught. Survivors are printed.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.layers import ROOT

SHOWN = (
    "spmd_core/words",
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
COPIED = (
    "spmd_core",
    "spmd_lab",
    "pages",
    "tests",
    "bench",
    "home.py",
    "app.py",
    "pyproject.toml",
    ".streamlit",
    "docs",
)
PROCESSES = 2
LONGEST_S = 150.0  # of the checks of one mutation: what takes longer is caught
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
    """A change of one module: its rule, line, the lines where the functions around it begin, and
    the number of the node among those of its rule."""

    path: str
    rule: str
    number: int
    line: int
    functions: tuple[int, ...]
    text: str  # the source that is changed

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.rule}: {' '.join(self.text.split())[:90]}"


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
    texts = (ast.Constant, ast.JoinedStr)
    if not (isinstance(node.body, texts) and isinstance(node.orelse, texts)):
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


RULES: tuple[Callable[[ast.AST], ast.AST | None], ...] = (
    swapped,
    inverted,
    without_factor,
    other_unit,
    first_dropped,
    last_merged,
    flag_inverted,
    off_by_one,
    reordered,
)


class _Planted(ast.NodeTransformer):
    """Applies one rule: to the node of a number, or to none and notes all."""

    def __init__(self, rule: Callable[[ast.AST], ast.AST | None], number: int | None = None):
        self._rule, self._number, self.seen = rule, number, list[tuple[int, tuple[int, ...], str]]()
        self._functions: list[int] = []

    def visit(self, node: ast.AST) -> ast.AST:
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if is_function:
            first = getattr(node, "decorator_list", None)
            self._functions.append(first[0].lineno if first else node.lineno)
        is_annotation = isinstance(node, ast.arg | ast.AnnAssign)
        if self._functions and isinstance(node, ast.expr | ast.FormattedValue) and not is_function:
            text = ast.unparse(node)
            before, place = ast.dump(node), (node.lineno, tuple(self._functions), text)
            changed = self._rule(_copy(node))
            if changed is not None and ast.dump(changed) != before:
                self.seen.append(place)
                if self._number == len(self.seen) - 1:
                    return changed
        result = node if is_annotation else self.generic_visit(node)
        if is_function:
            self._functions.pop()
        return result


def _copy(node: ast.AST) -> ast.AST:
    import copy

    return copy.deepcopy(node)


def mutations(path: str) -> Iterator[Mutation]:
    """Every mutation of a module that a rule makes."""
    source = (ROOT / path).read_text("utf-8")
    for rule in RULES:
        planted = _Planted(rule)
        planted.visit(ast.parse(source))
        for number, (line, functions, text) in enumerate(planted.seen):
            yield Mutation(path, rule.__name__, number, line, functions, text)


def mutated(mutation: Mutation) -> str:
    """The source of the module with the mutation."""
    rule = next(each for each in RULES if each.__name__ == mutation.rule)
    tree = ast.parse((ROOT / mutation.path).read_text("utf-8"))
    changed = _Planted(rule, mutation.number).visit(tree)
    return ast.unparse(ast.fix_missing_locations(changed))


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


# Checks
# ------------------------------------------------------------------------------------------------


def by_goldens(mutation: Mutation, tree: Path, reached: dict[str, list[str]]) -> str:
    """How the goldens catch a mutation in a copy of the tree; "" where they do not."""
    keys = [f"{mutation.path}:{line}" for line in mutation.functions]
    doors = next((reached[key] for key in reversed(keys) if key in reached), [])
    if not doors:
        return ""
    command = [sys.executable, "-m", "tests.golden.touched", "check"]
    return _caught(command, tree, "\n".join(doors))


def by_mirrors(mutation: Mutation, tree: Path, reached: dict[str, list[str]]) -> str:
    """How the tests that mirror the module catch a mutation; "" where they do not."""
    del reached
    path = Path(mutation.path)
    folder = Path("tests", *[part for part in path.parent.parts if part != "spmd_core"])
    exact = [folder / f"test_{path.stem}.py", folder / path.stem]
    found = [each for each in exact if (tree / each).exists()] or [folder]
    while not (tree / found[0]).exists():
        found = [found[0].parent]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", *map(str, found)]
    return _caught(command, tree, "")


def _caught(command: list[str], tree: Path, given: str) -> str:
    try:
        done = subprocess.run(
            command, cwd=tree, input=given, capture_output=True, text=True, timeout=LONGEST_S
        )
    except subprocess.TimeoutExpired:
        return "it took too long"
    lines = [line for line in done.stdout.splitlines() if line.strip()] or ["it failed"]
    return lines[-1][:160] if done.returncode else ""


CHECKS = {"goldens": by_goldens, "mirrors": by_mirrors}


def copied(tree: Path) -> Path:
    """A copy of what runs."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name)
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, tree / name)
    return tree


def reached_by_doors(tree: Path) -> dict[str, list[str]]:
    """`path:line` of a function -> the doors that run it, the quickest kinds first."""
    command = [sys.executable, "-m", "tests.golden.touched", "map"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True)
    reached = defaultdict(list)
    for line in done.stdout.splitlines():
        function, _, door = line.partition("\t")
        reached[function].append(door)
    return reached


def caught(chosen: list[Mutation], against: str) -> Iterator[tuple[Mutation, str]]:
    """Each mutation and how it is caught; "" where it is not."""
    with tempfile.TemporaryDirectory(prefix="spmd-mutate-") as temporary:
        trees = [copied(Path(temporary, str(number))) for number in range(PROCESSES)]
        reached = reached_by_doors(trees[0]) if against == "goldens" else {}
        free, guard = list(trees), threading.Lock()

        def check(mutation: Mutation) -> tuple[Mutation, str]:
            with guard:
                tree = free.pop()
            file = tree / mutation.path
            source = file.read_text("utf-8")
            file.write_text(mutated(mutation), "utf-8")
            try:
                return mutation, CHECKS[against](mutation, tree, reached)
            finally:
                file.write_text(source, "utf-8")
                with guard:
                    free.append(tree)

        with ThreadPoolExecutor(PROCESSES) as pool:
            yield from pool.map(check, chosen)


def main() -> None:
    """Plant, check, and print the score and the survivors."""
    ask = argparse.ArgumentParser(prog="python -m tests.house.mutate", description=__doc__)
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--count", type=int, default=100)
    ask.add_argument("--against", choices=tuple(CHECKS), default="goldens")
    asked = ask.parse_args()
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    begun = time.monotonic()
    chosen, survivors = drawn(asked.seed, asked.count), []
    for mutation, how in caught(chosen, asked.against):
        print(f"{'caught  ' if how else 'SURVIVED'} {mutation}  <- {how}", flush=True)
        survivors += [] if how else [mutation]
    print(
        f"{len(chosen) - len(survivors)} of {len(chosen)} caught by {asked.against}, seed "
        f"{asked.seed}, {time.monotonic() - begun:.0f} s"
    )


if __name__ == "__main__":
    main()
