"""What the screens are for, in a sentence each."""

from dataclasses import dataclass

from spmd_core.machine import parse_target

WHAT_THIS_IS = (
    "SPMD Lab runs JAX programs sharded over a mesh of devices, and shows what each "
    "device holds, what communicates and why, and how long each strategy takes: on the "
    "devices here, or predicted for TPUs and GPUs that are not attached."
)


@dataclass(frozen=True, slots=True)
class Start:
    """A screen to start on: its name in the menu, what a click does, and its purpose."""

    screen: str
    call: str
    words: str


STARTS = (
    Start(
        "layout",
        "See who holds what",
        "Shard an array over a mesh, and see which device holds which shard.",
    ),
    Start(
        "compare",
        "Compare strategies",
        "Run one computation under several sharding strategies, and see which is fastest, and why.",
    ),
    Start(
        "predict",
        "Predict a training step",
        "Choose a model and TPUs or GPUs that are not attached: whether it fits, how long a "
        "step takes, and what binds it.",
    ),
    Start(
        "search",
        "Search shardings",
        "Choose a model and chips, or a computation: which mesh and sharding is best, how sure "
        "that is, and why not another.",
    ),
    Start(
        "collectives",
        "Measure collectives",
        "Time every collective over every axis of a mesh here, or predict it for TPUs and GPUs that "
        "are not attached: latency, bandwidth, and the machine's ceilings.",
    ),
    Start(
        "recipes",
        "Open a recipe",
        "The classic examples, cell by cell, and problems of large models, such as whether 70B "
        "fits: one click each.",
    ),
    Start(
        "programs",
        "Drop a step of your own",
        "A jitted step as `jax.export` writes it: what each device holds, what is replicated by "
        "accident, and what it would communicate and cost, on any mesh.",
    ),
    Start(
        "history",
        "See stored runs",
        "What was measured and predicted: search it, name runs, set two to eight side by side, "
        "and send a report or an archive of them.",
    ),
    Start(
        "notebook",
        "Write up results",
        "A page for your team: runs, studies and searches in order, with your text between them, "
        "under one link.",
    ),
)


def screen_title(screen: str) -> str:
    """What a screen is called: its path, but for one that would read as a search of the site."""
    return "Find a sharding" if screen == "search" else screen.capitalize()


def not_placed_words(target: str, sentence: str) -> str:
    """Why the array of the picture is not put on devices here; `sentence`: why those that are here
    cannot hold it.
    """
    if parse_target(target).is_absent:
        return (
            f"{target} is not attached: this is where JAX places the shards there, and "
            "nothing is placed here."
        )
    return f"It cannot be placed here: {sentence}"
