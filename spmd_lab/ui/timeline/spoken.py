"""The sentences about a timeline: what each span is, in a tooltip and for who cannot see it."""

from spmd_core.base import seconds_text
from spmd_core.pictures import EXPOSED, Timeline, mix
from spmd_core.words import names_of

# Kinds of time of a traced step that a prediction does not have
TRACED_KINDS = {
    "memory": "other computation",
    "wait": "waiting for other devices",
    "hidden": "hidden collectives",
    "exposed": "exposed collectives",
}
COMPONENT = {  # labels of the component itself
    "title": "Timeline",
    "path": "Where you are in the timeline",
    "search": "Search operations",
    "in": "Zoom in",
    "out": "Zoom out",
    "all": "All",
    "here": "here",
    "in_all": "in all",
    "time": "Time",
    "times": "Times in a step",
    "total": "In all",
    "passes": "Passes",
    "hidden": "Hidden",
    "exposed": "Exposed",
    "bytes": "Bytes per device",
    "rate": "Rate",
    "source": "Source",
    "waits_for": "Waits, and who waits:",
    "needs": "Needs:",
    "needed_by": "Needed by:",
    "enter": "Enter the loop",
    "keys": "Click an operation for its facts, a loop to enter it. Drag or ← → to move, wheel "
    "or + − to zoom, Shift with ← → for the next operation, ↑ ↓ for another row, Enter "
    "for a loop, Backspace to go back, / to search.",
}


def short_name(name: str) -> str:
    """A name short enough for a bar.

    >>> short_name("backward, layer, gate matmul"), short_name("waits for a copy")
    ('gate matmul', 'waits')
    """
    if name.startswith("waits for"):
        return "waits"
    first, for_, whom = name.partition(" for ")
    last = name.rsplit(", ", 1)[-1]
    if for_:
        return f"{first} for {whom.rsplit(', ', 1)[-1]}"
    if last == "layers":
        return name
    return last


def scene_words(timeline: Timeline, number: int) -> str:
    """The title of a scene: the step, or the loop's name and how often it runs."""
    scene = timeline.scenes[number]
    if scene.parent is None:
        return "whole step" if timeline.predicted else "one step, as traced"
    above = timeline.scenes[scene.parent]
    at = next(at for at, span in enumerate(above.spans) if span.inside == number)
    return f"{names_of(above)[at]} × {scene.times // above.times:,}"


def scene_alt(timeline: Timeline, number: int) -> str:
    """A scene in a sentence, for screen readers: the longest operations."""
    scene, names = timeline.scenes[number], names_of(timeline.scenes[number])
    longest = sorted(range(len(names)), key=lambda at: -scene.spans[at].length_s)[:5]
    listed = "; ".join(f"{names[at]} {seconds_text(scene.spans[at].length_s)}" for at in longest)
    return (
        f"Timeline of {scene_words(timeline, number)}, {seconds_text(scene.length_s)}, "
        f"{len(names)} operations. The longest: {listed}."
    )


def scene_summary(timeline: Timeline, number: int) -> str:
    """How long a scene takes, and what is too short to be drawn."""
    scene = timeline.scenes[number]
    passes = f", {scene.times:,} times in a step" if scene.times > 1 else ""
    exposed = scene.exposed_s or mix(timeline, number).get(EXPOSED, 0.0)
    waits = f", {seconds_text(exposed)} of it exposed communication" if exposed else ""
    left = (
        f" {scene.left_out:,} shorter operations, {seconds_text(scene.left_out_s)} together, "
        "are left out."
        if scene.left_out
        else ""
    )
    if scene.parent is not None:
        what = "One pass"
    elif timeline.predicted:
        what = "The whole step"
    else:
        what = "One step, as traced"
    return f"{what}: {seconds_text(scene.length_s)}{passes}{waits}.{left}"
