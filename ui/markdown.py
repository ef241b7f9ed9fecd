"""Text as Markdown; no Streamlit here."""

import re

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&])")


def plain(text: str) -> str:
    """Text as Markdown that shows exactly it: no markup, links, maths or icons out of names that
    others chose.

    >>> plain("<b>x_y</b>")
    '\\\\<b\\\\>x\\\\_y\\\\</b\\\\>'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def coded(text: str) -> str:
    """As `plain`, but for what stands between backticks, which is shown as code.

    >>> coded("leave `in` as it is")
    'leave `in` as it is'
    """
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:  # one has no other end
        return plain(text)
    return "".join(
        f"`{part}`" if number % 2 else _SPECIAL.sub(r"\\\1", part)
        for number, part in enumerate(parts)
    )


def as_sentence(message: str) -> str:
    """A message that follows a sentence: with a capital where it begins with a word, and a full
    stop.

    >>> as_sentence("the worker died"), as_sentence("batch=30 is odd.")
    ('The worker died.', 'batch=30 is odd.')
    """
    text = message.strip()
    first = text.split(" ", 1)[0]
    text = text[0].upper() + text[1:] if first.isalpha() and first.islower() else text
    return text if not text or text[-1] in ".!?:" else f"{text}."
