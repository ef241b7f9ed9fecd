"""Whether what is shown of a plan is what its sizes give: 60 plans drawn at random, each estimated and
printed, with FLOPs, pairs under the mask and shares counted here by hand.
"""

import math
import random
import re
from collections.abc import Iterator

from bench.figures import Asked, Figures, measure
from spmd_core.base import RequestError
from spmd_core.facts import Prediction
from spmd_core.plan import PRESETS, Plan
from spmd_core.recipes.recipe import in_a_line
from spmd_core.search.chips import named_meshes
from spmd_core.sweeps import best_mesh
from spmd_core.time import estimate_step
from spmd_core.words import predictions
from spmd_core.workloads import parse_plan

PLANS = 60
TARGETS = ("tpu:v5e:16x16", "tpu:v5p:4x4x4", "tpu:v6e:16x16", "tpu:tpu7x:4x4x4", "gpu:h100:8x8")
OFF = 0.0005  # a percentage with one decimal
_CAUSAL = re.compile(r"at ([0-9.]+)% causal MFU")


def drawn(seed: int) -> Plan:
    """The plan of a seed."""
    draws = random.Random(f"answers {seed}")
    while True:
        target = draws.choice(TARGETS)
        devices = {"tpu:v5e:16x16": 256, "tpu:v6e:16x16": 256, "tpu:tpu7x:4x4x4": 128}
        tensor = draws.choice((1, 1, 4, 8))
        mesh = {"fsdp": devices.get(target, 64) // tensor, "tensor": tensor}
        try:
            return parse_plan(
                {
                    "target": target,
                    "model": draws.choice(list(PRESETS)),
                    "mesh": mesh,
                    "sequence": draws.choice((2048, 8192, 32768, 131_072)),
                    "batch_per_device": draws.choice((1, 2, 8)),
                }
            )
        except RequestError:
            continue


def pairs(plan: Plan, causal: bool) -> int:
    """Pairs of a query and a key of one sequence in all layers, counted query by query."""
    size, length = plan.size, plan.sequence
    total = 0
    for layer in range(size.layers):
        window = size.windows[layer % len(size.windows)] or length
        total += sum(min(at + 1, window) for at in range(length)) if causal else length * length
    return total


def flops(plan: Plan, causal: bool) -> int:
    """Model FLOPs of a step: 6 of each active weight of a matmul, 12 of each pair and head dim."""
    size = plan.size
    matrices = 3 if size.gated else 2
    layer = 2 * size.embed * size.head_dim * (size.heads + size.kv_heads)
    layer += matrices * size.embed * (size.mlp * size.experts_per_token + size.shared_mlp)
    layer += size.embed * size.experts if size.experts > 1 else 0
    weights = size.layers * layer + size.embed * size.vocab
    attention = 12 * size.heads * size.head_dim * pairs(plan, causal) * plan.batch
    return 6 * weights * plan.tokens + attention


def shown(plan: Plan, found: Prediction) -> Iterator[str]:
    """The sentences in which a plan is answered."""
    yield predictions.step_estimate(found)
    yield in_a_line(plan, offering=False)


def wrong_words(plan: Plan, found: Prediction) -> bool:
    """True if a sentence has another causal MFU, or is "compute-bound" without half of the step in matmuls."""
    assert found.predicted_s
    rate = plan.topology.chips * plan.topology.chip.peak_flops * found.predicted_s.estimate
    causal = flops(plan, causal=True) / rate
    listed = [float(text) / 100 for each in shown(plan, found) for text in _CAUSAL.findall(each)]
    work = ("matmul", "grouped kernel")
    share = sum(found.shares_s.get(name, 0.0) for name in work) / sum(found.shares_s.values())
    is_bound = "compute-bound" in predictions.step_estimate(found)
    off = [abs(each - causal) > OFF + 1e-9 for each in listed]
    return not listed or any(off) or is_bound is not (share > 0.5)


def brute(plan: Plan, target: str, devices: int, most: int) -> float:
    """The shortest step of all meshes of up to `most` axes that fit; infinite where none does."""
    best = math.inf
    for mesh in named_meshes(devices, ("data", "fsdp", "sequence", "tensor"), most):
        given = plan.to_json() | {"target": target, "mesh": mesh}
        try:
            step = estimate_step(parse_plan(given | {"batch_per_device": plan.batch / devices}))
        except RequestError:
            continue
        if step.fits and step.predicted_s:
            best = min(best, step.predicted_s.estimate)
    return best


def best_meshes(figures: Figures) -> None:
    """Count best meshes that are not the fastest of two axes, and by how much three are faster."""
    wrong, behind = 0, []
    for model, sequence in (("llama-3.1-8b", 8192), ("llama-3.1-70b", 8192), ("gemma-2-9b", 4096)):
        plan = parse_plan(
            {
                "target": "tpu:v5p:8x8x8",
                "model": model,
                "mesh": {"fsdp": 512},
                "sequence": sequence,
                "batch_per_device": 2,
            }
        )
        for target, devices in (("v5p:4x4x4", 64), ("v5p:8x8x8", 512), ("v5p:8x16x16", 2048)):
            found = best_mesh(plan.to_json(), f"tpu:{target}", plan.batch).plan
            time = estimate_step(found).predicted_s
            two = brute(plan, f"tpu:{target}", devices, 2)
            three = brute(plan, f"tpu:{target}", devices, 3)
            if two < math.inf and time:
                wrong += time.estimate > two
                behind.append(time.estimate / three - 1)
    figures.add("best meshes slower than another of two axes", wrong, "of 9", most=0)
    figures.add("mesh of three axes faster by, at most", 100 * max(behind), "%")


def main(asked: Asked, figures: Figures) -> None:
    """Count what is shown against what is counted by hand."""
    del asked
    best_meshes(figures)
    plans = [plan for seed in range(PLANS * 3) if (plan := drawn(seed))]
    timed = [(plan, found) for plan in plans if (found := estimate_step(plan)).fits][:PLANS]
    figures.add("plans that fit", len(timed), "plans", least=PLANS)
    mfu = causal = words = 0
    for plan, found in timed:
        assert found.predicted_s and found.mfu and found.mfu_causal
        rate = plan.topology.chips * plan.topology.chip.peak_flops * found.predicted_s.estimate
        mfu += abs(found.mfu - flops(plan, causal=False) / rate) > 1e-9
        causal += abs(found.mfu_causal - flops(plan, causal=True) / rate) > 1e-9
        words += wrong_words(plan, found)
    figures.add("`mfu` other than attention in full gives", mfu, "plans", most=0)
    figures.add("`mfu_causal` other than pairs under the mask give", causal, "plans", most=0)
    figures.add("sentences with another MFU, or a bound that takes no half", words, "plans", most=0)


if __name__ == "__main__":
    measure(main, __doc__)
