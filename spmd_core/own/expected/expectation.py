"""Expectations of a step in the tests of its author: each fails with the words of a review comment."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from spmd_core.base import bytes_text, numbered, refuse, seconds_text, shorten, span_text, visible
from spmd_core.own.changed.changes import comment
from spmd_core.own.changed.golden import FIELDS, UPDATE
from spmd_core.own.expected.answers import kept_answer
from spmd_core.own.expected.goldens import Goldens
from spmd_core.own.expected.selection import ANY, Axes, Selection, bytes_of, seconds_of
from spmd_core.own.explaining import Explainer, explain
from spmd_core.own.explanation import Explanation
from spmd_core.own.first_screen import groups_of
from spmd_core.results import NamedValue, StepArray, StepCollective, spec_code
from spmd_core.workloads import matches

_MOST = 12  # lines of a failure


class ExpectationError(AssertionError):
    """A step that is not as its test expects it."""


@dataclass(frozen=True)
class Expecting:
    """A step whose expectations are tested once it is called with its arguments."""

    explainer: Explainer
    goldens: Goldens | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> "Expectation":
        """Trace and compile the step; nothing runs. See `spmd_lab.explain` for what is taken.

        Returns:
            The step, to test expectations of.
        """
        return Expectation(self.explainer, args, kwargs, self.goldens)


@dataclass(frozen=True)
class Expectation:
    """A step with its arguments. Each method raises `ExpectationError` where the step is otherwise,
    and returns the step itself, so that calls may be chained.

    Methods that take `on=` are of what the program requests, or with a target, such as
    `tpu:v5e:4x4`, of the program that its compiler returns.
    """

    explainer: Explainer
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    goldens: Goldens | None = None
    described: dict[str | None, Explanation] = field(default_factory=dict)

    def on(self, target: str | None = None) -> Explanation:
        """Returns the description of the step as requested, or as compiled for a target."""
        if target not in self.described:
            self.described[target] = self._compiled(target)
        return self.described[target]

    def _compiled(self, target: str | None) -> Explanation:
        if target is None:
            described = self.explainer(*self.args, **self.kwargs)
            if self.explainer.target or described.target == "cpu":
                return described
            # a request is the same on every machine: that of simulated devices
            target = f"cpu:{prod(size for _, size in described.mesh)}"
        own = self.explainer
        there = explain(own.step, target=target, mesh=own.mesh, specs=dict(own.specs))
        return replace(there, answers=own.answers)(*self.args, **self.kwargs)

    def has_no(
        self,
        kind: str = ANY,
        *,
        over: Axes = None,
        only: Axes = None,
        within: str | None = None,
        on: str | None = None,
    ) -> "Expectation":
        """Expect no collective.

        Args:
            kind: `all-gather`, `all-reduce`, `reduce-scatter`, `all-to-all`, …; `*` for any.
            over: a mesh axis, or several: of any collective whose axes include all of these.
            only: the same, of those over exactly these axes.
            within: a pattern of the scope, the qualified function or the file.
            on: a target.
        """
        __tracebackhide__ = True
        selected = Selection(kind, over, only, within)
        if there := selected.of(self.on(on), on is None):
            raise ExpectationError(
                _listed(f"expected no {selected}{_where(on)}", there, on is None)
            )
        return self

    def has_at_most(
        self,
        most: int | str,
        kind: str = ANY,
        *,
        over: Axes = None,
        only: Axes = None,
        within: str | None = None,
        on: str | None = None,
    ) -> "Expectation":
        """Expect at most so many executions a step, or so many bytes a device and step.

        Args:
            most: an integer counts executions; a text such as `64 MiB` is of bytes.
            kind: the kind, as in `has_no`.
            over: mesh axes that are included.
            only: exactly these mesh axes.
            within: a pattern of the scope, the qualified function or the file.
            on: a target.
        """
        __tracebackhide__ = True
        selected = Selection(kind, over, only, within)
        there = selected.of(self.on(on), on is None)
        if isinstance(most, str):
            total = sum(each.bytes_total or each.bytes for each in there)
            is_more = total > bytes_of(most)
            head = f"expected {selected}{_where(on)} of at most {most} a step: {bytes_text(total)}"
        else:
            total = sum(each.count or 1 for each in there)
            is_more = total > most
            head = f"expected at most {most} {selected}{_where(on)} a step: there are {total}"
        if is_unknown := any(each.count is None for each in there):
            head += ", and more in a loop of unknown length"
        if is_more or is_unknown:
            raise ExpectationError(_listed(head, there, on is None))
        return self

    def arguments_at_most(self, most: int | str, *, within: str | None = None) -> "Expectation":
        """Expect that arguments take at most so many bytes of a device.

        Args:
            most: bytes, or a text such as `2 GiB`.
            within: a pattern of paths, such as `params/**`; None for all arguments.
        """
        __tracebackhide__ = True
        arrays = self.on().arguments
        arrays = arrays if within is None else _matching(within, arrays)
        total = sum(each.bytes_per_device or each.bytes for each in arrays)
        if total > bytes_of(most):
            of = f" of {within}" if within else ""
            rows = [
                f"{each.path}, {bytes_text(each.bytes_per_device or each.bytes)} a device, {each.code}"
                for each in sorted(arrays, key=lambda each: -(each.bytes_per_device or each.bytes))
            ]
            head = (
                f"expected arguments{of} of at most {most} a device: they take {bytes_text(total)}"
            )
            raise ExpectationError(_lines(head, rows))
        return self

    def peak_at_most(self, most: int | str, *, on: str | None = None) -> "Expectation":
        """Expect a peak of memory of at most so many bytes a device.

        Args:
            most: bytes, or a text such as `3 GiB`.
            on: a target. Without one, the peak is of simulated devices.
        """
        __tracebackhide__ = True
        limit, step = bytes_of(most), self.on(on)
        if step.peak_bytes is None:
            raise refuse(f"peak_at_most{_where(on)}", "has no peak to compare", "name a target")
        if step.peak_bytes > limit:
            held = sum(each.bytes_per_device or each.bytes for each in step.arguments)
            raise ExpectationError(
                f"expected a peak of at most {most}{_where(on)}: it is {bytes_text(step.peak_bytes)} a "
                f"device, of which arguments take {bytes_text(held)}"
            )
        return self

    def takes_at_most(self, most: float | str, *, on: str) -> "Expectation":
        """Expect a predicted time of at most so many seconds a step.

        Args:
            most: seconds, or a text such as `30 ms`.
            on: the target whose prediction is compared, by its estimate.
        """
        __tracebackhide__ = True
        limit, time = seconds_of(most), self.on(on).predicted_s
        if time is None:
            fix = "name one such as tpu:v5e:4x4"
            raise refuse(f"target {shorten(on)}", "has no predicted time", fix)
        if time.estimate > limit:
            raise ExpectationError(
                f"expected at most {most if isinstance(most, str) else seconds_text(most)} a step on "
                f"{on}: predicted are {seconds_text(time.estimate)} "
                f"({span_text(time.low, time.high)})"
            )
        return self

    def donates(self, *paths: str) -> "Expectation":
        """Expect that arguments are donated, with all arrays of each.

        Args:
            *paths: names of arguments, or patterns of paths such as `state/opt/**`.
        """
        __tracebackhide__ = True
        arrays = self.on().arguments
        kept = [
            f"{each.path}, {bytes_text(each.bytes_per_device or each.bytes)} a device"
            for path in paths
            for each in _matching(path, arrays)
            if not each.donated
        ]
        if kept:
            head = f"expected that {', '.join(paths)} is donated: name it in donate_argnames"
            raise ExpectationError(_lines(head, [f"not donated: {row}" for row in kept]))
        return self

    def is_sharded(self, path: str, spec: Iterable[Any]) -> "Expectation":
        """Expect a spec of arguments; of results where no argument has this path; else of values that
        `jax.ad_checkpoint.checkpoint_name` names.

        Args:
            path: the path of an array, or a pattern such as `params/*/up`; the name of a value.
            spec: a `PartitionSpec`; dims that it does not name are replicated.
        """
        __tracebackhide__ = True
        dims = tuple(spec)
        others = [
            f"{each.path} is {spec_code(each.spec)}"
            for each in self._sharded(path)
            if _padded(each.spec, each.shape) != _padded(dims, each.shape)
        ]
        if others:
            raise ExpectationError(_lines(f"expected {path} to be {spec_code(dims)}", others))
        return self

    def _sharded(self, path: str) -> Sequence[StepArray | NamedValue]:
        step = self.on()
        for arrays in (step.arguments, step.outputs):
            if there := [each for each in arrays if _is_of(path, each.path)]:
                return there
        # specs of other arguments are propagated by the compile alone
        named = () if self.explainer.specs else step.named_values()
        there = [each for each in named if matches(path, each.path)]
        return there or _matching(path, step.arguments, named)

    def matches_golden(
        self, *, on: str | None = None, compare: Sequence[str] = FIELDS, name: str = ""
    ) -> "Expectation":
        """Expect what the golden of this test has, a small file beside the test.

        `pytest --spmd-update` writes it. Its line numbers are not compared, and an array or a line
        of another name is no change.

        Args:
            on: a target; its peak memory is compared too, where jaxlib is of the same version.
            compare: the parts of collectives that are compared: `("kind", "axes")` allows for other sizes.
            name: the name of this golden, where a test has several.
        """
        __tracebackhide__ = True
        if self.goldens is None:
            fix = "use the fixture `spmd` of pytest: spmd.expect(step)(…).matches_golden()"
            raise refuse("matches_golden()", "is of a test", fix)
        path, compared = self.goldens.compared(self.on(on), name, on, compare)
        if compared.changed:
            head = f"{numbered(len(compared.changed), 'change')} since {path}; to accept, {UPDATE}"
            raise ExpectationError(_lines(head, compared.changed))
        return self


def expect(
    step: Callable[..., Any],
    *,
    target: str | None = None,
    mesh: Mapping[str, int] | None = None,
    specs: Mapping[str, Any] | None = None,
) -> Expecting:
    """Expect facts of a step, in a test: `expect(step)(*args).has_no("all-gather", over="tensor")`.

    Args:
        step: a function, jitted or not.
        target: a target that all expectations are of; None for what the program requests.
        mesh: sizes of the step's mesh axes, where these are other than its own, such as 1.
        specs: path pattern -> `PartitionSpec` of arguments.

    Returns:
        A function of the step's own arguments, which returns an `Expectation`.
    """
    explainer = explain(step, target=target, mesh=mesh, specs=specs)
    return Expecting(replace(explainer, answers=kept_answer))


def _where(on: str | None) -> str:
    return f" on {on}" if on else ""


def _listed(head: str, collectives: Sequence[StepCollective], is_request: bool) -> str:
    return _lines(head, [comment(group, is_request) for group in groups_of(collectives)])


def _lines(head: str, rows: Sequence[str]) -> str:
    more = [f"… and {len(rows) - _MOST} more"] if len(rows) > _MOST else []
    return "\n".join([f"{head}:", *(f"  {visible(row)}" for row in (*rows[:_MOST], *more))])


def _matching(
    path: str, arrays: Sequence[StepArray], others: Sequence[NamedValue] = ()
) -> list[StepArray]:
    """The arrays of a path or pattern: a test of none of them could not fail."""
    if there := [each for each in arrays if _is_of(path, each.path)]:
        return there
    known = list(dict.fromkeys(each.path for each in (*others, *arrays)))
    listed = ", ".join([*known[:6], *["…"] * (len(known) > 6)])
    raise refuse(f"path {shorten(path)}", "is that of no array", f"there are {listed}")


def _is_of(pattern: str, path: str) -> bool:
    return matches(pattern, path) or path.startswith(f"{pattern}/")


def _padded(spec: Sequence[Any] | None, shape: Sequence[int]) -> tuple[tuple[str, ...], ...] | None:
    if spec is None:
        return None
    dims = (*spec, *[None] * (len(shape) - len(spec)))
    return tuple((dim,) if isinstance(dim, str) else tuple(dim or ()) for dim in dims)
