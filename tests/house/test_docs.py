"""What README.md and docs/ say is true: commands, links, files, variables, dependencies, tables,
pictures.
"""

import doctest
import importlib
import itertools
import os
import re
import shlex
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from spmd_core.__main__ import COMMANDS
from spmd_core.experiment import parse_experiment_text
from spmd_core.lab import Lab
from spmd_lab.ui.shell import screen_title
from tests.commands.calls import told
from tests.house import tables
from tests.layers import FLOORS, ROOT, imports, source_files

README = (ROOT / "README.md").read_text("utf-8")
DOCS = {
    path.relative_to(ROOT): path.read_text("utf-8")
    for path in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
    ]
}
MOST_LINES = 130  # of the README: the rest is in docs/
BLOCKS = {
    language: re.findall(rf"^ *```{language}\n(.*?)^ *```", README, re.MULTILINE | re.DOTALL)
    for language in ("bash", "json")
}
COMMAND_LINES = [
    line.strip() for block in BLOCKS["bash"] for line in block.splitlines() if line.strip()
]
SHARING = DOCS[Path("docs/sharing.md")]  # its commands belong to those of the README
OURS = [
    line
    for line in (*COMMAND_LINES, *map(str.strip, SHARING.splitlines()))
    if line.startswith(".venv/bin/python -m spmd_core")
]
# ten seconds, until it is ended, or packages from the network: tests of their own call them
LONG = {"calibrate", "dashboard", "mcp", "versions"}
# to parse all files takes seconds: those that may import what no other does
IMPORTED = re.compile(r"^[ \t]*(?:from|import) +(\w+)|import_module\(.(\w+)", re.MULTILINE)
# used as programs, or through another package
# jax imports flatbuffers; mcp is an extra of the wheel alone
TOOLS = {"ruff", "pyrefly", "uv", "pytest", "pytest-xdist", "libtpu", "flatbuffers", "mcp"}
MODULES = {"vl-convert-python": "vl_convert"}  # where they are not called like their package


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One data folder for all commands of the README."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPMD_LAB_DATA", str(tmp_path_factory.mktemp("readme") / "data"))
        yield
        Lab.open().close()


@pytest.mark.parametrize("line", [line for line in OURS if shlex.split(line)[3] not in LONG])
def test_commands_of_the_readme_work(line, folder, monkeypatch):
    monkeypatch.chdir(ROOT)
    python, *words = shlex.split(line)
    assert (python, *words[:2]) == (".venv/bin/python", "-m", "spmd_core")
    done = told(*words[2:])
    assert done.returncode == 0 and done.stdout, done.stderr


def test_the_readme_shows_every_command():
    assert {shlex.split(line)[3] for line in OURS} == set(COMMANDS)


def test_the_set_up_commands_name_what_exists():
    start, tests = (
        next(line for line in COMMAND_LINES if f"-r {name} " in line)
        for name in ("requirements.txt", "requirements-dev.txt")
    )
    assert start.endswith(".venv/bin/streamlit run app.py") and (ROOT / "app.py").exists()
    assert tests.endswith(".venv/bin/python -m tests.check") and (ROOT / "tests/check.py").exists()
    called = (ROOT / ".ci/run").read_text().splitlines()[-1]
    assert called == "exec .venv/bin/python -m tests.check", "CI calls the README's test command"
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_specs_of_the_readme_are_experiments():
    assert len(BLOCKS["json"]) == 1
    assert parse_experiment_text(BLOCKS["json"][0]).workload == "layer"


def test_the_readme_is_short():
    assert len(README.splitlines()) <= MOST_LINES


def test_files_and_folders_that_are_named_exist():
    named = [*re.findall(r"`([\w./-]+(?:/|\.py|\.txt|\.toml|\.md))`", README), ".ci/run"]
    assert len(named) > 6
    for name in named:
        assert (ROOT / name).exists(), name


def broken_links(path: Path, text: str) -> list[str]:
    """Links and pictures of a document whose file or heading is not there."""
    broken = []
    for target in [
        *re.findall(r"\]\(([^)]+)\)", text),
        *re.findall(r'(?:src|srcset)="([^"]+)"', text),
    ]:
        name, _, heading = target.partition("#")
        if "://" in target:
            continue
        file = (ROOT / path).parent / unquote(name) if name else ROOT / path
        headings = (
            re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            if heading and file.exists()
            else []
        )
        if not file.exists() or (
            heading and heading not in [each.lower().replace(" ", "-") for each in headings]
        ):
            broken.append(target)
    return broken


@pytest.mark.parametrize("path", DOCS, ids=str)
def test_links_lead_somewhere(path):
    assert broken_links(path, DOCS[path]) == []


def test_a_link_that_leads_nowhere_is_noticed():
    text = '[a](docs/nothing.md) [b](docs/prediction.md#nothing) [c](https://jax.dev) [d](docs/scaling.md) <img src="no.png">'
    assert broken_links(Path("README.md"), text) == [
        "docs/nothing.md",
        "docs/prediction.md#nothing",
        "no.png",
    ]


def test_every_document_is_found_from_the_readme():
    linked = {
        target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", "".join(DOCS.values()))
    }
    assert {path.name for path in DOCS} - {"README.md"} <= {Path(target).name for target in linked}


def test_tables_are_those_of_the_code():
    assert tables.outdated() == []  # else: python -m tests.house.tables


def test_a_table_that_is_not_the_codes_is_noticed(tmp_path):
    for name, _ in tables.TABLES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(
            DOCS[Path(name)]
            .replace("| `layer` |", "| `lair` |")
            .replace("| `mesh` |", "| `mush` |")
            .replace("| `auto` |", "| `otto` |")
        )
    assert tables.outdated(root=tmp_path) == [name for name, _ in tables.TABLES]


def test_the_architecture_lists_the_rooms_in_the_order_of_their_floors():
    table = re.findall(
        r"^\| ((?:`\w+`(?:, )?)+) \|",
        (ROOT / "docs/architecture.md").read_text("utf-8"),
        re.MULTILINE,
    )
    listed = [tuple(re.findall(r"\w+", row)) for row in table]
    assert [set(row) for row in listed] == [set(floor) for floor in FLOORS]


def test_every_variable_is_described():
    used = {
        name
        for path in source_files()
        for name in re.findall(r"SPMD_LAB_[A-Z_]+[A-Z]", path.read_text("utf-8"))
    }
    used |= set(re.findall(r"SPMD_LAB_[A-Z_]+[A-Z]", (ROOT / "tests/needs.py").read_text("utf-8")))
    assert used == set(
        re.findall(r"^(?:\| |.*: )`(SPMD_LAB_\w+)`", DOCS[Path("docs/settings.md")], re.MULTILINE)
    )


def requirements(name: str) -> set[str]:
    lines = (ROOT / name).read_text("utf-8").splitlines()
    found = {
        match[0]
        for line in lines
        if (match := re.match(r"[\w-]+", line)) and not line.startswith(("#", "-"))
    }
    return found | ({"libtpu"} if any(line.startswith("jax[tpu]") for line in lines) else set())


def test_every_dependency_has_a_reason_and_every_reason_a_dependency():
    table = DOCS[Path("docs/dependencies.md")]
    described = {
        name.strip()
        for row in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:]
        for name in row.split(",")
    } - {"---"}
    assert described == requirements("requirements.txt") | requirements("requirements-dev.txt")


def test_every_import_is_a_requirement_and_every_requirement_is_imported():
    ours = {"app", "home", "pages", "spmd_lab", "spmd_core", "tests", "bench", "sitecustomize"}
    brought = {"itsdangerous", "jaxlib", "uvicorn", "packaging"}  # by jax, streamlit and pytest
    known, outside = set(sys.stdlib_module_names) | ours | brought, set[str]()
    for path in [*source_files(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]:
        text = path.read_text("utf-8")
        if (
            {*itertools.chain(*IMPORTED.findall(text))} - known - outside - {""}
        ):  # or in a text: a program of a test
            names = {name for _, name in imports(text, "spmd_core") if name != "a computed name"}
            outside |= {name.partition(".")[0] for name in names} - known
    required = (requirements("requirements.txt") | requirements("requirements-dev.txt")) - TOOLS
    assert outside - TOOLS == {MODULES.get(name, name) for name in required}


def test_screens_of_the_readme_are_the_pages():
    section = README.partition("## Screens")[2].partition("##")[0]
    screens = set(re.findall(r"^\| (\w[\w ]+) \|", section, re.MULTILINE)) - {"screen", "Overview"}
    assert screens == {screen_title(path.stem) for path in (ROOT / "pages").glob("*.py")}


def test_the_python_that_is_asked_for_is_said_everywhere():
    assert "Python 3.11 or newer" in README and 'requires-python = ">=3.11"' in (
        ROOT / "pyproject.toml"
    ).read_text("utf-8")


def test_examples_of_docstrings_give_what_they_show():
    files = [path for path in source_files() if ">>> " in path.read_text("utf-8")]
    assert len(files) > 50
    wrong = []
    for path in files:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        module = importlib.import_module(name.removesuffix(".__init__"))
        wrong += [name] * bool(doctest.testmod(module).failed)
    assert not wrong
