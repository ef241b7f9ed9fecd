"""Names, notes, tags and pins of stored runs, and the answers of shared searches."""

from collections.abc import Callable

from spmd_core.base import Settings, refuse, shorten
from spmd_core.lab.store.asker import (
    COMMAND_LINE,
    Asker,
    check_may_act,
    check_may_change,
    check_owner,
)
from spmd_core.lab.store.store import Store
from spmd_core.runs import Labels, Origin, checked_name, checked_note, checked_tags
from spmd_core.search import KeptSearch

_CHECKED = {"name": checked_name, "note": checked_note, "tags": checked_tags, "is_pinned": bool}


class Notebook:
    """The notebook of a data folder. `allow(asker, action, run)` refuses who may not write in it."""

    def __init__(self, store: Store, settings: Settings, allow: Callable[[Asker, str, str], None]):
        self._store, self._settings, self._allow = store, settings, allow

    def labels(self, run: str) -> Labels:
        """What was added to a run; RequestError where there is none of that id."""
        return self._store.labels(run)

    def origin(self, run: str) -> Origin | None:
        """Where a foreign run is from; None of a run of this data folder."""
        return self._store.origin(run)

    def label(
        self,
        run: str,
        asker: Asker = COMMAND_LINE,
        was: Labels | None = None,
        **changes: object,
    ) -> Labels:
        """Change `name`, `note`, `tags` or `is_pinned` of a run, and return all of its labels.

        `was`: what the editor saw. RequestError where a text is too long, somebody else has changed
        the same field meanwhile, `asker` may not write, or renames what another person owns.
        """
        checked = {field: _CHECKED[field](value) for field, value in changes.items()}  # pyright: ignore[reportArgumentType]
        check_may_act(self._settings, asker)
        if "name" in changes:
            check_may_change(self._store, self._settings, asker, run)
        labels = self._store.label(run, was, **checked)
        self._allow(asker, "label", run)  # notes what was done
        return labels


class SharedSearches:
    """The kept searches of a data folder. `allow(asker, action, subject)` notes what was done."""

    def __init__(self, store: Store, settings: Settings, allow: Callable[[Asker, str, str], None]):
        self._store, self._settings, self._allow = store, settings, allow

    def find(self, search: str) -> KeptSearch:
        """The search of that id; RequestError where there is none, or it has no answer yet."""
        return self._store.kept_search(search)

    def has(self, search: str) -> bool:
        """Whether an answer is stored under that id."""
        return bool(self._store.kept_searches(search))

    def listed(self) -> tuple[KeptSearch, ...]:
        """Every search with an answer, the last first."""
        return self._store.kept_searches()

    def delete(self, search: str, asker: Asker = COMMAND_LINE) -> None:
        """Delete a foreign search, as a foreign run: only admins may, since nobody here owns it."""
        check_owner(self._settings, asker, f"search {shorten(search)}", (None, None))
        if self._store.kept_search(search).origin is None:
            rule = "is of this data folder, which forgets the oldest by itself"
            raise refuse(f"search {search}", rule, "delete foreign ones")
        self._store.delete_kept_search(search)
        self._allow(asker, "delete search", search)
