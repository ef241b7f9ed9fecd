"""The cell of an exported script that checks values: the text of the reference, and the rule by
which a run's values are checked.
"""

import ast
from importlib import resources

from spmd_core.base import parsed
from spmd_core.experiment import Experiment
from spmd_core.reference import arithmetic, has_formula, sampled_rows
from spmd_core.script.source import computation_lines, select_source

# the function that returns the reference values of every result and their bounds, given how a
# strategy rounds
_WANTED = "right"
_ARRAY = '''
def right(how):
    """The right values in float64, and the largest error of each: a copy is equal."""
    values = make_operands()["array"].astype(np.float64)
    return [(values, np.zeros(values.shape), None)]
'''
_FORMULA = '''
def right(how):
    """Every result's right values in float64, the largest error of each that rounding explains,
    and no more by sums."""
    with np.errstate(all="ignore"):
        return [(found.value, bound(found, how), None) for found in {formula}(make_operands(), how, ROWS)]
'''
_OWN = '''
def right(how):
    """What the function itself gives in float64, and the largest error of each value that
    rounding explains, and that sums in the dtype explain."""
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        arguments = [jnp.asarray(value if value.dtype.kind in "iub" else value.astype(np.float64)) for value in make_operands().values()]
        found = {function}(*arguments)
        values = [np.asarray(array, np.float64) for array in (found if isinstance(found, tuple | list) else (found,))]
        given = {function}, arguments, values, Noise(how, {devices}), {seed}
        moved, sums = (spread(*given), added_up(*given)) if how.eps else ([None] * len(values), [None] * len(values))
        return [(value, bound(resolved(Bounded(value, apart)), how), added) for value, apart, added in zip(values, moved, sums)]
'''
_IMPORTS = (
    "from collections.abc import Callable, Mapping, Sequence\nfrom dataclasses import "
    "dataclass, replace\nfrom functools import cache\nfrom typing import Any"
)


def judging_cell(experiment: Experiment, strategies: list[str], platform: str) -> list[str]:
    """Lines that define `judge`, `ROWS`, `AXIS`, `HOW` (strategy -> how it rounds) and `RIGHT`
    (that -> right values and bounds).

    They use names that the strategies' programs redefine, and so compute before them.
    """
    rows, axis = sampled_rows(experiment)
    wanted = [*_texts(experiment), f"def used():\n    return judge, Arithmetic, {_WANTED}\n"]
    lines, _ = select_source("\n".join(wanted), "used", {})
    lines = "\n".join(lines).partition("def used():")[0].splitlines()
    hows = {strategy: arithmetic(experiment, platform, strategy) for strategy in strategies}
    return [
        "# %% what is right: NumPy in float64, and how far rounding may go",
        *_IMPORTS.splitlines(),
        "",
        *_own_function(experiment),
        *lines,
        "",
        # below a function of one's own, whose file may have constants of these names
        f"ROWS, AXIS = {'None' if rows is None else f'np.array({rows.tolist()})'}, {axis}  # of a "
        f"large result, what is compared",
        "HOW = {",
        *(f"    {strategy!r}: {how!r}," for strategy, how in hows.items()),
        "}",
        "RIGHT = {how: right(how) for how in set(HOW.values())}",
    ]


def _texts(experiment: Experiment) -> list[str]:
    texts = [_text("spmd_core.reference", name) for name in ("bounds.py", "judging.py")]
    what, bounds = experiment.what, "\n".join(texts)
    if experiment.what.is_bare_array:
        return [bounds, _ARRAY]
    if has_formula(what):
        formulas = _text("spmd_core.reference", "formulas.py")
        return [
            bounds,
            _text("spmd_core.reference", "steps.py"),
            formulas,
            _FORMULA.format(formula=formula_name(formulas, what.program.function or what.name)),
        ]
    _, function = computation_lines(experiment, "single", {})
    right = _OWN.format(function=function, devices=experiment.device_count, seed=experiment.seed)
    noise = _text("spmd_core.engine", "noise.py")
    measured = [
        _text("spmd_core.engine.measured", f"{name}.py")
        for name in ("rounding_noise", "stepwise_sums")
    ]
    return [bounds, noise, *measured, right]


def _own_function(experiment: Experiment) -> list[str]:
    """The function whose float64 values are the reference, where there is no formula."""
    known = experiment.what.is_bare_array or has_formula(experiment.what)
    return [] if known else computation_lines(experiment, "single", {})[0]


def _text(package: str, file: str) -> str:
    return resources.files(package).joinpath(file).read_text("utf-8")


def formula_name(source: str, workload: str) -> str:
    """The name of the function that is a workload's formula, read from the table FORMULAS of
    that text."""
    table = next(
        node
        for node in parsed(source).body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "FORMULAS"
    )
    assert isinstance(table.value, ast.Dict)
    return next(
        ast.unparse(value)
        for key, value in zip(table.value.keys, table.value.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == workload
    )
