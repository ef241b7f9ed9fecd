"""Doors to screens with every box open, and to parts of screens that are drawn while something runs, or
for what no stored run has.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.experiment import link, parse_experiment, screen_of
from spmd_core.lab import Lab, examples
from spmd_core.machine import get_topology
from spmd_core.reports import Subject, collection_document, markdown_text
from spmd_core.runs import RUN, Collection, CollectionItem
from spmd_core.surveys.search import kept_search
from spmd_core.sweeps import Outcome, at_sizes, members
from spmd_lab.ui import links, mesh_fields, remedies, shell
from spmd_lab.ui.collectives import bandwidths
from spmd_lab.ui.compare import beside, sizes, study
from spmd_lab.ui.history import days
from spmd_lab.ui.notebook import tour
from spmd_lab.ui.predict import compiling, keep, topology_fields
from spmd_lab.ui.search import answer as of_search
from tests.golden import screens
from tests.golden.asked import _TICKED, LARGE, SMALLER, STUDY
from tests.golden.edited import _answer
from tests.golden.folder import apart
from tests.golden.seldom import EXPORTED, MEASURED, PLAN, STORED_S
from tests.golden.sentences import SEARCHES, _baseline, _removals
from tests.golden.states import MODEL
from tests.golden.values import Line
from tests.layers import ROOT

HELD_UP = ("waiting", "running", "predicted", "failed")


def boxes() -> dict[str, bool]:
    """The keys of the boxes whose content is made once they are opened, all open."""
    calls = (
        node
        for folder in ("pages", "spmd_lab/ui")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
    )
    held = {}
    for call in calls:
        words = {each.arg: each.value for each in call.keywords}
        kind, key = getattr(call.func, "attr", ""), words.get("key")
        is_box = "on_change" in words and kind in ("expander", "popover")
        if is_box and isinstance(key, ast.Constant):
            held[str(key.value)] = True
    return held


def doors(lab: Lab, runs: Sequence[Any]) -> Iterator[tuple[str, Callable[[], list[Line]]]]:
    """Name and rendering of each."""
    held = boxes()
    firsts: dict[tuple[object, ...], Any] = {}
    for each in (one for one in runs if one.state == "succeeded"):
        what = each.experiment
        firsts.setdefault((screen_of(what), what.place.is_absent, bool(what.variants)), each)
    for (page, *_), each in firsts.items():
        query = {"experiment": link.encode(each.experiment), "run": each.run}
        yield f"boxes/{each.run}", partial(screens.lines_of, str(page), query, held)
    for page in ("history", "notebook", "recipes"):
        yield f"boxes/{page}", partial(screens.lines_of, page, {}, held)
    ticked = {_TICKED: [MEASURED, LARGE, SMALLER, PLAN]}
    yield "boxes/ticked", partial(screens.lines_of, "history", {"search": "fsdp=16"}, ticked)
    for words in ("all gather", "psum"):
        yield f"boxes/recipes {words}", partial(screens.lines_of, "recipes", {"search": words})
    yield "boxes/examples", _examples
    yield "boxes/remedies", partial(_remedies, lab)
    yield "boxes/sizes", partial(_sizes, lab)
    yield "boxes/searches", _searches
    yield "boxes/compiles", _compiles
    yield "boxes/fields", _fields
    yield "boxes/parts", partial(_parts, lab, runs)


def _examples() -> list[Line]:
    """Screens of a folder that has the results which came with the program."""
    with apart() as lab:
        with examples.ARCHIVE.open("rb") as file:
            lab.archives.import_file(file, examples.ARCHIVE.name)
        stops = tour.stops()
        lines = [*screens.lines_of(None, {}), *screens.lines_of("notebook", {})]
        for stop in (stops[0], stops[-1]):
            what = lab.status(stop.runs[0]).experiment
            query = {"experiment": link.encode(what), "run": stop.runs[0]}
            alone = len(stop.runs) == 1
            lines += (
                screens.lines_of(screen_of(what), query)
                if alone
                else screens.lines_of("history", {"runs": ",".join(stop.runs)})
            )
        return [*lines, *screens.lines_of("history", {"search": "is:example"})]


def _remedies(lab: Lab) -> list[Line]:
    """Remedies while they are tried: one known, one compiled first."""
    facts = lab.facts(MEASURED)
    assert facts is not None
    base = facts.row("auto").experiment.vary(sharding={"in": ["x"]})
    lines = []
    removals = [removal for removal, _ in _removals(base)]
    for done, of, first, known in ((0, 0, 0, 9), (1, 4, 0, 9), (2, 5, 3, 0), (4, 5, 9, 1)):
        trial = SimpleNamespace(
            is_over=False,
            done=done,
            of=of,
            doing="compiling",
            left_s=12.0,
            share=done / max(of, 1),
            pace="1 of 3 processes timed" if done == 4 else "",
            result=facts,
            first={"auto": {0: removals[first]}},
            answers={"auto": {0: removals[known]}, "explicit": {0: removals[first]}},
        )
        with mock.patch.object(remedies.running, "find", lambda *_, trial=trial: trial):
            names = ("auto",) if done == 1 else tuple(facts.strategies)
            lines += screens.lines_of_part(partial(remedies._watch, facts.run, names))
    return lines


def _sizes(lab: Lab) -> list[Line]:
    """The sizes of a run while one, or all, of them are computed."""
    experiments = at_sizes(lab.status(MEASURED).experiment)
    lines = []
    for active in (["a"], [each.id for each in experiments]):
        with mock.patch.object(sizes, "at_work", lambda _, active=active: active):
            lines += screens.lines_of_part(partial(sizes._watch, experiments))
    return lines


def _searches() -> list[Line]:
    """Searches while they are at work, with and without a limit; and all candidates, filtered."""
    lines = []
    with apart() as lab:
        for id in SEARCHES:
            answer = replace(_answer(lab, id), seconds=1.5)
            for doing, budget_s in (("compiling", 30.0), ("estimating", None)):
                search: Any = SimpleNamespace(
                    is_over=False,
                    doing=doing,
                    spent_s=12.0,
                    most_s=budget_s,
                    is_ending=False,
                    share=0.4,
                    glance=replace(answer, space=4 * answer.space),
                    question=answer.question,
                )
                kept = kept_search(answer, "done", STORED_S)
                stored = SimpleNamespace(
                    has=lambda _, doing=doing: doing == "estimating", find=lambda _, kept=kept: kept
                )
                here = SimpleNamespace(searches=stored, result=lab.result)
                # a part of a screen has no pages that a link could open
                no_link = mock.patch.object(of_search, "_open", lambda *_: None)
                with no_link, mock.patch.object(of_search, "lab", lambda here=here: here):
                    lines += screens.lines_of_part(partial(of_search.watch, search))
            for words, state in (("", "all"), ("nosuchthing", "all"), ("=", "pruned")):
                held = {"search:every": True, "search:filter": words, "search:fate": state}
                with mock.patch.object(of_search, "MOST_LISTED", 7):
                    lines += screens.lines_of_part(partial(of_search.every, answer), held)
    return lines


def _compiles() -> list[Line]:
    """Compiles of a sweep that wait for another run, or for the cluster."""
    first = parse_experiment(MODEL)
    points = members(first)
    outcomes = [Outcome(each) for each in HELD_UP]
    states = (
        outcomes[:1],
        outcomes,
        [replace(outcomes[0], words="the cluster is away"), *outcomes],
    )
    lines = []
    for now in states:
        with mock.patch.object(compiling, "outcomes_of", lambda _, now=now: tuple(now)):
            seen = tuple(each.state for each in now)
            draw = partial(compiling._watch, points * len(now), seen, lambda each: each.label)
            lines += screens.lines_of_part(draw)
    return lines


def _fields() -> list[Line]:
    """Fields of a mesh that does not fill its topology, or has further axes."""
    lines = []
    for target, mesh in (
        ("tpu:v5e:4x4", [["x", 4], ["y", 2]]),
        ("tpu:v5p:4x4x8", [["fsdp", 64]]),
        ("gpu:h100:2x8", [["x", 16]]),
    ):
        draft = dict(parse_experiment(MODEL).to_json()) | {"target": target, "mesh": mesh}
        draw = partial(topology_fields._fill, "predict", draft, get_topology(target), mesh)
        lines += screens.lines_of_part(draw)
    for old, names in ((["x", "y"], ("x", "y", "z")), (["x", "a0"], ("x",)), (["a0", "a1"], ())):
        mesh = [[name, 2] for name in old]

        def draw(mesh: list[list[Any]] = mesh, names: Sequence[str] = names) -> None:
            for at in range(4):
                st.text(str(mesh_fields._axis_at("compare", at, mesh, [], names)))

        lines += screens.lines_of_part(draw)
    return lines


def _parts(lab: Lab, runs: Sequence[Any]) -> list[Line]:
    """Parts of screens for many runs, other variants, changed baselines and late files."""
    timed = [each for each in runs if each.answer and not each.experiment.place.is_absent]
    whole = lab.status(STUDY).experiment
    form = dict(whole.to_json())
    fewer = parse_experiment(form | {"variants": form["variants"][1:]})
    old, new = (_baseline(lab, run) for run in (PLAN, LARGE))
    parts: list[tuple[Callable[[], object], Mapping[str, Any]]] = [
        *((partial(days._unfold, timed[:count]), {}) for count in (1, 2, 5)),
        (partial(study._differences, whole, fewer), {}),
        (partial(study._differences, fewer, whole), {}),
        *((partial(keep._against, each.to_text().encode(), new), {}) for each in (old, new)),
        (partial(keep._against, b"{}", new), {}),
        (partial(beside.draw, runs), {}),
        *((partial(_loading, names), {}) for names in (("a.py",), ("a.py", "b.py"))),
        (shell._address_banner, {}),
        *(
            (partial(_written, bandwidths._on_tpus, each.experiment), {})
            for each in _of_links(runs)
        ),
        *(
            (partial(_written, links.path, *each), {})
            for each in ((whole, None, "compare"), (whole, STUDY, "compare"))
        ),
        (partial(_written, links._page_path, "overview"), {}),
        (partial(_written, links._page_path, "history"), {}),
    ]
    lines = []
    with (
        mock.patch.object(beside, "MOST", 2),
        mock.patch.object(shell.door, "is_exposed", lambda: True),
        mock.patch.object(shell.door, "LOOPBACK", ()),
        # a part has no other pages
        mock.patch.object(beside.st, "page_link", lambda *_, label, **__: beside.st.caption(label)),
    ):
        for draw, held in parts:
            lines += screens.lines_of_part(draw, held)
        with mock.patch.object(shell, "may_act", lambda: False):
            lines += screens.lines_of_part(shell._address_banner)
    with mock.patch.object(links.link, "link_path", _refuse):
        for run in (None, STUDY):
            lines += screens.lines_of_part(partial(_written, links.path, whole, run, "compare"))
    lines += _collected(lab, next(each for each in runs if each.run == MEASURED))
    query = {"experiment": link.encode(lab.status(EXPORTED).experiment), "run": EXPORTED}
    return [*lines, *screens.lines_of("programs", query, {"share": True, "downloads": True})]


def _collected(lab: Lab, summary: Any) -> list[Line]:
    """A page with a run and the same again, and their letters."""
    facts = lab.facts(summary.run)
    assert facts is not None
    ids = [f"{summary.run[:-6]}{end * 6}" for end in "abc"]
    subjects = {
        id: Subject(replace(summary, run=id), facts.model_copy(update={"run": id}), {})
        for id in ids
    }
    items = tuple(CollectionItem(id, RUN, id) for id in ids)
    page = collection_document(Collection("c", "Again", items, updated_at=STORED_S), subjects)
    return [[each] for each in markdown_text(page).splitlines() if each.startswith(("#", "**"))]


def _of_links(runs: Sequence[Any]) -> list[Any]:
    return [each for each in runs if each.experiment.workload == "collectives"][:2]


def _loading(names: tuple[str, ...]) -> None:
    with mock.patch.object(shell.files, "late", lambda _: names):
        shell._until_loaded(names)


def _written(door: Callable[..., object], *given: Any) -> None:
    st.text(str(door(*given)))


def _refuse(*_: object) -> str:
    raise RequestError("no link may carry it")
