"""What every renderer shows of the stored runs, against what was recorded: the values strictly, and
the texts, which `python -m tests.golden.record` records again.
"""

import pytest

from tests.golden import changes as stored, folder
from tests.golden.doors import doors as every

pytestmark = pytest.mark.slow

RECORDED = stored.recorded()
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
def now():
    return {}


def render(kind, doors, now):
    """What is shown of a kind; rendered once for both tests."""
    if kind not in now:
        named = {name for name in doors if stored.kind_of(name) == kind}
        now[kind] = {name: doors[name]() for name in RECORDED[kind] if name in named}
    return now[kind]


def test_every_door_is_recorded(doors):
    assert {name for texts in RECORDED.values() for name in texts} == set(doors)


@pytest.mark.parametrize("kind", RECORDED)
def test_numbers_flags_and_order_are_as_recorded(kind, doors, now):
    shown = render(kind, doors, now)
    changes = [
        each
        for name, before in RECORDED[kind].items()
        for each in stored.changed_values(name, before, shown.get(name, []))
    ]
    assert not changes, "\n".join([f"{len(changes)} values {LISTED}", *changes[:SHOWN]])


@pytest.mark.parametrize("kind", RECORDED)
def test_texts_are_as_recorded(kind, doors, now):
    shown = render(kind, doors, now)
    changes = [
        each
        for name, before in RECORDED[kind].items()
        for each in stored.changed_texts(name, before, shown.get(name, []))
    ]
    assert not changes, "\n".join([f"{len(changes)} lines {AGAIN}", *changes[:SHOWN]])
