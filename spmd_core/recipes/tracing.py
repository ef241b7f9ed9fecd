"""Compilation and tracing: the cost of the first call, what JAX sees of a function, and what it
refuses.
"""

from spmd_core.recipes.recipe import Expected, Recipe, program_spec

GROUP = "Compilation and tracing"
PLACES = ("jit on one device", "jit on the CPU", "jit over the mesh")

RECIPES = (
    Recipe(
        "numpy_against_jit",
        "NumPy, jit, and not waiting",
        GROUP,
        program_spec("numpy_against_jit"),
        "For each: the first call, the later ones, and the later ones not waited for, which look "
        "far too fast.",
        "x @ x.T of 1000x1000 numbers. The first call of a jitted function traces and compiles; "
        "later ones only run. JAX returns before the result "
        "is there, so a clock that does not wait measures the hand-over: block_until_ready. "
        "jit(backend='cpu') still works and warns: place the "
        "argument where it is to be computed instead. On simulated devices the second place is the "
        "first one again, compiled already.",
        expected=Expected(
            contains=dict.fromkeys(("numpy", *PLACES), ("first call", "then", "not waited for"))
            | {f"{name}: error": ("of the largest element",) for name in PLACES}
            | {"jit(..., backend='cpu')": ("deprecated",)}
        ),
        is_of_times=True,
    ),
    Recipe(
        "function_transformations",
        "Functions of functions",
        GROUP,
        program_spec("function_transformations"),
        "25 = 3² + 4² and 91 = 3³ + 4³; the gradient of the second in its first argument is 27.",
        "A transformation takes a function and returns one. That is all that grad, jit, vmap and "
        "pmap are, and why they combine: what one returns, "
        "the next one takes.",
        expected=Expected(
            exact={
                "sum_of_squares": (25,),
                "sum_of_cubes": (91,),
                "jit of the same": (91,),
                "gradient_of_the_same": (27.0,),
            }
        ),
    ),
    Recipe(
        "quadratic",
        "A quadratic, traced",
        GROUP,
        program_spec("quadratic"),
        "f(3) = 30, f'(3) = 15, f'' = 4; the jaxprs of f, of jit(f) and of grad(f).",
        "make_jaxpr runs the function on stand-ins that have a shape and a type but no value, and "
        "writes down every operation. jit wraps the list "
        "in one operation to compile; grad walks it backwards and appends. value_and_grad gives "
        "both from one pass. A whole number has no "
        "gradient: JAX wants a float. (Old pages print mul a 2 where this prints mul 2:i32[] a; "
        "the order of equal operations differs by version.)",
        expected=Expected(
            exact={
                "value": (30,),
                "jitted": (30,),
                "gradient": (15.0,),
                "value_of_both": (30.0,),
                "gradient_of_both": (15.0,),
                "curvature": (4.0,),
            },
            printed={"type of grad(f)": "function"},
            contains={
                "jaxpr": ("a:i32[]", "mul 2:i32[] a", "add e 3:i32[]"),
                "jaxpr of jit(f)": ("jit[", "name=f", "mul 2:i32[] a"),
                "jaxpr of grad(f)": ("a:f32[]", "add_any", "_:f32[] = add e 3.0:f32[]"),
                "grad of a whole number": (
                    "TypeError",
                    "grad requires real- or complex-valued inputs",
                ),
            },
        ),
    ),
    Recipe(
        "partial_derivatives",
        "In x, in y, in both",
        GROUP,
        program_spec("partial_derivatives"),
        "x² + y at (2, 3): 7, with derivatives 4 in x and 1 in y; the Hessian is [[2 0] [0 0]].",
        "grad differentiates in its first argument unless argnums says otherwise; a tuple of "
        "numbers gives a tuple of gradients. Differentiate again "
        "and you have the second derivatives: hessian does it.",
        expected=Expected(
            exact={"value": (7.0,), "in_x": (4.0,), "in_y": (1.0,)},
            printed={"both at once": "4.0 and 1.0", "hessian": "[[2.0 0.0] [0.0 0.0]]"},
        ),
    ),
    Recipe(
        "branching",
        "An if on a traced value",
        GROUP,
        program_spec("branching"),
        "The error in JAX's words, under its name of today; then three ways that work, giving 3 "
        "and -6.",
        "While JAX traces, x has no value, so `if x > 0` has no answer: TracerBoolConversionError, "
        "a kind of ConcretizationTypeError, which is what "
        "old pages show. Compute both and choose (jnp.where), let the device choose (lax.cond), or "
        "compile again for every value (static_argnums).",
        expected=Expected(
            exact={"where": (3.0, -6.0), "cond": (3.0, -6.0), "static_argnums": (3.0,)},
            printed={"without jit": "3.0"},
            contains={
                "under jit": (
                    "TracerBoolConversionError",
                    "a ConcretizationTypeError",
                    "boolean conversion",
                    "keep_or_double",
                )
            },
        ),
    ),
    Recipe(
        "in_place",
        "Arrays do not change",
        GROUP,
        program_spec("in_place"),
        "The error says what to do; afterwards the old array is what it was, the new one has a row "
        "of ones.",
        "Programs that change nothing can be reordered, repeated and spread over devices. So an "
        "assignment is refused, and `.at[1, :].set(1.0)` "
        "returns another array; inside jit the compiler updates in place where nobody needs the "
        "old one.",
        expected=Expected(
            exact={"before": (0.0,) * 9, "after": (0.0,) * 3 + (1.0,) * 3 + (0.0,) * 3},
            contains={"assignment": ("TypeError", "immutable", ".at[]")},
        ),
    ),
)
