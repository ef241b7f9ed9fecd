"""Training in parallel: each device has part of the batch, and the gradient is the mean over the
devices.
"""

from spmd_core.recipes.recipe import Expected, Recipe, program_spec

GROUP = "Training in parallel"
WAYS = ("pmap", "shard_map", "auto")

RECIPES = (
    Recipe(
        "linear_gradient",
        "Linear regression",
        GROUP,
        program_spec("linear_gradient"),
        "Four gradients that agree to the last digits; the losses fall from 4.3 to 0.011, and the "
        "weights reach the least-squares solution.",
        "Each device computes the gradient on its own rows, pmean averages, and all take the same "
        "step. With equal shares that is the gradient of "
        "the whole batch. pmap averages gradients, shard_map differentiates the averaged loss, "
        "and auto leaves all of it to the compiler.",
        expected=Expected(
            values={
                "one_device": (-2.265976, 2.899352, -0.85520405),
                "pmap": (-2.265976, 2.899352, -0.85520405),
                "shard_map": (-2.265976, 2.899352, -0.85520405),
                "auto": (-2.265976, 2.899352, -0.85520405),
            },
            shapes={"losses": (60,), "weights": (3,)},
            tolerance=2e-6,
            contains={f"{way} against one device": ("largest difference",) for way in WAYS},
        ),
    ),
    Recipe(
        "network_gradient",
        "How do devices average gradients?",
        GROUP,
        program_spec("network_gradient"),
        "A trap: pmean of gradients inside shard_map gives 8 times the gradient. The other gradients "
        "agree, and the losses fall.",
        "value_and_grad gives the loss to watch and the gradient to follow from one pass. Under "
        "pmap, average the gradients. Inside shard_map the "
        "parameters are known to be equal on all devices, and differentiating in them already "
        "adds over the devices: averaging these sums leaves "
        "them 8 times too large. Average the loss before differentiating, and it is right.",
        expected=Expected(
            values={"first_loss": (0.39835924,), "gradient_of_b2": (-0.5309895,)},
            shapes={"losses": (100,)},
            tolerance=2e-6,
            printed={"pmean of gradients inside shard_map": "8 times the gradient"},
            contains={f"{way} against one device": ("largest difference",) for way in WAYS},
        ),
        takes="15 s",
    ),
)
