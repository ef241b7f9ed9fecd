"""Problems of large models: one question each, answered with numbers of the instant estimate."""

from collections.abc import Mapping
from typing import Any

from spmd_core.recipes.recipe import Claims, Expected, Recipe

GROUP = "Problems of large models"


def _plan(
    target: str, mesh: Mapping[str, int], model: str, batch: int, sequence: int, **options: Any
) -> dict[str, object]:
    """The spec of a training step: `batch` sequences of `sequence` tokens over all devices."""
    return {
        "workload": "decoder",
        "target": f"tpu:{target}",
        "mesh": dict(mesh),
        "dims": {"batch": batch, "sequence": sequence},
        "strategies": ["auto"],
        "options": {"model": model, **options},
    }


RECIPES = (
    Recipe(
        "fits_70b",
        "Does 70B fit on 64 chips of v5p?",
        GROUP,
        _plan("v5p:4x4x4", {"fsdp": 64}, "llama-3.1-70b", 128, 8192),
        "The memory bar: HBM per device against what there is, and what takes it.",
        "Parameters, moments and gradients are sharded over all chips, so that they halve when "
        "the chips double. Activations go with the sequences per device, which stay. Where a plan "
        "does not fit, the nearest that does is one click below the headline.",
        screen="predict",
        claims=Claims(varied_fits=False),
    ),
    Recipe(
        "fsdp_or_tensor",
        "FSDP alone, or with a tensor axis?",
        GROUP,
        _plan("v5e:16x16", {"fsdp": 256}, "llama-2-70b", 256, 1024),
        "Exposed communication over fsdp: with so few tokens per device it is 30% of the step.",
        "Over fsdp, each layer's weights are gathered and their gradients summed whatever the "
        "batch: few tokens per device leave little work to hide that. Over tensor, activations "
        "move, which shrink with the batch: a small tensor axis wins here. With four times the "
        "tokens per device, fsdp does.",
        screen="predict",
        claims=Claims(varied_is_faster=True),
    ),
    Recipe(
        "long_context",
        "Long context: what grows?",
        GROUP,
        _plan("v5p:4x4x4", {"fsdp": 64}, "llama-3.1-8b", 64, 32768),
        "Attention kernels: at 32k tokens already more than half of the step.",
        "Matrix products grow with the tokens, attention with their square, and what the forward "
        "pass saves with the tokens of one device. At 128k nearly all of the step is attention. "
        "Then an axis named sequence shards each sequence: memory per device is as before, for an "
        "all-to-all of heads against tokens.",
        screen="predict",
        claims=Claims(varied_is_faster=False),
    ),
    Recipe(
        "mixture_of_experts",
        "Mixture of experts: FSDP or expert?",
        GROUP,
        _plan("v5p:4x4x4", {"fsdp": 64}, "mixtral-8x7b", 256, 4096),
        "MFU: only two of eight experts see a token, but all eight are gathered in each layer.",
        "An expert axis keeps experts where they are: tokens go to them by an all-to-all, in place "
        "of gathers of the experts. At this size the gathers hide behind the matmuls and the "
        "all-to-all does not. The expert axis takes less memory and, by the estimate, a little "
        "more time: less than the estimate is uncertain by.",
        screen="predict",
        claims=Claims(varied_is_faster=False),
    ),
    Recipe(
        "remat_or_offload",
        "Rematerialize, or offload?",
        GROUP,
        _plan("v6e:16x16", {"fsdp": 256}, "llama-2-70b", 512, 4096),
        "Full rematerialization: the forward pass is computed twice, and only block inputs "
        "are saved.",
        "Saving the projections too would spare computing them again, but they are more than "
        "there is HBM. Offloaded, they fit, and cross the host's link in the forward pass and "
        "back: on this chip that takes longer than to compute them again.",
        screen="predict",
        claims=Claims(varied_is_faster=False),
    ),
    Recipe(
        "two_slices",
        "Two slices over DCN",
        GROUP,
        _plan("v5e:16x16*2", {"data": 2, "fsdp": 256}, "scaled:32", 2048, 2048),
        "The step on two slices: data over the slices, fsdp within each.",
        "Over data only the gradients cross DCN, once a step, beside the backward pass. With fsdp "
        "over both slices weights would cross it too, in each layer. What two slices cost beyond "
        "one is mostly that each step waits for the slower of them.",
        screen="predict",
        claims=Claims(varied_is_faster=False),
    ),
    Recipe(
        "why_all_gather",
        "Why is there an all-gather?",
        GROUP,
        {
            "workload": "layer",
            "mesh": {"x": 8},
            "dims": {"batch": 64, "in": 256, "out": 128},
            "sharding": {"batch": "x"},
            "overrides": {"weights": ["x", None]},
            "strategies": ["single", "auto"],
        },
        "Why: one all-gather over x, of the weights, and the line that caused it.",
        "Rows and weights are sharded over the same axis. A device's rows need all of the "
        "weights, so the compiler gathers them: that is FSDP, where it is meant to be. Where it "
        "is not, some operand has a sharding that its matmul cannot use: shard it otherwise, or "
        "replicate it.",
        expected=Expected(collectives={"single": frozenset(), "auto": frozenset({"all-gather"})}),
        asks_why=True,
    ),
    Recipe(
        "host_memory",
        "Activations or moments in host memory?",
        GROUP,
        _plan("v5e:16x16", {"fsdp": 256}, "llama-2-70b", 1024, 2048),
        "The headline does not fit, and the line below it: offloaded block inputs are enough.",
        "Block inputs are saved once per layer and used once: the link to the host moves them "
        "beside the work of the next layers. The moments of the optimizer (pinned_host in JAX) "
        "are needed all at once, in the update, with nothing beside it, if only once a step.",
        screen="predict",
        shows_moments=True,
        claims=Claims(fits=False, nearest="offload block inputs"),
    ),
    Recipe(
        "scaling_out",
        "From 64 to 512 chips",
        GROUP,
        _plan("v5e:8x8", {"fsdp": 64}, "llama-3.1-8b", 512, 2048),
        "MFU on 64 chips. Then the same batch on eight times the chips.",
        "The batch stays, so that each device has an eighth of the work, but communicates the "
        "same weights and gradients: their share of the step grows, and eight times the chips "
        "are not eight times as fast. With eight times the batch MFU stays, but the optimizer "
        "takes fewer, larger steps.",
        screen="predict",
        claims=Claims(varied_is_faster=True),
    ),
    Recipe(
        "mfu_left",
        "MFU below 45%: where does the rest go?",
        GROUP,
        _plan("v6e:16x16", {"fsdp": 256}, "llama-3.1-8b", 768, 8192),
        "Where the time goes: attention kernels are two fifths of the step.",
        "MFU counts model FLOP alone. What is computed again for the backward pass is not among "
        "them, attention kernels run far below the peak of the matrix unit, and matrix products "
        "reach about nine tenths of it. Little is left for communication to give back.",
        screen="predict",
        claims=Claims(),
    ),
)
