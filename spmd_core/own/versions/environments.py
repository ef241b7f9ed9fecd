"""Environments that uv makes: the requirements of a project, with another JAX."""

import fcntl
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from spmd_core.base import RequestError, bytes_text, default_data_folder, numbered, refuse, shorten

MOST = 8  # environments that are kept: enough for a bisection of a hundred releases
LOCKS = ("uv.lock", "pylock.toml")
# what the core imports besides JAX: requirements of its own wheel
CORE = ("numpy>=2", "scipy>=1.13", "pydantic>=2.11,<3", "platformdirs>=4.3,<5", "flatbuffers>=24")
OVERRIDDEN = ("jax", "jaxlib", "libtpu")
_PACKAGES = ("spmd_core", "spmd_lab")
_READY = ".ready"
_LINES = 12  # of what uv prints


@dataclass(frozen=True)
class JaxEnvironment:
    """One that is made on first use.

    Attributes:
        name: what tells it from the others, such as `jax 0.10.2`.
        requirements: the lines of its packages.
        jax: a release of JAX in the place of the one that the requirements have.
        extra: of JAX: `tpu`, or none.
        allow_build: whether packages without a wheel are built, which runs code of theirs.
    """

    name: str
    requirements: tuple[str, ...]
    jax: str | None
    extra: str = ""
    allow_build: bool = False

    @contextmanager
    def python(self) -> Iterator[Path]:
        """Its Python, which no other process removes meanwhile.

        Raises:
            RequestError: its packages cannot be resolved or installed, in the words of uv.
        """
        folder = environments_folder() / self._key()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(folder.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / _READY).exists():
                self._make(folder)
            os.utime(folder)
            site = next(folder.glob("lib/python*/site-packages"))
            for name in _PACKAGES:  # the same core in each, as it is now
                source = Path(__file__).resolve().parents[3] / name
                skipped = shutil.ignore_patterns("__pycache__", "ui", "served")
                shutil.copytree(source, site / name, dirs_exist_ok=True, ignore=skipped)
            yield folder / "bin/python"

    def _key(self) -> str:
        parts = (sys.version, *self._lines(), self.jax, self.extra, self.allow_build)
        return sha256(repr(parts).encode()).hexdigest()[:16]

    def _lines(self) -> tuple[str, ...]:
        name = f"jax[{self.extra}]" if self.extra else "jax"
        if self.jax is None:
            return (*self.requirements, *CORE, *([name] if self.extra else []))
        others = (each for each in self.requirements if package_of(each) not in OVERRIDDEN)
        return (*others, *CORE, f"{name}=={self.jax}")

    def _make(self, folder: Path) -> None:
        uv("venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
        lines, more = folder / "requirements.txt", []
        lines.write_text("\n".join(self._lines()) + "\n")
        if self.jax is not None:
            extra = f"[{self.extra}]" if self.extra else ""
            overrides = folder / "overrides.txt"
            overrides.write_text(f"jax{extra}=={self.jax}\njaxlib=={self.jax}\n")
            more = ["--overrides", str(overrides)]
        wheels = [] if self.allow_build else ["--no-build"]
        python = str(folder / "bin/python")
        uv("pip", "install", "--quiet", "--python", python, *wheels, *more, "-r", str(lines))
        (folder / _READY).touch()


def uv(*words: str, text: str = "") -> str:
    """Returns what uv prints.

    Raises:
        RequestError: uv is missing, or refuses; in its own words.
    """
    program = shutil.which("uv", path=_programs())
    if program is None:
        raise RequestError("uv is not installed: run `pip install uv`")
    environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    done = subprocess.run(
        [program, *words], input=text, capture_output=True, text=True, env=environ
    )
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise RequestError(f"uv {words[0]}: {' '.join(lines[-_LINES:])}")
    return done.stdout


def _programs() -> str:
    """Returns the folders that uv may be in: beside this Python, or on the path."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def package_of(requirement: str) -> str:
    """Returns the name of a requirement, as package indexes write it.

    >>> package_of("Jax_cuda12.plugin[x]>=0.9 ; python_version > '3'"), package_of("-f wheels")
    ('jax-cuda12-plugin', '')
    """
    name = ""
    for letter in requirement.strip():
        if not (letter.isalnum() or letter in "-_."):
            break
        name += letter
    return "" if name.startswith("-") else name.lower().replace("_", "-").replace(".", "-")


def project_requirements(folder: Path) -> tuple[str, ...]:
    """Returns the requirements that a project's uv.lock or pylock.toml pins.

    Raises:
        RequestError: there is none, or it cannot be read.
    """
    lock = next((path for name in LOCKS if (path := folder / name).exists()), None)
    if lock is None:
        fix = "name a file with --requirements"
        raise refuse(f"folder {shorten(str(folder))}", f"has no {' or '.join(LOCKS)}", fix)
    if lock.name == "uv.lock":
        words = ("--frozen", "--no-hashes", "--no-header", "--no-annotate", "--no-emit-project")
        return _listed(uv("export", "--quiet", *words, "--project", str(folder)))
    try:
        packages = tomllib.loads(lock.read_text("utf-8"))["packages"]
        return tuple(f"{each['name']}=={each['version']}" + (f" ; {each['marker']}" if "marker" in each else "") for each in packages if "version" in each)  # fmt: skip
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise refuse(f"{lock.name}", f"cannot be read ({error!r})", "lock it again") from error


def file_requirements(path: Path) -> tuple[str, ...]:
    """Returns the lines of a file of requirements; wheels beside it may be named by their path.

    Raises:
        RequestError: it cannot be read.
    """
    try:
        return tuple(_at(path.parent, line) for line in _listed(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise refuse(f"--requirements {path}", f"cannot be read ({error})", "name a file") from None


def _listed(text: str) -> tuple[str, ...]:
    lines = (line.partition(" #")[0].strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def _at(folder: Path, line: str) -> str:
    return str((folder / line).absolute()) if line.endswith(".whl") and "@" not in line else line


def releases(first: str, last: str) -> tuple[str, ...]:
    """Returns the releases of JAX between two, both of them too, which this Python can install;
    oldest first.
    """
    listed = [last]
    while True:
        words = ("pip", "compile", "--quiet", "--no-deps", "--no-header", "--no-annotate")
        try:
            line = f"jax>={first},<{listed[-1]}"
            version = uv(*words, "--python", sys.executable, "-", text=line)
        except RequestError:
            break
        listed.append(version.strip().rpartition("==")[2])
    if len(listed) == 1 or listed[-1] != first:
        raise refuse(f"--bisect {first} {last}", "are no releases in order", "name an older one first")  # fmt: skip
    return tuple(reversed(listed))


def environments_folder() -> Path:
    """Returns the folder of the environments."""
    return default_data_folder() / "environments"


def kept_words() -> str:
    """Returns the number and size of the environments, after the longest unused ones beyond `MOST`
    are removed.
    """
    every = sorted(_environments(), key=lambda each: each.stat().st_mtime)
    for folder in every[:-MOST]:
        _remove(folder)
    size = sum(map(_bytes, every[-MOST:]))
    kept = numbered(len(every[-MOST:]), "environment")
    return f"{kept} kept, {bytes_text(size)} in {environments_folder()}: --clean removes them"


def clean() -> str:
    """Removes every environment that no process uses, and returns how much that was."""
    every = list(_environments())
    size = sum(map(_bytes, every))
    removed = sum(map(_remove, every))
    return f"removed {removed} of {len(every)} environments, of {bytes_text(size)} together"


def _environments() -> Sequence[Path]:
    return [each for each in environments_folder().glob("*") if each.is_dir()]


def _remove(folder: Path) -> bool:
    with open(folder.with_suffix(".lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_suffix(".lock").unlink()
        return True


def _bytes(folder: Path) -> int:
    return sum(each.lstat().st_blocks * 512 for each in folder.rglob("*"))
