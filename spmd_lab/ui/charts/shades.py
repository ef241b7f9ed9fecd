"""Light colors in which dark labels can be read, on a light page and on a dark one."""

import numpy as np
from numpy.typing import NDArray

_CHROMA = 0.095
_FEW = 16  # up to so many, neighbors also differ in lightness
_LMS = np.array(
    [
        [1, 0.3963377774, 0.2158037573],
        [1, -0.1055613458, -0.0638541728],
        [1, -0.0894841775, -1.291485548],
    ]
)
_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.707614701],
    ]
)


def colors(numbers: NDArray[np.int64], count: int) -> list[str]:
    """A color for each number below `count`, as hex: the hue goes once around, and of a few
    neighbors every second is darker.

    OKLCH to sRGB with the matrices of Björn Ottosson, https://bottosson.github.io/posts/oklab/
    """
    hue = 2 * np.pi * (0.07 + 0.92 * numbers / max(count, 1))
    light = np.where(numbers % 2, 0.76, 0.85) if count <= _FEW else np.full(len(numbers), 0.81)
    linear = np.clip(
        _RGB @ (_LMS @ np.stack([light, _CHROMA * np.cos(hue), _CHROMA * np.sin(hue)])) ** 3, 0, 1
    )
    rgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return [
        f"#{red:02x}{green:02x}{blue:02x}"
        for red, green, blue in np.rint(rgb.T * 255).astype(int).tolist()
    ]
