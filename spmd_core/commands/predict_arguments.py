"""The arguments of `python -m spmd_core predict`."""

import math
from argparse import ArgumentTypeError

from spmd_core.base import RequestError, Settings
from spmd_core.commands import predict_sweep
from spmd_core.commands.config import CONFIG
from spmd_core.commands.output import FORCE
from spmd_core.commands.remedies import HELP as REMEDIES
from spmd_core.commands.spec import HELP
from spmd_core.experiment import ACTIVATIONS, NAMES, VARIABLE
from spmd_core.words import read_price


def _blocks(text: str) -> tuple[int, ...]:
    """One whole number, or three."""
    return tuple(int(part) for part in text.split(","))


def _price(text: str) -> float:
    """Dollars per chip-hour."""
    try:
        return read_price(text)
    except RequestError as error:
        raise ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    """A positive number of seconds."""
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError
    return value


# which argparse puts into its sentences
_blocks.__name__, _seconds.__name__ = "list of blocks", "number of seconds"


_OPTIONS = {
    "--compiler-flags": {
        "metavar": '"xla_…=true …"',
        "help": "added to those of the published runs",
    },
    "--strategy": {"metavar": "NAME", "help": "of a spec; default: its first that uses a mesh"},
    "--timeout": {
        "type": _seconds,
        "default": Settings().predict_timeout_s,
        "metavar": "SECONDS",
        "help": f"for the compile (default {Settings().predict_timeout_s:g})",
    },
    "--fresh": {
        "action": "store_true",
        "help": "compile even where the same versions have predicted it before",
    },
    "--keep": {"metavar": "FILE", "help": "write the plan and its prediction as a baseline file"},
    "--force": {"action": "store_true", "help": f"with --keep or --trace: {FORCE}"},
    "--price-per-chip-hour": {
        "metavar": "DOLLARS",
        "type": _price,
        "help": "say what a step and a billion tokens cost",
    },
    "--trace": {"metavar": "FILE", "help": "write the step's timeline as a trace for Perfetto"},
    "--baseline": {
        "metavar": "FILE",
        "help": "compile the plan of a baseline file again; exit code 1 where something changed",
    },
    "--estimate": {
        "action": "store_true",
        "help": "estimate the step from the plan at once; compile nothing",
    },
    "--remedies": {"action": "store_true", "help": REMEDIES},
}


_PLAN = {
    "spec": {
        "metavar": "SPEC",
        "nargs": "?",
        "help": f"instead of a model: {HELP}; its target is a topology, or --target is",
    },
    "--target": {
        "metavar": "tpu:v5e:16x16",
        "help": "a topology, slices behind an asterisk: tpu:v5e:16x16*2",
    },
    "--model": {"metavar": "NAME", "help": "scaled:16, llama-3.1-8b and so on"},
    "--mesh": {
        "metavar": "fsdp=16,tensor=4",
        "help": "mesh axes and their sizes, slices outermost",
    },
    "--batch-per-device": {"type": float, "metavar": "N", "help": "sequences per device and step"},
    "--sequence": {"type": int, "metavar": "N", "help": "tokens of a sequence (default 2048)"},
    "--remat": {
        "metavar": "POLICY",
        "help": "rematerialization: none, minimal (save projections) or full (default)",
    },
    "--save": {"metavar": "NAMES", "help": f"saved on the device, of {','.join(NAMES)}"},
    "--offload": {"metavar": "NAMES", "help": "offloaded to host memory, of the same"},
    "--fused-qkv": {"action": "store_true", "help": "one matmul for query, key and value"},
    "--fused-mlp": {"action": "store_true", "help": "one matmul for gate and up"},
    "--attention-blocks": {
        "type": _blocks,
        "metavar": "Q,KV,COMPUTE",
        "help": "blocks of the attention kernel: queries, keys, keys per matmul; or one number for all",
    },
    "--attention-backward": {
        "metavar": "KERNELS",
        "help": "fused: one kernel for all gradients of attention; split: two; by default as in "
        "the chip's published runs",
    },
    "--state-dtype": {
        "metavar": "DTYPE",
        "help": "of the optimizer's moments: float32 or bfloat16",
    },
    "--second-moment-dtype": {"metavar": "DTYPE", "help": "of the second moment alone, the same"},
    "--parameter-dtype": {"metavar": "DTYPE", "help": "of the parameters: float32 or bfloat16"},
    "--device-order": {
        "metavar": "ORDER",
        "help": "topology (mesh_utils places the axes) or plain",
    },
}


# what experts do with tokens
EXPERTS = {
    "--dropless": {
        "action": "store_true",
        "help": "experts take every token, by a grouped matmul",
    },
    "--capacity-factor": {
        "type": float,
        "metavar": "FACTOR",
        "help": "rows that an expert takes, over an even share (default 1.25)",
    },
    "--imbalance": {
        "type": float,
        "metavar": "FACTOR",
        "help": "dropless: rows that a device takes, over an even share (default 1)",
    },
}


_YES = {"action": "store_const", "const": True, "default": None}
_NO = {"action": "store_const", "const": False}

# in place of the model's
SIZES = {
    f"--{name.replace('_', '-')}": {
        "type": int,
        "metavar": "N",
        "help": f"{name} of its own, in place of the model's",
    }
    for name in VARIABLE
}


_LAYERS = {
    "--activation": {"metavar": "NAME", "help": f"of the mlp: {', '.join(ACTIVATIONS)}"},
    "--gated": _YES | {"help": "an mlp of three matmuls, whatever the model has"},
    "--ungated": _NO | {"dest": "gated", "help": "of two"},
    "--tied": _YES | {"help": "one vocabulary table, whatever the model has"},
    "--untied": _NO | {"dest": "tied", "help": "two"},
}

ARGUMENTS = {
    **_PLAN,
    **CONFIG,
    **EXPERTS,
    **SIZES,
    **_LAYERS,
    **_OPTIONS,
    **predict_sweep.ARGUMENTS,
}
