"""pmap's rules: which axes it maps, how many devices it takes, what it does with each kind of
argument.
"""

from spmd_core.recipes.recipe import Expected, Recipe, program_spec

GROUP = "pmap's rules"
MATRIX_PRODUCTS = (4.0, 9.0, 12.0, 29.0, 244.0, 345.0, 348.0, 493.0, 1412.0, 1737.0, 1740.0, 2141.0)

RECIPES = (
    Recipe(
        "pmap_squares",
        "A number per device",
        GROUP,
        program_spec("pmap_squares"),
        "Eight squares; and the arguments that pmap has today: global_arg_shapes is no longer one "
        "of them.",
        "pmap maps a function over the leading axis of its arguments, one element per device. It "
        "is the old way: in today's JAX it is itself "
        "written with jit and shard_map, and new programs had better use those.",
        expected=Expected(
            exact={"squares": (0, 1, 4, 9, 16, 25, 36, 49)},
            printed={"backend='cpu'": "[9]"},
            contains={
                "arguments of pmap": (
                    "axis_name",
                    "in_axes",
                    "out_axes",
                    "static_broadcasted_argnums",
                    "devices",
                    "axis_size",
                    "donate_argnums",
                ),
                "global_arg_shapes": (
                    "TypeError",
                    "unexpected keyword argument 'global_arg_shapes'",
                ),
            },
        ),
    ),
    Recipe(
        "pmap_more_rows",
        "More rows than devices",
        GROUP,
        program_spec("pmap_more_rows"),
        "Two errors in JAX's words; then the reshape to (8, 10, 3), and the two answers that "
        "it allows.",
        "The mapped axis must not be longer than there are devices. Old JAX said that so many "
        "logical devices were not available; today the words "
        "are those of the sharding that does not divide, or of the axis that is not one long. "
        "Reshape to a block of rows per device: pmap then "
        "gives one result per block, pmap(vmap) one per row.",
        expected=Expected(
            exact={"a_sum_per_device": (30.0,) * 8, "every_dot_product": (3.0,) * 80},
            shapes={"every_dot_product": (8, 10)},
            printed={"reshaped": "(8, 10, 3)"},
            contains={
                "one row too many": ("Error", "9"),
                "ten times as many": ("Error", "(10, 3)"),
            },
        ),
    ),
    Recipe(
        "pmap_fewer_rows",
        "Fewer rows than devices",
        GROUP,
        program_spec("pmap_fewer_rows"),
        "Three matrix products, on three of the eight devices.",
        "A shorter axis is allowed: pmap takes as many devices as there are elements, the first "
        "ones. The others stay idle, and nothing says so.",
        expected=Expected(
            exact={"products": MATRIX_PRODUCTS},
            shapes={"products": (3, 2, 2)},
            printed={"devices used": "3 of 8"},
        ),
    ),
    Recipe(
        "pmap_in_axes",
        "Which axis is mapped",
        GROUP,
        program_spec("pmap_in_axes"),
        "x + y = [4, 5] and 2y = [8, 8]; columns mapped with in_axes=1; and three ways to get "
        "it wrong.",
        "in_axes has an entry per argument: the axis that is spread over the devices, or None for "
        "an argument that is replicated. "
        "With fewer or more entries than arguments, with no mapped argument at all, or with "
        "mapped axes of different length, pmap refuses.",
        expected=Expected(
            exact={
                "x_plus_y": (4.0, 5.0),
                "two_y": (8.0, 8.0),
                "columns_doubled": (0.0, 4.0, 8.0, 2.0, 6.0, 10.0),
            },
            contains={
                "three entries for two arguments": (
                    "ValueError",
                    "different lengths of tuple",
                    "length 3",
                ),
                "nothing mapped": ("pmap requires at least one argument with a mapped axis",),
                "rows that differ": ("Error", "3"),
            },
        ),
    ),
    Recipe(
        "pmap_add",
        "a + b + c on every device",
        GROUP,
        program_spec("pmap_add"),
        "A row of a and of c on each device, b = 4 everywhere; the jaxpr shows what one device "
        "runs: two additions on 3 numbers.",
        "The identical program goes to all devices, each with its own row. The jaxpr has P('...') "
        "for what is sharded "
        "and P() for what is replicated. The "
        "notebook's rows came from an unseeded generator, so its digits cannot come again; these "
        "are checked against NumPy in float64.",
        expected=Expected(
            shapes={"total": (8, 3)}, contains={"jaxpr": ("shard_map", "P()", "f32[3] = add")}
        ),
    ),
    Recipe(
        "pmap_result",
        "What pmap returns",
        GROUP,
        program_spec("pmap_result"),
        "An ordinary jax.Array; the list says which device holds which row. The sum is on all "
        "eight devices.",
        "ShardedDeviceArray is gone: there is one array type, and its sharding says where the "
        "parts are. That has a consequence: a function that is "
        "not pmapped need no longer pull everything to one device first. jit follows the shards.",
        expected=Expected(
            exact={"rows": (0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0), "total": (280.0,)},
            printed={
                "is a jax.Array": "True",
                "sharding": "NamedSharding over 8 devices",
                "the total lies on": "8 devices",
            },
            contains={
                "ShardedDeviceArray": ("AttributeError",),
                "who holds what": ("device 0: row 0", "device 7: row 7"),
            },
        ),
    ),
    Recipe(
        "pmap_axes_out",
        "Where the axis comes out",
        GROUP,
        program_spec("pmap_axes_out"),
        "Rows, the same as columns with out_axes=1, a single total with out_axes=None; axis_size "
        "only checks.",
        "out_axes puts the mapped axis where you want it. None keeps one device's result, and is "
        "right only where all are equal, as after psum: "
        "JAX does not check it any more. axis_size repeats the length of the mapped axis; a wrong "
        "one is refused, and it cannot stand in for a "
        "mapped argument.",
        expected=Expected(
            exact={
                "rows": (0, 0, 0, 1, 10, 100, 2, 20, 200, 3, 30, 300),
                "columns": (0, 1, 2, 3, 0, 10, 20, 30, 0, 100, 200, 300),
                "one_total": (6.0,),
                "axis_size_4": (1, 2, 3, 4),
            },
            contains={
                "axis_size 4 for a row less": ("axis_size 4 doesn't match received axis_size 3",),
                "axis_size alone": ("at least one argument",),
            },
        ),
    ),
    Recipe(
        "pmap_arguments",
        "Keyword, static and donated",
        GROUP,
        program_spec("pmap_arguments"),
        "A keyword argument is always mapped; a static one becomes part of the program; a donated "
        "one is deleted.",
        "in_axes speaks of positional arguments only: keywords are mapped over their first axis. "
        "Static arguments are compiled in, so they must be "
        "hashable and passed by position: a number, a function. A donated buffer may be reused "
        "for the result; afterwards the array is deleted, and "
        "JAX says so when you touch it.",
        expected=Expected(
            exact={
                "keyword_is_mapped": (10, 11, 12, 13),
                "powers": (0, 1, 8, 27),
                "after_donation": (1, 2, 3, 4),
            },
            values={"sines": (0.0, 0.84147096, 0.9092974, 0.14112)},
            tolerance=2e-6,
            printed={"the donated array": "deleted"},
            contains={
                "a list is not hashable": ("ValueError", "Non-hashable"),
                "the static argument left out": ("only 1 positional argument",),
                "a word that is not static": ("TypeError", "'str'"),
                "using it again": ("RuntimeError", "deleted"),
            },
        ),
    ),
    Recipe(
        "pmap_subsets",
        "Six devices and two",
        GROUP,
        program_spec("pmap_subsets"),
        "Shares of 0 … 5 from six devices, 13 and 13 from the other two; no device in common.",
        "The argument devices says where a pmap runs. Two pmaps on disjoint devices do not wait "
        "for each other. A device named twice is an error "
        "still, though the words have become those of an inner check.",
        expected=Expected(
            values={"shares": (0, 1 / 15, 2 / 15, 0.2, 4 / 15, 1 / 3)},
            exact={"sum_of_squares": (13.0, 13.0)},
            tolerance=2e-6,
            printed={"devices in common": "0"},
            contains={"one device named twice": ("ValueError",)},
        ),
    ),
    Recipe(
        "pmap_psum",
        "Divided by the sum of all",
        GROUP,
        program_spec("pmap_psum"),
        "0, 0.16666667, 0.33333334 and 0.5, which sum to 1. A name that is not a text is refused.",
        "psum adds over the mapped axis, which axis_name names: the devices talk to each other. "
        "Documentation has long allowed any hashable object "
        "as that name. Since pmap is built on shard_map only a text works: a number is taken for "
        "a position, a tuple for several axes.",
        expected=Expected(
            exact={"shares": (0.0, 0.16666667, 0.33333334, 0.5), "total": (1.0,)},
            contains={"a number as the name": ("Error",), "a tuple as the name": ("Error",)},
        ),
    ),
    Recipe(
        "pmap_nested",
        "Rows, columns, and both",
        GROUP,
        program_spec("pmap_nested", {"rows": 4, "cols": 2}),
        "The error of pmap in pmap; then the shares by shard_map over a 4x2 mesh: rows, columns "
        "and everything sum to 1.",
        "Two nested pmaps with two axis names were the way to a grid of devices. Today the inner "
        "one finds itself inside another mesh and refuses. A "
        "mesh of two axes says the same directly: psum over 'rows', over 'cols', or over both. "
        "pmap(vmap) works as well, and uses four devices.",
        expected=Expected(
            values={
                "row_normed": (0, 1 / 16, 1 / 6, 3 / 16, 1 / 3, 5 / 16, 1 / 2, 7 / 16),
                "col_normed": (0, 1, 2 / 5, 3 / 5, 4 / 9, 5 / 9, 6 / 13, 7 / 13),
                "doubly_normed": tuple(n / 28 for n in range(8)),
                "row_normed_sums": (1, 1),
                "col_normed_sums": (1, 1, 1, 1),
                "doubly_normed_sum": (1,),
            },
            tolerance=2e-6,
            printed={"pmap(vmap) agrees": "True"},
            contains={"pmap in pmap": ("ValueError", "context mesh", "'cols': 2")},
        ),
    ),
)
