"""How a model is served: its replicas on chips, the mesh of one, the dtypes of weights and cache."""

import math
from functools import cached_property

from spmd_core.base import Frozen, RequestError, mesh_text, refuse, shorten
from spmd_core.machine import Topology, get_topology, topology_of_chips
from spmd_core.plan.model_size import ModelSize
from spmd_core.plan.models import get_model

# attention's batch over `data`, heads over `tensor`; the mlp over both; experts over `expert` of both
SERVED_AXES = ("data", "tensor", "expert")
SERVED_DTYPES = {"bf16": "bf16", "fp8": "f8e4m3fn", "int8": "s8"}  # as HLO writes them
# weights of experts alone, widened to bfloat16 beside the matrix unit: gpt-oss (arXiv:2508.10925) keeps
# them in 4.25 bits, blocks of 32 with a scale of 8 (OCP microscaling formats)
MXFP4 = "mxfp4"
_OTHER_NAMES = {"bfloat16": "bf16", "float8": "fp8", "float8_e4m3fn": "fp8", "f8": "fp8"}


def served_dtype(text: str, known: tuple[str, ...] = tuple(SERVED_DTYPES)) -> str:
    """Returns the dtype of a word; RequestError for one that is not served in."""
    word = _OTHER_NAMES.get(text.strip().lower(), text.strip().lower())
    if word not in known:
        fix = f"use {', '.join(known)}"
        raise refuse(f"dtype {shorten(text)}", "is not one of weights and cache", fix)
    return word


class ServedPlan(Frozen):
    """Equal replicas that fill a topology.

    `data` times `tensor` are the devices of a replica, over all of which an mlp is sharded;
    `expert` is the number of them that hold different experts, as many each, with copies where these
    do not divide; the rest shards each.
    """

    model: str
    target: str
    mesh: tuple[tuple[str, int], ...]
    weights_dtype: str = "bf16"
    kv_dtype: str = "bf16"

    def __hash__(self) -> int:
        return hash((self.model, self.target, self.mesh, self.weights_dtype, self.kv_dtype))

    @cached_property
    def size(self) -> ModelSize:
        """The model."""
        return get_model(self.model)

    @cached_property
    def topology(self) -> Topology:
        """The chips of all replicas."""
        return get_topology(self.target)

    def along(self, axis: str) -> int:
        """Returns the size of a mesh axis."""
        return dict(self.mesh).get(axis, 1)

    @cached_property
    def devices(self) -> int:
        """Devices of a replica."""
        return self.along("data") * self.along("tensor")

    @cached_property
    def replicas(self) -> int:
        """Copies of the model on the topology."""
        return self.topology.devices // self.devices

    @cached_property
    def replica_topology(self) -> Topology:
        """The chips of one replica, where they form a slice of TPUs of their own; else of all."""
        chip, cores = self.topology.chip, self.topology.chip.devices_per_chip
        if chip.is_gpu or self.replicas == 1 or self.devices % cores:
            return self.topology
        try:
            return topology_of_chips(chip.generation, self.devices // cores)
        except RequestError:
            return self.topology

    @property
    def repeats(self) -> int:
        """Devices of `tensor` that hold the same cache: all of them with latent attention."""
        tensor = self.along("tensor")
        return tensor if self.size.kv_rank else max(1, tensor // self.size.kv_heads)

    def check(self) -> None:
        """Raises RequestError where the sizes do not divide over the mesh."""
        for name, length in self.mesh:
            if name not in SERVED_AXES or length < 1:
                rule = "is not one that a served model is sharded over"
                raise refuse(f"{shorten(name)}={length}", rule, f"use {', '.join(SERVED_AXES)}")
        if len(dict(self.mesh)) < len(self.mesh):
            raise refuse(f"mesh {mesh_text(self.mesh)}", "has an axis twice", "give each once")
        size, tensor, expert = self.size, self.along("tensor"), self.along("expert")
        if self.topology.devices % self.devices:
            rule = f"does not divide the {self.topology.devices} devices of {self.topology.name}"
            sizes = range(1, self.topology.devices + 1)
            fits = [str(each) for each in sizes if self.topology.devices % each == 0]
            fix = f"use sizes that multiply to one of {', '.join(fits)}"
            raise refuse(f"mesh {mesh_text(self.mesh)}", rule, fix)
        inside = self.devices // expert if self.devices % expert == 0 else 0
        self._check_tensor(tensor)
        if expert > size.experts or not inside:
            rule = f"does not divide the {self.devices} devices of a replica"
            if expert > size.experts:
                rule = f"is above the {size.experts} experts of {self.model}"
            if size.experts == 1:
                rule = f"is of models with experts, and {self.model} has none"
            fix = f"use {math.gcd(expert, self.devices, size.experts)}"
            raise refuse(f"expert={expert}", rule, fix)
        if self.weights_dtype == MXFP4 and size.experts == 1:
            rule = "is of experts, and this model has none"
            raise refuse(f"weights in {MXFP4}", rule, f"use {', '.join(SERVED_DTYPES)}")
        if size.mlp % inside:
            fix = f"use {math.gcd(inside, size.mlp)}"
            raise refuse(f"{inside} shards of an mlp", f"do not divide {size.mlp}", fix)

    def _check_tensor(self, tensor: int) -> None:
        size = self.size
        for value, rule, fix in (
            (size.heads % tensor, f"does not divide {size.heads} heads", size.heads),
            (
                size.state_heads % tensor,
                f"does not divide {size.state_heads} states",
                size.state_heads,
            ),
            (
                not size.kv_rank and size.kv_heads % tensor and tensor % size.kv_heads,
                f"neither divides {size.kv_heads} key heads nor repeats them",
                size.kv_heads,
            ),
        ):
            if value:
                raise refuse(f"tensor={tensor}", rule, f"use {math.gcd(tensor, fix)}")
