"""Goldens of one machine, Python and JAX, compared on another: python -m bench.equal_goldens

The steps of `bench.mutated_steps`, and four that are mapped or scanned, lie in a repository that is
cloned to two paths. `pytest --spmd-update` writes the goldens in the first one, by this Python; each
of the others compares them: this Python at the other path, and every one of --pythons at both. A
step whose StableHLO without locations is another one there is counted apart, with what differs; so
is one that XLA partitions otherwise, by the kinds and shapes of the collectives that JAX compiles.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.figures import Asked, Figures, measure
from bench.mutated_steps import HEAD, STEPS

ROOT = Path(__file__).resolve().parents[1]
MAPPED = """
def body(w, x):
    for _ in range(3):
        x = {body}
    return x


def train(w, x):
    mapped = jax.shard_map(body, mesh=MESH, in_specs={specs}, out_specs=P("fsdp"))
    return w - 0.1 * jax.grad(lambda w: (mapped(w, x) ** 2).mean())(w)


step = jax.jit(train, donate_argnames=("w",))


def arguments():
    return array((64, 64), {spec}), array((32, 64), "fsdp")
"""
BODIES = {
    "ring": (
        'jax.lax.ppermute(x, "fsdp", [(i, (i + 1) % 4) for i in range(4)]) @ w',
        '(P(), P("fsdp"))',
        "",
    ),
    "gathered": (
        'jnp.tanh(x @ jax.lax.all_gather(w, "fsdp", axis=0, tiled=True))',
        '(P("fsdp"), P("fsdp"))',
        '"fsdp"',
    ),
    "summed": (
        'jax.lax.psum(jnp.sin(x) @ w, "tensor") / 2',
        '(P(), P("fsdp"))',
        "",
    ),
    "exchanged": (
        'jax.lax.all_to_all(x, "fsdp", 1, 1, tiled=True) @ w',
        '(P(), P("fsdp"))',
        "",
    ),
}
TEXTS = {name: each.text for name, each in STEPS.items()} | {
    name: MAPPED.format(body=body, specs=specs, spec=spec or "None")
    for name, (body, specs, spec) in BODIES.items()
}
TEST = """
import importlib, pathlib, pytest, re

@pytest.mark.parametrize("name", {names})
@pytest.mark.spmd(devices=8)
def test_step(spmd, name):
    model = importlib.import_module(name)
    given = model.arguments()
    lowered = model.step.trace(*given).lower()
    pathlib.Path(f"{{name}}.stablehlo").write_text(lowered.as_text())
    found = re.findall("= (.*) (all-[a-z-]+|reduce-scatter|collective-permute)[(]", lowered.compile().as_text())
    pathlib.Path(f"{{name}}.compiled").write_text("\\n".join(sorted(f"{{kind}} {{re.sub('{{.*?}}', '', shape)}}" for shape, kind in found)))
    spmd.expect(model.step)(*given).matches_golden()
"""


def repository(folder: Path) -> None:
    """Writes the steps and their test."""
    folder.mkdir(parents=True)
    options = "-q -p spmd_lab.pytest_plugin -p no:cacheprovider --import-mode=importlib"
    (folder / "pyproject.toml").write_text(
        f"[tool.pytest.ini_options]\npythonpath = ['.']\naddopts = '{options}'\n"
    )
    for name, text in TEXTS.items():
        (folder / f"{name}.py").write_text(HEAD + text)
    (folder / "test_steps.py").write_text(TEST.format(names=[*TEXTS]))


def tried(python: str, folder: Path, *words: str) -> dict[str, str]:
    """Returns the failure of each step there, "" where its golden is equal."""
    report = folder / "report.xml"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environ |= {"PYTHONPATH": str(ROOT), "SPMD_LAB_DATA": str(folder / ".data")}
    command = [python, "-m", "pytest", f"--junitxml={report}", *words]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    assert report.exists(), done.stdout + done.stderr
    return failures(report.read_text())


def failures(report: str) -> dict[str, str]:
    """Returns the message of each test of a JUnit report."""
    from xml.etree import ElementTree

    return {
        case.attrib["name"].partition("[")[2][:-1]: "".join(
            each.attrib.get("message", "") for each in case if each.tag in ("failure", "error")
        )
        for case in ElementTree.fromstring(report).iter("testcase")
    }


def _texts(folder: Path, kind: str) -> dict[str, str]:
    return {name: (folder / f"{name}.{kind}").read_text() for name in TEXTS}


def main(asked: Asked, figures: Figures) -> None:
    """Write the goldens once, and compare them everywhere else."""
    with tempfile.TemporaryDirectory() as kept:
        first, second = Path(kept) / "one/repository", Path(kept) / "somewhere/else/clone"
        repository(first)
        written = tried(sys.executable, first, "--spmd-update")
        assert set(written) == set(TEXTS) and not any(written.values()), written
        kinds = ("stablehlo", "compiled")
        before = {kind: _texts(first, kind) for kind in kinds}
        repository(second)
        (second / "spmd_goldens").symlink_to(first / "spmd_goldens")
        places = [(sys.executable, second)]
        places += [(os.path.abspath(each), folder) for each in filter(None, asked.pythons.split(",")) for folder in (first, second)]  # fmt: skip
        for python, folder in places:
            failed = tried(python, folder)
            where = f"{'this path' if folder == first else 'another path'}, {version(python)}"
            figures.add(f"goldens equal of {len(TEXTS)}, {where}", list(failed.values()).count(""))
            same = [{name for name in TEXTS if before[kind][name] == now[name]} for kind in kinds for now in [_texts(folder, kind)]]  # fmt: skip
            for what, names in (("StableHLO", same[0]), ("StableHLO and collectives of JAX's own compile", same[0] & same[1])):  # fmt: skip
                unequal = [f"{name}: {failed[name][:600]}" for name in names if failed[name]]
                figures.add(f"unequal of {len(names)} with the same {what}", len(unequal), most=0, note="; ".join(unequal))  # fmt: skip
            others = {name: failed[name][:300] or "equal" for name in TEXTS if name not in same[0]}
            print(f"another StableHLO: {others}", flush=True)


def version(python: str) -> str:
    """Returns the versions of a Python and of its JAX."""
    code = "import sys, jax; print('Python %d.%d,' % sys.version_info[:2], 'JAX', jax.__version__)"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()  # fmt: skip


if __name__ == "__main__":
    measure(main, __doc__, pythons=(".venv-newer/bin/python", "other Pythons, with commas"))
