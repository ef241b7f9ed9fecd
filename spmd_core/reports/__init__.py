"""What a team reads: comparisons of runs and reports, as one document that is written as text,
Markdown, HTML or CSV.
"""

from spmd_core.reports.baseline import Baseline
from spmd_core.reports.collection_document import (
    collection_document,
    parts_of,
    search_of,
    searches_compared,
    text_blocks,
)
from spmd_core.reports.comparison import (
    FEWEST,
    MOST,
    Compared,
    Subject,
    answered,
    check_compared,
    compare_runs,
)
from spmd_core.reports.comparison_document import (
    collectives_table,
    comparison_document,
    comparison_json,
    exposed_words,
    rows_table,
    runs_table,
    verdict_sentences,
)
from spmd_core.reports.document import Document, Heading, Paragraph, csv_of, json_of, marked
from spmd_core.reports.html import html_text
from spmd_core.reports.markdown import markdown_text, plain_text, table_markdown, table_text
from spmd_core.reports.run_document import findings_points, report_document, run_title
from spmd_core.reports.search_document import (
    ComparedSearches,
    compare_searches,
    question_differences,
    search_document,
    search_sentences,
    searches_document,
    searches_json,
    searches_table,
)
from spmd_core.sheets import Table, chosen_columns, turned

__all__ = [
    "FEWEST",
    "MOST",
    "Baseline",
    "Compared",
    "ComparedSearches",
    "Document",
    "Heading",
    "Paragraph",
    "Subject",
    "Table",
    "answered",
    "check_compared",
    "chosen_columns",
    "collection_document",
    "collectives_table",
    "compare_runs",
    "compare_searches",
    "comparison_document",
    "comparison_json",
    "csv_of",
    "exposed_words",
    "findings_points",
    "html_text",
    "json_of",
    "markdown_text",
    "marked",
    "parts_of",
    "plain_text",
    "question_differences",
    "report_document",
    "rows_table",
    "run_title",
    "runs_table",
    "search_document",
    "search_of",
    "search_sentences",
    "searches_compared",
    "searches_document",
    "searches_json",
    "searches_table",
    "table_markdown",
    "table_text",
    "text_blocks",
    "turned",
    "verdict_sentences",
]
