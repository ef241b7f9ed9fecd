"""Data movement and timelines, as values to draw."""

from spmd_core.pictures.arrows.flows import PERMUTE, SEND
from spmd_core.pictures.arrows.placed import Placed, placed
from spmd_core.pictures.arrows.scene import Arrow, ArrowScene, Node, scene
from spmd_core.pictures.arrows.traffic import (
    ChipLink,
    Groups,
    Traffic,
    follows_axes,
    groups_in_mesh,
    traffic,
)
from spmd_core.pictures.rectangles import Place, rectangles
from spmd_core.pictures.resharding.moves import Move, missing_bytes, reshard, time_of
from spmd_core.pictures.resharding.product import Product, is_product, product
from spmd_core.pictures.timeline import text
from spmd_core.pictures.timeline.facts import ProgramFacts
from spmd_core.pictures.timeline.of_walk import timeline_of
from spmd_core.pictures.timeline.perfetto import traces_text
from spmd_core.pictures.timeline.recorded import HOST, Event, Execution, Recorded
from spmd_core.pictures.timeline.text import NAME, TRACED, from_text, to_text
from spmd_core.pictures.timeline.traced import of_host, of_recorded
from spmd_core.pictures.timeline.values import (
    BESIDE,
    COPIES,
    EXPOSED,
    LOOP,
    WAIT,
    Span,
    Timeline,
    TimelineScene,
    mix,
)

__all__ = [
    "BESIDE",
    "COPIES",
    "EXPOSED",
    "HOST",
    "LOOP",
    "NAME",
    "PERMUTE",
    "SEND",
    "TRACED",
    "WAIT",
    "Arrow",
    "ArrowScene",
    "ChipLink",
    "Event",
    "Execution",
    "Groups",
    "Move",
    "Node",
    "Place",
    "Placed",
    "Product",
    "ProgramFacts",
    "Recorded",
    "Span",
    "Timeline",
    "TimelineScene",
    "Traffic",
    "follows_axes",
    "from_text",
    "groups_in_mesh",
    "is_product",
    "missing_bytes",
    "mix",
    "of_host",
    "of_recorded",
    "placed",
    "product",
    "rectangles",
    "reshard",
    "scene",
    "text",
    "time_of",
    "timeline_of",
    "to_text",
    "traces_text",
    "traffic",
]
