"""Predict's mode for serving without a browser: the same answer as the command, and its links."""

import json
import re
from urllib.parse import parse_qsl

import pytest

from spmd_core.answers import (
    beaten_words,
    better_point,
    compiled_table,
    engine_words,
    kept_ranking,
    kept_serving,
    served_memory,
    served_mesh,
    served_points_headline,
    serving_assumptions,
    serving_headline,
    serving_table,
    waiting_table,
)
from spmd_core.base import bytes_text, number_text, seconds_text, span_text
from spmd_core.reports import html_text, search_document
from spmd_core.reports.document import Chart
from spmd_core.search import (
    CompiledDecode,
    frontier,
    read_serving,
    serve,
    serving_curves,
    with_compiled,
)
from spmd_core.sweeps import decode_points, served_points, with_steps
from spmd_core.sweeps.curves import Numbers
from spmd_core.trials.searching.searches import keep
from spmd_lab.ui.charts import shares
from spmd_lab.ui.serving import served as served_screen
from spmd_lab.ui.serving.frontier import placed
from tests.ui import errors, opened

LINK = {"show": "serving", "model": "qwen3-8b", "chips": "v6e:..4", "tpot": "30ms"}


def answer(**form):
    return serve(read_serving({"model": "qwen3-32b", "chips": "v6e:..16"} | form))


def plain(text):
    return text.replace("\\", "")


def headline(screen):
    return plain(screen.subheader[0].value)


def field(screen, label):
    return next(each for each in (*screen.text_input, *screen.selectbox) if each.label == label)


def test_a_link_answers_as_the_command_does(data_folder):
    screen = opened("predict", **LINK)
    asked = {name: text for name, text in LINK.items() if name != "show"}
    assert headline(screen) == serving_headline(answer(**asked)) and errors(screen) == ""
    tables = [each.value for each in screen.table]
    best = serving_table(answer(**asked), 12).rows[0]
    assert [plain(str(cell)) for cell in tables[0].iloc[0]][:2] == [cell.text for cell in best[:2]]


def test_first_the_question_of_a_model_that_people_know(data_folder):
    screen = opened("predict", show="serving")
    assert field(screen, "Model").value == "qwen3-32b"
    assert headline(screen) == serving_headline(answer(), is_figured=True)


def test_the_chips_that_are_tried_are_beside_their_field_and_empty_fields_have_examples(
    data_folder,
):
    def under(chips):
        screen = opened("predict", show="serving", model="qwen3-8b", chips=chips)
        return [plain(each.value) for each in screen.sidebar.caption], screen

    shown, screen = under("v6e:..16,h100:8")
    assert "1 to 16 v6e and 8 H100" in shown
    assert "4 TPU7x" in under("tpu7x:4")[0]
    assert field(screen, "Chips").placeholder == "v6e:..16"
    assert field(screen, "Time per token within").placeholder.endswith("40ms")


def layers_of(screen):
    return json.loads(screen.get("vega_lite_chart")[0].proto.spec)["layer"]


def test_the_picture_has_the_frontier_the_curve_of_the_answer_and_its_intervals(data_folder):
    screen, known = opened("predict", show="serving"), answer()
    curves, lead = serving_curves(known), known.lead
    band, others, own, *rest = layers_of(screen)
    speeds = [row["speed"] for row in band["data"]["values"]]
    assert speeds == [point.row.speed for _, point in frontier(curves)]
    counts = [row["count"] for row in own["data"]["values"]]
    assert counts == [f"{point.concurrency:,}" for point in curves[0].points]
    owners = {curves.index(curve) for curve, _ in frontier(curves)}
    assert {row["curve"] for row in others["data"]["values"]} == owners - {0}
    ends = next(each for each in rest if "y2" in each["encoding"])["data"]["values"][0]
    assert ends["low"] < lead.per_chip < ends["high"]
    dots = rest[1]["data"]["values"]
    assert {row["count"] for row in dots} == {"64"} and len(dots) == len(owners | {0})
    texts = [
        row.get(field)
        for each in rest
        for row in each["data"]["values"]
        for field in ("name", "spans", "count")
    ]
    assert "4 v6e, tensor=4" in texts and "with 64 requests at once" in texts
    assert f"{curves[0].points[-1].concurrency}: cache full" in texts
    better = better_point(known, curves)
    assert beaten_words(known, better) in [plain(each.value) for each in screen.markdown]
    press = next(each for each in screen.button if each.label.endswith("at once"))
    assert press.label == f"Serve {better.concurrency} at once"
    press.click().run()
    plan = better.row.plan
    assert f"{plan.topology.chips} v6e, {served_mesh(better.row)}" in headline(screen)
    assert field(screen, "Concurrency").value == str(better.concurrency)


def test_a_limit_is_a_line_in_the_picture(data_folder):
    (limit,) = (
        row
        for each in layers_of(opened("predict", **LINK))
        for row in each["data"]["values"]
        if each["mark"]["type"] == "rule"
        and "speed" in row
        and "curve" not in row
        and len(row) == 2
    )
    assert limit["speed"] == pytest.approx(1 / 0.03)


@pytest.mark.parametrize("wide", [0.19, 0.56])
@pytest.mark.parametrize("is_above", [True, False])
def test_names_in_the_picture_do_not_overlap_and_stay_inside(wide, is_above):
    line = [(speed, 8000 / speed - 60) for speed in range(120, 20, -10)]
    rows = [{"speed": speed, "rate": made, "name": str(speed)} for speed, made in line]
    own = {"speed": 35.0, "rate": 120.0, "name": "own"}
    names = placed(own, is_above, rows, line, ([20, 125], [0, 400]), wide)
    assert names[0]["name"] == "own" and len(names) > 2
    assert all(each["at"] >= each["speed"] - 0.06 * 105 for each in names[1:])
    for at, one in enumerate(names):
        assert 20 <= one["at"] <= 125 * 1.001 - wide * 105 or one["at"] == one["speed"]
        for other in names[:at]:
            apart = abs(one["at"] - other["at"]) > wide * 105
            assert apart or abs(one["height"] - other["height"]) > 0.09 * 400


def test_memory_is_what_weights_and_the_requests_that_run_take(data_folder):
    screen, lead = opened("predict", show="serving"), answer().lead
    bodies = [each.proto.body for each in screen.get("html")]
    (shown,) = (each for each in bodies if 'class="five"' in each)
    token, memory = (_bar(each) for each in bodies if 'class="split"' in each)
    pool, step = lead.pool, lead.served.step
    reserved, free = pool.capacity - pool.weights - pool.cache, pool.cache - lead.cache_used
    held = [pool.weights, lead.cache_used, reserved, free]
    assert [value for value, _ in memory] == [bytes_text(round(each)) for each in held]
    assert [share / 1000 for _, share in memory] == pytest.approx(
        [each / pool.capacity for each in held], abs=1e-3
    )
    seconds = [float(value.removesuffix(" ms")) for value, _ in token]
    assert sum(seconds) == pytest.approx(1e3 * lead.served.tpot_s, rel=0.01)
    assert sum(seconds[:-1]) == pytest.approx(1e3 * step.seconds, rel=0.01), "then the prompts"
    assert [share / 1000 for _, share in token] == pytest.approx(
        [each / sum(seconds) for each in seconds], abs=2e-3
    )
    assert "Ranked by" not in shown, "the headline names it"


@pytest.mark.parametrize("typed", ["v5p=4.2", "7x=12, h100=3", "v5p=4.2, v6e=2.7", "4.20"])
def test_a_price_typed_for_other_chips_refuses_no_question(data_folder, typed):
    screen = opened("predict")
    field(screen, "Price per chip-hour ($)").set_value(typed).run(timeout=60)
    screen.query_params["show"] = "serving"
    screen.run(timeout=60)
    own, shown = {"v5p=4.2, v6e=2.7": "2.7"}.get(typed, ""), typed
    if typed == "4.20":  # of the chip that Predict shows
        shown = "v5e=4.2"
    assert headline(screen) == serving_headline(answer(price=own), is_figured=True)
    assert errors(screen) == "" and field(screen, "Price per chip-hour ($)").value == shown


def test_a_question_that_lacks_a_price_shows_the_field(data_folder):
    screen = opened("predict", show="serving", price="v5p=4.2", chips="v6e:4,v5p:4")
    assert "v6e=4.2" in errors(screen)
    assert [(each.label, each.proto.expanded) for each in screen.expander] == [
        ("Change the question", True)
    ]


def test_fields_change_the_answer_and_the_link(data_folder):
    screen = opened("predict", show="serving")
    field(screen, "Concurrency").set_value("8").run(timeout=60)
    field(screen, "Prompt tokens").set_value("2048").run(timeout=60)
    field(screen, "Output tokens").set_value("256").run(timeout=60)
    changed = answer(concurrency="8", input="2048", output="256")
    assert headline(screen) == serving_headline(changed, is_figured=True)
    query = {
        name: str(screen.query_params[name]).strip("[]'")
        for name in ("concurrency", "input", "output")
    }
    assert query == {"concurrency": "8", "input": "2048", "output": "256"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("chips", "<b>x</b>", "chips"),
        ("input", "0", "is no number of tokens above 0"),
        ("tpot", "soon", "is not a time from 1us to 100000s"),
        ("mesh", "tensor=7", "does not divide"),
        ("weights_dtype", "fp4", "is not one of weights and cache"),
        ("model", "x" * 500, "does not exist"),
        ("chunk", "0", "Chunk of prompts '0' is out of range"),
        ("accepted", "-1", "Tokens accepted '-1' is out of range"),
        ("requests", "1.5", "is no whole number"),
        ("seed", "zz", "Seed 'zz' is no number"),
    ],
)
def test_a_bad_field_of_a_link_is_one_sentence_above_fields_that_work(
    name, text, words, data_folder
):
    screen = opened("predict", **(LINK | {name: text}))
    assert words in errors(screen) and len(screen.error) == 1
    assert field(screen, "Chips") and not screen.table


def test_a_wrong_field_keeps_the_answer_of_the_last_valid_fields_gray(data_folder):
    screen = opened("predict", **LINK)
    before = headline(screen)
    within = field(screen, "Time per token within")
    within.set_value("-5").run(timeout=60)
    assert "Time per token within '-5' is not a time from 1us" in errors(screen)
    assert headline(screen) == before
    assert "of the last fields that were valid" in " ".join(e.value for e in screen.caption)
    field(screen, "Time per token within").set_value("30").run(timeout=60)  # milliseconds
    assert not screen.error and headline(screen) == before


def test_the_views_of_predict_are_not_offered_beside_serving(data_folder):
    for link, offered in ((LINK, 0), ({}, 1)):
        groups = opened("predict", **link).get("button_group")
        assert sum(each.key == "predict:shown" for each in groups) == offered


def test_a_sweep_of_a_link_opens_with_the_best_of_each_value(data_folder):
    screen = opened("predict", **LINK, sweep="concurrency=1,32,0")
    asked = {name: text for name, text in LINK.items() if name != "show"}
    points = served_points(read_serving(asked), "concurrency=1,32,0", serve)
    assert f"**{served_points_headline(points)}**" in [
        plain(each.value) for each in screen.markdown
    ]
    table = next(each.value for each in screen.table if "Value" in each.value.columns)
    assert list(table["Value"]) == ["1", "32", "0"]
    assert "concurrency='0' is out of range" in plain(str(table["Why not"].iloc[2]))


def test_a_kept_answer_is_among_the_searches_of_history(data_folder):
    screen = opened("predict", **LINK)
    next(each for each in screen.button if each.label == "Keep").click().run(timeout=60)
    assert errors(screen) == ""
    (link,) = [each for each in screen.get("page_link") if each.proto.label == "Kept on History"]
    query = dict(parse_qsl(link.proto.query_string))
    history = opened("history", **query)
    shown = plain("\n".join(each.value for each in (*history.subheader, *history.markdown)))
    asked = {name: text for name, text in LINK.items() if name != "show"}
    assert serving_headline(answer(**asked)) in shown
    (again,) = [each for each in history.get("page_link") if "question" in each.proto.label]
    assert dict(parse_qsl(again.proto.query_string)) == LINK


def test_assumptions_are_those_of_the_command(data_folder):
    screen = opened("predict", **LINK)
    asked = {name: text for name, text in LINK.items() if name != "show"}
    lead = answer(**asked).best
    shown = plain("\n".join(each.value for each in screen.markdown))
    assert all(each in shown for each in serving_assumptions(lead))
    assert "Reading weights takes " in shown


def test_the_best_steps_are_compiled_by_a_press_and_stand_in_the_answer(data_folder):
    screen = opened("predict", **LINK)
    (button,) = [each for each in screen.button if each.label == "Compile 3 best decode steps"]
    assert not button.disabled
    asked = {name: text for name, text in LINK.items() if name != "show"}
    found = answer(**asked)
    points = decode_points(found, 3)
    changed = with_steps(found, points, [Numbers(True, step_s=9.0, peak_bytes=1)] * 3)
    assert {row.plan for row in changed.rows if row.compiled} == set(points)
    assert all(row.compiled.seconds == 9.0 for row in changed.rows if row.plan in points)
    compiled = [row.compiled for row in changed.rows if row.compiled]
    table = compiled_table(changed)
    assert [cell.text for cell in table.column("Compiled decode step")] == ["9.00 s"] * 3
    assert [cell.value for cell in table.column("Its estimate")] == [s.estimate for s in compiled]
    assert with_steps(found, points, [None] * 3) is found and compiled_table(found) is None
    large = with_steps(found, points, [Numbers(False, peak_bytes=2**36)] * 3)
    steps = [cell.text for cell in compiled_table(large).column("Compiled decode step")]
    assert steps == ["does not fit: takes 64.0 GiB"] * 3
    assert engine_words(found) == "" and changed.lead.compiled is None
    (first, *_) = decode_points(found, 1)
    slower = with_compiled(found, {first: CompiledDecode(0.0202, 0.02, 1, True)})
    assert slower.lead.plan == first and " 1.01 times its estimate" in engine_words(slower)
    times = slower.lead.served.step.seconds / found.lead.served.step.seconds
    assert times == pytest.approx(1.01), "and so do the times above"


def test_a_compiled_step_is_in_a_sweep_of_the_same_case_too(data_folder, monkeypatch):
    found = answer()
    points = decode_points(found, 3)
    changed = with_steps(found, points, [Numbers(True, step_s=9.0, peak_bytes=1)] * 3)
    monkeypatch.setattr(served_screen, "_compiled", lambda _: changed)
    screen = opened("predict", show="serving", sweep="concurrency=64")
    table = next(each.value for each in screen.table if "Value" in each.value.columns)
    cell = plain(str(table["Tokens/s per chip"].iloc[0]))
    assert cell == number_text(changed.lead.per_chip) != number_text(found.lead.per_chip)


@pytest.mark.parametrize("chips", ["v6e:..16", "tpu7x:4", "h100:8"])
def test_reading_takes_its_bytes_at_the_share_of_the_peak_rate(chips):
    lead = answer(chips=chips).lead
    rate, step = lead.plan.topology.chip.device_hbm_bandwidth, lead.served.step
    lines = [each for each in serving_assumptions(lead) if " of that rate is expected" in each]
    assert len(lines) == 2
    for line, name in zip(lines, ("weights", "cache"), strict=True):
        assert line.startswith(f"Reading {name} takes {seconds_text(step.parts[name])}")
        share = int(re.search(r"(\d+)% of that rate", line)[1])
        assert share == round(100 * step.read[name] / rate / step.parts[name])
        assert 0 < share <= 100


def test_the_answer_is_marked_above_all_others_with_as_many_requests(data_folder):
    layers = layers_of(opened("predict", show="serving"))
    rows = [row for each in layers for row in each["data"]["values"]]
    (most,) = {
        row["rate"] for row in rows if row.get("count") == "no other makes more with 64 at once"
    }
    dots = [
        row for row in rows if row.get("count") == "64" and row.get("kind") == "other shardings"
    ]
    assert dots and max(row["rate"] for row in dots) <= most


def test_memory_that_is_short_is_named_beside_all_of_a_device(data_folder):
    found = answer(chips="v5e:1")
    pool = found.emptiest.pool
    said = serving_headline(found)
    assert f"{bytes_text(pool.weights)} a device" in said and bytes_text(pool.capacity) in said
    assert bytes_text(pool.weights + pool.cache) in said and "use more chips" in said


def test_where_no_number_of_chips_helps_a_press_takes_narrower_weights(data_folder):
    asked = {"model": "llama-3.1-405b", "chips": "h100:8"}
    assert "more chips" not in serving_headline(answer(**asked))
    screen = opened("predict", show="serving", **asked)
    screen.button(key="serving:narrower").click().run()
    assert not screen.exception and "Nothing here holds" not in headline(screen)


def test_loads_say_how_many_requests_wait(data_folder):
    screen = opened("predict", show="serving")
    assert any(each.value.startswith("Other loads on 4 v6e") for each in screen.subheader)
    loads = [(load, row.served) for load, row in answer().by_load if row.served]
    waits = [served.waiting for _, served in loads]
    (cells,) = (
        each.proto.body for each in screen.get("html") if 'class="stacked"' in each.proto.body
    )
    assert any(waits) and cells.count(" wait<") == sum(map(bool, waits))
    for load, served in loads:
        if served.waiting:
            assert served.running + served.waiting == load.concurrency
            assert f">{served.running:,} run, {served.waiting:,} wait<" in cells


def test_loads_that_miss_a_limit_are_marked_in_their_cell(data_folder):
    form = {"model": "qwen3-32b", "chips": "v6e:..16", "tpot": "15ms"}
    screen = opened("predict", show="serving", **form)
    html = next(each.proto.body for each in screen.get("html") if "stacked" in each.proto.body)
    rows = [row.served for _, row in serve(read_serving(form)).by_load]
    late = [each.waiting for each in rows if each.tpot.estimate > 0.015]
    assert any(late) and not all(late) and html.count("misses 15 ms each") == len(late)


def test_figures_of_the_answer_have_their_intervals_and_one_unit_of_speed_each(data_folder):
    screen = opened("predict", **LINK)
    asked = {name: text for name, text in LINK.items() if name != "show"}
    lead = answer(**asked).lead
    (shown,) = (each.proto.body for each in screen.get("html") if 'class="five"' in each.proto.body)
    assert ">Output tokens/s per chip<" in shown and "tokens/s<" not in shown
    assert f">{span_text(lead.served.ttft.low, lead.served.ttft.high)}<" in shown
    ends = re.search(r"<small>80% range ([\d.,]+) to ([\d.,]+)</small>", shown).groups()
    low, high = (float(each.replace(",", "")) for each in ends)
    assert low < lead.per_chip < high
    drawn = [getattr(each, "label", each.type) for each in screen.main]
    assert drawn.index("Compile 3 best decode steps") < drawn.index("vega_lite_chart")


def test_the_button_of_the_menu_has_the_name_of_the_screen(data_folder):
    screen = opened("predict", **LINK)
    (menu,) = [
        each for each in screen.get("popover") if ":material/menu:" in each.proto.popover.icon
    ]
    assert menu.proto.popover.label == "Serving"


def test_each_kind_of_chips_that_is_asked_is_on_the_screen(data_folder):
    screen = opened("predict", **LINK | {"chips": "v6e:4,v5e:4"})
    kinds = screen.table[0].value
    assert [plain(str(each)) for each in kinds["Chips"]] in (["4 v6e", "4 v5e"], ["4 v5e", "4 v6e"])
    assert len(opened("predict", **LINK).table[0].value) > 2  # of one kind, its meshes


def test_a_narrow_chart_names_the_answer_in_fewer_words(data_folder):
    rows = [
        row["spans"]
        for layer in layers_of(opened("predict", show="serving"))
        for row in layer["data"]["values"]
        if row.get("name") == "4 v6e, tensor=4" and "height" in row
    ]
    assert {"with 64 requests at once", "64 at once"} == {*rows}


def test_where_nothing_holds_the_weights_a_press_serves_on_chips_that_do(data_folder):
    screen = opened("predict", show="serving", model="llama-3.1-70b", chips="v5e:8")
    button = screen.button(key="serving:more-chips")
    assert f"Fits on {button.label.removeprefix('Serve on ')}:" in "".join(
        plain(each.value) for each in screen.markdown
    )
    button.click().run()
    assert not screen.exception and "Nothing here holds" not in "".join(
        each.value for each in screen.subheader
    )


@pytest.mark.parametrize("chips", ["v6e:8", "v6e:..16"])
def test_what_makes_more_while_requests_wait_is_a_table_of_the_card(data_folder, chips):
    asked = {"model": "qwen3-32b", "chips": chips, "concurrency": "256"}
    screen, table = opened("predict", show="serving", **asked), waiting_table(answer(**asked))
    assert (table is not None) is ("where all 256 run" in headline(screen))
    shown = [
        [plain(text).replace("\u00a0", " ") for text in each.value.to_numpy().ravel()]
        for each in screen.table
    ]
    assert table is None or [cell.text for row in table.rows for cell in row] in shown


def _bar(body):
    """Returns what is named of each part of a bar, and its width in thousandths."""
    widths = [int(each) for each in re.findall(r'style="flex:(\d+)', body)]
    return list(zip(re.findall(r"<b>(.*?)</b>", body), widths, strict=True))


@pytest.mark.parametrize("form", [{}, {"chips": "v6e:8", "concurrency": "256"}])
def test_a_kept_answer_has_the_time_and_memory_of_its_screen(data_folder, lab, form):
    given = answer(**form)
    kept, lead = kept_serving(given, 1e9), given.lead
    keep(lab, kept)
    screen = opened("predict", show="serving", model="qwen3-32b", **{"chips": "v6e:..16"} | form)
    page = opened("history", searches=kept.id)
    bars = [each.proto.body for each in screen.get("html") if 'class="split"' in each.proto.body]
    assert len(bars) >= 2 and {*bars[:2]} <= {each.proto.body for each in page.get("html")}
    held = bytes_text(sum(served_memory(lead).values()))
    table = kept_ranking(kept)
    assert table.column("Memory per device")[0].text == held and len(table.columns) <= 6
    assert any(
        held in figure for figure in map(str, (each.proto.body for each in screen.get("html")))
    )
    blocks = search_document(kept, {}).blocks
    assert held in html_text(search_document(kept, {}))
    (chart,) = (each for each in blocks if isinstance(each, Chart))
    assert sum(bar.middle for bar in chart.bars) == pytest.approx(lead.served.tpot_s, rel=0.05)


def test_an_answer_that_was_kept_without_its_parts_has_its_table_and_name():
    kept = kept_serving(answer(), 1e9)
    older = kept.model_copy(update={"token_s": {}, "held_bytes": {}, "capacity_bytes": 0})
    assert older.digest == kept.digest and not older.is_drawn
    assert not [each for each in search_document(older, {}).blocks if isinstance(each, Chart)]
    foreign = kept.model_copy(update={"token_s": {"sorcery": 1.0}})
    assert "sorcery" in shares.token_bar(foreign.token_s)
