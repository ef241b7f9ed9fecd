"""Judges every trial's results by the reference, element by element."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import jax
import numpy as np

from spmd_core.base import RequestError, refuse
from spmd_core.engine.exported.reference import program_references
from spmd_core.engine.lower import execute
from spmd_core.engine.measured.place import named_results, result_shapes
from spmd_core.engine.measured.rounding_noise import Noise, spread
from spmd_core.engine.measured.stepwise_sums import added_up
from spmd_core.engine.members import Shards, gathered
from spmd_core.engine.operands import Operands
from spmd_core.engine.trial import Trial, failure_of
from spmd_core.experiment import Experiment
from spmd_core.facts import StoredFact
from spmd_core.reference import (
    Arithmetic,
    Bounded,
    Error,
    Judgement,
    Reference,
    Sequential,
    arithmetic,
    beyond_fact,
    bound,
    has_formula,
    measure_error,
    multiplier_fact,
    references,
    resolved,
    uniform,
)
from spmd_core.results import Imprecise, Wrong, WrongElement
from spmd_core.script import computation_lines
from spmd_core.workloads import Program

_IMPORTS = "import jax\nimport jax.numpy as jnp\nimport numpy as np\n"


LARGE_BYTES = (
    64 * 2**20
)  # results above this are judged at once rather than kept until all strategies have run


@dataclass
class Checker:
    """Compares results with the reference; `operands` are filled by the time it is first needed.

    Strategies that round alike share one reference, those of several variants too where these have
    the same operands.
    """

    experiment: Experiment
    operands: Operands
    platform: str
    _known: dict[Arithmetic, tuple[dict[str, Reference], list[StoredFact]]] = field(
        default_factory=dict
    )

    def check(self, trial: Trial) -> None:
        """Fill in error, `wrong` and `correct` of a trial whose results wait for it."""
        held, trial.to_check = trial.to_check, {}
        if not held or trial.failure is not None:
            return
        self._judge(trial, held)
        if any(isinstance(each, Shards) for each in held.values()):
            _judge_together(trial)

    def _judge(self, trial: Trial, held: Mapping[str, np.ndarray | Shards]) -> None:
        expected, facts = self._expected(trial)
        trial.facts += facts
        if not expected:
            return
        results = {
            name: each.among(expected[name], self.experiment.shape(name))
            if isinstance(each, Shards)
            else each
            for name, each in held.items()
        }
        trial.error = _largest(
            [measure_error(expected[name], result) for name, result in results.items()]
        )
        judged = {name: expected[name].judge(result) for name, result in results.items()}
        trial.wrong = _wrong(expected, results, judged)
        trial.imprecise = None if trial.wrong else _imprecise(expected, judged)
        trial.correct = True if True in {each.correct for each in judged.values()} else None
        trial.facts += [
            fact
            for name, each in judged.items()
            if (fact := beyond_fact(name, each, expected[name])) is not None
        ]
        if trial.wrong:
            trial.correct = False

    def check_if_large(self, trial: Trial) -> None:
        """Judge results now that would fill the host's memory if they were kept."""
        if sum(result.nbytes for result in trial.to_check.values()) > LARGE_BYTES:
            self.check(trial)

    def _expected(self, trial: Trial) -> tuple[dict[str, Reference], list[StoredFact]]:
        experiment = trial.row.experiment if trial.row else self.experiment
        how = arithmetic(experiment, self.platform, trial.strategy)
        if how not in self._known:
            self._known[how] = self._computed(how)
        return self._known[how]

    def _computed(self, how: Arithmetic) -> tuple[dict[str, Reference], list[StoredFact]]:
        experiment, facts = self.experiment, list[StoredFact]()
        if experiment.what.is_bare_array:  # a copy is right when it is equal
            values = np.asarray(self.operands["array"], np.float64)
            return {"array": Reference(values, np.zeros_like(values), experiment.dtype)}, []
        if experiment.exported:
            return self._of_program(experiment.exported)
        if (fact := multiplier_fact(experiment, self.platform)) is not None:
            facts.append(fact)
        if has_formula(experiment.what):
            expected = references(experiment, self.operands, how)
        else:
            try:
                expected = own_references(experiment, self.operands, how)
                facts.append(StoredFact(kind="by the function itself"))
            except RequestError as error:
                return {}, [StoredFact(kind="not compared", values={"why": str(error)})]
            except Exception as error:  # whatever the user's function raises in float64 is reported; the timings stay
                failure = failure_of(error)
                return {}, [StoredFact(kind="function fails", values=failure.model_dump())]
        rows = next((one.rows for one in expected.values() if one.rows is not None), None)
        if rows is not None:
            facts.append(StoredFact(kind="rows compared", values={"rows": len(rows)}))
        if all(uniform(one) for one in expected.values()):
            facts.append(StoredFact(kind="values alike"))
        return expected, facts

    def _of_program(self, program: Program) -> tuple[dict[str, Reference], list[StoredFact]]:
        """What an exported program gives on one device, or why it is not compared."""
        try:
            seed = self.experiment.seed
            expected = program_references(program, self.operands, self.platform, seed)
            return expected, [StoredFact(kind="by one CPU device")]
        except RequestError as error:
            return {}, [StoredFact(kind="not compared", values={"why": str(error)})]
        except Exception as error:  # whatever one device cannot do is reported; the timings stay
            failure = failure_of(error)
            return {}, [StoredFact(kind="one device fails", values=failure.model_dump())]


def _judge_together(trial: Trial) -> None:
    """A result is right where every member holds right shards alone."""
    error = trial.error or Error(None, None)
    wrong = trial.wrong.model_dump() if trial.wrong else None
    imprecise = trial.imprecise.model_dump() if trial.imprecise else None
    sent = gathered((error.max_abs, error.max_rel, wrong, trial.correct, imprecise))
    trial.error = _largest([Error(*each[:2]) for each in sent])
    wrong_ones = [Wrong(**each[2]) for each in sent if each[2]]
    if wrong_ones:
        count = sum(each.count for each in wrong_ones)
        worst = max(wrong_ones, key=lambda each: each.count)
        trial.wrong = worst.model_copy(update={"count": count, "share": count / worst.of})
    if loose := [Imprecise(**each[4]) for each in sent if each[4]]:
        count, worst = sum(each.count for each in loose), max(loose, key=lambda each: each.off)
        trial.imprecise = worst.model_copy(update={"count": count, "share": count / worst.of})
    if trial.wrong:
        trial.imprecise = None
    known = [each for each in [each[3] for each in sent] if each is not None]
    trial.correct = all(known) if known else None


def _wrong(
    expected: Mapping[str, Reference],
    results: Mapping[str, np.ndarray],
    judged: Mapping[str, Judgement],
) -> Wrong | None:
    """What is wrong of all results together; the worst element is that of the result with the
    largest share of wrong ones."""
    count, compared = (
        sum(counts)
        for counts in zip(*((each.wrong, each.compared) for each in judged.values()), strict=True)
    )
    if not count:
        return None
    name = max(judged, key=lambda name: judged[name].wrong / max(judged[name].compared, 1))
    flat, right = judged[name].worst or 0, expected[name]
    worst = WrongElement(
        result=name,
        index=right.place(flat),
        got=_number(right.picked(results[name]).reshape(-1)[flat]),
        expected=_number(right.values.reshape(-1)[flat]),
        bound=_number(right.bounds.reshape(-1)[flat]),
    )
    return Wrong(count=count, of=compared, share=count / compared, worst=worst)


def _imprecise(
    expected: Mapping[str, Reference], judged: Mapping[str, Judgement]
) -> Imprecise | None:
    """How imprecise all results together are: as far off as the worst of them."""
    count = sum(each.imprecise for each in judged.values())
    compared = sum(each.compared for each in judged.values())
    if not count:
        return None
    name = max(judged, key=lambda name: judged[name].off)
    added = expected[name].added
    assert added is not None
    return Imprecise(
        count=count,
        of=compared,
        share=count / compared,
        off=judged[name].off,
        terms=added().terms or None,
        dtype=added().dtype,
    )


def _number(value: np.floating) -> float | str:
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _largest(errors: list[Error]) -> Error:
    if any(error.max_abs is None for error in errors):
        return Error(None, None)
    return Error(
        max(error.max_abs or 0.0 for error in errors), max(error.max_rel or 0.0 for error in errors)
    )


def own_references(
    experiment: Experiment, operands: Mapping[str, np.ndarray], how: Arithmetic
) -> dict[str, Reference]:
    """Every result by name, with what rounding allows. Whole numbers stay what they are; other
    operands are given in float64."""
    lines, function = computation_lines(experiment, "single", {})
    names = execute(_IMPORTS + "\n".join(lines) + "\n", f"{experiment.workload}_reference.py")
    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        arguments = [
            jax.numpy.asarray(value if value.dtype.kind in "iub" else value.astype(np.float64))
            for value in operands.values()
        ]
        # also where it returns Python's own numbers, as `jax.jit` does
        returned = jax.tree.map(jax.numpy.asarray, names[function](*arguments))
        results = named_results(experiment, returned, result_shapes(experiment))
        if is_complex := [name for name, each in results.items() if each.dtype.kind == "c"]:
            raise refuse(is_complex[0], "is complex", "return its real and imaginary parts")
        values = [np.asarray(array, np.float64) for array in results.values()]
        if not how.eps:
            references = [
                Reference(value, bound(Bounded(value), how), how.dtype) for value in values
            ]
            return dict(zip(results, references, strict=True))
        noise = Noise(how, experiment.device_count)
        given = names[function], arguments, values, noise, experiment.seed
        spreads, sums = spread(*given), added_up(*given)
        return {
            name: _reference(Bounded(value, apart), how, added)
            for name, value, apart, added in zip(results, values, spreads, sums, strict=True)
        }


def _reference(bounded: Bounded, how: Arithmetic, added: Callable[[], Sequential]) -> Reference:
    kept = resolved(bounded)
    lost = np.isinf(kept.squared_spread) & np.isfinite(bounded.squared_spread)
    unresolved = int(np.count_nonzero(lost))
    allowed = bound(kept, how)
    return Reference(bounded.value, allowed, how.dtype, unresolved=unresolved, added=added)
