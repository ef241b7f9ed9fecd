"""Where the bytes of a program are: a rectangle for each array, as large as its bytes per device."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

from spmd_core.advice import held_spec
from spmd_core.base import by_key, bytes_text, count_text
from spmd_core.experiment import shape_text
from spmd_core.pictures import Place, rectangles
from spmd_core.workloads import Held, patterns
from spmd_lab.ui.charts.base import CONFIG, INK, PADDING, Row, Spec, as_is, hover, quantity
from spmd_lab.ui.charts.colors import WRONG
from spmd_lab.ui.charts.shares import ink

_CHARACTER = 6  # pixels of a label, a little more than it takes
MOST = 500  # rectangles: beyond them the smallest are one
HEIGHT = 220
_HEAD = 36 / HEIGHT  # above the rectangles, for the names of arguments and their bytes
REPLICATED, BY_COMPILER = "replicated", "by the compiler"
_OVER = "over "  # before the names of axes
_COLORS = ("#3b76c4", "#5aa6a0", "#7a5cc7", "#8d8a5e", "#c07a2c", "#4f8a5b", "#a3598f", "#6c7686")
_AXES = (
    "data",
    "fsdp",
    "model",
    "tensor",
    "expert",
    "fsdp, tensor",
    "data, model",
)  # in the order of _COLORS
# the last part of many paths: the part before it names the array
_UNSPECIFIC = ("kernel", "bias", "scale", "weight", "embedding", "w", "b")
_UNKNOWN = "#a9b4c2"


@dataclass(frozen=True, slots=True)
class Tile:
    """A rectangle of arrays: `place` is x, y, width, height in a square of side 1."""

    path: str
    arrays: tuple[Held, ...]
    place: Place = (0.0, 0.0, 1.0, 1.0)

    @property
    def weight(self) -> int:
        """Bytes on each device."""
        return sum(weight(each) for each in self.arrays)


def weight(held: Held) -> int:
    """Bytes of an array on each device; all of them where its sharding is not known, none where
    the program does not use it.
    """
    if not held.leaf.is_kept:
        return 0
    return held.bytes if held.bytes_per_device is None else held.bytes_per_device


def tiles(arrays: Sequence[Held]) -> tuple[Tile, ...]:
    """The arrays as rectangles, those of one argument side by side; arrays of several layers that
    are sharded alike are one.
    """
    by_path = patterns(each.leaf for each in arrays)
    alike = by_key(((by_path[each.leaf.path], _how(each)), each) for each in arrays if weight(each))
    groups = [
        Tile(pattern if len(listed) > 1 else listed[0].leaf.path, tuple(listed))
        for (pattern, _), listed in alike.items()
    ]
    listed = sorted(groups, key=lambda tile: -tile.weight)
    if rest := [each for tile in listed[MOST - 1 :] for each in tile.arrays]:
        listed = [*listed[: MOST - 1], Tile("the smaller arrays", tuple(rest))]
    roots = by_key((tile.path.partition("/")[0], tile) for tile in listed)
    by_root = [
        Tile(root, tuple(each for tile in inner for each in tile.arrays))
        for root, inner in roots.items()
    ]
    placed = []
    for root in _placed(sorted(by_root, key=lambda tile: -tile.weight), (0.0, 0.0, 1.0, 1.0)):
        placed += _placed(roots[root.path], root.place)
    return tuple(placed)


def _placed(listed: Sequence[Tile], place: Place) -> Iterator[Tile]:
    places = rectangles([tile.weight for tile in listed], place, HEIGHT / 1000)
    return (Tile(tile.path, tile.arrays, at) for tile, at in zip(listed, places, strict=True))


def how(tile: Tile) -> str:
    """How the arrays of a rectangle are sharded, in the legend's words."""
    words = {_how(each) for each in tile.arrays}
    return words.pop() if len(words) == 1 else "several ways"


def _how(held: Held) -> str:
    if held.spec is None:
        return BY_COMPILER
    axes = [axis for entry in held.divided or () for axis in entry]
    return f"{_OVER}{', '.join(sorted(axes))}" if axes else REPLICATED


_HOVER = hover(path="Array", bytes="Per device", sharded="Sharded", shape="Shape", spec="Spec")
_ODD, _UNLIKE = "odd one", ", unlike the arrays beside it"
_TILE = {
    "type": "rect",
    "stroke": "light-dark(#ffffff,#12161c)",
    "strokeWidth": 2,
    "cursor": "pointer",
}
_ROOMY = "datum.label != '' && datum.pixels < width * (datum.x2 - datum.x)"
# on a narrow screen the last part of a path has room where the path has none
_SHORTER = [
    {"calculate": f"{_ROOMY} ? datum.label : datum.short", "as": "label"},
    {"calculate": "datum.short == datum.label ? datum.short_pixels : datum.pixels", "as": "pixels"},
    {"filter": _ROOMY},
]
_LABEL = {"type": "text", "fontSize": 12, "lineBreak": "\n", "lineHeight": 14} | {
    "baseline": "middle",
    "dy": {"expr": "-7 * (length(split(datum.label, '\\n')) - 1)"},
}
_SEEN = 0.002  # of all bytes: a smaller part is no color that a legend could name
_LEGEND = {  # in two columns, which have room on a narrow screen
    "orient": "top",
    "labelLimit": {"expr": "width / 2 - 30"},
    "columns": 2,
    "symbolStrokeWidth": 0,
}
_PICKED = {
    "name": "picked",
    "select": {"type": "point", "fields": ["path"]},
    "views": ["tiles"],
}


_X = quantity("x", axis=None, scale={"domain": [0, 1]})
_Y = quantity("y", axis=None, scale={"domain": [-_HEAD, 1], "reverse": True})
_LABELS = {
    "transform": _SHORTER,
    "mark": _LABEL,
    "encoding": {
        "x": _X | {"field": "middle_x"},
        "y": _Y | {"field": "middle_y"},
        "text": {"field": "label"},
        "color": as_is("ink"),
    },
}


_NAMES = {
    "transform": _SHORTER,
    "mark": _LABEL
    | {"align": "left", "baseline": "bottom", "fontWeight": 600}
    | {"dy": {"expr": "-4 - 14 * (length(split(datum.label, '\\n')) - 1)"}}
    | INK,
    "encoding": {"x": _X, "y": _Y, "text": {"field": "label"}},
}


def _heads(placed: Sequence[Tile]) -> dict[str, Row]:
    """The names of arguments whose rectangles reach the upper edge, with their bytes, by argument."""
    heads: dict[str, Row] = {}
    for root, inner in by_key((_root(tile), tile) for tile in placed).items():
        upper = [tile.place for tile in inner if tile.place[1] == 0]
        left = min((x for x, *_ in upper), default=0.0)
        right = max((x + width for x, _, width, _ in upper), default=0.0)
        size = bytes_text(sum(tile.weight for tile in inner))
        room = (right - left) * 850
        wide, below = 7 * len(f"{root}  {size}"), max(len(root), len(size))
        label = f"{root}  {size}" if room > wide else f"{root}\n{size}" * (room > 7 * below)
        pixels = 7 * max(map(len, label.split("\n")))
        if root and label:
            short = {"short": f"{root}\n{size}", "short_pixels": _CHARACTER * below}
            place = {"x": left, "x2": right, "y": 0}
            heads[root] = {**place, "label": label, "pixels": pixels, **short}
    return heads


def _root(tile: Tile) -> str:
    root, _, rest = tile.path.partition("/")
    return root if rest else ""


def chart(placed: Sequence[Tile], odd: Collection[str] = ()) -> Spec:
    """The Vega-Lite chart of the rectangles; a click selects one. `odd`: the paths of arrays that are
    sharded otherwise than those beside them.
    """
    scale = _colors(placed)
    seen = {how(tile) for tile in placed if tile.place[2] * tile.place[3] > _SEEN}
    legend = _LEGEND | {"values": sorted(seen, key=scale["domain"].index)}
    color = {"field": "how", "type": "nominal", "title": None, "scale": scale, "legend": legend}
    shades = dict(zip(scale["domain"], scale["range"], strict=True))
    heads = _heads(placed)
    names = _NAMES | {"data": {"values": [*heads.values()]}}
    rectangles = {
        "name": "tiles",
        "mark": _TILE,
        "encoding": {
            "x": _X,
            "x2": {"field": "x2"},
            "y": _Y,
            "y2": {"field": "y2"},
            "color": color,
            "tooltip": _HOVER,
            "opacity": {"condition": {"param": "picked", "value": 1}, "value": 0.55},
        },
    }
    return {
        "params": [_PICKED],
        "data": {
            "values": [
                {**_row(tile, odd, name), "ink": ink(shades[how(tile)])}
                for tile, name in zip(placed, _names_of(placed, heads), strict=True)
            ]
        },
        "layer": [rectangles, _LABELS, names],
        "height": round(HEIGHT * (1 + _HEAD)),
        "padding": PADDING,
        "config": CONFIG,
    }


def _colors(placed: Sequence[Tile]) -> Spec:
    """Returns the scale of colors: that of axes is by their names, the same in each program."""
    kinds = sorted({how(tile) for tile in placed}, key=lambda kind: (kind != REPLICATED, kind))
    known = {REPLICATED: WRONG, BY_COMPILER: _UNKNOWN}
    for kind in sorted(kinds, key=lambda kind: (kind.removeprefix(_OVER) not in _AXES, kind)):
        if kind not in known:
            place = _place(kind.removeprefix(_OVER))
            turned = (*_COLORS[place:], *_COLORS[:place])
            known[kind] = next((e for e in turned if e not in known.values()), turned[0])
    return {"domain": kinds, "range": [known[kind] for kind in kinds]}


def _place(axes: str) -> int:
    return _AXES.index(axes) if axes in _AXES else crc32(axes.encode()) % len(_COLORS)


def _names_of(placed: Sequence[Tile], heads: Collection[str]) -> list[str]:
    """Returns the name that each rectangle has room for: below headings the last part of its path,
    else the same for one leaf of several arguments, the shortest of its names.
    """
    last = Counter((_root(each), each.path.rpartition("/")[2]) for each in placed)
    is_plain = all(number == 1 or name in _UNSPECIFIC for (_, name), number in last.items())
    named: dict[str, list[str]] = {}
    leaves = []
    for tile in placed:
        is_headed = _root(tile) in heads
        leaves.append(tile.path.partition("/")[2] if is_headed else f"/{tile.path}")
        named.setdefault(leaves[-1], []).append(_name(tile, is_headed, is_headed and is_plain))
    shortest = {leaf: min(filter(None, some), key=len, default="") for leaf, some in named.items()}
    names = (named[leaf].pop(0) for leaf in leaves)
    return [name and shortest[leaf] for leaf, name in zip(leaves, names, strict=True)]


def _row(tile: Tile, odd: Collection[str], name: str) -> Row:
    x, y, width, height = tile.place
    is_odd = any(each.leaf.path in odd for each in tile.arrays)
    shapes = {shape_text(each.shape) for each in tile.arrays}
    specs = {held_spec(each) for each in tile.arrays}
    many = f"{count_text(len(tile.arrays))} of " if len(tile.arrays) > 1 else ""
    lines = _lines(tile, is_odd, name)
    short = [line.rpartition("/")[2] for line in lines]
    return {
        "path": tile.path,
        "x": x,
        "x2": x + width,
        "y": y,
        "y2": y + height,
        "middle_x": x + width / 2,
        "middle_y": y + height / 2,
        "bytes": bytes_text(tile.weight),
        "how": how(tile),
        "sharded": how(tile) + _UNLIKE * is_odd,
        "shape": many + (shapes.pop() if len(shapes) == 1 else "several shapes"),
        "spec": specs.pop() if len(specs) == 1 else "several",
        # that its label takes: none where the screen is narrow
        "pixels": max(map(len, lines), default=0) * _CHARACTER + 1,
        "label": "\n".join(lines),
        "short_pixels": max(map(len, short), default=0) * _CHARACTER + 1,
        "short": "\n".join(short),
    }


def _name(tile: Tile, is_headed: bool, is_plain: bool = False) -> str:
    """Returns as much of the path of a rectangle as it has room for; of one that `is_plain` the last
    part, which no other has.
    """
    parts = [each for each in tile.path.removesuffix("/value").split("/") if each != "*"]
    parts = parts[is_headed:]
    # `kernel` alone names none of many
    least = 2 if parts[-1] in _UNSPECIFIC else 1
    # none begins with the number of a layer
    from_ = [at for at in range(len(parts) - least + 1) if not at or not parts[at].isdigit()] or [0]
    names = ["/".join(parts[at:]) for at in from_]
    # `m/wo` of `m/layers/wo`: the first part tells a moment from its weight, the others do not
    names[1:1] = ["/".join((parts[0], *parts[-least:]))] * (len(parts) > 1 + least)
    names = names[-1:] if is_plain and least == 1 else names
    return next((each for each in names if tile.place[2] * 850 > 7 * len(each) + 6), "")


def _lines(tile: Tile, is_odd: bool, name: str) -> list[str]:
    """Returns the lines of a label that have room: its name, its layers, its bytes."""
    _, _, width, height = tile.place
    room, most = width * 850, int(height * HEIGHT / 16)
    layers = "" if any(map(str.isdigit, name.split("/"))) else layers_words(tile)
    below = [layers] * bool(layers) + [_ODD] * is_odd + [bytes_text(tile.weight)]
    fitting = [each for each in below if room > _CHARACTER * len(each)]
    size, both = bytes_text(tile.weight), f"{name}, {layers}"
    while len(fitting) > max(1, most - 1):  # the bytes stay longest
        fitting = fitting[1:]
    if most == 1 and name and room > 7 * len(f"{name} {size}") + 6:
        return [f"{name} {size}"]
    if most == 1 and layers and room > 7 * len(both) + 6:
        return [both]
    return [name, *fitting][:most] if name else []


def layers_words(tile: Tile) -> str:
    """Returns which layers arrays are of, "" where their path names none.

    >>> layers_words(Tile("params/layers/*/up", (None,) * 5)), layers_words(Tile("layers/3/up", (None,)))
    ('5 layers', 'layer 3')
    >>> layers_words(Tile("blocks/*/experts/*/up", (None,) * 8)), layers_words(Tile("embed", (None,)))
    ('×8', '')
    >>> layers_words(Tile("params/layers/l*/up", (None,) * 5)), layers_words(Tile("params/h*/up", (None,) * 5))
    ('5 layers', '×5')
    """
    parts, count = tile.path.split("/"), len(tile.arrays)
    at = next((at for at, part in enumerate(parts) if "*" in part or part.isdigit()), 0)
    stack = parts[at - 1] if at else ""
    if "*" not in tile.path:
        return f"{stack.removesuffix('s')} {parts[at]}" if stack else ""
    is_argument = at == 1 and parts[at] != "*"  # `params/h*/up` are no params
    is_stack = stack.endswith("s") and tile.path.count("*") == 1 and not is_argument
    return f"{count} {stack}" if is_stack else f"×{count}"


def alt(placed: Sequence[Tile]) -> str:
    """The picture in words: its largest rectangles."""
    total = sum(tile.weight for tile in placed) or 1
    largest = sorted(placed, key=lambda tile: -tile.weight)[:5]
    words = "; ".join(
        f"{tile.path} {bytes_text(tile.weight)}, {tile.weight / total:.0%}, {how(tile)}"
        for tile in largest
    )
    return f"Bytes per device by array. The largest: {words}"
