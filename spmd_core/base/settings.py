"""Settings that come from environment variables, and the data folder."""

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from spmd_core.base.errors import refuse, shorten

_ADDRESS = re.compile(
    r"(?P<scheme>tcp|tls)://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})"
)
_CLUSTER = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_TLS_FILES = ("SPMD_LAB_DASK_CA", "SPMD_LAB_DASK_CERT", "SPMD_LAB_DASK_KEY")
UPLOADS = ("off", "compile", "run", "kernels")  # each allows what those before it do
ROLES = ("viewer", "runner", "admin")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,}")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IP address; None for a name, which may lead anywhere."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


# variables that list words: how each is written, and what one that is not is called
_PEOPLE = (
    re.compile(r"[^@\s#]+@[\w-]+(\.[\w-]+)+|\S+#\S+|\*").fullmatch,
    "is no e-mail address, and no issuer#sub",
    "ann@example.com",
)
_MEMBERS = (
    "SPMD_LAB_MEMBERS",
    re.compile(r"([^@\s]+@|@)?[\w-]+(\.[\w-]+)+|\*").fullmatch,
    "is no e-mail address or domain",
    "ann@example.com,example.org, or * for whoever the identity provider knows",
)
_PROXIES = (
    "SPMD_LAB_PROXY",
    _address,
    "is not the address of a proxy",
    "10.0.0.2, or leave it out",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Seconds after which the supervisor acts, and what viewers of the dashboard may take."""

    run_timeout_s: float = 600.0  # a run, from leaving the queue to its result
    # the same of a run that only compiles: a large model takes minutes
    predict_timeout_s: float = 2400.0
    idle_s: float = 300.0  # an idle worker keeps its devices
    cancel_grace_s: float = 5.0  # from asking a worker to stop, to ending it
    terminate_grace_s: float = 3.0  # from SIGTERM to SIGKILL
    ping_s: float = 5.0  # an idle worker has so long to answer before it is used
    # a result that cannot be written is tried for so long, then kept in memory
    write_s: float = 60.0
    lock_retry_s: float = 1.0  # between two tries for the lock of the data folder
    poll_s: float = 0.25  # between two looks at other processes' requests
    note_s: float = 1.0  # between two writes of progress to the database
    # runs queued or at work, above which a viewer's is refused; a sweep is one
    queue_most: int = 50
    queue_most_of_viewer: int = 10  # the same of one viewer
    queue_most_of_address: int = 20  # the same of all viewers of one address without a login
    stored_most_bytes: int = 2 * 2**30  # of the database, above which a viewer's run is refused
    # workers that compile a search or a sweep at the same time; 0: as cores and memory allow
    compilers: int = 0
    dask: str = ""  # address of a Dask scheduler on whose workers a search compiles
    # name and address of each Dask scheduler on whose workers' hosts an experiment can run
    clusters: tuple[tuple[str, str], ...] = ()
    # paths of a tls:// scheduler's CA, and of the certificate and key that are shown to it
    dask_tls: tuple[str, ...] = ()
    # e-mail addresses and domains that a login lets in; *: whoever the identity provider knows
    members: tuple[str, ...] = ()
    # e-mail addresses, and `issuer#sub`, of who logs in as an admin or a runner, *: everybody; all
    # others view
    admins: tuple[str, ...] = ()
    runners: tuple[str, ...] = ()
    anonymous: str = (
        ""  # the role of who has not logged in; "": admin on loopback, viewer elsewhere
    )
    login_s: float = 12 * 3600.0  # how long a login lasts
    examples: bool = True  # a data folder takes in the results that came with the program
    token: str = ""  # that a link carries once, before anything is served
    # what may be done with programs that others hand in: off, compile, run or kernels; "": run,
    # and off for visitors of a dashboard that anybody can reach
    uploads: str = ""
    proxies: tuple[str, ...] = ()  # addresses whose X-Forwarded-For is believed

    def allowed_uploads(self, is_exposed: bool) -> str:
        """One of `UPLOADS`; `is_exposed`: of a visitor of a dashboard that anybody can reach."""
        return self.uploads or ("off" if is_exposed else "run")

    def scheduler_of(self, target: str) -> str:
        """Address of the scheduler of a target `cluster` or `cluster:NAME`."""
        name = target.partition(":")[2]
        address = dict(self.clusters).get(name) if name else self.dask
        if address:
            return address
        named = " or ".join(self.cluster_targets)
        fix = f"use {named}" if named else "have its owner name it, as docs/cluster.md shows"
        raise refuse(f"target {target}", "is no cluster that this server knows", fix)

    @property
    def cluster_targets(self) -> tuple[str, ...]:
        """The targets whose hosts an experiment can run on."""
        return (*(f"cluster:{name}" for name, _ in self.clusters), *(["cluster"] * bool(self.dask)))

    def tls_of(self, address: str) -> tuple[str, ...]:
        """CA, certificate and key for a scheduler; none for one that speaks no TLS."""
        return self.dask_tls if address.startswith("tls://") else ()

    def longest_s(self, is_compiling: bool) -> float:
        """Seconds after which a run is ended."""
        return self.predict_timeout_s if is_compiling else self.run_timeout_s


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings of the environment; RequestError where one is not a positive number."""
    defaults = Settings()
    return Settings(
        run_timeout_s=_seconds(environ, "SPMD_LAB_RUN_TIMEOUT_S", defaults.run_timeout_s),
        predict_timeout_s=_seconds(
            environ, "SPMD_LAB_PREDICT_TIMEOUT_S", defaults.predict_timeout_s
        ),
        idle_s=_seconds(environ, "SPMD_LAB_IDLE_S", defaults.idle_s),
        write_s=_seconds(environ, "SPMD_LAB_WRITE_S", defaults.write_s),
        queue_most=_integer(environ, "SPMD_LAB_QUEUE", defaults.queue_most),
        queue_most_of_viewer=_integer(
            environ, "SPMD_LAB_QUEUE_PER_VIEWER", defaults.queue_most_of_viewer
        ),
        queue_most_of_address=_integer(
            environ, "SPMD_LAB_QUEUE_PER_ADDRESS", defaults.queue_most_of_address
        ),
        stored_most_bytes=_integer(environ, "SPMD_LAB_STORED_BYTES", defaults.stored_most_bytes),
        compilers=_integer(environ, "SPMD_LAB_COMPILERS", defaults.compilers),
        dask=(dask := _scheduler("SPMD_LAB_DASK", environ.get("SPMD_LAB_DASK", "").strip())),
        clusters=(clusters := _clusters(environ)),
        dask_tls=tuple(
            _file(environ, name)
            for name in _TLS_FILES
            if any(each.startswith("tls://") for each in (dask, *dict(clusters).values()))
        ),
        members=tuple(word.removeprefix("@") for word in _words(environ, *_MEMBERS)),
        admins=_words(environ, "SPMD_LAB_ADMINS", *_PEOPLE),
        runners=_words(environ, "SPMD_LAB_RUNNERS", *_PEOPLE),
        anonymous=_choice(environ, "SPMD_LAB_ANONYMOUS", ROLES),
        login_s=_seconds(environ, "SPMD_LAB_LOGIN_S", defaults.login_s),
        uploads=_choice(environ, "SPMD_LAB_UPLOADS", UPLOADS),
        examples=_choice(environ, "SPMD_LAB_EXAMPLES", ("on", "off")) != "off",
        token=_token(environ, "SPMD_LAB_TOKEN"),
        proxies=_words(environ, *_PROXIES),
    )


def _clusters(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """`name=tls://…,name=tcp://…`: the name and the scheduler of each cluster."""
    variable, named = "SPMD_LAB_CLUSTERS", dict[str, str]()
    for word in environ.get(variable, "").replace(",", " ").split():
        name, _, address = word.partition("=")
        if name == "local" or name in named or not (address and _CLUSTER.fullmatch(name)):
            rule = "names a cluster twice" if name in named else "names no cluster"
            fix = (
                f"write {variable}=pod=tls://10.0.0.1:8786: a name is of a-z, 0-9 and -, not local"
            )
            raise refuse(f"{variable}={shorten(word)}", rule, fix)
        named[name] = _scheduler(variable, address)
    return tuple(named.items())


def _scheduler(variable: str, address: str) -> str:
    if not address:
        return ""
    shown, match = f"{variable}={shorten(address)}", _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise refuse(
            shown,
            "is not the address of a Dask scheduler",
            "use for example tls://10.0.0.1:8786, or leave it out",
        )
    host = match["host"].strip("[]")
    is_loopback = host == "localhost" or ((known := _address(host)) and known.is_loopback)
    if match["scheme"] == "tcp" and not is_loopback:
        raise refuse(
            shown,
            "would send runs unencrypted to another machine, to whoever answers there",
            f"use tls{address[3:]} with {', '.join(_TLS_FILES)}",
        )
    return address


def _file(environ: Mapping[str, str], name: str) -> str:
    path = own_path(name, environ.get(name, ""))
    if not (path.is_file() and os.access(path, os.R_OK)):
        raise refuse(
            f"{name}={shorten(environ.get(name, ''))}",
            "is not a file that can be read, and a tls:// scheduler needs it",
            "give the path of a PEM file, as docs/cluster.md shows",
        )
    return str(path.resolve())


def _words(
    environ: Mapping[str, str], name: str, is_one: Callable[[str], object], rule: str, example: str
) -> tuple[str, ...]:
    """Words with commas or spaces between them; RequestError where one is of another kind."""
    words = environ.get(name, "").lower().replace(",", " ").split()
    for word in words:
        if not is_one(word):
            raise refuse(f"{name}={shorten(word)}", rule, f"use for example {name}={example}")
    return tuple(words)


def _choice(environ: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    text = environ.get(name, "").strip()
    if text not in ("", *choices):
        fix = f"use {name}={' or '.join(choices)}, or leave it out"
        raise refuse(f"{name}={shorten(text)}", "is not known", fix)
    return text


def _token(environ: Mapping[str, str], name: str) -> str:
    text = environ.get(name, "")
    if text and not _TOKEN.fullmatch(text):  # not quoted: it is a secret
        raise refuse(
            f"the value of {name}",
            "is not 16 or more letters, digits, - and _",
            "make one with `python -c 'import secrets; print(secrets.token_urlsafe())'`",
        )
    return text


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise refuse(
            f"{name}={shorten(text)}",
            "is not a number of seconds",
            f"use for example {name}={default:g}, or leave it out",
        )
    return value


def _integer(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) > 0):
        raise refuse(
            f"{name}={shorten(text)}",
            "is not a whole number above 0",
            f"use for example {name}={default or 2}, or leave it out",
        )
    return int(text)


def default_data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """SPMD_LAB_DATA, else the platform's user data folder; RequestError where it is in a home that
    nobody knows, such as that of a user without a name.
    """
    return own_path("SPMD_LAB_DATA", environ.get("SPMD_LAB_DATA") or _usual_folder())


def _usual_folder() -> str:
    try:
        return platformdirs.user_data_dir("spmd-lab")
    except RuntimeError:  # a user without a name, and no HOME
        return "~/.local/share/spmd-lab"


def own_path(name: str, text: str) -> Path:
    """The path that a variable of the environment names; RequestError for `~` of nobody."""
    path = Path(os.path.expanduser(text))  # unlike Path's, which fails without a name
    if str(path).startswith("~"):
        raise refuse(
            f"{name}={shorten(text)}",
            "is in a home folder that is not known here",
            f"set {name} to an absolute path, or set HOME",
        )
    return path
