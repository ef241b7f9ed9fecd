"""Assumptions of the time of serving beyond the cost model, each with its source. The guesses were
chosen beside the nine rows of `bench/served_models.py`, which therefore do not test them.
"""

# of HBM that weights and cache may take: sglang-jax runs its benchmarks with 0.8
# (`mem_fraction_static`); vLLM takes 0.9 of a GPU's, the largest step among it
POOL_SHARE = 0.8
# sequences and prompt tokens of that step, which vLLM profiles at its start (`get_batch_defaults`), and
# its bytes: of a logit, which the sampler sorts, of a value of the stream, and on one GPU or on each of
# several of driver, CUDA and NCCL. The bytes are fitted to six H100 runs (llm-d-benchmark,
# empirical-vllm-memory-results.md: 4.76 to 7.38 GiB beside the last), each within 1 %
PROFILED = {"a100": (256, 2048), "": (1024, 8192)}
LOGIT_BYTES, STREAM_BYTES, CONTEXT_BYTES = 38.2, 2.6, (0.55 * 2**30, 0.97 * 2**30)
PAGE = 128  # tokens of a page on TPUs, sglang-jax and tpu-inference
GPU_PAGE = 16  # vLLM's default block
LANES = 128  # keys and values of a token are padded to so many elements on TPUs
STATE_BYTES = (
    4  # of an element of a mixer's state: float32, as `mamba_ssm_dtype` of Qwen3.5's config
)
# of a TPU's nominal rate, weights of one matmul, and its first bytes: tpu-recipes' curve of TPU7x
# reaches 6,421 of 7,380 GB/s, and 2 MiB take 0.76 us, of which those rates explain 0.33
STREAM_SHARE, STREAM_S = 0.87, 4e-7
# of the nominal rate, reading the cache, and of the peak, attention of prompts: "Ragged Paged
# Attention" (arXiv:2604.15464), the best of decode and of prefill; the latter bounds absorbed heads,
# a prompt's kernel costs as in training. A GPU's kernels as its streams, and as flash attention
CACHE_SHARE, PREFILL_SHARE = 0.86, 0.73
KERNEL_BLOCK = 512  # of queries and keys, the kernel's default
# seconds of a sequence in one layer's kernel beside its bytes: its first pages arrive, and its
# results leave, with nothing beside them, each way half a microsecond over HBM; a guess
SEQUENCE_S = 1e-6
PAGE_S = 2.5e-8  # to start the copy of a page: about 40 bundles of the scalar core; a guess
# to write a prompt's token to the cache of a layer, in a kernel of its own that copies one token at a
# time: sglang-jax#137, 94 us for 2,048 tokens of Qwen3-8B on v6e-4
WRITE_S = 94e-6 / 2048
# of a collective beside its launch and hops, each way: tpu-recipes' all-gather over 4 TPU7x takes
# 14.6 us at 1 MiB and 32.5 us at 4 MiB, of which 5.9 and 23.5 are its bytes
COLLECTIVE_S = 5e-6
# of a layer, operations that no matmul and no kernel is: norms, rotations, gates, residual sums,
# copies around the kernel, each with the least time of an operation; a guess. Of GPUs: a graph of
# fused CUDA kernels
OPERATIONS, GPU_OPERATIONS = 30, 10
EXPERT_OPERATIONS = 1.0  # as many again: scores, top k, sort, rows to experts and back; a guess
FORWARD = 0.3  # of a layer's passes over HBM in training, those of the forward pass
LOGIT_PASSES = 4  # over logits in float32: largest, exponential, sum, choice
STEP_S = 3e-4  # the host's part of a step that an asynchronous scheduler does not hide; a guess
BLOCK_ROWS = 128  # of a grouped matmul: each expert's rows fill half a block more; a guess
CHUNK = 2048  # tokens of prompts in a step, sglang-jax's benchmarks
KERNEL_OFF = 0.25  # attention over its estimate, either way: what the guesses above may be off by
# FLOPs of a prompt's token for each element of a state, MaxText's count of a gated delta rule in the
# forward pass, and the share of the peak that its scan by chunks reaches; a guess
STATE_FLOPS, STATE_SHARE = 8, 0.2
