"""The sizes of small programs that may be chosen: constants of their files, with their ranges."""

from typing import NamedTuple


class Range(NamedTuple):
    """What a constant may be set to, and the bytes that the process takes for each unit of it."""

    name: str
    low: int
    high: int
    each_bytes: int = 0


RANGES: dict[str, tuple[Range, ...]] = {
    "affine_batches": (Range("BATCH", 1, 1_000),),
    "branching": (Range("X", 1, 1_000),),
    "function_transformations": (
        Range("A", 0, 1_000),
        Range("B", 0, 1_000),
    ),
    "in_place": (Range("ROW", 0, 2),),
    "linear_gradient": (Range("STEPS", 1, 200),),
    "logistic_vmap": (Range("SAMPLES", 2, 50),),
    "many_rows": (
        Range("ROWS", 64, 10_000_000, 90),
        Range("CALLS", 3, 1_000),
    ),
    "min_max_vmap": (Range("BATCH", 1, 30),),
    "network_gradient": (
        Range("STEPS", 1, 200),
        Range("HIDDEN", 1, 1_024),
    ),
    "numbers_over_devices": (Range("SEED", 0, 1_000_000),),
    "numpy_against_jit": (
        Range("SIZE", 8, 4_000),
        Range("CALLS", 3, 1_000),
    ),
    "old_random_numbers": (Range("SEED", 0, 1_000_000),),
    "one_key_twice": (Range("SEED", 0, 1_000_000),),
    "partial_derivatives": (
        Range("X", 0, 1_000),
        Range("Y", 0, 1_000),
    ),
    "pmap_arguments": (Range("EXPONENT", 0, 10),),
    "pmap_axes_out": (Range("DEVICES", 2, 8),),
    "pmap_fewer_rows": (Range("ROWS", 1, 8),),
    "pmap_more_rows": (Range("BLOCK", 2, 1_000),),
    "pmap_psum": (Range("COUNT", 2, 8),),
    "quadratic": (Range("X", 0, 10_000),),
    "six_jaxprs": (Range("BLOCK", 1, 1_000),),
    "six_timings": (
        Range("RUNS", 3, 101),
        Range("CALLS", 1, 10_000),
    ),
    "two_processes": (Range("EACH", 1, 4),),
    "vdot_of_ones": (Range("LENGTH", 1, 1_000_000),),
    "vmap_in_axes": (Range("B", 0, 1_000),),
}
