"""The question of a search over the shardings of an experiment: which of its fields are open."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, StrictInt

from spmd_core.base import mesh_text, refuse, shorten, validated
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.fields import Mesh
from spmd_core.machine import Target, default_target, get_topology, parse_target
from spmd_core.search.question import MOST_GIB, Question, check_prices, require_prices
from spmd_core.workloads import STRATEGIES, Described, programs

Open = Literal["mesh", "sharding", "overrides", "specs"]
OPEN: tuple[Open, ...] = ("mesh", "sharding", "overrides", "specs")
_EXAMPLES = {"sharding": '{"batch": "x"}', "overrides": '{"weights": ["x", null]}'}


class ArrayQuestion(Question):
    """An experiment with open fields. `spec` is its JSON form without them, `targets` where it may
    run; `devices` are those of a target that only they know.
    """

    kind: Literal["array"] = "array"
    spec: dict[str, Any]
    targets: tuple[str, ...]
    searched: tuple[Open, ...]
    devices: StrictInt | None = Field(None, ge=1)
    # the most that a device may hold
    memory_bytes: StrictInt | None = Field(None, ge=1, le=MOST_GIB * 2**30)

    def to_json(self) -> dict[str, object]:
        """The JSON form; without a limit as it was before there were any, so that ids stay."""
        form = super().to_json()
        return (
            form
            if self.memory_bytes
            else {name: value for name, value in form.items() if name != "memory_bytes"}
        )

    @property
    def model(self) -> str:
        """What is searched, as a title."""
        return str(self.spec["workload"])

    def count(self, target: str) -> int:
        """Devices of a target; RequestError where they are not known."""
        place = parse_target(target)
        if place.is_absent:
            return get_topology(place).devices
        devices = place.device_count or self.devices
        if devices is None:
            raise refuse(
                f"target {target}",
                "has not been asked for its devices yet",
                f"run `python -m spmd_core devices {target}` first",
            )
        return devices

    def experiment(self, target: str, **fields: Any) -> Experiment:
        """The experiment with its open fields filled in."""
        return parse_experiment({**self.spec, "target": target, **fields})

    @property
    def named_axes(self) -> tuple[str, ...]:
        """Axes that a given sharding or override names: a searched mesh has to have them."""
        given = [
            *dict(self.spec.get("sharding") or {}).values(),
            *(
                entry
                for spec in dict(self.spec.get("overrides") or {}).values()
                for entry in spec or ()
            ),
        ]
        return tuple(
            dict.fromkeys(
                axis
                for entry in given
                if entry
                for axis in ([entry] if isinstance(entry, str) else entry)
            )
        )

    @property
    def described(self) -> Described | None:
        """The exported program that is searched; None where it is another workload."""
        program = self.spec.get("program")
        return programs.find(str(program)) if program else None

    @cached_property
    def sample(self) -> Experiment:
        """The experiment on its first target, unsharded over one axis of all devices."""
        return self.sample_on(self.targets[0])

    def sample_on(self, target: str) -> Experiment:
        """The same on another target."""
        if mesh := self.spec.get("mesh"):
            return self.experiment(target, mesh=mesh)
        if self.described and self.described.mesh:
            return self.experiment(target, mesh=self.described.mesh)
        return self.experiment(target, mesh={"x": self.count(target)}, sharding={}, overrides={})

    @property
    def strategies(self) -> tuple[str, ...]:
        """Those that the spec names, else the workload's own but for those of one device."""
        named = self.spec.get("strategies")
        own = self.sample.what.default_strategies
        return tuple(
            named
            or (
                name
                for name in own
                if STRATEGIES[name].is_sharding and not STRATEGIES[name].is_single_device
            )
        )


def unknown_target(named: Any) -> str | None:
    """The target whose devices only they know, `local` or a cluster; RequestError of two: a question
    has one number.
    """
    texts = [text for text in _targets(named) if _place(text).device_count is None]
    unknown = [text for text in texts if not _place(text).is_absent]
    if len(unknown) > 1:
        raise refuse(f"targets {', '.join(unknown)}", "are searched apart", "name one of them")
    return next(iter(unknown), None)


def _targets(named: Any) -> tuple[str, ...]:
    named = default_target() if named is None else named
    targets = [named] if isinstance(named, str) else named
    if not isinstance(targets, list | tuple) or not targets:
        raise refuse(
            f"target={shorten(named)}",
            "is no target and no list of targets",
            'write for example "tpu:v5e:4x4"',
        )
    return tuple(dict.fromkeys(_place(text).text for text in targets))


def read_array_question(data: Any, devices: int | None = None, **more: Any) -> ArrayQuestion:
    """The question in a spec: `"mesh": null`, `"sharding": null` and `"overrides": null`
    mean that they are searched. `target` may be a list. RequestError where there is none.
    """
    if not isinstance(data, Mapping):
        raise refuse(
            f"spec {shorten(data)}",
            "is not a JSON object",
            'write for example {"workload": "layer", "mesh": null}',
        )
    searched: tuple[Open, ...] = tuple(name for name in OPEN if name in data and data[name] is None)
    if "mesh" not in data:
        searched = (OPEN[0], *searched)
    given = any(data.get(name) for name in ("sharding", "overrides", "program"))
    if searched == ("mesh",) and not given:
        searched = ("mesh", "sharding")
    if not searched:
        raise refuse(
            "spec with a mesh and a sharding",
            "leaves nothing to search",
            'write "mesh": null or "sharding": null for what is to be searched',
        )
    texts = _targets(data.get("target"))
    spec = {
        name: value
        for name, value in data.items()
        if name != "target" and name not in searched and value is not None
    }
    fields = {"spec": spec, "targets": texts, "searched": searched, "devices": devices, **more}
    question = validated(ArrayQuestion, fields, "search")
    _check(question)
    _check_price(question)
    return question


def program_meshes(described: Described, devices: int) -> Iterator[Mesh]:
    """Every mesh of a program's axes for a number of devices; the axes that its `shard_map` uses
    keep their size. Of a program without axes, meshes of two.
    """
    axes = [
        (name, (size,) if name in described.manual_axes else range(1, devices + 1))
        for name, size in described.mesh or (("x", devices), ("y", 1))
    ]

    def sizes(left: int, place: int) -> Iterator[tuple[int, ...]]:
        if place == len(axes):
            yield from [()] * (left == 1)
            return
        for size in axes[place][1]:
            if left % size == 0:
                yield from ((size, *rest) for rest in sizes(left // size, place + 1))

    for mesh_sizes in sizes(devices, 0):
        yield tuple(zip((name for name, _ in axes), mesh_sizes, strict=True))


def _place(text: Any) -> Target:
    if not isinstance(text, str):
        raise refuse(f"target={shorten(text)}", "is not a text", "write for example tpu:v5e:4x4")
    return parse_target(text)


def _check_price(question: ArrayQuestion) -> None:
    places = {target: parse_target(target) for target in question.targets}
    asked = sorted(
        {get_topology(place).chip.generation for place in places.values() if place.is_absent}
    )
    check_prices(question.price, asked)
    if question.minimize != "price":
        return
    for target, place in places.items():
        if not place.is_absent:
            raise refuse(
                "minimize=price",
                f"has no price for {target}",
                "name topologies such as tpu:v5e:4x4, or minimize chip-seconds",
            )
    require_prices(question.price, asked)


def _check(question: ArrayQuestion) -> None:
    for name in ("sharding", "overrides"):
        if not isinstance(given := question.spec.get(name, {}), Mapping):
            raise refuse(
                f"{name}={shorten(given)}",
                "is not an object",
                f"write for example {_EXAMPLES[name]}, or null to search it",
            )
    for target in question.targets:
        sample = question.sample_on(target)
        if "mesh" in question.searched and (question.spec.keys() & _EXAMPLES.keys()):
            # of sizes that divide everything: that a size does not is what prunes a candidate
            question.experiment(target, mesh=dict.fromkeys(question.named_axes or ("x",), 1))
        if not sample.what.is_predicted:
            raise refuse(
                f"workload {sample.workload}",
                "has no sharding to search",
                "use a computation, for example matmul",
            )
        if sample.plan:
            raise refuse("a training step", "is searched by its model", "use --model and --chips")
        if "mesh" not in question.searched and sample.device_count != question.count(target):
            raise refuse(
                f"mesh {mesh_text(sample.mesh)}",
                f"does not use the {question.count(target)} devices of {target}",
                "make its axes multiply to them, or search it with null",
            )
