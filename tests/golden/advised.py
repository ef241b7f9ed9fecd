"""Doors to sentences that only a compile leads to: remedies of a collective, of all kinds, and what a
plan changes against a baseline.
"""

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from spmd_core.advice import doing_words, removal_words, what_words, with_sentence
from spmd_core.commands import predict
from spmd_core.experiment import Experiment
from spmd_core.facts import (
    Change,
    Collective,
    Nothing,
    Predicted,
    Ratio,
    Remedy,
    Removal,
    TriedChange,
)
from spmd_core.lab import Lab
from spmd_core.reports import Baseline
from spmd_core.workloads import VALUE
from tests.golden.seldom import BY_ARGUMENT, BY_LINE, MEASURED, PLAN
from tests.golden.values import Line

RATIO = Ratio(
    strategy="auto",
    ratio=1.25,
    interval=(0.9, 1.4),
    verdict="cannot tell",
    differs=False,
    rounds=20,
)


def doors(printed: Callable[..., list[Line]], lab: Lab) -> Iterator[tuple[str, Callable]]:
    """Name and rendering of each."""
    yield "seldom-text/remedies", partial(_remedies, lab)
    for form in ("text", "json"):
        yield f"seldom-{form}/baseline", partial(_against, printed, lab, form)


def _removals(experiment: Experiment) -> Iterator[tuple[Removal, Collective]]:
    """Answers to what would remove a collective, of all kinds."""
    over = {"field": "sharding", "name": "in", "before": ["x", "y"], "after": ["x"]}
    shard = (Change(**over),)
    more = (Change(**over | {"after": []}), Change(**over | {"name": "out", "before": []}))
    alone = (Change(**over), Change(**over | {"name": "out"}))
    array = (Change(field="overrides", name="weights", before=None, after=[["x"], ["y"]]),)
    result = (Change(field="overrides", name="y", before=None, after=[[], ["x"]]),)
    line = (Change(field="specs", name=f"{VALUE}step.py:7", after=[["x"], []]),)
    argument = (Change(field="specs", name="w", after=[[], ["x"]]),)
    other = (Change(field="strategies", before="auto", after="shard_map"),)
    memory = (Change(field="memory", name="w", before="pinned_host", after="device"),)
    takes = Predicted(before=4e-3, after=3e-3)
    gathers = Collective(
        kind="all-gather", axes=("x",), bytes=64, count=2, origin=(BY_ARGUMENT, BY_LINE)
    )
    sums = Collective(kind="all-reduce", axes=("x",), bytes=128, count=1, reason="it is asked for")
    scatter = {"kind": "reduce-scatter", "axes": ("x",)}
    for changes, facts in (
        (shard, {"memory_bytes": 4 * 2**20}),
        (
            more,
            {"memory_bytes": -(3 * 2**20), "new": (scatter, {"kind": "all-to-all", "axes": ()})},
        ),
        (alone, {"memory_bytes": 0, "others": 2, "count": 5}),
        (line, {"memory_bytes": None, "removes": False, "bytes_moved": (512, 128)}),
        (argument, {"memory_bytes": None, "removes": False, "bytes_moved": (512, 512)}),
        (other, {"memory_bytes": None, "measured_s": takes, "ratio": RATIO}),
        (memory, {"memory_bytes": None}),
        (array, {"memory_bytes": 512}),
        (result, {"memory_bytes": 512}),
    ):
        given = {"experiment": experiment, "predicted_s": takes, "changes": changes} | facts
        yield Remedy.model_validate(given), gathers
    tried = tuple(
        TriedChange(changes=changes, removes=removes, seconds=seconds)
        for changes, removes, seconds in (
            (shard, True, 5e-3),
            (more, True, 6e-3),
            (line, False, 2e-3),
            (argument, None, None),
            (other, True, 7e-3),
            (memory, True, 9e-3),
            (array, False, 2e-3),
            (result, True, 8e-3),
        )
    )
    for facts in (
        {"is_small": True},
        {"tried": tried},
        {"tried": tried[3:4]},
        {"tried": tried, "best": 0, "seconds": 4e-3},
        {"tried": tried[:3], "best": 2, "seconds": 4e-3, "experiment": experiment},
        {"tried": tried[:2], "best": 1, "seconds": 4e-3, "experiment": experiment}
        | {"measured_s": takes, "ratio": RATIO},
        {},
    ):
        yield Nothing.model_validate(facts), sums
        yield Nothing.model_validate(facts), gathers


def _remedies(lab: Lab) -> list[Line]:
    facts = lab.facts(MEASURED)
    assert facts is not None
    base = facts.row("auto").experiment.vary(sharding={"in": ["x"]})
    lines = [
        [what_words(each), removal_words(with_sentence(removal, base, each))]
        for removal, each in _removals(base)
    ]
    doing = ((0, 0, ""), (0, 2, "compiling"), (1, 3, ""), (2, 3, "timing", 41.2))
    return lines + [["doing", doing_words(*each)] for each in doing]


def _against(printed: Callable[..., list[Line]], lab: Lab, form: str) -> list[Line]:
    """A baseline of one plan against what is stored of another, as if it was compiled again."""
    one, other = (lab.facts(run) for run in (PLAN, "20261124-173703-9ed8b8"))
    assert one and other and one.experiment.plan
    old, new = (each.strategies["auto"].prediction for each in (one, other))
    assert old and new
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "baseline.json"
        file.write_text(Baseline.of(one.experiment.plan, old).to_text(), "utf-8")
        found = SimpleNamespace(prediction=new)
        with mock.patch.object(predict, "compiled", lambda *_, **__: found):
            words = ("predict", "--baseline", str(file))
            lines = printed(form, *words, *(("--json",) if form == "json" else ()))
    return [line for line in lines if not line[0].startswith(".") or ".changes" in line[0]]
