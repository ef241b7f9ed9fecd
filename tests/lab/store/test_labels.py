"""Names, notes and tags of runs: what is kept, what is refused, and two people at once."""

import threading

import pytest

from spmd_core.base import RequestError
from spmd_core.lab import Lab
from spmd_core.runs.collection import MOST_NOTE_BYTES, Labels
from tests.labs import HASTY, experiment

RUN = "20260101-000000-aaaaaa"
ODD = "=cmd() <img src=x onerror=alert(1)> **b** [l](http://e.com) \u202eabc"


@pytest.fixture
def lab(data_folder):
    lab = Lab.open(data_folder, serve=False, settings=HASTY)
    lab._store.submit(RUN, experiment())
    return lab


def test_what_is_added_is_stored_word_for_word_and_listed(lab):
    added = lab.notebook.label(RUN, name=ODD, note="a\nb", tags=("#v5p", "V5P", "ring"))
    assert added == Labels(ODD, "a\nb", ("V5P", "ring"))
    assert lab.history()[0].labels == lab.notebook.labels(RUN) == added
    assert [run.run for run in lab.history(text="tag:V5P note:B")] == [RUN]
    assert lab.history(text="tag:v5") == () and lab.history(text="is:pinned") == ()
    lab.notebook.label(RUN, is_pinned=True)
    assert lab.history(text="is:pinned name:onerror")[0].labels.tags == ("V5P", "ring")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "x" * 121}, "put the rest into the note"),
        ({"note": "x" * (MOST_NOTE_BYTES + 1)}, "keep the rest in a file"),
        ({"tags": ("two words",)}, "is not one word"),
        ({"tags": tuple(map(str, range(21)))}, "21 tags"),
        ({"name": "\x1b[31m"}, "U\\+001B"),
        ({"name": "\udc80"}, "U\\+DC80"),
    ],
)
def test_what_is_too_long_or_no_text_is_refused_and_changes_nothing(lab, changes, words):
    lab.notebook.label(RUN, name="before")
    with pytest.raises(RequestError, match=words):
        lab.notebook.label(RUN, **changes)
    assert lab.notebook.labels(RUN) == Labels("before")


def test_the_second_of_two_people_does_not_undo_the_first(lab):
    seen = lab.notebook.labels(RUN)
    lab.notebook.label(RUN, was=seen, name="Ann's")
    with pytest.raises(RequestError, match='changed by somebody else meanwhile, to "Ann\'s"'):
        lab.notebook.label(RUN, was=seen, name="Bob's")
    assert lab.notebook.label(RUN, was=seen, note="Bob's note") == Labels("Ann's", "Bob's note")


def test_of_many_at_once_one_wins(lab):
    seen, refused = lab.notebook.labels(RUN), []

    def rename(name):
        try:
            lab.notebook.label(RUN, was=seen, name=name)
        except RequestError as error:
            refused.append(error)

    threads = [threading.Thread(target=rename, args=(f"n{number}",)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(refused) == 7 and lab.notebook.labels(RUN).name.startswith("n")


def test_labels_go_with_their_run(lab):
    lab.notebook.label(RUN, name="gone")
    lab.cancel(RUN)
    lab.delete([RUN])
    with pytest.raises(RequestError, match="is not stored here"):
        lab.notebook.label(RUN, name="again")
    assert lab._store._rows("SELECT * FROM labels") == []
