"""What the fixture `spmd` of the pytest plugin is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from spmd_core.own.expected.expectation import Expecting, expect
from spmd_core.own.expected.goldens import FOLDER, Goldens


@dataclass(frozen=True)
class Spmd:
    """Expectations of steps in one test."""

    goldens: Goldens = field(repr=False)  # pytest prints fixtures beside a failure

    def expect(
        self,
        step: Callable[..., Any],
        *,
        target: str | None = None,
        mesh: Mapping[str, int] | None = None,
        specs: Mapping[str, Any] | None = None,
    ) -> Expecting:
        """Expect facts of a step, as `spmd_lab.expect` does; goldens are those of this test.

        Args:
            step: a function, jitted or not.
            target: a target that all expectations are of.
            mesh: sizes of the step's mesh axes, where these are other than its own.
            specs: path pattern -> `PartitionSpec` of arguments.

        Returns:
            A function of the step's own arguments, which returns an `Expectation`.
        """
        made = expect(step, target=target, mesh=mesh, specs=specs)
        return replace(made, goldens=self.goldens)


def goldens_of(file: Path, test: str, is_updating: bool, note: Callable[[str], object]) -> Goldens:
    """Returns the goldens of a test, in a folder beside its file.

    Args:
        file: the file of the test.
        test: the id of the test.
        is_updating: whether goldens are written.
        note: receives a line for each golden that is written, and for each rename.
    """
    return Goldens(file.parent / FOLDER, test, is_updating, note)
