"""Characters of a foreign text that are not seen but do something."""

import unicodedata

_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def visible(text: str, keep: str = "") -> str:
    """A text with control characters, and marks that turn the direction of reading, by their
    number, but for those of `keep`.

    >>> visible("a\\u202eb")
    'a\\\\u202eb'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if each in keep else _seen(each) for each in text)


def _seen(character: str) -> str:
    unseen = character in _DIRECTIONS or unicodedata.category(character) in ("Cc", "Cs")
    return f"\\u{ord(character):04x}" if unseen else character
