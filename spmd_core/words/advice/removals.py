"""What was compiled and removes a collective as the next thing to try: one answer on a screen."""

from spmd_core.results import Next, Remedy, StrategyResult


def remedied(outcome: StrategyResult) -> Next | None:
    """The remedy that saves the largest share of a program's time; None where nothing was tried, or
    nothing helps.
    """
    remedies = [
        each.remove for each in outcome.collectives or () if isinstance(each.remove, Remedy)
    ]
    if not remedies:
        return None
    best = max(remedies, key=_saved)
    return Next(
        rule="remedy",
        number=_saved(best),
        experiment=best.experiment,
        sentence=f"{_saved(best):.0%} less time, {'measured' if best.measured_s else 'predicted'}: {best.sentence}.",
    )


def _saved(remedy: Remedy) -> float:
    seconds = remedy.measured_s or remedy.predicted_s
    return 1 - seconds.after / seconds.before
