"""How long a run still takes: within a quarter after a third of it, and a bar that never goes back."""

from dataclasses import replace

import pytest

from spmd_core.experiment import parse_experiment
from spmd_core.runs import Pace, RunStatus, paced
from spmd_core.words import left_words, progress, progress_words

ONE = {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}}
SIZES = {"dims": {"batch": 8, "in": 32, "out": 8}, "strategies": ["single", "auto"]}
ROUNDS, COMPILE_S, ROUND_S = 20, 6.0, 0.7


def looks(experiment, processes, first_s=COMPILE_S):
    """(status as seen, seconds that are left) of each look at a run of processes that compile alike, but
    for the first.
    """
    each_s = COMPILE_S + ROUNDS * ROUND_S
    total_s = processes * each_s + first_s - COMPILE_S
    status = RunStatus("a", "running", experiment, submitted_at=0.0, started_at=0.0)
    for process in range(1, processes + 1):
        begun_s = total_s - (processes - process + 1) * each_s if process > 1 else 0.0
        compile_s = COMPILE_S if process > 1 else first_s
        yield replace(status, process=process, of=ROUNDS, finished_at=begun_s), 0.0
        for done in range(1, ROUNDS + 1):
            at = begun_s + compile_s + done * ROUND_S
            now = replace(status, process=process, done=done, of=ROUNDS, finished_at=at)
            yield now, total_s - at


@pytest.mark.parametrize("processes", [1, 3, 5])
def test_what_is_left_is_known_after_a_third_and_the_bar_never_goes_back(processes):
    timing = {"timing": {"processes": processes}} if processes > 1 else {}
    experiment = parse_experiment(ONE | timing)
    total_s = processes * (COMPILE_S + ROUNDS * ROUND_S)
    pace, shares = Pace(), []
    for status, left_s in looks(experiment, processes):
        pace, guess_s = paced(status, pace)
        shares.append(pace.share)
        if status.elapsed_s > total_s / 3 and left_s > 1 and status.done > 1:
            assert guess_s == pytest.approx(left_s, rel=0.25, abs=1.5)
    assert shares == sorted(shares) and shares[-1] == 1.0


def test_a_first_process_that_found_its_worker_running_is_no_measure_of_those_after_it():
    experiment = parse_experiment(ONE | {"timing": {"processes": 3}})
    pace, known = Pace(), []
    for status, left_s in looks(experiment, 3, first_s=0.5):
        pace, guess_s = paced(status, pace)
        if status.process > 1 and status.done > 1:
            known.append(guess_s == pytest.approx(left_s, rel=0.05, abs=0.5))
    assert len(known) == 2 * (ROUNDS - 1) and all(known)


@pytest.mark.parametrize(
    ("second", "left_s"), [((2.0, 3.0), 5 * ROUND_S), ((0.5, 3.0), 15 * ROUND_S)]
)
def test_a_run_whose_best_is_apart_ends_at_its_next_look(second, left_s):
    experiment, pace, guess_s = parse_experiment(ONE), Pace(), None
    for done in range(1, 6):
        at = COMPILE_S + done * ROUND_S
        now = RunStatus("a", "running", experiment, 0.0, started_at=0.0, finished_at=at)
        within = {"auto": (0.9, 1.1), "shard_map": second}
        pace, guess_s = paced(replace(now, done=done, of=ROUNDS, intervals_s=within), pace)
    assert guess_s == pytest.approx(left_s) and pace.share == pytest.approx(
        5 / (5 + left_s / ROUND_S)
    )


def test_more_rounds_than_planned_do_not_turn_the_bar_back():
    experiment = parse_experiment(ONE)
    status = RunStatus("a", "running", experiment, 0.0, started_at=0.0, finished_at=9.0)
    pace, _ = paced(replace(status, done=20, of=20), Pace(began=(1.0, 1)))
    assert paced(replace(status, done=21, of=60), pace)[0].share == 1.0
    assert paced(replace(status, done=25, of=20), pace)[1] is None, "no number of them is known"


def test_the_words_name_the_process_and_what_is_left():
    several = parse_experiment(ONE | {"timing": {"processes": 5}})
    status = RunStatus("a", "running", several, 0.0, process=2, done=3, of=20)
    assert progress_words(status, 41.0) == "process 2 of 5, round 3 of 20, about 40 s left"
    alone = replace(status, experiment=parse_experiment(ONE), process=1)
    assert progress_words(alone, None) == "round 3 of 20"
    assert progress_words(replace(alone, done=20), 0.0) == "round 20 of 20", "nothing is left"
    assert progress_words(alone, 1.2) == "round 3 of 20, under 5 s left"
    checked = replace(status, process=6, phase="check")
    assert progress_words(checked, 41.0).startswith("process 6: the first 5 left a verdict open, ")
    again = replace(alone, process=2)
    assert progress_words(again, None) == "process 2: the first left a verdict open, round 3 of 20"


def test_a_bar_is_not_full_while_its_run_is_at_work():
    status = RunStatus("a", "running", parse_experiment(ONE), 0.0, started_at=0.0, finished_at=9.0)
    share, words, _ = progress(replace(status, done=20, of=20), Pace())
    assert share < 1.0 and "left" not in words
    sweep = replace(status, experiment=parse_experiment(ONE | {"workload": "collectives"}))
    assert progress(replace(sweep, done=3, of=12), Pace())[:2] == (
        0.25,
        "point 3 of 12, about 25 s left",
    )
    assert left_words(replace(sweep, done=12, of=12)) == ""


@pytest.mark.parametrize(
    ("second_s", "process", "words"),
    [
        (1.5, 2, "process 2 of 3"),
        (1.05, 2, "process 2 of about 5"),
        (1.5, 6, "process 6: the first 3"),
    ],
)
def test_a_study_of_near_times_is_expected_to_take_more_processes(second_s, process, words):
    sharded = [{"experiment": ONE | SIZES | {"sharding": {dim: "x"}}} for dim in ("batch", "in")]
    study = parse_experiment(
        {"study": [{"name": str(at), **each} for at, each in enumerate(sharded)]}
    )
    times = {"0/single": 1.0, "0/auto": 1.0, "1/auto": second_s}
    status = RunStatus("a", "running", study, 0.0, process=process, of=20, medians_s=times)
    assert progress_words(status, None).startswith(words)


def test_what_is_left_of_a_study_is_without_the_rows_that_only_its_first_process_measures():
    study = parse_experiment(ONE | {"timing": {"processes": 3}})
    first = RunStatus("a", "running", study, 0.0, started_at=0.0, finished_at=26.0, done=20, of=20)
    first = replace(first, medians_s={"single": 3.0, "auto": 1.0, "shard_map": 1.0})
    pace = Pace(began=(7.0, 1), round_s=1.0)
    _, left_s = paced(first, pace)
    # 6 of its seconds compiled three rows, 20 measured them: two rows take 2/3 and 2/5 of these
    assert left_s == pytest.approx(2 * (6 * 2 / 3 + 20 * 2 / 5), rel=0.05)
