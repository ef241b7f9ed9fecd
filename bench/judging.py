"""Runs experiments for their values alone: each program is compiled once, and judged as the engine
judges, seed after seed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from spmd_core.base import Inexpressible
from spmd_core.engine.lower import execute, file_name, lower, place
from spmd_core.engine.measured.check import Checker
from spmd_core.engine.measured.place import named_results, result_shapes
from spmd_core.engine.operands import Operands
from spmd_core.engine.trial import Trial
from spmd_core.experiment import Experiment
from spmd_core.script.program import operands_text, program_text

_IMPORTS = "import jax.numpy as jnp\nimport numpy as np"
Arrays = dict[str, np.ndarray]
Edit = Callable[[Arrays], None]  # changes arrays in place


@dataclass
class Case:
    """An experiment whose strategies are compiled once; seeds and data change the operands
    alone."""

    experiment: Experiment
    change: Callable[[str], str] = str  # of a program's text
    operands: Edit | None = None
    output: Edit | None = None
    _programs: dict[str, Any] = field(default_factory=dict)

    def judged(self, **varied: Any) -> Iterator[Trial]:
        """Every strategy that can express the experiment, judged on the operands of another
        seed or data."""
        yield from self.judged_with([self.output], **varied)

    def judged_with(self, outputs: Sequence[Edit | None], **varied: Any) -> Iterator[Trial]:
        """The same, once for each change of what a program returns: computed once."""
        experiment = self.experiment.vary(**varied)
        names = execute(f"{_IMPORTS}\n{operands_text(experiment)}", "operands.py")
        operands = Operands(names["make_operands"]())
        if self.operands is not None:
            self.operands(operands)
        checker = Checker(experiment, operands, jax.default_backend())
        for strategy in experiment.strategies:
            output = self._output(strategy, operands)
            if output is None:
                continue
            for change in outputs:
                results = _named(experiment, strategy, output)
                if change is not None:
                    change(results)
                trial = Trial(strategy, to_check={**results})
                checker.check(trial)
                yield trial

    def _output(self, strategy: str, operands: Operands) -> Any:
        if strategy not in self._programs:
            try:
                text = self.change(program_text(self.experiment, strategy))
            except Inexpressible:
                self._programs[strategy] = None
                return None
            names = execute(text, file_name(self.experiment.workload, strategy))
            if strategy == "place":  # its program draws the array itself
                put = names["placed"]["array"]
                self._programs[strategy] = (
                    lambda array: jax.device_put(array, put),
                    {"array": None},
                    dict,
                )
            elif "arrange" in names or not hasattr(names["program"], "trace"):
                self._programs[strategy] = (
                    names["program"],
                    names["placed"],
                    names.get("arrange", dict),
                )
            else:
                placed = names["placed"]
                lowered = lower(text, names, operands, lambda phase: None)
                if None in placed.values():
                    placed = dict(zip(operands, lowered.compiled.input_shardings[0], strict=True))
                self._programs[strategy] = (lowered.call, placed, dict)
        if self._programs[strategy] is None:
            return None
        program, placed, arrange = self._programs[strategy]
        return program(*place(arrange(operands), placed))


def _named(experiment: Experiment, strategy: str, output: Any) -> dict[str, np.ndarray]:
    """Results on the host by name, in the shapes that the workload declares."""
    if strategy == "place":
        return {"array": np.array(output)}
    named = named_results(experiment, output, result_shapes(experiment, strategy))
    return {name: np.array(array).reshape(experiment.shape(name)) for name, array in named.items()}
