"""What a file of your own imports to declare its functions as workloads."""

from spmd_core.workloads import workload

__all__ = ["workload"]
