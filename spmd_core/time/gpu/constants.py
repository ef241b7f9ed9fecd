"""What the time of GPUs assumes beyond their data sheets, each with its source."""

# NCCL, in the form of its own tuner (NVIDIA/nccl, src/graph/tuning.cc): a collective takes what its
# kernel costs, what each hop of its ring costs, and its bytes. Seconds read off published tables of
# 8 H100, 8 B200 and 2 hosts of H200; the tuner's own are 8.4 us, 3.4 us and 14 us
COLLECTIVE_S = 8.4e-6
HOP_S = 2.6e-6  # to the next GPU, over NVLink
NETWORK_HOP_S = 24e-6  # to the next domain
PEER_S = 2.5e-6  # of an all-to-all, each other GPU: read off 8 and 80 H100
# A ring works in chunks: the larger the message, the less of it is spent on filling the pipe, which
# grows as its square root (the best number of chunks). Per sqrt(MiB); read off 64 MiB and 1 GiB
PIPE_S = 3.5e-6
SWITCH_PIPE_S = 8e-6  # of sums in the switch
# of a ring's rate, what NCCL's tuner gives sums that go up a tree of the domains and down again, in
# its protocol of low latency (LL). By the tuner other protocols' trees reach 0.86 of it: 1,440 GB200,
# whose 1 GiB takes a ring's time, do not show that
TREE_SHARE = 0.92 / 3.8
SWITCH_S = 8e-6  # to begin sums in the switch: 8 H100, 1 MiB
# of a network card's nominal rate, by rings and by all-to-alls: 10 hosts of H100, 2 of H200
NETWORK_SHARE = 0.83
EXCHANGE_SHARE = 0.91
# sums in the switches of NVLink and of the network: 387 GB/s on 8 hosts, where one alone has 482
SHARP_SLOWER = 482 / 387
# An all-reduce of XLA beside nccl-tests on the same 8 H100 (398 and 456 GB/s at 1 GiB, 45 and 26 us
# at 1 KiB): its buffers are not registered
XLA_SUM_SHARE = 0.87
XLA_SUM_S = 20e-6

# Matmuls by tiles of the result, one on each multiprocessor at a time: a wave is as many tiles as
# there are multiprocessors. (rows, columns) -> the share of the largest tile's rate: smaller ones
# read more for what they multiply. With the seconds below they give the published 253, 641 and 780
# TFLOP/s of 1024^3, 2048^3 and 4096^3 on H100, and 1417 of 4096^3 on B200, within 8 %
TILES = {(256, 128): 1.0, (128, 256): 1.0, (128, 128): 0.85, (128, 64): 0.7, (64, 128): 0.7}
KERNEL_S = 4e-6  # to begin and to end a matmul: the same measurements
FULL_WAVES = 0.97  # of the best of published matmuls, whose rate the data sheets' shares are
LAUNCH_S = 2e-6  # least time of another kernel in a stream; a guess
# Beside its bfloat16 rate; float32 goes through the tensor cores as TF32 by default
TF32 = 0.5
# of the best short matmul, what a training step reaches: the clock falls at the limit of power. A
# guess, chosen beside the four published steps of bench/gpu_targets.py, and alike for all
SUSTAINED = 0.79
# Flash attention: of the peak, forward and backward, for long causal sequences, and the length at
# which half of it is reached. FlashAttention-2 (arXiv:2307.08691) on A100 and FlashAttention-3
# (arXiv:2407.08608) on H100, with heads of 128
FLASH_FORWARD, FLASH_BACKWARD, FLASH_HALF = 0.62, 0.50, 700
# FLOPs of the backward kernel over those of the forward one: five matmuls, not two
FLASH_AGAIN = 2.5
# multiprocessors that a collective beside the work takes: NCCL's usual 16 channels
CHANNELS = 16
# bytes up to which collectives are sent as one: the thresholds of published runs
COMBINED = 2**30
# weak scaling to 256 hosts costs 2.5 %: published runs up to 2,048 GPUs
JITTER = 0.025 / 8  # for each doubling of the hosts
