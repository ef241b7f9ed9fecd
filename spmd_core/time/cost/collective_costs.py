"""The list of a program's collectives, with what each costs."""

from spmd_core.program import sites
from spmd_core.results import Collective
from spmd_core.time.cost.clocks import Tally
from spmd_core.time.cost.comm import Communication
from spmd_core.time.cost.module_costs import ModuleCosts


def priced(
    collectives: tuple[Collective, ...],
    tally: Tally,
    costs: ModuleCosts,
) -> tuple[Collective, ...]:
    """The same list in the same order, with seconds per execution and in all, and routes.

    `tally` is what walking the module came to. What the walk never met (the body of
    a loop that never runs) is priced all the same, and exposed for 0 s.
    """
    comms = {
        site.start.outer.name: costs.collective(site.start.outer, site.computation)
        for site in sites(costs.module)
    }
    return tuple(_priced(each, comms.get(each.name or ""), tally) for each in collectives)


def _priced(each: Collective, comm: Communication | None, tally: Tally) -> Collective:
    if comm is None:
        return each
    walked = tally.communications.get(comm.name) or tally.untaken.get(comm.name)
    _, count, waited = walked or (comm, 0, 0.0)
    # (a loop's last walked iteration is used for the rest, so a wait may be counted a little too
    # often)
    exposed = min(comm.seconds, waited / count) if count else 0.0
    known = each.count is not None
    return each.model_copy(
        update={
            "seconds": comm.seconds,
            "exposed_s": exposed,
            "bound_s": comm.bound_s,
            "seconds_total": comm.seconds * (each.count or 0) if known else None,
            "exposed_total_s": exposed * (each.count or 0) if known else None,
            "route": comm.words,
            "algorithm": comm.algorithm,
        }
    )
