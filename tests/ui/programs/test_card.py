"""The card of a program: what a search offers beside it, what a fix moves, which button comes next."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from bench import planted_accidents
from bench.exported import sgd_step
from spmd_core.advice import idle_words, specs_words, without_idle
from spmd_core.answers import WhatIf
from spmd_core.experiment import as_exported, link
from spmd_core.facts import Estimate
from spmd_core.results import MemoryBytes
from spmd_core.runs.events import Partitioned
from spmd_core.search import Answer
from spmd_core.search.spaces.program_space import ProgramSpace
from spmd_core.workloads import programs
from spmd_lab.ui.charts import colors, shares
from spmd_lab.ui.lab import lab
from spmd_lab.ui.programs import better, compiled, door, outputs
from tests.layers import ROOT
from tests.ui.predictions import predicted, store
from tests.ui.programs.test_programs import (
    answered,
    button,
    captions,
    headline,
    primary,
    waits as waits_for,
)

PARSER = programs._parser  # that of a dashboard
pytestmark = pytest.mark.usefixtures("read_here")
_LINE = "@example_program.py:20"
_MS = {"sure": 6.0, "close": 9.5, "slower": 12.0}  # the program takes 9 to 11


@pytest.fixture
def screen(data_folder):
    test = AppTest.from_file(str(ROOT / "home.py"), default_timeout=120)
    return test.switch_page("pages/programs.py").run()


@pytest.fixture
def searched(screen, data_folder, monkeypatch):
    """Opens a compiled program whose search is over, its best of so many milliseconds."""

    def opened(milliseconds, is_resized=False):
        taken = programs.take(planted_accidents.CLEAN["tensor parallelism"].exported())
        experiment = as_exported(taken).vary(target="tpu:v5e:2x4")
        own = predicted(experiment, auto=waits_for(0.0018))
        held = {"memory_bytes": MemoryBytes(peak=3 << 28), "collectives": ()}
        of = own.strategies["auto"].model_copy(update=held)
        store(data_folder, own.model_copy(update={"strategies": {"auto": of}}))
        question = better._question(experiment)
        every = ProgramSpace(question, 2).candidates()
        best = next(
            each
            for each in every
            if each.stage == "estimated"
            and (each.experiment.mesh != experiment.mesh) is is_resized
            and not each.experiment.is_alike(experiment)
        )
        step = Estimate(
            low=milliseconds / 1050, estimate=milliseconds / 1000, high=milliseconds / 950
        )
        known = replace(best, stage="compiled", predicted=step, memory_bytes=2 << 30)
        answer = Answer(question, 1, [known], True)
        search = SimpleNamespace(
            is_over=True, budget_s=120.0, answer=answer, batch="", problem="", question=question
        )
        monkeypatch.setattr(better.running, "find", lambda *_: search)
        screen.query_params["experiment"] = link.encode(experiment)
        screen.query_params["panel"] = "search"
        screen.run()
        assert not screen.exception
        return known

    return opened


def offers(screen):
    return [each for each in screen.button if (each.key or "").startswith("use:")]


@pytest.mark.parametrize("is_resized", [False, True])
@pytest.mark.parametrize("how", [*_MS])
def test_a_search_is_pressed_first_where_its_best_is_surely_faster(
    searched, screen, how, is_resized
):
    best = searched(_MS[how], is_resized)
    listed = offers(screen)
    assert len([each for each in listed if each.key != "use:open-chosen"]) == (how != "slower")
    if how == "slower":
        assert "None is faster than as it is" in headline(screen)
        return
    (offer,) = [each for each in listed if each.key == "use:card"]
    assert (offer.proto.type == "primary") is (how == "sure")
    assert (offer.label in primary(screen)) is (how == "sure")
    mesh = " ".join(f"{name}={size}" for name, size in best.experiment.mesh)
    assert (mesh in offer.label) is is_resized, "a mesh that stays is not named"
    assert f"10 → {_MS[how]:g} ms" in captions(screen).replace(".0 ms", " ms")
    assert "768.0 → 2,048.0 MiB" in captions(screen) or "0.75 → 2.00 GiB" in captions(screen)
    assert ("Too close to tell: 2 within their ranges" in headline(screen)) is (how == "close")


def test_what_a_search_found_is_in_use_once_it_was_pressed(searched, screen):
    best = searched(_MS["close"])
    (offer,) = [each for each in offers(screen) if each.key == "use:card"]
    offer.click().run()
    assert not screen.exception
    now = link.decode(screen.query_params["experiment"])
    assert now.is_alike(best.experiment) and now == best.experiment.without_own_specs()
    assert not [each for each in offers(screen) if each.key != "use:open-chosen"]
    assert "None is faster" not in captions(screen) + headline(screen)
    assert [each.proto.expanded for each in screen.expander if each.label == better.TITLE] == [
        False
    ]


@pytest.mark.parametrize(("wait_s", "is_first"), [(0.0, False), (0.0018, False), (0.006, True)])
def test_changes_are_pressed_first_where_a_clean_step_waits_for_most(
    screen, data_folder, wait_s, is_first
):
    taken = programs.take(planted_accidents.CLEAN["tensor parallelism"].exported())
    experiment = as_exported(taken).vary(target="tpu:v5e:2x4")
    own = predicted(experiment, auto=waits_for(wait_s))
    moved = {"collectives": waits_for(wait_s).collectives}
    of = own.strategies["auto"].model_copy(update=moved)
    store(data_folder, own.model_copy(update={"strategies": {"auto": of}}))
    screen.query_params["experiment"] = link.encode(experiment)
    screen.run()
    assert not screen.exception
    assert ("Try changes" in primary(screen)) is is_first


@pytest.mark.parametrize(
    ("target", "mesh", "uses"),
    [
        ("tpu:v5e:4x4", (4, 2), {16}),
        ("tpu:v5e:4x4", (8, 1), {16}),
        ("tpu:v5e:2x4", (4, 2), set()),  # all are used
        ("tpu:v5e:2x4", (2, 1), {8}),
        ("cpu:8", (4, 2), set()),
    ],
)
def test_a_mesh_that_leaves_chips_idle_has_one_that_uses_all(data_folder, target, mesh, uses):
    experiment = as_exported(programs.take(sgd_step())).vary(target="tpu:v5e:2x4")
    named = dict(zip(experiment.axis_sizes, mesh, strict=True))
    experiment = experiment.vary(target=target, mesh=named)
    busy = without_idle(experiment)
    assert ({busy.device_count} if busy else set()) == uses
    if busy:
        assert idle_words(experiment) and not idle_words(busy)
        changed = [axis for axis, size in busy.mesh if size != dict(experiment.mesh)[axis]]
        assert len(changed) == 1


@pytest.mark.parametrize("names", [(), ("params/embed",), (_LINE,), ("params/embed", _LINE)])
def test_changes_are_code_that_runs(data_folder, names):
    described = door.described_example()
    programs.take(door.EXAMPLE.read_bytes(), "example")
    experiment = as_exported(described)
    experiment = experiment.vary(specs={name: [["fsdp"], []] for name in names})
    code = specs_words(experiment)
    assert bool(code) is bool(names)
    if _LINE in names:
        assert (
            "\n# example_program.py:20, its last value\nx = jax.lax.with_sharding_constraint(x, P('fsdp', None))"
            in code
        )
    held = SimpleNamespace(lax=SimpleNamespace(with_sharding_constraint=lambda x, spec: (x, spec)))
    given = {"x": "x"}
    exec(code.replace("import jax\n", ""), given | {"jax": held}, given)
    assert ("specs" in given) is ("params/embed" in names)


@pytest.mark.parametrize("when", ["before the press", "after it", "from its link"])
def test_outputs_that_a_fix_moves_are_named_before_it_and_in_its_link(
    screen, data_folder, monkeypatch, when
):
    words = {"now": "y is replicated now", "then": "y is replicated then"}
    is_mended = lambda program: bool(program.specs)  # noqa: E731
    monkeypatch.setattr(
        outputs,
        "followed_words",
        lambda before, after, at="now": words[at] * (is_mended(before) < is_mended(after)),
    )

    def told(before, after, *_, **__):
        return WhatIf(
            before, after, (answered(2.0, 1.0), answered(2.0, 0.5 if before != after else 1.0))
        )

    for name in ("what_if", "what_if_now", "what_if_known"):
        monkeypatch.setattr(lab(), name, told)
    monkeypatch.setattr(lab(), "is_partitioned", lambda *_, **__: True)
    monkeypatch.setattr(outputs, "following", lambda experiment: experiment.exported)
    button(screen, "Try an example").click().run()
    assert "This fix moves outputs too:**] y is replicated then" in captions(screen)
    assert "It moves" not in captions(screen)
    if when == "before the press":
        return
    next(e for e in screen.button if (e.key or "").startswith("mend-card:")).click().run()
    if when == "from its link":
        opened = AppTest.from_file(str(ROOT / "home.py"), default_timeout=120)
        opened.query_params["experiment"] = screen.query_params["experiment"]
        screen = opened.switch_page("pages/programs.py").run()
    assert not screen.exception
    assert "It moves outputs too:**] y is replicated now" in captions(screen)
    assert "Last change" not in captions(screen), "one account of one change"


def _rows(html):
    return html.split('<div class="split">')[1:]


@pytest.mark.parametrize(
    ("before", "now", "fixed", "titles"),
    [
        (None, 2.0, None, ["Time of a step"]),
        (2.0, 2.0, None, ["Time of a step"]),  # the same
        (4.0, 2.0, None, ["Time of a step as opened", "Now"]),
        (4.0, 2.0, 1.0, ["Time of a step now", "With the change"]),
        (None, 2.0, 4.0, ["Time of a step now", "With the change"]),
    ],
)
def test_a_step_has_its_bar_beside_the_one_before_it(monkeypatch, before, now, fixed, titles):
    drawn = []
    monkeypatch.setattr(compiled.st, "html", drawn.append)

    def of(seconds):
        half = {"matmul": seconds / 2, "exposed: model": seconds / 2}
        return Partitioned(seconds=1.0, collectives=(), shares_s=half)

    was = before and SimpleNamespace(programs=(of(before), of(now)))
    then = compiled.named_parts(of(fixed)) if fixed else None
    compiled.limits(None, of(now), was, then)
    rows = _rows(drawn[0])
    assert [row.partition("<small>")[2].partition("</small>")[0] for row in rows] == titles
    ends = [float(part) for part in (now, fixed or now) if part]
    if fixed:
        longest = max(ends)
        for row, seconds in zip(rows, ends, strict=True):
            empty = round(1000 * (longest / seconds - 1))
            assert (f'flex:{empty}"></i></div>' in row) is (seconds < longest)


@pytest.mark.parametrize("axes", [["model"], ["tp"], ["x"], ["model", "data"], ["fsdp", "tp", "x"]])
def test_what_is_not_hidden_is_orange_as_in_a_timeline(axes):
    named = {"matrix products": 1.0} | {
        f"exposed over {axis}": 0.5 / (at + 1) for at, axis in enumerate(axes)
    }
    html = shares.step_bars({"Time of a step": named})
    first = html.partition(f"exposed over {axes[0]}, not hidden")[0].rpartition("background:")[2]
    assert first.startswith(colors.KINDS["exposed"])
    tones = {
        html.partition(f"exposed over {axis},")[0].rpartition("background:")[2][:7] for axis in axes
    }
    assert len(tones) == len(axes)


def test_an_empty_file_is_called_empty(data_folder):
    with pytest.raises(Exception, match="this file is empty"):
        programs.take(b"")


@pytest.mark.parametrize("copies", [1, 2])
def test_a_held_program_has_its_age_and_a_hash_where_its_name_is_not_its_own(data_folder, copies):
    taken = programs.take(door.EXAMPLE.read_bytes(), "step")
    (listed,) = programs.held()
    row = door._row(listed, is_ambiguous=copies > 1)
    assert row.startswith("taken just now · ")
    assert (taken.program[:12] in row) is (copies > 1)


def test_a_part_has_one_color_in_both_bars():
    before = {"exposed over data": 1.0, "exposed over model": 2.0}
    html = shares.step_bars(
        {"now": before, "then": {"exposed over data": 2.0, "exposed over model": 1.0}}
    )
    for name in before:
        first, second, _ = html.split(f"{name},")
        tones = {each.rpartition("background:")[2][:7] for each in (first, second)}
        assert len(tones) == 1


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_file_s_spec_that_a_link_names_is_no_change(screen, is_changed):
    button(screen, "Try an example").click().run()
    experiment = link.decode(screen.query_params["experiment"])
    program = experiment.exported
    leaf = next(each for each in program.described.arguments if any(program.spec(each)))
    group = program.described.patterns[leaf.path]
    own = {group: [list(axes) for axes in program.spec(leaf)]}
    named = experiment.vary(specs={group: [[]] * len(leaf.sizes)} if is_changed else own)
    opened = AppTest.from_file(str(ROOT / "home.py"), default_timeout=120)
    opened.query_params["experiment"] = link.encode(named)
    opened.switch_page("pages/programs.py").run()
    assert not opened.exception
    assert link.decode(opened.query_params["experiment"]) == named, "it stays as its link has it"
    assert "Undo" not in [each.label for each in opened.button], "nobody changed it here"
