"""Text of others in every place that takes some, read in a real browser: it makes no link, picture,
icon or heading, and nothing is asked of another host.

    .venv/bin/python -m bench.hostile_text [--part 1/1]
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Error, Page, Route, sync_playwright

from bench.browser import visit
from bench.figures import Asked, Figures, measure, of_part
from bench.hostile_links import code_of
from bench.server import CHROMIUM, Server
from bench.values import ENVIRONMENT, comparison, strategy
from spmd_core.experiment import encode, parse_experiment
from spmd_core.lab.store.store import Store
from spmd_core.results import Failure, Result
from spmd_core.runs import Collection, CollectionItem, checked_name, checked_note, checked_title

TEXTS = (
    "Expired. Log in at https://evil.example/login",
    "![i](https://evil.example/i.png)",
    "[click](https://evil.example/) <https://evil.example/>",
    "go to www.evil.example now",
    "mail admin@evil.example, mailto:a@evil.example",
    ":material/skull: :skull: :streamlit: :red[zqx]",
    "<img src=https://evil.example/x.png><b>zqx</b>",
    '=HYPERLINK("https://evil.example/","zqx")',
    "a \u202e https://evil.example/ \u2066 b",
    "**zqx** $x^2$ `zqx` | a | b | # zqx :blue-badge[zqx]",
)
# What the page has that only a text of others can have made; code shows a text, and does nothing
MADE = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const found = [];
  for (const each of all('a[href]'))
    if (/evil|mailto:/.test(each.getAttribute('href'))) found.push('link ' + each.href);
  for (const each of all('[src],[srcset],image'))
    if (/evil/.test(each.outerHTML.slice(0, 300))) found.push('picture ' + each.tagName);
  for (const each of all('[data-testid="stIconMaterial"]'))
    if (/skull/.test(each.textContent)) found.push('icon');
  for (const each of all('img[alt="Streamlit logo"]')) found.push('logo ' + each.alt);
  for (const each of all('.katex')) found.push('formula ' + each.textContent.slice(0, 20));
  for (const each of all('b,strong,em,h1,h2,h3,[class*="stMarkdownColored"],[class*="stMarkdownBadge"]'))
    if (each.textContent.trim() === 'zqx') found.push('markup ' + each.tagName);
  const text = document.body.innerText;
  if (/💀/u.test(text)) found.push('emoji');
  if (/[\\u202a-\\u202e\\u2066-\\u2069]/.test(text)) found.push('mark of direction');
  return found;
}"""
RUN = "20260101-000000-hostile"
LAYER: dict[str, Any] = {"workload": "layer", "mesh": {"x": 8}, "target": "cpu:8"}


@dataclass(frozen=True)
class Place:
    """Where a text is put: the path and query that open it, or None where it cannot be there."""

    name: str
    path: Callable[[str, int], str | None]


def _spec(screen: str, **fields: Callable[[str], Any]) -> Callable[[str, int], str]:
    def path(text: str, _: int) -> str:
        put = {name: make(text) for name, make in fields.items()}
        return f"/{screen}?{urlencode({'experiment': code_of(LAYER | put)})}"

    return path


def _query(screen: str, name: str) -> Callable[[str, int], str]:
    return lambda text, _: f"/{screen}?{urlencode({name: text})}"


def _search(**fields: Callable[[str], Any]) -> Callable[[str, int], str]:
    usual = {"kind": "model", "model": "scaled:1", "chips": ["v5e:16"], "global_batch": 32}

    def path(text: str, _: int) -> str:
        put = {name: make(text) for name, make in fields.items()}
        return f"/search?{urlencode({'search': code_of(usual | put)})}"

    return path


def _stored(tab: str, screen: str = "compare") -> Callable[[str, int], str]:
    """A stored run whose result says the text wherever it can; on one of its tabs."""

    def path(text: str, number: int) -> str:
        code = encode(hostile_result(text, number).experiment)
        return f"/{screen}?{urlencode({'experiment': code, 'run': _run(number), 'tab': tab})}"

    return path


PLACES = (
    *(
        Place(f"{screen}: {field}", _spec(screen, **{field: make}))
        for screen in ("compare", "layout")
        for field, make in (
            ("target", str),
            ("workload", str),
            ("mesh", lambda text: {text: 8}),
            ("sharding", lambda text: {text: "x"}),
            ("dtype", str),
            ("dims", lambda text: {text: 8}),
            ("overrides", lambda text: {"x": [text, None]}),
        )
    ),
    *(
        Place(f"compare: {field}", _spec("compare", **{field: make}))
        for field, make in (
            ("strategies", lambda text: [text]),
            ("data", lambda text: {text: "ones"}),
            ("memory", lambda text: {"x": text}),
            ("options", lambda text: {text: 1}),
            ("seed", str),
            ("timing", lambda text: {text: 1}),
            ("unknown", str),
        )
    ),
    Place("predict: target", _spec("predict", target=lambda text: f"tpu:{text}")),
    Place("collectives: target", _spec("collectives", target=str)),
    Place("compare: run", _query("compare", "run")),
    Place("compare: experiment", _query("compare", "experiment")),
    Place("predict: sweep", _query("predict", "sweep")),
    Place("search: link", _query("search", "search")),
    Place("search: model", _search(model=str)),
    Place("search: chips", _search(chips=lambda text: [text])),
    Place("search: remat", _search(remat=lambda text: [text])),
    Place("search: plan", _search(plan=lambda text: {text: 1})),
    Place("recipes: filter", _query("recipes", "search")),
    Place("history: filter", _query("history", "search")),
    *(
        Place(f"a stored study: {tab}", _stored(tab))
        for tab in ("Values", "Layouts", "Samples", "Phases", "Memory", "Machine", "Programs")
    ),
    Place("a failed run", lambda _, number: f"/compare?run={_run(number)}-failed"),
    Place("its row in History", lambda _, number: "/history"),
    Place("its row on Overview", lambda _, number: "/"),
    Place(
        "two named runs side by side", lambda _, number: f"/history?runs={_run(number)},{_run(0)}"
    ),
    Place("a collection", lambda _, number: f"/notebook?collection={_collection(number)}"),
    Place(
        "a collection being edited",
        lambda _, number: f"/notebook?collection={_collection(number)}&edit=true",
    ),
    Place("the list of collections", lambda _, number: "/notebook"),
    Place("notebook: link", _query("notebook", "collection")),
    Place("history: link", _query("history", "runs")),
)


def _run(number: int) -> str:
    return f"{RUN}-{number}"


def _collection(number: int) -> str:
    return f"c-hostile-{number}"


def hostile_result(text: str, number: int) -> Result:
    """A study whose variant, notes, warnings, errors, arrays and environment are this text."""
    name = "".join(each for each in text if each.isprintable())[:58]
    study = parse_experiment(
        {
            "study": [
                {"name": name, "experiment": LAYER | {"strategies": ["auto", "explicit"]}},
                {"name": "other", "experiment": LAYER | {"sharding": {"in": "x"}}},
            ]
        }
    )
    array = {"shape": [2], "dtype": text, "spec": None, "memory": text, "values": [1.0, 2.0]}
    # a name of an array is a key of the store, too
    good = strategy(
        1e-5,
        notes=[text],
        warnings=[text],
        printed={text: text},
        outputs={text: array},
        phases_s={"trace": 0.1, "lower": 0.1, "compile": 0.1, "first_run": 0.1},
    )
    other = next(each for each in study.variants if each.name == "other").experiment.strategies
    return Result.model_validate(
        {
            "run": _run(number),
            "experiment": study,
            "environment": ENVIRONMENT | {"device_kind": text, "jax": text, "notes": [text]},
            "notes": [text],
            "strategies": {
                f"{name}/auto": good,
                f"{name}/explicit": {"status": "error", "error": {"kind": "E", "message": text}},
                **{f"other/{each}": strategy(3e-5) for each in other},
            },
            "comparison": comparison(f"{name}/auto", ("other/auto", 3.0, True)),
        }
    )


def labels(text: str) -> dict[str, Any]:
    """A name, a note and tags that are this text, as far as they may be; a tag is a badge of ours
    already, so that none is the bare word that tells markup.
    """
    tags = tuple(dict.fromkeys(f"{word.strip('#,')[:38]}'s" for word in text.split()))
    return {"name": checked_name(text), "note": checked_note(f"# {text}\n\n- {text}"), "tags": tags}


def collection(text: str, number: int) -> Collection:
    """A collection whose title, texts and search are this text, with the run that says it; bold is
    what a text of a collection may be.
    """
    plain_text = text.replace("**", "* *")
    question = {"kind": "model", "model": text, "chips": [text]}
    about = json.dumps({"question": question, "words": text, "at": 1.0})
    items = (
        CollectionItem(
            "0" * 8, "text", checked_note(f"# {plain_text}\n\n- {plain_text}\n\n{plain_text}")
        ),
        CollectionItem("1" * 8, "run", _run(number)),
        CollectionItem("2" * 8, "run", f"{_run(number)}-failed"),
        CollectionItem("3" * 8, "search", "hostile", about),
    )
    return Collection(_collection(number), checked_title(text), items, text, 1.0, 2.0)


def fill(folder: Path, texts: tuple[str, ...] = TEXTS) -> None:
    """Store, for each text, a study that says it, a run that failed with it, and a collection of
    both.
    """
    store = Store(folder)
    try:
        for number, text in enumerate(texts):
            result = hostile_result(text, number)
            store.submit(result.run, result.experiment)
            store.start(result.run)
            store.finish(result.run, "succeeded", result=result)
            failed = f"{result.run}-failed"
            store.submit(failed, result.experiment)
            store.start(failed)
            store.finish(failed, "failed", error=Failure(kind="E", message=text), stderr_tail=text)
            for run in (result.run, failed):
                store.label(run, None, **labels(text))
            store.add_collection(collection(text, number))
    finally:
        store.close()


def watched(page: Page, asked: list[str]) -> None:
    """Stop what a page asks of other hosts, and note it."""

    def guard(route: Route) -> None:
        if "127.0.0.1" in route.request.url.split("/")[2]:
            route.continue_()
        else:
            asked.append(route.request.url)
            route.abort()

    page.route(lambda url: url.startswith("http"), guard)


def made(page: Page, url: str) -> list[str]:
    """What a text of others made of the page at an address."""
    return visit(page, url).evaluate(MADE)


def cases() -> Iterator[tuple[str, str, str]]:
    """Place, text and path of each case."""
    for place in PLACES:
        for number, text in enumerate(TEXTS):
            path = place.path(text, number)
            if path is not None:
                yield place.name, text, path


def main(options: Asked, figures: Figures) -> None:
    spoke, asked, tried = 0, list[str](), of_part(list(cases()), options.part)
    with tempfile.TemporaryDirectory(prefix="spmd-lab-text-") as name, sync_playwright() as play:
        server = Server(Path(name))
        fill(server.folder / "data")
        server.start()
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = browser.new_page()
            watched(page, asked)
            for place, text, path in tried:
                try:
                    found = made(page, server.url + path)
                except Error as error:
                    found = [f"not drawn: {str(error)[:60]}"]
                if found:
                    spoke += 1
                    print(f"{place}, {text!r}: {', '.join(found[:4])}", flush=True)
        finally:
            browser.close()
            server.stop()
    figures.add("places", len(PLACES), least=40)
    figures.add("texts that spoke", spoke, f"of {len(tried)}", most=0)
    figures.add("requests to other hosts", len(asked), most=0)


if __name__ == "__main__":
    measure(main, __doc__, part=("1/1", "of the cases, for example 3/20"))
