"""Who acts, by which role, and what the owner of a server allows viewers: how much they may queue, and
how much is stored.
"""

from dataclasses import dataclass

from spmd_core.base import Settings, bytes_text, refuse, shorten
from spmd_core.experiment import Experiment, check_flags
from spmd_core.lab.store.store import Store
from spmd_core.workloads import programs

VIEWER, RUNNER, ADMIN = ("viewer", "runner", "admin")
EVERYBODY = "*"  # of a list: whoever is logged in


@dataclass(frozen=True, slots=True)
class Asker:
    """Who submits: a viewer in a browser, who has limits, or the command line, which has none.
    `batch`: runs submitted together, such as a sweep, which count as one; as "search …" they are
    listed only with the runs of searches.
    """

    viewer: str | None = None
    batch: str | None = None
    address: str | None = None  # of who has not logged in
    who: str = ""  # for what is kept of who did what
    is_logged_in: bool = False
    is_exposed: bool = False  # at a dashboard that anybody can reach, without a login
    # by login: `issuer#sub`, and the e-mail address where the provider confirms it
    names: tuple[str, ...] = ()

    @property
    def owner(self) -> str | None:
        """`issuer#sub` of who is logged in: the owner of the runs that they submit."""
        return self.names[0] if self.names else None


COMMAND_LINE = Asker()


def role_of(settings: Settings, asker: Asker) -> str:
    """The role of somebody: the command line is an admin; by login as SPMD_LAB_ADMINS and
    SPMD_LAB_RUNNERS list them, a viewer whom neither lists; else SPMD_LAB_ANONYMOUS, by default
    an admin where only this machine can reach the dashboard, and a viewer elsewhere.
    """
    if asker.viewer is None:
        return ADMIN
    if not asker.is_logged_in:
        return settings.anonymous or (VIEWER if asker.is_exposed else ADMIN)
    names = {name.lower() for name in asker.names} | {EVERYBODY}
    if names & set(settings.admins):
        return ADMIN
    return RUNNER if names & set(settings.runners) else VIEWER


def check_may_act(settings: Settings, asker: Asker) -> None:
    """RequestError where somebody may only look, and estimate."""
    if role_of(settings, asker) == VIEWER:
        raise refuse(
            "a viewer" if asker.is_logged_in else "a visitor without a login",
            "may only look and estimate here",
            "ask whoever runs this dashboard"
            + (" to list you in SPMD_LAB_RUNNERS or SPMD_LAB_ADMINS" if asker.is_logged_in else ""),
        )


def check_may_change(store: Store, settings: Settings, asker: Asker, run: str) -> None:
    """RequestError where somebody may not delete or rename a run: only its owner and admins may."""
    check_owner(settings, asker, f"run {shorten(run)}", store.owner(run))


def check_owner(
    settings: Settings, asker: Asker, what: str, whose: tuple[str | None, str | None]
) -> None:
    """The same of anything that is `whose`: `issuer#sub` by login, and the mark of a browser."""
    check_may_act(settings, asker)
    if role_of(settings, asker) == ADMIN:
        return
    owner, viewer = whose
    is_own = owner in asker.names if asker.is_logged_in else (owner, viewer) == (None, asker.viewer)
    if not is_own:
        rule = "belongs to somebody else: only its owner and admins delete or rename it"
        raise refuse(what, rule, "ask one of them")


__all__ = ["COMMAND_LINE", "Asker", "Room", "check_asker", "check_may_act", "check_program", "room"]


@dataclass(frozen=True, slots=True)
class Room:
    """What is taken of what a viewer may take; runs of one batch count as one."""

    queued: int
    queued_most: int
    own: int
    own_most: int
    beside: int  # of the viewer's address, where that counts
    beside_most: int
    stored_bytes: int
    stored_most_bytes: int

    @property
    def is_stored_full(self) -> bool:
        """Whether a viewer's run is refused for what is stored already."""
        return self.stored_bytes >= self.stored_most_bytes

    @property
    def words(self) -> str:
        """The limits in a sentence, as the screen shows them."""
        return (
            f"Queued or running: {self.queued} of at most {self.queued_most} runs; yours: {self.own} of "
            f"at most {self.own_most}. {self.stored_words}"
        )

    @property
    def stored_words(self) -> str:
        """What is stored of what may be, in a sentence."""
        taken, most = map(bytes_text, (self.stored_bytes, self.stored_most_bytes))
        return f"Stored results: {taken} of at most {most}."


def check_cluster(settings: Settings, experiment: Experiment) -> None:
    """RequestError where a cluster is not known here, or cannot run this experiment."""
    settings.scheduler_of(experiment.target)
    if experiment.program:
        raise refuse(
            f"target {experiment.target}",
            "does not have the program's file, which stays on this machine",
            "use local, cpu:8 or a topology such as tpu:v5e:4x4",
        )


def check_program(settings: Settings, asker: Asker, experiment: Experiment | None = None) -> None:
    """RequestError where `asker` may not hand in a program, or not run this experiment of one."""
    allowed = settings.allowed_uploads(asker.is_exposed)
    if allowed == "off":
        raise refuse(
            "programs of visitors",
            "are not taken here",
            "whoever starts the dashboard allows them with SPMD_LAB_UPLOADS=compile or run",
        )
    for each in experiment.members if experiment else ():
        program, place = each.experiment.exported, each.experiment.place
        if program:
            programs.check_held(program.described.program)
            if not place.is_attached:
                programs.check_platform(program.described, place.kind)
        if program is None or place.is_absent or allowed == "kernels":
            continue
        if allowed == "compile":
            raise refuse(
                f"target {place.text}",
                "would run this program, and programs are only compiled here",
                "use a topology such as tpu:v5e:4x4",
            )
        kernels = program.described.kernels
        if kernels and not place.is_simulated:  # for CPUs there are none
            raise refuse(
                f"target {place.text}",
                f"would run code that this program carries for one platform ({', '.join(kernels)})",
                "use a topology such as tpu:v5e:4x4, or SPMD_LAB_UPLOADS=kernels",
            )


def room(store: Store, settings: Settings, viewer: str, address: str | None = None) -> Room:
    """How much room there is for a viewer."""
    queued, own, beside = store.queue_lengths(viewer, address)
    return Room(
        queued,
        settings.queue_most,
        own,
        settings.queue_most_of_viewer,
        beside,
        settings.queue_most_of_address,
        store.used_bytes(),
        settings.stored_most_bytes,
    )


def check_asker(store: Store, settings: Settings, asker: Asker, experiment: Experiment) -> None:
    """RequestError where a viewer may not queue this experiment now."""
    check_may_act(settings, asker)
    for each in experiment.members:
        if each.experiment.place.is_cluster:
            check_cluster(settings, each.experiment)
    if any(each.experiment.program for each in experiment.members):
        check_program(settings, asker, experiment)
    if asker.viewer is None:
        return
    check_flags(experiment)
    if asker.batch is not None and store.has_active(asker.batch):
        return  # a further point of a sweep that is counted already
    free = room(store, settings, asker.viewer, asker.address)
    if free.own >= free.own_most:
        raise refuse(
            f"{free.own} runs of yours",
            "wait or are at work, as many as one viewer may have here",
            "wait for one, or cancel one on Overview",
        )
    if free.beside >= free.beside_most:
        raise refuse(
            f"{free.beside} runs of your network address",
            "wait or are at work, as many as one address may have here",
            "try again when one is over",
        )
    if free.queued >= free.queued_most:
        raise refuse(
            f"{free.queued} runs",
            "wait or are at work, as many as this server allows",
            "try again when one is over",
        )
    if free.is_stored_full:
        raise refuse(
            f"stored results of {bytes_text(free.stored_bytes)}",
            f"fill the {bytes_text(free.stored_most_bytes)} that this server allows",
            "delete the oldest on History",
        )
