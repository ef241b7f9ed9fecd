"""The answer about several strategies on a topology that is not attached: which one is predicted fastest, where that can be told."""

from collections.abc import Callable, Mapping, Sequence

from spmd_core.results.prediction import PROGRAM, Estimate
from spmd_core.results.result import Result, StrategyResult
from spmd_core.units import seconds_text

Named = Callable[[str], str]
Group = tuple[tuple[str, ...], Estimate]  # strategies that compile to one program, and its time


def sentence(result: Result, named: Named = str) -> str:
    """Which strategy is predicted fastest, which cannot be told from it, which compile to one program, which do not fit.

    `named` gives a strategy's name for reading.
    """
    found = result.strategies
    groups = same_programs(found)
    unfit = [named(name) for name, each in found.items() if each.prediction is not None and not each.prediction.fits]
    absent = f"{_and(unfit)} {_do(unfit, 'does', 'do')} not fit" if unfit else ""
    if not groups:
        return absent or "no strategy was compiled to the end"
    said = [_order(groups, named)]
    said += [f"{_and(list(map(named, names)))} compile to the same program" for names, _ in groups if len(names) > 1 and len(groups) > 1]
    return "; ".join([*said, *([absent] if absent else [])])


def same_programs(found: Mapping[str, StrategyResult]) -> list[Group]:
    """Strategies with a predicted time, those that compile to the same program together, the fastest first."""
    groups: dict[str, tuple[list[str], Estimate]] = {}
    for name, each in found.items():
        if each.predicted_s is not None:
            program = each.prediction.compile.get(PROGRAM) if each.prediction else None
            groups.setdefault(str(program or f"of {name}"), ([], each.predicted_s))[0].append(name)
    return sorted(((tuple(names), time) for names, time in groups.values()), key=lambda group: group[1].estimate)


def overlap(one: Estimate, other: Estimate) -> bool:
    """Whether two predicted times are too close to tell: the estimate of one lies within the interval of the other."""
    return one.low <= other.estimate <= one.high or other.low <= one.estimate <= other.high


def _order(groups: Sequence[Group], named: Named) -> str:
    (names, best), others = groups[0], groups[1:]
    takes = f"{seconds_text(best.estimate)} ({seconds_text(best.low)} to {seconds_text(best.high)})"
    if not others:
        same = "" if len(names) == 1 else " compile to the same program, which"
        return f"{_and(list(map(named, names)))}{same} is predicted to take {takes}"
    close = [group for group in others if overlap(best, group[1])]
    apart = next((group for group in others if not overlap(best, group[1])), None)
    slower = f"{named(apart[0][0])} takes {apart[1].estimate / best.estimate:.3g} times as long" if apart else ""
    if not close:
        fastest = [named(name) for name in names]
        return f"{_and(fastest)} {_do(fastest, 'is', 'are')} predicted fastest, {takes}; {slower}"
    told = [f"{named(name)} ({seconds_text(time.estimate)})" for group, time in (groups[0], *close) for name in group]
    return f"no difference can be told between {_and(told)}: their predicted intervals overlap" + (f"; {slower}" if slower else "")


def _do(names: Sequence[str], one: str, several: str) -> str:
    return one if len(names) == 1 else several


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
