"""How long a strategy takes where it runs: closed forms and rooflines, at measured or nominal rates."""

from spmd_core.roofline.bound import bound_s, closed_form_s, least_s
from spmd_core.roofline.calibration import ALONE, Calibration
from spmd_core.roofline.duration import NOT_CALIBRATED, Duration, Unknown
from spmd_core.roofline.fits import busy_facts, ceiling, fits
from spmd_core.roofline.formula import formula_of
from spmd_core.roofline.operations import operations_of, operations_of_turn
from spmd_core.roofline.published import (
    PUBLISHED,
    PublishedRate,
    Spans,
    expected_spans,
    is_published,
    published_spans,
    spans_of,
)
from spmd_core.roofline.roofline import (
    ProgramTime,
    partitioned_s,
    program_time,
    with_roofline,
)
from spmd_core.roofline.sharded_formula import ShardedFormula
from spmd_core.roofline.stored_results import (
    Case,
    calibration,
    calibration_of,
    calibration_on,
    cases,
    measured,
    on_topology,
    times_where_run,
    with_expected,
)
from spmd_core.roofline.time_model import (
    TimeModel,
    data_sheet,
    link_s,
    time_model,
    tokens_needed,
)

__all__ = [
    "ALONE",
    "NOT_CALIBRATED",
    "PUBLISHED",
    "Calibration",
    "Case",
    "Duration",
    "ProgramTime",
    "PublishedRate",
    "ShardedFormula",
    "Spans",
    "TimeModel",
    "Unknown",
    "bound_s",
    "busy_facts",
    "calibration",
    "calibration_of",
    "calibration_on",
    "cases",
    "ceiling",
    "closed_form_s",
    "data_sheet",
    "expected_spans",
    "fits",
    "formula_of",
    "is_published",
    "least_s",
    "link_s",
    "measured",
    "on_topology",
    "operations_of",
    "operations_of_turn",
    "partitioned_s",
    "program_time",
    "published_spans",
    "spans_of",
    "time_model",
    "times_where_run",
    "tokens_needed",
    "with_expected",
    "with_roofline",
]
