"""The plain-JAX text that runs, is shown, and is exported."""

from spmd_core.script import export, program
from spmd_core.script.export import script_text, why_no_script
from spmd_core.script.parts import array_text, mesh_lines
from spmd_core.script.program import program_text
from spmd_core.script.source import computation_lines

__all__ = [
    "array_text",
    "computation_lines",
    "export",
    "mesh_lines",
    "program",
    "program_text",
    "script_text",
    "why_no_script",
]
