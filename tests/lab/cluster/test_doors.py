"""What others can do at the scheduler's port: nothing of theirs runs in the lab's process or beside its
secrets, and whatever answers there ends in a sentence.
"""

import os
import zlib

import pytest
from pydantic import ValidationError

from bench.cluster_doors import SPEC, payloads, sentences
from bench.odd_schedulers import FILES, ROOT, cluster, listening, servers
from spmd_core.base import RequestError, read_settings
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Asker, Lab
from spmd_core.lab.cluster.client import MOST_BYTES, inflated, words
from spmd_core.lab.cluster.compiling import Compiled
from spmd_core.lab.cluster.connection import Away, Connection
from tests.labs import PATIENCE_S, STANDIN
from tests.loops import finished

PATH = f"{STANDIN}{os.pathsep}{ROOT}"
NO_SCHEDULER = {
    "closes at once": "does not answer as Dask",
    "speaks HTTP": "does not answer as Dask",
    "shakes hands as another version": "does not answer as Dask",
    "sends nothing": "does not answer within",
}
ODD = {
    "sends a huge length": "does not answer as Dask",
    "sends what never ends": "see who may reach the scheduler",
    "sends what raises SystemExit": "ended with exit status 1 (SystemExit: 3): see who may reach",
    "sends what ends its reader": "ended with exit status 7: see who may reach the scheduler",
}


def test_a_payload_runs_neither_in_the_lab_nor_beside_its_secrets(tmp_path):
    assert payloads(tmp_path, ("event", "exception"), PATH) == (2, 0, 0)


@pytest.mark.parametrize("name", NO_SCHEDULER)
def test_what_is_no_scheduler_is_a_sentence(name, tmp_path):
    with (
        listening(servers(tmp_path)[name]) as address,
        pytest.raises(Away, match=NO_SCHEDULER[name]) as away,
    ):
        finished(Connection(address, ())._workers())
    assert "\n" not in str(away.value)


def test_an_odd_server_is_a_sentence(tmp_path):
    found = sentences(tmp_path, tuple(ODD))
    assert found.keys() == ODD.keys()
    for name, (sentence, _) in found.items():
        assert ODD[name] in sentence and "\n" not in sentence, name


def test_a_cluster_with_certificates_compiles(tmp_path):
    names = ("SPMD_LAB_DASK_CA", "SPMD_LAB_DASK_CERT", "SPMD_LAB_DASK_KEY")
    with cluster(tmp_path, 1, PATH, FILES) as (address, _):
        settings = read_settings({"SPMD_LAB_DASK": address} | dict(zip(names, FILES, strict=True)))
        lab = Lab.open(tmp_path / "data", settings=settings)
        run = lab.submit(parse_experiment(SPEC), Asker(batch="a"))
        status = lab.wait(run, PATIENCE_S)
        lab.close()
    assert address.startswith("tls://") and status.state == "succeeded"


@pytest.mark.parametrize(
    "address",
    [
        "tcp://10.0.0.1:8786",
        "tcp://scheduler:8786",
        "tcp://0.0.0.0:8786",
        "tcp://127.0.0.1.example.org:8786",
        "tcp://[2001:db8::1]:8786",
    ],
)
def test_nothing_goes_unencrypted_to_another_machine(address):
    with pytest.raises(RequestError, match=r"unencrypted .*: use tls://.* with SPMD_LAB_DASK_CA"):
        read_settings({"SPMD_LAB_DASK": address})


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:1@10.0.0.1:2",
        "tcp://127.0.0.1:99999",
    ],
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(RequestError, match="is not the address of a Dask scheduler"):
        read_settings({"SPMD_LAB_DASK": address})


def test_what_stays_on_this_machine_needs_no_certificates_and_tls_needs_all():
    for address in ("tcp://127.0.0.1:1", "tcp://localhost:1", "tcp://[::1]:1"):
        assert read_settings({"SPMD_LAB_DASK": address}).dask == address
    given = {"SPMD_LAB_DASK": "tls://10.0.0.1:1", "SPMD_LAB_DASK_CA": FILES[0]}
    with pytest.raises(RequestError, match="SPMD_LAB_DASK_CERT='' is not a file that can be read"):
        read_settings(given)


def test_what_a_worker_sends_is_bounded_and_ends_a_run():
    deflater = zlib.compressobj(9)
    bomb = b"".join(deflater.compress(b"\0" * 2**20) for _ in range(MOST_BYTES // 2**20 + 1))
    with pytest.raises(ValueError, match="more than"):
        inflated(bomb + deflater.flush())
    for text in ('{"state": "running"}', '{"state": "succeeded"}', '{"state": "x"}'):
        with pytest.raises(ValidationError, match="is not how such a run ends"):
            Compiled.model_validate_json(text)


def test_a_strange_error_is_one_short_line():
    class Strange(Exception):
        def __str__(self):
            raise KeyError

    assert words(Strange()) == "Strange"
    assert words(ValueError("a\nb" * 10**6)) == ("a b" * 60)[:60]
