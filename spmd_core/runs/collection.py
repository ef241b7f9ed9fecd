"""What people add to stored runs: a name, a note, tags, a pin; and a collection, an ordered page of runs,
searches and text. Its changes are pure functions of what is stored now, so that two people edit one
without undoing each other.
"""

import re
import secrets
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from spmd_core.base import RequestError, bytes_text, refuse, shorten

MOST_NAME, MOST_TAG, MOST_TAGS = 120, 40, 20  # characters, characters, tags of one run
MOST_NOTE_BYTES = 64 * 2**10
_CONTROL = ("Cc", "Cs")  # Unicode categories of what is no character of a text


@dataclass(frozen=True, slots=True)
class Labels:
    """What people added to a run. All of it is foreign text: shown plain."""

    name: str = ""
    note: str = ""
    tags: tuple[str, ...] = ()
    is_pinned: bool = False

    def to_json(self) -> dict[str, object]:
        """The fields as `history --json` prints them."""
        return {
            "name": self.name,
            "note": self.note,
            "tags": list(self.tags),
            "pinned": self.is_pinned,
        }


NO_LABELS = Labels()


EXAMPLES = "examples"  # the installation that results are from which came with the program


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a foreign run is from: the installation (a random mark, no host name) that exported it,
    and when it was imported here, in seconds since the epoch.
    """

    installation: str
    imported_at: float

    @property
    def is_example(self) -> bool:
        """True of what came with the program."""
        return self.installation == EXAMPLES


def checked_name(text: str) -> str:
    """A name as it is stored: one line. RequestError where it is too long."""
    line = " ".join(_characters("name", text).split())
    if len(line) > MOST_NAME:
        rule = f"has {len(line):,} characters, and a name may have {MOST_NAME}"
        raise refuse(f"name {shorten(line, 40)}", rule, "put the rest into the note")
    return line


def checked_note(text: str) -> str:
    """A note as it is stored. RequestError where it is too long."""
    size = len(text.encode(errors="replace"))
    if size > MOST_NOTE_BYTES:
        rule = f"is longer than a note may be, {bytes_text(MOST_NOTE_BYTES)}"
        raise refuse(f"a note of {bytes_text(size)}", rule, "keep the rest in a file of its own")
    return _characters("note", text.replace("\r\n", "\n")).strip()


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags as they are stored: each once, in the order given. RequestError where one is none."""
    kept: dict[str, str] = {}
    for tag in tags:
        word = _characters("tag", tag).removeprefix("#")
        if not word or len(word) > MOST_TAG or any(each.isspace() or each == "," for each in word):
            rule = f"is not one word of 1 to {MOST_TAG} characters without commas"
            raise refuse(f"tag {shorten(tag, 40)}", rule, "use a word such as v5p or baseline")
        kept[word.casefold()] = word
    if len(kept) > MOST_TAGS:
        rule = f"are more than the {MOST_TAGS} that a run may have"
        raise refuse(f"{len(kept)} tags", rule, "remove some, or write them into the note")
    return tuple(kept.values())


def _characters(what: str, text: str) -> str:
    """The text; RequestError where it has what is no character. A tab or a new line is one."""
    for each in text:
        if unicodedata.category(each) in _CONTROL and each not in "\t\n":
            rule = f"has the character U+{ord(each):04X}, which is not shown"
            raise refuse(f"{what} {shorten(text, 40)}", rule, "leave that out")
    return text


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
            raise changed_meanwhile(f"the text {item}", now.text)
        after = replace(now, text=text).checked()
        return replace(self, items=(*self.items[:at], after, *self.items[at + 1 :]))

    def retitled(self, title: str, was: str | None = None) -> "Collection":
        """Returns it with another title. `was`: the title that the editor saw; RequestError where
        it has changed since.
        """
        if was is not None and self.title != was:
            raise changed_meanwhile(f"the title of collection {self.id}", self.title)
        return replace(self, title=checked_title(title))

    def _place(self, item: str) -> int:
        for at, each in enumerate(self.items):
            if each.id == item:
                return at
        rule = "is not in this collection any more: somebody else has removed it"
        raise refuse(f"part {shorten(item)}", rule, "look at the collection again")


def changed_meanwhile(what: str, now: object) -> RequestError:
    """Returns the refusal of an edit of what another person has changed, to `now`."""
    rule = f"was changed by somebody else meanwhile, to {shorten(now or 'nothing', 40)}"
    return refuse(what, rule, "read it, and edit that")


def checked_title(text: str) -> str:
    """A title as it is stored; RequestError where it is empty or too long."""
    title = checked_name(text)
    if not title:
        raise refuse("a collection", "needs a title", "write what it is about")
    return title
