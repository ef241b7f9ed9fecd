"""Candidates that may remove a collective, and what a compiled one says of it."""

from dataclasses import replace

import pytest
from jax.sharding import PartitionSpec as P

from bench.exported import MESH as EXPORTED_MESH, sgd_step
from spmd_core.advice import change_words, changes, removal_words, with_sentence
from spmd_core.experiment import parse_experiment
from spmd_core.facts import (
    AxisOrigin,
    Change,
    Collective,
    Nothing,
    Predicted,
    PredictedMemory,
    Prediction,
    Ratio,
    Remedy,
    Step,
)
from spmd_core.results import MemoryBytes, StrategyResult
from spmd_core.roofline import ProgramTime
from spmd_core.terms import listed
from spmd_core.time import NearestFit, estimate_step
from spmd_core.trials import beside
from spmd_core.trials.remedies import arrays, plans
from spmd_core.trials.remedies.candidate import MOST, MOST_MORE, SideBySide
from spmd_core.trials.remedies.judged import (
    Tried,
    answer,
    doubtful,
    held_bytes,
    matched,
    settles,
    targets,
    untried,
    verdict,
)
from spmd_core.trials.trying.trial import RemedyTrial
from spmd_core.workloads import DEFAULT_SPEC, programs

LAYER = parse_experiment(
    {
        "workload": "layer",
        "target": "cpu:8",
        "mesh": {"x": 2, "y": 4},
        "dims": {"batch": 64, "in": 64, "out": 64},
        "sharding": {"in": "x", "batch": "y"},
        "strategies": ["auto", "single"],
    }
)


def collective(kind="all-reduce", axes=("x",), **more):
    return Collective(**{"kind": kind, "axes": axes, "bytes": 2**20, "count": 1} | more)


def compiled(*found, argument=2**20):
    held = MemoryBytes(argument=argument, output=0, temp=0)
    return StrategyResult(status="ok", collectives=found, memory_bytes=held)


def tried(candidate, total_s, *found, argument=2**20, each_s=1e-3, by="cost model"):
    return Tried(
        candidate,
        compiled(*found, argument=argument),
        ProgramTime(total_s, tuple(each_s for _ in found), by),
    )


def named(candidate):
    return change_words(LAYER, candidate.changes)


def sentence(found, each=None):
    """What a reader gets of an answer for a collective, that of TARGET unless given."""
    return removal_words(with_sentence(found, LAYER, each or TARGET.first))


BASE = compiled(collective())
COSTS = ProgramTime(4e-3, (2e-3,))
(TARGET,) = targets(BASE, COSTS)


def test_candidates_change_one_thing_and_keep_the_rules():
    found = arrays.candidates(LAYER, "auto", collective())
    assert 1 < len(found) <= MOST + MOST_MORE
    assert len({each.experiment.id for each in found}) == len(found)
    for part in (found[:MOST], found[MOST:]):
        assert [each.seconds for each in part] == sorted(each.seconds for each in part)
    words = [named(each) for each in found]
    assert "leave `in` replicated" in words
    assert "shard `out` over `x` in place of `in`" in words
    moved = found[words.index("shard `out` over `x` in place of `in`")]
    assert moved.changes == (
        Change(field="sharding", name="in", before="x"),
        Change(field="sharding", name="out", after="x"),
    )
    assert dict(moved.experiment.sharding) == {"out": ("x",), "batch": ("y",)}
    assert moved.experiment.strategies == ("auto",)


def test_all_dims_over_an_axis_can_give_way_together():
    block = parse_experiment(
        {
            "workload": "transformer_block",
            "target": "cpu:8",
            "mesh": {"x": 2, "y": 4},
            "sharding": {"batch": "x", "heads": "y", "kv_heads": "y", "mlp": "y"},
        }
    )
    found = {
        change_words(block, each.changes): each
        for each in arrays.candidates(block, "auto", collective(axes=("y",)))
    }
    rows = found["shard `batch` over `x` and `y` in place of `heads`, `kv_heads` and `mlp`"]
    assert dict(rows.experiment.sharding) == {"batch": ("x", "y")} and len(rows.changes) == 4
    assert "leave `mlp` replicated" in [*found][:MOST] and len(found) == MOST + MOST_MORE


def test_all_dims_of_all_operands_and_results_are_candidates():
    words = [named(each) for each in arrays.candidates(LAYER, "auto", collective())]
    assert {
        "store array `x` sharded over axis `y` along dim `batch`",
        "store array `x` sharded over axes `y` and `x` along dim `batch`",
        "store array `weights` replicated",
        "store array `weights` sharded over axis `x` along dim `out`",
        "store array `bias` sharded over axis `x` along dim `out`",
        "request array `y` sharded over axes `y` and `x` along dim `batch`",
        "request array `y` sharded over axis `y` along dim `batch` and over axis `x` along dim `out`",
    } <= set(words)
    # what cannot take less time by its lower bound is not compiled
    assert len(arrays.candidates(LAYER, "auto", collective(), below_s=0.0)) == MOST


def test_what_is_not_near_is_compiled_only_where_nothing_near_helps():
    every = arrays.candidates(LAYER, "auto", collective())
    for seconds, count in ((3e-3, MOST), (5e-3, len(every))):
        trial = RemedyTrial(LAYER.rows[0], BASE, TARGET, COSTS, every)
        judged = 0
        while trial.wanted:
            assert judged >= MOST or len(trial.wanted) <= MOST - judged
            less = collective(bytes=2**19)
            trial.judge(tried(trial.wanted[0], seconds, less, each_s=1e-4))
            judged += 1
        assert judged == count


def test_an_override_and_a_memory_kind_can_be_taken_back():
    given = LAYER.vary(sharding={}, overrides={"weights": ["y", None]}, memory={"x": "pinned_host"})
    words = {
        change_words(given, each.changes): each
        for each in arrays.candidates(given, "auto", collective(axes=("y",)))
    }
    assert "keep `x` in device memory" in words
    assert words["store array `weights` replicated"].changes[0].before == ["y", None]


def test_candidates_of_a_plan_train_on_as_many_tokens():
    plan = parse_experiment(DEFAULT_SPEC | {"mesh": {"fsdp": 8, "tensor": 2}})
    found = plans.candidates(plan.plan, collective(axes=("tensor",)))
    assert 1 < len(found) <= MOST
    assert {"mesh"} in [{change.field for change in each.changes} for each in found]
    assert {each.experiment.sizes["batch"] for each in found} == {plan.sizes["batch"]}
    assert any(dict(each.experiment.mesh) == {"fsdp": 16} for each in found)


def test_of_a_ring_the_flag_is_the_first_change():
    plan = parse_experiment(DEFAULT_SPEC | {"mesh": {"fsdp": 16}})
    ring = collective("collective-permute", ("fsdp",), asked="all-gather")
    first, *others = plans.candidates(plan.plan, ring)
    flag = "xla_jf_spmd_threshold_for_windowed_einsum_mib=1000000"
    assert first.changes == (Change(field="options", name="compiler_flags", before="", after=flag),)
    assert change_words(plan, first.changes) == f"try `{flag}`, which turns collective matmuls off"
    assert not first.experiment.plan.makes_rings and others
    plain = plans.candidates(plan.plan, collective("all-gather", ("fsdp",)))
    assert all(each.experiment.plan.makes_rings for each in plain)


def test_a_change_that_was_stored_has_the_words_of_the_change():
    plan = parse_experiment(
        DEFAULT_SPEC | {"mesh": {"fsdp": 8, "tensor": 2}, "options": {"remat": "minimal"}}
    )
    ring = collective("collective-permute", ("fsdp",), asked="all-gather")
    of_plan = plans.candidates(plan.plan, ring)
    for base, found in (
        (LAYER, arrays.candidates(LAYER, "auto", collective(axes=("x", "y")))),
        (plan, of_plan),
    ):
        words = [change_words(base, each.changes) for each in found]
        read = [
            [Change.model_validate_json(one.model_dump_json()) for one in each.changes]
            for each in found
        ]
        assert [change_words(base, each) for each in read] == words
        assert len(set(words)) == len(words)
    own = [
        NearestFit(each.experiment.plan, estimate_step(each.experiment.plan)) for each in of_plan
    ]
    assert words == [f"try {listed(list(changes(plan.plan, near)))}" for near in own]


def test_collectives_are_matched_by_operation_and_bytes():
    before = [collective(op="a", bytes=100), collective(op="a", bytes=900), collective(axes=("y",))]
    after = [collective(op="a", bytes=800), collective(kind="all-gather")]
    assert matched(before, after) == {0: 1}


def test_of_two_that_look_alike_the_reason_tells_which_is_left():
    """The gathers of two weights differ in nothing else."""
    first, second = (
        collective(kind="all-gather", op="dot", reason=f"`{name}` is stored sharded")
        for name in ("w1", "w2")
    )
    assert matched([first, second], [second]) == {0: 1}
    assert matched([first, second], [first]) == {0: 0}


def test_only_what_is_worth_it_is_tried_and_the_rest_says_so():
    both = compiled(collective(), collective(axes=("y",)))
    large = targets(both, ProgramTime(1.0, (0.05, 0.015)))
    (left,) = untried(both, large).items()
    assert (left[0], sentence(left[1])) == (
        1,
        "not tried: it keeps the device waiting for less than 2% of the predicted time",
    )
    assert [each.first.axes for each in targets(both, ProgramTime(1.0, (0.05, 0.015)))] == [("x",)]


def test_the_best_that_removes_it_is_said_with_both_sides():
    first, second, *_ = arrays.candidates(LAYER, "auto", collective())
    less = tried(first, 3e-3, collective(bytes=2**19))
    gone = tried(second, 1e-3, argument=5 * 2**20)
    assert not settles(TARGET, COSTS, verdict(TARGET, BASE, less))
    assert settles(TARGET, COSTS, verdict(TARGET, BASE, gone))
    found = answer(LAYER, BASE, COSTS, TARGET, [less, gone, Tried(first)])
    assert isinstance(found, Remedy)
    assert sentence(found) == (
        f"{named(second)}: no all-reduce over `x`; +4.0 MiB of peak per device; predicted 4 ms -> 1 ms"
    )
    assert found.memory_bytes == 4 * 2**20 and found.experiment.strategies == ("auto", "single")
    alone = answer(LAYER, BASE, COSTS, TARGET, [less])
    assert (
        isinstance(alone, Remedy)
        and not alone.removes
        and "less waiting for the all-reduce over `x`, 512.0 KiB in place of 1.0 MiB"
        in sentence(alone)
    )


@pytest.mark.parametrize(
    ("origin", "against", "lines", "begins"),
    [
        ("a.py:8", "b.py:9", ["a.py:8"], "give the constraint of a.py:8 the spec P(None)"),
        ("a.py:8", "b.py:9", ["b.py:9"], "give the constraint of b.py:9 the spec P(None)"),
        ("a.py:8", "b.py:9", ["c.py:1", "a.py:8"], "constrain the value of c.py:1, about as"),
    ],
)
def test_a_change_of_a_constraint_alone_names_it(origin, against, lines, begins):
    of = lambda source: (AxisOrigin(axis="x", kind="constraint", source=source, spec=(("x",),)),)  # noqa: E731
    each = collective(origin=of(origin), against=of(against))
    first, *_ = arrays.candidates(LAYER, "auto", collective())
    found = answer(LAYER, BASE, COSTS, TARGET, [tried(first, 1e-3)])
    changes = tuple(Change(field="specs", name=f"@{line}", after=[None]) for line in lines)
    assert isinstance(found, Remedy)
    said = sentence(found.model_copy(update={"changes": changes}), each)
    assert said.startswith(begins) and all(line in said for line in lines)


def judged(before, *after):
    """The answer for the first collective of a program that becomes one with these."""
    base = compiled(*before)
    costs = ProgramTime(4e-3, tuple(2e-3 / (1 + number) for number in range(len(before))))
    target = targets(base, costs)[0]
    first, *_ = arrays.candidates(LAYER, "auto", collective())
    found = answer(LAYER, base, costs, target, [tried(first, 2e-3, *after)])
    return with_sentence(found, LAYER, target.first)


def test_no_sum_over_an_axis_is_said_only_where_none_remains():
    """Two sums that differ in bytes alone: one is gone, and which one does not matter."""
    one, other = collective(op="a", bytes=2**22), collective(op="a", bytes=2**20)
    assert ": 1 all-reduce over `x` in place of 2;" in judged([one, other], other).sentence
    assert "no all-reduce over `x`" in judged([one, other]).sentence
    # of both axes together it is over `x`, too
    both = collective(axes=("x", "y"), bytes=2**20)
    assert ": 1 all-reduce over `x` in place of 2;" in judged([one, both], both).sentence


@pytest.mark.parametrize(
    "after",
    [
        collective(asked="reduce-scatter", bytes=2**22),  # compiled as the same kind
        collective(op="b", bytes=5 * 2**20),  # one that carries both
        collective(axes=("x", "y"), bytes=2**22),
    ],
)
def test_a_sum_that_only_looks_otherwise_is_still_there(after):
    found = judged([collective(op="a", bytes=2**22), collective(op="b", bytes=2**20)], after)
    assert not found.removes and "less waiting for the all-reduce" in found.sentence


def test_memory_is_that_of_arguments_results_and_temporaries():
    """The compiler's peak counts vector memory, too, and donated arguments are results."""
    held = {"argument": 100, "output": 50, "temp": 7, "alias": 30, "peak": 900, "capacity": 1000}
    memory = PredictedMemory.model_validate(held)
    assert held_bytes(compiled()) == 2**20
    assert (
        held_bytes(
            compiled().model_copy(update={"prediction": Prediction(fits=True, memory_bytes=memory)})
        )
        == 127
    )


def test_a_difference_that_a_calibration_does_not_resolve_is_no_remedy():
    """Near the dispatch floor programs that were predicted faster took 1.4 to 1.9 times as long."""
    first, *_ = arrays.candidates(LAYER, "auto", collective())
    tiny = ProgramTime(215e-6, (100e-6,), "calibration", floor_s=90e-6)
    (target,) = targets(BASE, tiny)
    found = answer(LAYER, BASE, tiny, target, [tried(first, 180e-6, by="calibration")])
    assert isinstance(found, Nothing)
    assert "215 µs -> 180 µs, which predictions of this machine do not tell apart" in sentence(
        found
    )
    large = ProgramTime(21.5e-3, (10e-3,), "calibration", floor_s=90e-6)
    (target,) = targets(BASE, large)
    found = answer(LAYER, BASE, large, target, [tried(first, 12e-3, by="calibration")])
    assert isinstance(found, Remedy)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (
            6e-3,
            "nothing removes it in less time: the sum over `in` needs it; the best change that does "
            "is to leave `in` replicated, predicted 4 ms -> 6 ms",
        ),
        (None, "nothing removes it: the sum over `in` needs it (1 tried, and none compiled)"),
    ],
)
def test_nothing_removes_it_is_an_answer(seconds, words):
    left = next(
        each
        for each in arrays.candidates(LAYER, "auto", collective())
        if named(each) == "leave `in` replicated"
    )
    given = Tried(left) if seconds is None else tried(left, seconds)
    found = answer(LAYER, BASE, COSTS, TARGET, [given])
    assert isinstance(found, Nothing) and sentence(found) == words


def test_what_was_tried_as_well_is_said_with_what_it_comes_to():
    first, second, third, *_ = arrays.candidates(LAYER, "auto", collective())
    given = [tried(first, 5e-3), tried(second, 6e-3), Tried(third)]
    found = answer(LAYER, BASE, COSTS, TARGET, given)
    assert sentence(found).endswith(
        f"{named(first)}, predicted 4 ms -> 5 ms. Also tried: {named(second)} (predicted 6 ms); "
        f"{named(third)} (does not compile)"
    )


def test_changes_of_one_outcome_are_named_once_and_those_that_help_nothing_last():
    best, *others = arrays.candidates(LAYER, "auto", collective())
    stays, twice = others[:2], others[2:4]
    given = [tried(best, 5e-3), *(tried(each, 4e-3, collective(), each_s=2e-3) for each in stays)]
    found = answer(LAYER, BASE, COSTS, TARGET, [*given, *(tried(each, 6e-3) for each in twice)])
    assert sentence(found).endswith(
        f". Also tried: {named(twice[0])} and {named(twice[1])} (predicted 6 ms); "
        f"{named(stays[0])} and {named(stays[1])} (the collective stays)"
    )
    assert found.experiment is None, "it takes longer"


def test_changes_that_have_commas_of_their_own_are_told_apart_by_points():
    plan = parse_experiment(DEFAULT_SPEC | {"mesh": {"fsdp": 16}})
    gather = collective("all-gather", ("fsdp",))
    found = plans.candidates(plan.plan, gather)
    stays = [tried(each, 5e-3, gather) for each in found]
    (target,) = targets(compiled(gather), COSTS)
    said = answer(plan, compiled(gather), COSTS, target, stays)
    words = [change_words(plan, each.changes).removeprefix("try ") for each in found[:3]]
    assert any(", " in each for each in words)
    assert f" · {words[1]} · " in removal_words(with_sentence(said, plan, gather))


def timed(fastest, differs, before=5e-3, after=4e-3):
    ratio = Ratio(
        strategy="b" if fastest == "a" else "a",
        ratio=1.25,
        interval=(1.1, 1.4),
        verdict="faster" if differs else "cannot tell",
        differs=differs,
        rounds=100,
        processes=5,
    )
    return SideBySide(Predicted(before=before, after=after), ratio, differs and fastest == "b")


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (timed("b", True), "; measured 5 ms -> 4 ms, paired ratio 1.25× (99% interval 1.10 to"),
        (
            timed("a", True),
            "in less time: the sum over `in` needs it; the best change that does is to {}, "
            "measured 5 ms -> 4 ms, which is slower: paired ratio 1.25×",
        ),
        (
            timed("b", False),
            "{}: no all-reduce over `x`; measured 5 ms -> 4 ms, not certain: paired ratio",
        ),
        (
            timed("a", False, before=4e-3, after=5e-3),
            "nothing is known that removes it in less time: the sum over `in` needs it; the best "
            "change that does is to {}, measured 4 ms -> 5 ms, not certain: paired ratio",
        ),
    ],
)
def test_what_predictions_do_not_tell_apart_is_timed(measured, words):
    first, *_ = arrays.candidates(LAYER, "auto", collective())
    near = ProgramTime(4e-3, (2e-3,), "calibration", floor_s=90e-6)
    (target,) = targets(BASE, near)
    given = [tried(first, 3.6e-3, by="calibration")]
    assert doubtful(target, BASE, near, given) is first
    found = answer(LAYER, BASE, near, target, given, measured)
    text = sentence(found)
    assert isinstance(found, Remedy) == measured.is_faster and words.format(named(first)) in text
    is_open = measured.ratio.verdict == "cannot tell" and measured.seconds.after < 5e-3
    assert (found.experiment is not None) == (measured.is_faster or is_open)
    assert doubtful(TARGET, BASE, COSTS, [tried(first, 1e-3)]) is None, "it helps"
    assert doubtful(TARGET, BASE, COSTS, [tried(first, 5e-3)]) is None, "it takes longer"


def test_nothing_is_claimed_of_a_change_that_was_not_timed():
    first, second, *_ = arrays.candidates(LAYER, "auto", collective())
    near = ProgramTime(4e-3, (2e-3,), "calibration", floor_s=90e-6)
    (target,) = targets(BASE, near)
    for others, words in (
        ([], "nothing removes it in less time"),
        ([tried(second, 3.7e-3, by="calibration")], "nothing that was timed removes it in less"),
    ):
        given = [tried(first, 3.6e-3, by="calibration"), *others]
        found = answer(LAYER, BASE, near, target, given, timed("a", True))
        assert words in sentence(found)


def test_what_makes_it_less_is_timed_too_where_predictions_leave_that_open():
    first, second, *_ = arrays.candidates(LAYER, "auto", collective())
    near = ProgramTime(4e-3, (2e-3,), "guess")
    (target,) = targets(BASE, near)
    less = tried(first, 3.6e-3, collective(), each_s=1e-3, by="guess")
    given = [tried(second, 5e-3, by="guess"), less]
    assert doubtful(target, BASE, near, given) is first, "the one that removes it takes longer"
    found = answer(LAYER, BASE, near, target, given, timed("b", True))
    assert isinstance(found, Remedy) and not found.removes
    assert "less waiting for the all-reduce over `x`" in sentence(found)
    is_open = sentence(answer(LAYER, BASE, near, target, given, timed("b", False)))
    assert f"{named(first)}: less waiting for the all-reduce over `x`; measured" in is_open
    stays = [tried(first, 3.6e-3, collective(), each_s=2e-3, by="guess")]
    assert doubtful(target, BASE, near, stays) is None


def test_a_remedy_is_a_variant_beside_what_ran():
    first, *_ = arrays.candidates(LAYER, "auto", collective())
    found = answer(LAYER, BASE, COSTS, TARGET, [tried(first, 1e-3)])
    study = beside(LAYER, found.experiment)
    assert [each.experiment for each in study.members] == [LAYER, found.experiment]
    assert beside(study, found.experiment) is None


def test_the_doubtful_one_is_timed_after_the_nearest_and_ends_the_trial_where_it_is_faster():
    near = ProgramTime(4e-3, (2e-3,), "calibration", floor_s=90e-6)
    (target,) = targets(BASE, near)
    given = arrays.candidates(LAYER, "auto", collective())
    trial = RemedyTrial(LAYER.rows[0], BASE, target, near, given)
    for number, each in enumerate(given[:MOST]):
        assert trial.wants_timed is None
        trial.judge(tried(each, (3.9 - number / 10) * 1e-3, by="calibration"))
    doubtful_one = trial.wants_timed
    assert doubtful_one is given[MOST - 1]
    trial.time(doubtful_one, timed("b", differs=True))
    assert trial.is_over and trial.wants_timed is None
    assert trial.answer.measured_s == Predicted(before=5e-3, after=4e-3)


def test_the_value_of_the_line_is_constrained_over_the_axes_of_the_collective():
    spec = {"workload": "program_file", "program": programs.take(sgd_step()).program}
    base = parse_experiment(spec | {"mesh": EXPORTED_MESH, "target": "cpu:8"})
    place = {"source": "exported.py:3", "dtype": "f32", "operation": "dot"}
    steps = [
        Step(op="jit(f)/tanh", shape=(8, 64), spec=((), ("tensor",)), **place),
        Step(op="jit(f)/dot_general", shape=(8, 6), spec=(("fsdp",), ("tensor",)), **place),
        Step(op="jit(f)/transpose(jvp())/dot", shape=(64, 6), spec=((), ()), **place),
    ]
    gather = collective(kind="all-gather", axes=("tensor",), source="exported.py:3")
    found = arrays.candidates(base, "auto", gather, steps=steps)
    words = [change_words(base, each.changes) for each in found if each.changes[0].field == "specs"]
    assert words == [
        f"constrain the value of exported.py:3, about as `x = jax.lax.with_sharding_constraint(x, {held})` does"
        for held in ("P('fsdp', None)", "P(('fsdp', 'tensor'), None)")
    ]
    elsewhere = collective(kind="all-gather", axes=("tensor",), source="exported.py:4")
    other = arrays.candidates(base, "auto", elsewhere, steps=steps)
    assert all(each.changes[0].field != "specs" for each in other)


def test_an_axis_of_a_parameter_moves_with_its_optimizer_state_before_both_are_replicated():
    spec = {"workload": "program_file", "program": programs.take(sgd_step()).program}
    base = parse_experiment(spec | {"mesh": EXPORTED_MESH, "target": "cpu:8"})
    put = AxisOrigin(
        axis="tensor",
        kind="argument",
        name="params/layers/0/down",
        spec=(("tensor",), ("fsdp",)),
    )
    gather = collective(kind="all-gather", axes=("tensor",), origin=(put,))
    first, *others = (
        each for each in arrays.candidates(base, "auto", gather) if each.changes[0].field == "specs"
    )
    patterns = base.exported.described.patterns
    names = [patterns[f"{state}layers/0/down"] for state in ("params/", "moments/mu/")]
    assert [(each.name, each.after) for each in first.changes] == [
        (name, [None, "fsdp"]) for name in names
    ], "dim 1 has an axis already"
    told = change_words(base, first.changes)
    assert told == f"give `{names[0]}` and its optimizer state the spec P(None, 'fsdp')"
    held = {each.leaf.path: each.spec for each in first.experiment.exported.arguments()}
    assert held["moments/mu/layers/1/down"] == held["params/layers/1/down"] == ((), ("fsdp",))
    assert not others


def test_an_axis_is_tried_over_the_other_dims_of_its_parameter_first():
    exported = sgd_step(specs={"kernel": P(None, "fsdp")})
    spec = {"workload": "program_file", "program": programs.take(exported).program}
    base = parse_experiment(spec | {"mesh": EXPORTED_MESH, "target": "cpu:8"})
    put = AxisOrigin(axis="fsdp", kind="argument", name="params/embed/kernel", spec=((), ("fsdp",)))
    found = arrays.candidates(base, "auto", collective(axes=("fsdp",), origin=(put,)))
    specs = [each.changes for each in found if each.changes[0].field == "specs"]
    assert [{each.after[0] for each in changes} for changes in specs] == [{"fsdp"}, {None}]
    assert all(len(changes) == 2 and not changes[0].after[1] for changes in specs)


def test_of_several_axes_one_is_given_up_before_all_are():
    both = (("tensor", "fsdp"), ())
    exported = sgd_step(specs={"kernel": P(both[0])})
    spec = {"workload": "program_file", "program": programs.take(exported).program}
    base = parse_experiment(spec | {"mesh": EXPORTED_MESH, "target": "cpu:8"})
    put = AxisOrigin(axis="fsdp", kind="argument", name="params/embed/kernel", spec=both)
    gather = collective(kind="all-gather", axes=both[0], origin=(put,))
    found = arrays.candidates(base, "auto", gather)
    given = [each.changes[0].after for each in found if each.changes[0].field == "specs"]
    assert given == [[None, [*both[0]]], ["fsdp", None], ["tensor", None], [None, None]]


def of_program():
    exported = sgd_step(specs={"kernel": P(None, "fsdp")})
    spec = {"workload": "program_file", "program": programs.take(exported).program}
    base = parse_experiment(spec | {"mesh": EXPORTED_MESH, "target": "cpu:8"})
    put = AxisOrigin(axis="fsdp", kind="argument", name="params/embed/kernel", spec=((), ("fsdp",)))
    return base, arrays.candidates(base, "auto", collective(axes=("fsdp",), origin=(put,)))[:2]


@pytest.mark.parametrize("is_wrong", [True, False])
def test_what_opens_a_finding_is_no_answer_beside_what_opens_none(is_wrong):
    base, (first, second) = of_program()
    quick = replace(tried(first, 1e-3), is_wrong=is_wrong)
    slower = tried(second, 2e-3)
    assert settles(TARGET, COSTS, verdict(TARGET, BASE, quick)) is not is_wrong
    found = answer(base, BASE, COSTS, TARGET, [quick, slower])
    assert found.changes == (second if is_wrong else first).changes


def test_of_a_program_what_takes_less_time_is_before_what_leaves_nothing_of_a_collective():
    base, (first, second) = of_program()
    less = tried(first, 1e-3, collective(bytes=2**10), each_s=1e-5)
    gone = tried(second, 2e-3)
    assert answer(base, BASE, COSTS, TARGET, [gone, less]).changes == first.changes


def test_a_shorter_step_of_a_program_is_offered_where_the_collective_stays():
    """Another collective may lessen: the words claim nothing of the one that was asked about."""
    base, (first, second) = of_program()
    shorter = tried(first, 0.8 * COSTS.total_s, TARGET.first, each_s=TARGET.seconds)
    found = answer(base, BASE, COSTS, TARGET, [tried(second, 2 * COSTS.total_s), shorter])
    assert isinstance(found, Remedy) and found.changes == first.changes and not found.lessens
    told = removal_words(with_sentence(found, base, TARGET.first))
    assert "a shorter step, in which the all-reduce over `x` stays" in told
    other = replace(shorter, costs=replace(COSTS, total_s=0.99 * COSTS.total_s))
    assert isinstance(answer(base, BASE, COSTS, TARGET, [other]), Nothing), "within 2%"


def test_what_was_only_estimated_is_counted_and_not_chosen_over_what_was_compiled():
    base, (first, second) = of_program()
    compiled_, quicker = tried(first, 0.5 * COSTS.total_s), tried(second, 0.4 * COSTS.total_s)
    looked = replace(quicker, is_estimated=True)
    found = answer(base, BASE, COSTS, TARGET, [compiled_, looked])
    assert found.changes == first.changes and (found.estimated, found.compiled) == (1, 1)


def test_of_estimated_candidates_the_fastest_are_compiled_first():
    base, (first, second) = of_program()
    trial = RemedyTrial(base.rows[0], BASE, TARGET, COSTS, (first, second))
    slower = replace(tried(first, 2 * COSTS.total_s), is_estimated=True)
    faster = replace(tried(second, 0.5 * COSTS.total_s), is_estimated=True)
    trial.screen([slower, faster])
    assert [each.changes for each in trial.wanted] == [second.changes], "not the slower one"
    trial.judge(tried(second, 0.5 * COSTS.total_s))
    assert trial.is_over and trial.answer.changes == second.changes
    none = RemedyTrial(base.rows[0], BASE, TARGET, COSTS, (first, second))
    none.screen([slower, replace(slower, candidate=second)])
    assert none.is_over and isinstance(none.answer, Nothing) and len(none.answer.tried) == 2


def test_state_over_more_axes_than_its_parameter_is_not_said_to_have_the_same_spec():
    changes = (
        Change(field="specs", name="params/w", after=["tensor", None]),
        Change(field="specs", name="mu/w", after=["tensor", "fsdp"]),
    )
    told = change_words(LAYER, changes)
    assert told.startswith("give `params/w` the spec P('tensor', None), and move the axis")
    alike = (changes[0], changes[1].model_copy(update={"after": changes[0].after}))
    assert change_words(LAYER, alike) == (
        "give `params/w` and its optimizer state the spec P('tensor', None)"
    )
