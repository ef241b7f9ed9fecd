"""The best meshes of a search as rows: where the time of each goes, its interval, its memory."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, islice
from typing import NamedTuple

from spmd_core.base import (
    between,
    bytes_text,
    number_text,
    span_text,
    sums_by_key,
    three_digits,
)
from spmd_core.machine import get_topology
from spmd_core.search import FEW, Candidate, Proof, Ranked, score
from spmd_core.surveys import search as words
from spmd_core.terms import title
from spmd_core.words import KINDS as NAMES, RANGE, part_kind
from spmd_lab.ui import links
from spmd_lab.ui.charts.colors import KINDS
from spmd_lab.ui.search.charts import short_name, times_of

MOST_ROWS = 12  # of the best meshes
MAY_NOT_FIT = "may not fit"
_TOGETHER, _ALONE = "measured side by side", "measured alone, each at another time"
_GROUPS = (_TOGETHER, "measured", _ALONE, "compiled", "estimated", MAY_NOT_FIT)  # of rows, in order
_FAR, _FEW = 3.0, 3  # times the best: what takes longer is no row beyond the first few
_SEEN = 0.004  # of a bar: a thinner part is no color that a key could name
_LONGEST = 2.0  # of an interval, in longest times: a longer one is drawn without an end
_CALLED = NAMES | {"wait": "waiting"}  # for copies, and for stragglers


class TimePart(NamedTuple):
    """A part of a bar: its kind, what it is called, and its share of the time."""

    kind: str
    share: float


@dataclass(frozen=True, slots=True)
class RankedRow:
    """A candidate as a row.

    Attributes:
      name: its mesh and batch; `policy` what is saved, of a step.
      group: how its time is known.
      path: of the link that opens it.
      end: of its bar, as a share of the axis; `low` and `high` of its interval.
      time: in words, and `span` of its interval.
      memory: in words; `filled`: the share of a device.
      others: numbers of candidates that differ from it in their strategy alone.
    """

    candidate: Candidate
    name: str
    policy: str
    group: str
    path: str
    end: float
    low: float
    high: float
    time: str
    span: str
    parts: tuple[TimePart, ...]
    memory: str
    filled: float
    others: tuple[int, ...] = ()


def ranked_rows(groups: Sequence[Sequence[Ranked]], proof: Proof | None = None) -> list[RankedRow]:
    """Returns the best of each of the first meshes, by how it is known, measured in the rounds of the
    `proof` first, and then by time; an interval that is far longer than the bars ends with the axis.
    """
    alike = _alike([group[0].candidate for group in groups if group[0].candidate.seconds])
    best = _near([first for first, *_ in alike])
    if not best:
        return []
    best += _compiled(groups, best)
    times, _, unit_name = times_of(best)
    longest = max(times.values())
    reach = max(longest, *(_ends(each, times[each.number])[1] for each in best))
    top, is_many = min(_LONGEST * longest, reach) or 1.0, len({each.target for each in best}) > 1
    others_of = {first.number: rest for first, *rest in alike}
    first, *others = best
    rows = [
        _row(
            [each, *others_of.get(each.number, ())],
            (times[each.number], top, unit_name),
            is_many,
            _group(each, proof),
        )
        for each in (first, *sorted(others, key=lambda each: times[each.number]))
    ]
    return sorted(rows, key=lambda row: _GROUPS.index(row.group))


def _row(
    alike: Sequence[Candidate], on_axis: tuple[float, float, str], is_many: bool, group: str
) -> RankedRow:
    """Returns the row of the first of some candidates; `on_axis`: its time, where the axis ends, and
    their unit; `is_many`: of several targets.
    """
    each, (time, top, unit_name) = alike[0], on_axis
    low, high = _ends(each, time)
    return RankedRow(
        each,
        _name(alike, is_many),
        each.step.policy.words if each.step else "",
        group,
        links.path(each.experiment, each.run, _screen(each)),
        time / top,
        min(1.0, low / top),
        min(1.0, high / top),
        f"{three_digits(time)} {unit_name}",
        f"{three_digits(low)} to {three_digits(high)} {unit_name}" if high > low else "",
        tuple(_parts(each)),
        _memory(each, is_many),
        (each.memory_bytes or 0) / _room(each) if each.step else 0.0,
        tuple(other.number for other in alike[1:]),
    )


def _group(each: Candidate, proof: Proof | None) -> str:
    if each.step and each.fits != "yes":
        return MAY_NOT_FIT
    if proof and each.stage == "measured":
        return _TOGETHER if each.number in proof.numbers else _ALONE
    return each.stage


def _alike(best: Sequence[Candidate]) -> list[list[Candidate]]:
    """Returns candidates with estimates that differ in their strategy alone as one, in order."""
    groups: dict[object, list[Candidate]] = {}
    for each in best:
        sharding = each.name.removesuffix(each.strategy)
        is_own = each.step is not None or each.stage != "estimated"
        key = each.number if is_own else (each.target, sharding, each.seconds, each.memory_bytes)
        groups.setdefault(key, []).append(each)
    return [*groups.values()]


def _name(alike: Sequence[Candidate], is_many: bool) -> str:
    """Returns the name of the first, with the strategies of the others."""
    others = (f" or {title(each.strategy)}" for each in alike[1:])
    return short_name(alike[0], is_many).replace(" · ", ", ") + "".join(others)


def _near(best: Sequence[Candidate]) -> list[Candidate]:
    """Those that one axis can hold: without what takes several times as long as the fastest."""
    least = min((score(each) for each in best), default=0.0)
    near = [each for at, each in enumerate(best) if at < _FEW or score(each) <= _FAR * least]
    return near[:MOST_ROWS]


def _compiled(groups: Sequence[Sequence[Ranked]], best: Sequence[Candidate]) -> list[Candidate]:
    """Plans that are compiled and not among the best, the first few: slower than estimates of their
    mesh and batch, or than those of others.
    """
    shown, most = {each.number for each in best}, _FAR * min(score(each) for each in best)
    known = (
        entry.candidate
        for group in groups
        for entry in group
        if entry.candidate.stage == "compiled" and entry.candidate.step
    )
    beside = (each for each in known if each.number not in shown and score(each) <= most)
    return [*islice(beside, FEW)]


def _ends(each: Candidate, time: float) -> tuple[float, float]:
    low, high = each.span or (each.seconds or 0.0,) * 2
    return time * low / (each.seconds or 1.0), time * high / (each.seconds or 1.0)


def _screen(each: Candidate) -> str:
    if each.step or each.experiment.place.is_absent:
        return "predict"
    return "programs" if each.experiment.exported else "compare"


def _room(each: Candidate) -> int:
    return get_topology(each.target).chip.device_hbm_bytes


def _memory(each: Candidate, is_many: bool) -> str:
    """Returns the memory that a step needs: where it may not fit as far as it is known; of what a
    device has, where there are several.
    """
    if each.step is None:
        return ""
    span = each.memory_span if each.fits != "yes" else None
    needs = between(*map(bytes_text, span or (each.memory_bytes,) * 2))
    return f"{needs} of {bytes_text(_room(each))}" if is_many else needs


def _parts(each: Candidate) -> Iterator[TimePart]:
    known = sums_by_key((part_kind(name), share) for name, share in words.time_parts(each).items())
    for kind in KINDS:
        if kind in known:
            yield TimePart(kind, known[kind])


def html(
    rows: Sequence[RankedRow],
    title: str,
    counts: Mapping[str, int],
    is_by_time: bool = False,
    open_numbers: Collection[int] = (),
    proof: Proof | None = None,
) -> str:
    """Returns the rows below the key of their parts, as HTML; `title`: what their times are of;
    `counts`: of all candidates, by group; `is_by_time`: the best is the fastest; `open_numbers`: of
    computations that could win, the only ones behind which the range of the best is drawn, as what was
    measured in paired rounds is settled whether ranges overlap or not; `proof`: those rounds.
    """
    best, base = rows[0], links.base_address("search")
    spans = _band_words(best, is_by_time, bool(open_numbers))
    key = f'{_key(rows)}<li class="best"><i></i>{spans}</li>'
    rooms = {_room(row.candidate) for row in rows if row.memory}
    room = f", of {bytes_text(*rooms)}" if len(rooms) == 1 else ""
    memory = f"Memory per device{room}" if rooms else ""
    band = f"--low: {best.low:.1%}; --high: {best.high:.1%}"
    named = "Mesh, global batch" if best.candidate.plan else ""
    lines = [
        f'<tr class="row head"><th scope="col">{named}</th><th scope="col"><ul>{key}</ul></th>'
        f'<th scope="col">{escape(title)}</th><th scope="col">{escape(memory)}</th></tr>',
        _axis(rows),
    ]
    for group, grouped in groupby(rows, key=lambda row: row.group):
        members = list(grouped)
        many = counts.get(group, 0)
        drawn = sum(1 + len(row.others) for row in members)
        of = f", {drawn} of {many:,}" * (many > drawn)
        lines.append(
            f'<tr><th colspan="4" scope="colgroup">{escape(_title(group, proof))}{of}</th></tr>'
        )
        lines += (_line(row, row is best, base, _is_open(row, open_numbers)) for row in members)
    return f'<div class="ranked" style="{band}"><table>{"".join(lines)}</table></div>'


def _title(group: str, proof: Proof | None) -> str:
    """Returns how the times of a group are known; of those measured alone what the others took then."""
    if group != _ALONE or proof is None or proof.alone_s is None:
        return group
    return f"{group}, when those side by side took {span_text(*proof.alone_s)}"


def _key(rows: Sequence[RankedRow]) -> str:
    """Returns the colors of the parts of times as items of a list; none where no time has parts."""
    kinds = {part.kind for row in rows for part in row.parts if part.share > _SEEN}
    key = "".join(
        f'<li><i style="background:{KINDS[kind]}"></i>{escape(_CALLED[kind])}</li>'
        for kind in KINDS
        if kind in kinds
    )
    if key and not all(row.parts for row in rows):  # their bars have the color below the parts
        key += '<li class="unsplit"><i></i>all parts of the time</li>'
    return key


def _band_words(best: RankedRow, is_by_time: bool, is_open: bool) -> str:
    """Returns what the shade is, and which rows could win by it."""
    if best.candidate.step is not None:
        return f"{RANGE} of the best" + ": overlapping it could win" * is_by_time
    return "range of the best" + ", behind what could win" * is_open


def _is_open(row: RankedRow, open_numbers: Collection[int]) -> bool:
    """Returns False of a computation that is settled."""
    each = row.candidate
    return each.step is not None or each.number in open_numbers


def _axis(rows: Sequence[RankedRow]) -> str:
    """Returns a row with three to seven round times at their places in the bars."""
    times, _, unit = times_of([row.candidate for row in rows])
    top = times[rows[0].candidate.number] / rows[0].end
    power = 10 ** math.floor(math.log10(top / 3))
    step = max(each * power for each in (1, 2, 5) if each * power <= top / 3)
    ticks = [number * step for number in range(int(top / step) + 1)]
    places = "".join(
        f'<span style="left:{tick / top:.1%}">{number_text(tick)}{f" {unit}" * (tick == ticks[-1])}</span>'
        for tick in ticks
    )
    return f'<tr class="row axis" aria-hidden="true"><th></th><td class="bar">{places}</td></tr>'


def _line(row: RankedRow, is_best: bool, base: str, is_open: bool = True) -> str:
    name = escape(row.name)
    if row.path:
        name = f'<a href="{escape(base + row.path)}">{name}</a>'
    parts = "".join(
        f'<i style="flex:{part.share:.4f};background:{KINDS[part.kind]}" '
        f'title="{escape(_CALLED[part.kind])} {part.share:.1%}"></i>'
        for part in row.parts
    )
    high = row.end * _ends(row.candidate, 1.0)[1]
    endless = ' class="open"' if high > 1 + 1e-9 else ""
    ends = f"left:{row.low:.1%};width:{row.high - row.low:.1%}"
    reach = f'<u{endless} style="{ends}"></u>' if row.span else ""
    doubt = " unsure" * (row.candidate.fits != "yes")
    gauge = f'<i class="gauge{doubt}"><i style="width:{min(1.0, row.filled):.1%}"></i></i>'
    return (
        f'<tr class="row{" first" * is_best}{" settled" * (not (is_best or is_open))}"><th scope="row">{name}<small>{escape(row.policy)}</small></th>'
        f'<td class="bar"><div style="width:{row.end:.1%}">{parts}</div>{reach}</td>'
        f"<td><b>{escape(row.time)}</b><small>{escape(row.span)}</small></td>"
        f"<td>{escape(row.memory)}{gauge if row.filled else ''}</td></tr>"
    )
