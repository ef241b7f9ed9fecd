"""The sharding type errors of a step under Explicit axes, and what makes it trace."""

from spmd_core.base import Frozen
from spmd_core.fields import Mesh


class ExplicitFix(Frozen):
    """A change of one expression.

    Attributes:
        how: `out_sharding`, `reshard` or `auto_axes`.
        lines: the lines of the file with it.
        bytes: of the collectives on these lines, a device and step; None where the step needs
            further changes to trace with it.
        collectives: these collectives, such as `all-reduce over tensor`.
        in_auto: whether the program under Auto axes has as many bytes of each.
    """

    how: str
    lines: str
    bytes: int | None = None
    collectives: tuple[str, ...] = ()
    in_auto: bool | None = None


class ExplicitError(Frozen):
    """An expression that JAX refuses under Explicit axes; the first of `fixes` is in the patch.
    `refused` is why there is none; `accepted`: JAX traces it, with a type that communicates more.
    """

    source: str
    line: str
    message: str
    operands: tuple[str, ...]
    fixes: tuple[ExplicitFix, ...] = ()
    refused: str | None = None
    accepted: bool = False


class ExplicitReport(Frozen):
    """Every sharding type error of a step, and its patch.

    Attributes:
        patch: a unified diff of the user's files; empty where nothing is to be changed.
        texts: the changed files by path.
        traces: whether the patched files trace under Explicit axes.
        wrong: elements of results that differ from the step's own beyond what rounding allows;
            None where they were not compared, which `notes` give the reason of.
        compared: elements that were compared.
        beyond: collectives that the program under Auto axes does not have.
        outputs: types of the results under Explicit axes, as JAX writes them.
    """

    function: str
    mesh: Mesh
    errors: tuple[ExplicitError, ...]
    patch: str = ""
    texts: dict[str, str] = {}
    traces: bool
    wrong: int | None = None
    compared: int = 0
    beyond: tuple[str, ...] = ()
    outputs: dict[str, str] = {}
    notes: tuple[str, ...] = ()
