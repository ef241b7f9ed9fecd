"""A step in several environments, with packages of the network: python -m bench.versions [--only NAME]

`wheels`: a regression planted between two wheels of a small library. `jax`: a change between two
releases of JAX. `bisect`: the release that made it, among eleven. Needs uv and about 4 GB.
"""

import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from bench.figures import Asked, Figures, measure

LIBRARY = """
import jax
from jax.sharding import NamedSharding, PartitionSpec as P

def constrain(x, mesh):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P({spec})))
"""
SPECS = {"1.0": '"fsdp", "tensor"', "1.1": '"fsdp"'}
MODEL = """
import jax, jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

def _place(mesh, shape, *spec):
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))

def _loss(params, x, mesh=None, constrain=lambda x, mesh: x):
    h = constrain(jnp.tanh(x @ params["up"]), mesh)
    return ((h @ params["down"]) ** 2).sum() if "down" in params else h.sum()

def of_library():
    import shardlib
    mesh = jax.make_mesh((4, 2), ("fsdp", "tensor"), axis_types=(AxisType.Auto,) * 2)
    step = jax.grad(lambda params, x: _loss(params, x, mesh, shardlib.constrain))
    up, down = _place(mesh, (256, 1024), None, "tensor"), _place(mesh, (1024, 256), "tensor")
    return step, ({"up": up, "down": down}, _place(mesh, (64, 256), "fsdp"))

def of_jax():
    mesh = jax.make_mesh((4, 2), ("fsdp", "tensor"))
    up, x = _place(mesh, (256, 1024), None, "tensor"), _place(mesh, (64, 256), "fsdp")
    return jax.grad(_loss), ({"up": up}, x)
"""


def wheel(folder: Path, version: str) -> Path:
    """Writes the wheel of a version of the small library."""
    path, info = folder / f"shardlib-{version}-py3-none-any.whl", f"shardlib-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: shardlib\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {
        "shardlib.py": LIBRARY.format(spec=SPECS[version]),
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": tags,
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return path


def project(folder: Path) -> None:
    """Writes the model, and a file of requirements with each wheel."""
    (folder / "model.py").write_text(MODEL)
    (folder / "requirements.txt").write_text("numpy\n")
    for version in SPECS:
        lines = f"{wheel(folder, version).name}\njax\n"
        (folder / f"with-{version}.txt").write_text(lines)


def _versions(folder: Path, *words: str) -> str:
    root = str(Path(__file__).resolve().parents[1])
    command = [sys.executable, "-m", "spmd_core", "versions", *words]
    environ = {**os.environ, "PYTHONPATH": root, "SPMD_LAB_DATA": str(folder / "data")}
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    print(done.stdout, done.stderr[-1000:], sep="\n")
    print(f"took {time.perf_counter() - began:.0f} s, exit code {done.returncode}\n")
    return done.stdout


def _wheels(folder: Path) -> bool:
    files = [f"--requirements=with-{version}.txt" for version in SPECS]
    text = _versions(folder, "model:of_library", *files)
    return "new: all-gather over tensor" in text and "constrain" in text


def _jax(folder: Path) -> bool:
    text = _versions(folder, *OF_JAX, "--jax=0.8.0", "--jax=0.9.2")
    return "axis types were Auto, Auto, now Explicit, Explicit" in text


def _bisect(folder: Path) -> bool:
    text = _versions(folder, *OF_JAX, "--bisect", "0.8.0", "0.10.2")
    return text.startswith("jax 0.9.0 is the first of 11")


OF_JAX = ("model:of_jax", "--requirements=requirements.txt")
PARTS = {
    "wheels": ("a regression between two wheels named, with its line", _wheels),
    "jax": ("a change between two releases of JAX named", _jax),
    "bisect": ("its release named among 11", _bisect),
}


def main(asked: Asked, figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project(folder)
        for part, (what, is_named) in PARTS.items():
            if asked.only in (None, part):
                figures.add(what, int(is_named(folder)), least=1)


if __name__ == "__main__":
    measure(main, __doc__, only={"choices": [*PARTS]})
