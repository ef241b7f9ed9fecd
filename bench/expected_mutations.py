"""Goldens of 8 training steps: do they fail by what changes a sharding, and by nothing else?

    python -m bench.expected_mutations

Each step has a golden. 40 mutations of shardings, donations and element types have to fail it, and
the failure has to name the argument or the line; 40 edits that rename, reorder or comment have to
pass. Beside it is what a hash of the StableHLO, without its locations, does.
"""

import importlib.util
import os
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from spmd_core.machine import ENVIRONMENT

os.environ |= {**ENVIRONMENT, "JAX_PLATFORMS": "cpu"}  # before jax is imported
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import spmd_lab
from bench.figures import Asked, Figures, measure
from bench.mutated_steps import HEAD, STEPS, Edit
from spmd_core.own import goldens_of
from spmd_core.own.changed.golden import FIELDS


class Trial:
    """A step in a file of its own, with its golden."""

    def __init__(self, folder: Path, name: str, text: str) -> None:
        self._folder, self._name, self._text = folder / name, name, HEAD + text
        self._folder.mkdir()
        (self._folder / "pyproject.toml").touch()
        self._count = 0
        self._hash, _ = self.tried((), is_updating=True)

    def tried(self, edit: Edit, is_updating: bool = False) -> tuple[str, str]:
        """Hash of the StableHLO of the edited step, and what its golden reports."""
        text = self._text
        for old, new in edit:
            assert old in text, (self._name, old)
            text = text.replace(old, new)
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        module = _loaded(folder / "model.py", text)
        given = module.arguments()
        lowered = module.step.trace(*given).lower().as_text()
        kept = goldens_of(self._folder / "test_model.py", "test_model.py::test", is_updating, _drop)
        described = spmd_lab.expect(module.step)(*given).on()
        changed = kept.compared(described, "", None, FIELDS)[1].changed
        return sha256(lowered.encode()).hexdigest(), "\n".join(changed)

    def fails(self, edit: Edit) -> tuple[bool, str]:
        """Whether the hash differs, and the failure of the golden; "" where it passes."""
        made, failure = self.tried(edit)
        return made != self._hash, failure


def _drop(words: str) -> None:
    pass


def _loaded(path: Path, text: str) -> Any:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("model", path)
    assert spec is not None and spec.loader is not None
    sys.modules["model"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(asked: Asked, figures: Figures) -> None:
    """Try every mutation and every harmless edit."""
    named, missed, hashed, false, false_hashes = 0, list[str](), 0, list[str](), 0
    count, nested = 0, 0
    with tempfile.TemporaryDirectory() as kept:
        for name, each in STEPS.items():
            trial = Trial(Path(kept), name, each.text)
            for edit, words in each.mutations:
                count, nested = count + 1, nested + each.is_nested
                is_other, failure = trial.fails(edit)
                hashed += is_other
                named += words in failure
                missed += [] if words in failure else [f"{name}: {edit[0][1]!r}"]
                if asked.show:
                    print(f"--- {name}: {edit[0][1]}\n{failure}", flush=True)
            for edit in each.harmless:
                is_other, failure = trial.fails(edit)
                false_hashes += is_other
                false += [f"{name}: {edit[0][1]!r}: {failure}"] if failure else []
    figures.add("mutations", count, least=40, note=f"{nested} nested, in scans or optimizer state")
    figures.add("mutations that fail and are named", named, least=38, note="; ".join(missed))
    figures.add("harmless edits that fail, of 40", len(false), most=0, note="; ".join(false))
    figures.add("mutations that a hash of StableHLO sees", hashed)
    figures.add("harmless edits that change that hash", false_hashes)


if __name__ == "__main__":
    measure(main, __doc__, show=(False, "print each failure"))
