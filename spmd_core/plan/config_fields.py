"""Fields of a model's file by their names in transformers, and which were read."""

from collections.abc import Collection, Mapping
from typing import Any

from spmd_core.base import refuse, shorten
from spmd_core.plan.model_rules import MOST

Values = Mapping[str, Any]  # of fields, by name


class Fields:
    """Fields of a file by their names in transformers, and which were read."""

    def __init__(self, values: Values, names: Mapping[str, str]):
        self._values, self._names = values, names
        self.usual: Values = {}
        self.read: set[str] = set()

    @property
    def labels(self) -> Values:
        """The file's own names and values."""
        return self._values

    def label(self, name: str) -> str:
        """The file's own name of a field."""
        return self._names.get(name, name)

    def get(self, name: str) -> Any:
        """The value of a field, or what the architecture has where the file leaves it out."""
        self.read.add(label := self.label(name))
        return self._values.get(label, self.usual.get(name))

    def size(
        self, name: str, otherwise: int | None = None, most: int = MOST, least: int = 1
    ) -> int:
        """A size, or one for each layer if they are alike; RequestError where it is none, or left out
        without another to take.
        """
        given = self.get(name)
        layers = self._values.get("num_hidden_layers")
        if isinstance(given, list) and len(given) == layers and given == given[:1] * len(given):
            given = given[0]
        value = otherwise if given is None else given
        if value is None:
            raise refuse(
                f"config without {self.label(name)}", "is incomplete", f"add {self.label(name)!r}"
            )
        return _checked(self.label(name), value, least, most)

    def agreed(self, name: str, others: Collection[str]) -> int:
        """A size that has several names; RequestError where a file gives two that differ."""
        own, values = self.label(name), self._values
        given = [each for each in others if each != own and values.get(each)]
        self.read |= {*given}
        is_own = not given or own in values
        size = self.size(name) if is_own else _checked(given[0], values[given[0]], 1, MOST)
        for each in given:
            if values[each] != size:
                rule = f"is not {own if is_own else given[0]}={size}"
                raise refuse(f"{each}={shorten(values[each])}", rule, "leave one of them out")
        return size

    def only(self, name: str, values: Collection[Any], rule: str, fix: str) -> Any:
        """A value that is one of `values`; RequestError for another."""
        if (value := self.get(name)) not in values:
            raise refuse(f"{self.label(name)}={shorten(value, 40)}", rule, fix)
        return value

    def flag(self, name: str) -> bool:
        """A choice of two, off where it is left out."""
        rule = "is neither on nor off"
        return bool(self.only(name, (None, True, False), rule, "use true or false"))

    def cap(self, name: str) -> float | None:
        """A cap of scores, or a factor of theirs; None for neither."""
        value = self.get(name) or None
        if value is not None and (type(value) not in (int, float) or not 0 < value <= MOST):
            raise refuse(
                f"{self.label(name)}={shorten(value)}",
                "is not a number above 0",
                "use one, or null",
            )
        return None if value is None else float(value)


def _checked(name: str, value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        fix = f"use a whole number from {least} to {most:,}"
        raise refuse(f"{name}={shorten(value)}", "is not a size", fix)
    return value


def context(fields: Fields) -> int:
    """Returns the most tokens that the model sees; 0 if the file leaves that out.

    As vLLM derives it (`_get_and_verify_max_len`): `max_position_embeddings`, with dynamic scaling
    times the factor; with YaRN the factor times the length that it begins from.
    """
    seen = fields.size("max_position_embeddings", 0, least=0)
    scaling = fields.get("rope_parameters") or fields.get("rope_scaling")
    if not isinstance(scaling, Mapping):
        return seen
    kind, factor = scaling.get("rope_type", scaling.get("type")), scaling.get("factor", 1)
    if kind not in ("yarn", "dynamic") or type(factor) not in (int, float) or not factor > 0:
        return seen
    before = scaling.get("original_max_position_embeddings") if kind == "yarn" else None
    least = before if type(before) is int and before > 0 else seen
    return round(min(MOST, least * factor)) if least else 0
