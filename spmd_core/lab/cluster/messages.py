"""What the lab and the process of its Dask client send each other, one JSON object a line. None of
it is pickled: what comes from the scheduler is data, and bounded.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from spmd_core.base import Frozen

ALIVE_S = 0.5
Name = Annotated[str, Field(max_length=100)]
Sentence = Annotated[str, Field(max_length=1000)]


class Submit(Frozen):
    """Down: have a run compiled. `spec`: the experiment as JSON; `timeout_s`: seconds that it may
    take from when a worker begins.
    """

    command: Literal["submit"] = "submit"
    run: str
    spec: str
    timeout_s: float


class Forget(Frozen):
    """Down: a run is over, or given up. A worker that compiles it ends that."""

    command: Literal["forget"] = "forget"
    run: str


class Refuse(Frozen):
    """Down: what a worker left of a run cannot be read, for the reason `how`."""

    command: Literal["refuse"] = "refuse"
    run: str
    how: Sentence


class Alive(Frozen):
    """Up, first and then every ALIVE_S seconds: the process does what it should."""

    event: Literal["alive"] = "alive"


class Reach(Frozen):
    """Up, after each look at the cluster that began at `begun` (seconds since the epoch): it takes
    `room` tasks at once, or cannot be used, for the reason `problem`. `left_out` names the workers
    that get no task, and why.
    """

    event: Literal["reach"] = "reach"
    room: int
    problem: Sentence | None
    begun: float
    left_out: Sentence = ""


class Doing(Frozen):
    """Up: how far a worker is with a run."""

    event: Literal["doing"] = "doing"
    run: Name
    phase: Name | None
    strategy: Name | None


class Lost(Frozen):
    """Up: a run went with its scheduler, and is to be submitted again."""

    event: Literal["lost"] = "lost"
    run: str


class Ended(Frozen):
    """Up: what a worker left of a run, `Compiled` as JSON; or why there is nothing."""

    event: Literal["ended"] = "ended"
    run: str
    compiled: str | None = None
    problem: Sentence | None = None


Command = Annotated[Submit | Forget | Refuse, Field(discriminator="command")]
Event = Annotated[Alive | Reach | Doing | Lost | Ended, Field(discriminator="event")]
COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)
EVENTS: TypeAdapter[Event] = TypeAdapter(Event)


class PassedOn(BaseModel):
    """A command on its way to members, which alone know the workload that it names."""

    model_config = ConfigDict(frozen=True, extra="allow")
    command: str
