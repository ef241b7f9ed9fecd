"""What a file of your own imports to declare its functions as workloads."""

from spmd_core.experiment import workload

__all__ = ["workload"]
