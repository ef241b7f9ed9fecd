"""Which sharding serves: the best by limits, by price, by chips; what is about even; what is missed."""

from dataclasses import replace

import pytest

from spmd_core.answers import (
    PART_NAMES,
    SERVING_LOADS,
    copies_figure,
    kinds_table,
    served_mesh,
    served_points_headline,
    served_points_table,
    serving_figures,
    serving_headline,
    serving_json,
    serving_rivals,
    serving_table,
    why_not_served,
)
from spmd_core.answers.serving_chips import served_kinds
from spmd_core.base import RequestError, bytes_text
from spmd_core.plan import ServedPlan
from spmd_core.search import CompiledDecode, ServingQuestion, read_serving, serve, with_compiled
from spmd_core.sweeps import served_points
from spmd_core.sweeps.serving import decode_experiment
from spmd_core.time import Lengths, ServingLoad

THOUSAND = Lengths(1024, 1024)
LOAD = ServingLoad(THOUSAND, THOUSAND, 64)
ASKED = ServingQuestion("qwen3-32b", ("v6e:..16",), LOAD, 2.0, 0.04, price=(("v6e", 2.7),))


@pytest.fixture(scope="module")
def answer():
    return serve(ASKED)


def test_the_best_is_the_cheapest_that_keeps_the_limits(answer):
    best = answer.best
    keeping = [row for row in answer.rows if row.keeps]
    assert best in keeping and best.chips == min(row.chips for row in keeping)
    alike = [row for row in keeping if row.chips == best.chips]
    assert best.per_chip == max(row.per_chip for row in alike)
    for row in keeping:
        assert row.served.tpot_s <= 0.04 and row.served.ttft_s <= 2 and not row.served.waiting
    for row in answer.rows:
        if row.served and not row.keeps:
            over = row.served.tpot_s > 0.04 or row.served.ttft_s > 2 or row.served.waiting
            assert over, row


def test_prices_decide_between_kinds_and_chips_without_them():
    question = ServingQuestion("qwen3-8b", ("v6e:..8", "h100:..8"), LOAD, None, 0.05)
    fewest = serve(question).best
    assert fewest.chips == 1
    dear = serve(replace(question, price=(("v6e", 0.01), ("h100", 50.0)))).best
    assert dear.plan.topology.chip.generation == "v6e"
    other = serve(replace(question, price=(("v6e", 500.0), ("h100", 0.01)))).best
    assert other.plan.topology.chip.generation == "h100"
    assert other.per_million() == pytest.approx(
        other.chips * 0.01 / 3600 / other.served.output_per_s * 1e6
    )


def test_a_limit_inside_of_the_interval_is_about_even(answer):
    best = answer.best
    near = serve(replace(ASKED, ttft_s=None, tpot_s=best.served.tpot_s * 1.01, chips=("v6e:4",)))
    assert near.best and near.best.even and near.best.verdict == "about even"
    assert serving_headline(near).startswith("4 v6e, tensor=4 may keep ")
    clear = serve(replace(ASKED, ttft_s=None, tpot_s=best.served.tpot_s * 3, chips=("v6e:4",)))
    assert not clear.best.even and clear.best.verdict == "keeps"


def test_limits_that_nothing_keeps_name_the_nearest():
    missed = serve(replace(ASKED, tpot_s=0.001))
    assert missed.best is None
    serving = [row for row in missed.rows if row.served and not row.served.waiting]
    assert missed.nearest.served.tpot_s == min(row.served.tpot_s for row in serving)
    assert serving_headline(missed).startswith("Nothing keeps 2 s first, 1 ms each: nearest")
    assert serving_json(missed)["best"] is None and serving_json(missed)["nearest"]


def test_a_limit_that_no_row_keeps_but_one_may_is_about_even(answer):
    question = replace(
        ASKED, ttft_s=None, tpot_s=answer.best.served.tpot_s * 0.99, chips=("v6e:4",)
    )
    near = serve(question)
    assert near.best.even and near.best.verdict == "about even"
    assert serving_headline(near).startswith("4 v6e, tensor=4 may keep ")


def test_more_devices_than_a_replica_takes_have_an_answer():
    for chips in ("v6e:128", "tpu7x:64"):
        found = serve(ServingQuestion("qwen3-8b", (chips,), replace(LOAD, concurrency=16)))
        assert found.best and {load.concurrency for load, _ in found.by_load} >= {1, 16, 256}


def test_a_rate_is_kept_up_with_or_said_not_to_be():
    question = ServingQuestion("qwen3-8b", ("v6e:..8",), replace(LOAD, rate=4.0), tpot_s=0.04)
    kept = serve(question)
    assert kept.best.served.output_per_s == 4.0 * 1024 and kept.best.served.waiting == 0
    alike = [row for row in kept.rows if row.keeps and row.chips == kept.best.chips]
    assert len(alike) > 1 and kept.best.served.tpot_s == min(row.served.tpot_s for row in alike)
    drawn = replace(LOAD, rate=1.0, input=Lengths(256, 4096), output=Lengths(256, 4096))
    rows = serve(replace(question, load=drawn, tpot_s=None, chips=("v6e:8",))).rows
    assert {row.served.output_per_s for row in rows} == {2176.0}
    beyond = serve(replace(question, load=replace(LOAD, rate=100.0)))
    assert beyond.best is None and all(row.served.waiting for row in beyond.rows if row.served)
    assert serving_headline(beyond).startswith("Nothing keeps up with 100 requests a second")


def test_the_table_by_load_has_no_lengths_beyond_the_model_and_no_mesh_without_room():
    question = ServingQuestion("llama-2-7b", ("v6e:4",), LOAD)
    assert {load.longest for load, _ in serve(question).by_load} == {2048}
    question = ServingQuestion("gemma-3-27b", ("v5e:4",), LOAD)
    short = replace(question, load=ServingLoad(Lengths(16, 16), Lengths(16, 16), 1))
    answer = serve(short)
    named = SERVING_LOADS.table(answer.by_load, "screen").column("Best sharding")
    assert {row.served is None for _, row in answer.by_load} == {True, False}
    for (_, row), cell in zip(answer.by_load, named, strict=True):
        assert ("=" in cell.text) is (row.served is not None)


def test_the_nearest_lets_no_request_wait_that_need_not():
    few = serve(replace(ASKED, tpot_s=1e-6, load=replace(LOAD, concurrency=256)))
    waiting = {row.served.waiting for row in few.rows if row.served}
    assert len(waiting) > 1 and few.nearest.served.waiting == min(waiting)


def test_what_no_pool_holds_is_said():
    none = serve(replace(ASKED, chips=("v6e:1",)))
    assert none.best is None and none.nearest is None and none.by_load == ()
    weights = none.rows[0].pool
    room = bytes_text(weights.weights + weights.cache)
    assert serving_headline(none) == (
        f"Nothing here holds the bf16 weights, {bytes_text(weights.weights)} a device, in {room} "
        f"of its {bytes_text(weights.capacity)}: use more chips."
    )
    long = replace(LOAD, input=Lengths(20000, 20000), output=Lengths(20000, 20000), concurrency=1)
    full = replace(ASKED, model="qwen3-14b", chips=("v6e:1",), ttft_s=None, load=long)
    assert serving_headline(serve(replace(full, kv_dtypes=("fp8",)))).startswith(
        "Nothing here holds"
    )


@pytest.mark.parametrize(
    ("model", "chips"),
    [("qwen3-14b", "v6e:1"), ("deepseek-v3-671b", "h200:8"), ("llama-3.1-405b", "v6e:8")],
)
def test_the_dtypes_that_a_refusal_offers_are_those_that_hold_a_request(model, chips):
    short = ServingLoad(Lengths(16, 16), Lengths(16, 16), 1)
    asked = replace(ASKED, model=model, chips=(chips,), load=short, tpot_s=None, price=())
    refused = serve(asked)
    assert refused.nearest is None
    offered = serving_headline(refused).partition("weights in ")[2]
    for dtype in ("fp8", "int8"):
        holds = serve(replace(asked, weights_dtypes=(dtype,))).nearest is not None
        assert (dtype in offered) is holds, dtype


def test_the_front_has_no_row_that_another_beats_twice(answer):
    front = answer.front
    assert answer.best in front
    assert not any(row.served.waiting for row in front), "each runs all requests at once"
    for row in answer.rows:
        if row.served and not row.served.waiting:
            assert any(each.per_chip >= row.per_chip and each.speed >= row.speed for each in front)


def test_the_best_by_load_changes_with_the_load():
    question = ServingQuestion("qwen3-30b-a3b", ("tpu7x:4",), LOAD)
    found = {
        (load.input.low, load.concurrency): row.plan.mesh for load, row in serve(question).by_load
    }
    assert len(set(found.values())) > 1 and (1024, 64) in found and (8192, 256) in found


@pytest.mark.parametrize(
    ("model", "chips", "tpot"),
    [("qwen3-32b", "v5p:..16", None), ("qwen3-32b", "v5p:..16", 0.005), ("qwen3-8b", "v5p:4", None),
     ("gpt-oss-120b", "tpu7x:8", None), ("qwen3-8b", "v5e:32", 0.02)],
)  # fmt: skip
def test_a_cell_of_the_table_by_load_is_the_answer_to_its_load(model, chips, tpot):
    answer = serve(ServingQuestion(model, (chips,), LOAD, tpot_s=tpot))
    own = next(row for load, row in answer.by_load if load == LOAD)
    assert own == answer.lead, "the same question twice on one screen"
    here = replace(answer.question, chips=(answer.lead.plan.topology.name,))
    for load, row in answer.by_load:
        assert row == serve(replace(here, load=load)).lead, load


def test_why_not_says_what_tensor_repeats():
    question = ServingQuestion("qwen3-30b-a3b", ("tpu7x:4",), replace(LOAD, concurrency=256))
    said = [each for each in why_not_served(serve(question)) if "repeats 4 key heads" in each]
    assert said and all("the pool holds" in each for each in said)


def test_why_not_tells_a_compiled_step_that_does_not_fit_from_weights_that_do_not():
    found = serve(ServingQuestion("qwen3-8b", ("v6e:4",), LOAD))
    first = found.rows[0].plan
    full = with_compiled(found, {first: CompiledDecode(0.01, 0.01, 40 * 2**30, False)})
    (said,) = [each for each in why_not_served(full) if "does not fit" in each]
    assert said.endswith("does not fit: its compiled decode step takes 40.0 GiB.")


def test_why_not_names_the_kinds_of_chips_that_lack_a_dtype():
    question = ServingQuestion("qwen3-8b", ("v5e:8", "h100:8"), LOAD, weights_dtypes=("fp8",))
    said = why_not_served(serve(question))
    assert said[0] == "TPU v5e is left out: it has no unit for fp8."


def test_sheets_have_the_numbers_of_their_rows(answer):
    table = serving_table(answer, 99)
    assert len(table.rows) == len(answer.rows)
    for name, of in {
        "Time per token": lambda row: row.served and row.served.tpot_s,
        "First token, mean": lambda row: row.served and row.served.ttft_s,
        "Tokens/s per chip": lambda row: row.per_chip or None,
        "Pool, tokens": lambda row: row.pool.tokens,
        "Wait": lambda row: row.served and row.served.waiting,
    }.items():
        assert [cell.value for cell in table.column(name)] == [of(row) for row in answer.rows]
    meshes = [cell.text for cell in table.column("Mesh")]
    assert [text for text in meshes if text.endswith(", best")] == [meshes[0]]
    assert len(SERVING_LOADS.table(answer.by_load, "screen").rows) == len(answer.by_load)
    titles = [each.title for each in serving_figures(answer.best, answer.question.load)]
    assert titles == ["Chips", "Mesh", "Time per token", "Tokens/s per chip", "Decode step"]


def test_the_json_has_every_key_of_the_contract(answer):
    found = serving_json(answer)
    keys = {
        *("target", "mesh", "replicas", "weights_dtype", "kv_dtype", "tpot_s", "ttft_s"),
        *("tokens_per_s_per_chip", "price_per_million_tokens", "kv_pool_tokens", "waiting"),
        *("binds", "fate", "fits", "tpot_low_s", "tpot_high_s", "ttft_p99_s"),
    }
    for row in (found["best"], *found["rows"]):
        assert keys <= set(row)
        assert row["fits"] is (row["tpot_s"] is not None)
    by_load = found["best_by_concurrency"]
    assert all(set(each) == {"concurrency", "input", "output", "row"} for each in by_load)
    assert found["question"]["model"] == "qwen3-32b"
    free = serving_json(serve(replace(ASKED, price=(), chips=("v6e:4",))))
    assert free["best"]["price_per_million_tokens"] is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"load": replace(LOAD, input=Lengths(0, 0))}, "input=0 is out of range"),
        ({"load": replace(LOAD, concurrency=0)}, "concurrency=0 is out of range"),
        (
            {"load": replace(LOAD, input=Lengths(40960, 40960))},
            "more than the 40,960 that qwen3-32b",
        ),
        ({"weights_dtypes": ("fp8",), "chips": ("v5p:4",), "price": ()}, "fp8 is not for TPU v5p"),
        ({"mesh": (("tensor", 3),)}, "does not divide"),
        ({"model": "qwen4"}, "model 'qwen4'"),
        ({"price": (("h100", 1.0),)}, "price h100=1 is of chips that are not asked for"),
        ({"chips": ("v6e:4", "v5p:4")}, "price v6e needs one for v5p: add the price"),
        (
            {"load": replace(LOAD, accepted=5000.0)},
            "accepted=5000 is out of range: use 1 to 1,024",
        ),
        (
            {"load": replace(LOAD, concurrency=65536), "chips": ("any:..256",), "price": ()},
            "plans for 65,536 requests at once are too many to simulate",
        ),
    ],
)
def test_a_question_without_an_answer_is_refused_in_a_sentence(given, words):
    with pytest.raises(RequestError, match=words):
        serve(replace(ASKED, **given))


@pytest.mark.parametrize("model", ["qwen3-8b", "deepseek-v3-671b", "gpt-oss-20b"])
@pytest.mark.parametrize("chips", ["v6e:1", "tpu7x:..16", "h100:8", "v6e:..4,h100:..16"])
def test_a_mesh_that_no_one_can_read_is_refused_with_one_that_is_taken(model, chips):
    form = {"model": model, "chips": chips, "concurrency": "4"}
    with pytest.raises(RequestError, match=r"is not a list of axes: write for example (.+)") as bad:
        read_serving(form | {"mesh": "8x4"})
    taken = str(bad.value).rpartition("example ")[2]
    serve(read_serving(form | {"mesh": taken}))


@pytest.mark.parametrize("tensor", [3, 16])
@pytest.mark.parametrize("chips", ["v6e:8", "v6e:..8"])
def test_a_mesh_beyond_the_chips_is_refused_with_sizes_that_are_taken(tensor, chips):
    form = {"model": "qwen3-8b", "chips": chips}
    with pytest.raises(RequestError, match=r"sizes that multiply to one of 1, 2, 4, 8$") as bad:
        serve(read_serving(form | {"mesh": f"tensor={tensor}"}))
    for size in str(bad.value).rpartition("one of ")[2].split(", "):
        serve(read_serving(form | {"mesh": f"data={size}"}))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("40ms", 0.04), ("0.04s", 0.04), ("0.04", 0.04), ("2s", 2), ("900us", 9e-4)],
)
def test_a_limit_has_a_unit_or_is_below_a_second(text, seconds):
    form = {"model": "qwen3-8b", "chips": "v6e:8"}
    for name in ("ttft", "tpot"):
        asked = read_serving(form | {name: text})
        assert getattr(asked, f"{name}_s") == pytest.approx(seconds)
    assert read_serving(form | {"tpot": "40"}).tpot_s == pytest.approx(0.04)
    with pytest.raises(RequestError, match="tpot='200000000' is not a time from 1us"):
        read_serving(form | {"tpot": "200000000"})
    with pytest.raises(RequestError, match="ttft=40 names no unit: write 40ms or 40s"):
        read_serving(form | {"ttft": "40"})


def test_every_headline_has_at_most_twenty_words(answer):
    for given in ({}, {"price": ()}, {"ttft_s": None, "tpot_s": None}, {"tpot_s": 0.001},
                  {"chips": ("v6e:1",)}, {"load": replace(LOAD, concurrency=4096)}):  # fmt: skip
        assert len(serving_headline(serve(replace(ASKED, **given))).split()) <= 20
    chips = ("tpu7x:16",)
    wide = replace(ASKED, model="qwen3-30b-a3b", chips=chips, price=(("tpu7x", 5.0),))
    mesh = (("data", 2), ("tensor", 4), ("expert", 8))
    for each in (0.04, 0.0001, serve(replace(wide, mesh=mesh)).best.served.tpot_s):
        for load in (LOAD, replace(LOAD, rate=2.0), replace(LOAD, rate=1e4)):
            said = serving_headline(serve(replace(wide, mesh=mesh, tpot_s=each, load=load)))
            assert len(said.split()) <= 20, said


def test_why_not_names_what_takes_longer_for_a_token(answer):
    question = ServingQuestion("deepseek-v3-671b", ("b200:8",), replace(LOAD, concurrency=512))
    found = serve(replace(question, weights_dtypes=("fp8",)))
    lead = found.lead
    for row, said in ((row, said) for row in found.rows for said in why_not_served(found)):
        if row.served and said.startswith(f"{served_mesh(row)} ") and "most by" in said:
            name = next(n for n, words in PART_NAMES.items() if said.endswith(f"by {words}."))
            more = [each.served.step.parts[name] / each.served.running for each in (row, lead)]
            assert more[0] > more[1], said


def test_a_compiled_step_takes_the_place_of_the_estimate_and_may_not_fit(answer):
    first, second = (row for row in answer.rows[:2])
    step = decode_experiment(ASKED, first).served
    assert (step.requests, step.slots) == (first.served.running, 2048)
    estimate = first.served.step_s
    slow = {first.plan: CompiledDecode(3 * estimate, estimate, 10**9, True)}
    slower = with_compiled(answer, slow)
    row = next(row for row in slower.rows if row.plan == first.plan)
    assert row.served.tpot_s > 2 * first.served.tpot_s and row.compiled.seconds == 3 * estimate
    assert slower.best.plan == second.plan, "the first misses its limit now"
    at = {load.concurrency: row for load, row in slower.by_load if load.input == LOAD.input}
    assert at[LOAD.concurrency].compiled is None, "the table by load knows it too"
    full = with_compiled(answer, {first.plan: CompiledDecode(estimate, estimate, 10**12, False)})
    row = next(row for row in full.rows if row.plan == first.plan)
    assert (row.verdict, row.served) == ("does not fit", None) and full.best.plan == second.plan
    fast = with_compiled(answer, {first.plan: CompiledDecode(1e-9, estimate, 10**9, True)})
    row = next(row for row in fast.rows if row.plan == first.plan)
    assert row.served.step_s >= 0.999 * row.served.step.least > 1e-4


@pytest.mark.parametrize("model", ["deepseek-v3-671b", "llama-3.1-405b"])
def test_where_nothing_holds_the_weights_the_mesh_that_lacks_least_is_first(model):
    rows = serve(ServingQuestion(model, ("h100:4", "h100:8"), LOAD)).rows
    assert not any(row.served for row in rows)
    order = [(row.chips, row.pool.weights) for row in rows if row.pool]
    assert order == sorted(order) and len({weights for _, weights in order}) > 2


def test_each_kind_that_is_asked_has_a_row_with_its_best_or_why_none():
    asked = replace(ASKED, chips=("v5e:4", "v6e:4", "b200:2"), tpot_s=0.03, ttft_s=None)
    asked = replace(asked, price=(("v5e", 1.2), ("v6e", 2.7), ("b200", 5.5)))
    found = serve(asked)
    kinds = {each.kind: each for each in served_kinds(found)}
    assert [*kinds] and {*kinds} == {"v5e", "v6e", "b200"}
    assert next(iter(kinds.values())).row is found.lead
    leads = [found.rows.index(each.row) for each in kinds.values() if each.row]
    assert leads == sorted(leads), "the better kinds first"
    table = kinds_table(found)
    assert len(table.rows) == 3 and all(cell.text for cell in table.column("Limits"))
    for each in kinds.values():
        own = [row for row in found.rows if row.plan.topology.chip.generation == each.kind]
        assert each.row in own if each.row else not any(row.served for row in own)
    fp8 = serve(replace(ASKED, chips=("v5e:8", "h100:8"), weights_dtypes=("fp8",), price=()))
    (left,) = [each for each in served_kinds(fp8) if each.kind == "v5e"]
    assert left.row is None and left.why == "it has no unit for fp8"


def test_weights_are_over_the_mesh_of_a_replica_and_copied_over_replicas():
    plan = ServedPlan(model="qwen3-8b", target="tpu:v6e:2x4", mesh=(("data", 2), ("tensor", 2)))
    assert copies_figure(plan)[1:3] == ("mlp over 4 chips", "attention over 2, 2 copies")
    alone = ServedPlan(model="qwen3-8b", target="tpu:v6e:2x2", mesh=(("tensor", 1),))
    assert copies_figure(alone)[1:3] == ("on each chip", "4 copies")


@pytest.mark.parametrize("chips", ["v6e", "v5e", "7x"])
def test_replicas_serve_as_many_tokens_per_chip_as_one_of_them_alone(chips):
    """Each runs on a slice of its own, wherever it lies among the chips of all."""
    each = {"model": "qwen3-8b", "chips": f"{chips}:8", "concurrency": "32"}
    alone = {
        row.plan.mesh: row.per_chip
        for row in serve(read_serving(each)).rows
        if row.served and row.plan.replicas == 1
    }
    twice = serve(read_serving(each | {"chips": f"{chips}:16", "concurrency": "64"})).rows
    compared = [row for row in twice if row.served and row.plan.replicas == 2]
    assert len(compared) > 2
    for row in compared:
        assert row.per_chip == pytest.approx(alone[row.plan.mesh], rel=1e-6), row.plan.mesh


def test_all_words_that_name_no_chips_are_named():
    with pytest.raises(RequestError) as refused:
        read_serving({"model": "qwen3-8b", "chips": "v6e:7, foo:3"})
    assert "v6e:7" in str(refused.value) and "foo:3" in str(refused.value)


def test_a_short_table_has_the_rows_that_make_more_and_no_column_that_is_the_same_in_each(answer):
    table = serving_table(answer, 3)
    made = [cell.value for cell in table.column("Tokens/s per chip")]
    left_out = sorted((row.per_chip or 0.0 for row in answer.rows), reverse=True)
    assert all(each in made for each in left_out if each > min(made[:3]))
    for name in ("Limits", "Wait", "Weights", "Cache"):
        assert name not in table.columns or len({cell.text for cell in table.column(name)}) > 1
    assert {"Weights", "Cache"}.isdisjoint(table.columns)


def test_limits_are_a_column_only_where_the_question_has_some():
    form = {"model": "qwen3-32b", "chips": "v6e:8", "concurrency": "256"}
    for limits in ({}, {"tpot": "60ms"}):
        table = serving_table(serve(read_serving(form | limits)), 12)
        assert ("Limits" in table.columns) is bool(limits)
        assert "Wait" in table.columns


def test_a_sweep_names_the_values_at_which_others_could_win():
    form = {"model": "qwen3-32b", "chips": "v6e:..16"}
    for limits in ({}, {"tpot": "40ms"}):
        points = served_points(read_serving(form | limits), "concurrency=1,4,64,256", serve)
        unsure = [each.value for each in points if serving_rivals(each.answer)]
        _, found, named = served_points_headline(points).partition(" Not settled at ")
        assert bool(found) is bool(unsure) is not bool(limits)
        if found and len(unsure) < len(points):
            assert all(each in named.partition(":")[0] for each in unsure)


@pytest.mark.parametrize(
    ("limits", "swept", "has_limits"),
    [
        ({}, "concurrency=1,64", False),
        ({"tpot": "14ms"}, "concurrency=1,64", True),
        ({}, "tpot=10ms,40ms", True),
    ],
)
def test_a_sweep_has_no_column_that_is_the_same_in_each_row(limits, swept, has_limits):
    question = read_serving({"model": "qwen3-32b", "chips": "v6e:..8"} | limits)
    table = served_points_table(served_points(question, swept, serve), question)
    assert ("Limits" in table.columns) is has_limits
    assert {"Weights", "Cache", "Program's step", "Its estimate"}.isdisjoint(table.columns)
    assert {"Value", "Mesh", "Tokens/s per chip"} <= set(table.columns)
