"""The communication of a compiled program: what kind, over which mesh axes, how many bytes, how often, and why."""



from spmd_core.communication.reasons import Reasons
from spmd_core.hlo.collectives import Site, bytes_of, groups_of, sites
from spmd_core.hlo.module import Computation, Instruction, Module
from spmd_core.hlo.replica_groups import axes_of
from spmd_core.results.result import Collective

Mesh = tuple[tuple[str, int], ...]


def read_collectives(
    module: Module, mesh: Mesh, *, file: str, positions: tuple[int, ...] | None = None, reasons: Reasons | None = None,
) -> tuple[Collective, ...]:
    """Every collective of a program, in the order in which it is written.

    `file` is the name of the program text that `source` quotes lines of; `positions[i]` the mesh position of the
    program's device i. HloError where the groups of one cannot be read.
    """
    merged: dict[tuple[str, str], Site] = {}
    for site in sites(module):
        key = (site.computation.name, site.instruction.name)
        if key in merged:  # reached from several callers
            counts = (merged[key].count, site.count)
            site = Site(site.kind, site.computation, site.instruction, merged[key].callers, None if None in counts else sum(filter(None, counts)))
        merged[key] = site
    return tuple(_describe(site, module, mesh, file, positions, reasons) for site in merged.values())


def _describe(site: Site, module: Module, mesh: Mesh, file: str, positions: tuple[int, ...] | None, reasons: Reasons | None) -> Collective:
    instruction = site.instruction
    groups = groups_of(instruction, module.device_count)
    axes = axes_of(groups, mesh, positions)
    located = _located(site, file)
    return Collective(
        kind=site.kind, axes=axes, bytes=bytes_of(site.computation, instruction), count=site.count,
        op=_op_name(located),
        source=next((f"{frame.file.rsplit('/', 1)[-1]}:{frame.line}" for place in located for frame in place.frames if _is(frame.file, file)), None),
        name=instruction.name, group_size=None if "source_target_pairs" in instruction.attributes else groups.shape[1],
        reason=reasons.why(site.kind, axes, site.computation, instruction) if reasons else None)


def _op_name(located: list[Instruction]) -> str | None:
    """The operation in the program; the bare name of an argument only where there is no other."""
    names = [place.op_name for place in located if place.op_name]
    return next((name for name in names if "/" in name), names[0] if names else None)


def _is(path: str, file: str) -> bool:
    return path == file or path.endswith(f"/{file}")


def _located(site: Site, file: str) -> list[Instruction]:
    """Instructions that say where a collective comes from: itself, who uses its value, its callers, then its operands."""
    found = [site.instruction]
    if not any(_is(frame.file, file) for frame in site.instruction.frames):
        found += _nearby(site.computation, site.instruction, forward=True)
        found += [caller for _, caller in reversed(site.callers)]
        found += _nearby(site.computation, site.instruction, forward=False)
    return found


def _nearby(computation: Computation, start: Instruction, *, forward: bool, limit: int = 16) -> list[Instruction]:
    """The next instructions that carry a source line, breadth first over users or operands."""
    queue, seen, found = [start], {start.name}, []
    while queue and len(seen) < limit:
        at = queue.pop(0)
        near = computation.users[at.name] if forward else [computation.by_name[name] for name in at.operands]
        for instruction in near:
            if instruction.name in seen:
                continue
            seen.add(instruction.name)
            if instruction.frames:
                found.append(instruction)
            else:
                queue.append(instruction)
    return found
