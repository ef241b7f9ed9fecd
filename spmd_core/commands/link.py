"""Prints the link that opens an experiment in the dashboard."""

import json
from argparse import ArgumentParser, Namespace

from spmd_core.commands.spec import add_spec, read_spec
from spmd_core.experiment import encode, link_path

DEFAULT_BASE = "http://localhost:8501"  # where `streamlit run app.py` listens


def add_arguments(parser: ArgumentParser) -> None:
    """Arguments of `link`."""
    add_spec(parser)
    parser.add_argument(
        "--base",
        metavar="URL",
        default=DEFAULT_BASE,
        help=f"address of the dashboard (default {DEFAULT_BASE})",
    )
    parser.add_argument("--run", metavar="ID", help="also name a stored run")


def main(arguments: Namespace) -> int:
    """Print the link."""
    experiment = read_spec(arguments.spec)
    path = link_path(experiment, arguments.run)
    link = arguments.base.rstrip("/") + path
    print(
        json.dumps(
            {"link": link, "path": path, "code": encode(experiment), "experiment": experiment.id}
        )
        if arguments.json
        else link
    )
    return 0
