"""The lines of a program's files that its runs quote."""

import json
from pathlib import Path

import pytest

from bench import exported
from bench.lost_batches import _lowered
from spmd_core.engine.lower import Steps, compile_with
from spmd_core.engine.shardings import compiler_options, names_of, of_folder
from spmd_core.experiment import link_path, parse_experiment
from spmd_core.machine import dump_folder
from spmd_core.workloads import programs, sources

pytestmark = pytest.mark.usefixtures("read_here")


def test_a_run_stores_the_lines_that_it_names_and_a_link_none():
    program = programs.take(exported.sgd_step())
    sources.keep(program)
    given = {"workload": "program_file", "program": program.program, "mesh": exported.MESH}
    experiment = parse_experiment(given | {"target": "cpu:8"})
    with dump_folder() as folder:
        compile_with(_lowered(experiment, Steps(lambda phase: None)), compiler_options(folder))
        stored = of_folder(folder, experiment.mesh, (), names_of(experiment, "auto"))
    programs.delete(program.program)
    quoted = {each.code for each in stored.steps if each.source.startswith("exported.py:")}
    assert any(quoted) and quoted <= {
        line.strip() for line in Path(exported.__file__).read_text().splitlines()
    } | {""}
    linked = json.dumps(experiment.to_json()) + link_path(experiment)
    assert not any(each in linked for each in quoted if each)
