"""Who sharded an axis, in words."""
