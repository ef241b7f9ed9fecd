"""What limits a predicted step: what it waits for, where that is worth a change."""

from collections.abc import Mapping, Sequence

from spmd_core.base import seconds_text, sums_by_key
from spmd_core.facts import Collective, Prediction
from spmd_core.program import is_ring
from spmd_core.terms import listed
from spmd_core.words import predictions

_WAITS = 0.1  # of a step: waits for collectives that are worth a change


def waiting(prediction: Prediction) -> float:
    """Returns the share of a step that waits for collectives; 0 where it is too small for a change."""
    total = sum(prediction.shares_s.values()) or 1.0
    share = sum(_waits(prediction).values()) / total
    return share if share > _WAITS else 0.0


def limit_words(prediction: Prediction) -> str:
    """Returns what a step takes the longest for: what it waits for where that is worth a change."""
    if not prediction.fits:
        held = predictions.held_words(prediction)
        return f"{held[:1].lower()}{held[1:]}"
    if share := waiting(prediction):
        over = _waits_over(prediction.shares_by_axis, prediction.collectives)
        return over or f"{share:.0%} of the step waits for {listed(_most(_waits(prediction)))}"
    bound = predictions.bound_by(prediction)
    largest = "largest share "
    if bound.startswith(largest):
        return f"the largest share of the step is {bound.removeprefix(largest)}"
    return f"the step is {bound}"


def waits_words(shares: Mapping[str, float], collectives: Sequence[Collective]) -> str:
    """Returns what a partitioned program waits for, in the words of a compiled one; "" where that is
    too small for a change. `shares`: seconds of its step, waits by axes.
    """
    share = sum(_by_axis(shares).values()) / (sum(shares.values()) or 1.0)
    return _waits_over(shares, collectives) if share > _WAITS else ""


def _waits_over(shares: Mapping[str, float], collectives: Sequence[Collective]) -> str:
    if not (by_axis := _by_axis(shares)):
        return ""
    named = _most(by_axis)  # whose bars the share is of
    share = sum(map(by_axis.__getitem__, named)) / sum(shares.values())
    kinds = sums_by_key(
        (_asked(each), each.exposed_in_all_s)
        for each in collectives
        if " ".join(each.axes) in named
    )
    axes = listed([*dict.fromkeys(axis for axes in named for axis in axes.split())])
    return f"{share:.0%} of the step waits for {listed(_most(kinds))} over {axes}"


def _by_axis(shares: Mapping[str, float]) -> dict[str, float]:
    """Returns the seconds that a step waits for collectives, by their axes."""
    exposed = "exposed: "
    return {
        name.removeprefix(exposed): seconds
        for name, seconds in shares.items()
        if name.startswith(exposed)
    }


def waits_at(prediction: Prediction) -> str:
    """Returns the source line whose collectives a step waits for the longest, with its share of the
    step; "" where no line is known, or no wait is worth a change.
    """
    seconds: dict[str, float] = {}
    for each in prediction.collectives:
        if each.source:
            waited = each.exposed_total_s or (each.exposed_s or 0.0) * each.times
            seconds[each.source] = seconds.get(each.source, 0.0) + waited
    total = sum(prediction.shares_s.values()) or 1.0
    source = max(seconds, key=seconds.__getitem__, default="")
    share = seconds.get(source, 0.0) / total
    return f"{share:.0%} at {source}" if share > _WAITS and waiting(prediction) else ""


def requested_words(prediction: Prediction) -> str:
    """Returns what a step waits for that its author wrote in shard_map, which no spec removes, and the
    work that may hide it; "" where that is less than half of its waits, or they are worth no change.
    """
    listed = [each for each in prediction.collectives if each.exposed_in_all_s]
    waited = sum(each.exposed_in_all_s for each in listed)
    own = [
        each for each in listed if each.origin and {o.kind for o in each.origin} == {"shard_map"}
    ]
    exposed = sum(each.exposed_in_all_s for each in own)
    if not waiting(prediction) or 2 * exposed < waited:
        return ""
    first = max(own, key=lambda each: each.exposed_in_all_s)
    alike = [each for each in own if each.source == first.source]
    takes = sum(each.total_s or 0.0 for each in alike)
    work = sum(s for name, s in prediction.shares_s.items() if not name.startswith("wait: "))
    at = f" at {first.source}" if first.source else ""
    hides = f"the other {seconds_text(work)} of the step can hide no more than that"
    if work >= takes:
        hides = (
            f"the other {seconds_text(work)} of the step could hide it: call it before the work that "
            "does not need its result"
        )
    name = first.origin[0].name
    return (
        f"The program itself calls {name}{at}, so no spec removes it. It takes "
        f"{seconds_text(takes)}; {hides}."
    )


def _waits(prediction: Prediction) -> dict[str, float]:
    """Returns the seconds of a step that wait for collectives, by kind."""
    kinds = {each.kind for each in prediction.collectives}
    of = {f"wait: {kind}": kind for kind in kinds}
    return {of[name]: s for name, s in prediction.shares_s.items() if name in of}


def _asked(each: Collective) -> str:
    """Returns the kind of a collective, of a step of a ring the one that the program requested."""
    return (each.asked if is_ring(each) else None) or each.kind


def _most(seconds: dict[str, float]) -> list[str]:
    """Returns what takes at least a tenth of all, the longest first."""
    least = sum(seconds.values()) / 10
    return sorted((e for e in seconds if seconds[e] >= least), key=lambda each: -seconds[each])
