"""Sentences about a program that somebody exported: its findings, before and after a compile."""

import math
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from spmd_core.advice.fixes import (
    Specs,
    batch_over,
    by_cost,
    mending,
    result_spec,
    unrefuted,
    with_state,
)
from spmd_core.advice.repeated import Known, is_listed, repeated_words, surplus_words
from spmd_core.advice.ring_words import ring_code, ring_words
from spmd_core.base import RequestError, agreed, bytes_text, capital, mesh_text, numbered
from spmd_core.experiment import Experiment, spec_code
from spmd_core.facts import Accident, Collective, LostBatch
from spmd_core.fields import Spec
from spmd_core.results import (
    CompiledStep,
    Result,
    StepArray,
    StepCollective,
    StepFinding,
    StrategyResult,
)
from spmd_core.terms import listed
from spmd_core.words import own_words
from spmd_core.workloads import (
    VALUE,
    Finding,
    Held,
    Program,
    as_regex,
    device_bytes,
    findings as findings_of,
    grouped,
    matches,
    weights_over,
)

_DTYPES = {"f64": "float64", "f32": "float32", "f16": "float16"}  # of HLO
_BY_CONSTRAINT = ("dropped_batch", "replicated_carry")  # that a constraint on their line mends
MOST_NAMED = 3  # arguments of a batch
EVEN = 1.05  # times an even share of work: what is below is even
Refuted = Collection[Specs]


def program_headline(program: Program) -> str:
    """A program in a line: its arguments, what they take on each device, and its mesh."""
    each, hosted = device_bytes(program.arguments())
    arguments = program.described.arguments
    unused = sum(not leaf.is_kept for leaf in arguments)
    devices = math.prod(size for _, size in program.mesh)
    where = f"mesh {mesh_text(program.mesh)}" if program.mesh else "one device"
    if not program.described.mesh:
        where += ", the file has no shardings"
    platforms = ", ".join(program.described.platforms)
    who = numbered(len(arguments), "argument") + (f" ({unused} not used)" if unused else "")
    takes = "takes" if len(arguments) == 1 else "take"
    on = f"each of {devices} devices" if devices > 1 else "one device"
    held = f"{who} {takes} {bytes_text(each)} on {on}"
    held += f" and {bytes_text(hosted)} of host memory" if hosted else ""
    return f"{held}: {where}; exported for {platforms}"


def grouped_findings(program: Program, refuted: Refuted = ()) -> list[StepFinding]:
    """Returns the findings with their sentences, in one for an array that several layers have.
    `refuted`: specs that are known to be worse, which none offers.
    """
    listed_findings = []
    for group in grouped(findings_of(program), program):
        first, *others = group
        specs = mending(group, program, refuted)
        total = first.bytes_per_device + sum(each.bytes_per_device for each in others)
        many = f"; {len(others)} more like it"
        if first.kind != "rule":  # of which the fix saves another part
            many += f", {bytes_text(total)} a device in all"
        sentence = finding_words(first, program, specs) + (many if others else "")
        listed_findings.append(
            StepFinding(
                kind=first.kind,
                path=first.path,
                bytes_per_device=total,
                sentence=sentence,
                specs=tuple(specs.items()),
            )
        )
    return listed_findings


def all_findings(
    program: Program,
    compiled: Known | None = None,
    refuted: Refuted = (),
) -> list[StepFinding]:
    """Returns the findings of a program and of what was compiled of it, the costliest first.
    `refuted`: specs that are known to be worse, which none offers.
    """
    own = grouped_findings(program, refuted)
    beside = _without_mended(compiled, program, own) if compiled else None
    beside = compiled_beside(program, beside, refuted) if beside else ()
    listed_findings = (*beside, *own)
    return by_cost(listed_findings, program, fits=_fits(compiled))


def _without_mended(of: Known, program: Program, own: Sequence[StepFinding]) -> Known:
    """Returns a compiled program without the donated arguments that leave as the fixes of the
    program's own findings let them enter: of several the first is known, so that as many have a fix.
    """
    specs = [each for finding in own for each in finding.specs]
    donated = (each.path for each in program.described.arguments if each.is_donated)
    mended = sum(any(matches(name, path) for name, _ in specs) for path in donated)

    def is_mended(each: Accident) -> bool:
        enters = next((spec for name, spec in specs if matches(name, each.path)), None)
        return each.kind == "resharded_donation" and enters == each.spec and each.others < mended

    others = tuple(each for each in of.accidents or () if not is_mended(each))
    return of.model_copy(update={"accidents": others})


def compiled_beside(
    program: Program, compiled: Known, refuted: Refuted = ()
) -> tuple[StepFinding, ...]:
    """Returns the findings of a compiled program but for work that an axis repeats, since nothing
    names it: the program has that finding without a compile.
    """
    unused = {each.path for each in findings_of(program) if each.kind == "unused_axis"}
    others = tuple(each for each in compiled.accidents or () if not unused & {*each.axes})
    return compiled_findings(compiled.model_copy(update={"accidents": others}), program, refuted)


def _fits(compiled: Known | None) -> bool:
    if isinstance(compiled, StrategyResult):
        return compiled.prediction is None or compiled.prediction.fits
    return not isinstance(compiled, CompiledStep) or compiled.fits is not False


def finding_words(finding: Finding, program: Program, specs: Specs | None = None) -> str:
    """A finding in a sentence: what it costs, and what to change. `specs`: what to give the program,
    by default what mends the finding.
    """
    specs = mending((finding,), program) if specs is None else specs
    held, path, others = bytes_text(finding.bytes_per_device), finding.path, finding.others
    match finding.kind:
        case "unused_axis":
            return _unused(finding, program, specs)
        case "replicated":
            return _replicated(finding, program, specs)
        case "replicated_output":
            return _replicated_result(finding, program)
        case "resharded_state":
            ways = f"enters as {_spec(finding.spec)} and leaves as {_spec(finding.meant)}"
            return (
                f"{path} {ways} in {''.join(others)}, {held} a device: each call reshards it; give "
                "both one sharding"
            )
        case "moved_state":
            return _moved(finding, program)
        case "missing_donation":
            count = f"{len(others)} arrays" if len(others) > 1 else "".join(others)
            return (
                f"{path} is updated and not donated ({count}): {held} a device are held twice; "
                f"add it to donate_argnames"
            )
        case "float32_leak":
            return (
                f"{path} is float32 where most parameters are bfloat16: {held} a device; "
                "cast it where the parameters are made"
            )
        case "rule":
            return _rule(finding, program)


def _replicated_result(finding: Finding, program: Program) -> str:
    held, devices = bytes_text(finding.bytes_per_device), math.prod(n for _, n in program.mesh)
    return (
        f"the result {finding.path} leaves replicated on {devices} devices: {held} a device; "
        f"its out_shardings name no axis: try {_spec(result_spec(finding.path, program))} there"
    )


def _replicated(finding: Finding, program: Program, specs: Specs) -> str:
    held, devices = bytes_text(finding.bytes_per_device), math.prod(n for _, n in program.mesh)
    too = " with its optimizer state" if finding.others else ""
    return (
        f"{finding.path} is replicated on {devices} devices: {held} a device{too}. "
        f"{capital(_replicated_by(finding, program, specs))}"
    )


def _unused(finding: Finding, program: Program, specs: Specs) -> str:
    size = dict(program.mesh)[finding.path]
    if finding.others and not specs:
        return f"{_unnamed(finding, program, size)}; give it size 1"
    what = f"the rows of {listed(finding.others)}" if finding.others else "a dim"
    return f"{_unnamed(finding, program, size)}; shard {what} over it, or give it size 1"


def _unnamed(finding: Finding, program: Program, size: int) -> str:
    axis = f"mesh axis {finding.path}={size}"
    if share := weights_over(program, finding.path):
        return (
            f"{axis} shards {share:.0%} of the sharded weights: its devices compute the rest alike"
        )
    return f"no spec names {axis}: its devices hold and compute the same"


def _moved(finding: Finding, program: Program) -> str:
    before = program.described.leaves[finding.path].memory
    after = next(e.memory for e in program.described.outputs if e.path in finding.others)
    return (
        f"{finding.path} enters in {before} and leaves in {after} memory in "
        f"{''.join(finding.others)}, {bytes_text(finding.bytes_per_device)} a device: its buffer is "
        "not used again; give both one memory_kind"
    )


def program_of(experiment: Experiment) -> Program | None:
    """Returns the program of an experiment; None of other workloads, and of one that was never held."""
    with suppress(RequestError):
        return experiment.exported
    return None


def run_findings(result: Result) -> list[StepFinding]:
    """Returns the findings of the exported program of a run, the costliest first; none of others."""
    program = program_of(result.experiment)
    return all_findings(program, result.strategies.get("auto")) if program else []


def compiled_findings(
    of: Known, program: Program | None = None, refuted: Refuted = ()
) -> tuple[StepFinding, ...]:
    """The findings of a program that was compiled, each with its sentence; `path` is a line, or an
    argument's. `program`: that program, whose batch is named. `refuted`: specs that none offers.
    """
    listed_findings = [_lost(of.lost_batch, refuted)] if of.lost_batch else []
    for each in of.accidents or ():
        if each.kind == "repeated_work" and not is_listed(each, of):
            continue
        specs = unrefuted(_mending(each, program), refuted)
        listed_findings.append(
            StepFinding(
                kind=each.kind,
                path=each.source or each.path,
                bytes_per_device=each.bytes,
                sentence=accident_words(each, of.collectives or (), program, refuted),
                is_note=each.is_minor,
                specs=tuple(specs.items()),
            )
        )
    return tuple(listed_findings)


def _lost(lost: LostBatch, refuted: Refuted) -> StepFinding:
    places = {f"{VALUE}{each.source}": each.spec for each in lost.places[:1]}
    specs = unrefuted(places, refuted)
    kept = lost if specs else lost.model_copy(update={"places": ()})
    return StepFinding(
        kind="lost_batch",
        path=lost.source,
        bytes_per_device=0,
        sentence=lost_batch_words(kept),
        specs=tuple(specs.items()),
    )


def _mending(each: Accident, program: Program | None) -> Specs:
    """The specs that mend an accident: of arguments, or of the value of its line."""
    if each.kind == "replicated_batch":
        return {each.path: each.spec, **(batch_over(each.axes, program) if program else {})}
    if each.kind == "crossed_weight":
        return with_state({each.path: each.spec}, program) if program and each.spec else {}
    if each.kind == "repeated_work" and (at := each.dropped_at or each.lost_at):
        return {f"{VALUE}{at}": each.spec} if each.spec else {}
    if each.kind == "repeated_work":
        rows = batch_over(each.axes, program) if program and not each.in_map else {}
        return rows or ({f"{VALUE}{each.source}": each.spec} if each.spec and each.source else {})
    return {f"{VALUE}{each.source}": each.spec} if each.kind in _BY_CONSTRAINT else {}


def costs_words(kind: str, path: str, of: Known) -> str:
    """Returns the figure of a finding in a compiled program, "" where that has none.

    Args:
      kind: the finding's kind.
      path: its line, its argument or its axis.
      of: the compiled program.
    """
    if kind == "lost_batch" and of.lost_batch:
        return f"{of.lost_batch.share:.0%} of the matmul FLOPs"
    for each in of.accidents or ():
        is_unused = kind == "unused_axis" and each.kind == "repeated_work" and path in each.axes
        if is_unused or (each.kind, each.source or each.path) == (kind, path):
            if each.kind == "repeated_work":
                return surplus_words(each, of)
            if kind == "wide_products":
                return f"{each.share:.0%} of the matmul FLOPs"
            least = "at least {} a device and step" if kind == "crossed_weight" else "{} a device"
            return least.format(bytes_text(each.bytes)) if each.bytes else ""
    return ""


def changed_code(each: StepFinding, of: Known) -> str:
    """Returns the lines that change what a finding of a compiled program names; "" where its sentence
    has all of it.
    """
    for one in of.accidents or ():
        if (one.kind, one.source) == (each.kind, each.path):
            return ring_code(one)
    return ""


def lost_batch_words(lost: LostBatch) -> str:
    """Where a compiled program loses its batch first, what that costs, and what to constrain."""
    work = f", {lost.work:.2g} times a device's even share of work" if lost.work > EVEN else ""
    first = f"the batch is lost over {_over(lost.axes)} at {lost.source}"
    if put := own_words(lost.origin):
        first += f", named there by {put}"
    costs = f"{lost.share:.0%} of the matmul FLOPs are computed without it{work}"
    fix = [f"the value of {each.source} to {spec_code(each.spec)}" for each in lost.places[:1]]
    return f"{first}: {costs}" + (f"; constrain {fix[0]}" if fix else "")


def accident_words(
    each: Accident,
    collectives: Sequence[Collective | StepCollective] = (),
    program: Program | None = None,
    refuted: Refuted = (),
) -> str:
    """An accident of a compiled program in a sentence: what it costs, and what to change. `program`:
    that program, whose arguments are named. `refuted`: specs that it does not name as a change.
    """
    at = f" at {each.source}" if each.source else ""
    specs = _mending(each, program)
    fix = spec_code(each.spec) if specs not in refuted else ""
    match each.kind:
        case "replicated_batch":
            return _undivided(each, specs, fix)
        case "crossed_weight":
            return _crossed(each, fix)
        case "repeated_work":
            specs = unrefuted(specs, refuted)
            return repeated_words(each, specs, _named(specs) if specs else "")
        case "wide_products":
            of = f"{each.share:.0%} of the matmul FLOPs are of {_DTYPES[each.dtype]} operands"
            return f"{of}, wider than the weights: cast both operands"
        case "constant":
            of = f"a constant of {bytes_text(each.bytes)}{at}"
            return f"{of} is part of the program, on every device: pass it as an argument"
        case "gathered_whole":
            return _gathered(each, at)
        case "dropped_batch":
            return _dropped(each, collectives, fix)
        case "resharded_donation":
            return _leaves(each, program)
        case "replicated_carry":
            return _carried(each, fix)
        case "larger_rotated" | "surplus_permute":
            return ring_words(each)


def _gathered(each: Accident, at: str) -> str:
    put = f" (sharded by {by})" if (by := own_words(each.origin)) else ""
    return (
        f"stacked weights are gathered over {_over(each.axes)}{at}{put} before the loop that "
        f"takes a layer at a time: {bytes_text(each.bytes)} are held at once; "
        "gather inside the loop"
    )


def _carried(each: Accident, fix: str) -> str:
    at = f" at {each.source}" if each.source else ""
    change = f": constrain the largest to {fix}" if fix else ""
    return (
        f"each turn of a loop replicates sums of {bytes_text(each.bytes)} over "
        f"{_over(each.axes)}{at}, which it carries sharded{change}"
    )


def _undivided(each: Accident, specs: Specs, fix: str) -> str:
    moved, weights = bytes_text(each.bytes), bytes_text(round(each.bytes / each.work))
    change = f"; shard it as {fix}, and weights are gathered in their place" if fix else ""
    return (
        f"no axis shards {_named(specs or [each.path])}: collectives move {moved} a device and "
        f"step, all weights are {weights}{change}"
    )


def _crossed(each: Accident, fix: str) -> str:
    at = f" at {each.dropped_at}" if each.dropped_at else ""
    change = f"; shard it as {fix}, and partial sums are added instead" if fix else ""
    return (
        f"{each.path} is multiplied{at} with a value that is sharded over {_over(each.axes)} in the dim "
        f"that is summed, and shards the result over it: at least {bytes_text(each.bytes)} a device and "
        f"step are gathered{change}"
    )


def _named(paths: Iterable[str]) -> str:
    first, *others = paths
    shown = [first, *others] if len(others) < MOST_NAMED else [first, f"{len(others)} more"]
    return listed(shown)


def _leaves(each: Accident, program: Program | None) -> str:
    size, leaves = bytes_text(each.bytes), f"as {spec_code(each.spec)} by the compiler"
    donated = f"{each.path} is donated, {size} a device, and leaves {leaves}"
    if each.others:
        donated = (
            f"{each.path} and {each.others} more are donated, {size} a device, and leave in other "
            f"shardings, the first {leaves}"
        )
    leaf = program.described.leaves.get(each.path) if program else None
    enters = spec_code(program.spec(leaf)) if program and leaf else "how it enters"
    return f"{donated}: the next call reshards or recompiles; name in its out_shardings {enters}"


def _dropped(each: Accident, collectives: Sequence[Collective | StepCollective], fix: str) -> str:
    moved, at = _resharded_by(each, collectives), f" at {each.source}" if each.source else ""
    costs = f": {bytes_text(moved)} a device and step are moved for it" if moved else ""
    change = f"; constrain it to {fix}, or leave it out" if fix else ""
    return (
        f"the constraint{at} drops {_over(each.axes)} of the batch, and each use of its value "
        f"is sharded over it again{costs}{change}"
    )


def _resharded_by(each: Accident, collectives: Iterable[Collective | StepCollective]) -> int:
    """Bytes a device and step of the collectives that a constraint needs over the axes it drops; 0 of
    a line that several calls share, whose others may need them.
    """
    return sum(
        one.bytes_total or 0
        for one in collectives
        if any(
            of.kind == "constraint"
            and (of.source, of.called) == (each.source, None)
            and of.axis in each.axes
            for of in one.against
        )
    )


def _over(axes: tuple[str, ...]) -> str:
    return listed([f"`{axis}`" for axis in axes])


def _rule(finding: Finding, program: Program) -> str:
    path, others = finding.path, finding.others
    if finding.meant is None:
        return f"{path} matches no argument: correct the pattern, or leave it out"
    count = 1
    if others and others[0] == program.described.optimizer.get(path):
        there = f"its parameter {others[0]}"
    else:
        there, count = "the arrays beside it", 1 + len(others)
        path += f" and {len(others)} more" if others else ""
    if not any(finding.spec or ()):
        devices, held = math.prod(n for _, n in program.mesh), bytes_text(finding.bytes_per_device)
        holds = f"{agreed(count, 'is')} complete on each of {devices} devices, {held} a device"
        return f"{path} {holds}: {there} has {_spec(finding.meant)}; check its rule"
    pattern = as_regex(finding.path)
    written = "" if pattern == finding.path else f" ({pattern})"
    return f"{path} {agreed(count, 'has')} {_spec(finding.spec)}, {there} {_spec(finding.meant)}: check its rule{written}"


def _replicated_by(finding: Finding, program: Program, specs: Specs) -> str:
    """Why an argument is replicated: by its own spec, or as nothing that it meets names an axis; and
    what to change.
    """
    own = mending((finding,), program)
    spec = specs.get(program.described.patterns.get(finding.path, finding.path))
    is_given = any(matches(pattern, finding.path) for pattern, _ in program.specs)
    why = "no spec matches it"
    if is_given or program.described.leaves[finding.path].spec is not None:
        why = "its spec names no axis"
    elif program.described.mesh:
        why = "no argument or constraint names an axis for it"
    if own and not spec:
        return why
    fix = f"try {_spec(spec)}" if spec else "shard a dim"
    if finding.meant and spec in (None, finding.meant):
        fix = f"other layers have {_spec(finding.meant)}"
    return f"{why}: {fix}"


def held_spec(held: Held) -> str:
    """The spec of an argument or output, or why it has none."""
    if held.spec is not None:
        memory = f", {held.memory}" if held.memory else ""
        return (
            spec_code(held.divided or held.spec)
            + memory
            + (", propagated" if held.is_propagated else "")
        )
    return "by the compiler" if held.leaf.is_kept else "not used"


def step_arrays(held: Iterable[Held]) -> tuple[StepArray, ...]:
    """Arguments or outputs as JSON has them."""
    return tuple(
        StepArray(
            path=each.leaf.path,
            shape=each.shape,
            dtype=each.leaf.dtype,
            spec=None
            if each.spec is None
            else tuple(axes if len(axes) > 1 else next(iter(axes), None) for axes in each.spec),
            bytes=each.bytes,
            bytes_per_device=each.bytes_per_device,
            copies=each.copies,
            memory=each.memory,
            propagated=each.is_propagated,
            donated=each.leaf.is_donated,
        )
        for each in held
    )


def _spec(spec: Spec | None) -> str:
    return spec_code(spec or ())
