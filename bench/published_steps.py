"""Published training steps beside the instant estimate; nothing is compiled.

    python -m bench.published_steps [--only gpu|dense|v5p|experts|"8 bits"|"other kernel"]

They are a test as far as the plans say what ran, except those that `is_fitted` names. Sources:
NVIDIA/dgxc-benchmarking (maxtext/README_70b.md of v25.01 and of v25.04, paxml/README_5b.md of
v24.11), NVIDIA/JAX-Toolbox (rosetta/projects/pax/README.md of 2024, with Transformer Engine, its
sequences per second turned into seconds), AI-Hypercomputer/gpu-recipes (training/a3ultra and
a3mega, logs of MaxText), AI-Hypercomputer/tpu-recipes (training/trillium and ironwood), and of v5e
MaxText/configs/v5e/README.md of AI-Hypercomputer/maxtext, whose TFLOP/s a chip are those of the
model. The rows of 8 bits, of DeepSeek-V3, of Gemma 3 on two slices and the lower end of Llama-3.1
70B on TPU7x are of tpu-recipes c8cfe2f, gpt-oss of 2025-11 to 0797d9c, Llama-3.1 405B on v5p of
maxtext 3eb77db (benchmarks/maxtext_v5p_model_configs.py), on B200 of gpu-recipes 2e1fd5e, and 70B
there of 0355c38. A plan that was published more than once is a band. `--picture FILE` draws a dot for each row, over its kind
of chip. Where a log contradicts the batch of its own recipe (`total_weights` are its tokens), the
log's is taken.
"""

import math
import statistics
from pathlib import Path
from typing import Any

import vl_convert

from bench.figures import Asked, Figures, measure
from bench.published_chart import Dot, errors_chart
from spmd_core.plan import WITHOUT_RINGS, Plan, get_model
from spmd_core.terms import chip_title
from spmd_core.time import estimate_step

Seconds = float | tuple[float, float]  # published more than once: from the least to the most
Published = tuple[str, Seconds, str, str, str, float, int, dict[str, Any]]
_SAVED = ("query", "key", "value", "out", "mlp_down")
_QKV = ("query", "key", "value")
_LLAMA_2 = {"sizes": {"vocab": 32000}}
_GPT_5B = {
    "layers": 24,
    "sizes": {"embed": 4096, "heads": 32, "kv_heads": 32, "mlp": 16384},
    "remat": "minimal",
}
_CONTEXT = {"save": (*_QKV, "attention", "out")}
_FLASH_7B = {"remat": "minimal", "save": ("attention",)}
_QKV_OFF = {"offload": ("input", *_QKV)}
_QKVO_OFF = {"offload": ("input", *_QKV, "out")}
_NO_RINGS = {"compiler_flags": (WITHOUT_RINGS,)}
# kernels of MaxText's recipes that name only blocks of queries: two backward, 512 keys a block
_SPLIT = {"attention_backward": "split", "attention_blocks": (2048, 512, 512)}
_SPLIT_1024 = {"attention_backward": "split", "attention_blocks": (1024, 1024, 1024)}
_BF16 = {"parameter_dtype": "bfloat16", "state_dtype": "bfloat16"}
_QWEN_3 = {"offload": ("input",), "dropless": True}
_DEEPSEEK = _QWEN_3 | {"fsdp_on_experts": True, "attention_blocks": 2048}
_DEEPSEEK |= {"state_dtype": "bfloat16", "second_moment_dtype": "float32"}
_LLAMA_70B = {"save": ("attention", *_QKV), "state_dtype": "bfloat16"}
_LLAMA_70B |= {"second_moment_dtype": "float32"}
_FP8_FULL = {"matmul_dtype": "float8", "scales": "static"}
_FP8_GPU = _FP8_FULL | {"gathered_dtype": "bfloat16"}  # MaxText's fp8: scales of earlier steps
_GPT_OSS = {"offload": ("input", "mlp_down"), "dropless": True}
# billions of parameters -> sequences a chip, mesh of a slice, more, and TFLOP/s of a chip on 1, 2,
# 4, 8, 16 and 32 slices. The script of 128B offloads all projections; the line with its fused
# matmuls is no argument of its command
_BLOCK = (*_QKV, "out", "mlp_up", "mlp_gate", "mlp_down")
_V5E: dict[int, tuple[float, str, dict[str, Any], tuple[int, ...]]] = {
    16: (6, "fsdp=256", {}, (120, 117, 117, 115, 111, 108)),
    32: (4, "fsdp=256", {}, (132, 128, 126, 125, 123, 119)),
    64: (2, "fsdp=256", {}, (118, 112, 110, 108, 105, 99)),
    128: (1, "fsdp=16,tensor=16", {"offload": _BLOCK}, (110, 110, 108, 104, 100, 91)),
}
# MaxText/configs/v5p/README.md of AI-Hypercomputer/maxtext 76bd53b, plans by the scripts beside it
# (5431d43): billions, tensor, sequences a chip, policy, shapes of a slice, TFLOP/s of a chip on one
# slice and on two. Of two shapes a chip has the same plan: they are a band, whose lower end counts
# attention by halves, as MaxText did in spring 2024
_V5P = (
    (32, 4, 7, "minimal", {"4x4x4": (328, 319)}),
    (64, 4, 3, "minimal", {"4x4x4": (323, 309)}),
    (128, 8, 1, "minimal", {"4x4x8": (315, 305), "4x8x8": (316, 274)}),
    (256, 8, 1, "minimal", {"8x8x8": (308, 289)}),
    (512, 8, 2, "full", {"8x8x8": (294, 282)}),
    (1024, 16, 2, "full", {"8x8x16": (254, 237), "8x16x16": (297, 279)}),
)
# % off, median and worst. Tokamax's kernel with an estimate of each row's maximum is not estimated
GOALS = (
    ("gpu", 8, 20),
    ("dense", 2, 10),
    ("v5p", 3, 8),
    ("experts", 7, 15),
    ("8 bits", 7, 15),
    ("other kernel", None, None),
)
# what is judged, seconds, target, model, mesh, sequences a device, tokens of each, more
ROWS: tuple[Published, ...] = (
    *(
        ("gpu", seconds, f"gpu:h100:{count // 8}x8", "llama-2-70b", mesh, 2, 4096, {"save": _SAVED})
        for count, mesh, seconds in (
            (128, "fsdp=128", 7.072),
            (256, "fsdp=256", 7.153),
            (512, "data=4,fsdp=128", 7.091),
            (1024, "data=8,fsdp=128", 7.084),
            (2048, "data=16,fsdp=128", 7.066),
        )
    ),
    *(
        ("gpu", seconds, f"gpu:h100:{count // 8}x8", "llama-3.1-70b", mesh, 2, 8192, {"save": _QKV})
        for count, mesh, seconds in (
            (256, "fsdp=256", 15.444),
            (512, "data=4,fsdp=128", 15.519),
            (1024, "data=8,fsdp=128", 15.603),
            (2048, "data=16,fsdp=128", 15.898),
        )
    ),
    *(
        ("gpu", seconds, f"gpu:h100:{count // 8}x8", "gpt-3-175b", mesh, 4, 2048, _GPT_5B)
        for count, mesh, seconds in (
            (16, "data=2,fsdp=8", 0.634),
            (32, "data=4,fsdp=8", 0.639),
            (64, "data=8,fsdp=8", 0.643),
            (128, "data=16,fsdp=8", 0.651),
        )
    ),
    ("gpu", 2048 / 718.19, "gpu:a100:32x8", "gpt-3-175b", "fsdp=256", 8, 2048, _GPT_5B),
    ("gpu", 2048 / 1657.24, "gpu:h100:32x8", "gpt-3-175b", "fsdp=256", 8, 2048, _GPT_5B),
    ("gpu", 1536 / 20.44, "gpu:a100:32x8", "gpt-3-175b", "fsdp=256", 6, 2048, {}),
    ("gpu", 1536 / 51.00, "gpu:h100:32x8", "gpt-3-175b", "fsdp=256", 6, 2048, {}),
    ("gpu", 1.500, "gpu:h100:32x8", "llama-2-7b", "data=32,fsdp=8", 4, 4096, _FLASH_7B),
    ("gpu", 15.516, "gpu:h200:32x8", "llama-3.1-70b", "data=2,fsdp=128", 2, 8192, _CONTEXT),
    ("dense", 6.320, "tpu:v6e:2x4", "mistral-7b", "fsdp=8", 6, 8192, _QKVO_OFF | _NO_RINGS),
    ("dense", 9.052, "tpu:v6e:16x16", "llama-2-70b", "fsdp_transpose=256", 2, 4096,
     {"offload": _QKV} | _SPLIT),
    ("dense", 7.318, "tpu:v6e:16x16", "gemma-3-12b", "fsdp=256", 1, 32768, _SPLIT_1024),
    ("dense", 17.790, "tpu:v6e:4x8", "llama-3.1-70b", "fsdp=32", 2, 8192,
     _QKV_OFF | _NO_RINGS | _BF16),
    ("dense", 18.688, "tpu:v6e:8x8", "llama-3.1-70b", "fsdp=64", 2, 8192, _QKV_OFF),
    ("dense", 34.786, "tpu:v6e:8x16", "llama-3.1-70b", "fsdp=128", 4, 8192, _QKV_OFF),
    ("dense", 42.656, "tpu:v6e:16x16", "llama-3.1-70b", "fsdp=256", 5, 8192, _QKV_OFF),
    ("dense", 3.443, "tpu:v6e:2x4", "llama-3.1-8b", "fsdp=8", 3, 8192, _QKVO_OFF | _NO_RINGS),
    ("dense", 3.393, "tpu:v6e:4x4", "llama-3.1-8b", "fsdp=16", 3, 8192, _QKVO_OFF | _NO_RINGS),
    ("dense", 17.182, "tpu:v6e:16x16", "gpt-3-175b", "fsdp=256", 3, 2048, _SPLIT),
    ("dense", 54.803, "tpu:v6e:16x16*2", "llama-3.1-405b", "fsdp=512", 1, 8192,
     {"offload": ("input",)} | _SPLIT),
    ("dense", 98.34, "tpu:tpu7x:4x8x8", "llama-3.1-405b", "fsdp=512", 3, 8192,
     {"offload": ("input", "mlp_down"), "save": ("key", "value"), "state_dtype": "bfloat16",
      "second_moment_dtype": "float32"}),
    ("other kernel", 34.02, "tpu:tpu7x:4x8x8", "llama-3.1-70b", "fsdp=64,context=8", 0.125, 131072,
     {"save": (*_QKV, "attention", "mlp_down"), "attention_blocks": (2048, 2048, 512),
      "logit_parts": 4}),
    ("experts", 13.360, "tpu:v6e:16x16", "mixtral-8x7b", "fsdp=256", 12, 4096, _QKVO_OFF | _SPLIT),
    ("experts", 24.706, "tpu:v6e:16x16", "mixtral-8x22b", "fsdp=64,expert=4", 8, 4096,
     _QKVO_OFF | _SPLIT | _BF16),
    ("experts", (14.93, 17.77), "tpu:tpu7x:4x4x4", "gpt-oss-120b", "data=2,fsdp=64", 10, 8192, _GPT_OSS),
    ("experts", 15.16, "tpu:tpu7x:4x8x8", "gpt-oss-120b", "data=8,fsdp=64", 10, 8192, _GPT_OSS),
    ("experts", 30.87, "tpu:tpu7x:4x8x8", "qwen3-235b-a22b", "fsdp=512", 16, 4096, _QWEN_3),
    ("experts", 27.02, "tpu:tpu7x:4x4x8", "deepseek-v3-671b", "fsdp=256", 8, 4096, _DEEPSEEK),
    ("dense", 131.474, "tpu:v5p:8x8x8", "llama-3.1-405b", "fsdp=512", 2, 8192,
     {"offload": ("attention", "mlp_down"), "attention_blocks": 2048}),
    ("dense", 7.793, "tpu:v6e:16x16*2", "gemma-3-12b", "data=2,fsdp=256", 1, 32768, _SPLIT_1024),
    ("8 bits", 22.47, "tpu:tpu7x:4x4x8", "deepseek-v3-671b", "fsdp=256", 8, 4096,
     _DEEPSEEK | _FP8_FULL),
    ("8 bits", 27.67, "tpu:tpu7x:4x8x8", "qwen3-235b-a22b", "fsdp=512", 16, 4096,
     _QWEN_3 | _FP8_FULL),
    ("8 bits", 7.93, "tpu:tpu7x:4x4x4", "llama-3.1-70b", "fsdp=128", 2, 8192,
     _LLAMA_70B | _FP8_FULL),
    ("dense", (12.20, 12.515), "tpu:tpu7x:4x4x4", "llama-3.1-70b", "fsdp=128", 2, 8192, _LLAMA_70B),
    ("8 bits", 28.294, "gpu:b200:32x8", "llama-3.1-405b", "data=2,fsdp=128", 2, 8192, _FP8_GPU),
    ("8 bits", 20.935, "gpu:b200:32x8", "llama-3.1-70b", "fsdp=256", 8, 8192, _FP8_GPU),
    *(
        ("8 bits", seconds, f"gpu:h100:{count // 8}x8", "llama-2-70b", mesh, 2, 4096,
         {"save": _SAVED} | _FP8_GPU)
        for count, mesh, seconds in (
            (64, "fsdp=64", 4.324),
            (128, "fsdp=128", 4.556),
            (256, "fsdp=256", 4.959),
            (512, "data=4,fsdp=128", 5.043),
            (1024, "data=8,fsdp=128", 5.062),
            (2048, "data=16,fsdp=128", 4.930),
        )
    ),
)  # fmt: skip


def v5e_rows() -> list[Published]:
    """MaxText's table of v5e, in seconds of a step."""
    rows = list[Published]()
    for billions, (batch, axes, more, rates) in _V5E.items():
        for slices, rate in zip((1, 2, 4, 8, 16, 32), rates, strict=True):
            several = slices > 1
            target = "tpu:v5e:16x16" + f"*{slices}" * several
            mesh = f"data={slices}," * several + axes
            row = ("dense", 0.0, target, f"scaled-2023:{billions}", mesh, batch, 2048, more)
            seconds = plan_of(row).flops / plan_of(row).devices / rate / 1e12
            rows.append(("dense", seconds, *row[2:]))
    return rows


def v5p_rows() -> list[Published]:
    """MaxText's table of v5p, in bands of seconds of a step."""
    rows = list[Published]()
    for billions, tensor, batch, remat, shapes in _V5P:
        shape = next(iter(shapes))
        fsdp = math.prod(map(int, shape.split("x"))) // tensor
        for slices in (1, 2):
            mesh = "data=2," * (slices > 1) + f"fsdp={fsdp},tensor={tensor}"
            target = f"tpu:v5p:{shape}" + "*2" * (slices > 1)
            what = (target, f"scaled:{billions}", mesh, batch, 2048, {"remat": remat})
            plan = plan_of(("v5p", 0.0, *what))
            rates = [rate[slices - 1] for rate in shapes.values()]
            full = plan.flops / plan.devices / 1e12
            band = full * plan.causal_share / max(rates), full / min(rates)
            rows.append(("v5p", band, *what))
    return rows


def name_of(row: Published) -> str:
    """A row in a line of a table."""
    _, _, target, model, mesh, batch, sequence, _ = row
    return f"{model} on {target}, {mesh}, {batch:g} x {sequence}"


def plan_of(row: Published) -> Plan:
    """The plan of a row."""
    _, _, target, model, mesh, batch, sequence, more = row
    axes = {axis: int(size) for axis, _, size in (part.partition("=") for part in mesh.split(","))}
    return Plan(
        target=target,
        model=model,
        mesh=axes,  # type: ignore[arg-type]
        batch_per_device=batch,
        sequence=sequence,
        **more,
    )


def error_of(row: Published) -> float:
    """How far the instant estimate is off the published step, or off the nearest end of a band."""
    found = estimate_step(plan_of(row)).predicted_s
    assert found is not None
    ends = row[1] if isinstance(row[1], tuple) else (row[1], row[1])
    return found.estimate / min(max(found.estimate, ends[0]), ends[1]) - 1


def is_fitted(row: Published) -> bool:
    """Whether a constant or a rule was fitted to a row: to growth over slices of v5e (SLICE_JITTER)
    and over H100 beyond 256 (JITTER), to the upper end of 70B on TPU7x (STREAMED_ROWS,
    KERNEL_STALLS), to 405B on v5p (the rows of two cores); and the range on B200 (TOOK_LONGER_ON).
    """
    kind, _, target, model, *_ = row
    topology = plan_of(row).topology
    generation, chips = topology.chip.generation, topology.chips
    return (
        (generation == "v5e" and "*" in target)
        or generation == "b200"
        or (kind == "gpu" and generation == "h100" and "70b" in model and chips > 256)
        or (kind, generation, model)
        in (("dense", "tpu7x", "llama-3.1-70b"), ("dense", "v5p", "llama-3.1-405b"))
    )


def unfitted() -> list[Published]:
    """Every row that nothing was fitted to."""
    return [row for row in (*ROWS, *v5e_rows(), *v5p_rows()) if not is_fitted(row)]


def is_held(row: Published) -> bool:
    """Whether a published step, or part of its band, is in the range of the instant estimate."""
    found = estimate_step(plan_of(row)).predicted_s
    assert found is not None
    low, high = row[1] if isinstance(row[1], tuple) else (row[1], row[1])
    return found.low <= high and low <= found.high


def efficiencies() -> list[float]:
    """Published efficiencies over those of instant estimates: of each row whose plan and batch per
    chip were published on fewer chips too, against the fewest of these. A band counts as its middle.
    """
    families: dict[object, list[tuple[int, float]]] = {}
    for row in (*ROWS, *v5e_rows(), *v5p_rows()):
        plan, (kind, seconds, _, model, _, batch, sequence, more) = plan_of(row), row
        middle = sum(seconds) / 2 if isinstance(seconds, tuple) else seconds
        found = estimate_step(plan).predicted_s
        assert found is not None
        family = (kind, plan.topology.chip.generation, model, batch, sequence, repr(more))
        families.setdefault(family, []).append((plan.topology.chips, found.estimate / middle))
    return [
        each / off
        for (chips, off), *others in map(sorted, families.values())
        for more_chips, each in others
        if more_chips > chips
    ]


def draw(file: Path) -> None:
    """Draws predicted over published seconds, by chip and kind."""
    dots = []
    for row in (*ROWS, *v5e_rows(), *v5p_rows()):
        plan = plan_of(row)
        chip = chip_title(plan.topology.chip.generation)
        model = "gpt-3-5b" if row[7] is _GPT_5B else plan.model
        if model.startswith("scaled"):  # a size of MaxText's, which no one knows by its scale
            model = f"MaxText {get_model(plan.model).parameters / 1e9:.0f}B"
        dots.append(
            Dot(chip, row[0], model, 100 * error_of(row), plan.topology.chips, is_fitted(row))
        )
    file.write_bytes(vl_convert.vegalite_to_png(errors_chart(dots), scale=2))


def main(asked: Asked, figures: Figures) -> None:
    if asked.picture:
        draw(asked.picture)
    for kind, median, worst in GOALS:
        if asked.only not in (None, kind):
            continue
        errors = []
        for row in (each for each in (*ROWS, *v5e_rows(), *v5p_rows()) if each[0] == kind):
            error = 100 * error_of(row)
            seconds = row[1] if isinstance(row[1], tuple) else (row[1],)
            text = " to ".join(f"{each:.3f}" for each in seconds)
            too_wide = worst is not None and seconds[-1] / seconds[0] > 1 + worst / 100
            why = "   left out: its band is wider than the goal" * too_wide
            print(f"{name_of(row):72} {text:>16} s {error:+6.1f} %{why}", flush=True)
            errors += [] if too_wide else [error]
        off = [abs(each) for each in errors]
        figures.add(
            f"{kind}, median", statistics.median(off), "% off", most=median, note=f"of {len(off)}"
        )
        figures.add(f"{kind}, worst", max(off), "% off", most=worst)
    if asked.only is None:
        rows = unfitted()
        note = f"of {len(rows)} that nothing was fitted to"
        figures.add("in the range of its estimate", sum(map(is_held, rows)), "steps", note=note)
        over, note = efficiencies(), "published over estimated"
        figures.add("efficiency on more chips, least", min(over), note=f"{note}, of {len(over)}")
        figures.add("efficiency on more chips, most", max(over), note=note)


if __name__ == "__main__":
    measure(main, __doc__, picture=Path, only={"choices": [kind for kind, _, _ in GOALS]})
