"""SPMD Lab: shard arrays and programs of JAX, and read what each sharding costs."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spmd_core.own import (
        Expectation,
        ExpectationError,
        Explanation,
        LabAnswer,
        expect,
        explain,
        explicit,
        layout,
        open_lab,
        predict,
        run,
        schema,
        search,
    )

__all__ = [
    "Expectation",
    "ExpectationError",
    "Explanation",
    "LabAnswer",
    "expect",
    "explain",
    "explicit",
    "layout",
    "open_lab",
    "predict",
    "run",
    "schema",
    "search",
]


def __getattr__(name: str) -> Any:
    """Load the names above on first use: importing this package takes milliseconds."""
    if name not in __all__:
        raise AttributeError(f"module 'spmd_lab' has no attribute {name!r}")
    from spmd_core import own

    return getattr(own, name)


def __dir__() -> list[str]:
    return sorted(__all__)
