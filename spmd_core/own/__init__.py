"""Explains steps of other people's code where they work: in a script, a notebook, a test."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spmd_core.own.expected.expectation import (
        Expectation,
        ExpectationError,
        Expecting,
        expect,
    )
    from spmd_core.own.expected.spmd import Spmd, goldens_of
    from spmd_core.own.explaining import Explainer, explain
    from spmd_core.own.explanation import Explanation, schema
    from spmd_core.own.running import LabAnswer, layout, open_lab, predict, run, search
    from spmd_core.own.sharding_errors import (
        cost_words,
        explicit,
        explicit_headline,
        explicit_lines,
        write_explicit,
    )

_MODULES = {
    "Expectation": "expected.expectation",
    "ExpectationError": "expected.expectation",
    "Expecting": "expected.expectation",
    "Spmd": "expected.spmd",
    "expect": "expected.expectation",
    "goldens_of": "expected.spmd",
    "LabAnswer": "running",
    "layout": "running",
    "search": "running",
    "Explainer": "explaining",
    "Explanation": "explanation",
    "explain": "explaining",
    "cost_words": "sharding_errors",
    "explicit_headline": "sharding_errors",
    "explicit_lines": "sharding_errors",
    "explicit": "sharding_errors",
    "write_explicit": "sharding_errors",
    "open_lab": "running",
    "predict": "running",
    "run": "running",
    "schema": "explanation",
}
__all__ = [
    "Expectation",
    "ExpectationError",
    "Expecting",
    "Explainer",
    "Explanation",
    "LabAnswer",
    "Spmd",
    "cost_words",
    "expect",
    "explain",
    "explicit",
    "explicit_headline",
    "explicit_lines",
    "goldens_of",
    "layout",
    "open_lab",
    "predict",
    "run",
    "schema",
    "search",
    "versions",
    "write_explicit",
]


def __getattr__(name: str) -> Any:
    """Load a name on first use: whoever explains a step has no use for the lab."""
    if name not in __all__:
        raise AttributeError(name)
    import pkgutil

    inside = f"{_MODULES[name]}:{name}" if name in _MODULES else name
    return pkgutil.resolve_name(f"spmd_core.own.{inside}")
