"""What the instant estimate assumes beyond the cost model's own constants.

"Read off" is: off 21 scheduled modules of v4, v5e, v5p, v6e and TPU7x, on 1 to 8 slices, which
`bench/instant_estimate.py` lists, and off 16 of them again. The four published steps of
`docs/prediction.md` were looked at while the passes of the gathered stream and the shares of
transfers over `tensor` were read off again: they are no test of these.
"""

# Passes over HBM of what is not a matmul, in one layer's forward and backward work; read off
STREAM_PASSES = 20.0  # of the residual stream as a device holds it
GATHERED_STREAM_PASSES = 28.0  # of the stream gathered over `tensor`, where it is sharded so
HEAD_PASSES = 9.6  # of queries, and twice of keys
WIDE_PASSES = 2.0  # of a projection of the mlp
WEIGHT_PASSES = 2.0  # of a layer's weights gathered
# The same of GPUs, where a fusion ends at each sum over a row; read off a step of llama-3.1-8b that
# XLA compiled for 8 H100: of the stream, of each projection of the mlp, of queries and twice of
# keys, of what the forward pass saves
GPU_STREAM_PASSES, GPU_WIDE_PASSES, GPU_HEAD_PASSES, GPU_SAVED_PASSES = 30.0, 3.0, 14.0, 3.0
# Attention around a ring, way -> passes over a shard's queries, and over its keys and values: of
# each call, which takes half a shard, and of all at once; of the program (slices, sums in float32
# that a call adds to, halves that are stacked, results). A step shows them all
RING_PASSES = {"forward": ((7.0, 2.0), (7.0, 2.0)), "backward": ((5.0, 5.0), (3.0, 3.0))}
# of gathered keys and values, read and written in the order of positions: forward, again, and as
# gradients; of the program
ORDER_PASSES = 6.0
# passes over what a state's chunks keep, forward and backward, and operations of one step of their
# scan, of which each takes its least time
STATE_PASSES, STATE_OPERATIONS = (2.0, 4.0), 12
# of the rows that a token sends to its experts, in each pass: gathers of all rows and zeros in those
# past the last, of which XLA fuses few; with the way to other devices and back, or without. Read off
SENT_PASSES, SORTED_PASSES = 27.0, 17.0
# with a capacity, each way, of slots read and written on both sides of two exchanges
SLOT_PASSES = 8.0
GPU_LOGIT_PASSES = 6.0  # on GPUs: largest, exponential, sum, gradient
RING_LOGIT_PASSES = 1.5  # where a ring keeps their gradient out of the matmuls; read off
LOGIT_PASSES = 1.0  # of the logits in float32, beside what is fused to their matmuls; read off
# A transfer over `tensor` runs beside the matmul that it feeds, part by part; shares that do not,
# read off
FIRST_PART = 0.15  # of a collective matmul's transfer, whose first part has nothing beside it
LONE_GATHER = 0.8  # of a gather that several matmuls share, on a ring
# the same on an axis that is no ring, where sums of a layer's outputs stop the chip
LINE_GATHER = 0.8
# over the wide side of such a matmul for each of its parts: HBM binds it; read off
PART_PASSES = 0.7
RING_STEPS = 32  # devices of the largest ring; seen, and the default of XLA's partitioner
# Weights that pass in a ring beside parts of their matmul. A part whose products are added to those
# before reads and writes them; every second part is added so. Read off loops of compiled steps.
ADDED_PASSES = 3.0
# over the mlp's width and the stream, forward and backward, of what such a loop keeps unfused
RING_WIDE, RING_STREAM = (3.0, 8.0), (10.0, 22.0)
# A sum that passes in a ring is exposed until a part takes so many times as long as its permute,
# and hidden from the second on; read off
CHAINED, UNCHAINED = 1.5, 2.1
# An array of so many bytes is half in vector memory, where passes over it cost nothing; read off
# steps of 4 to 16 chips. `LARGE`: arrays from which on all passes count
HALF_BYTES, LARGE_BYTES = 40e6, 133e6
TABLE_ALONE = 0.8  # of a table's gather, which little can hide; read off
# of a layer's transfers, what the first and the last layer have nothing beside; read off
ENDS = 0.5
# of one layer, operations of so few bytes that each takes its least time; read off
SMALL_OPERATIONS = 60
# seconds of a step, and of each layer, either way: copies and small operations of steps of few ms
SMALL_OFF = (1e-3, 3e-4)
RING_OFF = 0.15  # of a step with rings, either way: what they were off by there
# Of a step, above its estimate: how far compiled plans of these kinds were, of 70, most of them drawn
# at random: names offloaded where parameters are sharded over slices (1), and so wide a `tensor` (3)
SLICES_ABOVE, TENSOR_ABOVE, WIDE_TENSOR = 4.0, 0.85, 32
SHARDED_ABOVE = 0.3  # by 28 % on v5p, 17 on v6e, within 9 % on v5e: gathers pass in rings there
# times their estimate that published steps took on chips of which all took longer than their interval:
# how many, least, most; `bench.published_steps`, both in 8 bits
TOOK_LONGER_ON = {"b200": (2, 1.23, 1.25)}
MOSTLY = 0.5  # of a step in attention, from which on its kernel is named
WITHOUT_COMPILING = 0.05  # of the step, either way: what the compiler would have shown; a guess
SPARSE_CORES = ("v5p", "tpu7x")  # generations whose flags leave collectives to these
SCATTERS_EXPERTS = "tpu7x"  # scatters the sums of dropless experts, all-reduces elsewhere; read off
NOT_OF_A_LAYER = ("embedding", "logits", "final_norm")  # weights
