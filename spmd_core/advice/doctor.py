"""The meaning of each fact of the self-test, and what to do about it: a table of tests and rules."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from spmd_core.base import Frozen, bytes_text, numbered, seconds_text

Status = Literal["ok", "warn", "fail", "unknown"]
NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "fuse.gcsfuse", "fuse.sshfs", "lustre", "9p")
LEAST_FREE_BYTES = 2**30
LEAST_LOCKED_BYTES = 2**30
LONG_DISPATCH_S = 1e-3
LONG_AHEAD_S = 1e-4
_DISPATCH = "a call of a program that does nothing: what is shorter is dispatch bound"


class Check(Frozen):
    """One line of the self-test. `value` is what was read; `do` is empty where nothing is to do."""

    name: str
    status: Status
    value: str
    meaning: str
    do: str = ""


Facts = Mapping[str, Any]  # of one test, as JSON


Said = str | Callable[[Facts], str]


class _Rule(NamedTuple):
    """A reading other than "ok". `value` stands in place of the test's."""

    status: Status
    applies: Callable[[Facts], Any]
    meaning: Said
    do: Said = ""
    value: Said | None = None


class _Test(NamedTuple):
    """A test: what it read, what that means where no rule applies, and its rules, the first first."""

    value: Said
    meaning: Said
    rules: tuple[_Rule, ...] = ()
    failed: str = "the test could not be made"


def check(name: str, facts: Facts) -> Check:
    """The line of a test. A test that failed has its `error`; one that was not made, the reason in
    `not_tried`.
    """
    test = _TESTS[name]
    if reason := facts.get("not_tried"):
        rule = _Rule("unknown", bool, str(reason), facts.get("do", ""), "")
    elif error := facts.get("error"):
        do = facts.get("do") or "look for this message in the issues of JAX"
        rule = _Rule("fail", bool, test.failed, do, " ".join(str(error).split())[:500])
    else:
        ok = _Rule("ok", bool, test.meaning)
        rule = next((each for each in test.rules if each.applies(facts)), ok)
    value = test.value if rule.value is None else rule.value
    value, meaning, do = (
        text if isinstance(text, str) else text(facts) for text in (value, rule.meaning, rule.do)
    )
    return Check(name=name, status=rule.status, value=value, meaning=meaning, do=do)


def _silent(facts: Facts) -> list[str]:
    return [
        f"{each['address']}: {each['problem']}" for each in facts["schedulers"] if each["problem"]
    ]


def _refused(facts: Facts) -> dict[str, str]:
    return {kind: answer for kind, answer in facts["kinds"].items() if answer != "ok"}


def _schedulers(variable: str, without: str) -> _Test:
    return _Test(
        lambda facts: ", ".join(
            f"{each['name']} {each['address']}".strip() for each in facts["schedulers"]
        ),
        "something answers there; a run compares versions with each worker",
        (
            _Rule(
                "ok",
                lambda facts: not facts["schedulers"],
                f"{without}: {variable} names a cluster",
                value="not set",
            ),
            _Rule(
                "fail",
                _silent,
                lambda facts: f"nothing answers at {'; '.join(_silent(facts))}",
                f"start the scheduler as in docs/cluster.md, or correct {variable}",
            ),
        ),
    )


_TESTS = {
    "versions": _Test(
        lambda facts: ", ".join(
            f"{package} {version}" for package, version in facts.items() if version
        ),
        "the versions that each result is stored with",
        (
            _Rule(
                "fail",
                lambda facts: not facts.get("jax"),
                "JAX is not installed",
                "pip install -r requirements.txt",
            ),
            _Rule(
                "warn",
                lambda facts: not facts.get("libtpu"),
                "no libtpu: neither attached TPUs nor compile-only topologies work",
                'pip install "jax[tpu]", on Linux x86-64',
            ),
        ),
    ),
    "accelerators": _Test(
        lambda facts: f"{facts['chips']} × {facts['title']}, {facts['files']} device files",
        "as the PCI bus and the device files show them",
        (
            _Rule(
                "ok",
                lambda facts: not facts["kind"],
                "runs use simulated CPU devices; TPU topologies are compile-only",
                value="none",
            ),
            _Rule(
                "fail",
                lambda facts: facts["unreadable"],
                lambda facts: f"this user may not open {', '.join(facts['unreadable'][:4])}",
                "add the user to the group that owns the files, or start the server as one that may",
            ),
        ),
    ),
    "holders": _Test(
        "nobody",
        "the devices are free, as far as this user may see",
        (
            _Rule(
                "warn",
                lambda facts: facts["holders"],
                "another process has the TPU open: a run waits until it is released",
                "press Release the devices on Overview where it is the lab's worker, else end it",
                lambda facts: ", ".join(
                    f"{each['name']} (pid {each['pid']})" for each in facts["holders"]
                ),
            ),
            _Rule(
                "warn",
                lambda facts: facts["lock_file"],
                "a process of this user holds the TPU, or one that ended left its lock file",
                lambda facts: (
                    f"ask {facts['lock_file'][1]}; where no process uses the TPU: "
                    f"sudo rm {facts['lock_file'][0]}"
                ),
                lambda facts: "{}, owned by {}".format(*facts["lock_file"]),
            ),
        ),
    ),
    "environment": _Test(
        lambda facts: (
            " ".join(f"{key}={text}" for key, text in facts["variables"].items()) or "none set"
        ),
        "JAX_ variables are not passed to the worker; the experiment decides",
        (
            _Rule(
                "warn",
                lambda facts: {"LIBTPU_INIT_ARGS", "XLA_FLAGS"} & {*facts["variables"]},
                "compiler flags of the environment change what is compiled, and are stored with "
                "results",
                "unset LIBTPU_INIT_ARGS and XLA_FLAGS where results of others are to be compared",
            ),
        ),
    ),
    "slice": _Test(
        "one host",
        "all chips of the slice are attached here",
        (
            _Rule(
                "unknown",
                lambda facts: not facts.get("is_tpu", True),
                "what a slice of several hosts needs shows on one of its hosts alone",
                value="no TPU host",
            ),
            _Rule(
                "warn",
                lambda facts: facts["hosts"] > 1,
                "the worker uses the chips of this host alone",
                "for the slice as one mesh, describe it as a compile-only target",
                lambda facts: (
                    f"{facts['hosts']} hosts"
                    if facts["host"] is None
                    else f"host {facts['host']} of {facts['hosts']}"
                ),
            ),
        ),
    ),
    "memory": _Test(
        lambda facts: (
            f"{bytes_text(facts['available_bytes'])} of {bytes_text(facts['total_bytes'])} "
            f"available, locked memory: {'no limit' if facts['locked_bytes'] is None else bytes_text(facts['locked_bytes'])}, transparent huge pages: "
            f"{facts['huge_pages'] or 'unknown'}"
        ),
        "memory of the host",
        (
            _Rule(
                "warn",
                lambda facts: (
                    facts["is_tpu"]
                    and facts["locked_bytes"] is not None
                    and facts["locked_bytes"] < LEAST_LOCKED_BYTES
                ),
                "a TPU behind VFIO locks host memory for its transfers",
                "LimitMEMLOCK=infinity in the service file, or ulimit -l unlimited",
            ),
            _Rule(
                "warn",
                lambda facts: facts["is_tpu"] and facts["huge_pages"] != "always",
                "starting and copying to a TPU take longer without transparent huge pages",
                'sudo sh -c "echo always > /sys/kernel/mm/transparent_hugepage/enabled"',
            ),
        ),
    ),
    "data_folder": _Test(
        lambda facts: (
            f"{facts['path']}, {bytes_text(facts['free_bytes'])} free, "
            f"{facts['file_system'] or 'file system unknown'}"
        ),
        "where runs and results are stored",
        (
            _Rule(
                "fail",
                lambda facts: not facts["is_writable"],
                "no result can be stored",
                "set SPMD_LAB_DATA to a folder of yours",
            ),
            _Rule(
                "warn",
                lambda facts: facts["file_system"] in NETWORK_FILE_SYSTEMS,
                "SQLite's locks do not hold on a network file system",
                "set SPMD_LAB_DATA to a local disk",
            ),
            _Rule(
                "warn",
                lambda facts: facts["free_bytes"] < LEAST_FREE_BYTES,
                "the disk is nearly full",
                "free some space, or set SPMD_LAB_DATA",
            ),
            _Rule(
                "warn",
                lambda facts: not facts["is_private"],
                "other users of this machine can list it",
                lambda facts: f"chmod 700 {facts['path']}",
            ),
        ),
    ),
    "ports": _Test(
        "free",
        "the ports of the dashboard, of libtpu and of jax.distributed",
        (
            _Rule(
                "warn",
                lambda facts: facts["taken"],
                "something listens there already",
                "that may be this dashboard; else streamlit run app.py --server.port 8502",
                lambda facts: (
                    "taken: " + ", ".join(f"{port} ({use})" for port, use in facts["taken"])
                ),
            ),
        ),
    ),
    "dask": _schedulers("SPMD_LAB_DASK", "searches compile on this machine"),
    "clusters": _schedulers("SPMD_LAB_CLUSTERS", "no hosts to run on"),
    "devices": _Test(
        lambda facts: f"{facts['count']} × {facts['kind']} on {facts['platform']}",
        "what the worker process gets",
        (
            _Rule(
                "fail",
                lambda facts: facts.get("expected") not in (None, facts["platform"]),
                lambda facts: (
                    f"JAX took {facts['platform']}, although this machine has a {facts['expected']}"
                ),
                "see who holds the devices, and whether libtpu or the CUDA plugin is installed",
            ),
            _Rule(
                "warn",
                lambda facts: (
                    facts.get("expected_chips")
                    and facts["chips"]
                    and facts["expected_chips"] != facts["chips"]
                ),
                lambda facts: (
                    f"JAX sees {facts['chips']} chips, the PCI bus {facts['expected_chips']}"
                ),
                "see TPU_VISIBLE_CHIPS and TPU_CHIPS_PER_PROCESS_BOUNDS",
            ),
        ),
        failed="JAX has no usable device: no run can start",
    ),
    "memory_kinds": _Test(
        lambda facts: ", ".join(facts["kinds"]),
        "an array went to each and came back equal",
        (
            _Rule(
                "warn",
                _refused,
                lambda facts: "; ".join(
                    f"{kind}: {reason}" for kind, reason in _refused(facts).items()
                ),
                "leave operands in device memory",
            ),
        ),
    ),
    "copy": _Test(
        lambda facts: (
            f"{bytes_text(facts['bytes'] / facts['to_device_s'])}/s to the device, "
            f"{bytes_text(facts['bytes'] / facts['to_host_s'])}/s back"
        ),
        lambda facts: f"{bytes_text(facts['bytes'])} in one copy",
        (
            _Rule(
                "unknown",
                lambda facts: facts.get("is_shared"),
                "simulated devices share the host's memory: nothing need be copied",
            ),
        ),
        failed="no array reaches the device",
    ),
    "psum": _Test(
        lambda facts: f"{seconds_text(facts['seconds'])} over {facts['devices']} devices",
        "every device received the right sum",
        (
            _Rule(
                "fail",
                lambda facts: facts["received"] != [facts["expected"]],
                lambda facts: f"devices received {facts['received']}, not {facts['expected']}",
                "report this with versions and environment: collectives are wrong on this machine",
            ),
        ),
        failed="collectives do not work",
    ),
    "dispatch": _Test(
        lambda facts: seconds_text(facts["seconds"]),
        _DISPATCH,
        (
            _Rule(
                "warn",
                lambda facts: facts["seconds"] > LONG_DISPATCH_S,
                _DISPATCH,
                "close other programs: the host is busy or far away",
            ),
        ),
    ),
    "trace": _Test(
        lambda facts: (
            f"{numbered(facts['events'], 'device event')} of {numbered(facts['calls'], 'call')}"
        ),
        "a trace was recorded and read back",
        (
            _Rule(
                "warn",
                lambda facts: not facts["events"],
                "the profiler recorded no operation of a device",
                "leave Trace a step off",
            ),
        ),
        failed="no trace can be read: times are measured without it",
    ),
    "clock": _Test(
        "not ahead",
        "operations begin after the call that causes them",
        (
            _Rule(
                "unknown",
                lambda facts: not facts["events"] or facts["ahead_s"] is None,
                "a trace without a device's operation does not show its clock",
                value="",
            ),
            _Rule(
                "warn",
                lambda facts: facts["ahead_s"] > LONG_AHEAD_S,
                "operations seem to begin before their call (jax #23426)",
                "read lengths and order on one device, not delays after the host",
                lambda facts: f"{seconds_text(facts['ahead_s'])} ahead",
            ),
        ),
    ),
    "compiler": _Test(
        lambda facts: f"{facts['target']} in {seconds_text(facts['seconds'])}",
        "the TPU compiler works: predictions for absent TPUs are available",
        failed="the TPU compiler does not work: no predictions for absent TPUs",
    ),
}
