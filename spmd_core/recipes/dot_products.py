"""vmap against pmap, on dot products: values, programs and times of the six ways to combine them
with jit.
"""

from spmd_core.recipes.recipe import Expected, Recipe, program_spec

GROUP = "vmap against pmap"
# Key 42 with jax_threefry_partitionable=False, as a CPU computes it.
OLD = (0.5104904, -0.7174592, -0.20105885, -0.2643729, -1.3696806, 2.744759, 1.793656, -1.1743557)
NEW = (
    0.16187824,
    0.21840435,
    -1.3397005,
    0.17735793,
    0.9353221,
    -0.85470366,
    0.25243354,
    0.81216115,
)
WAYS = ("vmap", "pmap", "pmap(vmap)", "jit(vmap)", "jit(pmap)", "pmap(jit)")

RECIPES = (
    Recipe(
        "vdot",
        "One dot product",
        GROUP,
        program_spec("vdot_of_ones"),
        "The value 3, of type jax.Array; the name DeviceArray is gone.",
        "The function that the rest of this group maps: two vectors of three in, one number out. "
        "Old pages print the result as DeviceArray; "
        "since JAX 0.4 there is one type, jax.Array, for arrays on one device and on many.",
        expected=Expected(
            exact={"dot": (3.0,)},
            printed={"repr": "Array(3., dtype=float32)", "is a jax.Array": "True"},
            contains={"jnp.DeviceArray": ("AttributeError",)},
        ),
    ),
    Recipe(
        "six_ways",
        "Eight dot products, six ways",
        GROUP,
        program_spec("six_ways"),
        "The same eight values six times. Only pmap(vmap) has another shape, (8, 1): it takes a "
        "block of rows per device.",
        "vmap turns the function into one that handles all rows at once, on one device; pmap runs "
        "it on every device, a row on each. jit around or "
        "inside changes the program, not the answer. The rows come from key 42 as it counted "
        "before JAX 0.5; the old page's TPU prints "
        "0.51048726 … -1.1743435, up to 4e-5 away from these, most likely since it rounds inside "
        "random.normal otherwise than a CPU. The last "
        "array is what key 42 gives today.",
        expected=Expected(
            values=dict.fromkeys(WAYS, OLD) | {"with today's random numbers": NEW},
            tolerance=5e-5,  # wide enough for a TPU's numbers; a test checks a CPU's to 2e-6
            shapes={"vmap": (8,), "pmap": (8,), "pmap(vmap)": (8, 1), "jit(pmap)": (8,)},
        ),
    ),
    Recipe(
        "six_jaxprs",
        "What each way traces to",
        GROUP,
        program_spec("six_jaxprs"),
        "vmap: one dot_general with a batch dim. pmap: a shard_map inside a jit. The last text: "
        "two reshapes before the dot_general.",
        "vmap rewrites the primitive: dot_general gets a batch dim. pmap leaves it alone and "
        "replicates the program; today it is written with "
        "shard_map, where old pages show a primitive of its own, xla_pmap. Given a block of rows "
        "per device, plain vdot flattens it first (that is "
        "what the reshapes are) and sums over all of it: one number per device. pmap(vmap) keeps "
        "the rows apart.",
        expected=Expected(
            contains={
                "vmap": ("dot_general", "([1], [1]), ([0], [0])"),
                "pmap": ("shard_map", "dot_general", "([0], [0]), ([], [])"),
                "jit(vmap)": ("jit[", "name=dot"),
                "jit(pmap)": ("jit[", "name=dot", "shard_map"),
                "pmap(jit)": ("shard_map", "name=dot"),
                "pmap(vmap)": ("shard_map", "([1], [1]), ([0], [0])"),
                "pmap of blocks: vdot flattens them": ("reshape", "new_sizes=(15,)"),
            }
        ),
    ),
    Recipe(
        "six_timings",
        "Six dot products: which is cheapest?",
        GROUP,
        program_spec("six_timings"),
        "Mean ± standard deviation as %timeit gives it, and the median with its interval; "
        "jit(vmap) is the fastest by far.",
        "At 8x3 there is nothing to compute: what you see is the cost of a call. vmap without jit "
        "walks through Python each time; every pmap pays "
        "for handing work to eight devices. The mean is drawn away by a single slow run, the "
        "median is not; compare the intervals.",
        expected=Expected(contains=dict.fromkeys(WAYS, (" µs ± ", "7 runs of 100", "median"))),
        takes="10 s",
        is_of_times=True,
    ),
    Recipe(
        "many_rows",
        "A million rows",
        GROUP,
        program_spec("many_rows"),
        "Which ways compute the same sums. Plain pmap looks fastest, and is marked: it computes 8 "
        "sums, not a million.",
        "Here there is work to share. vmap, jit(vmap) and pmap(vmap) return every dot product; "
        "pmap on blocks of rows lets vdot flatten each block, "
        "and gives one sum per device: another answer, which no timing makes comparable. "
        "Simulated devices share the cores of one processor, so "
        "more of them are not faster.",
        expected=Expected(
            printed={
                "vmap: shape": "(1000000,)",
                "jit(vmap): shape": "(1000000,)",
                "pmap(vmap): shape": "(8, 125000)",
                "pmap: shape": "(8,)",
                "pmap: sums": "NOT the same: 8 sums, each over 375,000 products",
            },
            contains={
                f"{way}: sums": ("the same 1,000,000 sums",)
                for way in ("vmap", "jit(vmap)", "pmap(vmap)")
            }
            | {
                f"{way}: time": (" ms ± ", "median")
                for way in ("vmap", "jit(vmap)", "pmap(vmap)", "pmap")
            },
        ),
        takes="5 s",
        is_of_times=True,
    ),
    Recipe(
        "ten_million_rows",
        "Ten million rows",
        GROUP,
        program_spec("many_rows", rows=10_000_000, calls=5),
        "The same, ten times as large: which ways give every sum, and what each takes.",
        "The size of the original notebook. Ten million rows of three make 240 MB of operands, "
        "far more than any cache holds: the time is that of "
        "reading them. The small variant above answers the same questions sooner.",
        expected=Expected(
            printed={
                "vmap: shape": "(10000000,)",
                "pmap(vmap): shape": "(8, 1250000)",
                "pmap: sums": "NOT the same: 8 sums, each over 3,750,000 products",
            },
            contains={
                f"{way}: sums": ("the same 10,000,000 sums",)
                for way in ("vmap", "jit(vmap)", "pmap(vmap)")
            },
        ),
        takes="30 s and 1.1 GB of memory",
        is_of_times=True,
    ),
)
