"""The lock files hold what the requirements ask for, each with its hashes."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import locks, needs

ROOT = locks.ROOT
LINUX = {"sys_platform": "linux", "platform_machine": "x86_64", "platform_system": "Linux"}
FILES = {False: "requirements.txt", True: "requirements-dev.txt"}
EACH = pytest.mark.parametrize("minor", [11, 12, 14])


def asked(file: Path, minor: int) -> dict[str, Requirement]:
    """What a file of requirements asks for on Linux under Python 3.`minor`, by package."""
    python = {"python_version": f"3.{minor}", "python_full_version": f"3.{minor}.1"}
    found: dict[str, Requirement] = {}
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("-r "):
            found |= asked(file.with_name(line[3:]), minor)
        elif line and not line.startswith("#"):
            each = Requirement(line)
            if each.marker is None or each.marker.evaluate(LINUX | python):
                found[canonicalize_name(each.name)] = each
    return found


def disagreements(lock: Path, requirements: Path, minor: int) -> list[str]:
    """What of the requirements a lock does not hold, and what it holds for none of them."""
    held, wanted = locks.entries(lock), asked(requirements, minor)
    pins = {name: re.split(r"==|\s", entry)[1] for name, entry in held.items()}
    wrong = [
        f"{each}: {pins.get(name)}"
        for name, each in wanted.items()
        if name not in pins or not each.specifier.contains(pins[name], prereleases=True)
    ]
    listed = {name for name, entry in held.items() if "-r requirements" in entry}
    return wrong + sorted(listed - set(wanted))


@EACH
@pytest.mark.parametrize("is_dev", [False, True])
def test_the_locks_hold_what_the_requirements_ask_for(minor, is_dev):
    lock = locks.lock_of(minor, is_dev)
    assert disagreements(lock, ROOT / FILES[is_dev], minor) == [], "python -m tests.locks"


def test_a_lock_that_disagrees_is_found(tmp_path):
    text = (ROOT / "requirements.txt").read_text("utf-8")
    changed = tmp_path / "requirements.txt"
    changed.write_text(
        text.replace("pandas==", "pandas==9").replace("platformdirs>", "#") + "absent>=1\n"
    )
    assert disagreements(locks.lock_of(11), changed, 11) == [
        f"pandas==9{re.search(r'pandas==(.*)', text)[1]}: {re.search(r'pandas==(.*)', text)[1]}",
        "absent>=1: None",
        "platformdirs",
    ]


@EACH
def test_every_package_has_hashes_a_reason_and_no_address(minor):
    text = locks.lock_of(minor).read_text() + locks.lock_of(minor, is_dev=True).read_text()
    assert not re.search(r"https?:|file:|--index|--find|/tmp|\\[^\n]", text)
    for name, entry in locks.entries(locks.lock_of(minor, is_dev=True)).items():
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)
        assert hashes and "# via" in entry, name


def test_each_jax_has_its_own_lock():
    of_jax = {minor: locks.entries(locks.lock_of(minor))["jax"] for minor in (11, 12, 14)}
    assert "jax==0.10.2" in of_jax[11] and "jax==0.12" in of_jax[12] == of_jax[14]


def test_the_newer_python_gets_the_lock_without_what_only_pages_need():
    lines = needs.core_requirements(12)
    assert {"jax", "jaxlib", "libtpu", "numpy", "pytest", "distributed"} <= set(lines)
    assert not {"streamlit", "pandas", "playwright", "pyrefly"} & set(lines)


def test_ci_and_the_readme_install_from_the_locks():
    files = (".ci/run", "README.md", "docs/dependencies.md")
    ci, readme, page = ((ROOT / name).read_text("utf-8") for name in files)
    assert "--require-hashes --requirement" in ci and "requirements" not in ci
    assert "pip install --require-hashes -r locks/python3.11.txt" in readme
    assert "python -m tests.locks" in page
