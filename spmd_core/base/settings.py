"""Settings that come from environment variables, and the data folder."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import platformdirs

from spmd_core.base.errors import refuse, shorten


@dataclass(frozen=True, slots=True)
class Settings:
    """Seconds after which the supervisor acts, and what viewers of the dashboard may take."""

    run_timeout_s: float = 600.0  # a run, from leaving the queue to its result
    # of a run that only compiles: a large model takes minutes
    predict_timeout_s: float = 2400.0
    idle_s: float = 300.0  # until an idle worker gives up its devices
    cancel_grace_s: float = 5.0  # from the request to stop a worker until it is terminated
    terminate_grace_s: float = 3.0  # from SIGTERM to SIGKILL
    ping_s: float = 5.0  # for an idle worker to answer a ping before it is used again
    # retries of writing a result before it stays in memory
    write_s: float = 60.0
    lock_retry_s: float = 1.0  # between two tries for the lock of the data folder
    poll_s: float = 0.25  # between two checks for requests of other processes
    note_s: float = 1.0  # between two writes of progress to the database
    # queued and active runs above which a viewer's run is refused; a sweep counts as one
    queue_most: int = 50
    queue_most_of_viewer: int = 10  # the limit for one viewer
    stored_most_bytes: int = 2 * 2**30  # of the database, above which a viewer's run is refused
    # concurrent compile workers of a search or a sweep; 0: as cores and memory allow
    compilers: int = 0
    dask: str = ""  # address of a Dask scheduler on whose workers a search compiles

    def longest_s(self, is_compiling: bool) -> float:
        """Seconds after which a run is terminated."""
        return self.predict_timeout_s if is_compiling else self.run_timeout_s


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings of the environment; RequestError where one is not a positive number."""
    defaults = Settings()
    return Settings(
        run_timeout_s=_seconds(environ, "SPMD_LAB_RUN_TIMEOUT_S", defaults.run_timeout_s),
        predict_timeout_s=_seconds(
            environ, "SPMD_LAB_PREDICT_TIMEOUT_S", defaults.predict_timeout_s
        ),
        idle_s=_seconds(environ, "SPMD_LAB_IDLE_S", defaults.idle_s),
        write_s=_seconds(environ, "SPMD_LAB_WRITE_S", defaults.write_s),
        queue_most=_positive(environ, "SPMD_LAB_QUEUE", defaults.queue_most),
        queue_most_of_viewer=_positive(
            environ, "SPMD_LAB_QUEUE_PER_VIEWER", defaults.queue_most_of_viewer
        ),
        stored_most_bytes=_positive(environ, "SPMD_LAB_STORED_BYTES", defaults.stored_most_bytes),
        compilers=_positive(environ, "SPMD_LAB_COMPILERS", defaults.compilers),
        dask=_address(environ, "SPMD_LAB_DASK"),
    )


def _address(environ: Mapping[str, str], name: str) -> str:
    text = environ.get(name, "").strip()
    if text and not text.startswith(("tcp://", "tls://")):
        raise refuse(
            f"{name}={shorten(text)}",
            "is not the address of a Dask scheduler",
            f"use for example {name}=tcp://10.0.0.1:8786, or leave it out",
        )
    return text


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise refuse(
            f"{name}={shorten(text)}",
            "is not a number of seconds",
            f"use for example {name}={default:g}, or leave it out",
        )
    return value


def _positive(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) > 0):
        raise refuse(
            f"{name}={shorten(text)}",
            "is not a whole number above 0",
            f"use for example {name}={default or 2}, or leave it out",
        )
    return int(text)


def default_data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """SPMD_LAB_DATA, else the platform's user data folder."""
    chosen = environ.get("SPMD_LAB_DATA")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_dir("spmd-lab"))


@lru_cache(maxsize=64)
def resolved(folder: Path) -> Path:
    """A folder with its links resolved. Cached: every screen needs it twice a second."""
    return folder.resolve()
