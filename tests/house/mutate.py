"""Plants mutations of shown values, and counts those that are caught:

    python -m tests.house.mutate [--seed 1] [--count 100] [--against both|goldens|mirrors] [--named]

A rule and a place are drawn for each: two cells exchanged, a ratio inverted, a factor lost, another
unit, a row dropped or the last one, a flag inverted, off by one, another order. Places are the
cells of the modules that turn results into words, tables and documents. `goldens`: the renderings
that evaluate what is changed (`tests/golden`), against those of the program without a mutation; a
door that is not as recorded is left out, and named. Each mutation is planted in a process that was forked with everything imported. `mirrors`: the tests that mirror
the module, in a copy of the tree. `both`: goldens, or else mirrors, as `--named`, the mutations that
tests once missed. What no renderer and no mirror runs counts as not caught. Survivors are printed.
"""

import argparse
import ast
import gc
import hashlib
import importlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from multiprocessing.pool import Pool
from pathlib import Path
from types import CodeType, FunctionType

from tests.golden import changes
from tests.golden.doors import doors
from tests.golden.folder import opened
from tests.house.mutations import (
    Mutation,
    drawn,
    mutated,
    mutations,
    place_of,
    shown_modules,
)
from tests.layers import ROOT

COPIED = ("spmd_core", "spmd_lab", "pages", "tests", "bench", "docs", ".streamlit")
COPIED_FILES = ("home.py", "app.py", "pyproject.toml")
SEEN = "_seen_by_mutate"
KEPT = ROOT / ".pytest_cache/mutate"  # what the program without a mutation renders
HOUSES = ("spmd_core", "spmd_lab")
PROCESSES = 2
# a door that takes so much longer than without the mutation is not waited for: it is caught
SLOWER, LEAST_S = 20.0, 60.0
# door -> lines, seconds, places of what it evaluates
Baseline = dict[str, tuple[list[list[str]], float, list[str]]]


class TooLong(BaseException):
    """A door took longer than it may."""


def _named(path: str, text: str, instead: str) -> Mutation:
    return Mutation(path, "named", 0, 0, "", (), text, "", instead)


# Each was once caught by no test. What it changes -> the mutation
NAMED = {
    "MFU of measured runs": _named(
        "spmd_core/answers/strategies.py", "mfu *= outcome", "mfu /= outcome"
    ),
    "MFU of measured runs, by the roofline": _named(
        "spmd_core/results/machine.py",
        "possible(self.ideal_s / median_s)",
        "possible(median_s / self.ideal_s)",
    ),
    "Fits": _named(
        "spmd_core/answers/strategies.py", '"yes" if predicted.fits', '"yes" if not predicted.fits'
    ),
    "temporaries and results": _named(
        "spmd_core/answers/measuring.py",
        'size("Results", lambda row: row.memory and row.memory.output),\n'
        '        size("Temporaries", lambda row: row.memory and row.memory.temp)',
        'size("Results", lambda row: row.memory and row.memory.temp),\n'
        '        size("Temporaries", lambda row: row.memory and row.memory.output)',
    ),
    "rows with different warnings": _named(
        "spmd_core/program/communication/rows.py",
        "each.route, reason, each.warning",
        "each.route, reason",
    ),
    "derived operands in host memory": _named(
        "spmd_core/runs/memory.py",
        "sum(counts) if what.program.derived",
        "max(counts, default=0) if what.program.derived",
    ),
    "the front of a search at its first point": _named(
        "spmd_core/search/ranking.py",
        "            kept.append(each)\n    return kept\n\n\ndef shardings",
        "            kept.append(each)\n    return kept[1:]\n\n\ndef shardings",
    ),
    "the threshold of remedies, what is less": _named(
        "spmd_core/trials/remedies/judged.py",
        "verdict.left_s < LESS * target",
        "verdict.left_s < target",
    ),
    "the threshold of remedies, what is worth it": _named(
        "spmd_core/trials/remedies/judged.py",
        "seconds > WORTH * costs",
        "seconds > 5 * WORTH * costs",
    ),
}


# The program without a mutation
# ------------------------------------------------------------------------------------------------


def baseline() -> Baseline:
    """Every door with its lines, seconds and what it evaluates; those that are not as recorded are
    left out. Kept for as long as the program stays what it is.
    """
    path = KEPT / f"{_version()}.json"
    if not path.exists():
        shutil.rmtree(KEPT, ignore_errors=True)
        KEPT.mkdir(parents=True)
        path.write_text(json.dumps(_in_a_process(_rendered)))
    found = json.loads(path.read_text())
    recorded = {name: lines for each in changes.recorded().values() for name, lines in each.items()}
    unlike = [name for name in found if _difference(name, recorded.get(name, []), found[name][0])]
    print(
        f"{len(found)} doors; left out, not as recorded: {', '.join(unlike) or 'none'}", flush=True
    )
    return {name: found[name] for name in found if name not in unlike}


def _version() -> str:
    """A hash of what the renderings depend on."""
    text = hashlib.sha256()
    for folder in ("spmd_core", "spmd_lab", "pages", "tests/golden"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and "recorded" not in path.parts:
                text.update(path.read_bytes())
    return text.hexdigest()[:16]


def _rendered() -> Baseline:
    found, seen = Baseline(), set[str]()
    trees = {}
    for path in shown_modules():
        vars(sys.modules[_name(path)])[SEEN] = seen.add
        trees[path] = _Noting(path).visit(ast.parse((ROOT / path).read_text("utf-8")))
    replace_code(trees)
    with tempfile.TemporaryDirectory() as temporary, opened(Path(temporary) / "data") as lab:
        for name, door in doors(lab):
            seen.clear()
            begun = time.perf_counter()
            lines = door()
            found[name] = (lines, time.perf_counter() - begun, sorted(seen))
    return found


class _Noting(ast.NodeTransformer):
    """Lets each expression that a rule changes note that it is evaluated, by its place."""

    def __init__(self, path: str):
        self._path, self._places = path, {each.place for each in mutations(path)}

    def visit(self, node: ast.AST) -> ast.AST:
        place = place_of(self._path, node)
        if isinstance(node, ast.FormattedValue):  # a format is no expression that could be wrapped
            node.value = self.visit(node.value)
            for each in getattr(node.format_spec, "values", ()):
                self.visit(each)
            if place in self._places:
                node.value = self._noted(place, node.value)
            return node
        self.generic_visit(node)
        return self._noted(place, node) if place in self._places else node

    def _noted(self, place: str, value: ast.expr) -> ast.expr:
        noting = ast.parse(f"{SEEN}({place!r})", mode="eval").body
        both = ast.Tuple([noting, value], ast.Load())
        return ast.fix_missing_locations(ast.Subscript(both, ast.Constant(1), ast.Load()))


def _in_a_process(function: Callable, *given):
    with _pool(1) as pool:
        return pool.apply(function, given)


def _pool(processes: int) -> Pool:
    """Processes of one task each, forked from this one, with all that it has imported."""
    return multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=1)


def _difference(name: str, before: Sequence[list[str]], now: Sequence[list[str]]) -> str:
    """The first line that is not as it was; JSON may have further keys, as in the goldens."""
    if "json" in name:
        kept = set(map(tuple, now))
        now = [line for line in before if tuple(line) in kept]
    if list(before) == list(now):
        return ""
    pairs = zip_longest(before, now, fillvalue=[])
    was, became = next((one, other) for one, other in pairs if one != other)
    return f"{name}: {' | '.join(was)[:60]} -> {' | '.join(became)[:60]}"


# Checks
# ------------------------------------------------------------------------------------------------


def replace_code(trees: Mapping[str, ast.Module]) -> int:
    """Give the functions of imported modules the code of other trees; how many they are."""
    changed = {}
    for path, tree in trees.items():
        code = _code_of(path)
        pairs = _pairs(code, compile(tree, code.co_filename, "exec"))
        changed |= {one: other for one, other in pairs if one != other}
    gc.unfreeze()  # frozen objects are not listed
    functions = [
        each
        for each in gc.get_objects()
        if isinstance(each, FunctionType) and each.__code__ in changed
    ]
    for each in functions:
        each.__code__ = changed[each.__code__]
    return len(functions)


def _code_of(path: str) -> CodeType:
    """The code of a module as it is imported."""
    module = sys.modules[_name(path)]
    assert module.__file__
    return compile(Path(module.__file__).read_text("utf-8"), module.__file__, "exec")


def _name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _pairs(one: CodeType, other: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The codes of a module and of its mutation, each with its own."""
    yield one, other
    inside = [
        [each for each in code.co_consts if isinstance(each, CodeType)] for code in (one, other)
    ]
    if len(inside[0]) == len(inside[1]):
        for pair in zip(*inside, strict=True):
            yield from _pairs(*pair)


def doors_of(mutation: Mutation, found: Baseline) -> list[str]:
    """The doors that evaluate what is mutated: of each kind in turn, the quickest first."""
    kinds = defaultdict(list)
    for name, (_, _, ran) in sorted(found.items(), key=lambda each: each[1][1]):
        if not mutation.place or mutation.place in ran:
            kinds[changes.kind_of(name)].append(name)
    return [name for turn in zip_longest(*kinds.values()) for name in turn if name]


def by_goldens(mutation: Mutation) -> str:
    """How the goldens catch a mutation; "" where they do not."""
    found = baseline_of()
    names = doors_of(mutation, found)
    if not names or not replace_code({mutation.path: mutated(mutation)}):
        return ""
    signal.signal(signal.SIGALRM, _too_long)
    with tempfile.TemporaryDirectory() as temporary, opened(Path(temporary) / "data") as lab:
        known = dict(doors(lab))
        for name in names:
            lines, took, _ = found[name]
            signal.alarm(int(LEAST_S + SLOWER * took))
            try:
                if difference := _difference(name, lines, known[name]()):
                    return difference[:160]
            except (Exception, SystemExit, TooLong) as error:  # what a mutation makes of a door
                return f"{name}: {type(error).__name__}: {error}"[:160]
            finally:
                signal.alarm(0)
    return ""


def _too_long(*_) -> None:
    raise TooLong("it took too long")


_baselines: list[Baseline] = []  # before the processes are forked


def baseline_of() -> Baseline:
    """The baseline that this process was forked with."""
    return _baselines[0]


def by_mirrors(mutation: Mutation) -> str:
    """How the tests that mirror the module catch a mutation; "" where they do not."""
    with tempfile.TemporaryDirectory(prefix="spmd-mutate-") as temporary:
        tree = Path(temporary)
        for name in COPIED:
            shutil.copytree(ROOT / name, tree / name)
        for name in COPIED_FILES:
            shutil.copy(ROOT / name, tree / name)
        (tree / mutation.path).write_text(ast.unparse(mutated(mutation)), "utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-n",
            "0",
            *mirrors_of(mutation.path),
        ]
        environ = {name: each for name, each in os.environ.items() if "PYTEST" not in name}
        done = subprocess.run(command, cwd=tree, env=environ, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.strip()] or ["it failed"]
    return lines[-1][:160] if done.returncode else ""


@cache
def mirrors_of(path: str) -> tuple[str, ...]:
    """The tests that mirror a module: of its name, or else of its folder."""
    module = Path(path)
    folder = Path("tests", *[part for part in module.parent.parts if part not in HOUSES])
    exact = [folder / f"test_{module.stem}.py", folder / module.stem]
    found = [each for each in exact if (ROOT / each).exists()] or [folder]
    while not (ROOT / found[0]).exists():
        found = [found[0].parent]
    return tuple(map(str, found))


def by_both(mutation: Mutation) -> str:
    """How goldens, or else mirrors, catch a mutation; "" where they do not."""
    return by_goldens(mutation) or by_mirrors(mutation)


CHECKS = {"goldens": by_goldens, "mirrors": by_mirrors, "both": by_both}


def main() -> None:
    """Plant, check, and print the score and the survivors."""
    ask = argparse.ArgumentParser(prog="python -m tests.house.mutate", description=__doc__)
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--count", type=int, default=100)
    ask.add_argument("--against", choices=tuple(CHECKS), default="goldens")
    ask.add_argument("--named", action="store_true")
    asked = ask.parse_args()
    os.environ |= {"OPENBLAS_NUM_THREADS": "1"}
    for path in shown_modules():
        importlib.import_module(_name(path))
    if asked.named or asked.against != "mirrors":
        _baselines.append(baseline())
    begun = time.monotonic()
    chosen = list(NAMED.values()) if asked.named else drawn(asked.seed, asked.count)
    caught, check = 0, by_both if asked.named else CHECKS[asked.against]
    with _pool(PROCESSES) as pool:
        for mutation, how in zip(chosen, pool.imap(check, chosen), strict=True):
            print(f"{'caught  ' if how else 'SURVIVED'} {mutation}  <- {how}", flush=True)
            caught += bool(how)
    what = "named" if asked.named else f"seed {asked.seed}"
    print(f"{caught} of {len(chosen)} caught, {what}, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
