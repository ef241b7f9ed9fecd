"""Programs that others wrote, read from files of `jax.export`."""
