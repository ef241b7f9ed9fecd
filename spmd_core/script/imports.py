"""The text of a Python program: its imports merged, its blank lines set."""

from collections.abc import Iterable

_STARTS = ("def ", "class ", "@")


def spaced(lines: Iterable[str]) -> list[str]:
    """Puts two blank lines around top-level definitions, at most one elsewhere and none at the
    start; leaves the inside of definitions unchanged.
    """
    spaced_lines: list[str] = []
    blanks, inside, decorated = 0, False, False
    for line in lines:
        if not line.strip():
            blanks += 1
            continue
        at_top = not line.startswith((" ", ")", "]", "}", "#"))
        starts = at_top and line.startswith(_STARTS)
        if not spaced_lines:
            blanks = 0
        elif at_top and not decorated and (starts or inside):
            blanks = 2
        elif at_top:
            blanks = min(blanks, 1)
        spaced_lines += [""] * (0 if decorated else blanks) + [line]
        inside = starts or (inside and not at_top)
        decorated = starts and line.startswith("@")
        blanks = 0
    return spaced_lines
