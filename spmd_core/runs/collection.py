"""A collection: an ordered page of runs, searches and text between them; and its changes, as pure
functions of what is stored now, so that two people edit one without undoing each other.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spmd_core.base import refuse, shorten
from spmd_core.runs.labels import Origin, checked_name, checked_note

TEXT, RUN, SEARCH = KINDS = ("text", "run", "search")
MOST_ITEMS = 200
COLLECTION_ID = re.compile(r"c-[A-Za-z0-9_-]{1,62}")
ITEM_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
_MOST_ABOUT = 2**16  # characters


@dataclass(frozen=True, slots=True)
class CollectionItem:
    """A part of a collection. `text` is Markdown of people, or the id of a run or a search; `about`
    is of a search its question and its answer when it was added, as JSON: searches are forgotten.
    """

    id: str
    kind: str
    text: str
    about: str = ""

    @classmethod
    def new(cls, kind: str, text: str, about: str = "") -> "CollectionItem":
        """An item with an id of its own; RequestError where its text is too long."""
        return cls(secrets.token_hex(4), kind, text, about).checked()

    def checked(self) -> "CollectionItem":
        """The item as it is stored; RequestError where it is none."""
        if (
            self.kind not in KINDS
            or not ITEM_ID.fullmatch(self.id)
            or len(self.about) > _MOST_ABOUT
        ):
            raise refuse(
                f"item {shorten(self.id)}", "is no part of a collection", "export it again"
            )
        if self.kind == TEXT:
            return replace(self, text=checked_note(self.text))
        if not re.fullmatch(r"[\w :=.,*-]{1,128}", self.text):
            raise refuse(f"{self.kind} {shorten(self.text)}", "is no id", "copy all of it")
        return self


@dataclass(frozen=True, slots=True)
class Collection:
    """A page that people made. Moments are in seconds since the epoch."""

    id: str
    title: str
    items: tuple[CollectionItem, ...] = ()
    owner_name: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0
    origin: Origin | None = None

    @property
    def runs(self) -> tuple[str, ...]:
        """Ids of its runs, each once, in its order."""
        return tuple(dict.fromkeys(each.text for each in self.items if each.kind == RUN))

    def to_json(self) -> dict[str, object]:
        """The fields as the command line prints them and archives hold them."""
        return {
            "collection": self.id,
            "title": self.title,
            "owner_name": self.owner_name,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "origin": self.origin and self.origin.installation,
            "items": [
                {"id": each.id, "kind": each.kind, "text": each.text}
                | ({"about": each.about} if each.about else {})
                for each in self.items
            ],
        }

    def with_items(self, items: Sequence[CollectionItem], at: int | None = None) -> "Collection":
        """Returns it with further items, before the one at `at`, else at the end."""
        if len(self.items) + len(items) > MOST_ITEMS:
            rule = f"would have more than {MOST_ITEMS} parts"
            raise refuse(f"collection {self.id}", rule, "begin another one")
        place = len(self.items) if at is None else max(0, at)
        return replace(self, items=(*self.items[:place], *items, *self.items[place:]))

    def without_item(self, item: str) -> "Collection":
        """Returns it without one of its items."""
        at = self._place(item)
        return replace(self, items=self.items[:at] + self.items[at + 1 :])

    def moved(self, item: str, by: int) -> "Collection":
        """Returns it with an item so many places further down, or up where `by` is negative."""
        at = self._place(item)
        rest = self.items[:at] + self.items[at + 1 :]
        to = min(max(0, at + by), len(rest))
        return replace(self, items=(*rest[:to], self.items[at], *rest[to:]))

    def rewritten(self, item: str, text: str, was: str | None = None) -> "Collection":
        """Returns it with another text of a text item. `was`: the text that the editor saw;
        RequestError where somebody else has changed it since.
        """
        at = self._place(item)
        now = self.items[at]
        if now.kind != TEXT:
            raise refuse(f"{now.kind} {now.text}", "is no text", "remove it, and add another one")
        if was is not None and now.text != was:
            rule = (
                f"was changed by somebody else meanwhile, to {shorten(now.text or 'nothing', 40)}"
            )
            raise refuse(f"the text {item}", rule, "read it, and edit that")
        after = replace(now, text=text).checked()
        return replace(self, items=(*self.items[:at], after, *self.items[at + 1 :]))

    def retitled(self, title: str, was: str | None = None) -> "Collection":
        """Returns it with another title. `was`: the title that the editor saw; RequestError where
        it has changed since.
        """
        if was is not None and self.title != was:
            rule = f"was changed by somebody else meanwhile, to {shorten(self.title, 40)}"
            raise refuse(f"the title of collection {self.id}", rule, "read it, and edit that")
        return replace(self, title=checked_title(title))

    def _place(self, item: str) -> int:
        for at, each in enumerate(self.items):
            if each.id == item:
                return at
        rule = "is not in this collection any more: somebody else has removed it"
        raise refuse(f"part {shorten(item)}", rule, "look at the collection again")


def checked_title(text: str) -> str:
    """A title as it is stored; RequestError where it is empty or too long."""
    title = checked_name(text)
    if not title:
        raise refuse("a collection", "needs a title", "write what it is about")
    return title
