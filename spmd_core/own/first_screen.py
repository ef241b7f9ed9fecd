"""The first screen of an explained step, as lines of text: what matters most comes first."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from math import prod

from spmd_core.base import by_key, bytes_text, mesh_text, seconds_text, span_text, visible
from spmd_core.experiment import spec_code
from spmd_core.program import kind_words
from spmd_core.results import StepArray, StepCollective, StepDescription, StepFinding
from spmd_core.terms import widened_words
from spmd_core.words import all_set_by_words, other_warnings
from spmd_core.workloads import VALUE, Leaf, patterns

MOST_ROWS = 12  # of collectives, and of paths
WIDTH = 100  # columns of a sentence; a line of code is not wrapped
_INDENT = "    "


def lines(step: StepDescription) -> list[str]:
    """Returns the lines of a step's first screen; what its names and lines would do to a terminal
    is written out.
    """
    listed = [*head_lines(step), *_accidents(step.findings), *detail_lines(step)]
    return list(map(visible, listed))


def detail_lines(step: StepDescription) -> list[str]:
    """Returns what comes after the answer and its accidents."""
    # of a long warning its sentence, without what the compiler dumps
    warnings = [
        each if len(each) <= 3 * WIDTH else each.partition(": ")[0][: 3 * WIDTH]
        for each in other_warnings(step)
    ]
    return [
        *_part("The compiler warns", warnings),
        *_collectives(step),
        *_part("Callbacks", step.callbacks),
        *_held(step),
    ]


def head_lines(step: StepDescription) -> Iterator[str]:
    """Returns the answer: where the step is compiled, whether it fits, how long it takes."""
    devices = prod(size for _, size in step.mesh)
    mesh = f"mesh {mesh_text(step.mesh)}" if step.mesh else "one device"
    types = set(step.axis_types) - {"Auto"}
    yield f"{step.function} on {step.target}, {mesh}" + (f" ({', '.join(sorted(types))} axes)" if types else "")  # fmt: skip
    peak = f"peak {bytes_text(step.peak_bytes)} on each of {devices} devices" if devices > 1 else f"peak {bytes_text(step.peak_bytes)}"  # fmt: skip
    if step.fits is not None and step.capacity_bytes:
        answer = "fits" if step.fits else "does not fit"
        peak = f"{answer}: {peak}, of {bytes_text(step.capacity_bytes)}"
    yield peak
    if (time := step.predicted_s) is not None:
        yield (f"predicted {seconds_text(time.estimate)} a step ({span_text(time.low, time.high)})")


def _part(title: str, rows: Sequence[str]) -> list[str]:
    listed = _wrapped(rows[:MOST_ROWS], "  ")
    return ["", title, *listed, *_more(rows)] if rows else []


def _accidents(findings: Sequence[StepFinding]) -> Iterator[str]:
    """Yields a sentence for each finding, and below it the argument of `explain` that tries its fix."""
    yield from ("", "Accidents")[: 2 if findings else 0]
    for each in findings[:MOST_ROWS]:
        yield from _wrapped([f"{'note, ' * each.is_note}{each.kind}: {each.sentence}"], "  ")
        if specs := [(name, spec) for name, spec in each.specs if not name.startswith(VALUE)]:
            given = ", ".join(f"{name!r}: {spec_code(spec)}" for name, spec in specs)
            yield f"{_INDENT}try specs={{{given}}}"
    yield from _more(findings)


def _more(rows: Sequence[object]) -> list[str]:
    return (
        [f"  … and {len(rows) - MOST_ROWS} more, in its JSON form"] if len(rows) > MOST_ROWS else []
    )


def _wrapped(sentences: Iterable[str | None], indent: str) -> list[str]:
    """Returns sentences, each once, in lines of a width; what follows its first line is indented."""
    return [
        line
        for each in dict.fromkeys(filter(None, sentences))
        for line in textwrap.wrap(
            each.replace("`", ""),
            WIDTH,
            initial_indent=indent,
            subsequent_indent=f"{indent}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def _collectives(step: StepDescription) -> Iterator[str]:
    if step.collectives is None:
        return
    total = _moved(step.collectives)
    yield ""
    if not step.collectives:
        yield "No communication"
        return
    unknown = sum(each.count is None for each in step.collectives)
    often = f", {unknown} of unknown count taken once" if unknown else ""
    yield f"Communication: {bytes_text(total)} a device and step{often}"
    if step.target.partition(":")[0] == "cpu":
        yield from _wrapped([widened_words(each.dtype for each in step.arguments)], "  ")
    groups = groups_of(step.collectives)
    for group in groups[:MOST_ROWS]:
        yield from _group(group)
    yield from _more(groups)


def groups_of(collectives: Sequence[StepCollective]) -> list[list[StepCollective]]:
    """Returns collectives that share kind, axes, element type and line; those that a step waits for
    the longest, or that move the most bytes, come first.
    """
    groups = by_key(((each.kind, each.asked, each.axes, each.dtype, each.source), each) for each in collectives)  # fmt: skip
    cost = lambda group: (  # noqa: E731
        -sum(each.exposed_s or 0.0 for each in group),
        -_moved(group),
    )
    return sorted(map(list, groups.values()), key=cost)


def _group(group: Sequence[StepCollective]) -> Iterator[str]:
    first = max(group, key=lambda each: each.bytes_total or each.bytes)
    counts = [each.count for each in group]
    times = "unknown times" if None in counts else f"{sum(filter(None, counts))}x"
    moved = _moved(group)
    exposed = sum(each.exposed_s or 0.0 for each in group)
    waits = f", exposed {seconds_text(exposed)}" if exposed else ""
    over = ", ".join(first.axes) or "no axis"
    yield f"  {kind_words(first)} over {over}: {bytes_text(moved)} ({times}, {first.dtype}){waits}"
    if first.source:
        yield f"{_INDENT}{first.source}  {first.line}".rstrip()
    warning = next((each.warning for each in group if each.warning), None)
    place = [f"in {first.function}"] if first.function else []
    place += [f"scope {first.scope}"] if first.scope else []
    set_by = ". ".join(all_set_by_words(group, is_brief=True))
    why = ": ".join(filter(None, [", ".join(place), first.reason]))
    yield from _wrapped((why, set_by and f"set by {set_by}", warning), _INDENT)


def _moved(group: Iterable[StepCollective]) -> int:
    return sum(each.bytes_total or each.bytes for each in group)


def _held(step: StepDescription) -> Iterator[str]:
    rows = rows_held(step.arguments)
    width = max((len(name) for name, *_ in rows), default=0)
    yield from ("", "Bytes a device")[: 2 if rows else 0]
    for name, spec, held, count in rows[:MOST_ROWS]:
        times = f" ({count} arrays)" if count > 1 else ""
        yield f"  {name:{width}}  {bytes_text(held):>9}  {spec}{times}"
    yield from _more(rows)


def rows_held(arguments: Sequence[StepArray]) -> list[tuple[str, str, int, int]]:
    """Returns pattern, spec, bytes a device and number of the arrays of each group, by bytes."""
    leaves = [
        Leaf(path=each.path, sizes=tuple(map(str, each.shape)), dtype=each.dtype)
        for each in arguments
    ]
    names = patterns(leaves)
    rows = by_key(
        ((names[each.path], ", ".join(filter(None, (each.code, each.memory)))), each)
        for each in arguments
    )
    listed = [
        (name, spec, sum(each.bytes_per_device or 0 for each in group), len(group))
        for (name, spec), group in rows.items()
    ]
    return sorted(listed, key=lambda row: -row[2])
