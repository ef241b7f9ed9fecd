"""What a team reads: comparisons of runs and reports, as one document that is written as text,
Markdown, HTML or CSV.
"""

from spmd_core.reports.comparison import FEWEST, MOST, Compared, Subject, compare_runs
from spmd_core.reports.comparison_document import (
    collectives_table,
    comparison_document,
    comparison_json,
    runs_table,
    verdict_sentences,
)
from spmd_core.reports.document import Document, Table, csv_of
from spmd_core.reports.html import html_text
from spmd_core.reports.markdown import markdown_text, plain_text
from spmd_core.reports.run_document import report_document

__all__ = [
    "FEWEST",
    "MOST",
    "Compared",
    "Document",
    "Subject",
    "Table",
    "collectives_table",
    "compare_runs",
    "comparison_document",
    "comparison_json",
    "csv_of",
    "html_text",
    "markdown_text",
    "plain_text",
    "report_document",
    "runs_table",
    "verdict_sentences",
]
