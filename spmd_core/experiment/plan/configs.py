"""A model from the file that describes it: the config.json beside published weights, or MaxText's
yml. A field that changes the model is read, or refused by its name; the rest is listed.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spmd_core.base import refuse, shorten
from spmd_core.experiment.json_text import load_json
from spmd_core.experiment.plan.architectures import (
    ARCHITECTURES,
    COMMON,
    LACKING,
    MAXTEXT_BLOCKS,
    MAXTEXT_NAMES,
    MAXTEXT_USUAL,
    NOT_MODELED,
    NOT_MODELED_BY_MAXTEXT,
    ONE,
    Architecture,
)
from spmd_core.experiment.plan.model_rules import MAX_LAYERS, MOST
from spmd_core.experiment.plan.model_size import ModelSize
from spmd_core.experiment.plan.models import own_model

Values = Mapping[str, Any]  # of fields, by name
MAX_CONFIG_BYTES = 256 * 1024
_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
}
_LINE = re.compile(r"([A-Za-z_]\w{0,63}):(?:[ \t]+(.*))?")
_HEADS_OF = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")  # have a table of outputs


@dataclass(frozen=True, slots=True)
class Config:
    """A model as its file describes it; `ignored`: fields that change no size and no shape."""

    size: ModelSize
    architecture: str
    ignored: tuple[str, ...] = ()


class _Fields:
    """Fields of a file by their names in transformers, and which were read."""

    def __init__(self, values: Values, names: Mapping[str, str]):
        self._values, self._names = values, names
        self.usual: Values = {}
        self.read: set[str] = set()

    @property
    def labels(self) -> Values:
        """The file's own names and values."""
        return self._values

    def label(self, name: str) -> str:
        """The file's own name of a field."""
        return self._names.get(name, name)

    def get(self, name: str) -> Any:
        """The value of a field, or what the architecture has where the file leaves it out."""
        self.read.add(label := self.label(name))
        return self._values.get(label, self.usual.get(name))

    def size(
        self, name: str, otherwise: int | None = None, most: int = MOST, least: int = 1
    ) -> int:
        """A size; RequestError where it is none, or left out without another to take."""
        given = self.get(name)
        value = otherwise if given is None else given
        if value is None:
            raise refuse(
                f"config without {self.label(name)}", "is incomplete", f"add {self.label(name)!r}"
            )
        if type(value) is not int or not least <= value <= most:
            raise refuse(
                f"{self.label(name)}={shorten(value)}",
                "is not a size",
                f"use a whole number from {least} to {most:,}",
            )
        return value

    def flag(self, name: str) -> bool:
        """A choice of two, off where it is left out."""
        value = self.get(name)
        if value not in (None, True, False):
            raise refuse(
                f"{self.label(name)}={shorten(value)}", "is neither on nor off", "use true or false"
            )
        return bool(value)

    def cap(self, name: str) -> float | None:
        """What scores are capped at, None for no cap."""
        value = self.get(name) or None
        if value is not None and (type(value) not in (int, float) or not 0 < value <= MOST):
            raise refuse(
                f"{self.label(name)}={shorten(value)}", "is no cap", "use a number above 0, or null"
            )
        return None if value is None else float(value)


def read_config(data: str | bytes) -> Config:
    """The model of a config.json or of MaxText's yml; RequestError, in a sentence, where a field
    that matters is missing, wrong or not modeled.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise refuse("config", "is not text in UTF-8", "give the file beside the weights") from None
    if len(text) > MAX_CONFIG_BYTES:
        raise refuse(
            f"config of more than {MAX_CONFIG_BYTES} bytes",
            "is too long",
            "give the config.json alone, without the weights",
        )
    if text.lstrip()[:1] not in ("{", "["):
        return _of_maxtext(_lines(text))
    values = load_json(text)
    if not isinstance(values, dict):
        raise refuse(f"config {shorten(values)}", "is not a JSON object", 'begin with "{"')
    inner = values.get("text_config")
    outer = {name: value for name, value in values.items() if name != "text_config"}
    if not isinstance(inner, dict):
        return _of_transformers(outer)
    shared = {name: outer[name] for name in _SHARED if name in outer}
    text_model = _of_transformers(shared | inner)
    ignored = tuple(sorted({*text_model.ignored, *outer} - _READ))
    return Config(text_model.size, text_model.architecture, ignored)


_SHARED = ("model_type", "architectures", "quantization_config", "tie_word_embeddings")
_READ = {"model_type", "architectures", "tie_word_embeddings"}


def _of_transformers(values: Values) -> Config:
    fields = _Fields(values, {})
    named = fields.get("model_type")
    name = str(named).removesuffix("_text")
    kind = ARCHITECTURES.get(name)
    reads = kind.reads if kind else ()
    if kind and _method(values) in kind.stored:  # as weights are stored, not trained
        reads += ("quantization_config",)
    if kind is None and named is not None:
        lacks = _lacks(name, values)
        raise refuse(
            f"model_type {shorten(named)}",
            f"has {lacks}, which is not modeled"
            if lacks
            else "is not an architecture that is read",
            f"use {_nearest(name)}, or sizes of its own",
        )
    _refuse_what_is_not_modeled(values, NOT_MODELED, reads)
    if kind is None:
        raise refuse("config without model_type", "is incomplete", "add for example 'llama'")
    heads = fields.get("architectures") or ["ForCausalLM"]
    if not isinstance(heads, list) or not str(heads[0]).endswith(_HEADS_OF):
        raise refuse(
            f"architectures {shorten(heads)}", "has no table of outputs", "use a ForCausalLM"
        )
    return _config(name, kind, fields, values, {})


def _lacks(name: str, values: Values) -> str:
    """Returns what the decoder lacks of an architecture, by its name or its fields; "" if unknown."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    of_fields = (
        what for each, what in NOT_MODELED.items() if each not in COMMON and values.get(each)
    )
    return next(
        (what for start, what in LACKING.items() if plain.startswith(start)), next(of_fields, "")
    )


def _nearest(name: str) -> str:
    """The architectures that a name is like; all of them where it is like none."""
    near = difflib.get_close_matches(name, ARCHITECTURES, 2, 0.6)
    return " or ".join(near) or f"one of {', '.join(ARCHITECTURES)}"


def _method(values: Values) -> Any:
    config = values.get("quantization_config")
    return config.get("quant_method") if isinstance(config, dict) else None


def _of_maxtext(values: Values) -> Config:
    fields = _Fields(values, MAXTEXT_NAMES)
    block = fields.get("decoder_block") or "llama2"
    name = MAXTEXT_BLOCKS.get(block) if isinstance(block, str) else None
    if name is None:
        lacks = _lacks(str(block), {})
        raise refuse(
            f"decoder_block {shorten(block)}",
            f"has {lacks}, which is not modeled" if lacks else "is not one that is read",
            f"use one of {', '.join(MAXTEXT_BLOCKS)}",
        )
    kind, latent = ARCHITECTURES[name], "mla" if name == "deepseek_v3" else "global"
    if values.get("attention_type", latent) not in (latent, "local_sliding"):
        what = "latent or chunked attention of another architecture"
        _refuse_what_is_not_modeled(values, {"attention_type": what})
    experts = values.get("num_experts")
    if name in ("llama", "mistral") and type(experts) is int and experts > 1:
        name = "mixtral"
    reads = tuple(map(fields.label, kind.reads))
    _refuse_what_is_not_modeled(values, NOT_MODELED_BY_MAXTEXT, reads)
    fields.read |= {"attention_type", "model_name"}
    return _config(name, ARCHITECTURES[name], fields, values, MAXTEXT_USUAL)


def _config(
    name: str,
    kind: Architecture,
    fields: _Fields,
    fields_of: Values,
    usual: Values,
) -> Config:
    fields.usual = {**kind.usual, **usual}
    for each in ONE:
        if (value := fields.get(each)) not in (None, 1):
            raise refuse(
                f"{fields.label(each)}={shorten(value)}", "is not modeled", "use 1, or sizes"
            )
    size = own_model(name, _given(kind, fields, bool(usual)))
    return Config(size, name, tuple(sorted(fields_of.keys() - fields.read)))


def _refuse_what_is_not_modeled(
    values: Values, words: Mapping[str, str], reads: tuple[str, ...] = ()
) -> None:
    """RequestError for the first field that would make another model than is built here."""
    for name, what in words.items():
        value = values.get(name)
        if value and name not in reads:
            raise refuse(
                f"{name}={shorten(value, 40)}",
                f"is {what}, which is not modeled",
                "use a model without it, or sizes of its own",
            )


def _given(kind: Architecture, fields: _Fields, of_maxtext: bool) -> Values:
    """The fields of a ModelSize."""
    embed, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    layers = fields.size("num_hidden_layers", most=MAX_LAYERS)
    if of_maxtext and kind is ARCHITECTURES["gemma2"]:
        layers *= 2  # a layer of MaxText's is a local one and a global one
    experts, width = kind.experts or (None, "intermediate_size")
    more = {}
    if experts:
        chosen = fields.get("experts_per_token")
        more["experts"] = fields.size(experts)
        more["experts_per_token"] = fields.size("num_experts_per_tok", chosen)
    bias = fields.flag("attention_bias") if "attention_bias" in kind.reads or of_maxtext else False
    return (
        {
            "layers": layers,
            "embed": embed,
            "heads": heads,
            "kv_heads": fields.size("num_key_value_heads", heads),
            "head_dim": fields.size("head_dim", max(1, embed // heads)),
            "mlp": fields.size(width),
            "vocab": fields.size("vocab_size"),
            "tied": fields.flag("tie_word_embeddings"),
            "windows": _windows(kind, fields, layers),
            "attention_cap": fields.cap("attn_logit_softcapping"),
            "logits_cap": fields.cap("final_logit_softcapping"),
            "logits_float32": False,
            "qkv_bias": bias,
            "out_bias": bias,
            "mlp_bias": "mlp_bias" in kind.reads and fields.flag("mlp_bias"),
            **_activation(fields),
            **more,
        }
        | ({"qk_norm": True} if of_maxtext and fields.flag("use_qk_norm") else {})
        | dict(_latent(fields) if "kv_lora_rank" in kind.reads else {})
        | dict(kind.traits)
    )


def _latent(fields: _Fields) -> Values:
    """Latent attention, layers without experts, and how experts are chosen, of DeepSeek-V3's kind."""
    nope, rope = (fields.size(f"qk_{name}_head_dim") for name in ("nope", "rope"))
    scores, method = fields.get("scoring_func") or "softmax", fields.get("topk_method")
    for name, value, known in (
        ("scoring_func", scores, ("softmax", "sigmoid")),
        ("topk_method", method, ("noaux_tc", "greedy", True, False, None)),
    ):
        if value not in known:
            fix = f"use {' or '.join(each for each in known if isinstance(each, str))}"
            label = f"{fields.label(name)}={shorten(value)}"
            raise refuse(label, "is no way to choose experts that is read", fix)
    dense = fields.size("first_k_dense_replace", 0, MAX_LAYERS, least=0)
    fields.read.add("head_dim")
    later = fields.get("num_nextn_predict_layers") if "mtp_num_layers" in fields.labels else 0
    return {
        "head_dim": nope + rope,
        "kv_heads": fields.size("num_attention_heads"),
        "rope_dim": rope,
        "value_dim": fields.size("v_head_dim"),
        "q_rank": fields.size("q_lora_rank", 0, least=0),
        "kv_rank": fields.size("kv_lora_rank"),
        "dense_layers": dense,
        "dense_mlp": fields.size("intermediate_size") if dense else 0,
        "shared_mlp": fields.size("n_shared_experts", 0, least=0)
        * fields.size("moe_intermediate_size"),
        "routing": scores,
        "score_bias": method in ("noaux_tc", True),
        "expert_groups": fields.size("n_group", 1),
        "groups_per_token": fields.size("topk_group", 1),
        "routed_scale": fields.cap("routed_scaling_factor") or 1.0,
        "mtp_layers": later or 0,
    }


def _activation(fields: _Fields) -> Values:
    """Activation and gate. MaxText lists both; transformers has two names for the first."""
    names = [fields.get("hidden_activation"), fields.get("hidden_act")]
    named = next((each for each in names if each is not None), "silu")
    gated = not isinstance(named, list) or len(named) > 1
    first = named[0] if isinstance(named, list) and named else named
    if first == "sigmoid" and gated:  # times its argument
        first = "silu"
    if not isinstance(first, str) or first not in _ACTIVATIONS:
        raise refuse(
            f"{fields.label('hidden_act')}={shorten(named)}",
            "is not an activation that is read",
            f"use {', '.join(_ACTIVATIONS)}",
        )
    return {"activation": _ACTIVATIONS[first], "gated": gated}


def _windows(kind: Architecture, fields: _Fields, layers: int) -> tuple[int | None, ...]:
    """The windows of one block: as few layers as repeat."""
    types, rule = fields.get("layer_types"), kind.window
    period = fields.get("sliding_window_pattern") or fields.get("_sliding_window_pattern")
    if types is not None:
        known = ("sliding_attention", "full_attention")
        if not isinstance(types, list) or len(types) != layers or set(map(str, types)) - {*known}:
            raise refuse(
                f"layer_types={shorten(types, 40)}",
                f"does not name one of {' and '.join(known)} for each of {layers} layers",
                "write both as transformers does",
            )
        local = [each == known[0] for each in types]
    elif rule == "above":  # layers below this number attend to all
        first = (
            fields.size("max_window_layers", layers)
            if fields.flag("use_sliding_window")
            else layers
        )
        local = [layer >= first for layer in range(layers)]
    elif isinstance(rule, int):
        every = rule if period is None else fields.size("sliding_window_pattern", period)
        local = [(layer + 1) % every != 0 for layer in range(layers)]
    else:
        local = [rule == "all"] * layers
    if rule == "above" and not fields.flag("use_sliding_window") and types is None:
        fields.get("sliding_window")
        return (None,)
    window = None
    if any(local) and (rule != "all" or fields.get("sliding_window") is not None):
        window = fields.size("sliding_window")
    all_windows = tuple(window if each else None for each in local)
    repeated = next(
        count
        for count in range(1, layers + 1)
        if all(each == all_windows[place % count] for place, each in enumerate(all_windows))
    )
    return all_windows[:repeated]


def _lines(text: str) -> Values:
    """Names and values of a yml of one level; what is indented belongs to a name that is not read."""
    values = {}
    for line in text.splitlines():
        bare = re.sub(r"(^|\s)#.*", "", line).rstrip()
        if not bare or bare == "---" or bare[0] in " \t-":
            continue
        match = _LINE.fullmatch(bare)
        if match is None:
            raise refuse(
                f"config {shorten(line.strip())}",
                "is neither JSON nor a line of MaxText's yml",
                "give the config.json beside the weights, or lines such as base_emb_dim: 4096",
            )
        if match[1] in values:
            raise refuse(f"key {match[1]!r}", "appears twice", "write it once")
        values[match[1]] = _value(match[2] or "")
    if not values:
        raise refuse("config", "is empty", "give the config.json beside the weights")
    return values


def _value(text: str) -> Any:
    """A value of a yml: a number, a truth value, a list of words, or a text."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_value(part) for part in text[1:-1].split(",") if part.strip()]
    if re.fullmatch(r"-?\d[\d_]{0,30}", text):
        return int(text)
    if re.fullmatch(r"-?\d[\d_]{0,30}\.?\d{0,30}(e-?\d{1,3})?", text.lower()):
        return float(text)
    words = {"true": True, "false": False, "null": None, "none": None, "": None}
    return words.get(text.lower(), text.strip("'\""))
