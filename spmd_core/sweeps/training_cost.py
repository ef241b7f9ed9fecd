"""What training a plan on so many tokens takes."""

from spmd_core.base import Frozen
from spmd_core.facts import Estimate, Prediction
from spmd_core.plan import Plan
from spmd_core.time import step_mfu

_DAY_S = 86400.0


class TrainingCost(Frozen):
    """What training on so many tokens takes without a stop; money in dollars."""

    tokens: float
    steps: float
    days: Estimate
    chip_hours: float
    money: float | None = None

    @property
    def most_money(self) -> float | None:
        """Dollars at the slow end of the range of days."""
        return None if self.money is None else self.money * self.days.high / self.days.estimate

    def scaled(self, factor: float) -> "TrainingCost":
        """Returns it with steps of `factor` times the seconds."""
        days = {name: factor * value for name, value in self.days.model_dump().items()}
        money = None if self.money is None else factor * self.money
        more = {"chip_hours": factor * self.chip_hours, "money": money}
        return self.model_copy(update={"days": Estimate(**days)} | more)


def training_run(
    prediction: Prediction, plan: Plan, tokens: float | None, price: float | None = None
) -> TrainingCost | None:
    """Returns what training a plan on so many tokens takes; None where the plan has no time.

    `price` in dollars per chip-hour.
    """
    return run_of(prediction.predicted_s, plan, tokens, price)


def run_of(
    time: Estimate | None, plan: Plan, tokens: float | None, price: float | None = None
) -> TrainingCost | None:
    """Returns what training takes with steps of this time, in seconds; None without a time."""
    if time is None or not tokens or tokens <= 0:
        return None
    steps = tokens / plan.tokens
    low, at, high = (steps * each / _DAY_S for each in (time.low, time.estimate, time.high))
    hours = plan.topology.chips * 24 * at
    return TrainingCost(
        tokens=tokens,
        steps=steps,
        days=Estimate(low=low, estimate=at, high=high),
        chip_hours=hours,
        money=None if price is None else hours * price,
    )


def least_chip_days(plan: Plan, tokens: float) -> float:
    """Returns chip-days that no number of a plan's chips stays below: its FLOPs at the peak."""
    return tokens / plan.tokens * step_mfu(plan, 1.0) * plan.topology.chips / _DAY_S
