"""A recipe: a spec to open on a screen, what to look at there and why, and what must come out of
it.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spmd_core.advice import nearest_words
from spmd_core.base import bytes_text, seconds_text
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.plan import Plan
from spmd_core.results import ArrayReport, Result, StrategyResult
from spmd_core.terms import mfu_words
from spmd_core.time import estimate_step, host_s, nearest_fit
from spmd_core.words import parts, predictions

_WIDTH = {"float32": 4, "bfloat16": 2}
_LARGE = 0.02  # of the step: a part that a line names


@dataclass(frozen=True, slots=True)
class Expected:
    """What a recipe's run must give under every strategy that it names; what is left out is not
    looked at.

    `values`, `exact`, `shapes`, `specs` and `memory` go by the name of a result, `printed` and
    `contains` by the name of
    what a small program reports, `collectives` by strategy (the kinds in its compiled program, each
    once). `exact` is to
    the digit; `values` within the tolerance; `contains` names parts of what is reported, where the
    rest differs by version.
    """

    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    exact: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    specs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    memory: Mapping[str, str] = field(default_factory=dict)
    printed: Mapping[str, str] = field(default_factory=dict)
    contains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # of every result: device -> [start, stop) of each dim
    shards: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    collectives: Mapping[str, frozenset[str]] = field(default_factory=dict)
    tolerance: float = 1e-6  # absolute, of values

    def differences(self, result: Result) -> tuple[str, ...]:
        """A sentence for everything in a result that is not as expected; none where all of it is."""
        return tuple(
            sentence
            for strategy, outcome in result.strategies.items()
            for sentence in self._of(strategy, outcome)
        )

    def _of(self, strategy: str, outcome: StrategyResult) -> list[str]:
        if outcome.status != "ok":
            return [
                f"{strategy} ended as {outcome.status}: "
                f"{outcome.error.message if outcome.error else 'no reason given'}"
            ]
        named = {*self.values, *self.exact, *self.shapes, *self.specs, *self.memory}
        differences = [
            f"{strategy}: {text}" for name in named for text in self._of_array(name, outcome)
        ]
        differences += [
            f"{strategy} prints {outcome.printed.get(name)!r} for {name}, without {part!r}"
            for name, parts in self.contains.items()
            for part in parts
            if part not in outcome.printed.get(name, "")
        ]
        differences += [
            f"{strategy} prints {outcome.printed.get(name)!r} for {name}, not {text!r}"
            for name, text in self.printed.items()
            if outcome.printed.get(name) != text
        ]
        for name, report in outcome.outputs.items():
            held = {shard.at: shard.index for shard in report.shards or ()}
            differences += [
                f"{strategy}: device {device} holds {held.get(device)} of {name}, not {index}"
                for device, index in self.shards.items()
                if held.get(device) != index
            ]
        if strategy in self.collectives:
            kinds = frozenset(collective.kind for collective in outcome.collectives or ())
            if outcome.collectives is None:
                differences.append(f"{strategy} does not say which collectives it contains")
            elif kinds != self.collectives[strategy]:
                differences.append(
                    f"{strategy} contains {', '.join(sorted(kinds)) or 'no collective'}, "
                    f"not {', '.join(sorted(self.collectives[strategy])) or 'none'}"
                )
        return differences

    def _of_array(self, name: str, outcome: StrategyResult) -> list[str]:
        report: ArrayReport | None = outcome.outputs.get(name)
        if report is None:
            return [f"there is no result {name}"]
        differences = []
        if name in self.values and not self._close(report.values, self.values[name]):
            differences.append(f"{name} is {report.values}, not {self.values[name]}")
        if name in self.exact and report.values != self.exact[name]:
            differences.append(f"{name} is {report.values}, not exactly {self.exact[name]}")
        for what, wanted, got in (
            ("shape", self.shapes, report.shape),
            ("spec", self.specs, report.spec),
            ("memory", self.memory, report.memory),
        ):
            if name in wanted and got != wanted[name] and not (what == "spec" and got is None):
                differences.append(f"the {what} of {name} is {got}, not {wanted[name]}")
        return differences

    def _close(self, got: tuple[Any, ...] | None, wanted: tuple[float, ...]) -> bool:
        return (
            got is not None
            and len(got) == len(wanted)
            and all(
                isinstance(value, int | float)
                and math.isclose(value, number, rel_tol=0, abs_tol=self.tolerance)
                for value, number in zip(got, wanted, strict=True)
            )
        )


_SENTENCES = re.compile(r"(?<=\.) (?=[A-Z])")


def program_spec(
    program: str, mesh: Mapping[str, int] | None = None, **sizes: int
) -> dict[str, object]:
    """The spec of a registered small program on a mesh (eight devices along x where none is given),
    with sizes of its own.
    """
    return {
        "workload": "program",
        "mesh": dict(mesh or {"x": 8}),
        "options": {"program": program, **sizes},
    }


@dataclass(frozen=True, slots=True)
class Claims:
    """What a problem's text states of instant estimates, so that a test can check it.

    Whether the plan and its variation fit, what the nearest plan changes where the first does not,
    and whether the variation takes less time for a sequence (None: the text does not state it).
    """

    fits: bool = True
    varied_fits: bool = True
    nearest: str = ""
    varied_is_faster: bool | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """An example: its spec (the target is this machine's own where it names none), its screen, and
    the words around it. A problem of a large model has `claims` in place of expected numbers.
    """

    name: str
    title: str
    group: str
    spec: Mapping[str, Any]
    look_at: str
    why: str
    screen: Literal["layout", "compare", "predict"] = "compare"
    expected: Expected = Expected()
    asks_why: bool = False  # whether its question is of what communicates
    takes: str = ""  # how long, and what, where it is more than a few seconds
    claims: Claims | None = None
    is_of_times: bool = False  # whether it looks at times, which no expected number checks
    shows_moments: bool = False  # whether its numbers show what moments in host memory would take

    @property
    def experiment(self) -> Experiment:
        """The spec on its own target, or this machine's default."""
        return parse_experiment(dict(self.spec))

    def findings(self, result: Result) -> tuple[str, ...]:
        """Returns what a small program shows, in sentences; none where a number of the result is not as
        expected, or times are looked at.
        """
        is_complete = self.experiment.what.is_small_program and not (
            self.is_of_times or result.partial
        )
        if not is_complete or self.expected.differences(result):
            return ()
        return tuple(_SENTENCES.split(self.look_at))

    def numbers(self, varied: Experiment) -> tuple[str, ...]:
        """Of a problem: the instant estimates of its plan and of its variation, a line each."""
        plan = self.experiment.plan
        if self.claims is None or plan is None or varied.plan is None:
            return ()
        more = f" {moments_words(plan)}" if self.shows_moments else ""
        here = in_a_line(plan, offering=False)  # the screen offers it below
        return f"{here}{more}", in_a_line(varied.plan)


def in_a_line(plan: Plan, *, offering: bool = True) -> str:
    """Memory, step time, MFU and where the time goes; if it does not fit, the nearest plan that
    does, unless that is offered elsewhere.
    """
    estimate = estimate_step(plan)
    time = estimate.predicted_s
    text = predictions.held_words(estimate)
    if not estimate.fits or time is None:
        return f"{text}. {nearest_words(plan, nearest_fit(plan))}" if offering else f"{text}."
    shares = [
        f"{name} {share / time.estimate:.0%}"
        for name, share in parts(estimate).items()
        if share > _LARGE * time.estimate
    ]
    mfu = mfu_words(estimate.mfu, estimate.mfu_causal)
    return f"{text}. {seconds_text(time.estimate)} a step at {mfu}: {', '.join(shares)}."


def moments_words(plan: Plan) -> str:
    """The transfers of a step if the optimizer's moments were in host memory, and their time."""
    estimate = estimate_step(plan)
    moments = sum(_WIDTH[dtype] for dtype in plan.moment_dtypes)
    held = estimate.before_compiling["parts"]["parameters and optimizer"]
    nbytes = held * moments / (moments + _WIDTH[plan.parameter_dtype])
    return (
        f"The moments are {bytes_text(nbytes)} per device. From host memory and back they "
        f"would take {seconds_text(2 * host_s(plan.topology.chip, nbytes))} of every step."
    )
