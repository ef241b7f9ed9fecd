"""The workloads as plain JAX: the code that runs, is shown and is exported."""
