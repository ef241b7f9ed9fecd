"""Edits files until JAX rejects no expression of a step under Explicit axes."""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from jax.sharding import AxisType

from spmd_core.engine.explicit.loading import Loader
from spmd_core.engine.explicit.source import Edit, EditedFile
from spmd_core.engine.explicit.watch import Key, Rejected, Watch, error_words

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
