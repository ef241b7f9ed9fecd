"""Whether a plan that offloads "fits" beyond the memory of its device or of its host: 120 plans drawn
at random, and the plans that searches rank.

Bytes in host memory are counted here by hand, from shapes alone, against the full memory of the
machine type, and a device's against its data sheet.
"""

import random
from collections.abc import Iterator

from bench.figures import Asked, Figures, measure
from spmd_core.base import RequestError
from spmd_core.machine import get_topology
from spmd_core.plan import NAMES, Plan
from spmd_core.recipes.recipe import in_a_line
from spmd_core.search import models, read_question
from spmd_core.search.chips import named_meshes
from spmd_core.time import estimate_step
from spmd_core.workloads import parse_plan

PLANS = 120
MODELS = (
    "llama-3.1-8b",
    "llama-2-70b",
    "llama-3.1-70b",
    "llama-3.1-405b",
    "scaled:16",
    "scaled:64",
)
TARGETS = ("h100:8x8", "h200:4x8", "b200:8x8", "gb200:72", "a100:8x8")
TARGETS += ("v5p:4x4x4", "v5p:4x4x8", "v5e:16x16", "v6e:16x16", "v4:4x4x4", "tpu7x:4x4x4")
SEARCHES = (("llama-3.1-70b", "gpu:h100:8x8"), ("llama-3.1-70b", "v5p:4x4x4"))
# GiB of a host and its devices, by machine type
HOSTS = {
    "h100": (1872, 8),
    "h200": (2952, 8),
    "b200": (3968, 8),
    "gb200": (884, 4),
    "a100": (1360, 8),
    "v4": (407, 4),
    "v5e": (192, 4),
    "v5p": (448, 4),
    "v6e": (720, 4),
    "tpu7x": (960, 8),
}


def drawn(seed: int) -> Plan:
    """The plan of a seed, which offloads one name at least."""
    draws = random.Random(f"offloaded {seed}")
    while True:
        name = draws.choice(TARGETS)
        target = f"{'gpu' if name.split(':')[0] in 'h100 h200 b200 gb200 a100' else 'tpu'}:{name}"
        meshes = list(named_meshes(get_topology(target).devices, ("data", "fsdp", "tensor"), 2))
        try:
            return parse_plan(
                {
                    "target": target,
                    "model": draws.choice(MODELS),
                    "mesh": draws.choice(meshes),
                    "sequence": draws.choice((2048, 8192, 32768)),
                    "batch_per_device": draws.choice((1, 2, 4, 8, 16)),
                    "offload": draws.sample(NAMES, draws.randint(1, len(NAMES))),
                }
            )
        except RequestError:
            continue


def host_bytes(plan: Plan) -> int:
    """Bytes that a device of a dense decoder offloads, at least: two for each element."""
    size, axes = plan.size, dict(plan.mesh)
    rows = plan.tokens / plan.devices
    tensor = axes.get("tensor", 1)
    heads = rows * size.heads * size.head_dim
    widths = {
        "input": rows * size.embed,
        "query": heads,
        "key": rows * size.kv_heads * size.head_dim * tensor / min(tensor, size.kv_heads),
        "out": rows * size.embed,
        "mlp_up": rows * size.mlp,
        "mlp_gate": rows * size.mlp if size.gated else 0,
        "attention": heads,
    }
    widths["value"] = widths["key"]
    return int(2 * size.layers * sum(widths.get(name, 0) for name in plan.offload))


def beyond(plan: Plan) -> Iterator[str]:
    """What a plan needs beyond what there is."""
    chip = plan.topology.chip
    gib, devices = HOSTS[chip.generation]
    if host_bytes(plan) * devices > gib * 2**30:
        yield f"{host_bytes(plan) * devices / 2**30:,.0f} GiB of a host of {gib:,}"
    if (estimate_step(plan).memory_bytes.peak or 0) > chip.hbm_bytes / chip.devices_per_chip:
        yield "more than its device"


def main(asked: Asked, figures: Figures) -> None:
    wrong = kept = over = 0
    for seed in range(asked.plans):
        plan = drawn(seed)
        needs = list(beyond(plan))
        fits = estimate_step(plan).fits or ": fits" in in_a_line(plan, offering=False)
        kept, over = kept + fits, over + bool(needs)
        if fits and needs:
            wrong += 1
            print(f"{seed} {plan.target} {plan.model} {plan.offload}: {needs}", flush=True)
    figures.add("plans that are beyond their host or device", over, least=1)
    figures.add("plans that fit", kept, least=1)
    figures.add(f'"fits" beyond host or device, {asked.plans} plans', wrong, most=0)
    for model, chips in SEARCHES:
        question = read_question({"model": model, "chips": [chips], "sequence": 8192})
        sure = [each for each in models.candidates(question) if each.is_ranked]
        bad = sum(
            bool(list(beyond(each.plan))) for each in sure if each.plan and each.fits == "yes"
        )
        figures.add(f"the same of {len(sure):,} of a search, {model} on {chips}", bad, most=0)


if __name__ == "__main__":
    measure(main, __doc__, plans=PLANS)
