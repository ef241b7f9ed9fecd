"""The foundations of every wing: refusals, units, frozen values, threads, settings."""

from spmd_core.base import descriptors, held_folder, login, threads
from spmd_core.base.child import (
    CLOCK_TIMES,
    MOST_OUTPUT_BYTES,
    ChildAnswer,
    Spare,
    ask_child,
    asked,
    resident_bytes,
)
from spmd_core.base.errors import (
    AccessError,
    Alone,
    Inexpressible,
    LabError,
    MovedFolder,
    RequestError,
    StorageError,
    UnreadableRun,
    WorkerError,
    WrongResult,
    capital,
    member_words,
    refuse,
    shorten,
)
from spmd_core.base.exit_message import SILENT, failing_line, tail_with
from spmd_core.base.foreign import CLEAR, open_file, plain_streams, read_file, visible
from spmd_core.base.frozen import AsObject, Frozen, PairsOf, validated
from spmd_core.base.imports import imported
from spmd_core.base.keyed import by_key, sums_by_key
from spmd_core.base.login import is_confirmed
from spmd_core.base.parsing import parsed
from spmd_core.base.plugins import package_version, plugins
from spmd_core.base.settings import (
    Settings,
    default_data_folder,
    own_path,
    read_settings,
    resolved,
)
from spmd_core.base.units import (
    bytes_text,
    count_text,
    mesh_text,
    number_text,
    ordinal_text,
    scaled_text,
    seconds_text,
    suffixed_sizes,
    value_text,
)
from spmd_core.base.watched import Watched, unhindered, waited_s

__all__ = [
    "CLEAR",
    "CLOCK_TIMES",
    "MOST_OUTPUT_BYTES",
    "SILENT",
    "AccessError",
    "Alone",
    "AsObject",
    "ChildAnswer",
    "Frozen",
    "Inexpressible",
    "LabError",
    "MovedFolder",
    "PairsOf",
    "RequestError",
    "Settings",
    "Spare",
    "StorageError",
    "UnreadableRun",
    "Watched",
    "WorkerError",
    "WrongResult",
    "ask_child",
    "asked",
    "by_key",
    "bytes_text",
    "capital",
    "count_text",
    "default_data_folder",
    "descriptors",
    "failing_line",
    "held_folder",
    "imported",
    "is_confirmed",
    "login",
    "member_words",
    "mesh_text",
    "number_text",
    "open_file",
    "ordinal_text",
    "own_path",
    "package_version",
    "parsed",
    "plain_streams",
    "plugins",
    "read_file",
    "read_settings",
    "refuse",
    "resident_bytes",
    "resolved",
    "scaled_text",
    "seconds_text",
    "shorten",
    "suffixed_sizes",
    "sums_by_key",
    "tail_with",
    "threads",
    "unhindered",
    "validated",
    "value_text",
    "visible",
    "waited_s",
]
