"""A study is one run: one row of the queue and of the history, found again by what it is."""

from spmd_core.experiment.experiment import parse_experiment
from spmd_core.lab.store.store import Store
from spmd_core.results.runs.states import TIMING
from tests.results.test_study import RESULT, STUDY


def test_a_study_is_one_row_from_the_queue_to_the_history(tmp_path):
    store = Store(tmp_path)
    store.submit(RESULT.run, STUDY)
    queued = store.next_queued(TIMING)
    assert queued is not None and queued.experiment == STUDY
    assert [row.key for row in queued.experiment.rows] == list(RESULT.strategies)
    store.start(RESULT.run)
    texts = {"a/b/auto": {"program": "text"}}
    assert store.finish(RESULT.run, "succeeded", result=RESULT, texts=texts)
    assert store.result(RESULT.run) == RESULT and store.latest(STUDY.id) == RESULT.run
    assert store.texts(RESULT.run, "a/b/auto") == texts["a/b/auto"]
    (listed,) = store.history()
    assert listed.experiment == STUDY and listed.answer == ("a/b/auto", 1e-5, False)
    # its first variant alone is another experiment
    assert store.latest(parse_experiment(STUDY.to_json() | {"variants": None}).id) is None
    store.close()
