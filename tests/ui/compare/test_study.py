"""Compare as the screen of a study: adding a variant, editing it in place, its link, its one table."""

import re
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from bench.values import ENVIRONMENT, comparison, strategy
from spmd_core.answers import strategies_table
from spmd_core.answers.collective_sheet import program_lines
from spmd_core.experiment import link, parse_experiment
from spmd_core.results import Result
from spmd_core.terms import marker as marker_of
from spmd_lab.ui.charts import colors
from spmd_lab.ui.compare import questions, view
from spmd_lab.ui.compare.study import cost_words
from tests.answers import records, texts
from tests.ui.predictions import prediction, store

LAYER = {"workload": "layer", "mesh": {"x": 8}, "target": "cpu:8", "strategies": ["auto"]}
STUDY = parse_experiment(
    {
        "study": [
            {"experiment": LAYER | {"sharding": {"in": "x"}}},
            {"name": "[b](c)", "experiment": LAYER},
        ]
    }
)
RESULT = Result.model_validate(
    {
        "run": "20260101-000000-abcdef",
        "experiment": STUDY,
        "environment": ENVIRONMENT,
        "strategies": {"in over x/auto": strategy(3e-5), "[b](c)/auto": strategy(1e-5)},
        "comparison": comparison("[b](c)/auto", ("in over x/auto", 3.0, True)),
    }
)


@pytest.fixture
def screen(data_folder):
    return AppTest.from_file("../../../home.py", default_timeout=30).switch_page("pages/compare.py")


def named(widgets, label):
    return next(each for each in widgets if each.label == label)


def shown(screen):
    """The experiment of the address bar."""
    assert not screen.exception
    given = screen.query_params["experiment"]
    return link.decode(given if isinstance(given, str) else given[0])


def test_a_variant_is_a_copy_that_is_edited_in_place_and_can_be_removed(screen):
    screen.query_params["experiment"] = link.encode(
        parse_experiment(
            {field: value for field, value in LAYER.items() if field != "strategies"}
            | {"sharding": {"in": "x"}}
        )
    )
    screen.run()
    alone = shown(screen)
    named(screen.button, "Add a variant").click().run()
    assert [each.name for each in shown(screen).variants] == ["variant 1", "variant 2"]
    (alike,) = [each.value for each in screen.info if "a copy of" in each.value]
    assert alike.startswith("“variant 2” is still a copy of “variant 1”")
    assert not [each.value for each in screen.caption if "Press Run" in each.value]
    assert named(screen.button, "Run").disabled
    named(screen.get("button_group"), "Mesh axes").set_value(2).run()
    named(screen.number_input, "Axis 2 size").set_value(2)
    named(screen.number_input, "Axis 1 size").set_value(4).run()
    found = shown(screen)
    assert not named(screen.button, "Run").disabled
    assert [each.name for each in found.variants] == ["mesh x=8", "mesh x=4 y=2"]
    assert found.variants[0].experiment == alone
    assert found.variants[1].experiment.strategies == ("auto", "constrained", "shard_map")
    # what all share is changed for all
    named(screen.number_input, "out").set_value(8).run()
    assert {each.experiment.sizes["out"] for each in shown(screen).variants} == {8}
    named(screen.text_input, "Name of variant 2 of 2").set_value("grid").run()
    assert [each.name for each in shown(screen).variants] == ["mesh x=8", "grid"]
    named(screen.get("button_group"), "Editing").set_value(0).run()
    assert named(screen.number_input, "Axis 1 size").value == 8
    named(screen.button, "Remove this one").click().run()
    left = shown(screen)
    assert not left.variants and left.axis_sizes == {"x": 4, "y": 2} and left.sizes["out"] == 8


def test_another_workload_keeps_the_variants_and_says_which_are_dropped(screen):
    study = parse_experiment(
        {
            "study": [
                {
                    "experiment": LAYER
                    | {"sharding": {"batch": "x"}, "dims": {"batch": 8, "in": 32, "out": 16}}
                },
                {
                    "experiment": LAYER
                    | {"sharding": {"in": "x"}, "dims": {"batch": 8, "in": 32, "out": 16}}
                },
                {
                    "experiment": LAYER
                    | {
                        "mesh": {"x": 4, "y": 2},
                        "sharding": {"batch": "x"},
                        "dims": {"batch": 8, "in": 32, "out": 16},
                    }
                },
            ]
        }
    )
    screen.query_params["experiment"] = link.encode(study)
    screen.run()
    named(screen.selectbox, "Workload").set_value("elementwise").run()
    found = shown(screen)
    assert found.workload == "elementwise"
    assert [dict(each.experiment.mesh) for each in found.variants] == [{"x": 8}, {"x": 4, "y": 2}]
    (said,) = [each.value.replace("\\", "") for each in screen.info if "Changed to" in each.value]
    assert said.startswith("Changed to Elementwise: ") and "in over x is dropped" in said
    named(screen.button, "Undo").click().run()
    assert shown(screen) == study
    assert not [each for each in screen.info if "Changed to" in each.value]


def test_a_link_opens_a_study_with_its_answer_which_stays_greyed_while_a_field_is_edited(
    screen, data_folder
):
    view.forget()
    store(data_folder, RESULT)
    screen.query_params["experiment"] = link.encode(STUDY)
    screen.query_params["run"] = RESULT.run
    screen.run()
    assert shown(screen) == STUDY
    assert " is fastest. Next is " in screen.subheader[0].value.replace("\\", "")
    (figure,) = [
        each.proto.body for each in screen.get("html") if 'class="figure"' in each.proto.body
    ]
    assert "10 µs" in figure
    rows = screen.table[0].value
    assert "Strategy" not in rows and "MFU" not in rows  # one strategy, and no peak that is known
    assert list(rows["Time"]) == ["10\u00a0µs", "30\u00a0µs"]
    assert [text.replace("\\", "") for text in rows["Paired ratio \\(99%\\)"]] == [
        "fastest",
        "3.00× (2.70 to 3.30)",
    ]
    named(screen.number_input, "in").set_value(64).run()
    told = [each.value for each in screen.info]
    assert any("as they were" in each for each in told)
    captions = "".join(each.value for each in screen.caption)
    assert "changed since the answer below" in captions and "which these" not in captions
    assert "is fastest in this process: 10\u00a0µs" in screen.subheader[0].value.replace(
        "\\", ""
    )  # and it is still there, greyed
    assert "run" not in screen.query_params


def test_measured_and_predicted_rows_have_one_table():
    predicted = RESULT.model_copy(
        update={
            "comparison": None,
            "strategies": {
                name: found.model_copy(
                    update={
                        "median_s": None,
                        "samples_s": (),
                        "prediction": prediction(),
                        "predicted_s": prediction().predicted_s,
                    }
                )
                for name, found in RESULT.strategies.items()
            },
        }
    )
    table = strategies_table(predicted, "study")
    assert list(table.columns) == [
        "Variant",
        "Time",
        "Interval",
        "Bound",
        "Fits",
        "Peak per device",
        "Chip-seconds",
        "Tokens/s per chip",
        "MFU",
    ]
    first = records(table)[0]
    assert first["Time"].endswith(", predicted") and first["Fits"] == "yes"
    assert " to " in first["Interval"] and first["MFU"].endswith("%")


def test_each_row_has_the_marker_of_its_variant_and_strategy():
    """Though a table names both in cells of their own, and one name begins as another."""
    layer = LAYER | {"strategies": ["auto", "shard_map"]}
    entries = [
        {"name": "80", "experiment": layer | {"sharding": {"in": "x"}}},
        {"name": "8", "experiment": layer},
    ]
    experiment = parse_experiment({"study": entries})
    names = ["80/auto", "80/shard_map", "8/auto", "8/shard_map"]
    css = colors.before("nth-child({})", experiment, names)
    for at, name in enumerate(names, 1):
        (marker,) = re.findall(rf"nth-child\({at}\)[^}}]*content: \"(.)\"", css)
        assert marker == marker_of(experiment, name)
    assert len({marker_of(experiment, name) for name in names}) == 4


def test_a_study_of_training_plans_shows_its_answer_its_collectives_and_no_empty_tab(
    screen, data_folder
):
    view.forget()
    plan = {"workload": "decoder", "target": "tpu:v5e:4x4", "mesh": {"fsdp": 16}}
    study = parse_experiment(
        {
            "study": [
                {"experiment": plan | {"dims": {"batch": batch, "sequence": 1024}}}
                for batch in (16, 32)
            ]
        }
    )
    lines = program_lines(study.variants[0].experiment, "auto")
    line = next(at for at, text in enumerate(lines, 1) if "shard_map(" in text)
    sums = {
        "kind": "all-reduce",
        "axes": ["fsdp"],
        "bytes": 16,
        "count": 1,
        "source": f"decoder_auto.py:{line}",
        "reason": "gradients are added",
    }
    found = {
        "status": "ok",
        "collectives": [sums],
        "prediction": prediction().model_dump(),
        "predicted_s": prediction().predicted_s.model_dump(),
    }
    result = Result.model_validate(
        {
            "run": "20260101-000000-abcdee",
            "experiment": study,
            "environment": ENVIRONMENT,
            "strategies": {f"{each.name}/auto": found for each in study.variants},
        }
    )
    ran = {"program": "\n".join(lines)}
    store(data_folder, result, {f"{each.name}/auto": ran for each in study.variants})
    screen.query_params["run"] = result.run
    screen.query_params["tab"] = "Why"
    screen.run()
    assert shown(screen) == study
    assert "predicted fastest" in screen.subheader[0].value
    told = [text for each in screen.table for text in each.value.get("Why, and where", ())]
    assert any(f"Line {line}: `" in text.replace("\\", "") for text in told)
    assert [each.label for each in screen.tabs] == [
        "Fastest",
        "Why",
        "Fix it",
        "Program",
        "Details",
    ]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"study": 7}, "is not a list of variants"),
        (
            LAYER | {"variants": [{"changes": {"workload": "matmul"}}, {"changes": {}}]},
            "share no result",
        ),
        ({"study": [{"experiment": {"study": []}}] * 3}, "is itself a study"),
        ({"study": [{"experiment": LAYER}] * 30}, "more than a study's"),
    ],
)
def test_a_hostile_link_is_one_sentence_and_changes_no_field(screen, data, words):
    screen.query_params["experiment"] = link.pack(data)
    screen.run()
    assert not screen.exception
    (said,) = [each.value.replace("\\", "") for each in screen.error]
    assert words in said and len(said) < 400
    assert named(screen.number_input, "rows").value == 8192


def test_measured_and_predicted_rows_of_one_study_have_a_chart_each(data_folder):
    mesh = {"mesh": {"x": 4}, "sharding": {"in": "x"}}
    study = parse_experiment(
        {
            "study": [
                {"name": "here", "experiment": LAYER | mesh | {"strategies": ["single", "auto"]}},
                {"name": "rows", "experiment": LAYER | mesh | {"sharding": {"out": "x"}}},
                {"name": "there", "experiment": LAYER | mesh | {"target": "tpu:v5e:2x2"}},
            ]
        }
    )
    time = {"low": 1e-6, "estimate": 2e-6, "high": 3e-6}
    absent = strategy(1e-6) | {"median_s": None, "samples_s": [], "predicted_s": time}
    rows = {"here/single": strategy(9e-6), "here/auto": strategy(1e-5)}
    rows |= {"rows/auto": strategy(2e-5), "there/auto": absent}
    given = {"run": "20260101-000000-aaaaab", "environment": ENVIRONMENT, "strategies": rows}
    mixed = Result.model_validate(
        given
        | {
            "experiment": study,
            "comparison": comparison(
                "here/single", ("here/auto", 1.1, True), ("rows/auto", 2.0, True)
            ),
        }
    )
    store(data_folder, mixed)
    shown = view.view(mixed.run)
    assert [len(spec["layer"][0]["data"]["values"]) for spec, _ in shown.times] == [3, 1]
    # what one device measures is of no variant, and stands before what is only predicted
    named = texts(shown.times_table, "Variant")
    assert named == ["here", "rows", "every variant", "there"]


def test_a_study_names_before_it_runs_how_many_programs_it_times_and_for_how_long(lab, data_folder):
    assert cost_words(STUDY) == "2 programs side by side"
    of_one = parse_experiment(LAYER | {"timing": {"processes": 1}})
    store(
        data_folder,
        RESULT.model_copy(update={"experiment": of_one, "comparison": None, "strategies": {}}),
    )
    took_s = lab.last_took_s(STUDY)
    assert took_s < 1
    assert STUDY.processes == 3 and cost_words(STUDY) == (
        "2 programs side by side: about 5 s, up to 5 s while a verdict stays open"
    )


def test_the_program_that_is_shown_first_is_that_of_the_fastest_row(monkeypatch):
    drawn = []
    monkeypatch.setattr(questions.viewer, "show", lambda run, names, key: drawn.append(names))
    monkeypatch.setattr(questions.selected, "of", lambda result: ("", None))
    questions._program(SimpleNamespace(result=RESULT))
    (names,) = drawn
    assert list(names) == ["[b](c)/auto", "in over x/auto"]
