"""What every renderer shows of the stored runs, against what was recorded: the values strictly, and
the texts, which `python -m tests.golden.record` records again.
"""

import json
import re
from functools import cache

import pytest

from spmd_core.terms import ago
from tests.golden import changes as stored, folder
from tests.golden.doors import doors as every
from tests.golden.record import rendered
from tests.golden.values import normal

pytestmark = pytest.mark.slow

KINDS = sorted(path.name.partition(".")[0] for path in stored.RECORDED.glob("*.xz"))
_ONE = re.compile(r"(?<![:=/×–-] )(?<![\w.,×/=:@+-])1 ([a-z]+s)\b")
# units, verbs and words in s; "numbers" is of the line that an edited experiment is recorded with
_NO_PLURALS = {"ms", "ns", "process", "does", "has", "is", "leaves", "names", "numbers"}
SHOWN = 20  # changes of a failure
AGAIN = "changed; after a change of words: python -m tests.golden.record"
LISTED = "changed; where that is right: python -m tests.golden.record --values, and list it"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with folder.opened(tmp_path_factory.mktemp("golden") / "data") as lab:
        yield lab


@pytest.fixture(scope="module")
def doors(lab):
    return dict(every(lab))


@pytest.fixture(scope="module")
def pairs(doors):
    """Of a kind each name, what was recorded and what is shown; rendered once for both tests."""

    @cache
    def of(kind):
        before = stored.read(stored.RECORDED / f"{kind}.json.xz")
        return [(name, before[name], doors[name]() if name in doors else []) for name in before]

    return of


def test_every_door_is_recorded(doors):
    assert {name for texts in stored.recorded().values() for name in texts} == set(doors)


@pytest.mark.parametrize("kind", KINDS)
def test_one_of_anything_is_not_plural(kind):
    text = json.dumps(stored.read(stored.RECORDED / f"{kind}.json.xz"), ensure_ascii=False)
    assert {word for word in _ONE.findall(text) if word not in _NO_PLURALS} == set()


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_flags_and_order_are_as_recorded(kind, pairs):
    changes = [each for pair in pairs(kind) for each in stored.changed_values(*pair)]
    assert not changes, "\n".join([f"{len(changes)} values {LISTED}", *changes[:SHOWN]])


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_as_recorded(kind, pairs):
    changes = [each for pair in pairs(kind) for each in stored.changed_texts(*pair)]
    assert not changes, "\n".join([f"{len(changes)} lines {AGAIN}", *changes[:SHOWN]])


def test_a_door_that_raises_is_named_and_the_others_are_kept(capsys):
    def broken():
        raise ValueError("no table")

    now, raised = rendered({"one": lambda: [["1"]], "broken": broken, "two": lambda: [["2"]]})
    assert now == {"one": [["1"]], "two": [["2"]]} and [*raised] == ["broken"]
    said = capsys.readouterr().err
    assert "broken raised" in said and "no table" in said


@pytest.mark.parametrize("days", [0, 0.2, 1, 2, 40, 400])
def test_a_run_is_recorded_alike_whenever_it_is_shown(days):
    ran = 1764374748.0
    assert normal(f"finished {ago(ran, ran + 86_400 * days)}") == "finished AGO"
    headings = ("Today", "Yesterday", "Saturday, 29 November", "Saturday, 29 November 2025")
    assert {normal(each) for each in headings} == {"AGO"}
