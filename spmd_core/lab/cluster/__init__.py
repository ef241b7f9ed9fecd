"""A Dask cluster that compiles what was asked for at once: searches' candidates, sweeps, remedies."""
