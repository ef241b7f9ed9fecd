"""One candidate of a search: what it is, how far it got, and what is known of its cost."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from spmd_core.experiment import Experiment, experiment_of
from spmd_core.facts import Estimate, Fits, StoredFact, possible
from spmd_core.fields import Spec
from spmd_core.machine import Capacity
from spmd_core.plan import Plan, named_count
from spmd_core.search.neighborhood import Policy
from spmd_core.time import MemoryEstimate, step_mfu

Stage = Literal["pruned", "estimated", "compiled", "measured", "failed"]
Reason = Literal[
    "does not divide",
    "does not fit",
    "equal to another by renaming",
    "lower bound above the best",
    "estimate far above the best",
    "excluded by what is fixed",
    "not expressible under its strategy",
]
Rule = StoredFact | str
MOST = 250_000  # candidates of a search: about half a GB, and a minute of estimates
ORDER: dict[Stage, int] = {"measured": 0, "compiled": 1, "estimated": 2, "failed": 3, "pruned": 4}


def has_words(name: str, words: Iterable[str]) -> bool:
    """Returns True if a candidate's name has all words, none of them as a part of another.

    >>> has_words("data=16 · full", ["full"]), has_words("data=16 · full", ["data=1"])
    (True, False)
    """
    return all(re.search(rf"(?<![\w.]){re.escape(word)}(?![\w.])", name) for word in words)


class Runnable(Protocol):
    """What becomes an experiment when it is run."""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for candidates that one run answers: strategies of one sharding."""
        ...

    @property
    def alike(self) -> tuple[object, ...]:
        """Equal for candidates that differ in the order and factors of their axes only."""
        ...

    @property
    def kind(self) -> str:
        """Which standard sharding it is: data, fsdp, tensor or mixed; "" for none of them."""
        ...

    def experiment(self, strategies: tuple[str, ...]) -> Experiment:
        """The experiment under these strategies."""
        ...


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """A training step of a space: the plan of its mesh, which its policies share, and one of them.
    A plan of its own for each would be most of what a search holds in memory.
    """

    of_mesh: Plan
    policy: Policy

    @property
    def plan(self) -> Plan:
        """The plan under the policy."""
        return self.of_mesh.model_copy(update=self.policy.fields)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point of a space. `number` is its place in the enumeration, the same in every search of the
    same question; `detail` the rule that pruned it, or why it failed: a fact, or the message of an
    error.

    `tokens` is what a step does: times of different batches are compared per token; 1 of a program
    that has no tokens. `memory_span` is the interval of an estimate of its memory, `host_bytes` is in host memory, and `fits`
    whether a device holds it by that interval, or by the compiler. `equal` is the number of the
    candidate that it equals; `run` the one that first answered it, `study` the one that measured it
    beside others, if any did. `partitioned`: its estimate is of the program as the compiler partitions
    it, not of a formula. `moved`: mesh axes that shard the batch of an exported program and do not in
    its file, or the other way about. `constrained`: of a candidate that is another with a constraint,
    the number of that, the `file:line` of the value, and its spec.
    """

    number: int
    name: str
    target: str
    chips: int
    stage: Stage
    reason: Reason | None = None
    detail: Rule = ""
    strategy: str = "auto"
    tokens: int = 1
    predicted: Estimate | None = None
    memory_bytes: int | None = None
    memory_span: tuple[int, int] | None = None
    host_bytes: int | None = None
    fits: Fits = "yes"
    bound_s: float | None = None
    parts: tuple[tuple[str, float], ...] = ()  # seconds by kind: of a formula, or as compiled
    shares: tuple[tuple[str, float], ...] = ()  # as compiled, beside the parts of an estimate
    step: TrainingStep | None = field(default=None, repr=False)
    point: Runnable | None = field(default=None, repr=False)  # what it is, of an array program
    run: str | None = None
    measured_s: float | None = None
    interval_s: tuple[float, float] | None = None
    study: str | None = None
    fingerprint: str | None = None
    equal: int | None = None
    partitioned: bool = False
    constrained: tuple[int, str, Spec] | None = None
    moved: int = 0

    @property
    def plan(self) -> Plan | None:
        """The plan of a training step, made anew at each call."""
        return self.step.plan if self.step else None

    @property
    def is_pipeline(self) -> bool:
        """True of a plan of stages, of which no program is compiled."""
        return self.step is not None and self.step.of_mesh.stages > 1

    @property
    def is_ranked(self) -> bool:
        """Whether it has a time."""
        return self.stage in ("estimated", "compiled", "measured") and self.seconds is not None

    @property
    def compiled_parts(self) -> tuple[tuple[str, float], ...]:
        """The seconds of its compiled program by kind; () where it was not compiled, and of a search
        that did not keep them.
        """
        if self.stage != "compiled":
            return ()
        return self.parts if self.step else self.shares

    @property
    def seconds(self) -> float | None:
        """The best that is known of its time: measured, else predicted."""
        if self.measured_s is not None:
            return self.measured_s
        return self.predicted.estimate if self.predicted else None

    @property
    def span(self) -> tuple[float, float] | None:
        """The interval of that time."""
        if self.measured_s is not None:
            return self.interval_s
        return (self.predicted.low, self.predicted.high) if self.predicted else None

    @property
    def complexity(self) -> tuple[int, ...]:
        """(mesh axes in use, options, names that are offloaded, names that are saved) of a plan: fewer
        are simpler.
        """
        if self.step is None:
            return 0, 0, 0, 0
        axes = sum(size > 1 for _, size in self.step.of_mesh.mesh)
        policy = self.step.policy
        return axes, len(policy.options), named_count(policy.offload), named_count(policy.save)

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilization of a plan's step; None without a plan or a time."""
        if self.plan is None or not self.seconds:
            return None
        return possible(step_mfu(self.plan, self.seconds))

    @property
    def mfu_causal(self) -> float | None:
        """That without the pairs that a causal mask leaves out."""
        return self.mfu * self.plan.causal_share if self.mfu and self.plan else None

    @property
    def tokens_per_s_per_chip(self) -> float | None:
        """Of a plan's step; None without a plan or a time."""
        if self.plan is None or not self.seconds:
            return None
        return self.tokens / self.seconds / self.chips

    @property
    def host_capacity_bytes(self) -> int | None:
        """What a device of a plan's target may hold in host memory; None without a plan."""
        return self.step.of_mesh.topology.chip.capacity.host if self.step else None

    @property
    def experiment(self) -> Experiment:
        """What a run of it is; ValueError of one that was pruned before it was an experiment."""
        if self.point is not None:
            return self.point.experiment((self.strategy,))
        if self.step is None:
            raise ValueError(f"{self.name} was pruned: it is no experiment")
        return experiment_of(self.step.plan)

    def to_json(self) -> dict[str, object]:
        """A row of the ranking."""
        span = self.predicted.model_dump() if self.predicted else None
        held = self.memory_bytes
        low, high = self.memory_span or (held, held)
        return {
            "name": self.name,
            "fate": self.stage,
            "target": self.target,
            "chips": self.chips,
            "strategy": self.strategy,
            "predicted_s": span,
            "measured_s": self.measured_s,
            "memory_bytes": held,
            "memory_interval": None
            if held is None
            else {"low": low, "estimate": held, "high": high},
            # the format has one word for all that is neither sure to fit nor sure not to
            "host_bytes": self.host_bytes,
            "host_capacity_bytes": self.host_capacity_bytes,
            "fits": "likely" if self.fits == "unlikely" else self.fits,
            "mfu": self.mfu,
            "mfu_causal": self.mfu_causal,
            "tokens_per_s_per_chip": self.tokens_per_s_per_chip,
            "run": self.run,
            "study": self.study,
            "experiment": self.experiment.to_json(),
            "plan": self.step.plan.to_json() if self.step else None,
        }


def over_limit(memory: MemoryEstimate, most: Capacity, capacity: Capacity, by: str) -> StoredFact:
    """The rule that estimated memory breaks: that of the host, or else that of the device."""
    if memory.host > most.host:
        return too_large(memory.host, most.host, most.host, "in host memory")
    return too_large(memory.peak, most.device, capacity.device, by)


def too_large(held: float, limit: int, capacity: int | None, by: str) -> StoredFact:
    """The rule that a device holds no more than a limit: its capacity, or less that is allowed.
    `by`: the end of the fact's kind, which is what the bytes held are known by.
    """
    of = "of a device" if limit == capacity else "allowed"
    return StoredFact(
        kind=f"too large {by}", values={"held_bytes": int(held), "limit_bytes": limit, "of": of}
    )
