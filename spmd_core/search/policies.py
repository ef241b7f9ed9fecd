"""What a training step saves, offloads and recomputes: the policies that a search tries."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from spmd_core.plan import NAMES
from spmd_core.search.question import REMATS

Remat = Literal["none", "minimal", "full"]
# Arrays that one decision is made of: alone none of them spares a matmul of its own kind.
GROUPS: tuple[tuple[str, ...], ...] = (
    ("query", "key", "value"),
    ("out",),
    ("attention",),
    ("mlp_up", "mlp_gate"),
)


@dataclass(frozen=True, slots=True)
class Policy:
    """Fields of a plan for what the forward pass saves, and where; of a pipeline also its schedule."""

    remat: Remat
    save: tuple[str, ...] = ()
    offload: tuple[str, ...] = ()
    schedule: tuple[tuple[str, Any], ...] = ()

    @property
    def fields(self) -> dict[str, object]:
        """As a plan has them."""
        saved = {"remat": self.remat, "save": self.save, "offload": self.offload}
        return saved | dict(self.schedule)

    @property
    def words(self) -> str:
        """As a name of a candidate has it."""
        parts = ["minimal"] if self.remat == "minimal" and self.save else []
        parts += [f"save {_short(self.save)}"] if self.save else []
        parts += [f"offload {_short(self.offload)}"] if self.offload else []
        of_pipeline = (str(value) for name, value in self.schedule if name == "schedule")
        return "; ".join([*(parts or [self.remat]), *of_pipeline])


def policies(
    remat: tuple[str, ...], offloads: bool, gated: bool, post_norms: bool = False
) -> tuple[Policy, ...]:
    """Every policy: none, minimal, and full with each group recomputed, saved or offloaded, and the
    block's input on the device or offloaded. Fewest bytes last: the order has no other meaning.
    With `post_norms` minimal saves one projection more than any of full: with attention too.
    """
    tried = [Policy("none")] if "none" in remat else []
    if "minimal" in remat:
        tried.append(Policy("minimal"))
    more = [Policy("minimal", ("attention",))] if post_norms and "minimal" in remat else []
    if "full" not in remat:
        return (*tried, *more)
    ways = ("", "save", "offload") if offloads else ("", "save")
    for place in ("", "offload") if offloads else ("",):
        for chosen in itertools.product(ways, repeat=len(GROUPS)):
            named = {"input": place} | {
                name: way
                for way, group in zip(chosen, GROUPS, strict=True)
                for name in group
                if gated or name != "mlp_gate"
            }
            tried.append(Policy("full", _named(named, "save"), _named(named, "offload")))
    return (*tried[:-1], *more, tried[-1])


def smallest(tried: Sequence[Policy]) -> list[Policy]:
    """Returns the policies of which one holds the least on a device and in its host's memory: of the
    rematerializations the one that saves least, under each schedule; its input, and all else that it
    may offload, on either side.
    """
    least = max((each.remat for each in tried), key=REMATS.index)
    ends = ((), ("input",), tried[-1].offload)
    return [
        each for each in tried if each.remat == least and not each.save and each.offload in ends
    ]


# schedules that a pipeline is tried with where none is given; the plainest last
SCHEDULES_TRIED: tuple[tuple[tuple[str, Any], ...], ...] = (
    (("schedule", "zb-h1"),),
    (("schedule", "interleaved"), ("repeats", 2)),
    (("schedule", "1f1b"),),
)


def pipeline_policies(remat: tuple[str, ...], is_given: bool) -> tuple[Policy, ...]:
    """Policies of a pipeline, under each schedule unless one is given; fewest bytes last."""
    schedules = ((),) if is_given else SCHEDULES_TRIED
    return tuple(
        Policy(each, schedule=schedule)
        for schedule in schedules
        for each in ("none", "minimal", "full")
        if each in remat
    )


def _short(names: tuple[str, ...]) -> str:
    """Names, abbreviated.

    >>> _short(("query", "key", "value", "out", "mlp_up"))
    'qkv, out, mlp_up'
    """
    text = ", ".join(names)
    return text.replace("query, key, value", "qkv").replace("mlp_up, mlp_gate", "mlp")


def _named(ways: dict[str, str], way: str) -> tuple[str, ...]:
    return tuple(name for name in NAMES if ways.get(name) == way)
