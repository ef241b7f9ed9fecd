"""The steps of a path that are listed: the first and the last ones."""

from dataclasses import dataclass, replace

from spmd_core.facts import OriginStep

MOST_STEPS = 8  # listed of one path: half of them at each end
_HALF = MOST_STEPS // 2
_PRODUCTS = ("dot_general", "conv_general_dilated")


@dataclass(frozen=True, slots=True)
class ListedSteps:
    """Steps, of which the first and the last ones are kept; consecutive ones of one line are one, named
    by its product if it has one.
    """

    first: tuple[OriginStep, ...] = ()
    last: tuple[OriginStep, ...] = ()
    count: int = 0

    @property
    def steps(self) -> tuple[OriginStep, ...]:
        """The steps that are listed."""
        return self.first if self.count <= MOST_STEPS else self.first[:_HALF] + self.last

    def then(self, step: OriginStep) -> "ListedSteps":
        """These steps and one more."""
        if self.last and step.source and self.last[-1].source == step.source:
            if self.last[-1].operation in _PRODUCTS:
                return self
            first = self.first
            if self.count <= MOST_STEPS:
                first = (*first[:-1], step)
            return replace(self, first=first, last=(*self.last[:-1], step))
        first = (*self.first, step) if self.count < MOST_STEPS else self.first
        return ListedSteps(first, (*self.last, step)[-_HALF:], self.count + 1)
