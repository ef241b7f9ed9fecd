"""What people add to a stored run: a name, a note, tags, a pin; and where a foreign run is from."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from spmd_core.base import bytes_text, refuse, shorten

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
