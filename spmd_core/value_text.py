"""Elements of arrays as text: as many digits as tell them apart in their dtype."""

import numpy as np

_SHORTEST = ("float16", "float32", "float64")  # NumPy prints the fewest digits that give the same number back
_BFLOAT16_DIGITS = 4  # enough for its 8 bits


def value_text(value: float | str | None, dtype: str) -> str:
    """One element as NumPy prints it in that dtype, e.g. `0.5989201` in float32; words such as `nan` as they are.

    >>> value_text(0.59892010688, "float32"), value_text(1.0, "float32"), value_text(7, "int32")
    ('0.5989201', '1.0', '7')
    """
    if not isinstance(value, float):
        return str(value)
    if dtype == "bfloat16":
        return f"{value:.{_BFLOAT16_DIGITS}g}"
    return str(np.dtype(dtype).type(value)) if dtype in _SHORTEST else repr(value)
