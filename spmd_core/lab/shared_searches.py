"""The answers of searches, of this data folder and of others: to be read, compared and deleted."""

from collections.abc import Callable

from spmd_core.base import Settings, refuse, shorten
from spmd_core.lab.store.asker import COMMAND_LINE, Asker, check_owner
from spmd_core.lab.store.store import Store
from spmd_core.search import KeptSearch


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
