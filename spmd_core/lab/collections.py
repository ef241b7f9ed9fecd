"""The gate of what people keep: who may make, change and delete collections, labels and shared searches,
and what a collection may hold.
"""

import secrets
import time
from collections.abc import Callable

from spmd_core.base import Settings, bytes_text, refuse, shorten
from spmd_core.lab.store.limits import (
    COMMAND_LINE,
    Asker,
    check_may_act,
    check_may_change,
    check_owner,
)
from spmd_core.lab.store.store import Store
from spmd_core.runs import (
    RUN,
    TEXT,
    Collection,
    CollectionItem,
    Labels,
    Origin,
    checked_name,
    checked_note,
    checked_tags,
    checked_title,
)
from spmd_core.search import KeptSearch

MOST = 500  # collections of a data folder, beyond which a viewer makes no more
_TWICE_S = 10.0  # between two presses of one button


class Gated:
    """A part of a data folder. `allow(asker, action, subject)` refuses who may only look, and notes
    what was done.
    """

    def __init__(self, store: Store, settings: Settings, allow: Callable[[Asker, str, str], None]):
        self._store, self._settings, self._allow = store, settings, allow


class Collections(Gated):
    """The collections of a data folder."""

    def find(self, collection: str) -> Collection:
        """The collection of that id; RequestError where there is none."""
        return self._store.collection(collection)

    def listed(self, run: str | None = None) -> tuple[Collection, ...]:
        """Every collection, or those with a run, the one changed last first."""
        return self._store.collections(run)

    def create(self, title: str, asker: Asker = COMMAND_LINE) -> Collection:
        """A new collection without parts; the one that a viewer's first press of the button made,
        where this is the second.
        """
        if made := self._made_just_now(title, asker):
            return made
        self._check_room(asker)
        now, by = time.time(), asker.who if asker.is_logged_in else ""
        id = f"c-{time.strftime('%Y%m%d')}-{secrets.token_hex(4)}"
        new = Collection(id, checked_title(title), (), by, now, now)
        check_may_act(self._settings, asker)
        self._store.add_collection(new, asker.owner, asker.viewer)
        self._allow(asker, "create collection", new.id)
        return new

    def _made_just_now(self, title: str, asker: Asker) -> Collection | None:
        whose, least = (asker.owner, asker.viewer), time.time() - _TWICE_S
        for each in self._store.collections() if asker.viewer else ():
            is_new = each.created_at > least and not (each.items or each.origin)
            is_own = is_new and self._store.owner(each.id, "collections") == whose
            if is_own and each.title == title.strip():
                return each
        return None

    def add_text(
        self, collection: str, text: str, asker: Asker = COMMAND_LINE, at: int | None = None
    ) -> Collection:
        """Add a text, before the part at `at`, else at the end."""
        item = CollectionItem.new(TEXT, text)
        return self._change(collection, asker, lambda of: of.with_items([item], at))

    def add_runs(self, collection: str, *runs: str, asker: Asker = COMMAND_LINE) -> Collection:
        """Add stored runs at the end; those that it has stay where they are."""
        for run in runs:
            if self._store.status(run) is None:
                raise refuse(f"run {shorten(run)}", "is not stored here", "see the history")

        def added(of: Collection) -> Collection:
            new = [run for run in dict.fromkeys(runs) if run not in of.runs]
            return of.with_items([CollectionItem.new(RUN, run) for run in new])

        return self._change(collection, asker, added)

    def add_search(
        self, collection: str, search: KeptSearch, asker: Asker = COMMAND_LINE
    ) -> Collection:
        """Add a search at the end, with its question and its answer as they are now."""
        item = CollectionItem.new("search", search.id, search.model_dump_json())
        return self._change(collection, asker, lambda of: of.with_items([item]))

    def rewrite(
        self,
        collection: str,
        item: str,
        text: str,
        asker: Asker = COMMAND_LINE,
        was: str | None = None,
    ) -> Collection:
        """Change a text, which was `was` when its editor saw it."""
        return self._change(collection, asker, lambda of: of.rewritten(item, text, was))

    def move(self, collection: str, item: str, by: int, asker: Asker = COMMAND_LINE) -> Collection:
        """Move a part so many places down, or up where `by` is negative."""
        return self._change(collection, asker, lambda of: of.moved(item, by))

    def remove(self, collection: str, item: str, asker: Asker = COMMAND_LINE) -> Collection:
        """Remove a part; a run stays stored."""
        return self._change(collection, asker, lambda of: of.without_item(item))

    def rename(
        self, collection: str, title: str, asker: Asker = COMMAND_LINE, was: str | None = None
    ) -> Collection:
        """Give a collection another title; only its owner and admins may."""
        self._check_owner(collection, asker)
        return self._change(collection, asker, lambda of: of.retitled(title, was))

    def delete(self, collection: str, asker: Asker = COMMAND_LINE) -> None:
        """Delete a collection, not its runs; only its owner and admins may."""
        self._check_owner(collection, asker)
        self._store.delete_collection(collection)
        self._allow(asker, "delete collection", collection)

    def _change(
        self, collection: str, asker: Asker, change: Callable[[Collection], Collection]
    ) -> Collection:
        check_may_act(self._settings, asker)
        after = self._store.change_collection(collection, change)
        self._allow(asker, "edit collection", collection)  # notes what was done
        return after

    def _check_owner(self, collection: str, asker: Asker) -> None:
        self._store.collection(collection)
        owner = self._store.owner(collection, "collections")
        check_owner(self._settings, asker, f"collection {collection}", owner)

    def _check_room(self, asker: Asker) -> None:
        if asker.viewer is None:
            return
        if len(self._store.collections()) >= MOST:
            raise refuse(f"{MOST} collections", "are as many as fit here", "delete one")
        if self._store.used_bytes() >= self._settings.stored_most_bytes:
            most = bytes_text(self._settings.stored_most_bytes)
            raise refuse("this server", f"stores at most {most}", "delete runs on History")


_CHECKED = {"name": checked_name, "note": checked_note, "tags": checked_tags, "is_pinned": bool}


class Notebook(Gated):
    """What people added to the runs of a data folder."""

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


class SharedSearches(Gated):
    """The kept searches of a data folder."""

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
