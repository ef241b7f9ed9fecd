"""The answers of a search for remedies in the form in which they are stored with their run."""

from pydantic import TypeAdapter, ValidationError

from spmd_core.base import RequestError
from spmd_core.results import Removal
from spmd_core.trials.remedies.attached import Answers

_FORM: TypeAdapter[dict[str, dict[int, Removal]]] = TypeAdapter(dict[str, dict[int, Removal]])


def to_stored(state: str, answers: Answers) -> dict[str, object]:
    """JSON values: the state of the trial, and its answers so far."""
    kept = {name: dict(each) for name, each in answers.items()}
    return {"state": state, "answers": _FORM.dump_python(kept, mode="json")}


def from_stored(body: dict[str, object] | None) -> tuple[str, Answers] | None:
    """(state, answers); None where nothing was tried, or another version wrote it."""
    if body is None:
        return None
    try:
        return str(body.get("state")), _FORM.validate_python(body.get("answers", {}))
    except (ValidationError, RequestError):
        return None
