"""The argument `--config`: a model from the file that describes it."""

import sys

from spmd_core.base import read_named, refuse, shorten
from spmd_core.experiment import MAX_CONFIG_BYTES, Config, read_config

_FIX = "name the config.json beside the weights, MaxText's yml, or - for standard input"


# in place of `--model`
CONFIG = {
    "--config": {
        "metavar": "FILE",
        "help": "in place of --model: a config.json as published with weights, MaxText's yml, or -",
    }
}


def config_from(word: str, model: str | None) -> Config:
    """The model of a file or of standard input; RequestError where there is none, or `model` too."""
    if model:
        raise refuse(
            f"--config beside --model {shorten(model)}", "names two models", "give one of them"
        )
    if word == "-":
        return read_config(sys.stdin.buffer.read(MAX_CONFIG_BYTES + 1))
    return read_config(read_named("config", word, MAX_CONFIG_BYTES + 1, _FIX))
