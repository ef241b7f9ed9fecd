"""A convolution of rows on different devices."""

from spmd_core.recipes.recipe import Expected, Recipe, program_spec

GROUP = "Convolution"
PLAIN = tuple(float(45 * row + 9 * column + 11) for row in range(8) for column in range(3))
COLUMN_TOTALS = (1348.0, 1420.0, 1492.0)

RECIPES = (
    Recipe(
        "convolve",
        "A row per device, convolved",
        GROUP,
        program_spec("convolve_rows"),
        "plain: 11, 20, 29 in the first row and 45 more in each next. normalized: every column "
        "sums to 1.",
        "Rows do not need each other, so pmap convolves them without communication; the weights "
        "are stacked once per device, or passed once with "
        "in_axes=(0, None). Dividing by the sum over all rows takes a psum: the smallest example "
        "of devices that talk while they compute, and the "
        "pattern of a gradient averaged over devices. The notebook leaves convolve empty; this is "
        "what it was going to be.",
        expected=Expected(
            exact={
                "xs": tuple(range(40)),
                "ws": (2.0, 3.0, 4.0) * 8,
                "plain": PLAIN,
                "two_stacked_rows": (1.0, 2.0, 3.0) * 2,
            },
            values={
                "normalized": tuple(
                    value / COLUMN_TOTALS[place % 3] for place, value in enumerate(PLAIN)
                ),
                "normalized_sums": (1, 1, 1),
            },
            tolerance=2e-6,
            printed={"one copy of w, in_axes (0, None)": "the same"},
        ),
    ),
)
