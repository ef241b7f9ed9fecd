"""What a device does in a step: matmuls by shape, attention kernels by blocks, the rest by bytes."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from spmd_core.machine import Chip, Gpu
from spmd_core.plan import ADAPTERS, GATHERED_AXES, ModelSize, group_rows, state_share
from spmd_core.time.cost.constants import OPERATION_S, RING, hbm_s
from spmd_core.time.cost.flops import Matmul, matmul_s
from spmd_core.time.cost.kernels import (
    GROUP_SIDE,
    attention_cost,
    chunk_pairs,
    grouped_cost,
    kept_pairs,
    window_width,
)
from spmd_core.time.estimate.constants import (
    GATHERED_STREAM_PASSES,
    GPU_HEAD_PASSES,
    GPU_LOGIT_PASSES,
    GPU_SAVED_PASSES,
    GPU_STREAM_PASSES,
    GPU_WIDE_PASSES,
    HEAD_PASSES,
    LOGIT_PASSES,
    ORDER_PASSES,
    PART_PASSES,
    RING_LOGIT_PASSES,
    RING_PASSES,
    SENT_PASSES,
    SLOT_PASSES,
    SMALL_OPERATIONS,
    SORTED_PASSES,
    STATE_OPERATIONS,
    STATE_PASSES,
    STREAM_PASSES,
    WEIGHT_PASSES,
    WIDE_PASSES,
)
from spmd_core.time.estimate.memory import kept_bytes, unsaved_bytes
from spmd_core.time.estimate.optimizers import (
    BYTES,
    NEWTON_SCHULZ,
    hidden_matrices,
    layer_axes,
    matrix_axes,
    moment_bytes,
    newton_schulz,
)
from spmd_core.time.estimate.rings import reread_s, ring_memory_s, summed_s
from spmd_core.time.estimate.scaling import scaled_s
from spmd_core.time.estimate.shapes import LEAST, Shapes
from spmd_core.time.gpu.constants import TF32
from spmd_core.time.gpu.matmuls import flash_s

_TABLES = ("embedding", "logits")
_DISPATCH = "dispatch"  # rows to their experts and back


@dataclass(frozen=True, slots=True)
class DeviceSeconds:
    """Seconds of one device by kind; `fastest` is of kernels, by their bundles alone."""

    matmul: float = 0.0
    kernel: float = 0.0
    memory: float = 0.0
    fastest: float = 0.0

    @property
    def seconds(self) -> float:
        """All of it, one after the other."""
        return self.matmul + self.kernel + self.memory

    def plus(self, other: "DeviceSeconds", times: float = 1.0) -> "DeviceSeconds":
        """This and `times` the other."""
        return DeviceSeconds(
            self.matmul + times * other.matmul,
            self.kernel + times * other.kernel,
            self.memory + times * other.memory,
            self.fastest + times * other.fastest,
        )


@dataclass(frozen=True, slots=True)
class StepWork:
    """Work of a step: all layers' forward, recomputed and backward passes; tables; update."""

    forward: DeviceSeconds
    recomputed: DeviceSeconds
    backward: DeviceSeconds
    tables: DeviceSeconds
    update: DeviceSeconds
    # of each kind of layer seconds that hide transfers: forward, again, backward
    hiding: Mapping[ModelSize, tuple[float, ...]]

    @property
    def total(self) -> DeviceSeconds:
        """All of it."""
        parts = (self.recomputed, self.backward, self.tables, self.update)
        total = self.forward
        for part in parts:
            total = total.plus(part)
        return total


def product_s(
    rows: float, inner: float, columns: float, chip: Chip, element: str = "bf16"
) -> float:
    """Seconds of [rows, inner] x [inner, columns], operands of that type as HLO writes it and a
    result in bfloat16: the matrix unit's or HBM's time.
    """
    if not inner or not columns:  # of shared experts that a model does not have
        return 0.0
    operand = 2.0 if element == "bf16" else 1.0
    nbytes = operand * (rows * inner + inner * columns) + 2.0 * rows * columns
    streaming = hbm_s(chip, nbytes)
    sizes = [max(1, round(size)) for size in (rows, inner, columns)]
    product = Matmul(2 * sizes[0] * sizes[1] * sizes[2], element, 1, sizes[0], sizes[2])
    return max(matmul_s(product, chip), streaming)


# name -> seconds of each matmul of a layer's forward pass, and of as large ones of its backward pass
Matmuls = tuple[Mapping[str, float], Mapping[str, float]]


def all_matmuls(shapes: Shapes) -> list[Matmuls]:
    """The matmuls of each kind of layer, in the order of `shapes.layers`."""
    listed = []
    for layer, _ in shapes.layers:
        forward = dict(layer_matmuls(layer))
        alike = shapes.element("forward") == shapes.element("backward") == "bf16"
        listed.append((forward, forward if alike else dict(layer_matmuls(layer, "backward"))))
    return listed  # pyrefly: ignore[bad-return]


def mean_matmuls(shapes: Shapes, matmuls: Sequence[Matmuls]) -> dict[str, float]:
    """Name -> seconds of a matmul of the forward pass, on average over the layers that have it."""
    totals, counts = Counter[str](), Counter[str]()
    for (_, count), (forward, _) in zip(shapes.layers, matmuls, strict=True):
        for name, seconds in forward.items():
            totals[name] += count * seconds  # pyright: ignore[reportArgumentType]
            counts[name] += count
    return {name: totals[name] / counts[name] for name in totals}


def step_work(shapes: Shapes, recomputed: Collection[str], matmuls: Sequence[Matmuls]) -> StepWork:
    """The work of a plan's step on one device; `recomputed`: names of what the backward pass
    computes again.
    """
    forward = again = backward = DeviceSeconds()
    hiding = dict[ModelSize, tuple[float, ...]]()
    for (layer, count), of_layer in zip(shapes.layers, matmuls, strict=True):
        passes = _of_layer(layer, recomputed, *of_layer)
        # gathers of GPUs run on from the layer before
        first_s, *rest_s = (own.seconds for own in passes)
        last_s = 0.0 if shapes.chip.is_gpu else _beside_nothing(layer, of_layer[0], first_s)
        hiding[layer.size] = first_s - last_s, *rest_s
        forward, again, backward = (
            total.plus(own, count)
            for total, own in zip((forward, again, backward), passes, strict=True)
        )
    if heads := shapes.size.mtp_layers:  # what joins the stream to the embedding of a later token
        embed = shapes.size.embed
        joined = DeviceSeconds(product_s(shapes.matmul_rows, 2 * embed, embed, shapes.chip))
        forward, backward = forward.plus(joined, heads), backward.plus(joined, 2 * heads)
        again = again.plus(joined, heads * ("joined" in recomputed))
    return StepWork(forward, again, backward, _tables(shapes), _update(shapes), hiding)


def _beside_nothing(layer: Shapes, own: Mapping[str, float], first_s: float) -> float:
    """Seconds of a layer's forward pass that hide none of its gathers: its last matmul; and where
    weights pass in rings, what comes before experts, whose gathers wait for those links. Of dropless
    ones all but the products: their rows are sorted before a gather begins, and after the last.
    """
    if layer.ring == 1 or layer.plan.size.experts == 1:
        return own.get("mlp_down", 0.0)
    mlp = layer.size.experts > 1 and sum(own.get(name, 0.0) for name in ("mlp_up", "mlp_gate"))
    if layer.plan.dropless:
        return first_s - mlp
    return sum(own.values()) - mlp + mixing(layer, "forward").seconds


def _of_layer(
    shapes: Shapes,
    recomputed: Collection[str],
    matmuls: Mapping[str, float],
    of_gradients: Mapping[str, float],
) -> tuple[DeviceSeconds, DeviceSeconds, DeviceSeconds]:
    chip = shapes.chip
    routed = hbm_s(chip, _routed_bytes(shapes))
    again = sum(seconds for name, seconds in matmuls.items() if name in recomputed)
    forward, backward = mixing(shapes, "forward"), mixing(shapes, "backward")
    kernel_again = forward if "attention" in recomputed else DeviceSeconds()
    moved = hbm_s(chip, _layer_bytes(shapes, recomputed))
    moved += 0.0 if chip.is_gpu else SMALL_OPERATIONS * OPERATION_S
    matmul, back = sum(matmuls.values()), sum(of_gradients.values())
    narrow, products = _adapters_s(shapes), 2 if shapes.plan.lora_rank is None else 1
    narrow_again = narrow * again / matmul
    scaled, late = scaled_s(shapes), ring_memory_s(shapes, matmuls, recomputed)
    routed_again = routed * ("mlp_up" in recomputed) + scaled[0] * again / matmul
    turned = hbm_s(chip, 0.0 if chip.is_gpu else 2 * shapes.turned_bytes)
    return (
        DeviceSeconds(
            matmul + narrow, memory=moved * 0.3 + late[0] + routed + scaled[0] + turned
        ).plus(forward),
        DeviceSeconds(again + narrow_again, memory=routed_again).plus(kernel_again),
        DeviceSeconds(
            products * back + 2 * narrow + shapes.extra_backward * matmuls.get(_DISPATCH, 0.0),
            memory=moved * 0.7 + late[1] + _parts_s(shapes) + routed + scaled[1] + turned,
        ).plus(backward),
    )


def _adapters_s(shapes: Shapes) -> float:
    """Seconds of the two products beside each frozen matrix of a layer, in one pass."""
    rank, rows, total = shapes.plan.lora_rank, shapes.matmul_rows, 0.0
    for array in shapes.weights if rank else ():
        if rank and array.is_adapter:
            wide = shapes.unsharded_bytes(array) / 2 / rank
            inside = array.name.endswith(ADAPTERS[0])
            sides = (wide, rank) if inside else (rank, wide)
            total += product_s(rows, *sides, shapes.chip)
    return total


def layer_matmuls(shapes: Shapes, way: str = "forward") -> Iterator[tuple[str, float]]:
    """Name -> seconds of each matmul of one layer's forward pass, or of one as large of the
    backward pass, whose operands may have another type.
    """
    size, chip, rows = shapes.size, shapes.chip, shapes.matmul_rows
    element, mixer = shapes.element(way), size.mixers[0]
    if mixer == "attention":
        yield from _of_attention(shapes, element)
    elif mixer != "none":
        keys, values = size.state_keys / shapes.shards_of("kv_heads"), shapes.state_values
        for name, inner, columns in (
            ("query", size.embed, keys),
            ("key", size.embed, keys),
            ("value", size.embed, values),
            ("mixed_gate", size.embed, values),
            ("out", values, size.embed),
        ):
            yield name, product_s(rows, inner, columns, chip, element)
    if size.mlps[0] == "none":
        return
    up, down = _of_mlp(shapes, way)
    yield "mlp_up", up
    if size.gated:
        yield "mlp_gate", up
    yield "mlp_down", down
    if size.experts > 1 and not shapes.plan.dropless:
        # rows to their experts and back, as matmuls with one-hot routes
        slots = shapes.experts_here * shapes.expert_rows / max(1.0, rows / shapes.length)
        yield _DISPATCH, 2 * product_s(rows, slots, size.embed / shapes.tensor, chip)


def routed_share(shapes: Shapes) -> float:
    """Returns the share of the layers' matmuls that send rows to experts and back."""
    total = routed = 0.0
    for layer, count in shapes.layers:
        seconds = dict(layer_matmuls(layer))
        total += count * sum(seconds.values())
        routed += count * seconds.get(_DISPATCH, 0.0)
    return routed / total if total else 0.0


def _of_attention(shapes: Shapes, element: str) -> Iterator[tuple[str, float]]:
    size, chip, rows = shapes.size, shapes.chip, shapes.matmul_rows
    heads, keys = shapes.projected_heads, shapes.projected_keys
    first = size.q_rank or size.embed
    narrow = product_s(rows, size.embed, size.q_rank, chip, element)
    yield "query", narrow + product_s(rows, first, heads * size.head_dim, chip, element)
    if size.out_gate:
        yield "mixed_gate", product_s(rows, size.embed, heads * size.value_size, chip, element)
    if size.kv_rank:
        narrow = product_s(rows, size.embed, size.kv_rank + size.rope_dim, chip, element)
        wide = heads * (size.nope_dim + size.value_size)
        yield "key", narrow + product_s(rows, size.kv_rank, wide, chip, element)
    else:
        yield "key", product_s(rows, size.embed, keys * size.head_dim, chip, element)
        if not size.full_shared_kv:
            yield "value", product_s(rows, size.embed, keys * size.value_size, chip, element)
    yield "out", product_s(rows, heads * size.value_size, size.embed, chip, element)


def _of_mlp(shapes: Shapes, way: str) -> tuple[float, float]:
    """Seconds of a matmul into and out of a layer's mlp, or its experts and the shared ones."""
    size, chip, rows, width = shapes.size, shapes.chip, shapes.matmul_rows, shapes.mlp_here
    element, shared = shapes.element(way), size.shared_mlp / max(1, shapes.tensor)
    embed = size.embed / (shapes.moved_rows if size.experts > 1 else 1)
    up, down = (
        _of_experts(shapes, way, *of_expert) + product_s(rows, *of_shared, chip, element)
        for of_expert, of_shared in (
            ((embed, width), (size.embed, shared)),
            ((width, embed), (shared, size.embed)),
        )
    )
    return up, down


def _of_experts(shapes: Shapes, way: str, inner: float, columns: float) -> float:
    """Seconds of one matmul of all experts of a device, or of the mlp of a model without. Dropless,
    the gradient of their weights is a kernel in bfloat16 (`decoder_precision.py`).
    """
    element = shapes.element(way)
    count, each = shapes.experts_here, shapes.expert_rows
    if not shapes.plan.dropless or shapes.size.experts == 1:
        moved = shapes.moved_rows if shapes.size.experts > 1 else 1
        return count * product_s(each * moved, inner, columns, shapes.chip, element)
    rows, block = max(1, round(count * each)), group_rows(shapes.plan)
    sides = (max(1, round(inner)), max(1, round(columns)))
    elements = (element,) if way == "forward" else (element, "bf16")
    costs = [
        grouped_cost(rows, *sides, count, (block, GROUP_SIDE), shapes.chip, each).seconds
        for each in elements
    ]
    return sum(costs) / len(costs)


def _parts_s(shapes: Shapes) -> float:
    """Seconds that HBM takes longer than the matrix unit, where the matmuls of a layer's inputs are
    split over `tensor` and among up to 16 other devices, and each part passes over the wide side.
    """
    parts = shapes.along(*GATHERED_AXES)
    apart = shapes.plan.makes_rings and shapes.tensor > 1 and shapes.chip.generation != "tpu7x"
    if not 2 <= parts <= RING or not apart or shapes.size.experts > 1:
        return 0.0
    size, chip, late = shapes.size, shapes.chip, 0.0
    heads, keys = shapes.projected_heads * size.head_dim, shapes.projected_keys * size.head_dim
    for width in (heads, keys, keys, shapes.mlp_here, *((shapes.mlp_here,) if size.gated else ())):
        streaming = hbm_s(chip, parts * PART_PASSES * 2 * shapes.matmul_rows * width)
        late += max(0.0, streaming - product_s(shapes.matmul_rows, size.embed, width, chip))
    return late


@lru_cache(maxsize=64)
def mixing(shapes: Shapes, way: str) -> DeviceSeconds:
    """What mixes the tokens of a layer: attention by a kernel, or a state by chunks."""
    plan, size, chip = shapes.plan, shapes.size, shapes.chip
    if size.mixers[0] == "none":
        return DeviceSeconds()
    if size.mixers[0] != "attention":
        return _state(shapes, way)
    if isinstance(chip, Gpu):
        heads, side = shapes.sequences * shapes.attention_heads, size.head_dim + size.value_size
        seconds = flash_s(chip, way, heads, plan.sequence, side / 2, size.windows[0])
        return DeviceSeconds(kernel=seconds, fastest=seconds)
    return _splash(shapes, way)


def _splash(shapes: Shapes, way: str) -> DeviceSeconds:
    plan, size, chip, window = shapes.plan, shapes.size, shapes.chip, shapes.size.windows[0]
    queries, keys, _ = plan.kernel_blocks
    gradients = ("fused",) if plan.fused_attention_backward else ("dq", "dkv")
    rows, columns = plan.sequence // queries, plan.sequence // keys
    if size.chunked and window:
        kept = chunk_pairs(rows, columns, window, queries, keys)
    else:
        kept = kept_pairs(rows, columns, window_width(window, queries, keys, columns))
    among, calls, length, columns_here = plan.context_shards, 1, plan.sequence, columns
    if in_ring := plan.context_attention == "ring" and among > 1:
        # two calls for each device's keys, and one more for its own, of half a shard each
        calls, length, columns_here = 2 * among + 1, length // (2 * among), columns // (2 * among)
    # the last device of a contiguous order has 2 - 1 / n of an even share of the pairs
    share = 1.0 if plan.is_balanced or window else 2 - 1 / among
    here = length if in_ring else length // among
    blocks = (here // queries, columns_here, kept * share / among / calls)
    query = (shapes.sequences, shapes.attention_heads, here, size.head_dim)
    costs = [
        attention_cost(name, query, length, blocks, chip, size.value_size)
        for name in (("fwd",) if way == "forward" else gradients)
    ]
    return DeviceSeconds(
        kernel=calls * sum(each.seconds for each in costs),
        memory=hbm_s(chip, _ring_bytes(shapes, way, calls)) if in_ring else 0.0,
        fastest=calls * sum(each.fastest for each in costs),
    )


def _ring_bytes(shapes: Shapes, way: str, calls: int) -> float:
    """HBM bytes of what is added up around a ring of attention, in so many calls."""
    arrays, (of_call, of_all) = shapes.arrays, RING_PASSES[way]
    of_queries, of_others = (
        calls / 2 * one + all_ for one, all_ in zip(of_call, of_all, strict=True)
    )
    return of_queries * arrays.query + of_others * (arrays.key + arrays.value)


def _state(shapes: Shapes, way: str) -> DeviceSeconds:
    """A state's chunks: products of a chunk's pairs and of the state, twice as many for gradients;
    what passes between them; and the steps of the scan, one after the other.
    """
    size, chip, places = shapes.size, shapes.chip, shapes.plan.sequence
    key, value, chunk = size.state_dim, size.state_value, min(size.chunk, places)
    count = shapes.sequences * shapes.state_heads * places / chunk
    sides = [(chunk, key, chunk), (chunk, key, value), (key, chunk, value), (chunk, chunk, value)]
    if size.mixers[0] == "delta":  # of keys with one another, and of what they correct
        sides += [(chunk, key, chunk), (chunk, key, value), (chunk, chunk, key + value)]
    # a GPU shares the tiles of all among its multiprocessors, a TPU multiplies one after the other
    at_once = max(1, round(count)) if chip.is_gpu else 1
    matmul = sum(
        matmul_s(Matmul(2 * at_once * r * inner * c, "bf16", 1, at_once * r, c), chip) / at_once
        for r, inner, c in sides
    )
    times, passes = (1, STATE_PASSES[0]) if way == "forward" else (2, STATE_PASSES[1])
    steps = places / chunk * STATE_OPERATIONS * OPERATION_S
    return DeviceSeconds(
        times * count * matmul, memory=hbm_s(chip, passes * shapes.arrays.state) + times * steps
    )


def _layer_bytes(shapes: Shapes, recomputed: Collection[str]) -> float:
    """HBM bytes of one layer that no matmul and no kernel moves."""
    if shapes.chip.is_gpu:
        return _layer_bytes_of_gpus(shapes, recomputed)
    arrays, tensor, passed = shapes.arrays, shapes.tensor, shapes.passed_bytes
    turned = 0.0
    if shapes.plan.is_balanced and shapes.plan.context_attention == "all-gather":
        turned = ORDER_PASSES * shapes.along("context") * (arrays.key + arrays.value)
    unsharded = GATHERED_STREAM_PASSES * passed(arrays.stream * tensor) if tensor > 1 else 0.0
    unsaved = 2 * unsaved_bytes(shapes.plan, shapes.size) if not recomputed else 0.0
    return (
        STREAM_PASSES * passed(arrays.stream)
        + turned
        + unsharded
        + unsaved
        + WIDE_PASSES * passed(arrays.wide)
        + HEAD_PASSES * (passed(arrays.query) + passed(arrays.key) + passed(arrays.value))
        + WEIGHT_PASSES * shapes.layer_weight_bytes
    )


def _layer_bytes_of_gpus(shapes: Shapes, recomputed: Collection[str]) -> float:
    """The same on GPUs, whose compiler fuses less: saved arrays are stacked by copies of their own,
    and heads change places around the kernel.
    """
    arrays, matrices = shapes.arrays, 3 if shapes.size.gated else 2
    stored = 0.0 if recomputed == LEAST else kept_bytes(shapes.plan)[0]
    return (
        GPU_STREAM_PASSES * arrays.stream
        + GPU_WIDE_PASSES * matrices * arrays.wide
        + GPU_HEAD_PASSES * (arrays.query + arrays.key + arrays.value)
        + GPU_SAVED_PASSES * stored / shapes.plan.size.all_layers
    )


def _routed_bytes(shapes: Shapes) -> float:
    """HBM bytes of sorting one layer's rows for dropless experts and back, one way; with a capacity,
    of turning slots around each exchange, which those of one sequence need on one side of the first.
    """
    if shapes.size.experts == 1:
        return 0.0
    if shapes.plan.dropless:
        passes = SENT_PASSES if shapes.along("expert") > 1 else SORTED_PASSES
    else:
        passes = SLOT_PASSES * (shapes.peers > 1) * (1 if shapes.sequences > 1 else 3 / 4)
    return passes * shapes.arrays.stream * shapes.tensor * shapes.plan.visits


def table_s(shapes: Shapes) -> float:
    """Seconds of the matmul with a table of the vocabulary."""
    vocab = shapes.size.vocab / shapes.shards_of("vocab")
    return product_s(shapes.matmul_rows, shapes.size.embed, vocab, shapes.chip)


@lru_cache(maxsize=16)
def _tables(shapes: Shapes) -> DeviceSeconds:
    """Embedding (a matmul with one-hot tokens), logits and their gradients: five matmuls. On GPUs
    the embedding is gathered, and float32 logits pass the tensor cores as TF32.
    """
    size, chip = shapes.size, shapes.chip
    one = table_s(shapes)
    again = float(shapes.plan.logit_parts > 1)
    frozen = shapes.plan.lora_rank is not None  # no gradient of the embedding, nor of logits' table
    matmuls = 5.0 - 2 * frozen + again
    if chip.is_gpu:
        matmuls = (3 - frozen + again) / (TF32 if size.logits_float32 else 1.0)
    passes = GPU_LOGIT_PASSES if chip.is_gpu else LOGIT_PASSES
    vocab = size.vocab / shapes.shards_of("vocab")
    logits = shapes.matmul_rows * vocab
    late = 0.0
    if shapes.ring > 1 and shapes.plan.logit_parts == 1:
        passes += RING_LOGIT_PASSES
        late = reread_s(shapes, 2 * logits, one)  # for the gradient of the table
        late += summed_s(shapes, (each for each in shapes.weights if each.name in _TABLES))
    tables = DeviceSeconds(matmuls * one, memory=hbm_s(chip, passes * logits * 4) + late)
    return DeviceSeconds().plus(tables, 1 + size.mtp_layers)


@lru_cache(maxsize=16)
def _update(shapes: Shapes) -> DeviceSeconds:
    """The optimizer and the two global norms, by what is read and written of a device's parameters."""
    own, moments = BYTES[shapes.plan.parameter_dtype], moment_bytes(shapes.plan)
    # gradients twice, all of it read and written, norm
    each = own + own + 2 * (own + moments) + own
    updated = math.ceil(shapes.own_parameters * state_share(shapes.plan))
    seconds = hbm_s(shapes.chip, updated * each)
    matmul = 0.0
    if shapes.plan.optimizer == "muon":
        for array, here, *sides in hidden_matrices(shapes.trained, shapes.mesh):
            # exchanged for layers, the compiler shares the rows of a matrix among the other devices
            exchanged = layer_axes(shapes.size, shapes.mesh, array)
            among = shapes.along(*matrix_axes(array)) if exchanged else 1
            count = NEWTON_SCHULZ * here * array.times / among
            products = (product_s(*each, shapes.chip) for each in newton_schulz(*sides))
            matmul += count * sum(products)
    return DeviceSeconds(matmul, memory=seconds)
