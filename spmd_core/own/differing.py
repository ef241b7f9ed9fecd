"""What differs between two descriptions of a step."""

from collections import Counter
from collections.abc import Iterator

from spmd_core.base import bytes_text, seconds_text
from spmd_core.results import StepCollective, StepDescription


def differences(before: StepDescription, after: StepDescription) -> tuple[str, ...]:
    """Returns a line for each change: collectives, specs and donations, findings, memory and time."""
    return (
        *_of_collectives(before, after),
        *_of_arguments(before, after),
        *_of_findings(before, after),
        *_of_figures(before, after),
    )


def _of_collectives(before: StepDescription, after: StepDescription) -> Iterator[str]:
    first, second = (_counted(each) for each in (before, after))
    for word, more in (("new", second - first), ("gone", first - second)):
        for (kind, axes, dtype, size, place), count in more.items():
            times = f" {count}x" if count > 1 else ""
            over = ", ".join(axes) or "no axis"
            yield f"{word}: {kind} over {over}{times}, {bytes_text(size)} a step, {dtype}{place}"


def _counted(step: StepDescription) -> Counter[tuple[str, tuple[str, ...], str, int, str]]:
    return Counter(map(_key, step.collectives or ()))


def _key(each: StepCollective) -> tuple[str, tuple[str, ...], str, int, str]:
    """What makes a collective another one: no number of a line does."""
    path = (each.source or "").rpartition(":")[0]
    place = f", {path}  {each.line}" if path else ""
    return each.kind, each.axes, each.dtype, each.bytes_total or each.bytes, place


def _of_arguments(before: StepDescription, after: StepDescription) -> Iterator[str]:
    first = {each.path: each for each in before.arguments}
    for path, each in {each.path: each for each in after.arguments}.items():
        if (was := first.pop(path, None)) is None:
            yield f"new: argument {path} {each.code}"
            continue
        for what in ("code", "dtype", "shape", "donated"):
            if (old := getattr(was, what)) != (new := getattr(each, what)):
                yield f"changed: {path} was {_words(what, old)}, now {_words(what, new)}"
    for path, each in first.items():
        yield f"gone: argument {path} {each.code}"


def _words(what: str, value: object) -> str:
    return ("donated" if value else "not donated") if what == "donated" else str(value)


def _of_findings(before: StepDescription, after: StepDescription) -> Iterator[str]:
    first, second = ({each.sentence for each in step.findings} for step in (before, after))
    yield from (f"new: {sentence}" for sentence in sorted(second - first))
    yield from (f"gone: {sentence}" for sentence in sorted(first - second))


def _of_figures(before: StepDescription, after: StepDescription) -> Iterator[str]:
    if before.peak_bytes != after.peak_bytes:
        yield f"changed: peak was {bytes_text(before.peak_bytes)}, now {bytes_text(after.peak_bytes)}"
    first, second = (each.predicted_s and each.predicted_s.estimate for each in (before, after))
    if first != second:
        yield f"changed: predicted time was {seconds_text(first)}, now {seconds_text(second)}"
