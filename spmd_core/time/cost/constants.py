"""What the cost model assumes beyond the chips' own figures: one set for all chips, each with its
source.
"""

from collections.abc import Iterator

from spmd_core.facts import StoredFact
from spmd_core.machine import GPU_SHARE, USUAL_SHARE, Chip, Gpu

# of nominal: earlier editions of "How to Scale Your Model" give 4.5e10 and 9e10 B/s for links of
# 5e10 and 1e11
LINK_EFFICIENCY = 0.9
# "about 1 us per hop", "How to Scale Your Model", chapter 3 (chapter 2 has half of that for v5e)
HOP_LATENCY_S = 1e-6
LAUNCH_S = 2e-6  # to start a collective; a guess
DCN_LATENCY_S = 2e-4  # host to host through the data centre network; a guess
DCN_EFFICIENCY = 0.8  # of the network cards' nominal rate; a guess
# bytes per second out of a chip of a slice, where that is published: v6e, a psum of 0.606 GB in
# bfloat16 over two slices (tpu-recipes, microbenchmarks)
DCN_REACHED = {"v6e": 4.113e9}
# standard deviation of a slice's step over its mean: 2 slices 3 % and 32 slices 11 % slower than
# one in MaxText's v5e tables
SLICE_JITTER = 0.053
HOST_EFFICIENCY = 0.9  # of the nominal rate to host memory; a guess, as of links
# of nominal that streaming reaches; a guess, in line with STREAM-like results published for these
# chips
HBM_EFFICIENCY = 0.9
# of peak that plain matmuls reach by the compiler's cycles: 0.92 on average over 40 of v5e, v5p,
# v6e
# and TPU7x that are compute-bound (0.84 to 0.98)
MATMUL_SHARE = 0.93
# cycles of matmuls in 8 bits over those in bfloat16, by the TPU compiler's estimated_cycles (f8e4m3fn
# on v5p, v6e, TPU7x; int8 on v5e, v6e, TPU7x): below 1 the unit has them. "": generations that were
# not compiled for, of int8 v5p by its data sheet (cloud.google.com/tpu/docs/v5p: 918 TOPS), and v4
# without
NARROW_CYCLES = {
    "f8": {"v5p": 1.03, "v6e": 0.84, "tpu7x": 0.47, "": 1.03},
    "s8": {"v5e": 0.50, "v6e": 0.76, "tpu7x": 1.03, "v5p": 0.5, "": 1.0},
    "s4": {"": 0.5},
}
# rows that pass a matrix unit before it takes other weights: to fill it and to empty it takes as
# many as it has; fitted with KERNEL_STALLS to four published steps
STREAMED_ROWS = 1600
# least time of an operation on arrays; a guess, near the 1,800 cycles that the compiler gives its
# smallest fusions
OPERATION_S = 1e-6
BEGIN_LOW = 2.0  # that time, and a launch of a GPU, over the least of its range: a guess too
# bundles of a splash attention kernel over its matrix-unit bound: 1.13 to 1.26 in what the compiler
# writes for v5e, v5p, v6e
KERNEL_SLACK = 1.15
# time of a kernel over its bundles, which leave out stalls; fitted with STREAMED_ROWS to four
# published steps
KERNEL_STALLS = 1.4
KERNEL_STEP_S = 2e-7  # each step of a kernel's grid, masked or not: about 150 to 300 bundles there
# of the capacity: from here on the compiler gives up overlapping, and makes arrays anew, to save
# memory; seen, not documented
NEARLY_FULL = 0.93

# How far each part of the estimate may be off. The parts are taken for independent: their
# deviations add up as squares
MATMUL_OFF = 1.08  # matmuls faster or slower by this factor: what the fit leaves over; a guess
KERNEL_LOW = 1.18  # faster: kernels by this factor, though never faster than their bundles; a guess
KERNEL_HIGH = 1.18  # slower: kernels by this factor; a guess
MEMORY_HIGH = 1.2  # slower: the rest by this factor; a guess (faster: at nominal bandwidth)
OVERLAP_LOW = 0.5  # faster: this share of the waiting is hidden after all; a guess
OVERLAP_HIGH = 0.12  # slower: this share of what the walk hides is not hidden; a guess
# of the step, either way: another compiler's version, other flags, input, jitter between hosts; a
# guess
UNMODELLED = 0.09
# devices up to which weights or their gradients pass in a ring beside parts of a matmul; read off
RING = 16


def hbm_share(chip: Chip) -> float:
    """The share of nominal HBM bandwidth that streaming reaches."""
    return chip.hbm_share if isinstance(chip, Gpu) else HBM_EFFICIENCY


def hbm_s(chip: Chip, nbytes: float) -> float:
    """Seconds of one device's bytes to and from HBM, as streams."""
    return nbytes / (chip.device_hbm_bandwidth * hbm_share(chip))


def taken_memory(chip: Chip, peak: int | None, host: int | None) -> Iterator[StoredFact]:
    """Yields which share of a GPU's memory a process is taken to have, and, where a step holds
    bytes in host memory, whose that is.
    """
    if chip.is_gpu:
        holds = "holds" if (peak or 0) <= USUAL_SHARE * chip.hbm_bytes else "does not hold"
        values = {"share": GPU_SHARE, "memory_bytes": chip.hbm_bytes, "usual": USUAL_SHARE}
        yield StoredFact(kind="gpu memory", values={**values, "holds": holds})
    if host:
        machine, nbytes = chip.host
        values = {"machine": machine, "memory_bytes": nbytes, "generation": chip.generation}
        yield StoredFact(kind="host memory", values=values)
