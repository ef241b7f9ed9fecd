"""Chooses among the ways to mend a step by what each communicates once it is compiled."""

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import process_time
from typing import Any

from jax.sharding import AxisType

from spmd_core.engine.explicit.loading import Loader
from spmd_core.engine.explicit.source import Edit, EditedFile
from spmd_core.engine.explicit.watch import Key, Rejected, Watch, error_words
from spmd_core.engine.step import here
from spmd_core.facts import ExplicitError, ExplicitFix
from spmd_core.results import StepCollective

_MOST_PASSES = 12
_IS_OF_SHARDING = re.compile(r"^ShardingTypeError|\w\[[^\]]*@|Explicit")  # or a type with an axis


@dataclass
class Mended:
    """The files after every error that could be was mended."""

    texts: dict[str, str]
    refused: dict[Key, Rejected] = field(default_factory=dict)
    meshes: list[str] = field(default_factory=list)
    others: dict[Key, int] = field(default_factory=dict)  # that have another type than under Auto
    unmended: str | None = None  # the error at which it ends

    @property
    def is_of_sharding(self) -> bool:
        """Whether that error is one of sharding types."""
        return bool(_IS_OF_SHARDING.search(self.unmended or ""))


def mend(loader: Loader, wanted: Mapping[Key, list[Any]], choices: Mapping[Key, int]) -> Mended:
    """Trace and edit until nothing is refused."""
    blocked = dict[Key, str]()
    loader.use({})
    made = Mended({})
    for _ in range(_MOST_PASSES):
        known = len(blocked)
        chosen = {key: at for key, at in choices.items() if key not in made.refused}
        watch = Watch(AxisType.Explicit, True, wanted=wanted, blocked=blocked, choices=chosen)
        error = None
        try:
            loader.trace(watch)
        except Exception as raised:  # no change is known: the others are reported
            error = error_words(raised)
        made.others |= watch.others
        if len(blocked) > known and any(key in watch.refused for key in blocked):
            continue  # an outer expression is changed instead
        made.unmended = error
        groups = [(each.site.path, each.fixes[0].edits) for each in watch.refused.values()]
        groups += [(site.path, edits) for site, edits in watch.meshes.values()]
        if not groups:
            break
        taken = _apply(loader.sources, groups)
        refused = list(watch.refused.items())
        made.refused |= {key: each for at, (key, each) in enumerate(refused) if at in taken and key not in made.refused}  # fmt: skip
        made.meshes += [f"{os.path.relpath(site.path, loader.root)}:{site.line}" for site, _ in watch.meshes.values()]  # fmt: skip
        if not taken:
            made.unmended = made.unmended or "its lines cannot be edited safely"
            break
    made.texts = {path: source.text for path, source in loader.sources.items()}
    return made


def _apply(
    sources: Mapping[str, EditedFile], groups: Sequence[tuple[str, Sequence[Edit]]]
) -> set[int]:
    """Make the groups of edits that do not overlap those before; their places."""
    taken: dict[str, list[int]] = {path: [] for path, _ in groups}
    for at, (path, _) in enumerate(groups):
        source = sources[path]
        trial = EditedFile(path, source.text)
        with suppress(ValueError):  # the next pass finds it again
            trial.apply([edit for one in (*taken[path], at) for edit in groups[one][1]])
            taken[path].append(at)
    for path, places in taken.items():
        sources[path].apply([edit for at in places for edit in groups[at][1]])
    return {at for places in taken.values() for at in places}


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
