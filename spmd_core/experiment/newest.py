"""An experiment with workloads of the user's own, of their files as these are now."""

from collections.abc import Mapping
from typing import Any

from spmd_core.experiment.experiment import Experiment, parse_experiment
from spmd_core.experiment.nearest import nearest
from spmd_core.experiment.workloads.own import files


def has_newer(experiment: Experiment) -> bool:
    """Whether a file that declares one of its workloads declares it otherwise now; a file that is
    being loaded is not waited for.
    """
    return any(files.newer(each.experiment.what, 0.0) for each in experiment.members)


def newest(experiment: Experiment) -> Experiment:
    """The experiment of the versions of the files that are there now: of its fields those stay that
    the new version has. RequestError where a file declares its workload no longer.
    """
    if not any(files.newer(each.experiment.what) for each in experiment.members):
        return experiment
    members = [_as_now(each.experiment.to_json()) for each in experiment.members]
    if not experiment.variants:
        return parse_experiment(members[0])
    named = zip(experiment.variants, members, strict=True)
    return parse_experiment(
        {"study": [{"name": each.name, "experiment": member} for each, member in named]}
    )


def _as_now(form: Mapping[str, Any]) -> dict[str, object]:
    options = {name: value for name, value in form["options"].items() if name != "source"}
    return nearest({**form, "options": options}).experiment.to_json()
