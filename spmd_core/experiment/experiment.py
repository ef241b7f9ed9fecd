"""The experiment: target, mesh, workload, sharding, memory, strategies and timing plan, as a value."""

import hashlib
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    PlainSerializer,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from spmd_core.base import AsObject, Frozen, RequestError, refuse, shorten
from spmd_core.experiment import options as experiment_options, rules, variants
from spmd_core.fields import Axes, Fields, MemoryKind, Mesh, Spec, axes_json, load_json, reading
from spmd_core.machine import Target, default_target, parse_target
from spmd_core.plan import Plan
from spmd_core.workloads import STRATEGIES, Program, ServedStep, Workload, get_workload, programs

MAX_TEXT_BYTES = 64 * 1024
_AsAxes = PlainSerializer(lambda pairs: {dim: axes_json(axes) for dim, axes in pairs})
_AsSpecs = PlainSerializer(
    lambda pairs: {name: [axes_json(axes) for axes in spec] for name, spec in pairs}
)


STUDY_PROCESSES = 3  # unless its timing plan has a number
MARGIN = 0.03  # ratios within so much of 1 count as the same time
# Signed ranks of so many rounds can exclude 1 at a third of 1 %, of two strategies; and of twelve
LOOKS_AFTER = (10, 14)


class Timing(Frozen):
    """The timing plan: samples per strategy, and the least seconds spent sampling each; in how many
    processes the best are timed (0: one, of a study three or more), and within what share of 1 a
    ratio counts as the same time.
    """

    samples: int = 20
    min_seconds: float = 0.2
    processes: int = 0
    margin: float = MARGIN

    @property
    def looks(self) -> tuple[int, ...]:
        """Rounds after which measuring ends where every verdict is settled; none where somebody chose
        how many samples are taken, or how long.
        """
        usual = Timing()
        is_usual = (self.samples, self.min_seconds) == (usual.samples, usual.min_seconds)
        return LOOKS_AFTER if is_usual else ()

    @model_serializer(mode="wrap")
    def _write(self, fields: SerializerFunctionWrapHandler) -> dict[str, int | float]:
        """Without fields later than version 1 where they are at their default."""
        data = fields(self)
        later = {"processes": 0, "margin": MARGIN}
        return {name: value for name, value in data.items() if value != later.get(name)}


class Variant(Frozen):
    """One of the experiments that a study measures side by side."""

    name: str
    experiment: "Experiment"


# the places of a palette of eight that strategies have everywhere; baselines have the last
_PALETTE = ("auto", "shard_map", "constrained", "explicit", "vmap", "pmap", "jit(vmap)", "single")


@dataclass(frozen=True, slots=True)
class Row:
    """One program of a run: a strategy, of a variant where there are several."""

    key: str  # names it in the result: the strategy, or `variant/strategy`
    variant: str  # "" where the experiment stands alone
    experiment: "Experiment"
    strategy: str


class Experiment(Frozen):
    """What is run. Fields are as in the JSON form; `sharding` maps each dim to its mesh axes.

    `reading` and `rules` check what a field may be, before any value is made; here are only types.
    A study is an experiment with `variants`, of which it is itself the first; the first of those
    that are measured, where others are on topologies that are not attached.
    """

    version: Literal[1] = 1
    target: str
    mesh: Mesh
    workload: str
    program: str = ""  # sha256 of a file of jax.export, where the workload is one
    dims: Annotated[tuple[tuple[str, int], ...], AsObject]
    dtype: str
    sharding: Annotated[tuple[tuple[str, Axes], ...], _AsAxes]
    overrides: Annotated[tuple[tuple[str, Spec], ...], _AsSpecs]
    specs: Annotated[tuple[tuple[str, Spec], ...], _AsSpecs] = ()  # by pattern, of a program
    memory: Annotated[tuple[tuple[str, MemoryKind], ...], AsObject]
    data: Annotated[tuple[tuple[str, str], ...], AsObject]
    options: Annotated[tuple[tuple[str, str | int | bool], ...], AsObject]
    strategies: tuple[str, ...]
    timing: Timing = Timing()
    seed: int = 0
    variants: tuple[Variant, ...] = ()  # at least two, or none

    @model_validator(mode="before")
    @classmethod
    def _read(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        given, entries = variants.opened(data)
        if len(entries) < 2:
            return _canonical_fields(given)
        added = _variants(entries)
        lead = next((each for each in added if not each.experiment.place.is_absent), added[0])
        return {name: getattr(lead.experiment, name) for name in cls.model_fields} | {
            "variants": added
        }

    @model_serializer(mode="wrap")
    def _write(
        self, fields: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, object]:
        """The JSON form. A variant is its name and the fields that it changes; `program` and `specs`
        are written only for an exported program.
        """
        data = fields(self)
        data.pop("variants", None)
        if not self.program:
            data.pop("program", None)
            data.pop("specs", None)
        if self.variants:
            data["variants"] = [
                {
                    "name": each.name,
                    "changes": {
                        field: value
                        for field, value in each.experiment.model_dump(mode=info.mode).items()
                        if value != data[field]
                    },
                }
                for each in self.variants
            ]
        return data

    @cached_property
    def what(self) -> Workload:
        """The workload's description, as the options make it: looked up once."""
        options = dict(self.options)
        source = experiment_options.source_of(options)
        return get_workload(self.workload, source, self.program).chosen(options)

    @cached_property
    def plan(self) -> Plan | None:
        """Its plan, where it is a training step; None of any other workload."""
        return self.what.read_plan(dict(self)) if self.what.read_plan else None

    @cached_property
    def served(self) -> ServedStep | None:
        """Its step of serving; None of any other workload."""
        return self.what.read_served(dict(self)) if self.what.read_served else None

    @cached_property
    def exported(self) -> Program | None:
        """The exported program of this workload, on its mesh; None of any other workload."""
        if not self.program:
            return None
        return Program(programs.find(self.program), self.mesh, self.specs, self.sizes)

    @cached_property
    def place(self) -> Target:
        """Where it runs: the target, parsed once."""
        return parse_target(self.target)

    @property
    def members(self) -> tuple[Variant, ...]:
        """The variants; of an experiment that stands alone itself, without a name."""
        return self.variants or (Variant.model_construct(name="", experiment=self),)

    @property  # a cached one would hold the experiment itself, and == would never end
    def rows(self) -> tuple[Row, ...]:
        """What is run side by side: every strategy of every variant, in order."""
        return tuple(
            Row(
                f"{each.name}/{strategy}" if each.name else strategy,
                each.name,
                each.experiment,
                strategy,
            )
            for each in self.members
            for strategy in each.experiment.strategies
        )

    @property  # a cached one would hold the experiment itself, and == would never end
    def rows_by_key(self) -> Mapping[str, Row]:
        """Key of a row -> the row."""
        return {row.key: row for row in self.rows}

    @cached_property
    def baselines(self) -> frozenset[str]:
        """Rows of a study that use no mesh, and would be the same program in another variant: their
        times are none of their variants' shardings.
        """
        on_one = {each.name: _on_one_device(each.experiment) for each in self.variants}
        programs = list(on_one.values())
        return frozenset(
            row.key
            for row in self.rows
            if STRATEGIES[row.strategy].is_single_device
            and self.variants
            and programs.count(on_one[row.variant]) > 1
        )

    @property  # a cached one would hold the experiment itself, and == would never end
    def ranked_rows(self) -> tuple[Row, ...]:
        """The rows by which variants are ranked: all but baselines."""
        return tuple(row for row in self.rows if row.key not in self.baselines)

    @property  # a cached one would hold the experiment itself, and == would never end
    def rows_once(self) -> tuple[Row, ...]:
        """What a run computes: the rows, of a baseline that several variants have its first alone.

        A variant that has no other row keeps its own.
        """
        known: set[tuple[object, ...]] = set()
        ranked, kept = {row.variant for row in self.ranked_rows}, []
        for row in self.rows:
            program = (row.strategy, *_on_one_device(row.experiment))
            if row.key in self.baselines:
                if row.variant in ranked and program in known:
                    continue
                known.add(program)
            kept.append(row)
        return tuple(kept)

    @property
    def sizes(self) -> dict[str, int]:
        """Dim -> size."""
        return dict(self.dims)

    @property
    def axis_sizes(self) -> dict[str, int]:
        """Mesh axis -> size, in order."""
        return dict(self.mesh)

    @property
    def device_count(self) -> int:
        """Devices in the mesh."""
        return math.prod(size for _, size in self.mesh)

    @property
    def is_mixed(self) -> bool:
        """Whether some variants are measured and others, on absent topologies, are predicted."""
        return len({each.experiment.place.is_absent for each in self.members}) > 1

    @property
    def processes(self) -> int:
        """In how many processes the best of its rows are timed."""
        return self.timing.processes or (STUDY_PROCESSES if self.variants else 1)

    @property
    def takes_more(self) -> bool:
        """Whether further processes than these may be measured: of a study while a verdict is open."""
        return bool(self.variants) and not self.timing.processes

    def palette_place(self, row: str) -> int:
        """Returns the place of a row's color in a palette: by its strategy, in a study by its place
        there. It is the same on every screen, live and in reports.

        The first baseline of a study trades its place with the row at that of a single device.
        """
        if self.variants:
            return self._place_in_study(row)
        places = [*dict.fromkeys((*_PALETTE, *STRATEGIES))]
        return places.index(row) if row in places else 0

    def _place_in_study(self, row: str) -> int:
        ranked = [each.key for each in self.ranked_rows]
        baselines = [each.key for each in self.rows if each.key in self.baselines]
        place, single = [*ranked, *baselines].index(row), _PALETTE.index("single")
        first = len(ranked) if baselines else single
        return {first: single, single: first}.get(place, place)

    @property
    def tokens(self) -> int:
        """What one execution works through: tokens of a step of a model; 1 of anything else."""
        step = self.plan or self.served
        return step.tokens if step else 1

    def table_spec(self, array: str) -> Spec:
        """The spec of an operand or result by the table alone, overrides left aside."""
        return self.what.array(array).spec(self.sizes, dict(self.sharding))

    def spec(self, array: str) -> Spec:
        """The spec of an operand or result: its override where it has one, else by the table."""
        if self._exported_specs is not None:
            return self._exported_specs[array]
        override = dict(self.overrides).get(array)
        return self.table_spec(array) if override is None else override

    @cached_property
    def _exported_specs(self) -> Mapping[str, Spec] | None:
        return self.exported and self.exported.array_specs()  # pyrefly: ignore[bad-return]

    def axes_of_dim(self, dim: str) -> Axes:
        """Axes that shard a dim, in any operand that has it."""
        present = {each.name: each.present(self.sizes) for each in self.what.operands}
        own = [self.spec(name)[dims.index(dim)] for name, dims in present.items() if dim in dims]
        return tuple(dict.fromkeys(axis for axes in own for axis in axes))

    def summed_dims(self, axes: Collection[str]) -> list[str]:
        """The contracted dims that are sharded over any of these axes."""
        return [dim for dim in self.what.contracted if {*axes} & {*self.axes_of_dim(dim)}]

    def shape(self, array: str) -> tuple[int, ...]:
        """Global shape of an operand or result."""
        return self.what.array(array).shape(self.sizes)

    def memory_kind(self, array: str) -> MemoryKind:
        """Memory kind of an operand or result."""
        return dict(self.memory).get(array) or self.what.memory.get(array, "device")

    def option(self, name: str) -> Any:
        """An option's value, its default filled in."""
        options = dict(self.options)
        return (
            options[name] if name in options else experiment_options.later_options(self.what)[name]
        )

    def to_json(self) -> dict[str, Any]:
        """The JSON form, defaults filled in: equal experiments give equal objects."""
        return self.model_dump(mode="json")

    @property
    def id(self) -> str:
        """Hash of the canonical form (16 hex digits)."""
        canonical = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def is_alike(self, other: "Experiment") -> bool:
        """Returns True if this is another or differs from it in specs alone that change no array's: in
        their order, or in those that a program's file has anyway.
        """
        if self == other:
            return True
        one, another = (each.to_json() | {"specs": None} for each in (self, other))
        if one != another or (mine := self.exported) is None or (its := other.exported) is None:
            return False
        has_same = dict(mine.constraints) == dict(its.constraints)
        return has_same and self._exported_specs == other._exported_specs

    def without_own_specs(self) -> "Experiment":
        """Returns an exported program without the specs that its file has anyway."""
        left = self
        for name, _ in self.specs:
            kept = {of: each for of, each in left.to_json()["specs"].items() if of != name}
            if (less := left.vary(specs=kept)).is_alike(self):
                left = less
        return left

    def vary(self, **changes: Any) -> "Experiment":
        """A copy with fields of the JSON form replaced, validated anew; RequestError where the
        change is refused.
        """
        return parse_experiment(self.to_json() | changes)


def _canonical_fields(data: Mapping[str, Any]) -> Fields:
    """All fields of an experiment: read, filled in, checked, and in the one form of equal ones."""
    given = reading.read_fields(data)
    options = dict(given.get("options", ()))
    source = experiment_options.source_of(options)
    what = get_workload(given["workload"], source, given.get("program", ""))
    options = experiment_options.fill_options(what, options)
    what = what.chosen(options)
    dims = rules.fill_dims(what, given.get("dims"))
    place = parse_target(given["target"] if "target" in given else default_target())
    empty = dict.fromkeys(("sharding", "overrides", "specs", "memory", "data"), ())
    defaults = {"strategies": what.default_strategies, "dtype": what.dtypes[0]}
    fields = (
        empty
        | defaults
        | given
        | {"target": place.text, "dims": tuple(dims.items()), "options": tuple(options.items())}
    )
    rules.check_mesh(fields["mesh"])  # pyrefly: ignore[bad-argument-type]
    rules.check_names(what, fields)
    try:
        rules.check_specs(what, fields)
    except RequestError:  # sizes that fit a mesh too large would be the next to be refused
        rules.check_count(fields["mesh"], place)  # pyrefly: ignore[bad-argument-type]
        raise
    fields |= _in_order(what, fields)
    return fields | what.canonical(fields) if what.canonical else fields


def _in_order(what: Workload, fields: Fields) -> dict[str, object]:
    """Pairs in the order of the workload's dims and arrays, without those at their default."""
    table, names = dict(fields["sharding"]), [array.name for array in what.arrays]

    def ordered(field: str, default: str | None) -> tuple[tuple[str, Any], ...]:
        given = dict(fields[field])
        return tuple((name, given[name]) for name in names if given.get(name, default) != default)

    return {
        "sharding": tuple((dim, table[dim]) for dim in what.dims if table.get(dim)),
        "overrides": ordered("overrides", None),
        "memory": ordered("memory", "device"),
        "data": ordered("data", "normal"),
    }


def _variants(entries: list[variants.Entry]) -> tuple[Variant, ...]:
    """The variants of a study, each with a name; RequestError where they cannot be compared."""
    read = []
    for place, (name, fields) in enumerate(entries, 1):
        try:
            read.append(parse_experiment(fields))
        except RequestError as error:
            raise variants.in_variant(name, place, error) from None
    forms = [each.to_json() for each in read]
    given = [name for name, _ in entries]
    variants.check(
        given, forms, read[0].what.is_comparable, sum(len(each.strategies) for each in read)
    )
    names = variants.names_of(forms, given)
    return tuple(
        Variant.model_construct(name=name, experiment=each)
        for name, each in zip(names, read, strict=True)
    )


def study_of(members: list[tuple[str | None, Experiment]]) -> Experiment:
    """The study of these experiments, named by what differs where they have no name."""
    return parse_experiment(
        {
            "study": [
                {"experiment": each.to_json()} | ({"name": name} if name else {})
                for name, each in members
            ]
        }
    )


def parse_experiment(data: Any) -> Experiment:
    """The experiment that a JSON value describes; RequestError, in one sentence, where none."""
    if not isinstance(data, Mapping):
        raise refuse(
            f"experiment {shorten(data)}",
            "is not a JSON object",
            'write for example {"workload": "layer", "mesh": {"x": 8}}',
        )
    try:
        return Experiment.model_validate(data)
    except ValidationError as error:
        cause = error.errors(include_url=False)[0].get("ctx", {}).get("error")
        if isinstance(cause, RequestError):
            raise cause from None
        raise  # the reader let a value pass that is not of the field's type: a mistake of ours


def parse_experiment_text(text: str | bytes) -> Experiment:
    """The experiment that a JSON text of at most 64 KiB describes."""
    if len(text) > MAX_TEXT_BYTES:
        raise refuse(
            f"experiment of {len(text)} bytes",
            f"is longer than {MAX_TEXT_BYTES} bytes",
            "leave out what is at its default",
        )
    return parse_experiment(load_json(text))


def _on_one_device(experiment: Experiment) -> tuple[object, ...]:
    options = frozenset(each for each in experiment.options if each[0] != "device_order")
    return experiment.target, experiment.dims, experiment.dtype, experiment.memory, options
