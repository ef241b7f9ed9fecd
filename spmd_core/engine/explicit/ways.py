"""Chooses among the ways to mend a step by what each communicates once it is compiled."""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import process_time
from typing import Any

from spmd_core.engine.explicit.loading import Loader
from spmd_core.engine.explicit.mending import Mended, mend
from spmd_core.engine.explicit.watch import Key, Rejected
from spmd_core.engine.step import here
from spmd_core.facts import ExplicitError, ExplicitFix
from spmd_core.results import StepCollective

_SECONDS = 40.0  # of a core, after which no further way is compiled
Kinds = Counter[tuple[str, tuple[str, ...]]]


@dataclass
class Ways:
    """Mends a step in one way or another, and compiles each."""

    loader: Loader
    wanted: Mapping[Key, list[Any]]
    auto: Sequence[StepCollective]
    _compiled: dict[str, tuple[StepCollective, ...] | None] = field(default_factory=dict)
    _costs: dict[Key, list[ExplicitFix]] = field(default_factory=dict)

    def collectives(self, files: Mended) -> tuple[StepCollective, ...] | None:
        """What the mended files compile to; None where they do not trace."""
        name = json.dumps(files.texts, sort_keys=True)
        if name not in self._compiled:
            self._compiled[name] = None
            self.loader.use(files.texts)
            with suppress(Exception):  # what does not trace has none
                self._compiled[name] = here.compiled_step(self.loader.trace(None)[0]).collectives
        return self._compiled[name]

    def beyond(self, files: Mended) -> tuple[str, ...]:
        """Collectives that the program under Auto axes has less of."""
        return tuple(map(kind_words, more(self.collectives(files) or (), self.auto)))

    def chosen(self) -> Mended:
        """The files mended so that they have no more collectives than under Auto axes, if any of
        the ways that were compiled does.
        """
        choices: dict[Key, int] = {}
        best = mend(self.loader, self.wanted, choices)
        excess = self._excess(best)
        typed = [{key: choice} for key, choice in best.others.items()]
        # some ways remove a collective only together
        for some in (*_alike(best), *typed, best.others):
            if not excess or process_time() > _SECONDS:
                break
            if (less := self._excess(mend(self.loader, self.wanted, choices | some))) < excess:
                choices, excess = choices | some, less
        best = mend(self.loader, self.wanted, choices)
        for key, each in list(best.refused.items()):
            hows = [fix.how for fix in each.fixes]
            for at in range(1, len(hows)):  # of each function the first, of all where one adds
                if process_time() > _SECONDS or (not excess and hows.index(hows[at]) != at):
                    continue
                other = mend(self.loader, self.wanted, {**choices, key: at})
                if self._excess(other) < excess:
                    best, excess, choices = other, self._excess(other), {**choices, key: at}
                if (mended := other.refused.get(key)) is not None:
                    self._costs.setdefault(key, []).append(self._priced(mended, other))
        return best

    def _excess(self, files: Mended) -> float:
        collectives = self.collectives(files)
        if collectives is None:
            return float("inf")
        return float(sum(more(collectives, self.auto).values()))

    def _priced(self, each: Rejected, files: Mended) -> ExplicitFix:
        text = files.texts.get(each.site.path, "").split("\n")
        last = each.site.line + each.site.text.count("\n")
        lines = "\n".join(line.strip() for line in text[each.site.line - 1 : last])
        collectives = self.collectives(files)
        fix = ExplicitFix(how=each.fixes[0].how, lines=lines[:400])
        if collectives is None:
            return fix
        own = [one for one in collectives if one.source == f"{each.site.path}:{each.site.line}"]
        own_kinds = kinds(own)
        return fix.model_copy(
            update={
                "bytes": sum(own_kinds.values()),
                "collectives": tuple(map(kind_words, own_kinds)),
                "in_auto": not own_kinds.keys() & more(collectives, self.auto).keys(),
            }
        )

    def errors(self, files: Mended) -> tuple[ExplicitError, ...]:
        """Every error with its fixes, the one of the patch first."""
        errors = []
        for key, each in files.refused.items():
            first = self._priced(each, files)
            others = self._costs.get(key, [])
            by_how = {fix.how: fix for fix in (*reversed(others), first)}
            fixes = (first, *(fix for how, fix in by_how.items() if how != first.how))
            path = os.path.relpath(each.site.path, self.loader.root)
            lines = self.loader.sources[each.site.path].original.split("\n")
            errors.append(
                ExplicitError(
                    source=f"{path}:{each.site.line}",
                    line=lines[each.site.line - 1].strip()[:160],
                    message=each.message,
                    operands=each.operands,
                    fixes=fixes,
                    accepted=each.accepted,
                )
            )
        if files.unmended and files.is_of_sharding:
            errors.append(
                ExplicitError(
                    source="", line="", message=files.unmended, operands=(),
                    refused="no change of an expression that is known here makes it trace",
                )
            )  # fmt: skip
        return tuple(errors)


def _alike(files: Mended) -> list[dict[Key, int]]:
    kinds_of: dict[str, dict[Key, int]] = {}
    for key, each in files.refused.items():
        for at, fix in enumerate(each.fixes):
            kinds_of.setdefault(fix.how, {}).setdefault(key, at)
    return [each for each in kinds_of.values() if len(each) > 1]


def kinds(collectives: Sequence[StepCollective]) -> Kinds:
    """Bytes of each kind over the same axes, a device and step."""
    counted: Kinds = Counter()
    for each in collectives:
        counted[each.asked or each.kind, tuple(sorted(each.axes))] += each.bytes_total or each.bytes
    return counted


def more(ours: Sequence[StepCollective], auto: Sequence[StepCollective]) -> Kinds:
    """Bytes of each kind and axes that the first has more of."""
    return kinds(ours) - kinds(auto)


def kind_words(kind: tuple[str, tuple[str, ...]]) -> str:
    """Returns kind and axes, such as `all-reduce over tensor`."""
    return f"{kind[0]} over {', '.join(kind[1]) or 'no axis'}"
