"""Prints the link that opens an experiment in the dashboard."""

import json
from argparse import Namespace

from spmd_core.commands.spec import SPEC, read_spec
from spmd_core.experiment import encode, link_path

DEFAULT_BASE = "http://localhost:8501"  # where `streamlit run app.py` listens


ARGUMENTS = {
    **SPEC,
    "--base": {
        "metavar": "URL",
        "default": DEFAULT_BASE,
        "help": f"address of the dashboard (default {DEFAULT_BASE})",
    },
    "--run": {"metavar": "ID", "help": "also name a stored run"},
}


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
