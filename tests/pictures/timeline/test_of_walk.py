"""The timeline of a compiled loop: its scenes, its waits, who needs whom."""

import json
from dataclasses import replace

import pytest

from spmd_core.base import RequestError, seconds_text
from spmd_core.facts import Collective
from spmd_core.pictures import from_text, mix, to_text
from spmd_core.words.timeline import names_of, path_words, row_words
from spmd_lab.ui.timeline.data import (
    component_data,
    drawn_kind,
    lanes_of,
    scene_summary,
    scene_words,
)
from tests.pictures.timeline.values import EXPOSED, THIN, predicted, timeline

FOUND = timeline()


def by_name(scene):
    return {span.name: span for span in scene.spans if span.kind != "exposed"}


def test_a_loop_is_a_span_of_the_whole_and_a_scene_of_its_own():
    whole, body = FOUND.scenes
    (loop,) = whole.spans
    assert (loop.kind, loop.inside, whole.times) == ("loop", 1, 1)
    assert (body.times, body.parent) == (10, 0)
    assert body.length_s * body.times == pytest.approx(loop.length_s)
    assert min(span.start_s for span in body.spans) == 0


def test_each_operation_says_what_it_needs_and_moves():
    body = FOUND.scenes[1]
    spans, at = by_name(body), [span.name for span in body.spans]
    assert [at[each] for each in spans["after"].needs] == ["beside"]
    assert spans["beside"].flops == 2 * 4096**3
    assert spans["begin"].nbytes == 4096 * 4096 * 2 and spans["begin"].is_communication
    assert spans["after"].line == "after = bf16[4096,4096] convolution(y, end)"
    assert body.rows[spans["after"].row] == "chip" and body.rows[spans["begin"].row] != "chip"


def test_what_is_waited_for_is_exposed_where_the_chip_stands_still():
    body = timeline(EXPOSED).scenes[1]
    gather = by_name(body)["begin"]
    (wait,) = [span for span in body.spans if span.kind == "exposed"]
    assert wait.waits_for is not None and wait.waiter is not None
    assert body.spans[wait.waits_for] is gather
    assert body.spans[wait.waiter].name == "after"
    assert gather.exposed_s == pytest.approx(wait.length_s) and 0 < wait.length_s < gather.length_s
    ((low, high),) = gather.exposed
    assert (low, high) == pytest.approx((wait.start_s, wait.start_s + wait.length_s))


def test_waits_and_work_fill_the_chip_s_row():
    body = timeline(EXPOSED).scenes[1]
    row = sorted((span.start_s, span.end_s) for span in body.spans if span.row == 0)
    at = 0.0
    for start, end in row:
        assert start == pytest.approx(at)
        at = end
    assert at == pytest.approx(body.length_s)


def test_the_mix_of_a_loop_is_that_of_its_passes():
    found = timeline(EXPOSED)
    whole = mix(found, 0)
    assert set(whole) == {"memory", "matmul", "exposed"}
    assert sum(whole.values()) == pytest.approx(found.scenes[0].spans[0].length_s)


def test_a_kind_of_time_is_the_same_in_the_timeline_and_in_the_shares():
    found, timeline = predicted(THIN)
    thin = by_name(timeline.scenes[1])["thin"]
    assert thin.kind == "memory" and thin.flops == 2 * 16 * 4096**2
    assert (
        dict(zip(timeline.scenes[1].spans, names_of(timeline.scenes[1]), strict=True))[thin]
        == "layer, gate matmul"
    )
    shown = mix(timeline, 0)
    assert {"matmul", "memory"} <= set(shown)
    for kind in ("matmul", "memory"):
        assert shown[kind] == pytest.approx(found.shares_s[kind])


def test_the_whole_says_the_exposed_communication_that_the_prediction_says():
    found, timeline = predicted(EXPOSED)
    waits = sum(time for name, time in found.shares_s.items() if name.startswith("wait: all-"))
    assert waits > 0 and from_text(to_text(timeline)).scenes[0].exposed_s == pytest.approx(waits)
    assert f", {seconds_text(waits)} of it exposed communication" in scene_summary(timeline, 0)


def test_a_legend_names_what_is_drawn_in_a_scene_and_inside_its_loops():
    found = timeline(EXPOSED)
    step, inside = component_data(found, "exposed")["scenes"][:2]
    assert {*step["seen"]} >= {"matmul", "memory", "exposed"}
    assert {*inside["seen"]} <= {drawn_kind(span) for span in found.scenes[1].spans} | {"exposed"}
    first = found.scenes[0].spans[0]
    late = replace(first, kind="wait", inside=None, length_s=1e-6 * first.length_s)
    short = replace(found.scenes[0], spans=(*found.scenes[0].spans, late))
    other = replace(found, scenes=(short, *found.scenes[1:]))
    assert component_data(other, "late")["scenes"][0]["seen"] == step["seen"]
    long = replace(short, spans=(*short.spans, replace(late, length_s=first.length_s)))
    seen = component_data(replace(found, scenes=(long, *found.scenes[1:])), "long")["scenes"][0]
    assert {*seen["seen"]} == {*step["seen"], "wait"}


def test_what_the_screen_names_is_not_in_the_legend_again():
    found = timeline(EXPOSED)
    legend = dict(component_data(found, "named", (), ("matrix products",))["legend"])
    assert "matmul" not in legend and "memory" in legend


def test_lanes_are_named_by_the_mesh_axes_of_what_runs_on_them():
    found = timeline(EXPOSED)
    gather = Collective(kind="all-gather", axes=("fsdp",), bytes=8, count=1, name="begin")
    lanes = lanes_of(found, [gather])
    rows = component_data(found, "lanes", lanes)["scenes"][1]["rows"]
    assert rows[0] == "chip" and all(row.startswith("fsdp (links ") for row in rows[1:])
    assert lanes_of(found, []) == ()


def test_its_text_gives_the_same_timeline():
    text = to_text(FOUND)
    again = from_text(text)
    assert json.loads(to_text(again)) == json.loads(text)
    assert again.scenes[1].spans[0].name == FOUND.scenes[1].spans[0].name
    assert again.scenes[1].length_s == pytest.approx(FOUND.scenes[1].length_s)


def doctored(change):
    """The text with a scene changed as nobody but a forger would."""
    given = json.loads(to_text(FOUND))
    change(given["scenes"])
    return json.dumps(given)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"version": 2}', "1", '{"version": 1}', "[" * 100_000),
        doctored(lambda scenes: scenes[1].update(parent=1)),  # without an end
        doctored(lambda scenes: scenes[0].update(parent=1)),
        doctored(lambda scenes: scenes[0].update(length_s="long")),
        doctored(lambda scenes: scenes[0].update(length_s=10**400)),
        doctored(lambda scenes: scenes[1]["spans"].update(row=[0, 9, 0])),
        doctored(lambda scenes: scenes[1]["spans"].update(name=[["a"], {}, None])),
        doctored(lambda scenes: scenes.clear()),
    ],
)
def test_another_text_is_refused(text):
    with pytest.raises(RequestError, match="stored by another version: predict again"):
        from_text(text)


def test_names_that_a_person_knows():
    layer = "jit(train_step)/transpose(jvp(layers))/while/body/closed_call/checkpoint"
    assert path_words(f"{layer}/layer/gate/dot_general", "matmul") == "backward, layer, gate matmul"
    assert (
        path_words(f"{layer}/rematted_computation/layer/key/bse,ehd->bshd/dot_general", "matmul")
        == "recomputed, layer, key matmul"
    )
    assert (
        path_words("jit(step)/jvp()/dot_general", "matmul", "program.py:12 Model.logits")
        == "forward, logits matmul"
    )
    assert path_words("jit(train_step)/jvp(layers)/while", "loop") == "forward, layers"
    assert (
        path_words(
            "jit(f)/shard_map/vmap(jit(attend))/attention/fwd_kernel/pallas_call",
            "kernel",
            "",
            "fwd kernel",
        )
        == "attention kernel"
    )


def test_what_has_no_path_is_named_after_who_needs_it():
    body = FOUND.scenes[1]
    names = dict(zip((span.name for span in body.spans), names_of(body), strict=True))
    assert names["begin"] == "all-gather for matmul"
    assert scene_words(FOUND, 1) == "loop × 10" and scene_words(FOUND, 0) == "whole step"
    named = EXPOSED.replace(
        "convolution(%y, %end), dim_labels=bf_io->bf,",
        "convolution(%y, %end), dim_labels=bf_io->bf, "
        'metadata={op_name="jit(f)/jvp(out)/dot_general"},',
    )
    body = timeline(named).scenes[1]
    names = dict(zip((span.name for span in body.spans), names_of(body), strict=True))
    assert names["after"] == "forward, out matmul"


def test_rows_in_words():
    assert row_words("ici x++ici x-+ici y+") == "links along x, y"
    assert row_words("dcn") == "between slices" and row_words("chip") == "chip"
