"""What is stored is facts; who reads a result gets them with their sentences, also of old rows."""

import ast

import pytest

from bench.values import result, strategy
from spmd_core.advice import confirmation, in_words, next_step, timed_together
from spmd_core.advice.programs import accident_words
from spmd_core.experiment import parse_experiment
from spmd_core.facts import (
    Accident,
    AxisOrigin,
    Collective,
    NoShardings,
    NoTrace,
    PredictedMemory,
    Prediction,
    Shardings,
    StoredFact,
    Trace,
    TracedDevice,
)
from spmd_core.results import Next, StrategyResult
from spmd_core.words import fact_words, in_sentences, run_headline
from spmd_core.words.facts import _SENTENCES
from spmd_core.words.texts import read_shardings
from tests.advice.test_next import MATMUL, SUM, answered
from tests.layers import nodes, source_files

ALONE = {name: 0.0 for name in TracedDevice.model_fields if name != "device"}


def traced(trace, **environment):
    """The words of a trace as a run stored it."""
    result = answered(floor_s=8e-3)
    found = StrategyResult.model_validate(strategy(1e-2)).model_copy(update={"trace": trace})
    here = result.environment.model_copy(update=environment)
    result = result.model_copy(update={"strategies": {"auto": found}, "environment": here})
    return in_words(result).strategies["auto"].trace


def test_facts_get_their_sentences_and_what_an_older_version_stored_is_replaced():
    facts = answered(single=strategy(1e-3), auto=strategy(5e-3))
    old = facts.model_copy(
        update={
            "comparison": facts.comparison.model_copy(update={"sentence": "an older one"}),
            "next": Next(rule="old", sentence="x", number=1, experiment=facts.experiment),
        }
    )
    found = in_words(facts)
    assert found == in_words(old) == in_words(found)
    assert found.comparison.sentence == run_headline(facts) and found.next == next_step(facts)
    assert found.next.rule == "one_device_wins" and not facts.next


def test_why_nothing_was_traced_is_put_in_words():
    assert "neither of the devices" in traced(Trace(reason=NoTrace.NOTHING)).sentence
    only_host = traced(Trace(reason=NoTrace.ONLY_HOST), platform="metal")
    assert "no operation of a device on metal" in only_host.reason
    assert traced(Trace(reason="it broke")).sentence == "not traced: it broke"


def test_a_trace_says_what_disturbs_it():
    devices = tuple(TracedDevice(device=number, **ALONE) for number in range(4))
    seconds = dict.fromkeys(("step_s", "compute_s", "collectives_s", "exposed_s"), 1e-3)
    trace = Trace(**seconds, calls_s=(1e-3,), devices=devices, left_out=12)
    calls, shared, left = traced(trace, simulated=True, cores=2).notes
    assert calls.startswith("1 call traced") and calls.endswith("without it is 10 ms")
    assert shared.startswith("4 simulated devices share 2 cores") and left.startswith("12 events")
    assert len(traced(trace, simulated=False).notes) == 2
    assert traced(trace.model_copy(update={"notes": ("of before",)})).notes == ("of before",)


def test_why_no_shardings_were_read_is_put_in_words():
    stored = Shardings(reason=NoShardings.ONE_DEVICE).model_dump_json()
    assert read_shardings(stored).reason == "on one device nothing is sharded"
    assert read_shardings('{"reason": "it broke"}').reason == "it broke"


def test_the_environment_is_put_in_words_and_what_an_older_version_stored_of_it_replaced():
    facts = answered(auto=strategy(1e-3))
    told = in_words(facts).notes
    assert told == in_words(facts).environment.notes and "share 2 cores" in told[0]
    older = facts.environment.model_copy(update={"notes": ("of before",)})
    old = facts.model_copy(update={"environment": older, "notes": ("of before", "its own")})
    assert in_words(old).notes == ("its own", *told) and in_words(old).environment.notes == told


def test_the_notes_of_a_prediction_are_made_of_its_facts_or_are_those_of_an_older_version():
    memory = PredictedMemory(capacity=2**30)
    older = Prediction(fits=True, memory_bytes=memory, notes=("of before",))
    values = {"estimate_s": 0.1, "low_s": 0.05, "high_s": 0.2}
    fact = StoredFact(kind="once it fits", values=values)
    assert in_sentences(older) == older
    found = in_sentences(older.model_copy(update={"facts": (fact,)}))
    assert found.notes == (
        "by the estimate from the plan's sizes a step takes 100 ms (50 ms to 200 ms) once it fits",
    )


def test_notes_of_an_older_version_stay_and_those_of_facts_are_made():
    facts = answered(auto=strategy(1e-3))
    notes = {"old": ("of before",), "new": ()}
    outcome = facts.strategies["auto"]
    stored = StoredFact(kind="rows compared", values={"rows": 64})
    for name, kept in (("old", None), ("new", (stored,))):
        found = outcome.model_copy(update={"notes": notes[name], "facts": kept, "floor_s": 1.0})
        found = in_words(facts.model_copy(update={"strategies": {"auto": found}}))
        notes[name] = found.strategies["auto"].notes
        assert in_words(found) == found
    assert notes["old"] == ("of before",)
    assert notes["new"][:2] == (fact_words(stored), "dispatch bound")


@pytest.mark.parametrize(
    ("dtype", "collectives", "is_noted"),
    [("bfloat16", [SUM], True), ("bfloat16", [], False), ("float32", [SUM], False)],
)
def test_that_simulated_devices_widen_what_is_communicated_is_noted(dtype, collectives, is_noted):
    timed = strategy(1e-3) | {"collectives": collectives, "facts": ()}
    result = in_words(answered(MATMUL | {"dtype": dtype}, auto=timed))
    notes = " ".join(result.strategies["auto"].notes)
    assert ("widens bfloat16 to float32" in notes) == is_noted


@pytest.mark.parametrize(("called", "is_said"), [(None, True), ("a.py:20", False)])
def test_a_dropped_batch_has_the_bytes_that_its_constraint_alone_needs(called, is_said):
    accident = Accident(kind="dropped_batch", axes=("x",), source="a.py:7", spec=(("x",), ()))
    by = AxisOrigin(axis="x", kind="constraint", source="a.py:7", called=called)
    gathered = {"kind": "all-gather", "axes": ("x",), "bytes": 2**20, "count": 2}
    moved = Collective(**gathered, bytes_total=2**21, against=(by,))
    other = Collective(**gathered, bytes_total=2**21)
    words = accident_words(accident, (moved, other))
    assert ("2.0 MiB a device and step are moved for it" in words) == is_said
    assert words.endswith("constrain it to P('x', None), or leave it out")


def test_every_kind_of_fact_that_the_program_stores_has_its_sentence():
    calls = (
        node
        for path in source_files()
        for node in nodes(path.read_text("utf-8"))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "StoredFact"
    )
    kinds = [each.value for call in calls for each in call.keywords if each.arg == "kind"]
    named = {kind.value for kind in kinds if isinstance(kind, ast.Constant)} - {"beyond"}
    assert len(named) > 30 and named <= set(_SENTENCES)


def test_donated_arguments_that_leave_otherwise_are_counted_and_only_the_first_has_its_spec():
    accident = Accident(
        kind="resharded_donation", path="state/m", bytes=2**20, spec=(("x",), ()), others=5
    )
    words = accident_words(accident, ())
    assert words.startswith("state/m and 5 more are donated, 1.0 MiB a device, and leave in other ")
    assert "shardings, the first as P('x', None) by the compiler" in words


def test_two_runs_that_cannot_be_told_apart_are_timed_in_the_same_rounds():
    layer = {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}}
    layer |= {"dims": {"batch": 8, "in": 8, "out": 8}, "strategies": ["single", "auto"]}
    one, other = (
        result({"auto": strategy(1e-3), "single": strategy(2e-3)}).model_copy(
            update={"experiment": parse_experiment(layer | {"sharding": {dim: "x"}})}
        )
        for dim in ("batch", "in")
    )
    both = timed_together(one, other)
    assert both and [each.experiment for each in both.variants] == [
        one.experiment,
        other.experiment,
    ]
    assert timed_together(one, one) == confirmation(one), "the same again, in several processes"
    absent = parse_experiment(layer | {"target": "tpu:v5e:8", "sharding": {"batch": "x"}})
    assert timed_together(one, other.model_copy(update={"experiment": absent})) is None
