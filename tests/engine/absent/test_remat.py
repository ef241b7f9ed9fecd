"""What a rematerialization policy keeps beside names: names go with every policy, alone and together."""

import json
import os
import subprocess
import sys

import pytest

from tests.labs import ROOT

pytestmark = pytest.mark.this_python

pytest.importorskip("libtpu")

# In a process of its own, which loads the compiler once for all combinations. What a policy keeps,
# and where, is in the program that is lowered: compiling it takes most of the time and adds nothing.
PROGRAM = """
import json
import numpy as np
from jax.sharding import AxisType, Mesh
from spmd_core.engine.absent.topology import devices_of
from spmd_core.workloads.serving import parse_plan
from spmd_core.script.programs.decoder_config import Decoder
from spmd_core.script.programs.decoder_step import lower_train_step
from spmd_core.script.decoder import configuration

TINY = {"target": "tpu:v5e:1x1", "model": "scaled:1", "mesh": {"fsdp": 1}, "batch_per_device": 1,
        "sequence": 128, "sizes": {"layers": 2, "embed": 128, "heads": 1, "mlp": 128, "vocab": 128}}
saved, offloaded, found = ("query",), ("mlp_up", "out"), []
for remat, save, offload in (("full", saved, offloaded), ("minimal", saved, ()),
                             ("minimal", (), offloaded)):
    plan = parse_plan(TINY | {"remat": remat, "save": save, "offload": offload})
    mesh = Mesh(np.array(devices_of(plan.topology)), ("fsdp",), axis_types=(AxisType.Auto,))
    lowered = lower_train_step(Decoder(**configuration(plan)), mesh, 1, 128, kernel=False)
    found.append([remat, save, offload, "pinned_host" in lowered.as_text()])
print(json.dumps(found))
"""
ENVIRON = {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}


def test_names_go_with_every_policy():
    environ = os.environ | ENVIRON | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == 3
    for remat, save, offload, on_host in found:
        assert on_host == bool(offload), (remat, save)
