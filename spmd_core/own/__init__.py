"""Explains steps of other people's code where they work: in a script, a notebook, a test."""

from spmd_core.own.explain import Explainer, explain
from spmd_core.own.explanation import Explanation

__all__ = ["Explainer", "Explanation", "explain"]
