"""Collections: what a page holds, who may change it, two people at one, and what travels."""

import io
import json
import re

import pytest

from spmd_core.base import RequestError, Settings
from spmd_core.lab import Asker, Lab, container
from spmd_core.recipes import get_recipe
from spmd_core.reports import Subject, collection_document, html_text, markdown_text

pytestmark = pytest.mark.fast
ODD = "**b** <script>alert(1)</script> [x](javascript:alert(1)) =cmd() \u202e"
ISSUER = "https://login.example#"


def person(name):
    return Asker(f"mark-{name}", None, None, name, True, True, (f"{ISSUER}{name}",))


@pytest.fixture
def lab(data_folder):
    settings = Settings(admins=(f"{ISSUER}ada",), runners=(f"{ISSUER}bob", f"{ISSUER}eve"))
    return Lab.open(data_folder, serve=False, settings=settings)


@pytest.fixture
def run(lab):
    run = lab.submit(get_recipe("psum").experiment)
    lab.cancel(run)
    lab.wait(run)
    return run


def test_parts_are_added_moved_rewritten_and_removed(lab, run):
    page = lab.collections.create("Week 47")
    lab.collections.add_runs(page.id, run, run)
    page = lab.collections.add_text(page.id, "after", at=None)
    page = lab.collections.move(page.id, page.items[1].id, -1)
    assert [each.text for each in page.items] == ["after", run]
    page = lab.collections.rewrite(page.id, page.items[0].id, "before", was="after")
    assert lab.collections.add_runs(page.id, run).runs == (run,)  # it is there already
    page = lab.collections.remove(page.id, page.items[1].id)
    assert [each.text for each in lab.collections.find(page.id).items] == ["before"]
    assert lab.collections.listed() == (page,) and lab.collections.listed(run) == ()


def test_two_people_edit_one_and_undo_nothing(lab, run):
    page = lab.collections.create("Week 47")
    page = lab.collections.add_text(page.id, "one")
    seen = page.items[0]
    lab.collections.add_runs(page.id, run, asker=person("bob"))
    lab.collections.rewrite(page.id, seen.id, "bob's", asker=person("bob"), was="one")
    with pytest.raises(RequestError, match="changed by somebody else meanwhile, to"):
        lab.collections.rewrite(page.id, seen.id, "eve's", asker=person("eve"), was="one")
    lab.collections.remove(page.id, seen.id, asker=person("eve"))
    with pytest.raises(RequestError, match="somebody else has removed it"):
        lab.collections.rewrite(page.id, seen.id, "more", asker=person("bob"))
    assert lab.collections.find(page.id).runs == (run,)
    with pytest.raises(RequestError, match=r"title .* was changed by somebody else"):
        lab.collections.rename(page.id, "Mine", was="Week 46")


def test_who_may_only_look_changes_nothing_and_owners_and_admins_rename(lab):
    page = lab.collections.create("Bob's", person("bob"))
    gate = lab.collections
    for action in (
        lambda who: gate.create("x", who),
        lambda who: gate.add_text(page.id, "x", who),
        lambda who: gate.rename(page.id, "x", who),
        lambda who: gate.delete(page.id, who),
    ):
        with pytest.raises(RequestError, match="may only look"):
            action(person("carl"))
    gate.add_text(page.id, "from eve", person("eve"))
    for action in (gate.rename, gate.delete):
        arguments = ("Eve's",) if action == gate.rename else ()
        with pytest.raises(RequestError, match="only its owner and admins"):
            action(page.id, *arguments, asker=person("eve"))
    assert gate.rename(page.id, "Ours", person("bob")).title == "Ours"
    gate.delete(page.id, person("ada"))
    with pytest.raises(RequestError, match="is not stored here"):
        gate.find(page.id)
    done = [(each.who, each.action) for each in lab.actions()]
    assert ("ada", "delete collection") in done and ("eve", "edit collection") in done


def test_a_button_that_is_pressed_twice_makes_one(lab):
    bob = person("bob")
    page = lab.collections.create("Week 47", bob)
    assert lab.collections.create(" Week 47", bob) == page
    others = [lab.collections.create("Week 47", person("eve")), lab.collections.create("Week 47")]
    lab.collections.add_text(page.id, "begun", bob)
    others.append(lab.collections.create("Week 47", bob))
    others.append(lab.collections.create("Week 47"))  # the command line has no button
    assert len({page.id, *(each.id for each in others)}) == 5


def test_bad_input_costs_nothing(lab):
    page = lab.collections.create("Week 47")
    for change in (
        lambda: lab.collections.create("  "),
        lambda: lab.collections.create("x" * 121),
        lambda: lab.collections.add_runs(page.id, "nothing"),
        lambda: lab.collections.add_text(page.id, "x" * 2**20),
        lambda: lab.collections.add_text(page.id, "\x07"),
        lambda: lab.collections.move(page.id, "nothing", 1),
        lambda: lab.collections.find("c-none"),
    ):
        with pytest.raises(RequestError):
            change()
    assert lab.collections.listed() == (page,)


def test_foreign_text_is_shown_and_is_no_markup(lab, run):
    page = lab.collections.create(ODD.replace("\u202e", ""))
    page = lab.collections.add_text(page.id, f"# {ODD}\n- {ODD}\n{ODD}".replace("\u202e", ""))
    page = lab.collections.add_runs(page.id, run)
    (summary,) = lab.history(runs=[run])
    document = collection_document(page, {run: Subject(summary, None)})
    html, markdown = html_text(document), markdown_text(document)
    assert "<strong>b</strong>" in html and "**b**" in markdown
    assert "<script" not in html and not re.search(r"(?<!\\)<script|(?<!\\)\]\(", markdown)
    assert "The run left no result." in html


def exported(lab, *names):
    file = io.BytesIO()
    lab.archives.export(names, file)
    return file


def test_a_collection_travels_with_its_runs(lab, run, tmp_path):
    page = lab.collections.add_runs(lab.collections.create("Week 47").id, run)
    page = lab.collections.add_text(page.id, "what we learned")
    file = exported(lab, page.id)
    assert set(lab.archives.every()) == {run, page.id}
    there = Lab.open(tmp_path / "there", serve=False)
    try:
        assert there.archives.import_file(file).imported == (run, page.id)
        assert there.archives.import_file(file).present == (run, page.id)
        got = there.collections.find(page.id)
        assert (got.title, got.items, got.runs) == (page.title, page.items, (run,))
        assert got.origin and got.origin.installation == lab._store.installation()
    finally:
        there.close()


@pytest.mark.parametrize(
    "change",
    [
        {"collection": "c-other"},
        {"title": ""},
        {"items": [{"id": "a", "kind": "page", "text": "x"}]},
        {"items": [{"id": "a", "kind": "run", "text": "../../etc"}]},
        {"items": [{"id": "a", "kind": "text", "text": "x"}] * 2},
        {"items": [{"id": f"a{at}", "kind": "text", "text": "x"} for at in range(201)]},
        {"updated_at": 1e300},
    ],
)
def test_a_doctored_collection_is_refused_alone(lab, tmp_path, change):
    page = lab.collections.create("Week 47")
    data = json.dumps(page.to_json() | change).encode()
    file = io.BytesIO()
    container.write(file, "elsewhere", 1.0, [(f"collections/{page.id}.json", data)])
    there = Lab.open(tmp_path / "there", serve=False)
    try:
        taken = there.archives.import_file(file)
        assert taken.imported == () and [each.id for each in taken.refused] == [page.id]
        assert there.collections.listed() == ()
    finally:
        there.close()
