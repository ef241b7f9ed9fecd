"""The verdict on two estimates whose intervals meet: about even, or cannot tell."""

ABOUT_EVEN, CANNOT_TELL = "about even", "cannot tell"
# Estimates further apart than this are not alike, though intervals that meet leave their order open
_MOST_ALIKE = 1.1


def mark_of(one: float, other: float) -> str:
    """Returns the verdict on two estimates whose intervals meet.

    >>> mark_of(2.0, 2.1), mark_of(5.0, 2.0)
    ('about even', 'cannot tell')
    """
    least, most = sorted((one, other))
    return CANNOT_TELL if most > _MOST_ALIKE * least else ABOUT_EVEN


def apart_words(one: float, other: float) -> str:
    """Returns the share of the smaller of two estimates by which the other is more, as `1.23× as long`
    has it.

    >>> apart_words(87.8, 108), apart_words(2.0, 2.01), apart_words(1.0, 4.0)
    ('23% apart', '0.5% apart', '4× apart')
    """
    least, most = sorted((one, other))
    more = most / least - 1 if least else 0.0
    if more >= 1:
        return f"{more + 1:.3g}× apart"
    return f"{more:{'.0%' if more >= 0.01 else '.1%'}} apart"


def even_words(mark: str, other: str) -> str:
    """Returns a verdict of `mark_of` with what stands beside it.

    >>> even_words("about even", "v5p"), even_words("cannot tell", "v5p")
    ('about even with v5p', 'cannot tell from v5p')
    """
    return f"{mark} {'with' if mark == ABOUT_EVEN else 'from'} {other}"
