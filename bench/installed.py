"""The built wheel in an empty environment, as its user has it: python -m bench.installed

Builds the wheel and makes an environment by uv, from package indexes; needs about 1 GB for a while.
size: bytes of the wheel, and of what it installs beyond JAX and what JAX needs. step: a step of Flax
NNX explained by two lines, and the seconds of that beyond JAX's own lowering and compile. agent: the
tools of `spmd-lab mcp`, asked by the client of the package `mcp`.
"""

import json
import subprocess
import tempfile
from pathlib import Path

from bench.figures import Asked, Figures, measure
from spmd_core.own.versions.environments import uv

ROOT = Path(__file__).resolve().parents[1]
SIZES = """
import json, re
from importlib.metadata import distributions, requires, PackageNotFoundError
plain = lambda name: re.sub("[-_.]+", "-", name).lower()
held = {plain(each.name): sum(file.locate().stat().st_size for file in each.files or ()
    if file.locate().exists() and file.suffix != ".pyc") for each in distributions()}
def needed(name, seen):
    for line in requires(name) or ():
        word = plain(re.match("[A-Za-z0-9._-]+", line)[0])
        if "extra ==" not in line and word in held and word not in seen:
            seen.add(word)
            needed(word, seen)
    return seen
ours, theirs = needed("spmd-lab", {"spmd-lab"}), needed("jax", {"jax"})
print(json.dumps({name: held[name] for name in sorted(ours - theirs)}))
"""
MODEL = """
import jax, jax.numpy as jnp, optax
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("fsdp", "tensor"), axis_types=(AxisType.Auto,) * 2)
jax.set_mesh(mesh)
init = lambda *spec: nnx.with_partitioning(nnx.initializers.lecun_normal(), spec)

class Model(nnx.Module):
    def __init__(self, rngs):
        self.up = nnx.Linear(64, 256, rngs=rngs, kernel_init=init("fsdp", "tensor"))
        self.down = nnx.Linear(256, 64, rngs=rngs, kernel_init=init("tensor", "fsdp"))

    def __call__(self, x):
        return self.down(nnx.gelu(self.up(x)))

@nnx.jit
def step(model, optimizer, x):
    loss, gradients = nnx.value_and_grad(lambda model: (model(x) ** 2).mean())(model)
    optimizer.update(model, gradients)
    return loss

model = Model(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
arguments = model, optimizer, jax.device_put(jnp.ones((32, 64)), NamedSharding(mesh, P("fsdp")))
"""
EXPLAINED = """
import sys, time
from model import step, arguments
began = time.perf_counter()
if sys.argv[1] == "jax":
    step.lower(*arguments).compile()
else:
    import spmd_lab
    print(spmd_lab.explain(step)(*arguments), file=sys.stderr)
print(time.perf_counter() - began)
"""
CLIENT = """
import anyio, json, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

ASKED = [("lay_out", {"shape": [4, 8], "spec": ["x", None], "mesh": {"x": 2}}), ("history", {}),
    ("stored_programs", {}), ("explain_step", {"function": "at:made"}),
    *(("explain_step", {"function": each}) for each in ("os:getcwd", "..at:made", "../at:made"))]

async def main():
    words = ["-m", "spmd_core", "mcp", "--allow-code", "."]
    server = StdioServerParameters(command=sys.executable, args=words, env={"SPMD_LAB_DATA": "data", "PATH": ""})
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        answers = [json.loads((await session.call_tool(*each)).content[0].text) for each in ASKED]
        print(json.dumps([sorted(each) for each in answers]))

anyio.run(main)
"""


def _said(python: Path, folder: Path, code: str, *words: str) -> str:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"}  # fmt: skip
    command = [str(python), "-c", code, *words]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    print(done.stderr[-4000:], flush=True)
    return done.stdout


def size(figures: Figures, python: Path, folder: Path) -> None:
    """Bytes of the wheel, and beyond JAX."""
    (wheel,) = folder.glob("*.whl")
    figures.add("wheel, MB", wheel.stat().st_size / 1e6, most=3.0)
    held = json.loads(_said(python, folder, SIZES))
    listed = ", ".join(f"{name} {held[name] / 1e6:.1f}" for name in held)
    figures.add("installed beyond JAX, MB", sum(held.values()) / 1e6, most=30.0, note=listed)


def step(figures: Figures, python: Path, folder: Path) -> None:
    """A step of Flax NNX, explained by two lines."""
    uv("pip", "install", "--quiet", "--python", str(python), "flax")
    (folder / "model.py").write_text(MODEL)
    seconds = [float(_said(python, folder, EXPLAINED, which)) for which in ("jax", "lab")]
    figures.add("a Flax step explained, s beyond JAX's own", seconds[1] - seconds[0], most=10.0)


def agent(figures: Figures, python: Path, folder: Path) -> None:
    """Tools over the protocol: four answers, and three refusals."""
    uv("pip", "install", "--quiet", "--python", str(python), "mcp>=2,<3")
    (folder / "model.py").write_text(MODEL)
    (folder / "at.py").write_text(
        "from model import *\n\ndef made():\n    return step, arguments\n"
    )
    answers = json.loads(_said(python, folder, CLIENT))
    figures.add("tools that answer by protocol", answers.count(["data", "note"]), least=4)
    figures.add("modules outside the root refused", answers.count(["error", "note"]), least=3)


def main(asked: Asked, figures: Figures) -> None:
    """Build, install and measure what is asked for."""
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        uv("build", "--quiet", "--wheel", "--out-dir", kept, str(ROOT))
        uv("venv", "--quiet", "--python", asked.python, str(folder / "env"))
        python = folder / "env/bin/python"
        uv("pip", "install", "--quiet", "--python", str(python), *map(str, folder.glob("*.whl")))
        for name in asked.only.split(","):
            {"size": size, "step": step, "agent": agent}[name](figures, python, folder)


if __name__ == "__main__":
    measure(main, __doc__, only="size,step,agent", python=("3.12", "of the environment"))
