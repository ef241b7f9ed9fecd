"""A plain-JAX script that compiles an experiment's programs for a compile-only topology and prints
facts of the compiled programs.
"""

from spmd_core.base import Inexpressible, numbered
from spmd_core.experiment import Experiment, check_compiles, compiler_flags
from spmd_core.machine import ENVIRONMENT, description, get_topology
from spmd_core.script.bodies import body_text
from spmd_core.script.program import header, program_text
from spmd_core.workloads import STRATEGIES

_REPORT = '''
# %% compiling
COLLECTIVE = re.compile(r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast)(?:-start)?\\(")


def report(strategy, lowered):
    """Compile; print memory in bytes per device, and how many collectives of each kind the program's text has."""
    start = perf_counter()
    compiled = lowered.compile()
    print(f"{strategy}: compiled in {perf_counter() - start:.1f} s")
    memory = compiled.memory_analysis()
    sizes = {name: getattr(memory, f"{name}_size_in_bytes") for name in ("argument", "output", "temp", "alias")}
    for name, size in sizes.items():
        print(f"{strategy}: {name}_size = {size}")
    # in HBM: the compiler's own peak counts vector memory, too
    print(f"{strategy}: peak_memory = {sum(sizes.values()) - 2 * sizes['alias']}")
    for kind, count in sorted(Counter(COLLECTIVE.findall(compiled.as_text())).items()):
        print(f"{strategy}: {kind} x {count}")
'''


def absent_cells(experiment: Experiment) -> list[str]:
    """The cells of the script: devices, imports, and one for each strategy.

    RequestError for a workload that has nothing to compile.
    """
    check_compiles(experiment.what, experiment.place)
    report = (
        "# %% imports\nimport re\nfrom collections import Counter\nfrom time import perf_counter\n"
    )
    if experiment.plan or experiment.served:
        program = _on_absent(program_text(experiment, "auto")).rstrip()
        return [
            _devices(experiment),
            report + _REPORT,
            f"# %% auto\n{program}\n\n\nreport('auto', lower())",
        ]
    kept = [strategy for strategy in experiment.strategies if not STRATEGIES[strategy].is_map]
    shapes = ", ".join(
        f"{array.name!r}: {experiment.shape(array.name)}" for array in experiment.what.operands
    )
    operands = (
        f"# %% operands\nSHAPES = {{{shapes}}}\n\n\ndef operands(placed):\n"
        f'    """Shapes and shardings stand for the arrays, which no absent device can hold."""\n'
        f"    return [jax.ShapeDtypeStruct(shape, jnp.dtype({experiment.dtype!r}), "
        f"sharding=placed[name]) for name, shape in SHAPES.items()]"
    )
    cells = [_cell(experiment, strategy) for strategy in experiment.strategies]
    return [_devices(experiment), report + header(experiment, *kept) + _REPORT, operands, *cells]


def _cell(experiment: Experiment, strategy: str) -> str:
    if STRATEGIES[strategy].is_map:
        return (
            f"# %% {strategy}\n# {strategy} is called on attached devices: there is nothing to "
            f"compile for absent ones"
        )
    try:
        body = body_text(experiment, strategy).strip("\n")
    except Inexpressible as reason:
        return f"# %% {strategy}\n# {reason}"
    return (
        f"# %% {strategy}\n{_on_absent(body)}\n\n\nreport({strategy!r}, "
        f"program.lower(*operands(placed)))"
    )


def _on_absent(text: str) -> str:
    """A program's text with the topology's devices in place of the attached ones."""
    return text.replace("jax.devices()", "devices")


def _devices(experiment: Experiment) -> str:
    topology = get_topology(experiment.target)
    name, options = description(topology)
    made_for = numbered(topology.devices, "device")
    flags = " ".join(f"--{flag}={value}" for flag, value in compiler_flags(experiment).items())
    given = "".join(f", {option}={value!r}" for option, value in options.items())
    environment = [
        f'os.environ["{variable}"] = "{value}"' for variable, value in ENVIRONMENT.items()
    ]
    return "\n".join(
        [
            "# %% devices",
            "import os",
            "",
            "# read when jax and libtpu are loaded: set them before",
            *environment,
            f'os.environ["LIBTPU_INIT_ARGS"] = {flags!r}',
            "",
            "import jax",
            "from jax.experimental import topologies",
            "",
            f'devices = list(topologies.get_topology_desc({name!r}, "tpu"{given}).devices)  # '
            f"nothing is attached: programs are compiled, not run",
            f'assert len(devices) == {topology.devices}, f"made for {made_for}, '
            f'here are {{len(devices)}}"',
        ]
    )
