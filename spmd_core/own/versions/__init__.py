"""A step in several environments: other releases of JAX, or other requirements, side by side."""

from spmd_core.own.versions import environments, side_by_side
from spmd_core.own.versions.environments import JaxEnvironment
from spmd_core.own.versions.side_by_side import Seen, changes_between

__all__ = ["JaxEnvironment", "Seen", "changes_between", "environments", "side_by_side"]
