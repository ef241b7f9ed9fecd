"""What to try next, as a value."""

from spmd_core.experiment.experiment import Experiment
from spmd_core.frozen import Frozen


class Next(Frozen):
    """The next thing to try: the rule that says so, its sentence, the number that made it fire, and
    the experiment that one click opens.
    """

    rule: str
    sentence: str
    number: float
    experiment: Experiment
