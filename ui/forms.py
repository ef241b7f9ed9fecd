"""The JSON forms that fields edit. A form may be invalid: a field may be empty, or hold too much."""

from typing import Any

Form = dict[str, Any]  # of an experiment or of a search's question, or of a part of one
Mesh = list[list[Any]]  # [axis, size] pairs; the size of an empty field is 0
VariantForm = tuple[str | None, Form]  # name, None where it follows from what differs; experiment
