"""What to try next, as a value."""

from spmd_core.base import Frozen
from spmd_core.experiment import Experiment


class Next(Frozen):
    """The next thing to try: the rule that fired, its sentence, the number that made it fire, and
    the experiment that one click opens.
    """

    rule: str
    sentence: str
    number: float
    experiment: Experiment
