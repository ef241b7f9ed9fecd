"""What the facts of the self-test mean, and what to do about them."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from spmd_core.base import Frozen, bytes_text, seconds_text

Status = Literal["ok", "warn", "fail", "unknown"]
NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "fuse.gcsfuse", "fuse.sshfs", "lustre", "9p")
LEAST_FREE_BYTES = 2**30
LEAST_LOCKED_BYTES = 2**30
LONG_DISPATCH_S = 1e-3
LONG_AHEAD_S = 1e-4


class Check(Frozen):
    """One line of the self-test. `value` is what was read; `do` is empty where nothing is to do."""

    name: str
    status: Status
    value: str
    meaning: str
    do: str = ""


Facts = Mapping[str, Any]  # of one test, as JSON


def check(name: str, facts: Facts) -> Check:
    """The line of a test. A test that failed has its `error`; one that was not made, the reason in
    `not_tried`.
    """
    if reason := facts.get("not_tried"):
        return Check(
            name=name, status="unknown", value="", meaning=str(reason), do=facts.get("do", "")
        )
    if error := facts.get("error"):
        text = " ".join(str(error).split())[:500]
        do = facts.get("do") or "look for this message in the issues of JAX"
        return Check(name=name, status="fail", value=text, meaning=_FAILED[name], do=do)
    return _CHECKS[name](name, facts)


def _ok(name: str, value: str, meaning: str) -> Check:
    return Check(name=name, status="ok", value=value, meaning=meaning)


def _warn(name: str, value: str, meaning: str, do: str) -> Check:
    return Check(name=name, status="warn", value=value, meaning=meaning, do=do)


def _fail(name: str, value: str, meaning: str, do: str) -> Check:
    return Check(name=name, status="fail", value=value, meaning=meaning, do=do)


def _versions(name: str, facts: Facts) -> Check:
    value = ", ".join(f"{package} {version}" for package, version in facts.items() if version)
    if not facts.get("jax"):
        return _fail(name, value, "JAX is not installed", "pip install -r requirements.txt")
    if not facts.get("libtpu"):
        return _warn(
            name,
            value,
            "no libtpu: neither attached TPUs nor compile-only topologies work",
            'pip install "jax[tpu]", on Linux x86-64',
        )
    return _ok(name, value, "the versions that each result is stored with")


def _accelerators(name: str, facts: Facts) -> Check:
    if not facts["kind"]:
        return _ok(name, "none", "runs use simulated CPU devices; TPU topologies are compile-only")
    value = f"{facts['chips']} × {facts['title']}, {facts['files']} device files"
    if facts["unreadable"]:
        return _fail(
            name,
            value,
            f"this user may not open {', '.join(facts['unreadable'][:4])}",
            "add the user to the group that owns the files, or start the server as one that may",
        )
    return _ok(name, value, "as the PCI bus and the device files show them")


def _holders(name: str, facts: Facts) -> Check:
    held = [f"{each['name']} (pid {each['pid']})" for each in facts["holders"]]
    if held:
        return _warn(
            name,
            ", ".join(held),
            "another process has the TPU open: a run waits until it is released",
            "press Release the devices on Overview where it is the lab's worker, else end it",
        )
    if facts["lock_file"]:
        path, owner = facts["lock_file"]
        return _warn(
            name,
            f"{path}, owned by {owner}",
            "a process of this user holds the TPU, or one that ended left its lock file",
            f"ask {owner}; where no process uses the TPU: sudo rm {path}",
        )
    return _ok(name, "nobody", "the devices are free, as far as this user may see")


def _environment(name: str, facts: Facts) -> Check:
    variables = facts["variables"]
    value = " ".join(f"{key}={text}" for key, text in variables.items()) or "none set"
    if "LIBTPU_INIT_ARGS" in variables or "XLA_FLAGS" in variables:
        return _warn(
            name,
            value,
            "compiler flags of the environment change what is compiled, and are stored with "
            "results",
            "unset LIBTPU_INIT_ARGS and XLA_FLAGS where results of others are to be compared",
        )
    return _ok(name, value, "JAX_ variables are not passed to the worker; the experiment decides")


def _slice(name: str, facts: Facts) -> Check:
    if not facts.get("is_tpu", True):
        return Check(
            name=name,
            status="unknown",
            value="no TPU host",
            meaning="what a slice of several hosts needs shows on one of its hosts alone",
        )
    if facts["hosts"] <= 1:
        return _ok(name, "one host", "all chips of the slice are attached here")
    number = facts["host"]
    place = (
        f"host {number} of {facts['hosts']}" if number is not None else f"{facts['hosts']} hosts"
    )
    return _warn(
        name,
        place,
        "the worker uses the chips of this host alone",
        "for the slice as one mesh, describe it as a compile-only target",
    )


def _memory(name: str, facts: Facts) -> Check:
    locked, pages = facts["locked_bytes"], facts["huge_pages"]
    limit = "no limit" if locked is None else bytes_text(locked)
    value = (
        f"{bytes_text(facts['available_bytes'])} of {bytes_text(facts['total_bytes'])} available, "
        f"locked memory: {limit}, transparent huge pages: {pages or 'unknown'}"
    )
    if facts["is_tpu"] and locked is not None and locked < LEAST_LOCKED_BYTES:
        return _warn(
            name,
            value,
            "a TPU behind VFIO locks host memory for its transfers",
            "LimitMEMLOCK=infinity in the service file, or ulimit -l unlimited",
        )
    if facts["is_tpu"] and pages != "always":
        return _warn(
            name,
            value,
            "starting and copying to a TPU take longer without transparent huge pages",
            'sudo sh -c "echo always > /sys/kernel/mm/transparent_hugepage/enabled"',
        )
    return _ok(name, value, "memory of the host")


def _data_folder(name: str, facts: Facts) -> Check:
    value = f"{facts['path']}, {bytes_text(facts['free_bytes'])} free, {facts['file_system'] or 'file system unknown'}"
    if not facts["is_writable"]:
        return _fail(
            name, value, "no result can be stored", "set SPMD_LAB_DATA to a folder of yours"
        )
    if facts["file_system"] in NETWORK_FILE_SYSTEMS:
        return _warn(
            name,
            value,
            "SQLite's locks do not hold on a network file system",
            "set SPMD_LAB_DATA to a local disk",
        )
    if facts["free_bytes"] < LEAST_FREE_BYTES:
        return _warn(
            name, value, "the disk is nearly full", "free some space, or set SPMD_LAB_DATA"
        )
    if not facts["is_private"]:
        return _warn(
            name, value, "other users of this machine can list it", f"chmod 700 {facts['path']}"
        )
    return _ok(name, value, "where runs and results are stored")


def _ports(name: str, facts: Facts) -> Check:
    taken = [f"{port} ({use})" for port, use in facts["taken"]]
    if taken:
        return _warn(
            name,
            f"taken: {', '.join(taken)}",
            "something listens there already",
            "that may be this dashboard; else streamlit run app.py --server.port 8502",
        )
    return _ok(name, "free", "the ports of the dashboard, of libtpu and of jax.distributed")


def _schedulers(name: str, facts: Facts) -> Check:
    variable = "SPMD_LAB_DASK" if name == "dask" else "SPMD_LAB_CLUSTERS"
    if not facts["schedulers"]:
        meaning = "searches compile on this machine" if name == "dask" else "no hosts to run on"
        return _ok(name, "not set", f"{meaning}: {variable} names a cluster")
    value = ", ".join(f"{each['name']} {each['address']}".strip() for each in facts["schedulers"])
    silent = [each for each in facts["schedulers"] if each["problem"]]
    if silent:
        words = "; ".join(f"{each['address']}: {each['problem']}" for each in silent)
        do = f"start the scheduler as in docs/cluster.md, or correct {variable}"
        return _fail(name, value, f"nothing answers at {words}", do)
    return _ok(name, value, "something answers there; a run compares versions with each worker")


def _devices(name: str, facts: Facts) -> Check:
    value = f"{facts['count']} × {facts['kind']} on {facts['platform']}"
    chips = facts.get("expected_chips")
    if facts.get("expected") not in (None, facts["platform"]):
        return _fail(
            name,
            value,
            f"JAX took {facts['platform']}, although this machine has a {facts['expected']}",
            "see who holds the devices, and whether libtpu or the CUDA plugin is installed",
        )
    if chips and facts["chips"] and chips != facts["chips"]:
        return _warn(
            name,
            value,
            f"JAX sees {facts['chips']} chips, the PCI bus {chips}",
            "see TPU_VISIBLE_CHIPS and TPU_CHIPS_PER_PROCESS_BOUNDS",
        )
    return _ok(name, value, "what the worker process gets")


def _memory_kinds(name: str, facts: Facts) -> Check:
    bad = {kind: answer for kind, answer in facts["kinds"].items() if answer != "ok"}
    value = ", ".join(facts["kinds"])
    if bad:
        reasons = "; ".join(f"{kind}: {reason}" for kind, reason in bad.items())
        return _warn(name, value, reasons, "leave operands in device memory")
    return _ok(name, value, "an array went to each and came back equal")


def _copy(name: str, facts: Facts) -> Check:
    there, back = facts["bytes"] / facts["to_device_s"], facts["bytes"] / facts["to_host_s"]
    value = f"{bytes_text(there)}/s to the device, {bytes_text(back)}/s back"
    if facts.get("is_shared"):
        shared = "simulated devices share the host's memory: nothing need be copied"
        return Check(name=name, status="unknown", value=value, meaning=shared)
    return _ok(name, value, f"{bytes_text(facts['bytes'])} in one copy")


def _psum(name: str, facts: Facts) -> Check:
    value = f"{seconds_text(facts['seconds'])} over {facts['devices']} devices"
    if facts["received"] != [facts["expected"]]:
        return _fail(
            name,
            value,
            f"devices received {facts['received']}, not {facts['expected']}",
            "report this with versions and environment: collectives are wrong on this machine",
        )
    return _ok(name, value, "every device received the right sum")


def _dispatch(name: str, facts: Facts) -> Check:
    value = seconds_text(facts["seconds"])
    meaning = "a call of a program that does nothing: what is shorter is dispatch bound"
    if facts["seconds"] > LONG_DISPATCH_S:
        return _warn(name, value, meaning, "close other programs: the host is busy or far away")
    return _ok(name, value, meaning)


def _trace(name: str, facts: Facts) -> Check:
    value = f"{facts['events']} device events of {facts['calls']} calls"
    if not facts["events"]:
        return _warn(
            name, value, "the profiler recorded no operation of a device", "leave Trace a step off"
        )
    return _ok(name, value, "a trace was recorded and read back")


def _clock(name: str, facts: Facts) -> Check:
    ahead = facts["ahead_s"] if facts["events"] else None
    if ahead is None:
        meaning = "a trace without a device's operation does not show its clock"
        return Check(name=name, status="unknown", value="", meaning=meaning)
    if ahead > LONG_AHEAD_S:
        return _warn(
            name,
            f"{seconds_text(ahead)} ahead",
            "operations seem to begin before their call (jax #23426)",
            "read lengths and order on one device, not delays after the host",
        )
    return _ok(name, "not ahead", "operations begin after the call that causes them")


def _compiler(name: str, facts: Facts) -> Check:
    value = f"{facts['target']} in {seconds_text(facts['seconds'])}"
    return _ok(name, value, "the TPU compiler works: predictions for absent TPUs are available")


_CHECKS: dict[str, Callable[[str, Facts], Check]] = {
    "versions": _versions,
    "accelerators": _accelerators,
    "holders": _holders,
    "environment": _environment,
    "slice": _slice,
    "memory": _memory,
    "data_folder": _data_folder,
    "ports": _ports,
    "dask": _schedulers,
    "clusters": _schedulers,
    "devices": _devices,
    "memory_kinds": _memory_kinds,
    "copy": _copy,
    "psum": _psum,
    "dispatch": _dispatch,
    "trace": _trace,
    "clock": _clock,
    "compiler": _compiler,
}
_FAILED = dict.fromkeys(_CHECKS, "the test could not be made") | {
    "devices": "JAX has no usable device: no run can start",
    "copy": "no array reaches the device",
    "psum": "collectives do not work",
    "trace": "no trace can be read: times are measured without it",
    "compiler": "the TPU compiler does not work: no predictions for absent TPUs",
}
