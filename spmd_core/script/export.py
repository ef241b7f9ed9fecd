"""Exports a plain-JAX script that reproduces an experiment without this project."""

import json

from spmd_core.base import Inexpressible, RequestError, mesh_text, numbered, refuse
from spmd_core.experiment import Experiment, compiler_flags, encode
from spmd_core.results import Result
from spmd_core.script.absent import absent_cells
from spmd_core.script.bodies import body_text
from spmd_core.script.judging import judging_cell
from spmd_core.script.parts import spaced
from spmd_core.script.program import header, operands_text, program_text
from spmd_core.workloads import STRATEGIES

_MEASURING = '''
# %% measuring
SAMPLES, MIN_SECONDS = {samples}, {min_seconds}
RESULTS = {results!r}
RUN = {values}
wrong = []  # what was found wrong


def seconds_per_call(call, arguments, calls):
    """Every call is waited for before the next begins."""
    start = perf_counter()
    for _ in range(calls):
        jax.block_until_ready(call(*arguments))
    return (perf_counter() - start) / calls


def median_seconds(call, arguments):
    """The median of SAMPLES samples, each of as many calls as the clock needs."""
    once = min(seconds_per_call(call, arguments, 1) for _ in range(5))  # warm-up
    calls = max(1, math.ceil(max(MIN_SECONDS / SAMPLES, 1e-4) / once))
    return statistics.median(seconds_per_call(call, arguments, calls) for _ in range(SAMPLES))


def measure(strategy, program, placed, arrange=dict, ahead_of_time=True):
    """Compile for operands that lie as `placed` says (None: uncommitted), time the calls, check the values."""
    operands = arrange(make_operands())
    arguments = [jnp.asarray(value) if placed[name] is None else jax.device_put(value, placed[name]) for name, value in operands.items()]
    if not ahead_of_time:
        return report(strategy, program(*arguments), median_seconds(program, arguments))
    compiled = program.lower(*arguments).compile()
    if None in placed.values():
        print(f"{{strategy}}: {{median_seconds(compiled, arguments) * 1e6:.1f}} µs from unsharded operands")
        arguments = [jax.device_put(value, sharding) for value, sharding in zip(arguments, compiled.input_shardings[0])]
    report(strategy, compiled(*arguments), median_seconds(compiled, arguments))


def report(strategy, output, seconds, rows=ROWS, axis=AXIS, judge=judge):
    """Print time, sharding and values (up to 256 of them), and whether the values are right."""
    print(f"{{strategy}}: {{seconds * 1e6:.1f}} µs")
    arrays = output if isinstance(output, tuple) else (output,)
    for (name, shape), array, (expected, allowed, added) in zip(RESULTS.items(), arrays, RIGHT[HOW[strategy]]):
        values = np.asarray(array)
        print(f"{{strategy}}: {{name}}: {{array.sharding}}")
        if values.size <= 256:
            print(f"{{strategy}}: {{name}} =", *(str(value) for value in values.reshape(-1)))
        if name in RUN.get(strategy, {{}}):
            same = np.array_equal(np.asarray(RUN[strategy][name]).astype(values.dtype), values.reshape(-1), equal_nan=values.dtype.kind not in "iub")
            print(f"{{strategy}}: {{name}}: {{'the very values of the run' if same else 'other values than those of the run'}}")
        compared = values.reshape(shape) if rows is None else np.take(values.reshape(shape), rows, axis)
        judged = judge(expected, allowed, compared.astype(np.float64), HOW[strategy].dtype, added)
        print(f"{{strategy}}: {{name}}: " + {{True: "right", False: "WRONG", None: "not judged: beyond what the dtype holds or resolves"}}[judged.correct])
        if judged.imprecise:
            print(f"{{strategy}}: {{name}}: imprecise: {{judged.imprecise:,}} of {{judged.compared:,}} elements are {{judged.off:.2g}} of their size off, by sums in {{HOW[strategy].dtype}}")
        if judged.wrong:
            wrong.append(f"{{strategy}}: {{judged.wrong:,}} of {{judged.compared:,}} elements of {{name}} are wrong")
'''

_WRONG = "wrong = []  # what was found wrong\n"


def script_text(experiment: Experiment, result: Result | None = None) -> str:
    """A Python script in cells (`# %%`): what each strategy runs, its time and its values, compared
    with those of the result. Of a study one variant after the other, each by itself. RequestError
    where there is none.
    """
    if reason := why_no_script(experiment):
        raise reason
    parts = [
        _head(experiment, result),
        *(_of_study(experiment, result) if experiment.variants else _cells(experiment, result)),
    ]
    if any(part.startswith("# %% measuring") for part in parts):
        parts.append('# %% verdict\nif wrong:\n    raise SystemExit("\\n".join(wrong))')
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n"


def why_no_script(experiment: Experiment) -> RequestError | None:
    """Why no script of plain JAX reproduces an experiment; None where one does."""
    for each in [variant.experiment for variant in experiment.variants] or [experiment]:
        shown = f"a script of workload {each.workload}"
        if each.program:
            fix = "send the file itself, and the experiment as a link or a spec"
            return refuse(shown, "would need the file of the program, which is no Python", fix)
        if each.place.is_absent and "as_written" in each.strategies:
            fix = "use a target that is attached or simulated, such as cpu:8"
            return refuse(shown, f"measures devices, and {each.target} has none here", fix)
    return None


def _of_study(experiment: Experiment, result: Result | None) -> list[str]:
    """The cells of every variant, without definitions that are unchanged since the variant before;
    cells that compute are repeated.
    """
    parts: list[str] = []
    first = next((each for each in experiment.variants if each.experiment.place.is_absent), None)
    standing: dict[str, str] = {}  # title of a cell -> its latest text
    for each in experiment.variants:
        parts.append(f"# %% variant\nprint({f'variant {each.name}'!r})")
        if (
            first
            and each.experiment.place.is_absent
            and compiler_flags(each.experiment) != compiler_flags(first.experiment)
        ):
            parts[-1] += (
                "\n# its compiler flags are read once, when libtpu is loaded: to compile "
                "with them, run it in a process of its own"
            )
        own = result.of_variant(each.name) if result else None
        for cell in _cells(each.experiment, own):
            title = cell.strip("\n").partition("\n")[0]
            if title in standing:  # keeps the errors recorded so far
                cell = cell.replace(_WRONG, "")
            computes = title.removeprefix("# %% ") in each.experiment.strategies
            if computes or standing.get(title) != cell.replace(_WRONG, ""):
                parts.append(cell)
            standing[title] = cell.replace(_WRONG, "")
    return parts


def _cells(experiment: Experiment, result: Result | None) -> list[str]:
    if experiment.place.is_absent:
        return absent_cells(experiment)
    strategies = [strategy for strategy in experiment.strategies if strategy != "as_written"]
    parts = [_devices(experiment, result)]
    if strategies:
        parts += [
            f"# %% imports\nimport math\nimport statistics\nfrom time import "
            f"perf_counter\n{header(experiment, *strategies)}",
            "# %% operands\n" + "\n".join(spaced(operands_text(experiment).splitlines())),
            "\n".join(spaced(judging_cell(experiment, strategies, _platform(experiment, result)))),
            _measuring(experiment, result),
        ]
    return parts + [_cell(experiment, strategy, result) for strategy in experiment.strategies]


def _head(experiment: Experiment, result: Result | None) -> str:
    mesh = mesh_text(experiment.mesh)
    where = f"in {len(experiment.variants)} variants" if experiment.variants else f"on mesh {mesh}"
    lines = [
        f'"""{experiment.what.title} {where}: the programs of an SPMD Lab experiment; needs only '
        f"jax and numpy.",
        "",
    ]
    if result:
        ran = result.environment
        lines += [
            f"Run {result.run}: JAX {ran.jax}, Python {ran.python}, {ran.device_count} x "
            f"{ran.device_kind}.",
            "",
        ]
    return "\n".join([*lines, f"Experiment {experiment.id}", _code(experiment), '"""'])


def _code(experiment: Experiment) -> str:
    try:
        return encode(experiment)
    except RequestError:
        return json.dumps(experiment.to_json()).replace("\\", "\\\\")


def _devices(experiment: Experiment, result: Result | None) -> str:
    target = experiment.place
    lines = ["# %% devices", "import os", ""]
    if target.is_simulated:
        lines += [
            "# read when jax is imported",
            'os.environ["JAX_PLATFORMS"] = "cpu"',
            f'os.environ["JAX_NUM_CPU_DEVICES"] = "{target.device_count}"',
            f'os.environ["XLA_FLAGS"] = {_flags(result)!r}',
        ]
    elif result and _flags(result):
        lines.append(f'os.environ["XLA_FLAGS"] = {_flags(result)!r}')
    platform = {"cpu": "cpu"}.get(target.kind) or (result.environment.platform if result else None)
    lines += ["", "import jax", ""]
    if platform:
        lines.append(
            f'assert jax.default_backend() == {platform!r}, f"made for {platform}, not for '
            f'{{jax.default_backend()}}"'
        )
    count = experiment.device_count
    made_for = numbered(count, "device")
    lines.append(
        f'assert len(jax.devices()) >= {count}, f"made for {made_for}, here are '
        f'{{len(jax.devices())}}"'
    )
    return "\n".join(lines) + "\n"


def _flags(result: Result | None) -> str:
    return result.environment.xla_flags if result else ""


def _measuring(experiment: Experiment, result: Result | None) -> str:
    return (
        _MEASURING.format(
            samples=experiment.timing.samples,
            min_seconds=experiment.timing.min_seconds,
            results={
                array.name: experiment.shape(array.name)
                for array in experiment.what.results or experiment.what.operands
            },
            values=_values(result),
        ).strip("\n")
        + "\n"
    )


def _platform(experiment: Experiment, result: Result | None) -> str:
    if result:
        return result.environment.platform
    return "cpu" if experiment.place.is_simulated else "tpu"


def _values(result: Result | None) -> str:
    """The values of the run as a literal, one line per strategy and array; not finite ones as
    float("nan").
    """
    lines = []
    for strategy, outcome in result.strategies.items() if result else ():
        arrays = {
            name: reported.values
            for name, reported in outcome.outputs.items()
            if reported.values is not None
        }
        if arrays:
            texts = (
                f"{name!r}: [{', '.join(f'float({value!r})' if isinstance(value, str) else repr(value) for value in values)}]"
                for name, values in arrays.items()
            )
            lines.append(f"    {strategy!r}: {{{', '.join(texts)}}},")
    return (
        "\n".join(["{  # strategy -> result -> its values in the run", *lines, "}"])
        if lines
        else "{}"
    )


def _cell(experiment: Experiment, strategy: str, result: Result | None) -> str:
    failure = (
        result.strategies[strategy].error if result and strategy in result.strategies else None
    )
    try:
        if failure:
            return (
                f"# %% {strategy}\n# It failed in the run, with {failure.kind}: "
                f"{' '.join(failure.message.split())}"
            )
        if strategy == "as_written":
            call = 'for name, value in program(mesh).items():\n    print(f"{name} = {value}")'
            return f"# %% {strategy}\n{program_text(experiment, strategy).rstrip()}\n\n\n{call}"
        body = body_text(experiment, strategy).strip("\n")
    except Inexpressible as reason:
        return f"# %% {strategy}\n# {reason}"
    if strategy == "place":
        call = (
            f"report({strategy!r}, program(), median_seconds(jax.device_put, "
            f"(make_operands()['array'], placed['array'])))"
        )
    else:
        arrange = ", arrange" if "\ndef arrange(" in body else ", dict"
        call = (
            f"measure({strategy!r}, program, "
            f"placed{f'{arrange}, ahead_of_time=False' if STRATEGIES[strategy].is_map else ''})"
        )
    return f"# %% {strategy}\n{body}\n\n\n{call}"
