"""What remains of an experiment that is refused: each field that the rules accept beside the fields
before it, and a sentence for each that falls to its default.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from spmd_core.base import RequestError, capital, shorten
from spmd_core.experiment import reading
from spmd_core.experiment.experiment import Experiment
from spmd_core.experiment.options import source_of
from spmd_core.experiment.workloads.catalog import Workload, get_workload

Form = dict[str, Any]  # fields of an experiment, or entries of one
Report = Callable[[str], None]
Parse = Callable[[Form], Experiment]  # RequestError where it refuses
MAX_TRIED = 64  # entries of a field: each parses an experiment, and a link may have thousands
_ENTRIES = {
    "dims": "the size {}",
    "options": "option {}",
    "sharding": "the sharding of {}",
    "overrides": "the override of {}",
    "memory": "the memory of {}",
    "data": "the data of {}",
}


def sentence(error: RequestError) -> str:
    """An error as a sentence of its own."""
    return capital(f"{error}.")


def kept(field: str, given: Any, report: Report) -> Form:
    """The pairs of a field; none, with a sentence, where it cannot be read."""
    try:
        return dict(reading.read_pairs(field, given if given is not None else {}))
    except RequestError as error:
        report(f"{sentence(error)} It was left out.")
        return {}


def accepted(
    field: str,
    given: Mapping[str, Any],
    fields: Form,
    parse: Parse,
    report: Report,
    start: Mapping[str, Any] | None = None,
) -> Form:
    """The entries of a field that are accepted beside other `fields`: all of them, or each in turn.

    Args:
        field: the field of the experiment, an object.
        given: its entries.
        fields: fields that are accepted.
        parse: makes an experiment of fields, or refuses them.
        report: takes a sentence for each entry that is left out.
        start: entries that are accepted.
    """
    chosen = dict(start or {})
    if refusal(parse, fields | {field: chosen | dict(given)}) is None:
        return chosen | dict(given)
    for number, (name, value) in enumerate(given.items()):
        if number == MAX_TRIED:
            report(f"{capital(field)} have {len(given)} entries: all after {name} are left out.")
            break
        error = refusal(parse, fields | {field: chosen | {name: value}})
        if error is None:
            chosen[name] = value
        else:
            what = capital(_ENTRIES[field].format(shorten(name)[1:-1]))
            report(f"{sentence(error)} {what} is left out.")
    return chosen


def plain_fields(
    data: Mapping[str, Any],
    names: Iterable[str],
    fields: Form,
    parse: Parse,
    report: Report,
) -> Form:
    """The fields of these names that are accepted beside others; else they are at their default."""
    accepted = dict(fields)
    for name in names:
        if data.get(name) is None:
            continue
        if error := refusal(parse, accepted | {name: data[name]}):
            report(f"{sentence(error)} The default is used.")
        else:
            accepted[name] = data[name]
    return accepted


def strategies(what: Workload, given: Any, fields: Form, parse: Parse, report: Report) -> list[str]:
    """The strategies that are accepted, each once; the usual ones where none is."""
    kept: list[str] = []
    for name in given[:MAX_TRIED] if isinstance(given, list | tuple) else [given]:
        if error := refusal(parse, fields | {"strategies": [*kept, name]}):
            report(f"{sentence(error)} It is left out.")
        else:
            kept.append(name)
    if not kept:
        report(f"No strategy is left: {', '.join(what.default_strategies)} are used.")
    return kept or list(what.default_strategies)


def refusal(parse: Parse, fields: Form) -> RequestError | None:
    """Why fields are refused; None where they are accepted."""
    try:
        parse(fields)
    except RequestError as error:
        return error
    return None


def workload(data: Mapping[str, Any], report: Report) -> Workload:
    """The workload; its current declaration if the requested version of the user's own file is
    unknown.
    """
    name, given = reading.read_text("workload", data["workload"]), data.get("options")
    source = source_of(given) if isinstance(given, Mapping) else None
    try:
        return get_workload(name, source, reading.read_text("program", data.get("program", "")))
    except RequestError:
        if source is None:
            raise
    what = get_workload(name)
    if what.source is not None:
        report(f"{name} was declared by another version of its file: the one that is here is used.")
    return what


def drop_unknown(data: Form, report: Report) -> None:
    """Removes fields that no experiment has."""
    for field in [field for field in data if field not in Experiment.model_fields]:
        report(f"The field {shorten(field)} is not part of an experiment: left out.")
        del data[field]
