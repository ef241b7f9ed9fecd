"""The Predict screen without a browser: what a stored prediction shows, what its fields refuse, and
hostile links.
"""

import base64
import json
import re
import zlib
from dataclasses import replace
from importlib.metadata import version
from urllib.parse import parse_qs

import pytest

from spmd_core.answers import training_table, ways_headline
from spmd_core.base import bytes_text
from spmd_core.experiment import experiment_of, link, parse_experiment
from spmd_core.facts import Estimate
from spmd_core.lab import Lab
from spmd_core.machine import absent
from spmd_core.plan import AXES_LINES, MESH_AXES, get_model, models
from spmd_core.search import link as search_link
from spmd_core.search.neighborhood import Policy
from spmd_core.sweeps import TrainingQuestion, train, training_run, ways_out
from spmd_core.terms import chip_title, cost_of, money_text
from spmd_core.time import estimate_step
from spmd_core.words.predictions import PEAKS_WORDS
from spmd_core.workloads import DEFAULT_SPEC
from spmd_lab.ui import state
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.predict import run_answer, variant
from tests.cover import whole
from tests.ui import errors, opened as screen_opened, said
from tests.ui.predictions import MODEL, TOO_LARGE, predicted, prediction, store

SMALL = parse_experiment(DEFAULT_SPEC)


@pytest.fixture
def opened(data_folder):
    """A function that opens the screen, with a query and with stored results."""

    def opened(*results, **query):
        query = query or {"experiment": link.encode(SMALL)}
        for result in results:
            store(data_folder, result)
        return screen_opened("predict", **query)

    return opened


def field(screen, kind, label):
    return next(widget for widget in screen.get(kind) if widget.label == label)


def headings(screen) -> str:
    """Headlines, and the line of an answer that is below its figures."""
    texts = (*screen.subheader, *screen.markdown)
    return " ".join(text.value.replace("\\", "") for text in texts)


def metrics(screen) -> dict[str, str]:
    return {title: text.partition(" | ")[0] for title, text in figures(screen).items()}


@pytest.mark.parametrize("plugin", [None, f"jax-cuda12-plugin {version('jaxlib')}"])
def test_a_missing_compiler_for_gpus_is_named_before_predict_is_pressed(
    opened, plugin, monkeypatch
):
    monkeypatch.setattr(absent, "plugin_version", lambda: plugin)
    plan = {"workload": "decoder", "target": "gpu:h100:8", "mesh": {"fsdp": 8}}
    screen = opened(experiment=link.encode(parse_experiment(plan)))
    captions = " ".join(each.value.replace("\\", "") for each in screen.caption)
    assert ("The compiler for GPUs is not installed" in captions) is (plugin is None)
    assert "Fits on " in headings(screen)  # the estimate is there either way
    assert screen.button(key="predict").disabled is (plugin is None)
    layer = {"workload": "layer", "target": "gpu:h100:8", "mesh": {"x": 8}, "strategies": ["auto"]}
    screen = opened(experiment=link.encode(parse_experiment(layer)))
    assert ("press Compile" in headings(screen)) is (plugin is not None)


def test_before_compiling_the_sizes_say_whether_it_fits(opened):
    screen = opened()
    assert errors(screen) == ""
    assert "Fits on " in headings(screen)
    peak = bytes_text(estimate_step(SMALL.plan).memory_bytes.peak)
    known = estimate_step(SMALL.plan).before_compiling
    span = " to ".join(bytes_text(known[end]).removesuffix(" GiB") for end in ("low", "high"))
    assert figures(screen)["Memory"] == f"{peak} | {span} GiB of 15.8 GiB per device"
    assert PEAKS_WORDS in said(screen)
    # an estimate is enough for a row of a study
    assert [each for each in screen.button if each.key == "predict:variant:add"]
    assert field(screen, "button", "Compile").disabled is False
    assert Lab.open().active() == ()  # nothing is compiled by opening the screen


def test_an_axis_that_does_not_cut_the_parameters_is_named_before_compiling(opened):
    wide = MODEL.vary(
        target="tpu:v5e:16x16*16",
        mesh={"fsdp": 4096},
        dims={"batch": 4096, "sequence": 2048},
        options={"model": "scaled:1"},
    )
    screen = opened(experiment=link.encode(wide))
    assert errors(screen) == "" and not screen.warning
    why = "embed=2048 does not divide over fsdp=4096: parameters are replicated on every device."
    assert "Does not fit on 4,096 v5e." in headings(screen) and why in said(screen)


def test_a_step_that_is_mostly_attention_names_the_kernel_that_is_estimated(opened):
    long = MODEL.vary(
        target="tpu:v5p:4x4x4",
        mesh={"fsdp": 64},
        dims={"batch": 64, "sequence": 131072},
        options={"model": "llama-3.1-8b"},
    )
    screen = opened(experiment=link.encode(long))
    (warning,) = [
        each.value
        for each in screen.markdown
        if ":orange[" in each.value and "attention is" in each.value.lower()
    ]
    assert "JAX's splash kernel" in warning


def test_a_plan_that_fits_is_one_click_away_and_takes_what_its_row_says(opened):
    large = MODEL.vary(options={"model": "llama-2-70b", "remat": "full"})
    screen = opened(experiment=link.encode(large))
    assert errors(screen) == "" and "Does not fit on" in headings(screen)
    assert any("of 15.8 GiB per device" in each.value for each in screen.markdown)
    rows = next(each.value for each in screen.table if "Tokens a step" in each.value.columns)
    assert len(rows)
    for at in range(len(rows)):
        opening = opened(experiment=link.encode(large))
        (button,) = [each for each in opening.button if each.key == f"way:{at}"]
        button.click().run()
        assert errors(opening) == ""
        days, memory = (
            figures(opening)[name].split(" | ")[0] for name in ("For 1T tokens", "Memory")
        )
        row = rows.iloc[at]
        assert (days, memory) == (f"{row['Days']} days", row["Memory"].replace("\xa0", " "))
        assert f"{row['Tokens a step']} tokens" in figures(opening)["Step"]
        verdict = "Fits on " if row["Fits"] == "yes" else "May not fit on "
        assert f"{verdict}{row['Chips']} v5e" in headings(opening)


def test_a_plan_that_may_not_fit_has_ways_out_and_is_marked_among_chips(opened):
    large = MODEL.vary(
        target="gpu:h100:16x8",
        mesh={"fsdp": 128},
        dims={"batch": 512, "sequence": 8192},
        options={"model": "llama-3.1-405b", "remat": "full"},
    )
    (row,) = train(
        TrainingQuestion(large.plan.to_json(), 1e12, large.plan.batch, ("h100",), 128)
    ).rows
    assert row.step.fit == "may not fit" and row.plan
    screen = opened(experiment=link.encode(experiment_of(row.plan)))
    assert ":red[May not fit on 128 H100, by the range of its memory.]" in headings(screen)
    ways = ways_out(TrainingQuestion(row.plan.to_json(), 1e12, 512, ("h100",), 128), row.plan)
    assert ways_headline(row.plan, ways) in headings(screen) and any(w.is_sure for w in ways)
    labels = [each.label for each in screen.button if (each.key or "").startswith("way:")]
    assert len({*labels}) == len(ways), "each by a name of its own"


def test_ways_out_of_as_many_chips_are_told_apart_by_their_mesh(opened, monkeypatch):
    large = MODEL.vary(options={"model": "llama-2-70b", "remat": "full"})
    first, *_ = ways_out(TrainingQuestion(large.plan.to_json(), 1e12, large.plan.batch, ("v5e",), large.plan.topology.chips), large.plan)  # fmt: skip
    (name, size), *rest = first.plan.mesh
    mesh = (("replica" if name == "data" else "data", 2), (name, size // 2), *rest)
    other = replace(first, plan=first.plan.model_copy(update={"mesh": mesh}))
    monkeypatch.setattr(run_answer, "ways_out", lambda *_: (first, other))
    screen = opened(experiment=link.encode(large))
    labels = [each.label for each in screen.button if (each.key or "").startswith("way:")]
    assert len({*labels}) == 2 and labels[1].endswith(plain(f"{name}={size // 2}"))


def test_a_link_shows_its_stored_prediction(opened):
    screen = opened(predicted(), experiment=link.encode(MODEL), run="20260101-000000-abcdef")
    assert errors(screen) == ""
    assert "Fits on " in headings(screen)
    assert figures(screen)["Memory"] == "8.0 GiB | of 15.8 GiB per device"
    shown = next(each.value for each in screen.table if "Causal MFU" in each.value.columns).iloc[0]
    assert [shown[name].replace("\\", "") for name in ("Memory", "Step", "Causal MFU")] == [
        "8.0 GiB",
        "16.2 ms",
        f"{prediction().mfu * MODEL.plan.causal_share:.1%}",
    ]
    assert field(screen, "selectbox", "Model").value == "scaled:16"
    assert field(screen, "number_input", "Sequences per device").value == 6


def test_a_prediction_that_is_stored_is_found_without_its_run(opened):
    screen = opened(predicted(), experiment=link.encode(MODEL))
    assert "Fits on 256 v5e." in headings(screen)
    assert screen.query_params["run"] == "20260101-000000-abcdef"
    assert field(screen, "button", "Recompile").disabled is False


def test_two_predictions_open_side_by_side(opened):
    other = MODEL.vary(dims={"batch": 768, "sequence": 2048})
    screen = opened(
        predicted(),
        predicted(other, "20260101-000000-cccccc", auto=prediction(10**15)),
        experiment=link.encode(MODEL),
        run=predicted().run,
        tab="Other plans",
        **{"with": "20260101-000000-cccccc"},
    )
    assert errors(screen) == ""
    (both,) = [each.proto for each in screen.get("page_link") if "side by side" in each.proto.label]
    assert both.page == "history"
    assert both.query_string == f"runs={predicted().run}%2C20260101-000000-cccccc"


def test_what_other_versions_predicted_says_so(opened):
    def notices(found):
        screen = opened(
            predicted(
                run=f"20260101-000000-{len(found):06d}",
                auto=prediction().model_copy(update={"compile": found}),
            ),
            experiment=link.encode(MODEL),
        )
        assert "Fits on 256 v5e" in headings(screen)
        return [
            text.value for text in screen.caption if text.value.startswith("Made by other versions")
        ]

    assert notices({}) == []
    assert len(notices({"versions": {"jax": "0.1"}})) == 1


def test_what_does_not_fit_says_by_how_much_and_what_helps(opened):
    screen = opened(
        predicted(run="20260101-000009-abcdef", auto=TOO_LARGE), experiment=link.encode(MODEL)
    )
    assert "4.0 GiB too much" in headings(screen)
    # one offer, as the next thing to try
    offers = [each.proto.label for each in screen.get("page_link") if "fits" in each.proto.label]
    assert len(offers) == 1 and offers[0].startswith("**Offload block inputs"), offers
    said = [each.value for each in screen.caption]
    assert any("per device too much" in each for each in said)
    assert not any("What helps" in text.value for text in screen.markdown)


def test_more_chips_are_offered_by_their_number_and_what_stays(opened):
    policy = {"save": "out", "offload": "query,key,value,attention"}
    largest = MODEL.vary(
        target="tpu:v6e:16x16",
        mesh={"data": 2, "fsdp": 128},
        dims={"batch": 1024, "sequence": 8192},
        options={"model": "llama-3.1-8b", **policy},
    )
    computed = predicted(largest, auto=estimate_step(largest.plan))
    screen = opened(computed, experiment=link.encode(largest), run=computed.run)
    (offer,) = [each.proto.label for each in screen.get("page_link") if "Try" in each.proto.label]
    offer = offer.replace("\\", "")
    assert re.fullmatch(r"\*\*Try 512 v6e with [a-z0-9=, ]+: the same tokens a step\*\*", offer)
    assert "Tpu:" not in said(screen)


def test_another_topology_is_filled_and_keeps_the_batch_per_device(opened):
    screen = opened()
    field(screen, "selectbox", "Shape").set_value("8x8").run()
    assert errors(screen) == ""
    assert field(screen, "number_input", "Axis 1 size").value == 64
    assert field(screen, "number_input", "Sequences per device").value == 2
    field(screen, "selectbox", "TPU or GPU").set_value("v5p").run()
    assert field(screen, "selectbox", "Shape").value == "4x4x4"
    assert errors(screen) == ""


def test_a_preset_sets_the_mesh(opened):
    screen = opened()
    field(screen, "button", "fsdp × tensor").click().run()
    assert errors(screen) == ""
    assert [field(screen, "number_input", f"Axis {at} size").value for at in (1, 2)] == [4, 4]


def test_a_mesh_that_does_not_fill_is_refused_and_mended_by_one_click(opened):
    screen = opened()
    field(screen, "number_input", "Axis 1 size").set_value(8).run()
    assert (
        "mesh of 8 devices does not fill v5e:4x4 with its 16: make the axes multiply to 16"
        in errors(screen)
    )
    assert field(screen, "button", "Compile").disabled is True
    field(screen, "button", "Use fsdp=16").click().run()
    assert errors(screen) == ""
    assert field(screen, "number_input", "Axis 1 size").value == 16


def test_bad_numbers_are_refused_and_stay(opened):
    screen = opened()
    for label, value, words in (
        ("Tokens in each", 100, "sequence"),
        ("Sequences per device", 0.3, "4.8"),
        ("Sequences per device", 0.0, "batch"),
        ("Tokens in each", -1, "sequence"),
    ):
        right = field(screen, "number_input", label).value
        field(screen, "number_input", label).set_value(value).run()
        assert words in errors(screen)
        assert len(errors(screen)) < 300
        assert field(screen, "number_input", label).value == value
        field(screen, "number_input", label).set_value(right)


def test_flags_that_write_files_are_refused(opened):
    screen = opened()
    field(screen, "text_input", "Compiler flags").set_value("xla_dump_to=/tmp/x").run()
    assert "is not a flag" in errors(screen)


def test_a_model_of_an_installed_package_is_chosen_like_a_preset(opened, monkeypatch):
    own = replace(get_model("llama-3.1-8b").varied(layers=3), name="acme-tiny")
    monkeypatch.setattr(models, "added_models", lambda: ({"acme-tiny": own}, ()))
    screen = opened()
    field(screen, "selectbox", "Model").set_value("acme-tiny").run()
    assert not errors(screen)
    assert field(screen, "selectbox", "Model").value == "acme-tiny"
    assert f"{own.parameters:,} parameters" in [each.value for each in screen.caption]


def test_another_workload_and_back_keeps_the_model(opened):
    screen = opened()
    field(screen, "selectbox", "Model").set_value("llama-2-7b").run()
    field(screen, "selectbox", "Predict").set_value("layer").run()
    assert errors(screen) == ""
    assert field(screen, "button_group", "Strategies").value == [
        "auto",
        "constrained",
        "explicit",
        "shard_map",
    ]
    field(screen, "selectbox", "Predict").set_value("decoder").run()
    assert field(screen, "selectbox", "Model").value == "llama-2-7b"


@pytest.mark.parametrize(
    "spec",
    [
        {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}},
        {"workload": "layer", "target": "tpu:v9:4x4*9999", "mesh": {"x": 8}},
        {"workload": "layer", "target": "tpu:v5e:4x4", "mesh": {"x": 8}},
        {"workload": "array", "target": "cpu:8", "mesh": {"x": 8}, "dims": {"d0": 8}},
    ],
)
def test_an_experiment_that_cannot_be_predicted_is_said_and_the_nearest_offered(opened, spec):
    screen = opened(experiment=link.encode(parse_experiment(spec)))
    assert errors(screen)
    assert len(errors(screen)) < 400
    assert Lab.open().active() == ()


def test_a_link_of_a_training_step_that_cannot_be_is_mended_by_one_click(opened):
    spec = MODEL.to_json() | {
        "target": "tpu:v5e:3x5",
        "mesh": {"fsdp": 15},
        "dims": {"batch": 30},
        "options": {"model": "scaled:1"},
    }
    screen = opened(
        experiment="1."
        + base64.urlsafe_b64encode(zlib.compress(json.dumps(spec).encode())).decode()
    )
    assert errors(screen) == (
        "This link cannot be opened as it is. Topology v5e:3x5 is not a shape of TPU v5e: use tpu:v5e:4x4 or tpu:v5e:2x4."
    )
    field(screen, "button", "Use the nearest experiment").click().run()
    assert errors(screen) == ""
    assert (
        field(screen, "selectbox", "TPU or GPU").value,
        field(screen, "selectbox", "Shape").value,
    ) == (
        "v5e",
        "4x4",
    )
    assert (
        field(screen, "selectbox", "Model").value == "scaled:1"
        and field(screen, "number_input", "Sequences per device").value == 2
    )


def test_the_schedule_of_a_pipeline_is_drawn_before_anything_runs(opened):
    spec = MODEL.to_json() | {"target": "tpu:v5p:4x4x4", "mesh": {"stage": 4, "fsdp": 16}}
    spec |= {"dims": {"batch": 64, "sequence": 4096}, "options": {"model": "llama-3.1-8b"}}
    screen = opened(experiment=link.encode(parse_experiment(spec)))
    assert errors(screen) == ""
    assert re.search(r"1F1B with \d+ microbatches: stages idle \d+% of their time", said(screen))


@pytest.mark.parametrize(
    ("mesh", "sequence", "words"),
    [
        (
            {"stage": 64},
            8192,
            "stage=64 makes 64 runs of the 32 layers of llama-3.1-8b: use stage=32.",
        ),
        ({"context": 64}, 8000, "over context=64, in two parts each: use 16384."),
    ],
)
def test_a_link_of_stages_or_contexts_that_cannot_be_is_mended_by_one_click(
    opened, mesh, sequence, words
):
    spec = MODEL.to_json() | {"target": "tpu:v5p:4x4x4", "mesh": mesh}
    spec |= {"dims": {"batch": 64, "sequence": sequence}, "options": {"model": "llama-3.1-8b"}}
    packed = base64.urlsafe_b64encode(zlib.compress(json.dumps(spec).encode())).decode()
    screen = opened(experiment=f"1.{packed}")
    assert errors(screen).endswith(words)
    field(screen, "button", "Use the nearest experiment").click().run()
    assert errors(screen) == ""


def test_the_nearest_of_simulated_devices_is_a_topology_of_as_many(opened):
    screen = opened(
        experiment=link.encode(
            parse_experiment(
                {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}, "sharding": {"in": "x"}}
            )
        )
    )
    assert errors(screen) == "target cpu:8 is not a topology: choose a TPU or a GPU"
    assert field(screen, "button", "Compile").disabled is True
    field(screen, "button", "Use the nearest experiment").click().run()
    assert errors(screen) == ""
    assert (
        field(screen, "selectbox", "TPU or GPU").value,
        field(screen, "selectbox", "Shape").value,
    ) == (
        "v5e",
        "2x4",
    )
    assert "single" not in field(screen, "button_group", "Strategies").value


@pytest.mark.parametrize(
    "query",
    [
        {"experiment": "1.junk"},
        {"experiment": "A" * 500_000},
        {"experiment": "", "run": "../../etc"},
        {"plan": "1.eJyrVgIAAS0Arg"},
        {"measured": "<script>", "tokens": "inf", "with": "'; DROP", "sweep": "1.junk"},
    ],
)
def test_hostile_queries_break_nothing(opened, query):
    screen = opened(**query)
    assert not screen.exception
    assert field(screen, "selectbox", "Model").value == "llama-3.1-8b"


def test_a_link_carries_a_measured_time_and_a_training_run(opened):
    screen = opened(predicted(), experiment=link.encode(MODEL), measured="0.016", tokens="1000")
    texts = " ".join(text.value.replace("\\", "") for text in screen.caption)
    assert "chip-hours on 256 chips" in texts
    assert "For 1T tokens" in figures(screen)
    assert screen.query_params["measured"] == "0.016"


def test_the_step_is_estimated_before_compiling(opened):
    screen = opened()
    (line,) = [text.value for text in screen.markdown if "estimate, not compiled" in text.value]
    line = line.replace("\\", "")  # of Markdown
    assert "- About " in line and " a step (" in line and "% causal MFU" in line


@pytest.mark.parametrize(
    ("query", "peak"), [({"tab": "Memory"}, True), ({"tab": "<i>", "strategy": "none"}, False)]
)
def test_a_link_opens_its_tab_and_an_unknown_one_is_ignored(opened, query, peak):
    screen = opened(
        predicted(), experiment=link.encode(MODEL), run="20260101-000000-abcdef", **query
    )
    assert errors(screen) == ""
    assert (
        any(
            "The largest arrays of the compiled program" in caption.value
            for caption in screen.caption
        )
        is peak
    )


@pytest.mark.parametrize(
    ("tab", "now", "words"),
    [
        ("Where the time goes", "Time", "stored without its timeline"),
        ("Collectives", "Time", "times per step"),
        ("Mesh on the torus", "Memory", "largest arrays of the compiled program"),
        ("Baseline", "Other plans", "No other prediction is stored yet"),
    ],
)
def test_links_of_before_open_the_tab_that_has_it_now(opened, tab, now, words):
    screen = opened(predicted(), experiment=link.encode(MODEL), tab=tab)
    assert errors(screen) == ""
    assert any(words in caption.value for caption in screen.caption)
    assert next(each for each in screen.tabs if each.label == now)


def test_five_tabs_and_the_sweep_is_a_view_of_its_own(opened):
    screen = opened(predicted(), experiment=link.encode(MODEL))
    assert [tab.label for tab in screen.tabs] == [
        "Time",
        "Communication",
        "Memory",
        "Other plans",
        "Program",
    ]
    field(screen, "button_group", "What is shown").set_value("sweep").run()
    assert errors(screen) == "" and not screen.tabs
    assert field(screen, "selectbox", "Vary").value == "chips"
    assert "sweep" in screen.query_params
    field(screen, "button_group", "What is shown").set_value("step").run()
    assert "sweep" not in screen.query_params and len(screen.tabs) == 5


@pytest.mark.parametrize("query", [{"sweep": "chips=64,256"}, {"tab": "Sweep"}, {"show": "sweep"}])
def test_a_link_to_a_sweep_opens_it(opened, query):
    screen = opened(predicted(), experiment=link.encode(MODEL), **query)
    assert errors(screen) == "" and not screen.tabs
    assert field(screen, "selectbox", "Vary").value == "chips"


def test_a_price_of_a_link_turns_chips_time_into_money(opened):
    screen = opened(predicted(), experiment=link.encode(MODEL), price="3.6", tokens="1000")
    assert errors(screen) == ""
    shown = {label: text.replace("\\", "") for label, text in metrics(screen).items()}
    spent = cost_of(prediction(), 3.6)
    assert shown["Cost of a step"] == money_text(spent.money_per_step) and shown[
        "A billion tokens"
    ].startswith("$")
    assert any("on 256 chips, $" in text.value.replace("\\", "") for text in screen.caption)
    assert screen.query_params["price"] in ("3.6", ["3.6"])
    field(screen, "text_input", "Price per chip-hour ($)").set_value("").run()
    assert "$" not in metrics(screen)["Cost of a step"] and "price" not in screen.query_params


@pytest.mark.parametrize("price", ["-4", "9" * 5000])
def test_a_price_that_is_none_is_left_out(opened, price):
    screen = opened(experiment=link.encode(MODEL), price=price)
    assert errors(screen) == "" and not screen.exception
    assert field(screen, "text_input", "Price per chip-hour ($)").value == ""


def test_the_arrows_need_the_program_text_of_more_than_64_devices(opened):
    screen = opened(predicted(), experiment=link.encode(MODEL), tab="Arrows", arrows="99")
    assert errors(screen) == ""
    assert any("Which devices take part in" in each.value for each in screen.markdown)


QWEN = {
    "model_type": "qwen3",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "rope_theta": 1000000,
}


def test_a_pasted_config_is_the_model(opened):
    screen = opened()
    sizes = "16 layers, width 2,048, mlp 7,168; 1,104,218,112 parameters"  # of scaled:1
    assert any(sizes in caption.value for caption in screen.caption)
    field(screen, "text_area", "Config").set_value(json.dumps(QWEN | {"kv_lora_rank": 512})).run()
    assert "kv_lora_rank=512 is latent attention of another architecture" in errors(screen)
    field(screen, "text_area", "Config").set_value(json.dumps(QWEN)).run()
    assert "**qwen3**: 1,720,574,976 parameters" in [text.value for text in screen.markdown]
    field(screen, "button", "Use this model").click().run()
    assert errors(screen) == ""
    assert field(screen, "selectbox", "Model").value.startswith("qwen3(layers=28,embed=2048,")
    assert "1,720,574,976 parameters" in [caption.value for caption in screen.caption]
    code = "".join(screen.query_params["experiment"])
    assert dict(link.decode(code).options)["model"] == field(screen, "selectbox", "Model").value
    field(screen, "number_input", "mlp").set_value(8192).run()
    grown = 1720574976 + 28 * 3 * 2048 * 2048
    assert f"{grown:,} parameters" in [caption.value for caption in screen.caption]


def figures(screen) -> dict[str, str]:
    """The figures of the answer, by title."""
    html = "".join(each.proto.body for each in screen.get("html"))
    cells = re.findall(r"<span>(.*?)</span><b class=.figure.>(.*?)</b><small>(.*?)</small>", html)
    return {title: f"{value} | {more}" for title, value, more in cells}


def adds_up(screen) -> bool:
    """Whether the named shares of the bar add up to 100 %."""
    html = "".join(each.proto.body for each in screen.get("html") if "split" in each.proto.body)
    shares = [float(share) for share in re.findall(r"<b>([\d.]+)%</b>", html)]
    return len(shares) > 1 and round(sum(shares), 6) == 100


@pytest.mark.usefixtures("every_chip")
def test_a_first_visit_answers_in_five_figures_of_a_model_that_people_know(data_folder):
    screen = screen_opened("predict")
    assert errors(screen) == "" and not screen.exception
    plan = parse_experiment(state_default()).plan
    run = training_run(estimate_step(plan), plan, 1e12)
    shown = figures(screen)
    assert list(shown) == [
        *("For 1T tokens", "Step", "Memory"),
        *("Plan", "Batch per device", "Remat", "Bound by"),  # nobody set it
    ]
    assert "Fits on 256 v5e." in headings(screen)
    assert shown["Plan"].endswith("| on v5e:16x16")
    (best,) = [each.proto for each in screen.get("page_link") if "best plan" in each.proto.label]
    question = search_link.decode(parse_qs(best.query_string)["search"][0])
    assert (question.global_batch, question.sequence) == (plan.batch, plan.sequence)
    assert (question.model, question.chips) == (plan.model, ("v5e:16x16",))
    shards = plan.axis_sizes["data"] * plan.axis_sizes["fsdp"]
    each = f"{plan.batch // shards} × {plan.sequence:,}"
    batch = f"{each} | of {plan.batch} × {plan.sequence:,} sequences × tokens"
    assert shown["Batch per device"] == batch and f"{plan.tokens:,} tokens" in shown["Step"]
    assert adds_up(screen), "every part of the bar is named"
    assert shown["For 1T tokens"].startswith(f"{run.days.estimate:.3g} days")
    (table,) = [each.value for each in screen.table if "Days" in each.value.columns]
    assert sorted(table["On"]) == ["B200", "H100", "TPU7x", "v5e", "v5p", "v6e"]
    days = [float(re.sub(r"[^0-9.]", "", each.split()[0])) for each in table["Days"]]
    assert days == sorted(days), "the fastest first"
    assert (table["Days"] != "–").all() and "Dollars" not in table, "none has a price"

    def labels(place):
        kinds = ("selectbox", "number_input", "text_input")
        return [each.label for kind in kinds for each in place.get(kind)]

    assert labels(screen.main) == ["Price per chip-hour ($)"]
    folded = labels(screen.sidebar.expander[0])
    first = sorted(each for each in labels(screen.sidebar) if each not in folded)
    assert first == sorted(["Model", "TPU or GPU", "Size by", "Tokens (billions)", "Chips"])


@pytest.mark.parametrize("typed", ["1.2", "v5p=4.2, v5e=1.2", "v5p=4.2", ""])
def test_the_search_for_the_best_plan_has_the_price_of_its_chips(data_folder, typed):
    screen = screen_opened("predict", price=typed)
    (best,) = [each.proto for each in screen.get("page_link") if "best plan" in each.proto.label]
    question = search_link.decode(parse_qs(best.query_string)["search"][0])
    assert question.price == ((("v5e", 1.2),) if "1.2" in typed else ())


@pytest.mark.parametrize("change", [{}, {"save": "query,key,value", "offload": "attention"},
                                    {"offload": "input"}])  # fmt: skip
def test_the_card_names_what_a_plan_saves_and_offloads_as_a_search_does(opened, change):
    spec = {**DEFAULT_SPEC, "options": {"model": "llama-3.1-8b", "remat": "full", **change}}
    screen = opened(experiment=link.encode(parse_experiment(spec)))
    kept = {name: tuple(names.split(",")) for name, names in change.items()}
    assert figures(screen)["Remat"] == f"{Policy('full', **kept).words} | "
    assert ("full" in figures(screen)["Remat"]) is not bool(change)


def test_a_deadline_finds_the_plan_and_a_price_its_dollars(data_folder):
    screen = screen_opened("predict")
    field(screen, "selectbox", "Size by").set_value("days").run()
    field(screen, "number_input", "Days").set_value(12.0).run()
    assert errors(screen) == ""
    plan = parse_experiment(state_default()).plan
    (row,) = train(TrainingQuestion(plan.to_json(), 1e12, plan.batch, ("v5e",), days=12.0)).rows
    verb = "may miss" if row.run.days.high > 12 else "keeps"
    assert f"{verb.capitalize()} 12 days on {row.plan.topology.chips} v5e." in headings(screen)
    assert screen.query_params["days"] in ("12", ["12"])
    field(screen, "selectbox", "TPU or GPU").set_value("h100").run()
    assert "h100" in figures(screen)["Plan found"] and errors(screen) == ""
    field(screen, "text_input", "Price per chip-hour ($)").set_value("h100=3, v5e=1.2").run()
    assert "at $3.00 a chip-hour" in figures(screen)["Dollars"]


def asked(screen, *steps):
    """The card and the plan once fields were changed in this order."""
    for kind, label, value in steps:
        field(screen, kind, label).set_value(value).run(timeout=60)
    return figures(screen), [field(screen, "number_input", name).value for name in FOLDED]


FOLDED = ("Axis 1 size", "Sequences per device", "Tokens in each")
CHIPS_512, BY_DAYS, BY_CHIPS = (
    ("number_input", "Chips", 512),
    ("selectbox", "Size by", "days"),
    ("selectbox", "Size by", "chips"),
)
DAYS_30, DAYS_12 = (("number_input", "Days", each) for each in (30.0, 12.0))


@pytest.mark.parametrize(
    ("short", "long"),
    [((CHIPS_512,), (BY_DAYS, DAYS_12, BY_CHIPS, CHIPS_512)),
     ((BY_DAYS, DAYS_12), (CHIPS_512, BY_DAYS, DAYS_30, DAYS_12)),
     ((BY_DAYS, DAYS_30), (CHIPS_512, BY_DAYS)),
     ((CHIPS_512, ("selectbox", "TPU or GPU", "v5p")),
      (BY_DAYS, ("selectbox", "TPU or GPU", "v5p"), BY_CHIPS, CHIPS_512))],
)  # fmt: skip
def test_the_same_fields_have_the_same_answer_whatever_was_asked_before(data_folder, short, long):
    assert asked(screen_opened("predict"), *short) == asked(screen_opened("predict"), *long)


def test_chips_that_form_no_slice_are_named_until_another_number_is_entered(data_folder):
    screen = screen_opened("predict")
    named = lambda: [e.value for e in screen.caption if "form no slice" in e.value]  # noqa: E731
    asked(screen, ("number_input", "Chips", 100))
    assert field(screen, "number_input", "Chips").value == 128
    assert named() == [plain("100 chips form no slice of v5e: 128 is the nearest.")]
    asked(screen, CHIPS_512)
    assert named() == []
    card, _ = asked(screen, ("number_input", "Tokens (billions)", -5.0))
    assert "Tokens (billions): enter 0.001 or more, not -5" in errors(screen)
    assert "For 1T tokens" in card and "last fields that were valid" in said(screen)
    for label, value, rule in (
        ("Tokens (billions)", 1e15, "enter up to 10,000,000, not 1e+15"),
        ("Chips", 10**8, "enter up to 16,384, not 100,000,000"),
        ("Chips", 0, "enter 1 or more, not 0"),
    ):
        kept = field(screen, "number_input", label).value
        card, _ = asked(screen, ("number_input", label, value))
        assert f"{label}: {rule}" in errors(screen) and "on 512 v5e" in headings(screen)
        asked(screen, ("number_input", label, kept if label == "Chips" else 1000.0))
    asked(screen, ("number_input", "Tokens (billions)", 2000.0))
    assert errors(screen) == "" and "For 2T tokens" in figures(screen)


def test_a_batch_that_the_viewer_chose_stays_and_so_does_the_plan_of_a_link(data_folder):
    own = ("number_input", "Sequences per device", 1.0)
    screen = screen_opened("predict")
    card, (_, each, _) = asked(screen, own, BY_DAYS, DAYS_12, BY_CHIPS, CHIPS_512)
    assert each == 256 / 512 and "2,097,152 tokens" in card["Step"]
    plan = parse_experiment(state_default()).vary(dims={"batch": 256}, options={"microbatches": 1})
    screen = screen_opened("predict", experiment=link.encode(plan), days="12")
    assert field(screen, "number_input", "Sequences per device").value == 1.0


def test_a_budget_without_a_price_says_what_it_needs(data_folder):
    screen = screen_opened("predict")
    field(screen, "selectbox", "Size by").set_value("dollars").run()
    assert not screen.exception
    asked = "Fits on 256 v5e. Enter a price per chip-hour to see what $1 million pays for."
    assert asked in headings(screen)
    assert said(screen).count("needs a price per") <= 1, "once"
    assert field(screen.sidebar, "text_input", "Price per chip-hour ($)"), "beside the budget"
    field(screen, "text_input", "Price per chip-hour ($)").set_value("2").run()
    assert "About fastest within $1 million: " in headings(screen) and errors(screen) == ""
    assert "v5e within $1 million." in headings(screen)
    assert field(screen, "text_input", "Price per chip-hour ($)").value == "v5e=2", "of no other"
    offers = [each for each in screen.button if each.key.startswith(("trade:", "use:"))]
    assert offers and not any(each.disabled for each in offers), "no lone kind to open"
    offers[0].click().run()
    assert errors(screen) == "" and figures(screen)["Plan found"]
    assert f"Fits on {offers[0].label} v5e within $1 million." in headings(screen)
    field(screen, "number_input", "Dollars").set_value(1000.0).run()
    assert "Costs over $1,000 on " in headings(screen)
    assert re.search(r" \$1,000 pays for [\d.]+[BM] tokens\.", headings(screen))


@pytest.mark.parametrize(
    ("query", "by"),
    [({"dollars": "1000000", "price": "v5e=1.2"}, ("dollars", "Dollars", 1e6)), ({"days": "10"}, ("days", "Days", 10.0))],
)  # fmt: skip
def test_a_limit_in_a_link_opens_the_plan_that_it_finds_on_the_screen(data_folder, query, by):
    linked = screen_opened("predict", **query)
    screen = screen_opened("predict", **{name: query[name] for name in query if name == "price"})
    asked(screen, ("selectbox", "Size by", by[0]), ("number_input", *by[1:]))
    assert figures(linked) == figures(screen)
    assert headings(linked).partition(".")[0] == headings(screen).partition(".")[0]
    assert "256 v5e" not in headings(linked)
    # with a plan it is that plan's link
    kept = screen_opened("predict", experiment=link.encode(SMALL), **query)
    assert parse_experiment(state_default()).plan and "on 4,096 v5e" not in headings(kept)


def test_the_table_of_chips_marks_a_plan_that_may_not_fit(data_folder):
    form = {"model": "llama-3.1-405b", "sequence": 8192}
    answer = train(TrainingQuestion(form, 1e12, 512, ("v5p", "h100"), 128))
    marks = {
        row[0].text: row[1].text.endswith(", may not fit") for row in training_table(answer).rows
    }
    assert marks == {chip_title(row.kind): row.step.fit == "may not fit" for row in answer.rows}
    assert {*marks.values()} == {True, False}


def test_rows_that_miss_a_deadline_begin_with_the_fastest(data_folder):
    plan = parse_experiment(state_default()).plan
    question = TrainingQuestion(plan.to_json(), 1e12, plan.batch, ("v5e", "v5p", "tpu7x"), days=0.1)
    days = [row.run.days.estimate for row in train(question).ordered]
    assert days == sorted(days) and len(days) == 3


def test_a_price_that_is_none_keeps_the_last_answer_and_its_dollars(data_folder):
    screen = screen_opened("predict", price="v5e=1.2")
    before = figures(screen)
    field(screen, "text_input", "Price per chip-hour ($)").set_value("abc").run()
    assert "price 'abc' is not above 0" in errors(screen)
    assert "$" in before["Dollars"] and figures(screen) == before
    assert "last fields that were valid" in said(screen)
    assert screen.query_params["price"] in ("v5e=1.2", ["v5e=1.2"])
    field(screen, "text_input", "Price per chip-hour ($)").set_value("").run()
    assert not errors(screen) and "Dollars" not in figures(screen)


def test_a_missed_deadline_is_red_in_the_headline(data_folder):
    screen = screen_opened("predict")
    asked(screen, BY_DAYS, ("number_input", "Days", 0.1))
    assert re.search(r":red\[Misses 0.1 days on [\d,]+ v5e", headings(screen))


@pytest.mark.parametrize(
    ("kind", "chips"),
    [
        ("v5p", 768),
        ("h100", 384),
        pytest.param("h100", 192, marks=whole),
        pytest.param("v5e", 256, marks=whole),
    ],
)
def test_the_plan_of_any_number_of_chips_is_that_of_the_table(data_folder, kind, chips):
    model = ("selectbox", "Model", "llama-3.1-70b")
    screen = screen_opened("predict")
    card, _ = asked(
        screen, model, ("selectbox", "TPU or GPU", kind), ("number_input", "Chips", chips)
    )
    assert "does not fit" not in headings(screen) and errors(screen) == ""
    (table,) = [each.value for each in screen.table if "Verdict" in each.value.columns]
    (row,) = [row for _, row in table.iterrows() if row["On"].removeprefix("TPU ") == chip(kind)]
    assert row["Mesh"] == card["Plan found"].partition(" | ")[0]
    assert row["Remat"] == card["Remat"].partition(" | ")[0]
    assert row["Memory"].replace("\u00a0", " ") == card["Memory"].partition(" | ")[0]


def chip(kind):
    return kind.upper() if kind[0] in "hb" else kind


def test_a_mesh_that_you_set_stays_on_other_chips(data_folder):
    linked = parse_experiment(state_default() | {"mesh": [["data", 2], ["fsdp", 128]]})
    screen = screen_opened("predict", experiment=link.encode(linked))
    asked(screen, ("number_input", "Axis 2 size", 64), ("number_input", "Axis 1 size", 4))
    card, _ = asked(screen, CHIPS_512)
    assert card["Plan as set"].startswith("data=")
    assert "fsdp=64" in card["Plan as set"] or "data=4" in card["Plan as set"]


def test_what_a_plan_offloads_is_dropped_on_chips_that_need_none(data_folder):
    screen = screen_opened("predict")
    model = ("selectbox", "Model", "llama-3.1-70b")
    card, _ = asked(screen, model)
    assert "offload" in card["Remat"], "else this test is of nothing"
    card, _ = asked(screen, ("selectbox", "TPU or GPU", "h100"))
    assert "offload" not in card["Remat"] and "host" not in card["Memory"]


@pytest.mark.usefixtures("every_chip")
def test_the_plan_of_another_chip_is_one_press_away(data_folder):
    screen = screen_opened("predict")
    next(each for each in screen.button if each.key == "use:h100").click().run()
    assert errors(screen) == "" and "h100" in figures(screen)["Plan found"]
    assert field(screen, "selectbox", "TPU or GPU").value == "h100"


def test_the_screen_begins_with_the_plan_that_its_question_finds(data_folder):
    first = state.first("predict").plan
    question = TrainingQuestion(first.to_json(), 1e12, first.batch, ("v5e",), chips=256)
    assert train(question).rows[0].plan == first
    other = replace(question, form={"model": first.model, "sequence": first.sequence})
    assert train(other).rows[0].plan == first


def state_default():
    return state.first("predict").to_json()


def press(screen, label):
    return field(screen, "button", label).click().run()


def test_a_variant_is_added_and_compared_without_leaving_predict(opened):
    screen = press(opened(experiment=link.encode(MODEL)), "Add a variant")
    assert "Change a field" in said(screen)
    field(screen, "number_input", "Sequences per device").set_value(3).run()
    shown = said(screen)
    assert "Both estimated from their sizes." in shown
    # of another batch no step's time is compared
    assert re.search(r"A [\d,]+ tokens per second and chip, B [\d,]+ tokens", shown)
    assert field(screen, "button", "Both as a study on Compare")
    press(screen, "Back to A")
    assert field(screen, "number_input", "Sequences per device").value == 6
    assert "Both estimated" not in said(screen)
    press(screen, "Remove A")
    assert field(screen, "button", "Add a variant")


def test_sequences_beyond_the_model_have_a_link_to_those_that_it_sees(opened):
    """With as many tokens a step."""
    given = MODEL.vary(options={"model": "llama-2-70b"}, dims={"batch": 512, "sequence": 8192})
    given = given.vary(target="tpu:v5e:16x16", mesh={"fsdp": 256})
    screen = opened(experiment=link.encode(given))
    (use,) = [e.proto for e in screen.get("page_link") if "tokens" in e.proto.label]
    assert use.label == "Use sequences of 4,096 tokens"
    plan = link.decode(parse_qs(use.query_string)["experiment"][0]).plan
    assert (plan.sequence, plan.batch) == (4096, 1024)


def test_each_axis_of_a_mesh_is_explained_beside_its_choice(opened):
    (axes,) = (
        each
        for each in opened(experiment=link.encode(MODEL)).button_group
        if each.label == "Mesh axes"
    )
    assert [line.partition(":")[0] for line in AXES_LINES] == list(MESH_AXES)
    assert all(f"- {plain(line)}" in axes.help for line in AXES_LINES)


def test_a_change_shows_its_days_and_memory_and_is_undone(opened, monkeypatch):
    monkeypatch.setattr("spmd_lab.ui.predict.question.KINDS", ("v5e", "v6e"))
    screen = opened(experiment=link.encode(MODEL))
    assert "Before → now" not in said(screen)
    before = figures(screen)
    press(screen, "v6e")
    assert ["Before → now" in each.value for each in screen.toast] == [True]
    field(screen, "text_input", "Price per chip-hour ($)").set_value("4.2").run()
    days, dollars, memory = re.search(
        r"Before → now.*, estimated: (.*), (.*), (.* per device)\.", said(screen)
    ).groups()
    now = figures(screen)
    assert days.endswith(now["For 1T tokens"].partition("days")[0] + "days")
    assert days.startswith(before["For 1T tokens"].partition(" days")[0])
    assert "$" in dollars and " → " in dollars and " → " in memory
    press(screen, "Undo")
    assert "Before → now" not in said(screen)
    assert figures(screen)["Memory"] == before["Memory"]
    field(screen, "number_input", "Sequences per device").set_value(3).run()
    field(screen, "number_input", "Sequences per device").set_value(2).run()
    press(screen, "Undo")
    assert field(screen, "number_input", "Sequences per device").value == 3
    press(screen, "Undo")
    assert figures(screen)["Memory"] == before["Memory"]
    field(screen, "number_input", "Sequences per device").set_value(10_000).run()
    line = next(line for line in said(screen).splitlines() if "→ does not fit" in line)
    assert "–" not in line and " per device" in line


def test_undo_takes_back_the_deadline_that_changed_the_plan(data_folder):
    screen = screen_opened("predict", days="30")
    before = figures(screen)
    asked(screen, ("number_input", "Days", 10.0))
    assert "Keeps 10 days" in said(screen) and figures(screen) != before
    press(screen, "Undo")
    assert field(screen, "number_input", "Days").value == 30
    assert "Keeps 30 days" in said(screen) and figures(screen) == before
    asked(screen, ("number_input", "Days", 10.0))
    again = figures(screen)
    assert again["Plan found"] and "Keeps 10 days" in said(screen)
    field(screen, "number_input", "Tokens (billions)").set_value(900.0).run()
    press(screen, "Undo")  # of a change of the plan or of the tokens, whichever was last
    assert field(screen, "number_input", "Days").value == 10


@pytest.mark.usefixtures("every_chip")
def test_the_answer_is_of_the_fields_as_they_are(opened):
    screen = opened(experiment=link.encode(MODEL))
    field(screen, "number_input", "Sequences per device").set_value(3).run()
    assert figures(screen)["Batch per device"].startswith("3 × 2,048")
    press(screen, "v5p")
    assert "v5p" in figures(screen)["Plan found"] and "v5p" in headings(screen)


def timed(low, estimate, high, rate=None):
    return prediction().model_copy(
        update={
            "predicted_s": Estimate(low=low, estimate=estimate, high=high),
            "tokens_per_s_per_chip": rate,
        }
    )


@pytest.mark.parametrize(
    ("a", "b", "are_alike", "words"),
    [
        (timed(1, 2, 3), timed(4, 5, 6), True, "A is faster: A 2 s a step, B 5 s a step."),
        (timed(4, 5, 6), timed(1, 2, 3), True, "B is faster: B 2 s a step, A 5 s a step."),
        (timed(1, 2, 3), timed(2, 3, 4), True, "About even, as their intervals overlap: A 2 s"),
        # twice the tokens in less than twice the time
        (timed(9, 10, 11, 100), timed(14, 15, 16, 133), False, "B is faster: B 133 tokens"),
        (TOO_LARGE, timed(1, 2, 3), True, "A does not fit."),
        (TOO_LARGE, TOO_LARGE, True, "A and B do not fit."),
    ],
)
def test_of_two_predictions_one_is_faster_where_their_intervals_part(a, b, are_alike, words):
    assert variant.sentence(a, b, are_alike).startswith(words)


def test_details_begin_with_the_fastest_strategy(lab, data_folder):
    spec = {"workload": "layer", "target": "tpu:v5e:2x4", "mesh": {"x": 8}, "sharding": {"in": "x"}}
    layer = parse_experiment(spec | {"strategies": ["single", "auto"]})
    fast = prediction()
    seconds = fast.predicted_s
    assert seconds is not None
    slow = fast.model_copy(
        update={
            "predicted_s": Estimate(
                low=2 * seconds.low, estimate=2 * seconds.estimate, high=2 * seconds.high
            )
        }
    )
    result = predicted(layer, single=slow, auto=fast)
    store(data_folder, result)
    screen = screen_opened("predict", run=result.run)
    (chosen,) = [each for each in screen.segmented_control if each.label == "Details of"]
    assert chosen.value == "auto"
