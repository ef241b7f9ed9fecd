"""Writes a report of stored runs as one HTML file or as Markdown."""

import json
from argparse import Namespace
from collections.abc import Iterable, Mapping

from spmd_core.base import refuse
from spmd_core.commands.notebook.named import (
    RUN_HELP,
    run_named,
    searches_named,
    subjects,
    subjects_of,
)
from spmd_core.commands.output import FORCE, check_output, write_output
from spmd_core.commands.spec import stored_id
from spmd_core.lab import Lab
from spmd_core.reports import (
    Document,
    collection_document,
    compare_searches,
    html_text,
    markdown_text,
    report_document,
    search_document,
    searches_document,
)
from spmd_core.runs import COLLECTION_ID

FORMATS = {"md": markdown_text, "html": html_text}


ARGUMENTS = {
    "runs": {
        "metavar": "RUN",
        "nargs": "+",
        "type": stored_id,
        "help": f"a collection, up to 8 searches, or up to 8 runs: {RUN_HELP}",
    },
    "--format": {
        "choices": tuple(FORMATS),
        "help": "md or html; else html where FILE ends so, or md",
    },
    "--out": {"metavar": "FILE", "help": "a file; else standard output"},
    "--force": {"action": "store_true", "help": FORCE},
    "--texts": {"action": "store_true", "help": "with the programs as compiled"},
}


def main(arguments: Namespace) -> int:
    """Write the report."""
    if arguments.out is not None:
        check_output("--out", arguments.out, arguments.force)
    lab = Lab.open(serve=False)
    document, runs, carried = _document(lab, arguments)
    is_html = str(arguments.out).endswith((".html", ".htm"))
    wanted = arguments.format or ("html" if is_html else "md")
    text = plain = FORMATS[wanted](document)
    if wanted == "html":
        text = lab.archives.page(plain, carried)
    if arguments.out is not None:
        write_output("--out", arguments.out, text)
    if arguments.json:
        made = {"runs": runs, "file": arguments.out}
        print(json.dumps(made | ({} if arguments.out else {"text": text})))
    elif arguments.out is None:
        print(text, end="")
    else:
        imports = ", which imports again" if text != plain else ""
        print(f"report in {arguments.out}{imports}")
    return 0


def _document(lab: Lab, arguments: Namespace) -> tuple[Document, list[str], list[str]]:
    """The document, the runs that are in it, and what its archive is of."""
    first, *others = arguments.runs
    if COLLECTION_ID.fullmatch(first):
        if others:
            raise refuse(f"collection {first}", "is reported alone", "name nothing else")
        collection = lab.collections.find(first)
        stored = subjects_of(lab, collection.runs)
        texts = _texts(lab, arguments, stored)
        return collection_document(collection, stored, texts), list(stored), [first]
    if searches := searches_named(lab, arguments.runs):
        if len(searches) > 1:
            compared = searches_document(compare_searches(searches), with_each=True)
            return compared, [], arguments.runs
        stored = subjects_of(lab, searches[0].runs)
        texts = _texts(lab, arguments, stored)
        return search_document(searches[0], stored, texts), list(stored), [first]
    named = subjects(lab, [run_named(lab, each) for each in arguments.runs])
    runs = [each.run for each in named]
    return report_document(named, _texts(lab, arguments, runs)), runs, runs


def _texts(
    lab: Lab, arguments: Namespace, runs: Iterable[str]
) -> dict[str, Mapping[str, Mapping[str, str]]]:
    return {run: lab.every_text(run) for run in runs} if arguments.texts else {}
