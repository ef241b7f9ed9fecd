"""Replica groups and permutation pairs, in each of the spellings that compiled modules use."""

import re
from itertools import product

import numpy as np

from spmd_core.hlo_text import Instruction

Groups = tuple[tuple[int, ...], ...]
_IOTA = re.compile(r"\[([0-9,]+)\]<=\[([0-9,]+)\](?:T\(([0-9,]+)\))?")
_MESH = re.compile(r"mesh\[([^\]]*)\]")
_AXIS = re.compile(r"'([^']+)'(?::\((\d+)\)(\d+))?")


def replica_groups(instruction: Instruction, devices: int) -> Groups:
    """Groups of device numbers (places in the compiled device assignment); ValueError where they cannot be read."""
    text = instruction.attribute("replica_groups")
    if text is None or text in ("{}", ""):
        return (tuple(range(devices)),)
    order = instruction.attribute("device_ids")  # `mesh[…], device_ids=(…) {…}` is split at its comma like any attribute
    return parse_groups(text if order is None else f"{text}, device_ids={order}")


def parse_groups(text: str) -> Groups:
    """`{{0,1},{2,3}}`, `[4,2]<=[2,4]T(1,0)`, or `mesh['x'=2,'y'=4] {'x'}` with or without a device order."""
    text = text.strip()
    if text.startswith("{"):
        return tuple(tuple(int(n) for n in re.findall(r"\d+", part)) for part in re.findall(r"\{([0-9,\s]+)\}", text))
    if match := _IOTA.match(text):
        shape = [int(n) for n in match[1].split(",")]
        rows = _iota(match).reshape(shape[0], -1)
        return tuple(tuple(int(n) for n in row) for row in rows)
    if match := _MESH.match(text):
        return _mesh_groups(match[1], text[match.end():])
    raise ValueError(f"replica groups {text[:80]!r} are in no known spelling")


def _iota(match: re.Match[str]) -> np.ndarray:
    source = [int(n) for n in match[2].split(",")]
    order = np.arange(int(np.prod(source))).reshape(source)
    return order.transpose([int(n) for n in match[3].split(",")]) if match[3] else order


def _mesh_groups(axes_text: str, rest: str) -> Groups:
    names = re.findall(r"'([^']+)'=(\d+)", axes_text)
    shape = [int(size) for _, size in names]
    count = int(np.prod(shape))
    devices = np.arange(count)
    if order := re.search(r"device_ids=\(\[([0-9,]+)\](?:T\(([0-9,]+)\))?\)", rest):
        source = [int(n) for n in order[1].split(",")]
        devices = np.arange(count).reshape(source)
        if order[2]:
            devices = devices.transpose([int(n) for n in order[2].split(",")])
    elif listed := re.search(r"device_ids=\(([0-9, ]+)\)", rest):
        devices = np.array([int(n) for n in listed[1].split(",")])
    grid = devices.reshape(shape)
    chosen = re.search(r"\{([^{}]*)\}\s*$", rest.split("device_ids")[-1] if "device_ids" in rest else rest)
    if chosen is None:
        raise ValueError(f"replica groups of mesh {axes_text!r} name no axes in {rest[:60]!r}")
    order_names = [name for name, _ in names]
    split: list[tuple[int, int, int]] = []  # axis, elements before the part, size of the part
    for name, before, size in _AXIS.findall(chosen[1]):
        axis = order_names.index(name)
        split.append((axis, int(before) if before else 1, int(size) if size else shape[axis]))
    return _along(grid, split)


def _along(grid: np.ndarray, parts: list[tuple[int, int, int]]) -> Groups:
    """Groups along the chosen parts of axes; every other coordinate is fixed within a group."""
    shape: list[int] = []
    chosen: list[int] = []
    for axis, size in enumerate(grid.shape):
        mine = next(((before, part) for a, before, part in parts if a == axis), None)
        if mine is None:
            shape.append(size)
        else:
            before, part = mine
            chosen.append(len(shape) + 1)
            shape += [before, part, size // (before * part)]
    grid = grid.reshape(shape)
    moved = np.moveaxis(grid, chosen, range(grid.ndim - len(chosen), grid.ndim)) if chosen else grid[..., None]
    width = int(np.prod([shape[axis] for axis in chosen])) if chosen else 1
    return tuple(tuple(int(n) for n in row) for row in moved.reshape(-1, width))


def source_target_pairs(instruction: Instruction) -> tuple[tuple[int, int], ...]:
    """(source, target) of a collective-permute."""
    text = instruction.attribute("source_target_pairs") or ""
    return tuple((int(a), int(b)) for a, b in re.findall(r"\{(\d+),(\d+)\}", text))


def mesh_axes(groups: Groups, axes: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """The smallest set of mesh axes along which a group's devices differ, in mesh order; axes of size 1 never."""
    sizes = [size for _, size in axes]
    total = int(np.prod(sizes))
    varying: set[int] = set()
    for group in groups[:64]:
        if max(group) >= total:
            continue
        places = np.array(np.unravel_index(np.array(group), sizes))
        varying |= {axis for axis in range(len(sizes)) if len(set(places[axis])) > 1}
    return tuple(name for number, (name, _) in enumerate(axes) if number in varying)


def grid_positions(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All positions of a grid, row-major."""
    return list(product(*(range(size) for size in shape)))
