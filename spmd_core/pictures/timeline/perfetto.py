"""A timeline as a trace that Perfetto and chrome://tracing open."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from spmd_core.pictures.timeline.values import Timeline, TimelineScene

MOST_EVENTS = 120_000  # beyond, only the first pass of a loop is written
_US = 1e6


@dataclass
class _Writer:
    """Events in order of appearance."""

    timeline: Timeline
    names: Sequence[Sequence[str]]
    rows: list[str]
    passes: dict[int, int]
    process: int = 1
    events: list[dict[str, object]] = field(default_factory=list)
    flows: int = 0

    def scene(self, number: int, begin_s: float) -> None:
        """One pass through a scene, from `begin_s` on; loops opened."""
        scene = self.timeline.scenes[number]
        for at, span in enumerate(scene.spans):
            args = {
                "instruction": span.name,
                "op": span.op,
                "source": span.source,
                "hlo": span.line,
                "bytes": span.nbytes,
                "flops": span.flops,
                "exposed_us": span.exposed_s * _US if span.is_communication else None,
            }
            self._complete(
                self.names[number][at],
                span.kind,
                self._row(scene, span.row),
                begin_s + span.start_s,
                span.length_s,
                {name: value for name, value in args.items() if value},
            )
            if span.waits_for is not None:
                self._flow(scene, at, begin_s)
            if span.inside is not None:
                inner = self.timeline.scenes[span.inside]
                for turn in range(self.passes[span.inside]):
                    self.scene(span.inside, begin_s + span.start_s + turn * inner.length_s)

    def _row(self, scene: TimelineScene, row: int) -> int:
        return self.rows.index(scene.rows[row])

    def _complete(
        self,
        name: str,
        kind: str,
        row: int,
        begin_s: float,
        length_s: float,
        args: dict[str, object],
    ) -> None:
        self.events.append(
            {
                "ph": "X",
                "name": name,
                "cat": kind,
                "pid": self.process,
                "tid": row,
                "ts": round(begin_s * _US, 4),
                "dur": round(length_s * _US, 4),
                "args": args,
            }
        )

    def _flow(self, scene: TimelineScene, at: int, begin_s: float) -> None:
        """An arrow from what is waited for to the wait."""
        span = scene.spans[at]
        source = scene.spans[span.waits_for or 0]
        self.flows += 1
        shared = {
            "cat": "wait",
            "name": "waits for",
            "id": self.flows + 1_000_000 * self.process,
            "pid": self.process,
        }
        self.events += [  # pyrefly: ignore[bad-assignment]
            shared
            | {
                "ph": "s",
                "tid": self._row(scene, source.row),
                "ts": round((begin_s + source.start_s) * _US, 4),
            },
            shared
            | {
                "ph": "f",
                "bp": "e",
                "tid": self._row(scene, span.row),
                "ts": round((begin_s + max(span.start_s, source.start_s)) * _US, 4),
            },
        ]


def traces_text(
    timelines: Mapping[str, Timeline],
    names: Callable[[TimelineScene], Sequence[str]],
    row_name: Callable[[str], str] = str,
) -> str:
    """Trace-event JSON, times in microseconds, each timeline a process by its title, all from time 0
    on: every pass of every loop, as long as there are not too many; `names` gives those of a scene's
    spans.

    The format: perfetto.dev/docs/getting-started/other-formats#chrome-json-format
    """
    events = list[dict[str, object]]()
    for number, (title, timeline) in enumerate(timelines.items(), start=1):
        rows = list(dict.fromkeys(row for scene in timeline.scenes for row in scene.rows))
        writer = _Writer(
            timeline, [names(scene) for scene in timeline.scenes], rows, _passes(timeline), number
        )
        writer.scene(0, 0.0)
        events += [*_head(title, [row_name(row) for row in rows], number), *writer.events]
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, separators=(",", ":"))


def _passes(timeline: Timeline) -> dict[int, int]:
    inside = {
        number: scene.times // timeline.scenes[scene.parent].times
        for number, scene in enumerate(timeline.scenes)
        if scene.parent is not None
    }
    total = sum(len(scene.spans) * scene.times for scene in timeline.scenes)
    return inside if total <= MOST_EVENTS else dict.fromkeys(inside, 1)


def _head(title: str, rows: Sequence[str], process: int) -> Iterator[dict[str, object]]:
    yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": title}}
    for number, name in enumerate(rows):
        yield {
            "ph": "M",
            "name": "thread_name",
            "pid": process,
            "tid": number,
            "args": {"name": name},
        }
        yield {
            "ph": "M",
            "name": "thread_sort_index",
            "pid": process,
            "tid": number,
            "args": {"sort_index": number},
        }
