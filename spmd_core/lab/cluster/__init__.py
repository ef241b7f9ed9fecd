"""A Dask cluster that compiles batches: searches' candidates, sweeps, remedies."""
