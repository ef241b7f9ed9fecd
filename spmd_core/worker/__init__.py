"""The worker process that owns the devices of one target, and its supervisor."""
