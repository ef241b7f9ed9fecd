"""vmap: a function for one becomes a function for many."""

from spmd_core.recipes.recipe import Expected, Recipe, program_spec

GROUP = "vmap"
PROBABILITIES = (0.5166595, 0.47125217, 0.50970834)
MIN_MAX = (0, 5, 6, 11, 12, 17, 18, 23)

RECIPES = (
    Recipe(
        "logistic",
        "One prediction, and a batch",
        GROUP,
        program_spec("logistic_vmap"),
        "The TypeError of the one-sample function on a batch; by hand and by vmap the same three "
        "probabilities.",
        "The function for one sample is w · x. On a batch the shapes do not fit; by hand one "
        "exchanges the operands, and has to think about it again "
        "for every function. vmap does it from outside. The notebook drew w and X unseeded: its "
        "0.378, 0.558 and 0.430 cannot come again.",
        expected=Expected(
            values={
                "one_sample": PROBABILITIES[:1],
                "by_hand": PROBABILITIES,
                "vmap": PROBABILITIES,
            },
            tolerance=2e-6,
            contains={"one function on a batch": ("TypeError", "(2,) and (3,)")},
        ),
    ),
    Recipe(
        "min_max",
        "Least and greatest of each",
        GROUP,
        program_spec("min_max_vmap"),
        "[0 5] of one array; [0 23] of the whole batch, which is not what was wanted; [0 5], [6 "
        "11] … of each.",
        "Called on a batch, the function takes all of it: no error, and the wrong answer. vmap "
        "maps it over the first axis. In the jaxpr, the "
        "reduction over axes (0, 1) has become one over (1, 2): no loop, the primitive itself is "
        "batched. jit compiles it on top.",
        expected=Expected(
            exact={
                "one_array": (0, 5),
                "whole_batch": (0, 23),
                "each_of_the_batch": MIN_MAX,
                "jitted": MIN_MAX,
            },
            contains={
                "jaxpr": ("reduce_min", "reduce_max", "i32[2,3]"),
                "jaxpr of vmap": ("reduce_min", "i32[4,2,3]"),
                "jaxpr of jit(vmap)": ("jit[", "name=min_max"),
            },
        ),
    ),
    Recipe(
        "vmap_in_axes",
        "Rows, a number, and columns",
        GROUP,
        program_spec("vmap_in_axes"),
        "[[32 35 38] [36 39 42]]: rows of a, the number 2, columns of c; the jaxpr transposes c.",
        "in_axes=(0, None, 1) maps the first axis of a, nothing of b and the second axis of c. 11 "
        "+ 2 + 22 = 35: the second number of a's first row, "
        "b, and the second number of c's first column.",
        expected=Expected(
            exact={
                "a": (10, 11, 12, 13, 14, 15),
                "c": (20, 21, 22, 23, 24, 25),
                "sum": (32, 35, 38, 36, 39, 42),
            },
            contains={
                "jaxpr": ("transpose[permutation=(1, 0)]",),
                "two entries for three arguments": ("ValueError", "len(in_axes)=2, len(args)=3"),
            },
        ),
    ),
    Recipe(
        "affine",
        "a @ b + c, one, many, everywhere",
        GROUP,
        program_spec("affine_batches"),
        "(2, 4), then (5, 2, 4), then (8, 5, 2, 4): a batch of five on each of eight devices.",
        "vmap adds a batch axis, pmap an axis of devices, and they combine: pmap(vmap(f)) runs a "
        "vectorised program on every device. Each answer is "
        "compared with NumPy in float64. Vary the batch: the shapes follow.",
        expected=Expected(
            shapes={
                "one": (2, 4),
                "vmap": (5, 2, 4),
                "jit(vmap)": (5, 2, 4),
                "pmap(vmap)": (8, 5, 2, 4),
            }
        ),
    ),
)
