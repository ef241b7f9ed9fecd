"""Whether programs fit, said from their sizes, against the compiler's word: 20 training steps around the capacity of their chips (20 compiles)."""

from spmd_core.hardware import read_hardware
from spmd_core.plan import parse_plan
from spmd_core.predicting import before_compiling, of_plan
from spmd_core.units import bytes_text
from spmd_core.worker.compiling import compile_in_child

# (target, model, mesh, sequence, remat, batches per device, from well inside to beyond)
GROUPS = (
    ("tpu:v5e:4x4", "scaled:1", {"fsdp": 16}, 2048, "full", (16, 24, 32, 48)),
    ("tpu:v5e:4x4", "scaled:2", {"fsdp": 4, "tensor": 4}, 2048, "minimal", (2, 3, 4, 6)),
    ("tpu:v5e:16x16", "scaled:32", {"fsdp": 256}, 2048, "full", (4, 6, 8)),
    ("tpu:v5p:4x4x4", "scaled:64", {"fsdp": 16, "tensor": 4}, 2048, "minimal", (2, 3, 4)),
    ("tpu:v5p:4x4x4", "llama-2-70b", {"fsdp": 64}, 4096, "full", (2, 4, 6)),
    ("tpu:v6e:16x16", "llama-3.1-8b", {"fsdp": 256}, 8192, "full", (2, 4, 8)),
)


def main() -> None:
    """Print the table and how many were right."""
    right = close = fitting = 0
    print(f"{'target':15} {'model':14} {'batch':>5} {'said':>10} {'compiler':>10} {'said fits':>9} {'fits':>5}")
    for target, model, mesh, sequence, remat, batches in GROUPS:
        for batch in batches:
            plan = parse_plan({"target": target, "model": model, "mesh": mesh, "batch_per_device": batch, "sequence": sequence, "remat": remat})
            said = before_compiling(plan)
            found = of_plan(plan, compile_in_child({"plan": plan.to_json()}, plan.target, plan.flags, read_hardware()))
            peak = found.memory_bytes.peak
            right += said["fits"] == found.fits
            if found.fits and peak:
                fitting += 1
                close += abs(said["peak"] / peak - 1) <= 0.1
            sizes = f"{bytes_text(said['peak']):>10} {bytes_text(peak):>10}"
            print(f"{target:15} {model:14} {batch:5} {sizes} {said['fits']!s:>9} {found.fits!s:>5}", flush=True)
    total = sum(len(batches) for *_, batches in GROUPS)
    print(f"{right} of {total} right; peak within 10 % for {close} of {fitting} that fit")


if __name__ == "__main__":
    main()
