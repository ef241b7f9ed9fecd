"""The experiment: target, mesh, workload, sharding, memory, strategies and timing plan, as one frozen value."""

import hashlib
import json
import keyword
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer, StrictInt, ValidationError, model_validator

from spmd_core.errors import RequestError, refuse, shorten
from spmd_core.experiment import options as experiment_options
from spmd_core.experiment import plans, reading, rules
from spmd_core.experiment.reading import load_json
from spmd_core.experiment.types import Axes, MemoryKind, Spec, axes_json
from spmd_core.frozen import AsObject, Frozen, PairsOf
from spmd_core.machine.targets import default_target, parse_target
from spmd_core.workloads import decoder
from spmd_core.workloads.catalog import Workload, get_workload

MAX_MESH_AXES = 6
MAX_TEXT_BYTES = 64 * 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")


def _axes(value: Any) -> Any:
    """None, an axis or a list of axes, as a tuple of axes."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list | tuple) else value


AxesField = Annotated[Axes, BeforeValidator(_axes), PlainSerializer(axes_json)]


class Timing(Frozen):
    """The timing plan: rounds of samples per strategy, and the least time in seconds spent sampling each."""

    samples: StrictInt = Field(20, ge=1, le=1000)
    min_seconds: float = Field(0.2, ge=0, le=60)


class Experiment(Frozen):
    """What is run. Fields are as in the JSON form; `sharding` maps each dim to its mesh axes."""

    version: Literal[1] = 1
    target: str = Field(default_factory=default_target)
    mesh: Annotated[tuple[tuple[str, StrictInt], ...], PairsOf]
    workload: str
    dims: Annotated[tuple[tuple[str, StrictInt], ...], PairsOf, AsObject] = ()
    dtype: str = "float32"
    sharding: Annotated[tuple[tuple[str, AxesField], ...], PairsOf, PlainSerializer(lambda pairs: {dim: axes_json(axes) for dim, axes in pairs})] = ()
    overrides: Annotated[
        tuple[tuple[str, tuple[AxesField, ...]], ...], PairsOf,
        PlainSerializer(lambda pairs: {name: [axes_json(axes) for axes in spec] for name, spec in pairs})] = ()
    memory: Annotated[tuple[tuple[str, MemoryKind], ...], PairsOf, AsObject] = ()
    data: Annotated[tuple[tuple[str, Literal["normal", "arange", "ones"]], ...], PairsOf, AsObject] = ()
    options: Annotated[tuple[tuple[str, str | StrictInt | bool], ...], PairsOf, AsObject] = ()
    strategies: tuple[str, ...] = ()
    timing: Timing = Timing()  # pyright: ignore[reportCallIssue]
    seed: StrictInt = Field(0, ge=0, lt=2**32)

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        """Read the JSON forms; null is left out; fill in what depends on the workload: dims, strategies, options."""
        if not isinstance(data, Mapping):
            return data
        data = {field: value for field, value in data.items() if value is not None}
        if not isinstance(data.get("workload"), str):
            raise refuse(f"workload {shorten(data.get('workload'))}", "is not a name", "name one, for example layer")
        for field, read in reading.READERS.items():
            if field in data and not isinstance(data[field], BaseModel):
                data[field] = read(data[field])
        options = dict(data.get("options", ()))
        workload = get_workload(data["workload"], experiment_options.source_of(options))
        data["options"] = experiment_options.fill_options(workload, options)
        workload = workload.chosen(data["options"])
        data["dims"] = rules.fill_dims(workload, data.get("dims"))
        data.setdefault("strategies", workload.default_strategies)
        data.setdefault("dtype", workload.dtypes[0])
        return data

    @model_validator(mode="after")
    def _check(self) -> "Experiment":
        object.__setattr__(self, "target", parse_target(self.target).text)
        self._check_mesh()
        rules.check_workload_fields(self, self.what)
        rules.check_specs(self, self.what)
        object.__setattr__(self, "sharding", self._canonical_sharding())
        object.__setattr__(self, "overrides", _ordered(self.overrides, self.what))
        object.__setattr__(self, "memory", _ordered(self.memory, self.what, leave_out="device"))
        object.__setattr__(self, "data", _ordered(self.data, self.what, leave_out="normal"))
        if self.workload == decoder.NAME:
            for field, value in plans.canonical(self).items():
                object.__setattr__(self, field, value)
        return self

    def _check_mesh(self) -> None:
        if not 1 <= len(self.mesh) <= MAX_MESH_AXES:
            raise refuse(f"mesh with {len(self.mesh)} axes", "is not a mesh", f"use 1 to {MAX_MESH_AXES} axes, for example x=8")
        for name, _ in self.mesh:
            if not _NAME.fullmatch(name) or keyword.iskeyword(name):
                raise refuse(f"mesh axis {shorten(name)}", "is not a name", "use letters, digits and underscores, at most 32, for example x")
        if self.device_count > reading.MAX_DEVICES:
            raise refuse(f"mesh of {self.device_count} devices", "is larger than anything built", "use smaller axes")

    def _canonical_sharding(self) -> tuple[tuple[str, Axes], ...]:
        table = dict(self.sharding)
        return tuple((dim, table[dim]) for dim in self.what.dims if table.get(dim))

    @property
    def what(self) -> Workload:
        """The workload's description, as the options make it."""
        options = dict(self.options)
        return get_workload(self.workload, experiment_options.source_of(options)).chosen(options)

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
        count = 1
        for _, size in self.mesh:
            count *= size
        return count

    def table_spec(self, array: str) -> Spec:
        """The spec of an operand or result by the table alone, overrides left aside."""
        table, what = dict(self.sharding), self.what.array(array)
        return tuple(what.axes(dim, table) for dim in what.present(self.sizes))

    def spec(self, array: str) -> Spec:
        """The spec of an operand or result: its override where it has one, else by the table."""
        override = dict(self.overrides).get(array)
        return self.table_spec(array) if override is None else override

    def shape(self, array: str) -> tuple[int, ...]:
        """Global shape of an operand or result."""
        return self.what.array(array).shape(self.sizes)

    def memory_kind(self, array: str) -> MemoryKind:
        """Memory kind of an operand or result."""
        return dict(self.memory).get(array) or self.what.memory.get(array, "device")  # pyright: ignore[reportReturnType]

    def option(self, name: str) -> Any:
        """An option's value, its default filled in."""
        options = dict(self.options)
        return options[name] if name in options else experiment_options.later_options(self.what)[name]

    def to_json(self) -> dict[str, Any]:
        """The JSON form, defaults filled in: equal experiments give equal objects."""
        return self.model_dump(mode="json")

    @property
    def id(self) -> str:
        """Hash of the canonical form (16 hex digits)."""
        canonical = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def vary(self, **changes: Any) -> "Experiment":
        """A copy with fields of the JSON form replaced, validated anew; RequestError where the change is refused."""
        return parse_experiment(self.to_json() | changes)


def _ordered(pairs: tuple[tuple[str, Any], ...], what: Workload, leave_out: str | None = None) -> tuple[tuple[str, Any], ...]:
    """Pairs in the order of the workload's arrays, without those at their default."""
    values = dict(pairs)
    return tuple((array.name, values[array.name]) for array in what.arrays if array.name in values and values[array.name] != leave_out)


def parse_experiment(data: Any) -> Experiment:
    """The experiment that a JSON value describes; RequestError, in one sentence, where it describes none."""
    if not isinstance(data, Mapping):
        raise refuse(f"experiment {shorten(data)}", "is not a JSON object", 'write for example {"workload": "layer", "mesh": {"x": 8}}')
    for field in ("workload", "mesh"):
        if data.get(field) is None:
            raise refuse(f"experiment without {field}", "is incomplete", f"add {field!r}")
    version = data.get("version", 1)
    if version != 1 or not reading.is_whole(version):
        raise refuse(f"version {shorten(version)}", "of the experiment format is not known here", "update SPMD Lab, or use version 1")
    try:
        return Experiment.model_validate(data)
    except ValidationError as error:
        raise RequestError(_sentence(error)) from None


def parse_experiment_text(text: str | bytes) -> Experiment:
    """The experiment that a JSON text of at most 64 KiB describes."""
    if len(text) > MAX_TEXT_BYTES:
        raise refuse(f"experiment of {len(text)} bytes", f"is longer than {MAX_TEXT_BYTES} bytes", "leave out what is at its default")
    return parse_experiment(load_json(text))


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, RequestError):
        return str(cause)
    place = ".".join(str(part) for part in first["loc"]) or "experiment"
    if first["type"] == "extra_forbidden":
        return f"field {shorten(place)} is not part of an experiment: leave it out, or use one of {', '.join(Experiment.model_fields)}"
    return f"{place}={shorten(first['input'])} is not valid: {first['msg'][0].lower()}{first['msg'][1:]}"  # forms has read every field: not reached
