"""Weights that a compiled step gathers in more bits than its plan has."""

import re
from collections import Counter
from collections.abc import Sequence

from spmd_core.facts import Collective, StoredFact
from spmd_core.plan import Plan
from spmd_core.program import Module, sites

WIDE = "gathered wide"  # the kind of the fact
_MOST = 0.05  # of what a loop gathers: the router, and vectors, are never narrow
_NARROW = {"float8_e4m3fn": "f8e4m3fn", "int8": "s8"}
_SCOPE = re.compile(r"/(query|key|value|qkv|out|gate and up|gate|up|down|shared experts|experts)/")


def wide_gathers(
    module: Module, collectives: Sequence[Collective], plan: Plan
) -> tuple[StoredFact, ...]:
    """Returns the fact that a loop gathers weights in more bits than the plan's `gathered_dtype`,
    by the matmuls that need them; () where there are none, or the plan gathers in bfloat16.

    Counted are all-gathers and the permutes of collective matmuls, but those over `tensor`, which
    move activations.
    """
    asked = plan.precision.gathered_dtype
    if asked not in _NARROW:
        return ()
    elements = {
        site.start.outer.name: site.start.computation.by_name[name].shape.element
        for site in sites(module)
        for name in site.start.inner.operands[:1]
    }
    wide, total = Counter[str](), 0
    for each in collectives:
        if "all-gather" not in (each.kind, each.asked) or {*each.axes} <= {"tensor"}:
            continue
        if each.times < 2 or not each.name:
            continue
        nbytes = each.bytes * each.times
        total += nbytes
        if elements.get(each.name) != _NARROW[asked]:
            scopes = _SCOPE.findall(f"{each.op or ''}/")
            wide[scopes[-1] if scopes else "other weights"] += nbytes
    if not total or sum(wide.values()) <= _MOST * total:
        return ()
    names = ", ".join(name for name, _ in wide.most_common(4))
    share = sum(wide.values()) / total
    return (StoredFact(kind=WIDE, values={"asked": asked, "share": share, "names": names}),)
