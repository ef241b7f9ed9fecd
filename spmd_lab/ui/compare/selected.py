"""The selected collective: one click, kept in the link, marked wherever its program is shown."""

from spmd_core.program import CollectiveRow, rows
from spmd_core.results import Result
from spmd_core.workloads import STRATEGIES
from spmd_lab.ui import choices
from spmd_lab.ui.ir import viewer

MARK = f"{viewer.MARK} "  # before its row in a table


def of(result: Result) -> tuple[str, CollectiveRow | None]:
    """Returns the strategy that is looked at and its selected collectives, by default the longest
    of the best row that communicates, of a study of the best row; ("", None) without any.
    """
    names, asked = communicating(result), choices.now(choices.STRATEGY)
    if not names or (
        result.experiment.variants and asked not in names and names[0] != result.order[0]
    ):
        return "", None
    name = asked if asked in names else names[0]
    listed = rows(result.strategies[name].collectives or ())
    return name, listed[choices.collective(len(listed))]


def communicating(result: Result) -> list[str]:
    """Returns the strategies with collectives, from the fastest."""
    return [
        name
        for name in result.order
        if result.strategies[name].collectives
        and not STRATEGIES[result.row(name).strategy].is_single_device
    ]
