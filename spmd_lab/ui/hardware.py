"""What machine this is, drawn: the devices of its default target, who holds them, and the host."""

import threading
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import streamlit as st

from spmd_core.advice import Check
from spmd_core.base import RequestError, bytes_text, numbered
from spmd_core.machine import Hardware, parse_target
from spmd_core.results import Environment
from spmd_core.terms import ago, environment_notes, pool_words
from spmd_core.words import predictions
from spmd_lab.ui import tables
from spmd_lab.ui.lab import lab, self_test
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.tables import sheet

_testing = threading.Lock()  # one at a time: two would share the devices
_PUBLISHED = Path(__file__).parents[2] / "docs/pictures/published.png"  # of a checkout
_MARKS = {"ok": "✓", "warn": "!", "fail": "✗", "unknown": "?"}


def facts(hardware: Hardware, environment: Environment | None) -> tuple[tuple[str, str], ...]:
    """Label and value of each fact about the devices and the host; a dash where the devices are
    not known yet.
    """
    kinds = (
        sorted({kind for device in environment.devices for kind in device.memory_kinds})
        if environment
        else []
    )
    memory = (
        next((device.memory_bytes for device in environment.devices if device.memory_bytes), None)
        if environment
        else None
    )
    devices, memory_text = tables.NONE, tables.NONE
    if environment:
        devices = str(environment.device_count)
    elif hardware.accelerator:
        devices = str(hardware.chips)
    if memory:
        memory_text = bytes_text(memory)
    elif environment and environment.simulated:
        memory_text = "shares the host's"
    return (
        ("Platform", environment.platform if environment else hardware.accelerator or "cpu"),
        ("Devices", devices),
        ("Device kind", environment.device_kind if environment else hardware.name or tables.NONE),
        ("Memory per device", memory_text),
        ("Memory kinds", ", ".join(kinds) or tables.NONE),
        ("Host", f"{hardware.cores} cores, {bytes_text(hardware.memory_bytes)}"),
    )


def headline(hardware: Hardware, environment: Environment | None, target: str) -> str:
    """What this is, and the machine."""
    if hardware.accelerator is None:
        here = f"{parse_target(target).device_count} simulated CPU devices"
    elif environment:
        here = f"{environment.device_count} × {environment.device_kind}"
    else:
        here = f"{hardware.chips} × {hardware.name}"
    return (
        f"See how JAX shards arrays, and what it costs: measured on {here}, predicted for TPUs and "
        "GPUs."
    )


def remarks(
    hardware: Hardware, environment: Environment | None, target: str, worker_pid: int | None
) -> list[str]:
    """What to know besides: who holds the devices, the place in a slice, what simulated devices are
    good for.
    """
    lines = []
    for holder in hardware.holders:
        whose = (
            "this dashboard's own worker"
            if holder.pid == worker_pid
            else f"another program, {holder.name}"
        )
        lines.append(f"{holder.device_file} is held by process {holder.pid}: {whose}.")
    if hardware.slice_hosts > 1:
        number = "" if hardware.slice_host is None else f", number {hardware.slice_host}"
        lines.append(
            f"This host is one of {hardware.slice_hosts} of a slice{number}: only the devices of this host are used here."
        )
    if environment is not None and environment.simulated:
        lines += [
            f"{note}. Layouts and collectives are as on real ones."
            for note in environment_notes(environment, target)
        ]
    if environment is not None and (pool := pool_words(environment)):
        lines.append(f"{pool}.")
    return lines


def draw(
    hardware: Hardware,
    environment: Environment | None,
    target: str,
    worker_pid: int | None,
) -> int:
    """Draw the machine in a line, with who holds its devices, and how well predictions hold; returns
    how many remarks it has.
    """
    st.caption(plain(headline(hardware, environment, target)))
    of = f"{predictions.HELD} of {predictions.PUBLISHED} published step times"
    words = f"{of} are in their predicted {predictions.RANGE}s"
    if st.button(words, type="tertiary", key="published", icon=":material/target:"):
        _published()
    shown = remarks(hardware, None, target, worker_pid)
    for remark in shown:
        st.caption(plain(remark))
    return len(shown)


@st.dialog("How well do predictions hold?", width="large")
def _published() -> None:
    st.caption(plain(predictions.RANGES_WORDS))
    if _PUBLISHED.exists():
        st.image(str(_PUBLISHED), alt="Estimates over published steps, by chip and kind of step")


def draw_details(
    hardware: Hardware, environment: Environment | None, target: str, shown: int
) -> None:
    """Draw facts about the machine, its devices, and the remarks but the first `shown`."""
    with st.container(horizontal=True, gap="medium"):
        for label, value in facts(hardware, environment):
            st.markdown(f":small[:gray[{plain(label)}]]  \n{plain(value)}", width="content")
    if environment is not None:
        more = remarks(hardware, environment, target, None)[shown:]
        st.caption(plain(" ".join((*more, versions_words(environment)))))
        st.dataframe(
            sheet(devices_table(environment)),
            hide_index=True,
            alt="The devices of this machine with ids, coordinates and memory",
        )


def draw_cluster(target: str, ask: Callable[[str], None]) -> None:
    """A named cluster: its hosts as of the last query, and a button for a new one."""
    with st.container(border=True):
        st.subheader(plain(target), anchor=False)
        place = st.container()
        if st.button("Query its hosts", icon=":material/refresh:", key=f"ask:{target}"):
            with place, st.spinner("Starting a member on each host, some seconds…"):
                ask(target)
        environment = lab().devices(target)
        with place:
            if environment is None:
                st.caption("Its hosts are not known yet: a run, or the button, queries them.")
                return
            seen = lab().devices_seen_at(target)
            st.markdown(plain(cluster_headline(environment, ago(seen) if seen else "")))
            st.dataframe(
                sheet(hosts_table(environment)),
                hide_index=True,
                alt="The hosts of the cluster, with the devices of each",
            )
            st.caption(
                plain(f"{versions_words(environment)}: the same on all hosts, or no run starts.")
            )


def cluster_headline(environment: Environment, when: str) -> str:
    """A cluster in a sentence, as of `when` it was queried: a host may be lost since."""
    hosts = numbered(environment.process_count, "host")
    devices = f"{environment.device_count} × {environment.device_kind} in all"
    return f"{hosts}, {devices}, when last queried: {when}. A host that was lost since is listed."


def hosts_table(environment: Environment) -> pd.DataFrame:
    """The hosts of several processes, one row each."""
    rows = []
    for process in range(environment.process_count):
        own = [each for each in environment.devices if each.process == process]
        chips = {each.coords for each in own} if own and own[0].coords else own
        memory = next((each.memory_bytes for each in own if each.memory_bytes), None)
        rows.append(
            {
                "Host": environment.hosts[process] if environment.hosts else None,
                "Process": process,
                "Chips": len(chips),
                "Devices": ", ".join(str(each.id) for each in own),
                "Memory per device": bytes_text(memory) if memory else None,
            }
        )
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def versions_words(environment: Environment) -> str:
    """The versions that a worker runs."""
    more = f", {environment.platform_version}" if environment.platform_version else ""
    return f"JAX {environment.jax}, jaxlib {environment.jaxlib}, Python {environment.python}{more}"


def tested_headline(checks: list[Check]) -> str:
    """What the lines amount to, in a sentence.

    >>> tested_headline([Check(name="psum", status="fail", value="", meaning="collectives do not work")])
    '1 of 1 tests failed: collectives do not work.'
    """
    failed = [each for each in checks if each.status == "fail"]
    if failed:
        return f"{len(failed)} of {len(checks)} tests failed: {failed[0].meaning}."
    warned = [each.name.replace("_", " ") for each in checks if each.status != "ok"]
    look = f"; look at {', '.join(warned)}" if warned else ""
    return f"Nothing failed in {len(checks)} tests{look}."


def draw_self_test() -> None:
    """A button, and the lines of the last test of this visit."""
    if st.button("Test this machine", icon=":material/stethoscope:", key="self_test_button"):
        try:
            st.session_state["self_test"] = _tested()
        except RequestError as error:
            st.error(plain(str(error)))
    checks: list[Check] = st.session_state.get("self_test", [])
    if checks:
        (st.error if any(each.status == "fail" for each in checks) else st.info)(
            plain(tested_headline(checks))
        )
        rows = [
            {
                "": _MARKS[each.status],
                "Test": each.name.replace("_", " "),
                "Value": each.value,
                "Meaning": each.meaning,
                "What to do": each.do,
            }
            for each in sorted(
                checks, key=lambda each: ("fail", "warn", "unknown", "ok").index(each.status)
            )
        ]
        st.dataframe(
            sheet(pd.DataFrame(rows)),
            hide_index=True,
            alt="Each test with its value, what it means, and what to do",
        )
    else:
        st.caption("Takes about 20 seconds. On the command line: `python -m spmd_core doctor`.")


def _tested() -> list[Check]:
    if not _testing.acquire(blocking=False):
        raise RequestError("the self-test runs for another viewer: press again when it is done")
    try:
        checks = []
        with st.status("Testing…") as status:
            for each in self_test():
                checks.append(each)
                status.update(label=f"Tested {each.name.replace('_', ' ')}…")
        return checks
    finally:
        _testing.release()


def devices_table(environment: Environment) -> pd.DataFrame:
    """The devices of a target, one row each; columns that no device fills are left out."""
    rows = [
        {
            "Device": device.id,
            "Process": device.process,
            "Coordinates": ", ".join(map(str, device.coords)) if device.coords else None,
            "Core": device.core,
            "Memory kinds": ", ".join(device.memory_kinds),
            "Memory": bytes_text(device.memory_bytes) if device.memory_bytes else None,
        }
        for device in environment.devices
    ]
    return pd.DataFrame(rows).dropna(axis="columns", how="all")
