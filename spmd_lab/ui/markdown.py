"""Text as Markdown: the one door through which what others wrote reaches a screen.

No Streamlit here. What the source does not hold word for word goes through `plain`, `coded`, `code`
or `quoted`; `tests/spoken.py` finds what does not.
"""

import re
from collections.abc import Callable
from functools import lru_cache, wraps

from spmd_core.base import visible

# _ - and . between letters and digits are no markup, and a widget's label is read out as written
_SPECIAL = re.compile(
    r"([\\`*{}\[\]()<>#+!|~$:&]|(?<![A-Za-z0-9])[_.\-]|[_.\-](?![A-Za-z0-9])|(?<=:material)/)"
)
_SHORT = 500  # characters of a text whose Markdown is kept
_UNIT = re.compile(r"(?<=\d) (?=(?:[KMGT]i)?B\b|[mµn]?s\b)")
_SPACE = re.compile(r"[^\S\u00a0]+")  # a space that does not break a line stays one
# Streamlit looks for these again after the escapes are read: what makes a link, and the names
# of icons and emoji. As code they stay what they are. No emoji is called as a TPU or a GPU is, or
# by a number but for two, or by a shape of chips: targets and times are left alone.
_LIVE = re.compile(
    r"(?:https?://|www\.)[^\s\u00a0]*|[-.\w+]+@[-\w]+(?:\.[-\w]+)+|:(?!v\d\w*:|tpu\dx:|local:|(?:[ah]|g?b)\d00:|(?!100:|1234:)\d+(?:x\d+)*:)[\w+-]+:",
    re.IGNORECASE,
)


def _kept(read: Callable[[str], str]) -> Callable[[str], str]:
    """`read`, which keeps its answers for short texts: each rerun has the same ones again."""
    cached = lru_cache(maxsize=4096)(read)

    @wraps(read)
    def kept(text: str) -> str:
        return cached(text) if len(text) <= _SHORT else read(text)

    return kept


@_kept
def plain(text: str) -> str:
    """Text as Markdown that shows exactly it: no markup, links, maths or icons out of names that
    others chose. Addresses and names of icons are shown as code, marks that turn the direction of
    reading by their number.

    >>> plain("<b>x_y</b>"), plain("at https://a.b or www.c")
    ('\\\\<b\\\\>x_y\\\\</b\\\\>', 'at `https://a.b` or `www.c`')
    >>> plain("cluster:local:2")
    'cluster\\\\:local\\\\:2'
    """
    return _between(_LIVE, _visible(text))


@_kept
def coded(text: str) -> str:
    """As `plain`, but for what is between backticks, which is shown as code.

    >>> coded("leave `in` as it is")
    'leave `in` as it is'
    """
    parts = _visible(text).split("`")
    if len(parts) % 2 == 0:  # one has no other end
        return plain(text)
    return "".join(
        code(part) if number % 2 else _between(_LIVE, part) for number, part in enumerate(parts)
    )


@_kept
def code(text: str) -> str:
    """Text as code on one line, whatever backticks are in it.

    >>> code("x + y"), code("a`b")
    ('`x + y`', '``a`b``')
    """
    line = _visible(text)
    if not line.strip():
        return line
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    space = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{space}{line}{space}{fence}"


def _between(live: re.Pattern[str], line: str) -> str:
    """A line with its live parts as code, and escapes before what else would be markup."""
    at, parts = 0, []
    for match in live.finditer(line):
        parts += [_SPECIAL.sub(r"\\\1", line[at : match.start()]), code(match[0])]
        at = match.end()
    return "".join([*parts, _SPECIAL.sub(r"\\\1", line[at:])])


def _visible(text: str) -> str:
    """A text on one line, without characters that are not seen but do something."""
    return visible(_SPACE.sub(" ", text).strip())


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


def unbroken(text: str) -> str:
    """Joins numbers to their units with spaces that a narrow column does not break."""
    return _UNIT.sub("\u00a0", text)
