"""Random numbers: keys instead of a hidden state, and the same numbers on any number of devices."""

from spmd_core.recipes.recipe import Expected, Recipe, program_spec

GROUP = "Random numbers"
OLD = (
    0.31418657,
    0.8795924,
    0.81679654,
    0.82754505,
    0.78958607,
    0.9006636,
    0.18430483,
    0.2509787,
    0.5041659,
    0.11195123,
)
NEW = (
    0.41076803,
    0.9194921,
    0.94847965,
    0.1201849,
    0.91524196,
    0.93049467,
    0.028580785,
    0.4671359,
    0.94643676,
    0.8678119,
)

RECIPES = (
    Recipe(
        "one_key_twice",
        "One key, twice",
        GROUP,
        program_spec("one_key_twice"),
        "The same number twice from one key; ten different ones from keys split off it.",
        "A generator with a hidden state would make the order of calls matter, and nothing could "
        "be reordered or spread over devices. So JAX takes "
        "the state as an argument, the key. Use each key once: split makes new ones. "
        "jax.random.key makes a key of its own type; the older "
        "PRNGKey, two plain integers, gives the same numbers.",
        expected=Expected(
            exact={"the_same_twice": (0.49067247,) * 2, "ten_from_split_keys": NEW},
            printed={"PRNGKey gives the same": "True"},
        ),
    ),
    Recipe(
        "old_random_numbers",
        "The numbers that old pages print",
        GROUP,
        program_spec("old_random_numbers"),
        "0.02251327, then 0.31418657 … 0.11195123 in the old way; 0.49067247 and other numbers in "
        "today's.",
        "JAX 0.5 changed how a key counts (jax_threefry_partitionable), so that every device can "
        "draw its own part of an array alone. Pages from "
        "before show other numbers for the same key. Inside `with "
        "jax.threefry_partitionable(False)` they come again, digit for digit; outside, "
        "nothing has changed.",
        expected=Expected(
            exact={"old_first": (0.02251327,), "old": OLD, "new_first": (0.49067247,), "new": NEW},
            printed={"jax_threefry_partitionable": "True before, True after"},
        ),
    ),
    Recipe(
        "numbers_over_devices",
        "The same numbers on 1, 2 and 8 devices",
        GROUP,
        program_spec("numbers_over_devices"),
        "32 numbers, bit for bit the same however many devices share the drawing, and no "
        "collective.",
        "Each number depends on the key and on its place in the array, not on who draws it. So a "
        "run can move to another number of devices and go on "
        "with the same random numbers, and no device needs to ask another.",
        expected=Expected(
            shapes={"on_1": (32,), "on_2": (32,), "on_8": (32,)},
            printed={
                "bit for bit": "the same",
                "on 1: collectives": "none",
                "on 2: collectives": "none",
                "on 8: collectives": "none",
            },
        ),
    ),
)
