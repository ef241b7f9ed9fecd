"""The plain-JAX text that runs, is shown, and is exported."""
