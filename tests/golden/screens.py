"""Screens as a link opens them: what stands on them, element by element, without a browser."""

import base64
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha1
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import parse_qsl

import pyarrow as pa
from streamlit.testing.v1 import AppTest

from spmd_lab.ui.shell import screen_title
from tests.golden.values import Line, drawn_by, normal, of_html
from tests.labs import ROOT

_SIZE = re.compile(r"Stored results: \S+ \S+")  # of the file, which grows by what is looked at
_TEXTS = ("markdown", "caption", "title", "header", "subheader", "text", "latex", "code")
_SCREENS = {"Overview", *(screen_title(page.stem) for page in (ROOT / "pages").glob("*.py"))}
_DRAWN = re.compile(r'<img ([^>]*?)alt="([^"]*)" src="data:image/svg\+xml;base64,([^"]+)"[^>]*>')
_FILE = re.compile(r"-download:(.*)")  # which a download is called by
_ALERTS = ("info", "warning", "error", "success")
_FIELDS = (
    "selectbox",
    "multiselect",
    "radio",
    "button_group",
    "checkbox",
    "toggle",
    "text_input",
    "text_area",
    "number_input",
    "slider",
    "select_slider",
)
_LONG = 60  # characters of a link's parameter that are shown
_FEW = 12  # options of a field; of more the first and how many they are
_PATIENCE_S = 600  # of a screen that waits for a compiler beside others


def lines_of(
    page: str | None, query: Mapping[str, str], held: Mapping[str, Any] = MappingProxyType({})
) -> list[Line]:
    """The elements of a screen and the fields of its sidebar, as lines and rows. `held`: what its
    session holds before, such as an expander that is open.
    """
    screen = AppTest.from_file(str(ROOT / "home.py"), default_timeout=_PATIENCE_S)
    if page:
        screen.switch_page(f"pages/{page}.py")
    for name, value in query.items():
        screen.query_params[name] = value
    for name, value in held.items():
        screen.session_state[name] = value
    return _lines_of(screen)


def lines_of_part(
    draw: Callable[[], object], held: Mapping[str, Any] = MappingProxyType({})
) -> list[Line]:
    """The elements of a part of a screen, which `draw` draws."""
    _drawn_by[:] = [draw]
    code = f"from {__name__} import _drawn_by\n_drawn_by[0]()"
    screen = AppTest.from_string(code, default_timeout=30)
    for name, value in held.items():
        screen.session_state[name] = value
    return _lines_of(screen)


_drawn_by: list[Callable[[], object]] = []  # for the script of a part


def _lines_of(screen: AppTest) -> list[Line]:
    screen.run()
    assert not screen.exception, [each.value for each in screen.exception]
    nodes = (*screen.main, *screen.sidebar)
    lines = [line for node in nodes for line in _lines(node)]
    return [[_SIZE.sub("Stored results: SIZE", each) for each in line] for line in lines]


def _lines(node: Any) -> Iterator[Line]:
    kind, proto = getattr(node, "type", ""), cast(Any, getattr(node, "proto", None))
    if kind in _TEXTS or kind in _ALERTS:
        yield from ([normal(each)] for each in str(node.value).splitlines() if each.strip())
    elif kind == "html":
        body = _DRAWN.sub(_written, proto.body)
        yield from of_html(body)
    elif kind == "metric":
        yield ["metric", normal(proto.label), normal(proto.body), normal(proto.delta)]
    elif kind in ("expander", "status", "tab"):
        yield [f"{kind}: {normal(node.label)}"]
    elif kind in ("arrow_data_frame", "arrow_table", "dataframe", "table"):
        yield from _table(proto)
    elif kind in ("arrow_vega_lite_chart", "vega_lite_chart"):
        yield from _chart(proto)
    elif kind == "button":
        yield [f"button: {normal(node.label)}", *_stated(proto)]
    elif kind == "progress":
        yield ["progress", str(proto.value), normal(proto.text)]
    elif kind in _FIELDS:
        yield from _field(node, proto)
    elif kind == "page_link" and proto.label not in _SCREENS:
        yield [f"page_link: {normal(proto.label)}", *_query(proto.query_string)]
    elif kind in ("download_button", "link_button"):
        yield [f"{kind}: {normal(proto.label)}", *_FILE.findall(getattr(proto, "id", ""))]
    elif kind == "popover":
        yield [f"popover: {normal(proto.popover.label)}"]
    if kind not in _FIELDS and (text := getattr(proto, "help", "")):
        yield [f"help: {normal(text)}"]


def _field(node: Any, proto: Any) -> Iterator[Line]:
    """What a field says: its value, and what else may be chosen."""
    value = node.value if isinstance(node.value, list) else [node.value]
    yield ["field", normal(proto.label), *(normal(_shown(each)) for each in value), *_stated(proto)]
    options = [normal(getattr(each, "content", each)) for each in getattr(proto, "options", ())]
    if options:
        yield ["options", f"{len(options)} in all", *options[:_FEW]]
    for name in ("help", "placeholder"):
        if text := getattr(proto, name, ""):
            yield [f"{name}: {normal(text)}"]


def _query(text: str) -> list[str]:
    """The parameters of a link; of an experiment a short mark."""
    return [
        f"{name}={value if len(value) < _LONG else sha1(value.encode()).hexdigest()[:8]}"
        for name, value in parse_qsl(text.removeprefix("?"))
    ]


def _stated(proto: Any) -> list[str]:
    """Of a button or field: whether it can be used, and whether it is the first to press."""
    states = {
        "disabled": getattr(proto, "disabled", False),
        "primary": getattr(proto, "type", "") == "primary",
    }
    return [name for name, holds in states.items() if holds]


def _written(drawn: re.Match[str]) -> str:
    """A picture with what is written in it."""
    kind = drawn[1].replace('"', "")
    return f"<p>{kind}{drawn[2]}</p>{base64.b64decode(drawn[3]).decode()}"


def _table(proto: Any) -> Iterator[Line]:
    """Heads and rows, as they are displayed where a format is given."""
    held = proto.arrow_data
    frame = _arrow(held.styler.display_values or held.data)
    names = [str(each) for each in _arrow(held.data).column_names]
    yield ["table", *map(normal, names)]
    for name, column in json.loads(getattr(proto, "columns", "") or "{}").items():
        if text := column.get("help"):
            yield [f"help of {name}: {normal(text)}"]
    if getattr(proto, "alt", ""):
        yield [f"alt: {normal(proto.alt)}"]
    if getattr(proto, "selection_default", ""):
        yield ["picked", *map(str, _integers(json.loads(proto.selection_default)))]
    columns = [column.to_pylist() for column in frame.columns]
    for row in zip(*columns, strict=True):
        yield ["row", *(normal(_shown(each)) for each in row)]


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _integers(each)
    elif isinstance(value, int):
        yield value


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
        yield from drawn_by(json.dumps(columns, default=str))
    yield from (["mark", *map(normal, row)] for row in (drawn | dict.fromkeys(_marks(spec))))
    yield from drawn_by(proto.spec)


def _marks(spec: Any) -> Iterator[tuple[str, ...]]:
    """The data and titles that are written into a chart's description."""
    parts = spec.items() if isinstance(spec, dict) else enumerate(spec)
    for name, value in parts:
        if name in ("title", "text") and isinstance(value, str):
            yield (str(name), value)
        elif name in ("domain", "sort") and isinstance(value, list):
            yield (str(name), *map(_shown, value))
        elif name == "values" and isinstance(value, list):
            yield from (
                tuple(map(_shown, each.values())) for each in value if isinstance(each, dict)
            )
        elif isinstance(value, dict | list):
            yield from _marks(value)
