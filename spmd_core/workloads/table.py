"""The table of the built-in workloads."""

from spmd_core.workloads import arrays
from spmd_core.workloads.machine import CALIBRATION, COLLECTIVES_SWEEP
from spmd_core.workloads.serving import DECODER, SERVING_STEP
from spmd_core.workloads.small_programs import SMALL_PROGRAM
from spmd_core.workloads.transformer import ATTENTION, TRAIN_STEP, TRANSFORMER_BLOCK
from spmd_core.workloads.workload import Workload

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        *arrays.ROWS,
        ATTENTION,
        TRANSFORMER_BLOCK,
        TRAIN_STEP,
        arrays.TRANSFER,
        SMALL_PROGRAM,
        DECODER,
        SERVING_STEP,
        COLLECTIVES_SWEEP,
        CALIBRATION,
    )
}
