"""A TPU host's place in its slice: from the environment, else from the metadata server of a Cloud
TPU VM.
"""

import urllib.request
from collections.abc import Mapping
from functools import lru_cache

METADATA_TIMEOUT_S = 1.0
_ATTRIBUTES = "http://{address}/computeMetadata/v1/instance/attributes/{name}"


def slice_position(environ: Mapping[str, str]) -> tuple[int | None, int]:
    """This host's number in its slice, from 0, and how many hosts that has. None and 1 where
    neither source gives them.

    GKE sets TPU_WORKER_ID and TPU_WORKER_HOSTNAMES. A Cloud TPU VM has a metadata server, which is
    queried once unless TPU_SKIP_MDS_QUERY is set. Both as in
    jax/_src/clusters/cloud_tpu_cluster.py.
    """
    number, hosts = (
        environ.get("TPU_WORKER_ID", ""),
        _hosts(environ.get("TPU_PROCESS_ADDRESSES") or environ.get("TPU_WORKER_HOSTNAMES", "")),
    )
    if not hosts and "TPU_SKIP_MDS_QUERY" not in environ:
        address = environ.get("GCE_METADATA_IP", "metadata.google.internal")
        hosts = _hosts(_attribute(address, "worker-network-endpoints"))
        number = _attribute(address, "agent-worker-number") if hosts > 1 else ""
    return (int(number) if number.isdecimal() else None), max(1, hosts)


def _hosts(names: str) -> int:
    return sum(1 for name in names.split(",") if name.strip())


@lru_cache(maxsize=8)
def _attribute(address: str, name: str) -> str:
    """An attribute of this machine; empty where no metadata server answers."""
    request = urllib.request.Request(
        _ATTRIBUTES.format(address=address, name=name), headers={"Metadata-Flavor": "Google"}
    )
    without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with without_proxy.open(request, timeout=METADATA_TIMEOUT_S) as answer:
            return answer.read(2**16).decode(errors="replace").strip()
    except (OSError, ValueError):
        return ""
