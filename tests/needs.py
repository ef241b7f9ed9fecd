"""What the tests need beside the requirements: a browser, and a newer Python with its JAX where
there is one. Missing, it is set up. `python -m tests.needs` installs both environments, of which this
Python's own needs nothing but uv.
"""

import contextlib
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.server import BROWSERS
from tests import locks

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".venv-newer"
VARIABLE = "SPMD_LAB_NEWER_PYTHON"
INSTALL = ("apt-get", "install", "-y", "-qq", "--no-install-recommends")
# Without pages, the core tests need no more than the rest.
_PAGES = re.compile(
    "streamlit|altair|pandas|pyarrow|playwright|vl-convert|websockets|ruff|pyrefly|pydeck"
)


def browser() -> str | None:
    """None where there is a browser, or now is; else the line to type."""
    if any(each.exists() for each in BROWSERS):
        return None
    root = () if os.geteuid() == 0 else ("sudo", "-n")
    packages = [each.name for each in BROWSERS]  # not every release has the first
    with contextlib.suppress(OSError):  # no sudo, or no apt-get
        if _done(*root, "apt-get", "update", "-qq") and any(
            _done(*root, "env", "DEBIAN_FRONTEND=noninteractive", *INSTALL, each)
            for each in packages
        ):
            return None
    return (
        "chromium is not here, which the browser tests drive: type `sudo apt-get install chromium`"
    )


def _done(*command: str) -> bool:
    """Whether a command, which is told, succeeds."""
    print(f"+ {' '.join(command)}", flush=True)
    return not subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ).returncode


def newer_python() -> str | None:
    """The interpreter that SPMD_LAB_NEWER_PYTHON names, if it has jax; None elsewhere."""
    named = os.environ.get(VARIABLE)
    if not named or not Path(named).exists():
        return None
    found = subprocess.run([named, "-c", "import jax"], capture_output=True)
    return named if found.returncode == 0 else None


def make_newer_python() -> str | None:
    """The interpreter of an environment of the Python that SPMD_LAB_NEWER_PYTHON names: that Python
    where it has jax, else .venv-newer, made of it; None where it names none. SystemExit where the
    installation fails.
    """
    named = os.environ.get(VARIABLE)
    if not named or not Path(named).exists():
        return None
    if found := newer_python():
        return found
    print(f"+ uv venv --python {named} {FOLDER.name}, and what the core tests need", flush=True)
    wanted, python = FOLDER / "requirements.txt", FOLDER / "bin" / "python"
    subprocess.run(_uv("venv", "--allow-existing", "--python", named, FOLDER), check=True)
    minor = subprocess.run(
        [python, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, check=True
    )
    wanted.write_text("".join(core_requirements(int(minor.stdout)).values()))
    if not install(python, wanted):
        sys.exit(
            f"the requirements could not be installed in {FOLDER.name}: see above, or leave {VARIABLE} out"
        )
    return str(python)


def _uv(*words: str | Path) -> list[str | Path]:
    """A command of uv, which keeps what it downloads where it may."""
    kept = Path(os.environ.get("UV_CACHE_DIR", "~/.cache/uv")).expanduser()
    try:
        kept.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only home
        words = ("--no-cache", *words)
    return [Path(sys.executable).with_name("uv"), "--quiet", *words]


def install(python: str | Path, lock: Path) -> bool:
    """Whether a lock is now installed for an interpreter; what is there already stays. uv reads no
    pip.conf: where that names another registry, pip installs.
    """
    words = ("--no-deps", "--require-hashes", "--requirement", lock)
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile")
    tools = (_uv("pip", "install", "--python", python), pip)
    return any(subprocess.run([*tool, *words]).returncode == 0 for tool in tools)


def core_requirements(minor: int) -> dict[str, str]:
    """Package -> its lines, of the lock for Python 3.`minor` without what only screens, browsers
    and the reading of the source need.
    """
    locked = locks.entries(locks.lock_of(minor, is_dev=True))
    return {name: lines for name, lines in locked.items() if not _PAGES.match(name)}


if __name__ == "__main__":
    lock = locks.lock_of(sys.version_info[1], is_dev=True)
    with ThreadPoolExecutor() as beside:
        own = beside.submit(install, sys.executable, lock)
        make_newer_python()
    sys.exit(not own.result())
