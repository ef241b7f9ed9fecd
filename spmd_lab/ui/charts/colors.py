"""The colors of kinds of time, on light pages and dark ones alike: charts, timelines and captions
have them from here; and the colors of rows.
"""

from collections.abc import Mapping

from spmd_core.experiment import STRATEGIES, Experiment
from spmd_core.words import title

KINDS = {  # in the order of a legend
    "matmul": "#3b76c4",
    "kernel": "#7a5cc7",
    "compute": "#3b76c4",
    "memory": "#5aa6a0",
    "hidden": "#a9b4c2",
    "exposed": "#d9730d",
    "wait": "#c9485b",
    "copy": "#8d8a5e",
    "loop": "#6c7686",
}


COUNT = 8  # colors of the theme's palette


def order(experiment: Experiment) -> list[str]:
    """Returns titles of rows in the order of the theme's colors."""
    rows = [row.key for row in experiment.rows] if experiment.variants else STRATEGIES
    return [title(row) for row in sorted(rows, key=experiment.palette_place)]


def domain(experiment: Experiment, labels: Mapping[str, str]) -> list[str]:
    """Returns the domain of a color scale in which each label has the color of its row's title."""
    names = order(experiment)
    for label, name in labels.items():
        if label not in names and name in names:
            gap = (names.index(name) - len(names)) % COUNT
            names += [*(f"{len(names) + at}" for at in range(gap)), label]
    return names


def css(experiment: Experiment, name: str) -> str:
    """Returns the color of a row as CSS, for both themes."""
    names = order(experiment)
    at = names.index(title(name)) if title(name) in names else 0
    return f"var(--row-{at % COUNT})"
