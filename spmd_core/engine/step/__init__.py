"""A step of somebody else's code: traced as it is, exported, compiled here or for absent devices."""

__all__ = ["capture", "equations", "here", "named_values", "tracing"]
