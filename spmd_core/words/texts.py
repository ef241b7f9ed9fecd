"""What the program texts are, what they hold, how two of them differ and how a program's values are
sharded, in words; no Streamlit here.
"""

import re
from collections.abc import Mapping

from spmd_core.base import by_key, bytes_text, numbered
from spmd_core.experiment import spec_code, type_text
from spmd_core.facts import NoShardings, Reshard, Shardings, Spec, Step
from spmd_core.words.origins.set_by import disagreement_words, marks, origin_name, step_words

STEPS_ABOUT = (
    "As the compiler shards each value, before it divides the program among the devices. "
    "Shapes are logical; bytes are per device."
)
NEVER_READ = (
    "The shardings of this run's steps were not read. Reading them compiles the program "
    "once more, after the timing."
)
EVERY = "Every operation"
EVERY_HELP = "Also values without a name, inside a line of the program"
_PLACE = re.compile(r"(.*):(\d{1,9})", re.DOTALL)
_AROUND = 2  # lines that are known, before and after one of a path
PICK = "Select a row: the path on which its axes came to it is marked in the program."
OTHER_VERSION = "another version of SPMD Lab stored them: run it again"
_NO_SHARDINGS: dict[str, str] = {
    NoShardings.NO_DUMP: "the compiler wrote no program as sharding propagation leaves it",
    NoShardings.ONE_DEVICE: "on one device nothing is sharded",
    NoShardings.NOT_COMPILED: "no compiled program stands for the call: its operations run "
    "one by one",
}


# How values are sharded ----------------------------------------------------------------------


def spec_words(spec: Spec | None) -> str:
    """A spec as JAX writes it.

    >>> spec_words((("x",), ("y", "z"), ())), spec_words(((), ()))
    ("P('x', ('y', 'z'))", 'P()')
    """
    if spec is None:
        return "part of an axis"
    while spec and not spec[-1]:
        spec = spec[:-1]
    return spec_code(spec)


def sharded_words(step: Step) -> str:
    """How a value is sharded, with the axes that the program handles itself."""
    manual = f", manual over {', '.join(step.manual)}" if step.manual else ""
    return f"{spec_words(step.spec)}{manual}"


def shape_words(step: Step, *, is_typed: bool = False) -> str:
    """Dtype and logical shape, `f32[8, 128]`; `is_typed`: as `jax.typeof` writes them."""
    if is_typed and step.spec is not None and len(step.spec) == len(step.shape):
        dtype = "bool" if step.dtype == "pred" else step.dtype.replace("s", "int", 1)
        return type_text(dtype, step.shape, step.spec)
    return f"{step.dtype}[{', '.join(map(str, step.shape))}]"


def reshard_words(each: Reshard) -> str:
    """What happens to an operand.

    >>> reshard_words(Reshard(operand="w", before=(("x",), ()), after=((), ())))
    "w resharded: P('x') to P()"
    """
    if each.free:
        return f"{each.operand} sliced: {spec_words(each.before)} to {spec_words(each.after)}"
    why = f" ({words})" if (words := disagreement_words(each)) else ""
    return f"{each.operand} resharded: {spec_words(each.before)} to {spec_words(each.after)}{why}"


def set_by_words(step: Step) -> str:
    """Who put each axis on a value."""
    return step_words(step) or "–"


def chips(step: Step) -> list[tuple[str, str]]:
    """The axes of a value by their origin, in a few characters, and that origin."""
    of = by_key((origin_name(each), each.axis) for each in step.origins)
    return [(f"{', '.join(axes)} · {name}", name) for name, axes in of.items()]


def path_lines(step: Step, lines: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Returns the lines around the path on which the axes of a value came to it: each with its code
    and what it did, "" of one that is only near.

    Args:
      step: the value.
      lines: the code of each line that is known, by `file:line`.
    """
    did = marks(step) | {step.source: "this value"}
    places = (match for at in {*lines, *did} if (match := _PLACE.fullmatch(at)))
    known = [each[0] for each in sorted(places, key=lambda each: (each[1], int(each[2])))]
    near = {
        other
        for number, each in enumerate(known)
        if each in did
        for other in known[max(0, number - _AROUND) : number + _AROUND + 1]
        if other.rpartition(":")[0] == each.rpartition(":")[0]
    }
    return [(at, lines.get(at, ""), did.get(at, "")) for at in known if at in near]


def before_words(step: Step) -> str:
    """What must happen for a step: reshards, partial sums, and the collectives that do it."""
    parts = [reshard_words(each) for each in step.reshards]
    if step.sums:
        parts.append(f"partial sums over {', '.join(step.sums)}")
    if step.collectives:
        parts.append(f"compiled: {', '.join(step.collectives)}")
    return "; ".join(parts) or "–"


def read_shardings(text: str) -> Shardings:
    """The shardings that a run left as a text, with the reason in words; pydantic's ValidationError
    where another version wrote them.
    """
    shardings = Shardings.model_validate_json(text)
    reason = _NO_SHARDINGS.get(shardings.reason or "", shardings.reason)
    return shardings.model_copy(update={"reason": reason})


def steps_headline(shardings: Shardings) -> str:
    """How many steps are resharded, in a sentence.

    >>> steps_headline(Shardings(reason="why"))
    'no shardings: why'
    """
    if shardings.reason:
        return f"no shardings: {shardings.reason}"
    steps = [step for step in shardings.steps if step.operation != "operand"]
    moved = [step for step in steps if any(not each.free for each in step.reshards)]
    sums = [step for step in steps if step.sums]
    largest = max(
        (step for step in shardings.steps if step.bytes),
        key=lambda step: step.bytes or 0,
        default=None,
    )
    most = (
        f"; the largest value is {value_words(largest)}, {bytes_text(largest.bytes)} per device"
        if largest
        else ""
    )
    return (
        f"{numbered(len(steps), 'step')}: {len(moved)} with a reshard, {len(sums)} with partial "
        f"sums{most}"
    )


def value_words(step: Step) -> str:
    """What a value is called: its variable, or the operation within its line."""
    return step.name or step.operation.replace("_", " ")


def is_listed(step: Step) -> bool:
    """Whether a step is worth a row by itself: it has a name, or something must be sent for it."""
    return bool(
        step.name or step.sums or step.collectives or any(not each.free for each in step.reshards)
    )


def left_steps(count: int) -> str:
    """That later steps are not listed."""
    return f"{count:,} later steps are not listed."
