"""The sentences of stored facts, and of wrong values."""

import math
from collections.abc import Mapping

from spmd_core.base import bytes_text, count_text, number_text, numbered, seconds_text
from spmd_core.facts import RINGS, SAME_PROGRAM, Prediction, StoredFact
from spmd_core.plan import WITHOUT_RINGS, Plan, plan_notes
from spmd_core.reference import LARGEST
from spmd_core.results import Imprecise, StrategyResult, Wrong
from spmd_core.terms import spoken

DISPATCH_BOUND = "dispatch bound"  # a note
# kind of a stored fact -> its sentence; `beyond` has several
_SENTENCES = {
    "tpu multiplier": "TPU multiplies float32 in {passes} at {at}: the error is judged by {by}",
    "gpu multiplier": "the GPU may multiply float32 as TF32 at this precision: the error is judged "
    "by TF32 (precision=highest avoids it)",
    "by the function itself": "compared with the function itself, in float64 on one device",
    "function fails": "not compared: in float64 on one device the function itself fails with "
    "{kind}: {message}",
    "rows compared": "compared with the reference on {rows} rows chosen by the seed",
    "values alike": "every right value is the same within rounding: parts that were exchanged "
    "would not show (data `normal` shows them)",
    "by one CPU device": "compared with the same program on one CPU device, within what rounding "
    "may move each element by",
    "not compared": "not compared: {why}",
    "one device fails": "not compared: one device fails with {kind}: {message}",
    "not predicted": "not predicted: {why}",
    SAME_PROGRAM: "the same program as {row}",
    "not measured": "{what} could not be measured: {why}",
    "pairs passed": "from mesh to mesh over {axes}, each of {count} pairs of devices passes {share:.0%} of "
    "what its first device has",
    "points measured": "stopped after {count} of {of} points",
    "busy machine": "{count} of {of} ceilings spread by up to {worst:.0%} ({names}): something else "
    "runs on this machine; calibrate again when it is idle",
    "measurements": "stopped after {count} of {of} measurements",
    "loop counted once": "how often loop {loop} runs is not in the program: counted once",
    "longest branch": "which branch of {branch} runs is not in the program: the longest is counted",
    "nearly full": "memory is nearly full ({peak_bytes} of {capacity_bytes}): there the compiler gives "
    "up overlapping to save it",
    "gpu memory": "a process takes {share:.0%} of a GPU's {memory_bytes} here, as with "
    "XLA_PYTHON_CLIENT_MEM_FRACTION={share:g}; JAX's default of {usual:g} {holds} this step",
    "host memory": "a host has the {memory_bytes} of {machine}; "
    "SPMD_LAB_HOST_GIB={generation}=2048 sets what yours has",
    "synchronous": "the compiler left {kinds} synchronous: {exposed_s} of the step wait for it",
    "became another": "requested and compiled collectives differ: {asked} became {kind}",
    "gathered wide": "{share:.0%} of the bytes of gathered weights are not {asked}, as the plan asks: "
    "{names}; cast a weight before it is gathered",
    "no cost": "{what} are {share:.0%} of the estimate, its least certain part: XLA gives no cost for "
    "them",
    "gave up overlapping": "the compiler's schedule gave up overlapping: by its own order of starts "
    "and dones the step takes {literal_s}, {more:.0%} more than estimated; estimated is the order that "
    "hides most of the communication, as a program with room in memory has it: free memory or set the "
    "flags for asynchronous collectives",
    "once it fits": "by the estimate from the plan's sizes a step takes {estimate_s} ({low_s} to "
    "{high_s}) once it fits",
    "compiler": "{words}",
    "not compiled": "estimated from the plan's sizes, nothing was compiled: predict without --estimate "
    "compiles it",
    "pipeline": "{title} with {parts} microbatches: stages idle {share:.0%} of their time on average. "
    "The shares of the step are those of the slowest stage. A pipeline is estimated from its stages: no "
    "program of it is compiled",
    "mostly attention": "attention is {share:.0%} of the step, estimated for JAX's splash kernel: with "
    "Tokamax's, and an estimate of each row's maximum, a published step of 131,072 tokens took a quarter "
    "less than this estimate",
    RINGS: "among so few devices the compiler splits matmuls and passes parts around a ring meanwhile "
    f"(collective matmul), which may take much longer: the flag {WITHOUT_RINGS} turns that off",
    "recomputed": "MFU leaves out what jax.checkpoint computes again, {share:.0%} of the matmul FLOPs: with "
    "that, {rate:.1%} of the peak is used (HFU)",
    "repeated in a map": "MFU leaves out what each device of a mesh axis computes alike inside of shard_map, "
    "{share:.0%} of the matmul FLOPs: with that, {rate:.1%} of the peak is used",
    "not as fixed": "{axis}={size} where {axis}={fixed} is fixed",
    "does not divide": "{what} does not divide over {over}",
    "one device": "uses one device, whatever the sharding",
    "other axis names": "shards every array as another does, over axes of other names",
    "other mesh names": "shards every array as another mesh does, under other names",
    "same placement": "gives every device what another does",
    "turned placement": "gives every device what another does, on the grid turned or mirrored",
    "named twice": "is candidate {number} by another name",
    "not tried here": "its batch or what it saves is not tried here",
    "bound above the best": "its lower bound is above the best time that is known",
    "far behind": "its estimate is {estimate_times}× the best; of {compiled:,} compiled candidates, "
    "{drawn:,} of them drawn at random, none took less than {least_times}× its estimate",
    "ended before it": "the run ended before it",
    "nothing measured": "nothing was measured",
    "wrong result": "its result is wrong by more than rounding explains",
    **{
        f"too large {by}": f"{{held_bytes}} per device{words} is more than the {{limit_bytes}} {{of}}"
        for by, words in {
            "as estimated": "",
            "as arrays": " of operands and results",
            "as arguments": " of arguments",
            "as compiled": " by the compiler",
            "in host memory": " in host memory",
            "by neighbors": ", as compiled neighbors took,",
        }.items()
    },
    "calibrated": "Estimates by the calibration of {target}.",
    "guessed": "{target} is not calibrated: estimates are guesses until something is measured; "
    "`python -m spmd_core calibrate --target {target}`, or Collectives, measures its rates.",
    "scaled": "Of {count:,} compiled or measured for {target} the middle one took {times:,.2f} times its "
    "formula's time ({least:,.2f} to {most:,.2f}): estimates are scaled by that.",
    "partitioned": "{count:,} candidates are estimated by their programs, partitioned without code.",
    "workers left out": "Left out of the cluster: {words}.",
    "measured again": "Measured twice, since the times spread: {count:,} of the shardings. Something "
    "else ran on this machine; search again when it is idle.",
    "routed by matmuls": "{share:.0%} of the layers' matrix products send tokens to experts and back, by "
    "one-hot routes that grow with the sequence: kernels that sort tokens need none",
    "may take longer": "plans that {what} may compile to {times:.2g} times their estimate: compile "
    "this one",
    "took longer": "each of {count} published steps on such chips took {least:.3g} to {most:.3g} times its "
    "estimate",
}
_IMPOSSIBLE = (
    "no MFU is given, since its FLOPs are {share:.1%} of what the chips can do in this time: FLOPs or "
    "peak are counted wrong"
)
_TPU_PASSES = {
    "default": ("bfloat16 passes", "default precision", "bfloat16 (precision=highest avoids it)"),
    "high": ("three bfloat16 passes", "precision=high", "these"),
}
_BEYOND = "they are, or come from, numbers beyond {largest:.5g}, the largest {dtype}"
_WHY = {
    "infinite": f"are infinite, and right so: {_BEYOND}",
    "unjudged": f"are not judged: {_BEYOND}",
    "undefined": "are not judged: they are infinite, or no numbers, in float64 too",
    "unresolved": "are not judged: rounding spreads them as far as the values of the reference "
    "lie apart",
}


def fact_words(fact: StoredFact) -> str:
    """The sentence of a stored fact."""
    if fact.kind == "beyond":
        values = fact.values
        largest = LARGEST.get(str(values["dtype"]), math.inf)
        return "; ".join(
            f"{values[kind]:,} of {values['of']:,} elements of {values['name']} "
            f"{why.format(largest=largest, dtype=values['dtype'])}"
            for kind, why in _WHY.items()
            if values[kind]
        )
    passes, at, by = _TPU_PASSES.get(str(fact.values.get("precision")), ("", "", ""))
    return filled(_SENTENCES[fact.kind], {"passes": passes, "at": at, "by": by, **fact.values})


def filled(template: str, values: Mapping[str, int | float | str]) -> str:
    """Returns a sentence with its values, each written by the end of its name: `_s` seconds, `_bytes`
    bytes, `_times` a factor; `row` is a strategy.
    """
    return template.format(**{name: _value(name, value) for name, value in values.items()})


def same_program_words(outcome: StrategyResult) -> str | None:
    """The note that a strategy was compiled to the program of another; None where it was not."""
    return next(
        (fact_words(each) for each in outcome.facts or () if each.kind == SAME_PROGRAM), None
    )


def _value(name: str, value: int | float | str) -> int | float | str:
    if name == "row":
        return spoken(str(value))
    if name.endswith("_times"):
        return number_text(float(value))
    if name.endswith("_s"):
        return seconds_text(float(value))
    return bytes_text(int(value)) if name.endswith("_bytes") else value


def in_sentences(prediction: Prediction, plan: Plan | None = None) -> Prediction:
    """A prediction with the notes that its facts make, and those on the sizes of its plan; notes
    that an older version stored stay.
    """
    notes = prediction.notes
    if prediction.facts is not None:
        notes = tuple(map(fact_words, prediction.facts))
    if share := prediction.impossible_mfu:
        notes = tuple(dict.fromkeys((*notes, _IMPOSSIBLE.format(share=share))))
    update: dict[str, object] = {"notes": notes}
    if plan is not None and prediction.mfu is not None:
        update["mfu_causal"] = prediction.mfu * plan.causal_share
    if plan is not None and prediction.before_compiling:
        update["before_compiling"] = prediction.before_compiling | {"notes": plan_notes(plan)}
    return prediction.model_copy(update=update)


def wrong_words(outcome: StrategyResult) -> str | None:
    """What is wrong with a strategy's values, in one sentence without its full stop; None if
    nothing is known to be wrong.
    """
    if outcome.correct is not False:
        return None
    if outcome.wrong is None:  # an older result, without judgement of each element
        return (
            f"its largest relative error {_text(outcome.max_rel_error)} is above "
            f"{_text(outcome.tolerance)}"
        )
    return _sentence(outcome.wrong, several=len(outcome.outputs) > 1)


def imprecise_words(imprecise: Imprecise) -> str:
    """Such as `adds 1,024 terms in bfloat16, 10% off`; without the terms where a loop adds them
    up."""
    terms = "" if imprecise.terms is None else f" {count_text(imprecise.terms)} terms"
    return f"adds{terms} in {imprecise.dtype}, {_percent(imprecise.off)} off"


def _sentence(wrong: Wrong, *, several: bool) -> str:
    """Such as `3.1% of y is wrong (512 of 16,384 elements): worst at [3, 7], got 1.25,
    expected 2.5 ± 0.01`."""
    worst = wrong.worst
    at = ", ".join(map(str, worst.index))
    where = f"{worst.result}[{at}]" if at else worst.result
    if not several:
        where = f"[{at}]"
    what = "all results" if several else worst.result
    place = f"worst at {where}, " if at or several else ""
    return (
        f"{_percent(wrong.share)} of {what} is wrong ({count_text(wrong.count)} of "
        f"{numbered(wrong.of, 'element')}): "
        f"{place}got {_text(worst.got)}, expected {_text(worst.expected)} ± {_text(worst.bound)}"
    )


def _percent(share: float) -> str:
    """Two digits, and never 0 or 100% where it is not that."""
    if share < 0.001:
        return "less than 0.1%"
    if 0.995 <= share < 1:
        return "more than 99%"
    return f"{share * 100:.3g}%" if share >= 0.1 else f"{share * 100:.2g}%"


def _text(value: float | str | None) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    if abs(value) < 1e-3:
        return number_text(value)
    return f"{value:.6g}"
