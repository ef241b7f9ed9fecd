"""The signature of a custom call: the types that it reads and writes, by the dims that they share."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Attributes = Mapping[str, tuple[str, Sequence[int]]]  # by name: a type, and what it may be
Sizes = Mapping[str, int]  # dim, or attribute, by name -> its number
DTYPES = ("f32", "f64", "complex<f32>", "complex<f64>")
_DIM = re.compile(r"([a-z]+)(?:-(\d))?")
_ARRAY = re.compile(r"([A-Zi])(?:\[([^\]]*)\]|(!))")


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The type of an operand or result: sizes of dynamic dims are None."""

    dtype: str
    sizes: tuple[int | None, ...]

    def __str__(self) -> str:
        sizes = ",".join("?" if size is None else str(size) for size in self.sizes)
        return f"{self.dtype}[{sizes}]"


@dataclass(frozen=True, slots=True)
class Pattern:
    """An array of a signature: `T`, its real type `R`, its complex type `C`, int32 `i` or uint32
    `U`, and dims by name after the dims of the batch, which a scalar `T!` does not have.
    """

    dtype: str
    dims: tuple[tuple[str, int], ...]  # name and what is subtracted from it
    is_batched: bool = True

    @classmethod
    def of(cls, text: str) -> "tuple[Pattern, ...]":
        """The patterns of a text such as `T[m,n] R[n-1] i[]`."""
        return tuple(
            cls(
                letter, tuple((name, int(less or 0)) for name, less in _DIM.findall(dims)), not bare
            )
            for letter, dims, bare in _ARRAY.findall(text)
        )


@dataclass(frozen=True, slots=True)
class Signature:
    """What a custom call reads and writes.

    `dtypes` are those that T may be. `attributes` are by name: the type of its number, and the numbers
    that it may be. `aliases`: operand -> the result that may share its buffer. `holds` relates
    sizes and attributes; `p` is the smaller of `m` and `n`.
    """

    operands: tuple[Pattern, ...]
    results: tuple[Pattern, ...]
    dtypes: tuple[str, ...] = DTYPES
    aliases: Mapping[int, int] = field(default_factory=dict)
    attributes: Attributes = field(default_factory=dict)
    holds: Callable[[Sizes], bool] = lambda sizes: True
    is_ffi: bool = True
    is_column_major: Callable[[Sizes], bool] = lambda sizes: True
    config: str = ""  # regular expression of `backend_config`, of a call that is none of the FFI

    def misfit(
        self,
        operands: Sequence[ArrayType],
        results: Sequence[ArrayType],
        attributes: Mapping[str, int],
    ) -> str | None:
        """Returns the mismatch of a call, to follow its name; None if all of it matches."""
        counts = [(len(operands), len(self.operands)), (len(results), len(self.results))]
        for kind, (count, expected) in zip(("operands", "results"), counts, strict=True):
            if count != expected:
                return f"has {count} {kind}, not {expected}"
        if operands[0].dtype not in self.dtypes and self.operands[0].dtype == "T":
            return f"has an operand of {operands[0].dtype}, not {' or '.join(self.dtypes)}"
        rank = len(operands[0].sizes) - len(self.operands[0].dims)
        if rank < 0:
            return f"has operand {operands[0]}, of too few dims"
        sizes: dict[str, int | None] = dict(attributes)
        batch = operands[0].sizes[:rank]
        for kind, given, patterns in (
            ("operand", operands, self.operands),
            ("result", results, self.results),
        ):
            for at, (array, pattern) in enumerate(zip(given, patterns, strict=True)):
                expected_type = _expected(pattern, array, batch, operands[0].dtype, sizes)
                if not _matches(array, expected_type):
                    return f"has {kind} {at} of type {array}, not {expected_type}"
        known = {name: size for name, size in sizes.items() if size is not None}
        if len(known) < len(sizes) or self.holds(known):
            return None
        return f"has sizes {', '.join(f'{name}={size}' for name, size in known.items())}"


def _expected(
    pattern: Pattern,
    array: ArrayType,
    batch: tuple[int | None, ...],
    of: str,
    sizes: dict[str, int | None],
) -> ArrayType:
    """The type of an array of a call whose first operand has dtype `of`; sizes that no array before
    gave are taken from this one.
    """
    start = len(batch) if pattern.is_batched else 0
    if len(array.sizes) == start + len(pattern.dims):
        for (name, _), size in zip(pattern.dims, array.sizes[start:], strict=True):
            sizes[name] = size if sizes.get(name) is None else sizes[name]
    if (rows := sizes.get("m")) is not None and (columns := sizes.get("n")) is not None:
        sizes["p"] = min(rows, columns)
    dims = tuple(
        None if (size := sizes.get(name)) is None else size - less for name, less in pattern.dims
    )
    real = of.removeprefix("complex<").removesuffix(">")
    dtypes = {"T": of, "R": real, "C": f"complex<{real}>", "i": "i32", "U": "ui32"}
    return ArrayType(dtypes[pattern.dtype], (*batch[:start], *dims))


def _matches(array: ArrayType, expected: ArrayType) -> bool:
    return (
        array.dtype == expected.dtype
        and len(array.sizes) == len(expected.sizes)
        and all(
            None in pair or pair[0] == pair[1]
            for pair in zip(array.sizes, expected.sizes, strict=True)
        )
    )
