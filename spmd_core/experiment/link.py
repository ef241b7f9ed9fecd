"""Links: an experiment as text for an address bar, and back; never pickled, never evaluated."""

import base64
import binascii
import json
import re
import zlib
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from spmd_core.base import RequestError, refuse, shorten
from spmd_core.experiment.experiment import MAX_TEXT_BYTES, Experiment, parse_experiment
from spmd_core.experiment.nearest import nearest
from spmd_core.experiment.plans import check_flags
from spmd_core.fields import load_json

__all__ = [
    "MAX_LINK_CHARACTERS",
    "Link",
    "decode",
    "encode",
    "link_path",
    "looks_like_link",
    "nearest",
    "pack",
    "parse_link",
    "payload",
    "screen_of",
]

VERSION = 1
MAX_LINK_CHARACTERS = 2000
# leaves room for scheme, host, screen and run in a link of MAX_LINK_CHARACTERS
_MAX_CODE_CHARACTERS = 1800
# a link may be percent-encoded twice
_MAX_READ_CHARACTERS = 8 * MAX_LINK_CHARACTERS
_CODE = re.compile(r"([0-9]{1,9})\.([A-Za-z0-9_=-]*)")
_RUN = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Fixed by version 1 of the format. Target, dims and strategies are always written: their defaults
# differ between machines and versions.
_DEFAULTS = {
    "version": 1,
    "dtype": "float32",
    "sharding": {},
    "overrides": {},
    "memory": {},
    "data": {},
    "timing": {"samples": 20, "min_seconds": 0.2},
    "seed": 0,
}
_OPTION_DEFAULTS = {"precision": "default", "device_order": "topology"}


@dataclass(frozen=True, slots=True)
class Link:
    """The parts of a link: the code of the experiment, the screen it opens (None: unspecified), a
    stored run.
    """

    code: str
    screen: str | None = None
    run: str | None = None


def encode(experiment: Experiment) -> str:
    """The code of an experiment: `1.` and base64url of deflated JSON, without defaults.

    RequestError if it is too long for a link, or has compiler flags that a link may not carry.
    """
    check_flags(experiment)
    data = {
        field: value
        for field, value in experiment.to_json().items()
        if value != _DEFAULTS.get(field, ...)
    }
    data["options"] = {
        name: value
        for name, value in data["options"].items()
        if value != _OPTION_DEFAULTS.get(name)
    }
    if not data["options"]:
        del data["options"]
    return pack(data)


def pack(data: Any) -> str:
    """The code of a JSON value, to be read with `payload`; RequestError where it is too long for a
    link.
    """
    text = json.dumps(data, separators=(",", ":"))
    code = f"{VERSION}." + base64.urlsafe_b64encode(
        zlib.compress(text.encode(), 9)
    ).decode().rstrip("=")
    if len(code) > _MAX_CODE_CHARACTERS:
        raise refuse(
            f"link of {len(code)} characters",
            f"is longer than {_MAX_CODE_CHARACTERS}",
            "use shorter names, or send the spec as a file",
        )
    return code


def decode(text: str) -> Experiment:
    """The experiment of a link or of its bare code; RequestError, in one sentence, if there is
    none.
    """
    experiment = parse_experiment(payload(text))
    check_flags(experiment)
    return experiment


def payload(text: str) -> Any:
    """The JSON value inside a link or bare code, not yet checked to be an experiment: for
    `nearest`.
    """
    code = parse_link(text).code
    match = _CODE.fullmatch(code)
    if match is None:
        raise refuse(
            f"link {shorten(code, 40)}",
            "is not one of SPMD Lab",
            "copy all of it, it begins with 1.",
        )
    if int(match[1]) != VERSION:
        raise refuse(
            f"link of version {match[1]}",
            "cannot be read by this version of SPMD Lab",
            "update it, or get the spec as a file",
        )
    try:
        packed = base64.b64decode(
            match[2].rstrip("=") + "=" * (-len(match[2].rstrip("=")) % 4),
            altchars=b"-_",
            validate=True,
        )
    except (binascii.Error, ValueError):
        raise _damaged(code) from None
    return _load(_inflate(packed, code), code)


def _load(text: bytes, code: str) -> Any:
    try:
        return load_json(text)
    except RequestError as error:
        raise RequestError(f"link {shorten(code, 40)} holds no experiment: {error}") from None


def _inflate(packed: bytes, code: str) -> bytes:
    """At most MAX_TEXT_BYTES of inflated text; a stream that holds more is refused without
    inflating it.
    """
    for window_bits in (zlib.MAX_WBITS, -zlib.MAX_WBITS):  # with zlib's header, or bare deflate
        inflater = zlib.decompressobj(window_bits)
        try:
            text = inflater.decompress(packed, MAX_TEXT_BYTES + 1)
        except zlib.error:
            continue
        if len(text) > MAX_TEXT_BYTES:
            raise refuse(
                f"link {shorten(code, 40)}",
                f"inflates to more than {MAX_TEXT_BYTES // 1024} KiB",
                "do not trust it; ask its sender for the link again",
            )
        if inflater.eof and not inflater.unused_data:
            return text
    raise _damaged(code)


def _damaged(code: str) -> RequestError:
    return refuse(f"link {shorten(code, 40)}", "is damaged or truncated", "copy all of it")


def parse_link(text: str) -> Link:
    """The parts of a full link, a path, a query string or a bare code."""
    text = text.strip()
    if len(text) > _MAX_READ_CHARACTERS:
        raise refuse(
            f"link of {len(text)} characters",
            f"is longer than {MAX_LINK_CHARACTERS}",
            "copy the link alone",
        )
    if "experiment=" not in text:
        return Link(text)
    try:
        parts = urlsplit(text if "?" in text else f"?{text}")
        fields = parse_qs(parts.query, max_num_fields=32)
    except ValueError:
        raise refuse(
            f"link {shorten(text, 40)}", "is not a web address", "copy all of it"
        ) from None
    screen = parts.path.rstrip("/").rpartition("/")[2] or None
    run = fields.get("run", [None])[0]
    return Link(
        fields.get("experiment", [""])[0], screen, run if run and _RUN.fullmatch(run) else None
    )


def looks_like_link(text: str) -> bool:
    """Whether a command-line argument is a link or a bare code rather than a file name."""
    return "experiment=" in text or "://" in text or _CODE.fullmatch(text.strip()) is not None


def screen_of(experiment: Experiment) -> str:
    """The screen that shows an experiment: `programs` for one that was exported, `predict` on
    absent TPUs, elsewhere `layout` for a bare array and `compare` for a computation; a study is
    always on `compare`.
    """
    if experiment.variants:
        return "compare"
    if experiment.program:
        return "programs"
    if experiment.what.is_of_machine:
        return "collectives"
    if experiment.place.is_absent:
        return "predict"
    return "layout" if experiment.what.is_bare_array else "compare"


def link_path(experiment: Experiment, run: str | None = None, screen: str | None = None) -> str:
    """Path and query of an experiment's link, e.g. `/compare?experiment=1.…&run=…`."""
    query = f"experiment={encode(experiment)}" + (f"&run={quote(run)}" if run else "")
    return f"/{screen or screen_of(experiment)}?{query}"
