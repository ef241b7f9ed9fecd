"""Multiple processes: each runs the same program on its own devices, and collectives span all of
them.
"""

from spmd_core.recipes.recipe import Expected, Recipe, program_spec

GROUP = "Many processes"

RECIPES = (
    Recipe(
        "two_processes",
        "Two processes of four devices",
        GROUP,
        program_spec("two_processes"),
        "28 … 31 in the first process and 32 … 35 in the second: the sum 28 is over all eight "
        "devices.",
        "On a TPU pod each host runs its own process and sees its own devices; jax.distributed "
        "joins them. Here two processes with four simulated "
        "devices each meet on this machine. Each passes four numbers to pmap; psum adds all "
        "eight. The program starts both, waits for them for at "
        "most a minute, and ends them.",
        expected=Expected(
            exact={
                "process_0": (28, 29, 30, 31),
                "process_1": (32, 33, 34, 35),
                "together": tuple(range(28, 36)),
            },
            printed={"devices": "8 in all, 4 of each process"},
        ),
        takes="5 to 20 seconds: two more processes start JAX",
    ),
)
