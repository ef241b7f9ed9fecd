"""One name has one meaning: no class name in two wings, no file name in four folders; and names of
files are plain.
"""

import ast
import re
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.layers import ROOT, nodes, source_files

pytestmark = pytest.mark.fast

MOST_FILES = 3  # of one name; may only go down
_PLAIN = re.compile(rb"[A-Za-z0-9._][A-Za-z0-9._-]*")


def wing(path: Path) -> str:
    """The wing of a file: a package of `spmd_core`, or `ui`, `pages`."""
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "spmd_core" else parts[0]


def classes(source: str) -> set[str]:
    """Names of the classes that a source defines."""
    return {node.name for node in nodes(source) if isinstance(node, ast.ClassDef)}


def in_two_wings(named: list[tuple[str, str]]) -> set[str]:
    """Of (wing, class) those names that two wings define.

    >>> in_two_wings([("lab", "Run"), ("ui", "Run"), ("ui", "Page"), ("ui", "Page")])
    {'Run'}
    """
    wings = defaultdict(set)
    for each, name in named:
        wings[name].add(each)
    return {name for name, each in wings.items() if len(each) > 1}


def test_a_class_name_is_of_one_wing():
    paths = [path for path in source_files() if "programs" not in path.relative_to(ROOT).parts]
    named = [(wing(path), name) for path in paths for name in classes(path.read_text("utf-8"))]
    assert len(named) > 200
    assert in_two_wings(named) == set()


def test_no_file_name_is_used_four_times():
    paths = [path for path in source_files() if "programs" not in path.relative_to(ROOT).parts]
    counts = Counter(path.name for path in paths if path.name != "__init__.py")
    assert {name for name, count in counts.items() if count > MOST_FILES} == set()


def test_two_classes_of_one_name_are_reported():
    assert classes("class A:\n    class B:\n        pass") == {"A", "B"}
    assert in_two_wings([("lab", "A"), ("ui", "A"), ("lab", "B")]) == {"A"}


def not_plain(paths: list[bytes]) -> list[bytes]:
    """Those of whose folders or file one has a name that a shell or a browser may read otherwise."""
    return [path for path in paths if not all(map(_PLAIN.fullmatch, path.split(b"/")))]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_names_of_tracked_files_are_plain():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    paths = listed.stdout.rstrip(b"\0").split(b"\0")
    assert len(paths) > 800
    assert not_plain(paths) == []


def test_a_name_that_is_not_plain_is_reported():
    odd = [b"-", b"\xff", b"docs/a b.md", b"-x/y.py"]
    assert not_plain([*odd, b".ci/run", b"docs/on_a_tpu_vm.md", b"locks/python3.11.txt"]) == odd
