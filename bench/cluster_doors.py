"""What a Dask scheduler, or whoever answers in its place, can do to the lab: payloads that ran in
the lab's process or beside its secrets, and seconds until an odd server is a sentence.

`python -m bench.cluster_doors`: about two minutes. `python -m bench.cluster_doors --lab` is the lab
that is attacked: a line of JSON for each address, with its answers.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.figures import Asked, Figures, measure
from bench.odd_schedulers import (
    FILES,
    ROOT,
    Payload,
    cluster,
    free_address,
    listening,
    servers,
    with_tls,
)
from spmd_core.base import Settings
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Asker, Lab

SECRET = "correct-horse-battery-staple"
SENTENCE_S, PATIENCE_S = 5.0, 60.0
SPEC = {
    "workload": "elementwise",
    "target": "tpu:v5e:2x2",
    "mesh": {"x": 4},
    "dims": {"rows": 16, "cols": 8},
    "sharding": {"rows": "x"},
    "strategies": ["auto"],
}
ATTACKS = ("event", "result", "exception", "versions")


def serve() -> None:
    """Be the lab that is attacked: have a run compiled at each address that is asked for."""
    for line in sys.stdin:
        asked = json.loads(line)
        settings = replace(
            Settings(poll_s=0.05), dask=asked["address"], dask_tls=tuple(asked["files"])
        )
        with tempfile.TemporaryDirectory(prefix="cluster-doors-") as folder:
            lab = Lab.open(Path(folder), settings=settings)
            _follow(lab, lab.submit(parse_experiment(SPEC), Asker(batch="doors")))
            lab.close()
        print(json.dumps({"end": "distributed" in sys.modules}), flush=True)


def _follow(lab: Lab, run: str) -> None:
    begun, was = time.monotonic(), ""
    while time.monotonic() < begun + PATIENCE_S:
        status = lab.status(run)
        if status.state != was:
            print(json.dumps({"state": (was := status.state)}), flush=True)
        sentence = status.held_up or (status.error.message if status.error else None)
        if sentence or status.is_over:
            print(json.dumps({"sentence": sentence, "state": was}), flush=True)
            return
        time.sleep(0.02)


@dataclass
class Attacked:
    """The lab's process, which has secrets in its environment."""

    process: subprocess.Popen[str]
    stderr: Path

    def ask(self, address: str, files: tuple[str, ...] = ()) -> None:
        """Have it compile a run at an address."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"address": address, "files": files}) + "\n")
        self.process.stdin.flush()

    def answers(self) -> Iterator[dict[str, Any]]:
        """Its answers until it is done with an address."""
        assert self.process.stdout
        for line in self.process.stdout:
            yield (answer := json.loads(line))
            if "end" in answer:
                assert not answer["end"], "the lab loaded distributed"
                return

    def sentence(self, address: str, files: tuple[str, ...] = ()) -> tuple[str, float]:
        """(the sentence that its user reads, seconds until then), of an address."""
        begun, sentence, took_s = time.monotonic(), "", float("inf")
        self.ask(address, files)
        for answer in self.answers():
            if answer.get("sentence"):
                sentence, took_s = answer["sentence"], time.monotonic() - begun
        return sentence, took_s


@contextmanager
def attacked(folder: Path) -> Iterator[Attacked]:
    """A lab with secrets in its environment, to be attacked."""
    written = folder / "stderr.txt"
    secrets = {"SPMD_LAB_TOKEN": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET, "HF_TOKEN": SECRET}
    with written.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.cluster_doors", "--lab"],
            cwd=ROOT,
            env=os.environ | secrets,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    assert process.stdin and process.stdout
    try:
        yield Attacked(process, written)
        process.stdin.close()
        process.wait()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def died_right_after(lab: Attacked, folder: Path) -> tuple[str, float]:
    """The same of a scheduler that is killed once it has a run, from then on."""
    sentence, killed, took_s = "", 0.0, float("inf")
    with cluster(folder, 1) as (address, started):
        lab.ask(address)
        for answer in lab.answers():
            if answer.get("state") == "starting" and not killed:
                killed = time.monotonic()
                started[0].kill()
            if answer.get("sentence"):
                sentence, took_s = answer["sentence"], time.monotonic() - killed
    return sentence, took_s


def attack(address: str, kind: str, folder: Path) -> None:
    """Have a payload sent through a scheduler's port to whoever is connected to it, in a process of
    its own. It loads what this function names, as anybody can.
    """
    from distributed import Client
    from distributed.protocol.serialize import ToPickle

    payload = Payload(folder)

    def send(dask_scheduler: Any) -> None:
        for topic in list(dask_scheduler._broker._topics):
            dask_scheduler.log_event(topic, ToPickle(payload))

    def replace_function() -> None:
        def given(*_: Any) -> Any:
            if kind == "exception":
                raise payload.__reduce__()[0](*payload.__reduce__()[1])
            return payload

        remote = importlib.import_module("spmd_core.lab.cluster.remote")
        setattr(remote, "versions_here" if kind == "versions" else "compiled", given)

    with Client(address, timeout=PATIENCE_S, set_as_default=False) as client:
        client.wait_for_workers(1)
        if kind != "event":
            client.run(replace_function)
            return
        while not client.run_on_scheduler(_topics):
            time.sleep(0.05)
        client.run_on_scheduler(send)


def _topics(dask_scheduler: Any) -> list[str]:
    topics = dask_scheduler._broker._topics
    return [name for name in topics if name.startswith("spmd-lab") and topics[name].subscribers]


def payloads(
    folder: Path, kinds: tuple[str, ...] = ATTACKS, path: str = str(ROOT)
) -> tuple[int, int, int]:
    """Of payloads that came through the port of a real scheduler: (in how many processes one ran
    that hold the connection of the lab, in the lab's, in ones with its secrets). `path`: the
    PYTHONPATH of the workers.
    """
    held, labs, exposed = set(), set(), set()
    with attacked(folder) as lab, cluster(folder, 1, path) as (address, started):
        for kind in kinds:
            out = folder / f"ran-{kind}"
            out.mkdir()
            command = [sys.executable, "-m", "bench.cluster_doors", "--attack", address, kind, out]
            if kind == "event":
                lab.ask(address)
            subprocess.run(
                command, cwd=ROOT, check=True, timeout=2 * PATIENCE_S, stderr=subprocess.DEVNULL
            )
            if kind != "event":
                lab.ask(address)
            for answer in lab.answers():
                if "sentence" in answer:
                    print(f"  {kind}: {answer['sentence'] or answer['state']}", flush=True)
            for file in out.iterdir():
                number, environ = json.loads(file.read_text())
                labs |= {number} & {lab.process.pid}
                exposed |= {number} if SECRET in environ else set()
                if number not in {process.pid for process in started}:
                    held.add((kind, number))
        _complain(lab.stderr)
    return len({kind for kind, _ in held}), len(labs), len(exposed)


def _complain(stderr: Path) -> None:
    lines = stderr.read_text().splitlines(keepends=True)
    # a worker whose answer is refused is named; anything else is an error of the lab
    if text := "".join(line for line in lines if "the Dask worker 'tcp://" not in line):
        raise SystemExit(f"the lab wrote on stderr: {text[:4000]}")


def sentences(folder: Path, names: tuple[str, ...] | None = None) -> dict[str, tuple[str, float]]:
    """(sentence, seconds) of each odd server, or of those named, by its name."""
    out, found = folder / "ran-odd", {}
    out.mkdir()
    with attacked(folder) as lab:
        for name, answer in servers(out).items():
            if names is None or name in names:
                with listening(answer) as address:
                    found[name] = lab.sentence(address)
        if names is None:
            found["does not listen"] = lab.sentence(free_address())
            tls = free_address().replace("tcp", "tls")
            found["does not listen for TLS"] = lab.sentence(tls, FILES)
            for name, answer in {
                "shows a stranger's certificate": with_tls("stranger"),
                "speaks no TLS": servers(out)["answers oddly after the handshake"],
            }.items():
                with listening(answer) as address:
                    found[name] = lab.sentence(address.replace("tcp", "tls"), FILES)
            with cluster(folder, 0) as (address, _):
                found["has no workers"] = lab.sentence(address)
            found["dies right after"] = died_right_after(lab, folder)
        _complain(lab.stderr)
    ran = [json.loads(file.read_text()) for file in out.iterdir()]
    found_in_lab = [environ for number, environ in ran if number == lab.process.pid]
    assert not found_in_lab and not any(SECRET in environ for _, environ in ran)
    return found


def main(_: Asked, figures: Figures) -> None:
    with tempfile.TemporaryDirectory(prefix="cluster-doors-") as name:
        found = sentences(Path(name))
        for server, (sentence, took_s) in sorted(found.items(), key=lambda each: each[1][1]):
            print(f"  {took_s:4.1f} s  {server}: {sentence}")
        slow = sum(not sentence or took_s > SENTENCE_S for sentence, took_s in found.values())
        reached, in_lab, with_secrets = payloads(Path(name))
    figures.add("odd servers: a sentence", len(found) - slow, "", least=13)
    figures.add("odd servers: none, or after 5 s", slow, "", most=0)
    figures.add("payloads that reached a process here", reached, "", least=len(ATTACKS))
    figures.add("payloads in the lab's process", in_lab, "", most=0)
    figures.add("payloads beside its secrets", with_secrets, "", most=0)


if __name__ == "__main__":
    if sys.argv[1:] == ["--lab"]:
        serve()
        sys.exit()
    if sys.argv[1:2] == ["--attack"]:
        attack(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
        sys.exit()
    measure(main, __doc__)
