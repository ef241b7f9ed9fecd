"""A model from the file that describes it: the config.json beside published weights, or MaxText's
yml. A field that changes the model is read, or refused by its name; the rest is listed.
"""

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from spmd_core.base import RequestError, refuse, shorten
from spmd_core.fields import load_json
from spmd_core.plan.architectures import (
    ARCHITECTURES,
    COMMON,
    LACKING,
    MAXTEXT_BLOCKS,
    MAXTEXT_NAMES,
    MAXTEXT_OWN,
    MAXTEXT_USUAL,
    NOT_MODELED,
    NOT_MODELED_BY_MAXTEXT,
    ONE,
    SAME,
    WITH_EXPERTS,
    Architecture,
)
from spmd_core.plan.config_fields import Fields, Values, context
from spmd_core.plan.config_layers import READERS, activation, has_experts, layer_list, windows
from spmd_core.plan.model_rules import MAX_LAYERS
from spmd_core.plan.model_size import ModelSize
from spmd_core.plan.own_models import own_model

MAX_CONFIG_BYTES = 256 * 1024
_LINE = re.compile(r"([A-Za-z_]\w{0,63}):(?:[ \t]+(.*))?")
_MOST_OF_A_LIST = 4096  # characters
_HEADS_OF = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")  # have a table of outputs


@dataclass(frozen=True, slots=True)
class Config:
    """A model as its file describes it; `ignored`: fields that change no size and no shape."""

    size: ModelSize
    architecture: str
    ignored: tuple[str, ...] = ()


def read_config(data: str | bytes) -> Config:
    """The model of a config.json or of MaxText's yml; RequestError, in a sentence, where a field
    that matters is missing, wrong or not modeled.
    """
    try:
        text = (data if isinstance(data, str) else data.decode()).removeprefix("\ufeff")
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
    values = load_json(text, fix="give the config.json beside the weights")
    if not isinstance(values, dict):
        raise refuse(f"config {shorten(values)}", "is not a JSON object", 'begin with "{"')
    outer = set[str]()
    while (
        inner := next((each for name in _INNER if isinstance(each := values.get(name), dict)), None)
    ) is not None:
        outer |= values.keys() - _READ
        values = {name: values[name] for name in _SHARED if name in values} | inner
    text_model = _of_transformers(values)
    return replace(text_model, ignored=tuple(sorted({*text_model.ignored, *outer})))


_SIZE = re.compile(r"\b[a-z_]+(?==)")
_OF_PARTS = {  # of the readers of layers
    "delta": {"state_groups": "linear_num_key_heads", "state_heads": "linear_num_value_heads"},
    "latent": {"head_dim": "qk_nope_head_dim+qk_rope_head_dim"},
    "mamba": {"state_groups": "n_groups", "state_heads": "mamba_num_heads"},
    "mamba beside": {"state_groups": "n_groups", "state_heads": "mamba_num_heads"},
}
_OWN_NAMES = {
    "chunk": "chunk_size",
    "dense_layers": "first_k_dense_replace",
    "expert_groups": "n_group",
    "experts_per_token": "num_experts_per_tok",
    "full_kv_heads": "num_global_key_value_heads",
    "groups_per_token": "topk_group",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "rope_dim": "qk_rope_head_dim",
    "value_dim": "v_head_dim",
}
_SHARED = ("model_type", "architectures", "quantization_config", "tie_word_embeddings")
_INNER = ("text_config", "thinker_config", "llm_config", "language_config")  # the text model
_READ = {"model_type", "architectures", "tie_word_embeddings", *_INNER}


def _of_transformers(values: Values) -> Config:
    named = values.get("model_type")
    name = str(named).removesuffix("_text")
    name = SAME.get(name, name)
    kind = ARCHITECTURES.get(name)
    fields = Fields(values, kind.names if kind else {})
    fields.read.add("model_type")
    bits = values.get("quantization_config")
    reads = kind and (
        *kind.reads,
        *("use_sliding_window",) * bool(kind.window),
        # as weights are stored, not trained
        *("quantization_config",)
        * (isinstance(bits, dict) and bits.get("quant_method") in kind.stored),
    )
    if kind is None and named is not None:
        lacks = _lacks(name, values)
        raise refuse(
            f"model_type {shorten(named)}",
            f"has {lacks}, which is not modeled"
            if lacks
            else "is not an architecture that is read",
            f"use {_nearest_kind(name, values)}, or sizes of its own",
        )
    _refuse_what_is_not_modeled(values, NOT_MODELED, reads or ())
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


def _nearest_kind(name: str, values: Values) -> str:
    """The architecture that reads a file, without what it would refuse, and the most of its fields."""

    def unread(kind: str) -> int:
        reads = ARCHITECTURES[kind].reads
        given = {each: values[each] for each in values if each not in NOT_MODELED or each in reads}
        config = _of_transformers(given | {"model_type": kind})
        return len(config.ignored) + len(values) - len(given)

    return _nearest(name, ARCHITECTURES, unread)


def _nearest(name: str, among: Collection[str], unread: Callable[[str], int]) -> str:
    """Of names those that are like one, else all: that by which the fewest fields are not read."""
    near, counts = difflib.get_close_matches(name, among, 2, 0.8) or [*among], dict[str, int]()
    for each in near:
        with suppress(RequestError):
            counts[each] = unread(each)
    return min(counts, key=lambda each: counts[each], default=near[0])


def _of_maxtext(values: Values) -> Config:
    block = values.get("decoder_block") or "llama2"
    name = MAXTEXT_BLOCKS.get(block) if isinstance(block, str) else None
    if name is None:
        lacks = _lacks(str(block), {})

        def unread(kind: str) -> int:
            return len(_of_maxtext({**values, "decoder_block": kind}).ignored)

        raise refuse(
            f"decoder_block {shorten(block)}",
            f"has {lacks}, which is not modeled" if lacks else "is not one that is read",
            f"use {_nearest(str(block), MAXTEXT_BLOCKS, unread)}",
        )
    latent = "mla" if name == "deepseek_v3" else "global"
    if values.get("attention_type", latent) not in (latent, "local_sliding"):
        what = "latent or chunked attention of another architecture"
        _refuse_what_is_not_modeled(values, {"attention_type": what})
    experts = values.get("num_experts")
    if type(experts) is int and experts > 1:
        name = WITH_EXPERTS.get(name, name)
    kind = ARCHITECTURES[name]
    fields = Fields(values, {**MAXTEXT_NAMES, **MAXTEXT_OWN.get(name, {})})
    reads = tuple(map(fields.label, kind.reads))
    _refuse_what_is_not_modeled(values, NOT_MODELED_BY_MAXTEXT, reads)
    fields.read |= {"attention_type", "decoder_block", "model_name"}
    return _config(name, kind, fields, values, MAXTEXT_USUAL)


def _config(
    name: str,
    kind: Architecture,
    fields: Fields,
    fields_of: Values,
    usual: Values,
) -> Config:
    fields.usual = {**kind.usual, **usual}
    for each in (name for name in ONE if name not in kind.reads):
        fields.only(each, (None, 1), "is not modeled", "use 1, or sizes of its own")
    given = _given(kind, fields, bool(usual))
    try:
        size = own_model(name, given)
    except RequestError as error:  # in the file's own names
        own = {**_OWN_NAMES, "experts": (kind.experts or ("num_local_experts",))[0]}
        own |= dict(each for part in kind.parts for each in _OF_PARTS.get(part, {}).items())
        text = _SIZE.sub(lambda name: fields.label(own.get(name[0], name[0])), str(error))
        raise RequestError(text) from None
    ignored = sorted(fields_of.keys() - fields.read)
    biases = {each: _BIAS for each in ignored if "bias" in each and fields_of[each] is True}
    _refuse_what_is_not_modeled(fields_of, biases, kind.reads)
    return Config(size, name, tuple(ignored))


def _refuse_what_is_not_modeled(
    values: Values, words: Mapping[str, str], reads: tuple[str, ...] = ()
) -> None:
    """RequestError for the first field that would make another model than is built here."""
    for name, what in words.items():
        value = values.get(name)
        if value == "vision":  # of images, which are no part of the decoder
            continue
        if value and name not in reads:
            raise refuse(
                f"{name}={shorten(value, 40)}",
                f"is {what}, which is not modeled",
                "leave it out: a plan names the dtypes that it computes in"
                if what == "quantization"
                else "use a model without it, or sizes of its own",
            )


# names of one size in files of several architectures
_COUNTS = ("num_local_experts", "num_experts", "n_routed_experts")
_CHOSEN = ("num_experts_per_tok", "experts_per_token", "top_k_experts")
_BIAS = "biases that this architecture does not have"
_WITHOUT_NORMS = "is no norms of queries and keys, which this architecture has"
_OF_EXPERTS = ("shared", "chosen")  # readers


def _experts(kind: Architecture, fields: Fields) -> tuple[str, tuple[str, ...], Values]:
    """The field of an mlp's width, readers of layers, and how many experts there are."""
    if not kind.experts or not has_experts(kind, fields):  # of a family those without
        parts = (each for each in kind.parts if each not in _OF_EXPERTS)
        return "intermediate_size", tuple(parts), {}
    name, width = kind.experts
    counts = {"experts": fields.agreed(name, _COUNTS)}
    counts["experts_per_token"] = fields.agreed("num_experts_per_tok", _CHOSEN)
    return width, kind.parts, counts


def _given(kind: Architecture, fields: Fields, of_maxtext: bool) -> Values:
    embed, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    listed = layer_list(fields)[1] if "mamba" in kind.parts else ()
    layers = fields.size("num_hidden_layers", len(listed) or None, most=MAX_LAYERS)
    if of_maxtext and kind is ARCHITECTURES["gemma2"]:
        layers *= 2  # a layer of MaxText's is a local one and a global one
    width, parts, more = _experts(kind, fields)
    if kind.traits.get("qk_norm"):
        fields.only("use_qk_norm", (None, True), _WITHOUT_NORMS, "use true")
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
            "windows": windows(kind, fields, layers),
            "attention_cap": fields.cap("attn_logit_softcapping"),
            "logits_cap": fields.cap("final_logit_softcapping"),
            "logits_float32": False,
            "qkv_bias": bias,
            "out_bias": bias,
            "mlp_bias": "mlp_bias" in kind.reads and fields.flag("mlp_bias"),
            "context": context(fields),
            **activation(fields),
            **more,
        }
        | ({"qk_norm": True} if of_maxtext and fields.flag("use_qk_norm") else {})
        | dict(each for name in parts for each in READERS[name](fields, layers).items())
        | dict(kind.traits)
    )


def _lines(text: str) -> Values:
    """Names and values of a yml of one level; what is indented belongs to a name that is not read."""
    values = {}
    begun = ""  # with lists that go on in the next line
    for line in text.splitlines():
        bare = begun + re.sub(r"(^|\s)#.*", "", line).rstrip()
        is_open = bare.count("[") > bare.count("]") and len(bare) < _MOST_OF_A_LIST
        begun = f"{bare} " if is_open else ""
        if begun or not bare or bare == "---" or bare[0] in " \t-":
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
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_value(part) for part in text[1:-1].split(",") if part.strip()]
    if re.fullmatch(r"-?\d[\d_]{0,30}", text):
        return int(text)
    if re.fullmatch(r"-?\d[\d_]{0,30}\.?\d{0,30}(e-?\d{1,3})?", text.lower()):
        return float(text)
    words = {"true": True, "false": False, "null": None, "none": None, "": None}
    return words.get(text.lower(), text.strip("'\""))
