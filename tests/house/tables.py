"""Tables of the docs that follow from the code: `python -m tests.house.tables` writes them."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from spmd_core.sweeps import VARIABLES
from spmd_core.workloads import STRATEGIES, WORKLOADS

ROOT = Path(__file__).resolve().parents[2]


def sweep_variables() -> list[str]:
    """What a sweep can vary."""
    rows = ((f"`{row.name}`", f"`{row.example}`", row.also) for row in VARIABLES.values())
    return _table(("varied", "values", "what else changes"), rows)


def workloads() -> list[str]:
    """Every workload, with the dims of its widest variant and its own options."""

    def row(workload) -> tuple[str, ...]:
        widest = max([workload, *workload.variants.values()], key=lambda variant: len(variant.dims))
        computes = f"{workload.title}: {workload.formula}".replace("|", "\\|")
        return (
            f"`{workload.name}`",
            computes,
            ", ".join(widest.dims),
            ", ".join(f"`{option}`" for option in workload.options),
        )

    return _table(("workload", "computes", "dims", "options"), map(row, WORKLOADS.values()))


def strategies() -> list[str]:
    """Every strategy, with its caution."""
    rows = ((f"`{row.name}`", row.meaning, row.caution) for row in STRATEGIES.values())
    return _table(("strategy", "what it does", "beware"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    listed = (head, ("---",) * len(head), *rows)
    return [f"| {' | '.join(cells)} |" for cells in listed]


# File of the docs, the table's first line, which is found by it, and what writes it.
TABLES: tuple[tuple[str, Callable[[], list[str]]], ...] = (
    ("docs/scaling.md", sweep_variables),
    ("docs/workloads.md", workloads),
    ("docs/strategies.md", strategies),
)


def with_table(text: str, table: list[str]) -> str:
    """A text with the table that has the same head put in the place of its own."""
    lines = text.split("\n")
    first = lines.index(table[0])
    rest = range(first, len(lines))
    last = next((at for at in rest if not lines[at].startswith("|")), len(lines))
    return "\n".join([*lines[:first], *table, *lines[last:]])


def outdated(write: bool = False, root: Path = ROOT) -> list[str]:
    """Files whose tables are not what the code says; written anew where asked."""
    found = []
    for name, make in TABLES:
        path = root / name
        text = path.read_text("utf-8")
        if (new := with_table(text, make())) != text:
            found.append(name)
            if write:
                path.write_text(new, "utf-8")
    return found


if __name__ == "__main__":
    sys.exit(f"wrote {', '.join(names)}" if (names := outdated(write=True)) else 0)
