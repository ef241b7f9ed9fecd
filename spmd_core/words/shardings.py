"""The sentences about how each step of a program is sharded."""

from collections.abc import Sequence

from spmd_core.results.shardings import Reshard, Shardings, Spec, Step
from spmd_core.units import bytes_text

ABOUT = ("As the compiler shards each value, before it divides the program among the devices. "
         "Shapes are logical; bytes are per device.")
ASK = "Read the shardings of every step"
HELP = ("After the timing, compile the program once more and read how the compiler shards each "
        "value between operands and results.")
NEVER_READ = ("The shardings of this run's steps were not read. Reading them compiles the program "
              "once more, after the timing.")
EVERY = "Every operation"
EVERY_HELP = "Also values without a name, inside a line of the program"
OTHER_VERSION = "another version of SPMD Lab stored them: run it again"
NO_DUMP = "the compiler wrote no program as sharding propagation leaves it"
ONE_DEVICE = "on one device nothing is sharded"
NOT_COMPILED = "no compiled program stands for the call: its operations run one by one"


def spec_words(spec: Spec | None) -> str:
    """A spec as JAX writes it.

    >>> spec_words((("x",), ("y", "z"), ())), spec_words(((), ()))
    ("P('x', ('y', 'z'))", 'P()')
    """
    if spec is None:
        return "part of an axis"
    entries = [None if not axes else axes[0] if len(axes) == 1 else axes for axes in spec]
    while entries and entries[-1] is None:
        entries.pop()
    return f"P({', '.join(map(repr, entries))})"


def sharded_words(step: Step) -> str:
    """How a value is sharded, with the axes that the program handles itself."""
    manual = f", manual over {', '.join(step.manual)}" if step.manual else ""
    return f"{spec_words(step.spec)}{manual}"


def shape_words(step: Step) -> str:
    """Dtype and logical shape: `f32[8, 128]`."""
    return f"{step.dtype}[{', '.join(map(str, step.shape))}]"


def reshard_words(each: Reshard) -> str:
    """What happens to an operand.

    >>> reshard_words(Reshard(operand="w", before=(("x",), ()), after=((), ())))
    "w resharded: P('x') to P()"
    """
    if each.free:
        return f"{each.operand} sliced: {spec_words(each.before)} to {spec_words(each.after)}"
    return f"{each.operand} resharded: {spec_words(each.before)} to {spec_words(each.after)}"


def before_words(step: Step) -> str:
    """What must happen for a step: reshards, partial sums, and the collectives that do it."""
    parts = [reshard_words(each) for each in step.reshards]
    if step.sums:
        parts.append(f"partial sums over {', '.join(step.sums)}")
    if step.collectives:
        parts.append(f"compiled: {', '.join(step.collectives)}")
    return "; ".join(parts) or "–"


def headline(found: Shardings) -> str:
    """How many steps are resharded, in a sentence.

    >>> headline(Shardings(reason="why"))
    'no shardings: why'
    """
    if found.reason:
        return f"no shardings: {found.reason}"
    steps = [step for step in found.steps if step.operation != "operand"]
    moved = [step for step in steps if any(not each.free for each in step.reshards)]
    sums = [step for step in steps if step.sums]
    largest = max((step for step in found.steps if step.bytes), key=lambda step: step.bytes or 0,
                  default=None)
    most = f"; the largest value is {value_words(largest)}, {bytes_text(largest.bytes)} per device" \
        if largest else ""
    return (f"{len(steps)} step{_s(steps)}: {len(moved)} with a reshard, {len(sums)} with partial "
            f"sums{most}")


def _s(listed: Sequence[object]) -> str:
    return "" if len(listed) == 1 else "s"


def value_words(step: Step) -> str:
    """What a value is called: its variable, or the operation within its line."""
    return step.name or step.operation.replace("_", " ")


def is_told(step: Step) -> bool:
    """Whether a step is worth a row by itself: it has a name, or something must be sent for it."""
    return bool(step.name or step.sums or step.collectives
                or any(not each.free for each in step.reshards))


def left_words(count: int) -> str:
    """That later steps are not listed."""
    return f"{count:,} later steps are not listed."
