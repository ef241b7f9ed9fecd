"""Text of others on a real page: a sample of what `bench/hostile_text.py` reads."""

import pytest
from playwright.sync_api import expect

from bench.hostile_text import MADE, PLACES, TEXTS, collection, made, watched
from spmd_core.lab.store.store import Store

SAMPLE = ("compare: target", "layout: mesh", "search: model")


@pytest.mark.parametrize("place", SAMPLE)
def test_a_text_of_others_makes_no_link_picture_or_icon(server, page, place):
    asked: list[str] = []
    watched(page, asked)
    text = " ".join(TEXTS[number] for number in (0, 1, 5))
    path = next(each for each in PLACES if each.name == place).path(text, 0)
    assert made(page, server.url + path) == [] and asked == []
    expect(page.get_by_text("This link cannot be opened as it is").first).to_be_visible()


@pytest.mark.parametrize("number", [0, 9])
def test_a_collection_of_others_makes_no_link_or_icon(server, page, number):
    """Its title and texts have no anchor either, whose address would be theirs."""
    store, stored = Store(server.folder / "data"), collection(TEXTS[number], number)
    try:
        store.add_collection(stored)
    finally:
        store.close()
    for path in ("", "&edit=true"):
        url = f"{server.url}/notebook?collection={stored.id}{path}"
        assert made(page, url) == []
    gone = page.get_by_text("it was deleted, or is in another archive")
    expect(gone.first).to_be_visible()


def test_what_a_text_makes_of_a_page_is_seen(server, page):
    """The judge of the sample can fail."""
    url = f"{server.url}/recipes"
    assert made(page, url) == []
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', "
        "'<a href=https://evil.example>a</a><b>zqx</b><p>\\u202e 💀</p>')"
    )
    found = page.evaluate(MADE)
    assert len(found) == 4, found


def test_no_picture_of_another_host_is_fetched(server, page):
    asked: list[str] = []
    watched(page, asked)
    made(page, f"{server.url}/recipes")
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=https://evil.example/i>')"
    )
    page.wait_for_function("[...document.images].every((each) => each.complete)")
    assert asked == []
