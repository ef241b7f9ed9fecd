"""The repairs that every experiment needs: fields of pairs, options, and fields that fall back to
their default.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from spmd_core.base import RequestError, shorten
from spmd_core.experiment import reading
from spmd_core.experiment.experiment import Experiment
from spmd_core.experiment.options import BY_POSITION, fill_options, read_in_axes, source_of
from spmd_core.experiment.workloads.catalog import Array, Workload, get_workload

Report = Callable[[str], None]


def kept(field: str, given: Any, report: Report) -> dict[str, Any]:
    """The pairs of a field; none, with a sentence, where it cannot be read."""
    try:
        return dict(reading.read_pairs(field, given if given is not None else {}))
    except RequestError as error:
        report(f"{sentence(error)} It was left out.")
        return {}


def sentence(error: RequestError) -> str:
    """An error as a sentence of its own."""
    return f"{str(error)[0].upper()}{str(error)[1:]}."


def choices(field: str, given: Any, arrays: Iterable[Array], report: Report) -> dict[str, Any]:
    """Array -> word of a field, of those that are known."""
    names = [array.name for array in arrays]
    chosen = {}
    for name, word in kept(field, given, report).items():
        if name not in names or word not in reading.CHOICES[field]:
            report(f"{field} of {shorten(name)}={shorten(word)} is not known here: left out.")
        else:
            chosen[name] = word
    return chosen


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


def options(what: Workload, given: Any, report: Report) -> dict[str, Any]:
    """The options that the workload has, at values that they may have."""
    chosen = {}
    pairs = kept("options", given, report)
    for name, value in pairs.items():
        if name == "source":
            chosen |= {name: what.source} if what.source is not None else {}
        elif _is_option(what, pairs, name, value):
            chosen[name] = value
        else:
            report(f"Option {shorten(name)}={shorten(value)} is not one of {what.name}: left out.")
    return chosen


def _is_option(what: Workload, pairs: Mapping[str, Any], name: str, value: Any) -> bool:
    """Whether the workload has this option, and the option this value."""
    try:
        fill_options(
            what,
            ({"program": pairs.get("program")} if what.is_small_program else {}) | {name: value},
        )
    except RequestError:
        return False
    return (
        name != "in_axes"
        or value == BY_POSITION
        or len(read_in_axes(value) or ()) == len(what.chosen(pairs).operands)
    )


def plain_fields(what: Workload, data: dict[str, Any], report: Report) -> None:
    """Dtype, strategies, timing and seed: unknown values fall back to the default."""
    if data.get("dtype") is not None and data["dtype"] not in what.dtypes:
        report(
            f"Dtype {shorten(data['dtype'])} makes no sense for {what.name}: {what.dtypes[0]} is used."
        )
        data["dtype"] = what.dtypes[0]
    named = data.get("strategies")
    if named is not None:
        listed = named if isinstance(named, list | tuple) else [named]
        data["strategies"] = list(dict.fromkeys(name for name in listed if name in what.strategies))
        for name in listed:
            if name not in what.strategies:
                report(f"Strategy {shorten(name)} is not one of {what.name}: left out.")
        if len(data["strategies"]) < sum(name in what.strategies for name in listed):
            report("A strategy was listed twice: once is kept.")
        if not data["strategies"]:
            data["strategies"] = list(what.default_strategies)
            report(f"No strategy is left: {', '.join(what.default_strategies)} are used.")
    for field in ("timing", "seed"):
        try:
            if data.get(field) is not None:
                reading.READERS[field](data[field])
        except RequestError as error:
            report(f"{sentence(error)} The default is used.")
            del data[field]


def drop_unknown(data: dict[str, Any], report: Report) -> None:
    """Removes fields that no experiment has."""
    for field in [field for field in data if field not in Experiment.model_fields]:
        report(f"The field {shorten(field)} is not part of an experiment: left out.")
        del data[field]
