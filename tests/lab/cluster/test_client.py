"""Rules of the Dask client on workers that die or are silent, and on a run that it fails to follow."""

import asyncio

import pytest

from spmd_core.lab.cluster import client
from spmd_core.lab.cluster.messages import Ended, Lost


async def forever():
    await asyncio.Event().wait()


def followed(act):
    """The events of a client without a cluster that has a task on each of its workers."""
    events = []

    async def main():
        one = client.DaskClient("tcp://127.0.0.1:1", (), events.append)
        await act(one)

    asyncio.run(main())
    return events


def place(one, run, worker):
    one._known.add(worker)
    one._placed[run] = worker
    one._tasks[run] = asyncio.create_task(forever())


def test_a_run_that_costs_more_workers_than_allowed_has_ended():
    async def act(one):
        for number in range(client.MOST_DEATHS + 1):
            place(one, "run", f"tcp://w{number}")
            one._known.clear()
            one._look_for_the_ended()

    *lost, last = followed(act)
    assert lost == [Lost(run="run")] * client.MOST_DEATHS
    assert last == Ended(run="run", problem=client.DIED)


def test_a_silent_worker_is_left_out_and_comes_back_with_its_first_sign(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(client, "unhindered", lambda: now[0])
    left = []

    async def act(one):
        place(one, "run", "tcp://w")
        place(one, "other", "tcp://alive")
        for after, sign in ((0, 1), (client.HUNG_S, 1), (0.5, 1), (1, 2)):
            now[0] += after
            one._last_seen = {"tcp://w": sign, "tcp://alive": now[0]}
            one._look_for_signs()
            left.append(set(one._left_out))

    events = followed(act)
    assert left == [set(), set(), {"tcp://w"}, set()]
    assert [each.run for each in events if isinstance(each, Lost)] == ["run"]


@pytest.mark.parametrize("error", [KeyError("run"), OSError("closed")])
def test_a_run_that_can_be_followed_no_more_ends_with_the_reason(error):
    class Client:
        def submit(self, *_, **__):
            raise_later = asyncio.Future()
            raise_later.set_result(None)
            return raise_later

    async def act(one):
        async def fail(run, future):
            raise error

        one._client, one._follow = Client(), fail
        one._known.add("tcp://w")
        one.submit(client.Submit(run="run", spec="{}", timeout_s=1.0))
        await asyncio.sleep(0.05)

    (ended,) = followed(act)
    assert ended.run == "run" and ended.problem.startswith("the Dask client failed (")
