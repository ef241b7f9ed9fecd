"""The lock files: each package that the requirements bring, with its hashes, for both versions of
JAX. `python -m tests.locks` writes them anew with uv; what they hold stays at its version where the
requirements allow it (`--upgrade`: the newest ones).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "locks"
PYTHONS = {  # which Pythons a lock is for: each gets another JAX
    "python3.11": "python_full_version < '3.12'",
    "python3.12": "python_full_version >= '3.12'",
}
_SYSTEMS = ("linux", "darwin")
_EVERYWHERE = "(sys_platform == 'darwin' or sys_platform == 'linux')"
_HEAD = "# Written by python -m tests.locks. Install with pip install --require-hashes.\n"
_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)


def lock_of(minor: int, is_dev: bool = False) -> Path:
    """The lock for Python 3.`minor`, also with what the tests need."""
    name = "python3.11" if minor == 11 else "python3.12"
    return FOLDER / f"{name}{'-dev' if is_dev else ''}.txt"


def entries(lock: Path) -> dict[str, str]:
    """Package -> its lines, of a lock and of the one that it begins with."""
    found: dict[str, str] = {}
    text = lock.read_text("utf-8")
    for name in re.findall(r"^-r (\S+)$", text, re.MULTILINE):
        found |= entries(lock.with_name(name))
    return found | {_ENTRY.match(each)[1]: each for each in _entries(text)}  # type: ignore[index]


def _entries(text: str) -> Iterator[str]:
    """Each package's lines: its pin, its hashes, and what needs it."""
    starts = [match.start() for match in _ENTRY.finditer(text)]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        yield text[start:end].rstrip() + "\n"


def write(name: str, upgrade: bool) -> None:
    """Write both locks of one version of JAX."""
    user, dev = FOLDER / f"{name}.txt", FOLDER / f"{name}-dev.txt"
    kept = "" if upgrade else "".join(entries(dev).values()) if dev.exists() else ""
    locked = _resolved(name, "requirements.txt", kept)
    user.write_text(_HEAD + locked, "utf-8")
    has = set(entries(user))
    more = [
        each
        for each in _entries(_resolved(name, "requirements-dev.txt", kept, pinned=locked))
        if _ENTRY.match(each)[1] not in has  # type: ignore[index]
    ]
    dev.write_text(f"{_HEAD}-r {user.name}\n{''.join(more)}", "utf-8")


def _resolved(name: str, requirements: str, kept: str, pinned: str = "") -> str:
    """The entries that uv finds for a file of requirements, on all of our systems. `kept` are
    preferred, `pinned` the only ones."""
    where = [f"{PYTHONS[name]} and sys_platform == '{system}'" for system in _SYSTEMS]
    with tempfile.TemporaryDirectory() as folder:
        for each in ROOT.glob("requirements*.txt"):
            shutil.copy(each, folder)
        found, pins = Path(folder) / "found.txt", Path(folder) / "pins.txt"
        found.write_text(kept, "utf-8")
        pins.write_text(pinned, "utf-8")
        (Path(folder) / "pyproject.toml").write_text(
            '[project]\nname = "spmd-lab"\nversion = "0"\n'
            f'requires-python = ">={name.removeprefix("python")}"\n'
            f"[tool.uv]\nenvironments = {where!r}\n",
            "utf-8",
        )
        command = ["uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes"]
        command += ["--no-header", "--no-emit-index-url", "--python-version", name[6:]]
        command += ["--constraints", pins.name, requirements, "--output-file", found.name]
        subprocess.run(command, cwd=folder, check=True)
        text = found.read_text("utf-8")
    text = re.sub(r"^ *#   -c pins.txt\n", "", text, flags=re.MULTILINE)
    text = text.replace(f"{PYTHONS[name]} and ", "").replace(_EVERYWHERE, _EVERYWHERE[1:-1])
    return text.replace(f" ; {_EVERYWHERE[1:-1]}", "")


if __name__ == "__main__":
    if shutil.which("uv") is None:
        sys.exit("uv is not here: type `python3 -m pip install --user uv`")
    FOLDER.mkdir(exist_ok=True)
    os.environ.setdefault("UV_NO_PROGRESS", "1")
    for each in PYTHONS:
        write(each, "--upgrade" in sys.argv)
