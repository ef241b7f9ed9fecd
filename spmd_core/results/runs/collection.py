"""A collection: an ordered page of runs, searches and text between them; and its changes, as pure
functions of what is stored now, so that two people edit one without undoing each other.
"""

import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spmd_core.base import refuse, shorten
from spmd_core.results.runs.labels import Origin, checked_name, checked_note

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


def new_collection_id() -> str:
    """An id that no other collection has."""
    return f"c-{time.strftime('%Y%m%d')}-{secrets.token_hex(4)}"


def new_item(kind: str, text: str, about: str = "") -> CollectionItem:
    """An item with an id of its own; RequestError where its text is too long."""
    return checked_item(CollectionItem(secrets.token_hex(4), kind, text, about))


def checked_item(item: CollectionItem) -> CollectionItem:
    """An item as it is stored; RequestError where it is none."""
    if item.kind not in KINDS or not ITEM_ID.fullmatch(item.id) or len(item.about) > _MOST_ABOUT:
        raise refuse(f"item {shorten(item.id)}", "is no part of a collection", "export it again")
    if item.kind == TEXT:
        return replace(item, text=checked_note(item.text))
    if not re.fullmatch(r"[\w :=.,*-]{1,128}", item.text):
        raise refuse(f"{item.kind} {shorten(item.text)}", "is no id", "copy all of it")
    return item


def checked_title(text: str) -> str:
    """A title as it is stored; RequestError where it is empty or too long."""
    title = checked_name(text)
    if not title:
        raise refuse("a collection", "needs a title", "write what it is about")
    return title


def with_items(
    of: Collection, items: Sequence[CollectionItem], at: int | None = None
) -> Collection:
    """With further items, before the one at `at`, else at the end."""
    if len(of.items) + len(items) > MOST_ITEMS:
        rule = f"would have more than {MOST_ITEMS} parts"
        raise refuse(f"collection {of.id}", rule, "begin another one")
    place = len(of.items) if at is None else max(0, at)
    return replace(of, items=(*of.items[:place], *items, *of.items[place:]))


def without_item(of: Collection, item: str) -> Collection:
    """Without one of its items."""
    at = _place(of, item)
    return replace(of, items=of.items[:at] + of.items[at + 1 :])


def moved(of: Collection, item: str, by: int) -> Collection:
    """With an item so many places further down, or up where `by` is negative."""
    at = _place(of, item)
    rest = of.items[:at] + of.items[at + 1 :]
    to = min(max(0, at + by), len(rest))
    return replace(of, items=(*rest[:to], of.items[at], *rest[to:]))


def rewritten(of: Collection, item: str, text: str, was: str | None = None) -> Collection:
    """With another text of a text item. `was`: what the editor saw; RequestError where somebody
    else has changed it since.
    """
    at = _place(of, item)
    now = of.items[at]
    if now.kind != TEXT:
        raise refuse(f"{now.kind} {now.text}", "is no text", "remove it, and add another one")
    if was is not None and now.text != was:
        rule = f"was changed by somebody else meanwhile, to {shorten(now.text or 'nothing', 40)}"
        raise refuse(f"the text {item}", rule, "read it, and edit that")
    after = checked_item(replace(now, text=text))
    return replace(of, items=(*of.items[:at], after, *of.items[at + 1 :]))


def retitled(of: Collection, title: str, was: str | None = None) -> Collection:
    """With another title. `was`: what the editor saw; RequestError where it has changed since."""
    if was is not None and of.title != was:
        rule = f"was changed by somebody else meanwhile, to {shorten(of.title, 40)}"
        raise refuse(f"the title of collection {of.id}", rule, "read it, and edit that")
    return replace(of, title=checked_title(title))


def _place(of: Collection, item: str) -> int:
    for at, each in enumerate(of.items):
        if each.id == item:
            return at
    rule = "is not in this collection any more: somebody else has removed it"
    raise refuse(f"part {shorten(item)}", rule, "look at the collection again")
