"""Screens as a link opens them: what stands on them, element by element, without a browser."""

import base64
import io
import json
import re
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
from streamlit.testing.v1 import AppTest

from spmd_lab.ui.shell import screen_title
from tests.golden.values import Line, normal, of_html
from tests.labs import ROOT

_SIZE = re.compile(r"Stored results: \S+ \S+")  # of the file, which grows by what is looked at
_TEXTS = ("markdown", "caption", "title", "header", "subheader", "text", "latex", "code")
_SCREENS = {"Overview", *(screen_title(page.stem) for page in (ROOT / "pages").glob("*.py"))}
_DRAWN = re.compile(r'<img [^>]*?alt="([^"]*)" src="data:image/svg\+xml;base64,([^"]+)"[^>]*>')
_ALERTS = ("info", "warning", "error", "success")


def lines_of(page: str | None, query: dict[str, str]) -> list[Line]:
    """The elements of a screen below its sidebar, as lines and rows."""
    screen = AppTest.from_file(str(ROOT / "home.py"), default_timeout=120)
    if page:
        screen.switch_page(f"pages/{page}.py")
    for name, value in query.items():
        screen.query_params[name] = value
    screen.run()
    assert not screen.exception, [each.value for each in screen.exception]
    lines = [line for node in screen.main for line in _lines(node)]
    return [[_SIZE.sub("Stored results: SIZE", each) for each in line] for line in lines]


def _lines(node: Any) -> Iterator[Line]:
    kind, proto = getattr(node, "type", ""), cast(Any, getattr(node, "proto", None))
    if kind in _TEXTS or kind in _ALERTS:
        yield from ([normal(each)] for each in str(node.value).splitlines() if each.strip())
    elif kind == "html":
        yield from of_html(_DRAWN.sub(_written, proto.body))
    elif kind == "metric":
        yield ["metric", normal(proto.label), normal(proto.body), normal(proto.delta)]
    elif kind in ("expander", "status", "tab"):
        yield [f"{kind}: {normal(node.label)}"]
    elif kind in ("arrow_data_frame", "arrow_table", "dataframe", "table"):
        yield from _table(proto)
    elif kind in ("arrow_vega_lite_chart", "vega_lite_chart"):
        yield from _chart(proto)
    elif kind == "button":
        yield [f"button: {normal(node.label)}"]
    elif kind in ("download_button", "link_button") or (
        kind == "page_link" and proto.label not in _SCREENS
    ):
        yield [f"{kind}: {normal(proto.label)}"]


def _written(drawn: re.Match[str]) -> str:
    """A picture with what is written in it."""
    return f"<p>{drawn[1]}</p>{base64.b64decode(drawn[2]).decode()}"


def _table(proto: Any) -> Iterator[Line]:
    """Heads and rows, as they are displayed where a format is given."""
    held = proto.arrow_data
    frame = _arrow(held.styler.display_values or held.data)
    names = [str(each) for each in _arrow(held.data).column_names]
    yield ["table", *map(normal, names)]
    columns = [column.to_pylist() for column in frame.columns]
    for row in zip(*columns, strict=True):
        yield ["row", *(normal(_shown(each)) for each in row)]


def _arrow(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(io.BytesIO(data)).read_all()


def _shown(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _chart(proto: Any) -> Iterator[Line]:
    """The data that a chart draws, and the titles of its axes."""
    spec = json.loads(proto.spec)
    yield [f"chart: {normal(proto.alt)}"]
    drawn: dict[tuple[str, ...], None] = {}  # layers of a chart repeat its data
    for data in (proto.data.data, *(each.data.data for each in proto.datasets)):
        columns = [column.to_pylist() for column in _arrow(data).columns] if data else []
        drawn |= dict.fromkeys(tuple(map(_shown, row)) for row in zip(*columns, strict=True))
    yield from (["mark", *map(normal, row)] for row in (drawn | dict.fromkeys(_marks(spec))))


def _marks(spec: Any) -> Iterator[tuple[str, ...]]:
    """The data and titles that are written into a chart's description."""
    parts = spec.items() if isinstance(spec, dict) else enumerate(spec)
    for name, value in parts:
        if name in ("title", "text") and isinstance(value, str):
            yield (str(name), value)
        elif name == "values" and isinstance(value, list):
            yield from (
                tuple(map(_shown, each.values())) for each in value if isinstance(each, dict)
            )
        elif isinstance(value, dict | list):
            yield from _marks(value)
