"""Searches that are shared: kept, reported, compared and archived; a foreign one answers for nothing
here.
"""

import io
import json
import re
import zlib

import pytest

from spmd_core.base import RequestError, Settings
from spmd_core.lab import Asker, Lab, Searches, container
from spmd_core.reports import (
    collection_document,
    compare_searches,
    html_text,
    markdown_text,
    search_document,
    search_of,
    searches_document,
    searches_json,
)
from spmd_core.reports.search_document import flat
from spmd_core.runs import CollectionItem
from spmd_core.search import TOP, read_question
from spmd_core.search.kept import MOST_CHARACTERS, KeptCandidate, KeptSearch, read_kept
from spmd_core.search.link import decode
from spmd_core.surveys.search import answer_json
from spmd_core.trials import Search, searches as running
from tests.lab.test_collections import exported

SMALL = {"model": "scaled:1", "chips": ["v5e:2x4"], "global_batch": 16, "remat": ["minimal"]}
ODD = "<script>alert(1)</script> =cmd() [x](javascript:alert(1)) \u202e"
RUNNER = Asker("mark", None, None, "bob", True, True, ("issuer#bob",))


@pytest.fixture
def there(tmp_path, data_folder):
    return Lab.open(tmp_path / "there", serve=False)


@pytest.fixture
def here(data_folder):
    return Lab.open(data_folder, serve=False, settings=Settings(runners=("issuer#bob",)))


def searched(lab, **changes):
    """A search that is carried out by its estimates, and what is kept of it."""
    question = read_question(SMALL | changes)
    answer = Search(lab, Searches(lab.folder), question, None).run()
    return answer, lab.searches.find(question.id)


def kept(search="a", **changes):
    row = KeptCandidate(
        name=changes.pop("name", "data=16"),
        target="tpu:v5e:4x4",
        stage="estimated",
        known_by="estimate",
        seconds=changes.pop("seconds", 1.0),
        low_s=changes.pop("low_s", 0.9),
        high_s=changes.pop("high_s", 1.1),
        tokens=changes.pop("tokens", 1),
    )
    return KeptSearch(search=search, has_winner=True, ranking=(row,), at=1e9, **changes)


def test_what_is_kept_is_what_was_answered(there):
    answer, found = searched(there, remat=["minimal", "full"], offload=False)
    form = answer_json(answer, len(answer.ranking))
    assert found.winner.name == answer.winner.name and found.question == form["question"]
    assert (found.counts, found.pruned) == (form["counts"], form["pruned"])
    # a row is a mesh and a batch under its best policy, as on the screen
    first: dict[tuple, list] = {}
    for told in form["ranking"]:
        asked = told["experiment"]
        key = (told["target"], str(asked["mesh"]), str(asked["dims"]))
        first.setdefault(key, []).append(told)
    assert max(map(len, first.values())) > 1
    for row, alike in zip(found.ranking, [*first.values()][:TOP], strict=True):
        told = alike[0]
        assert row.name == told["name"]
        assert row.alike == sum(1 + each["alike"] for each in alike) - 1
        assert (row.low_s, row.seconds, row.high_s) == tuple(told["predicted_s"].values())
        assert (row.memory_bytes, row.mfu) == (told["memory_bytes"], told["mfu"])
    assert decode(found.link.partition("=")[2]) == answer.question
    assert len(found.standards) == len(answer.standards)


def test_a_report_has_every_number_and_the_answer_first(there):
    _, found = searched(there)
    html = html_text(search_document(found, {}))
    values = set(map(float, re.findall(r'data value="([^"]+)"', html)))
    for row in found.ranking:
        assert {row.seconds, row.low_s, row.high_s, row.memory_bytes, row.mfu} <= values
    body = html.partition("<main>")[2]
    assert body.index("class=first") < body.index("<table>") and found.link in html
    assert str(there.folder) not in html and found.ranking[-1].why.split(";")[0] in html


def test_a_search_travels_and_answers_for_nothing_there(there, here):
    answer, found = searched(there)
    file = exported(there, found.id)
    (name,) = here.archives.import_file(file).imported
    assert here.archives.import_file(file).present == (name,)
    foreign = here.searches.find(name)
    assert foreign.origin == there._store.installation() and foreign.digest == found.digest
    # it is no search of this machine: nothing goes on from it, opens it, or answers by it
    assert running.find(here, answer.question) is None and running.latest(here) == ()
    assert Searches(here.folder).outcomes(found.search) == {}
    assert not here.searches.has(found.search) and "foreign search" in html_text(
        search_document(foreign, {})
    )
    own, mine = searched(here)
    assert own.winner.name == answer.winner.name and mine.origin is None
    assert {each.id for each in here.searches.listed()} == {name, mine.id}
    assert here.searches.find(name) == foreign, "its answer stays what it was"


def test_what_comes_back_is_here_before_and_a_later_answer_is_another(there, here):
    _, found = searched(there)
    (name,) = here.archives.import_file(exported(there, found.id)).imported
    assert there.archives.import_file(exported(here, *here.archives.every())).present == (found.id,)
    assert there.searches.listed() == (found,)
    _, later = searched(there)
    assert later.at > found.at
    (second,) = here.archives.import_file(exported(there, later.id)).imported
    assert second != name and len(here.searches.listed()) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"search": "other"},
        {"search": "../../etc"},
        {"surprise": 1},
        {"at": 1e300},
        {"words": "x" * MOST_CHARACTERS},
        {"runs": ["../x"]},
        {"origin": "<b>"},
        {"state": "won"},
        {"space": -1},
    ],
)
def test_a_doctored_search_is_refused_alone(here, change):
    member = kept().model_dump(mode="json") | change
    good = kept("b").model_dump_json().encode()
    file = io.BytesIO()
    members = [("searches/a.json", json.dumps(member).encode()), ("searches/b.json", good)]
    container.write(file, "elsewhere", 1.0, members)
    taken = here.archives.import_file(file)
    assert [each.id for each in taken.refused] == ["a"] and len(taken.imported) == 1
    assert "\n" not in taken.refused[0].reason


def test_foreign_text_of_a_search_is_shown_and_is_no_markup():
    odd = kept(
        title=ODD, words=ODD, remarks=(ODD,), standards=(ODD,), name=ODD, question={ODD: ODD}
    )
    for document in (
        search_document(odd, {}),
        searches_document(compare_searches([odd, kept("b")])),
    ):
        html, markdown = html_text(document), markdown_text(document)
        assert "<script" not in html and "&lt;script" in html
        assert not re.search(r"(?<!\\)<script|(?<!\\)\]\(", markdown)


def test_only_admins_delete_a_foreign_search_and_nobody_one_of_here(there, here):
    _, found = searched(there)
    (name,) = here.archives.import_file(exported(there, found.id)).imported
    with pytest.raises(RequestError, match="only its owner and admins"):
        here.searches.delete(name, RUNNER)
    here.searches.delete(name)
    assert here.searches.listed() == ()
    with pytest.raises(RequestError, match="forgets the oldest by itself"):
        there.searches.delete(found.id)


def test_what_someone_kept_is_forgotten_last_and_what_was_only_estimated_first(there):
    store = Searches(there.folder)
    running.keep(there, kept("mine", words="The best."))
    for number in range(50):
        store.begin(f"tried-{number}", {}, 1)
        store.keep(kept(f"tried-{number}", spent_s=1.0, words="The best."))
        if number:
            store.keep_outcomes(f"tried-{number}", [(0, {"fate": "compiled"})])
    store.begin("new", {}, 1)
    assert store.find("mine") and there.searches.find("mine") and store.find("tried-1")
    assert store.find("tried-0") is None
    for number in range(60):
        store.begin(f"later-{number}", {}, 1)
        store.keep_outcomes(f"later-{number}", [(0, {"fate": "compiled"})])
    assert store.find("mine") and store.find("tried-1") is None


def test_searches_are_compared_by_what_differs_in_question_and_answer():
    one = kept(question={"model": "m", "chips": ["v5p:16"], "plan": {"gated": True}})
    other = kept(
        "b",
        question={"model": "m", "chips": ["v5p:32"], "plan": {"gated": True}},
        seconds=1.0,
        tokens=2,
    )
    compared = compare_searches([one, other], "a")
    form = searches_json(compared)
    assert form["differences"] == [{"part": "chips", "texts": {"a": "v5p:16", "b": "v5p:32"}}]
    (verdict,) = form["verdicts"]
    assert (verdict["ratio"], verdict["verdict"], verdict["faster"]) == (0.5, "faster", "b")
    assert form["sentences"][0].startswith("B is ")
    assert ") faster per token than A: " in form["sentences"][0]
    assert verdict["per_token"]
    near = compare_searches([one, kept("b", question=one.question, seconds=1.05)])
    assert near.answers[0].verdict == "cannot tell"
    measured = kept("b").model_copy(
        update={"ranking": (kept().ranking[0].model_copy(update={"stage": "measured"}),)}
    )
    assert "only predicted" in searches_json(compare_searches([one, measured]))["sentences"][0]
    assert compare_searches([one, kept("b", question={"model": "n"})]).answers[0].apart
    for wrong in ([one], [one, one], [kept(str(at)) for at in range(9)]):
        with pytest.raises(RequestError):
            compare_searches(wrong)


def test_a_collection_keeps_the_ranking_and_compares_its_searches(there):
    _, found = searched(there)
    page = there.collections.create("Week 47")
    page = there.collections.add_search(page.id, found)
    assert search_of(page.items[0]) == found
    page = there.collections.add_search(page.id, searched(there, global_batch=64)[1])
    html = html_text(collection_document(page, {}))
    assert f'data value="{found.winner.seconds!r}"' in html
    assert "Its searches side by side" in html and "global_batch" in html


def test_a_part_of_an_earlier_version_has_its_question_and_sentence():
    about = json.dumps({"question": {"model": "m"}, "words": "1 s: data=16", "at": 1e9})
    before = search_of(CollectionItem("a", "search", "0123456789abcdef", about))
    assert (before.words, before.question, before.winner) == ("1 s: data=16", {"model": "m"}, None)
    for damaged in ("", "[]", "{", '{"at": "x"}'):
        assert search_of(CollectionItem("a", "search", "x", damaged)).words.startswith("It had no")


def test_what_this_version_cannot_read_costs_no_screen(there):
    _, found = searched(there)
    for body in (b"x", zlib.compress(b'{"search": "b", "newer": 1}')):
        there._store._writer.execute(
            "INSERT OR REPLACE INTO kept_searches VALUES ('b', 0, 1, ?)", (body,)
        )
        assert there.searches.listed() == (found,) and not there.searches.has("b")
        with pytest.raises(RequestError, match=r"is damaged|cannot be read by this version"):
            there.searches.find("b")


def test_what_is_kept_is_bounded_and_flat():
    many = kept().model_copy(update={"ranking": tuple(kept(name="x" * 5000).ranking) * 20})
    assert len(many.within().model_dump_json()) <= MOST_CHARACTERS and many.within().ranking
    assert read_kept(kept().model_dump_json()) == kept()
    assert flat({"a": {"b": {"c": 1}}, "d": {}}) == {"a.b.c": 1, "d": {}}
