"""Differences between experiments, part by part, and the sentence that compares two runs."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from spmd_core.base import RequestError, by_key, capital, numbered, seconds_text
from spmd_core.experiment import Experiment, spec_code
from spmd_core.fields import Spec
from spmd_core.results import Between
from spmd_core.terms import parts_words
from spmd_core.words import factor_with_ends
from spmd_core.workloads import Program, matches

NOT_THERE = "none"
_SHARDED = " sharded over"  # the end of the label of a dim
_VARIES = "differs by variant"
Row = tuple[str, list[str]]  # label, then a text for each experiment


@dataclass(frozen=True, slots=True)
class _Member:
    """A variant, or an experiment that is no study (without a name), as texts by label."""

    name: str
    texts: Mapping[str, str]

    def text(self, label: str) -> str:
        return self.texts.get(label, NOT_THERE)


_Study = list[_Member]
_Group = list[_Member | None]  # the corresponding variant of each experiment


def difference_rows(experiments: Sequence[Experiment]) -> list[Row]:
    """A row for each part in which experiments differ, and only these; of studies a row for what
    all variants share, then one for each variant with what differs in it. Beside an experiment that is
    none, a study has what each of its variants has: `x (rows); none (cols)`. Of different workloads no
    row for what only one of them has.

    Variants are the same by their names, or by their places where their names differ.
    """
    every = [each.experiment for experiment in experiments for each in experiment.members]
    arrays = dict.fromkeys(array for each in every for array, _ in each.overrides)
    held = [_program(each) for each in every]
    arguments = _shared_arguments(held)
    names = {each.described.program: each.described.name for each in held if each}
    is_named = len({*names.values()}) == len(names)

    def texts(experiment: Experiment) -> dict[str, str]:
        parts = parts_words(experiment) | _specs(experiment, arrays)
        if not (program := _program(experiment)):
            return parts
        given = {f"spec of {pattern}" for pattern, _ in program.specs if arguments}
        parts = {label: text for label, text in parts.items() if label not in given}
        called = {"program": program.described.name} if is_named else {}
        return parts | called | _specs_of(program, arguments)

    studies = [
        [_Member(each.name, texts(each.experiment)) for each in experiment.members]
        for experiment in experiments
    ]
    labels = list(dict.fromkeys(label for of in studies for each in of for label in each.texts))
    varying = [label for label in labels if any(len(_texts(of, label)) > 1 for of in studies)]
    if not all(experiment.variants for experiment in experiments):
        return _of_each(studies, labels)
    shared = [(label, [_shared(of, label) for of in studies]) for label in labels]
    groups = _groups([[each for each in of if each.name] for of in studies])
    # the variants' rows have the others
    shared = [(label, texts) for label, texts in shared if _VARIES not in texts]
    return [
        *((label, texts) for label, texts in shared if len(set(texts)) > 1),
        *(row for group in groups if (row := _of_variant(group, varying)) is not None),
    ]


def _of_each(studies: Sequence[_Study], labels: Sequence[str]) -> list[Row]:
    """Returns the parts in which these differ, of different workloads those that two of them have."""
    either = ((label, [_by_variant(of, label) for of in studies]) for label in labels)
    rows = [(label, texts) for label, texts in either if len(set(texts)) > 1]
    is_mixed = any(label == "workload" for label, _ in rows)
    return [row for row in rows if not is_mixed or len(row[1]) - row[1].count(NOT_THERE) > 1]


def _specs(experiment: Experiment, arrays: Iterable[str]) -> dict[str, str]:
    """Returns the specs of those of these arrays that an experiment has, its own or by its dims."""
    names = {array.name for array in (*experiment.what.operands, *experiment.what.results)}
    specs = {name: experiment.spec(name) for name in arrays if name in names}
    return {f"spec of {name}": _spec_words(spec) for name, spec in specs.items()}


def _program(experiment: Experiment) -> Program | None:
    with suppress(RequestError):  # a program that was never held here
        return experiment.exported
    return None


def _shared_arguments(programs: Sequence[Program | None]) -> list[str]:
    """Returns the paths of the arguments that all programs have, the largest first; none where an
    experiment is none.
    """
    every = [
        {each.leaf.path: each.bytes for each in program.arguments()}
        for program in programs
        if program
    ]
    if not every or len(every) < len(programs):
        return []
    shared = [path for path in every[0] if all(path in each for each in every)]
    return sorted(shared, key=lambda path: -every[0][path])


def _specs_of(program: Program, arguments: Sequence[str]) -> dict[str, str]:
    """Returns the specs that a program has of these arguments: its file's, or those given in place of
    them; and those given to what is no argument.
    """
    specs, leaves = program.array_specs(), [each.path for each in program.described.arguments]
    shown = {"donated": _donated(program)} if arguments else {}
    shown |= {f"spec of {path}": _spec_words(specs[path]) for path in arguments}
    others = (
        (pattern, spec)
        for pattern, spec in program.specs
        if arguments and not any(matches(pattern, path) for path in leaves)
    )
    return shown | {f"spec of {pattern}": _spec_words(spec) for pattern, spec in others}


def _donated(program: Program) -> str:
    """Returns the arguments that a program donates, by the first part of their paths."""
    leaves = program.described.arguments
    of = by_key((each.path.partition("/")[0], each.is_donated) for each in leaves)
    names = [f"{name}{' in part' * (not all(each))}" for name, each in of.items() if any(each)]
    return ", ".join(names) or NOT_THERE


def _spec_words(spec: Spec) -> str:
    return spec_code(spec) if any(spec) else "replicated"


def part_words(label: str, text: str) -> str:
    """Returns a part of an experiment in a few words: `weights replicated`, `with trace`."""
    if label.endswith(_SHARDED):
        dim = label.removesuffix(_SHARDED)
        return f"{dim} not sharded" if text == NOT_THERE else f"{dim} over {text}"
    name = label.removeprefix("size of ").removeprefix("spec of ")
    switched = {"True": f"with {name}", NOT_THERE: f"without {name}"}
    return switched.get(text, f"{name} {text}")


def _texts(study: _Study, label: str) -> list[str]:
    return list(dict.fromkeys(each.text(label) for each in study))


def _by_variant(study: _Study, label: str) -> str:
    """Returns what the variants of a study have, each text with the names of those that have it."""
    if len(texts := _texts(study, label)) == 1:
        return texts.pop()
    of = by_key((each.text(label), each.name) for each in study)
    return "; ".join(f"{text} ({', '.join(names)})" for text, names in of.items())


def _shared(study: _Study, label: str) -> str:
    texts = _texts(study, label)
    return texts.pop() if len(texts) == 1 else _VARIES


def _groups(studies: Sequence[_Study]) -> list[_Group]:
    """The corresponding variants of all studies; None where a study has none."""
    groups: list[_Group] = []
    for place, study in enumerate(studies):
        for is_named in (True, False):  # first by name, then whichever is left
            for variant in study:
                if any(group[place] is variant for group in groups):
                    continue
                same = (
                    group
                    for group in groups
                    if group[place] is None and (not is_named or variant.name in _names(group))
                )
                if (group := next(same, None)) is None and not is_named:
                    groups.append(group := [None] * len(studies))
                if group is not None:
                    group[place] = variant  # pyrefly: ignore[unsupported-operation]
    return groups


def _names(group: _Group) -> list[str]:
    return list(dict.fromkeys(each.name for each in group if each is not None))


def _of_variant(group: _Group, varying: Sequence[str]) -> Row | None:
    """What differs in the variants of a group; None where nothing does."""
    present = [each for each in group if each is not None]
    differing = [label for label in varying if len(_texts(present, label)) > 1]
    if len(present) == len(group) and not differing:
        return None
    shown = differing or [label for label in varying if any(label in of.texts for of in present)]
    texts = [
        NOT_THERE
        if each is None
        else ", ".join(f"{label} {each.text(label)}" for label in shown) or "as shared"
        for each in group
    ]
    return f"variant {' → '.join(_names(group))}", texts


_BASES = {
    "measured": "Measured runs are compared by their samples over different processes, so smaller "
    "differences than inside one run cannot be seen.",
    "predicted": "Predictions are compared by their intervals: nothing was executed.",
}


def basis_words(pairs: Iterable[Between]) -> str:
    """What the comparisons rest on, a sentence for each basis; empty where none has a verdict."""
    bases = {pair.basis for pair in pairs}
    return " ".join(sentence for basis, sentence in _BASES.items() if basis in bases)


def between_words(
    pair: Between,
    names: Mapping[str, str],
    seconds: Mapping[str, float | None],
    rows: Mapping[str, str] | None = None,
    has_badge: bool = False,
) -> str:
    """Returns a sentence such as `A is 1.50× (1.40 to 1.60) faster than B: 2 ms against 3 ms.`, of no
    verdict `Cannot tell whether A or B is faster: A 2 ms, B 3 ms; B takes 0.8 to 2 times as long.`;
    `has_badge`: beside a badge of the times' evidence.

    `names` and `seconds` are by run, and so are the titles of the compared `rows`, which are named
    where they differ. The faster run comes first, whichever is the baseline.
    """
    mine, theirs = names[pair.run], names[pair.baseline]
    if pair.verdict is None or pair.ratio is None or pair.interval is None:
        return f"{mine} is not compared with {theirs}: {pair.why_none}."
    of = {
        run: f" ({row})" for run, row in (rows or {}).items() if len({*(rows or {}).values()}) > 1
    }
    known = [run for run, time in seconds.items() if time is not None]
    times = {run: f"{seconds_text(seconds[run])}{of.get(run, '')}" for run in known}
    kind = ", predicted" if pair.basis == "predicted" and not has_badge else ""
    apart = f"; {', '.join(pair.apart)}" if pair.apart else ""
    per = " per token" if pair.per_token else ""
    if pair.verdict not in ("the same", "cannot tell"):
        first, last = sorted((pair.run, pair.baseline), key=lambda run: run != pair.faster)
        ratio = factor_words(pair.ratio, pair.interval)
        than = f"{names[first]} is {ratio} faster{per} than {names[last]}"
        return f"{than}: {' against '.join(times[run] for run in (first, last) if run in times)}{kind}{apart}."
    known.sort(key=names.__getitem__)
    listed = ", ".join(f"{names[run]} {times[run]}" for run in known)
    longer = as_long_words(pair.ratio, pair.interval)
    verdict = _even_words(pair, mine, theirs, per)
    return f"{verdict}: {listed}{kind}; {mine} takes {longer}{apart}."


def _even_words(pair: Between, mine: str, theirs: str, per: str) -> str:
    if pair.verdict == "the same":
        return f"{mine} takes the same time{per} as {theirs}"
    few = f" from {numbered(pair.processes, 'process')} of each" if pair.processes else ""
    few = ", with too few rounds" if pair.is_few else few
    either = " or ".join(sorted((mine, theirs)))
    return f"Cannot tell whether {either} is faster{per}{few}"


_CALLED = ("the study", "the run", "study of ", "run of ")  # and no name of an axis
_OF_WORK = ("workload", "program", "model", "dtype")  # labels of what is computed; and sizes
_MOST_NAMED = 3


def work_words(
    runs: Sequence[str],
    names: Mapping[str, str],
    seconds: Mapping[str, float | None],
    beside: Mapping[str, Sequence[str]],
    differences: Mapping[str, Sequence[str]],
) -> str:
    """Returns a sentence of runs that compute other things than the last, the baseline: what differs,
    where it is alike in all, then the times, no verdict: `Different work (rows 64 against 8192). A: 1 ms;
    B: 9 ms.`

    Args:
      beside: what stands beside the time of each run, such as its rate.
      differences: the texts of the runs, the baseline's last, by label.
    """
    named = [
        f"{label.removeprefix('size of ')} {texts[0]} against {texts[-1]}"
        for label, texts in differences.items()
        if label in _OF_WORK or (label.startswith("size of ") and "workload" not in differences)
        if NOT_THERE not in texts and len({*texts[:-1]}) == 1
        if not all(text in names[run] for run, text in zip(runs, texts, strict=True))
    ]
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    what = f" ({', '.join(named[:_MOST_NAMED])}{more})" if named else ""
    times = (
        ", ".join([f"{names[run]}: {seconds_text(time)}", *beside.get(run, ())])
        for run in runs
        if (time := seconds.get(run)) is not None
    )
    return f"Different work{what}. {begun('; '.join(times))}."


def begun(sentence: str) -> str:
    """Returns a sentence with a capital where it begins with what a run beside a study is called."""
    return capital(sentence) if sentence.startswith(_CALLED) else sentence


def factor_words(ratio: float, interval: tuple[float, float], judged: str = "") -> str:
    """The factor between two times, never below 1, whichever of them is the shorter."""
    low, high = interval
    return (
        ratio_interval_words(1 / ratio, (1 / high, 1 / low), judged)
        if ratio < 1
        else ratio_interval_words(ratio, interval, judged)
    )


def as_long_words(ratio: float, interval: tuple[float, float]) -> str:
    """Returns a ratio of two times that no verdict turns: `0.8 to 2.5 times as long`."""
    return factor_with_ends(ratio, interval, " times as long")


def ratio_interval_words(ratio: float, interval: tuple[float, float], judged: str = "") -> str:
    """A ratio with its interval: `2.50× (2.25 to 2.75)`, `2.50× slower (2.25 to 2.75)`."""
    return factor_with_ends(ratio, interval, f"× {judged}".rstrip())
