"""A member's process as its Dask worker sees it: its death is reported after all that it wrote."""

import os

import pytest

from spmd_core.lab.cluster.member import Member
from spmd_core.runs import EVENTS, PingCommand
from tests.labs import STANDIN


@pytest.mark.parametrize("is_pinged", [False, True])
def test_a_member_that_reports_its_error_and_ends_has_its_error_read(monkeypatch, is_pinged):
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    monkeypatch.setenv("STANDIN_NO_DEVICES", "1")  # fails with an error, and ends
    member = Member("cluster:pod", (1, 2, "127.0.0.1:1"))
    try:
        os.waitid(os.P_PID, member.worker.pid, os.WEXITED | os.WNOWAIT)
        if is_pinged:
            member.worker.send(PingCommand())
        lines, ending = member.look()
        (failed,) = map(EVENTS.validate_json, lines)
        assert failed.error.message == "target has no usable device: this is a test"
        assert "exit status 1" in ending
    finally:
        member.worker.stop(0.0)
        member.worker.close()
