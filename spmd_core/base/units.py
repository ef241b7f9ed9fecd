"""Sizes, durations and values of arrays as text."""

import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from spmd_core.base.errors import refuse, shorten

_BYTE_STEPS = tuple(
    (2.0 ** (10 * step), f"{prefix}iB")
    for step, prefix in zip(range(6, 0, -1), "EPTGMK", strict=True)
)
_FULL = 999.95 / 1024  # of a unit, above a thousand of the one below: `1.0 GiB`, no `1,000.0 MiB`
_DECIMAL_STEPS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_PLURALS = ((r"xis$", "xes"), (r"(ch|sh|s|x)$", r"\1es"), (r"([^aeiou])y$", r"\1ies"))
_SECOND_STEPS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_UNITS = {
    name: step
    for step, name in (
        *_BYTE_STEPS,
        *_SECOND_STEPS,
        *((step, f"{prefix}FLOP") for step, prefix in _DECIMAL_STEPS),
    )
}
_APART = 100  # times: quantities further apart have a unit each


def bytes_text(count: float | None, like: float | None = None) -> str:
    """Bytes in binary units, e.g. `3.0 MiB`, those of `like` where that is given; an en dash where
    nothing was measured.

    >>> bytes_text(1000 * 2**20), bytes_text(999 * 2**20), bytes_text(1000)
    ('1.0 GiB', '999.0 MiB', '1,000 B')
    >>> bytes_text(2**40, 2**31)
    '1,024.0 GiB'
    """
    if count is None:
        return "–"
    for step, name in _BYTE_STEPS:
        if abs(count if like is None else like) >= (step if name == "KiB" else _FULL * step):
            return f"{count / step:,.1f} {name}"
    return f"{count:,.0f} B"


def bytes_change(was: float, now: float) -> str:
    """Returns bytes as a change, in one unit; both with three digits where some have as many, and are
    below ten.

    >>> bytes_change(2.32 * 2**30, 1.48 * 2**30), bytes_change(2 * 2**30, 1.5 * 2**30)
    ('2.32 → 1.48 GiB', '2.0 → 1.5 GiB')
    """
    unit = bytes_text(max(was, now)).rpartition(" ")[2]
    step = next((step for step, name in _BYTE_STEPS if name == unit), 1)
    ends = was / step, now / step
    precise = [f"{end:.2f} {unit}" for end in ends]
    is_even = all(each.endswith(f"0 {unit}") for each in precise)
    if step > 1 and max(ends) < 10 and not is_even and len({*precise}) > 1:
        return change_text(*precise)
    return in_one_unit(was, now, bytes_text)


def about_bytes(count: float) -> str:
    """Bytes with two significant digits, where more would not be true; a whole number as it is.

    >>> about_bytes(492_200)
    'about 480 KiB'
    """
    step, name = next((each for each in _BYTE_STEPS if count >= each[0]), (1, "B"))
    value = count / step
    return f"about {value if value.is_integer() else float(f'{value:.2g}'):,g} {name}"


_SIZE = re.compile(r"(\d[\d,]*(?:\.\d*)?)\s*(?:([kmgtpe])(i?))?b?", re.IGNORECASE)


def read_bytes(text: str) -> int:
    """Returns a size in bytes; RequestError for what is none.

    >>> read_bytes("64 MiB"), read_bytes("1.5GB"), read_bytes("4096")
    (67108864, 1500000000, 4096)
    """
    if (known := _SIZE.fullmatch(text.strip()[:40])) is None:
        raise refuse(f"size {shorten(text, 40)}", "is no number of bytes", "use for example 64 MiB")
    number, prefix, binary = known.groups()
    power = "kmgtpe".index(prefix.lower()) + 1 if prefix else 0
    return round(float(number.replace(",", "")) * (1024 if binary else 1000) ** power)


def seconds_text(seconds: float | None) -> str:
    """A duration with three significant digits, e.g. `12.3 µs`; an en dash where nothing was
    measured.
    """
    if seconds is None:
        return "–"
    for step, name in _SECOND_STEPS:
        if abs(seconds) >= step:
            return f"{number_text(seconds / step)} {name}"
    # less is what sums of seconds leave
    return f"{seconds * 1e9:.3g} ns" if abs(seconds) >= 1e-12 else "0 s"


def span_text(low: float, high: float) -> str:
    """Returns two durations with three digits each, zeros too.

    >>> span_text(7.3, 9.18), span_text(0.0089, 0.12), span_text(9.96, 120.4)
    ('7.30 to 9.18 s', '8.90 to 120 ms', '9.96 to 120 s')
    """
    return between(even_seconds(low), even_seconds(high))


def change_text(was: str, now: str) -> str:
    """Returns two quantities as a change, their unit once; one of them where they are alike.

    >>> change_text("12.6 GiB", "6.1 GiB"), change_text("1.2 s", "800 ms"), change_text("3", "3")
    ('12.6 → 6.1 GiB', '1.2 s → 800 ms', '3')
    """
    return between(was, now, " → ")


def in_one_unit(was: float, now: float, text: Callable[[float], str]) -> str:
    """Returns two quantities as a change, both in the unit of the larger; each in its own where they
    are over 100 times apart.

    >>> in_one_unit(2.8 * 2**30, 708.5 * 2**20, bytes_text), in_one_unit(2**40, 2**20, bytes_text)
    ('2.8 → 0.69 GiB', '1.0 TiB → 1.0 MiB')
    >>> in_one_unit(0.0262, 0.00967, seconds_text), in_one_unit(1.2, 0.8, seconds_text)
    ('26.2 → 9.67 ms', '1.2 → 0.8 s')
    >>> in_one_unit(0.0043, 0.00421, seconds_text)
    '4.30 → 4.21 ms'
    """
    if text is seconds_text:
        text = seconds_like(was, now)
    large, small = max(was, now), min(was, now)
    unit = text(large).rpartition(" ")[2]
    if small * _APART < large or text(small).endswith(f" {unit}"):
        return change_text(text(was), text(now))
    scaled = small / _UNITS.get(unit, 1.0)
    less = f"{f'{scaled:#.3g}' if text is even_seconds else f'{scaled:.2g}'} {unit}"
    return change_text(*(text(each) if each == large else less for each in (was, now)))


def between(low: str, high: str, by: str = " to ") -> str:
    """Returns the ends of a range of quantities, their unit once; one of them where they are alike.

    >>> between("20.1 days", "25.3 days"), between("1 s", "1 s")
    ('20.1 to 25.3 days', '1 s')
    """
    value, _, unit = low.rpartition(" ")
    first = value if unit == high.rpartition(" ")[2] and value else low
    return low if low == high else f"{first}{by}{high}"


def even_seconds(seconds: float | None) -> str:
    """A duration with three digits, zeros too, to stand beside others.

    >>> even_seconds(2.4), even_seconds(0.0)
    ('2.40 s', '0 s')
    """
    number, space, name = seconds_text(seconds).partition(" ")
    missing = 3 - len(number.lstrip("0.").replace(".", ""))
    if missing > 0 and name and number != "0":
        number += "." * ("." not in number) + "0" * missing
    return f"{number}{space}{name}"


def seconds_like(*each_s: float) -> Callable[[float], str]:
    """Returns what words durations that stand beside each other: with three digits, zeros too, where one
    of them has as many.
    """
    digits = [re.sub(r"^[0.]+|[^0-9]", "", seconds_text(each)).rstrip("0") for each in each_s]
    most = max(map(len, digits))
    return even_seconds if most > 2 else seconds_text


def scaled_text(value: float, unit: str) -> str:
    """A number with a decimal prefix and three significant digits.

    >>> scaled_text(17_200_840_704, "FLOP"), scaled_text(512, "FLOP")
    ('17.2 GFLOP', '512 FLOP')
    """
    for step, prefix in _DECIMAL_STEPS:
        if abs(value) >= step:
            return f"{number_text(value / step)} {prefix}{unit}"
    return f"{number_text(value)} {unit}"


def number_text(value: float) -> str:
    """Three significant digits, large numbers as integers with thousands separators, e.g. `0.0123`,
    `1.5`, `2,595`.
    """
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def three_digits(value: float) -> str:
    """Returns a number with three significant digits, zeros too.

    >>> three_digits(4.6), three_digits(67), three_digits(1234.5)
    ('4.60', '67.0', '1,234')
    """
    return number_text(value) if abs(value) >= 99.95 else f"{value:#.3g}"


def numbered(value: float, word: str) -> str:
    """Returns a number with three digits, or an integer with all of them, and its word.

    >>> numbered(22.71, "day"), numbered(1.0, "hour"), numbered(1200, "match"), numbered(2, "axis")
    ('22.7 days', '1 hour', '1,200 matches', '2 axes')
    """
    text = number_text(value)
    return f"{text} {word if text == '1' else plural(word)}"


def agreed(count: int, verb: str) -> str:
    """Returns a verb in the number of its subject.

    >>> agreed(1, "is"), agreed(3, "is"), agreed(3, "has")
    ('is', 'are', 'have')
    """
    return verb if count == 1 else {"is": "are", "has": "have"}[verb]


def plural(word: str) -> str:
    """Returns the plural of a noun.

    >>> [plural(word) for word in ("entry", "day", "process", "axis", "search")]
    ['entries', 'days', 'processes', 'axes', 'searches']
    """
    endings = (re.sub(pattern, ending, word) for pattern, ending in _PLURALS)
    return next((each for each in endings if each != word), f"{word}s")


def mesh_text(mesh: Mapping[str, int] | Iterable[tuple[str, int]], separator: str = ", ") -> str:
    """Mesh axes and their sizes.

    >>> mesh_text({"x": 2, "y": 4}), mesh_text((("fsdp", 16), ("tensor", 4)), ",")
    ('x=2, y=4', 'fsdp=16,tensor=4')
    """
    axes = mesh.items() if isinstance(mesh, Mapping) else mesh
    return separator.join(f"{name}={size}" for name, size in axes)


def count_text(count: int) -> str:
    """An integer with thousands separators, e.g. `4,096`."""
    return f"{count:,}"


def ordinal_text(number: int) -> str:
    """An ordinal number.

    >>> [ordinal_text(number) for number in (2, 3, 8, 11, 21)]
    ['2nd', '3rd', '8th', '11th', '21st']
    """
    teen = number // 10 % 10 == 1
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def suffixed_sizes(text: str) -> tuple[int, int] | None:
    """The binary and the decimal value of a text such as `64k`; None unless it is a number with a
    suffix.

    >>> suffixed_sizes("64k"), suffixed_sizes("1.5M"), suffixed_sizes("64")
    ((65536, 64000), (1572864, 1500000), None)
    """
    match = _SUFFIXED.fullmatch(text.strip())
    if match is None:
        return None
    number, power = float(match[1]), "kmg".index(match[2].lower()) + 1
    return int(number * 1024**power), int(number * 1000**power)


_SUFFIXED = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([kKmMgG])i?")
_BFLOAT16_DIGITS = 4  # enough for its 8 bits
# NumPy prints the fewest digits that round-trip
_SHORTEST = ("float16", "float32", "float64")


def value_text(value: float | str | None, dtype: str) -> str:
    """One element as NumPy prints it in that dtype, e.g. `0.5989201` in float32; words such as
    `nan` are unchanged.

    >>> value_text(0.59892010688, "float32"), value_text(1.0, "float32"), value_text(7, "int32")
    ('0.5989201', '1.0', '7')
    """
    if not isinstance(value, float):
        return str(value)
    if dtype == "bfloat16":
        return f"{value:.{_BFLOAT16_DIGITS}g}"
    return str(np.dtype(dtype).type(value)) if dtype in _SHORTEST else repr(value)
