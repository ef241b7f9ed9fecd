"""What the instant estimate assumes beyond the cost model's own constants.

"Read off" is: off 21 scheduled modules of v4, v5e, v5p, v6e and TPU7x, on 1 to 8 slices, which
`bench/instant_estimate.py` lists. No constant was fitted to a published step time.
"""

MATMUL_SHARE = 0.89  # of peak, of matmuls whose dims fill the unit; read off the compiler's cycles
# Passes over HBM of what is not a matmul, in one layer's forward and backward work; read off
STREAM_PASSES = 20.0  # of the residual stream as a device holds it
WHOLE_STREAM_PASSES = 38.0  # of the stream gathered over `tensor`, where it is cut so
HEAD_PASSES = 9.6  # of queries, and twice of keys
WIDE_PASSES = 2.0  # of a projection of the mlp
WEIGHT_PASSES = 2.0  # of a layer's weights made whole
LOGIT_PASSES = 6.0  # of the logits in float32: largest, exponential, sum, gradient
# Transfers of the whole stream over `tensor` in a layer, in collective matmuls and alone; read off
FORWARD_STREAMS, RECOMPUTED_STREAMS, BACKWARD_STREAMS = 6.0, 5.0, 8.5
TENSOR_HIDDEN = 0.8  # of them at most runs beside matmuls: the first part of each does not; read off
TENSOR_HIDDEN_LINE = 0.55  # the same on an axis that is no ring; read off
BESIDE_MATMULS = 0.9  # of the matmuls' time can have a collective of `tensor` beside it; read off
WITHOUT_COMPILING = 0.05  # of the step, either way: what the compiler would have told; a guess
