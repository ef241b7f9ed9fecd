"""Who acts, and by which role: a viewer looks and estimates, a runner runs and cancels, an admin
also deletes and renames what others ran.
"""

from dataclasses import dataclass

from spmd_core.base import Settings, refuse, shorten
from spmd_core.lab.store.store import Store

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
