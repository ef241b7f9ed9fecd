"""Stores a step as a program of the lab, for its screens."""

from spmd_core.experiment import PROGRAM_FILE, Mesh, link_path, parse_experiment
from spmd_core.lab import Lab

BASE = "http://localhost:8501"


def stored_link(data: bytes, name: str, mesh: Mesh) -> str:
    """Returns the link of a step's program, on the mesh that it has."""
    described = Lab.open(serve=False).take_program(data, name)
    given = {"workload": PROGRAM_FILE, "program": described.program}
    sizes = dict(described.mesh or mesh or (("x", 1),))
    return BASE + link_path(parse_experiment({**given, "mesh": sizes}))
