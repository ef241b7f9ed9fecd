"""A step, traced anew from its source in several environments: what changed from one to the next."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from spmd_core.base import RequestError
from spmd_core.lab import simulated_devices
from spmd_core.own.changed.changes import Changes, between
from spmd_core.own.versions.environments import JaxEnvironment
from spmd_core.results import StepDescription

_TAIL = 400  # characters of what a step printed last


@dataclass(frozen=True)
class Seen:
    """A step in one environment: its description, or why there is none. `is_made` is False where the
    environment itself could not be made.
    """

    name: str
    step: StepDescription | None
    error: str = ""
    is_made: bool = True

    def json(self) -> dict[str, Any]:
        """Returns plain values."""
        step = self.step and self.step.model_dump(mode="json")
        return {"name": self.name, "error": self.error or None, "step": step}


def seen(environment: JaxEnvironment, function: str, words: Sequence[str], devices: int) -> Seen:
    """Returns a step as an environment has it. Only JSON comes from there.

    Args:
        environment: it is made where it is not there.
        function: `package.module:function`, of the working folder or of the environment.
        words: further words for `spmd-lab explain`.
        devices: simulated ones.
    """
    try:
        with environment.python() as python, tempfile.TemporaryDirectory() as folder:
            answer = Path(folder) / "step.json"
            command = ["-m", "spmd_core", "explain", function, *words, "--save", str(answer)]
            done = subprocess.run(
                [str(python), *command],
                env=_environ(devices),
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
            )
            if done.returncode or not answer.exists():
                last = " ".join(done.stderr.split())[-_TAIL:]
                return Seen(environment.name, None, last or f"exit code {done.returncode}")
            return Seen(environment.name, StepDescription.model_validate_json(answer.read_bytes()))
    except ValidationError as error:
        return Seen(
            environment.name, None, f"the answer cannot be read: {error.errors()[0]['msg']}"
        )
    except RequestError as error:
        return Seen(environment.name, None, str(error), is_made=False)


def _environ(devices: int) -> dict[str, str]:
    """The caller's environment; packages are those of the environment alone."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "JAX_PLATFORMS", "JAX_NUM_CPU_DEVICES")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | simulated_devices(devices, os.cpu_count() or 1)


def changes_between(before: Seen, after: Seen) -> Changes:
    """Returns what changed from one environment to another."""
    if before.step is not None and after.step is not None:
        return between(before.step, after.step)
    if bool(before.error) == bool(after.error):
        return Changes((), ())
    word, error = (
        ("fails", after.error) if after.error else ("does not fail any more", before.error)
    )
    return Changes((f"changed: it {word}: {error}",), ())


def first_changed(
    names: Sequence[str], look: Callable[[str], Seen], progress: Callable[[str], object]
) -> tuple[Seen, Seen]:
    """Bisects releases: the first that differs from the oldest one, and the one before it. Releases
    that cannot be installed are passed over.

    Args:
        names: releases, oldest first.
        look: returns the step in a release.
        progress: receives a line for each release.

    Raises:
        RequestError: one of the ends cannot be installed, or they do not differ.
    """
    left = list(names)
    good, bad = (look(left[at]) for at in (0, -1))
    for each in (good, bad):
        if not each.is_made:
            raise RequestError(each.error)
    if not changes_between(good, bad).changed:
        raise RequestError(
            f"nothing changed from {good.name} to {bad.name}: there is nothing to bisect"
        )
    last_good = good
    while len(left) > 2:
        middle = len(left) // 2
        at = look(left[middle])
        if not at.is_made:
            progress(f"{at.name}: passed over, {at.error}")
            del left[middle]
        elif changes_between(good, at).changed:
            progress(f"{at.name}: changed")
            left, bad = left[: middle + 1], at
        else:
            progress(f"{at.name}: as {good.name}")
            left, last_good = left[middle:], at
    return last_good, bad
