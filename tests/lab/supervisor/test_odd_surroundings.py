"""A sample of what `bench/odd_surroundings.py` tries: damaged stores and odd surroundings."""

import pytest

from bench.odd_surroundings import files, judged, rows, surroundings, template_in

SAMPLE = (
    "runs.state = x'ff00fe'",
    "result = 'junk'",
    "queued {",
    "cut to 60%",
    "a folder for a lock",
    "9 descriptors",
    "descriptor 1 closed",
)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd") / "data"
    return folder, template_in(folder)


def cases():
    every = [*rows(), *files(), *surroundings()]
    return [[case for case in every if case.name == name][-1] for name in SAMPLE]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_each_ends_with_a_sentence_and_loses_nothing(template, case):
    folder, run = template
    assert judged(case, folder, run) is None


def test_there_are_a_hundred_cases():
    assert len([*rows(), *files(), *surroundings()]) >= 100
