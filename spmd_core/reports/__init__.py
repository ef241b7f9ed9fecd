"""What a team reads: comparisons of runs and reports, as one document that is written as text,
Markdown, HTML or CSV.
"""

from spmd_core.reports.collection_document import (
    about,
    collection_document,
    search_words,
    text_blocks,
)
from spmd_core.reports.comparison import FEWEST, MOST, Compared, Subject, compare_runs
from spmd_core.reports.comparison_document import (
    collectives_table,
    comparison_document,
    comparison_json,
    runs_table,
    verdict_sentences,
)
from spmd_core.reports.document import (
    Document,
    Heading,
    Paragraph,
    Table,
    chosen_columns,
    csv_of,
    json_of,
    marked,
)
from spmd_core.reports.html import html_text
from spmd_core.reports.markdown import markdown_text, plain_text, table_markdown, table_text
from spmd_core.reports.result_tables import strategies_table
from spmd_core.reports.run_document import report_document, run_title

__all__ = [
    "FEWEST",
    "MOST",
    "Compared",
    "Document",
    "Heading",
    "Paragraph",
    "Subject",
    "Table",
    "about",
    "chosen_columns",
    "collection_document",
    "collectives_table",
    "compare_runs",
    "comparison_document",
    "comparison_json",
    "csv_of",
    "html_text",
    "json_of",
    "markdown_text",
    "marked",
    "plain_text",
    "report_document",
    "run_title",
    "runs_table",
    "search_words",
    "strategies_table",
    "table_markdown",
    "table_text",
    "text_blocks",
    "verdict_sentences",
]
