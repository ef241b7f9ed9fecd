"""The question of a search over training steps: model, chips, batch, what is fixed, the goal."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, field_validator, model_validator

from spmd_core.base import AsObject, Frozen, PairsOf, check_known, refuse, shorten, validated
from spmd_core.machine import CHIPS, Capacity, Topology
from spmd_core.plan import (
    AXES,
    CONTEXT,
    LONG_SEQUENCE,
    MESH_AXES,
    PLAN_FIELDS,
    VARIABLE,
    WITHOUT_RINGS,
    ModelSize,
    Plan,
    get_model,
)
from spmd_core.search.chips import check_slices, read_chips

Goal = Literal["time", "memory", "chip-seconds", "price"]
GOALS: tuple[Goal, ...] = ("time", "memory", "chip-seconds", "price")
REMATS = ("none", "minimal", "full")
# sequences per chip that are tried where no batch is given
BATCHES = (0.125, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
SECONDS_PER_HOUR = 3600.0
MOST_GIB = 65536
NO_OPTIONS: Mapping[str, object] = {"microbatches": None, "compiler_flags": ()}
_HELD = (*(name for name, row in PLAN_FIELDS.items() if not row.searched), *VARIABLE)


Prices = Sequence[tuple[str, float]]


class Question(Frozen):
    """What every question has: the goal, and an id under which its search goes on."""

    minimize: Goal = "time"
    price: Annotated[tuple[tuple[str, float], ...], PairsOf, AsObject] = ()

    @property
    def id(self) -> str:
        """Hash of the canonical form (16 hex digits)."""
        form = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(form.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, object]:
        """The JSON form."""
        return self.model_dump(mode="json")


class ModelQuestion(Question):
    """A model on chips. `fixed` gives mesh axes their size (1: unused); `memory_bytes` is the most
    that a device may hold; `price` is by generation, per chip and hour, in any currency.
    """

    kind: Literal["model"] = "model"
    model: str
    chips: tuple[str, ...] = Field(min_length=1, max_length=64)
    global_batch: StrictInt | None = Field(None, ge=1, le=2**24)
    batch_per_device: float | None = Field(None, gt=0, le=65536, allow_inf_nan=False)
    sequence: StrictInt = Field(2048, ge=128, le=2**20)
    fixed: Annotated[tuple[tuple[str, StrictInt], ...], PairsOf, AsObject] = ()
    remat: tuple[Literal["none", "minimal", "full"], ...] = ("none", "minimal", "full")
    offload: bool = True
    slices: str = "fewest"
    memory_bytes: StrictInt | None = Field(None, ge=1, le=MOST_GIB * 2**30)
    plan: Annotated[tuple[tuple[str, Any], ...], PairsOf, AsObject] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """Mesh axes that are tried: `expert` where the model has some, `context` of long sequences or
        where it is fixed.
        """
        given = {name for name, _ in self.fixed}
        without = {"expert"} if self.size.experts == 1 else set[str]()
        without |= {CONTEXT} if self.sequence < LONG_SEQUENCE and CONTEXT not in given else set()
        return tuple(name for name in AXES if name not in without)

    @property
    def meaning(self) -> str:
        """Equal for questions of the same plans and the same goal, however their chips and batch are
        written.
        """
        targets = tuple(each.target for each in self.topologies)
        batch = self.batch_per_device
        if self.global_batch is not None and len(targets) == 1:
            batch = self.global_batch / self.topologies[0].devices
        form = {name: value for name, value in self.plan if value is not None}
        same = self.model_copy(
            update={
                "chips": targets,
                "slices": "fewest",
                "global_batch": None if batch else self.global_batch,
                "batch_per_device": batch,
                "plan": tuple(sorted(form.items())),
                "fixed": tuple(sorted(self.fixed)),
                "price": tuple(sorted(self.price)),
            }
        )
        return same.id

    def limit(self, topology: Topology) -> Capacity:
        """Bytes that a device may hold, and that it may hold in host memory."""
        return topology.chip.capacity.limited(self.memory_bytes)

    @field_validator("slices", mode="before")
    @classmethod
    def _slices(cls, value: Any) -> str:
        return check_slices(value)

    @model_validator(mode="after")
    def _check(self) -> "ModelQuestion":
        get_model(self.model)
        if self.global_batch is not None and self.batch_per_device is not None:
            raise refuse(
                f"global_batch={self.global_batch} and batch_per_device={self.batch_per_device:g}",
                "say the same twice",
                "give one of them",
            )
        if not self.remat:
            raise refuse("remat=[]", "leaves nothing to try", f"name one of {', '.join(REMATS)}")
        self._check_fixed()
        wanted = sorted({topology.chip.generation for topology in self.topologies})
        check_prices(self.price, wanted)
        if self.minimize == "price":
            require_prices(self.price, wanted)
        for name, value in self.plan:
            check_known("plan field", name, _HELD, "is not one that a search holds fixed")
            if name in PLAN_FIELDS and value is not None:
                PLAN_FIELDS[name].take(name, value)
        return self

    def _check_fixed(self) -> None:
        names = [name for name, _ in self.fixed]
        for name, size in self.fixed:
            if name not in MESH_AXES or names.count(name) > 1:
                rule = "is not one that a decoder is sharded over"
                raise refuse(
                    f"mesh axis {shorten(name)}",
                    "appears twice" if name in MESH_AXES else rule,
                    f"use {', '.join(MESH_AXES)}, each once",
                )
            if size < 1:
                raise refuse(f"{name}={size}", "is not a size", "use at least 1")
        most = max(topology.devices for topology in self.topologies)
        for name, size in self.fixed:
            if size > most:
                raise refuse(
                    f"{name}={size}", f"is more than the {most} devices", f"use at most {most}"
                )

        together = math.prod(size for _, size in self.fixed)
        if all(topology.devices % together for topology in self.topologies):
            names = " and ".join(f"{name}={size}" for name, size in self.fixed)
            counts = ", ".join(sorted({str(each.devices) for each in self.topologies}))[:60]
            verb = "does" if len(self.fixed) == 1 else "do"
            raise refuse(
                names,
                f"{verb} not divide the devices of these chips ({counts})",
                "use sizes that multiply to a divisor of them",
            )

    @property
    def size(self) -> ModelSize:
        """The model, with sizes of its own."""
        names = dict.fromkeys(VARIABLE) | {
            name: row.of_model for name, row in PLAN_FIELDS.items() if row.of_model
        }
        given = {
            names[name] or name: value
            for name, value in self.plan
            if name in names and value is not None
        }
        return get_model(self.model).varied(**given) if given else get_model(self.model)

    @property
    def topologies(self) -> tuple[Topology, ...]:
        """Every topology that may be used, each once, fewest chips first."""
        topologies = {
            topology.target: topology
            for text in self.chips
            for topology in read_chips(text, self.slices)
        }
        return tuple(sorted(topologies.values(), key=lambda each: (each.chips, each.target)))


def read_prices(text: str, wanted: Sequence[str] = ()) -> tuple[tuple[str, float], ...]:
    """`v5p=4.2, v5e=1.2` as (generation, price per chip and hour); `4.20` is that of every
    generation that is `wanted`; RequestError for anything else.
    """
    prices: list[tuple[str, float]] = []
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, value = part.partition("=")
        names = [name.strip()] if equals else dict.fromkeys(wanted)
        try:
            prices += [(each, float(value if equals else part)) for each in names]
        except ValueError:
            names = ()
        if not names:
            named = wanted or ("v5p", "v5e")
            raise refuse(
                f"price {shorten(part)}",
                "is not a number per generation",
                f"write for example {','.join(f'{each}=4.2' for each in named)}",
            )
    return tuple(prices)


def price_example(wanted: Sequence[str]) -> str:
    """How prices of these generations are written."""
    each = ", ".join(f"{name}=4.20" for name in wanted)
    return f"4.20, or {each}" if len(wanted) > 1 else "4.20"


def check_prices(price: Prices, wanted: Sequence[str]) -> None:
    """RequestError where a price is not a positive number, or names chips that are not `wanted`."""
    names = [name for name, _ in price]
    for name, value in price:
        check_known("price", name, CHIPS, "names no generation")
        if not 0 < value < 1e9:
            raise refuse(
                f"price {name}={value:g}",
                "is not a price",
                "use a number above 0 and below a billion",
            )
        if names.count(name) > 1:
            raise refuse(
                f"price {name}={value:g}",
                f"is one of several for {name}",
                "give each generation one price",
            )
        if name not in wanted:
            instead = f", or give one of {', '.join(wanted)}" if wanted else ""
            raise refuse(
                f"price {name}={value:g}",
                "is of chips that are not asked for",
                f"leave it out{instead}",
            )


def require_prices(price: Prices, wanted: Sequence[str], what: str = "minimize=price") -> None:
    """RequestError where a `wanted` generation has none, which `what` needs."""
    for name in wanted:
        if name not in dict(price):
            raise refuse(
                what,
                f"needs one for {name}",
                f"add the price, for example {name}=4.2 per chip and hour",
            )


def without_options(form: Mapping[str, Any]) -> dict[str, object]:
    """Returns fields of a plan without those options that a search tries: microbatches, and the flag
    that turns collective matmuls off.
    """
    open_ = {name: value for name, value in form.items() if name not in NO_OPTIONS}
    flags = [flag for flag in form.get("compiler_flags", ()) if flag != WITHOUT_RINGS]
    return open_ | ({"compiler_flags": flags} if flags else {})


def question_for(plan: Plan, price: Prices = ()) -> ModelQuestion:
    """Returns which plan is best for the step of this one: its model, chips, sequences and options;
    `price`: per chip and hour.
    """
    form = plan.model_dump(mode="json", exclude_defaults=True)
    sizes = dict(form.get("sizes", ()))
    held = {name: value for name, value in form.items() if name in _HELD} | sizes
    held = held if plan.stages > 1 else without_options(held)
    return ModelQuestion(
        model=plan.model,
        chips=(plan.target.removeprefix("tpu:"),),
        global_batch=int(plan.batch),
        sequence=plan.sequence,
        plan=tuple(held.items()),
        price=tuple(price),
    )


def bytes_of(gib: float) -> int:
    """Bytes of so many GiB per device; RequestError of what no device holds."""
    if not 0 < gib <= MOST_GIB:  # false of NaN, too
        raise refuse(
            f"memory={gib:g} GiB",
            "is not a limit of a device",
            f"use more than 0 and at most {MOST_GIB}, or leave it out",
        )
    return max(1, int(gib * 2**30))


def read_question(data: Any) -> ModelQuestion:
    """The question of a JSON object; RequestError, in one sentence, where it has none."""
    example = '{"model": "llama-3.1-8b", "chips": ["v5p:16"]}'
    return validated(ModelQuestion, data, "search", example)
