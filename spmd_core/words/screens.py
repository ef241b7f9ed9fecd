"""What the screens are for, in a sentence each."""

from dataclasses import dataclass

from spmd_core.machine import parse_target

WHAT_THIS_IS = (
    "Shard a JAX program over a mesh: see what each device holds, what communicates and why, and "
    "how long it takes, here or on TPUs and GPUs that are not attached."
)


@dataclass(frozen=True, slots=True)
class Start:
    """A question to start with: the screen that answers it, what a click does, and how."""

    screen: str
    question: str
    call: str
    words: str


STARTS = (
    Start(
        "layout",
        "Who holds what?",
        "See the shards",
        "An array over a mesh, and which device holds which shard.",
    ),
    Start(
        "compare",
        "What is fastest, and why?",
        "Compare strategies",
        "One computation under several shardings, timed side by side.",
    ),
    Start(
        "predict",
        "Does my model fit?",
        "Predict a training step",
        "Memory, the time of a step and what binds it, without a TPU or GPU.",
    ),
    Start(
        "programs",
        "Your own program",
        "Drop a step of your own",
        "A step as `jax.export` writes it: what is replicated, sent and paid for on any mesh.",
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
