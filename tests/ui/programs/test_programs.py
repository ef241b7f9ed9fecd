"""The Programs screen: the example taken, its findings in front, fields that make experiments."""

import itertools
import math
import re
import time
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import jax
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P
from streamlit.testing.v1 import AppTest

from bench import planted_accidents
from bench.exported import abstract_mesh, sgd_step, written
from bench.lost_batches import PLANTED
from spmd_core import history
from spmd_core.advice import all_findings, clean_words, gate_words, over_most, saved_bytes
from spmd_core.answers import PEAK, SENT, Figure, WhatIf
from spmd_core.base import RequestError, WorkerError, change_text, seconds_text
from spmd_core.commands import program as command
from spmd_core.experiment import as_exported, link
from spmd_core.facts import (
    Accident,
    Bounds,
    Change,
    Collective,
    Estimate,
    Predicted,
    PredictedMemory,
    Prediction,
    Remedy,
)
from spmd_core.lab import Lab, Remedies
from spmd_core.results import MemoryBytes, Result, StepFinding, StrategyResult
from spmd_core.runs.events import Partitioned
from spmd_core.trials import searches
from spmd_core.trials.trying.remedy_search import to_stored
from spmd_core.words import run_headline
from spmd_core.workloads import Described, Held, Leaf, Program, programs
from spmd_lab.ui import cards
from spmd_lab.ui.lab import lab
from spmd_lab.ui.programs import (
    arrays,
    better,
    constrain,
    door,
    fix,
    outputs,
    peak,
    result,
    treemap,
)
from tests.layers import ROOT
from tests.ui.predictions import TOO_LARGE, predicted, store

PARSER = programs._parser  # that of a dashboard
pytestmark = pytest.mark.usefixtures("read_here")


@pytest.fixture
def screen(data_folder):
    test = AppTest.from_file(str(ROOT / "home.py"), default_timeout=120)
    return test.switch_page("pages/programs.py").run()


def headline(screen):
    return " ".join(each.value.replace("\\", "") for each in screen.subheader)


def findings(screen):
    """What is wrong, in a text each."""
    rows = [each for each in screen.markdown if re.match(r":(red|orange)\[\*\*", each.value)]
    plain = r":(red|orange|small)\[|\*\*\]?|\]$|\\| ·(?= )"
    return [re.sub(plain, "", row.value).replace("  \n", " ") for row in rows]


def sentences(screen):
    """The sentence of each finding with a fix, which is folded behind its row."""
    helps = [each.help for each in screen.markdown if re.match(r":(red|orange)\[", each.value)]
    return [(each or "").replace("\\", "") for each in helps]


def costs(screen):
    """What each finding costs a device, in the list."""
    pattern = r"\*\*held: about −([\d.]+ .iB)\*\*"
    found = [re.fullmatch(pattern, each.value.replace("\\", "")) for each in screen.markdown]
    return [each[1] for each in found if each]


def is_card(each):
    """Whether a button is that of the card's fix."""
    return (each.key or "").startswith("mend-card:")


def primary(screen):
    """The labels of what is to be pressed next."""
    buttons = [each for each in screen.button if each.proto.type == "primary"]
    opens = [each.proto.popover for each in screen.get("popover")]
    return [each.label for each in (*buttons, *(of for of in opens if of.type == "primary"))]


def since_opened(screen):
    """What was changed since the program was opened."""
    labels = [each.label for each in screen.expander]
    return " ".join(each for each in labels if "Since it was opened" in each).replace("\\", "")


def button(screen, label):
    return next(each for each in screen.button if each.label == label)


def test_the_example_opens_with_its_findings_and_its_fields(screen):
    assert not screen.exception
    assert "spmd_lab.explain(step)(params, opt_state, batch).open()" in screen.code[0].value
    button(screen, "Try an example").click().run()
    assert not screen.exception
    assert "Each device holds all of params/embed and its optimizer state." in headline(screen)
    heads = [
        each.proto.body
        for each in screen.get("html")
        if "3 things are wrong so far" in each.proto.body
    ]
    assert len(heads) == 1
    assert "Compile it to check 10 more, of its batch and its work." in captions(screen)
    assert not any("with all fixes" in each.value for each in screen.markdown), "not compared yet"
    found = findings(screen)
    assert found[0] == "1. Replicated `params/embed`"
    (words,) = (each.help for each in screen.markdown if each.help and "Replicated" in each.value)
    words = words.replace("\\", "")
    assert words.startswith("is replicated on 8 devices")
    assert [each.split(" `")[0] for each in found] == [
        "1. Replicated",
        "2. Not donated",
        "3. Sharded differently",
    ]
    assert words.endswith("Its spec names no axis. 2.0 GiB of it, not donated, is held twice.")
    assert found[2].startswith("3. Sharded differently `params/layers/3/up` has P(None,")
    # of arguments and the moments that are held twice, each fix alone: what its press does
    assert "its fix alone, on each device" in heads[0]
    assert costs(screen) == ["2.4 GiB", "252.0 MiB"], "the first is being compared"
    assert [each.value for each in screen.markdown].count("**…**") == 1
    assert not re.search("saves|MiB a device in all", found[1] + found[2]), "one number"
    assert held_now(screen) < 7.1
    labels = [each.label.replace("\\", "") for each in screen.button]
    assert not [each for each in labels if each.startswith("Use ")], "nothing was compared"
    assert labels.count("Compare and use its fix") == 2, "in the card, and of the odd one"
    assert [each.label for each in screen.number_input] == ["Mesh axis fsdp", "Mesh axis tensor"]
    screen.number_input[0].set_value(8).run()
    assert "on each of 8 devices: mesh fsdp=8, tensor=2" not in screen.error  # refused or shown
    screen.number_input[1].set_value(1).run()
    assert any("mesh fsdp=8 tensor=1" in each.value.replace("\\", "") for each in screen.caption)


def test_a_mesh_of_more_devices_than_the_target_has_sizes_that_fit(screen):
    button(screen, "Try an example").click().run()
    fsdp, _ = screen.number_input
    fsdp.set_value(2 * fsdp.value).run()
    assert "is larger than target" in screen.error[0].value
    assert any("mesh fsdp=4 tensor=2" in each.value.replace("\\", "") for each in screen.caption), (
        "what is below is of the mesh before"
    )
    (use, *_) = [each for each in screen.button if each.label.startswith("Use fsdp")]
    assert not [each for each in screen.button if each.label.startswith("Use the nearest")]
    use.click().run()
    assert not screen.error


def test_a_press_beside_each_finding_gives_the_specs_that_mend_it(screen):
    button(screen, "Try an example").click().run()
    while mend := after_comparing(screen):
        before = held_now(screen)
        mend[0].click().run(timeout=240)
        settled(screen)
        for each in all_the_same(screen):
            each.click().run()
        assert not screen.exception and not screen.error
        assert held_now(screen) < before
    assert [each.split(" `")[0] for each in findings(screen)] == ["1. Not donated"]
    assert held_now(screen) == pytest.approx(1.15, abs=0.05)
    labels = [each.proto.popover.label for each in screen.get("popover")]
    assert labels.count("Copy `donate_argnames`") == 1, "in the card, which the row points to"
    assert any(each.value.endswith("Above") for each in screen.caption)
    shown = figures(screen)  # what a donation leaves of the peak, a compile alone knows
    assert "Peak memory per device 5.5 GiB" in shown and "Held on each device 1." in shown
    assert "The last fix cost:" not in captions(screen), "less than 2% is no rise"
    assert primary(screen) == ["Copy `donate_argnames`"], "what mends it, and nothing else"
    button(screen, "Done in my code").click().run()
    assert "Nothing wrong." in headline(screen) and not screen.exception
    assert "moments donated in your code: export it again for its figures." in captions(screen)
    button(screen, "Take back").click().run()
    assert "moments is held twice on each device." in headline(screen)


def test_a_fix_is_told_by_the_number_that_its_press_changes(data_folder):
    experiment = as_exported(programs.take(door.EXAMPLE.read_bytes(), "example"))
    wrong = result.judged(experiment, None, experiment)
    for each in wrong.fixes.listed:
        if each.specs:
            saved = wrong.held[0] - result._held(each, wrong.program)
            after = experiment.vary(specs={name: [*map(list, spec)] for name, spec in each.specs})
            assert result.judged(after, None, after).held[0] == wrong.held[0] - saved > 0
            assert result._saves(each, saved, wrong.fixes).startswith("held: about −")


@pytest.fixture
def opened(data_folder):
    """The example, its first finding with specs, and a judgement with the compiler's answers."""
    described = programs.take(door.EXAMPLE.read_bytes(), "example")
    program, experiment = Program(described, described.mesh), as_exported(described)
    (first, *_) = (each for each in all_findings(program) if each.specs)
    (twice,) = (each for each in all_findings(program) if each.kind == "missing_donation")

    def wrong(listed, known=None, change=None):
        answers = {fix.key(each): known for each in listed if known}
        fixes = fix.Fixes(listed, {}, answers)
        held_ = [result._held(None, program), *(result._held(each, program) for each in listed[:1])]
        return result.Wrong(program, fixes, change, held_, 1 << 34, None)

    return experiment, first, twice, wrong


@pytest.mark.parametrize(
    ("now", "is_gain"),
    [((4.0, 1.0), False), ((4.0, 0.99), False), ((4.0, 0.5), True), ((3.0, 1.0), True)],
)
def test_a_fix_that_saves_no_time_and_no_peak_says_so(opened, now, is_gain):
    experiment, first, _, wrong = opened
    lost = first.model_copy(update={"kind": "lost_batch"})
    known = WhatIf(
        experiment, experiment.vary(target="tpu:v5e:2x2"), (answered(4.0, 1.0), answered(*now))
    )
    of = wrong([lost], known)
    assert (result._saves(lost, 0, of.fixes) == result.NO_GAIN) is not is_gain
    sent = Figure(SENT, "341.9 → 293.9 MiB")
    moved = SimpleNamespace(figures=(sent,), is_no_gain=True)
    spares = replace(of.fixes, answers={fix.key(lost): moved})
    named = f"{result.NO_GAIN} · sent 341.9 → 293.9 MiB"
    assert result._saves(lost, 0, spares) == named, "what it changes all the same"
    assert result._saves(lost, 2**20, spares) == f"{named} · held: about −1.0 MiB"
    shown, _ = result._figures(of, known, "")
    assert (shown[0].more == result.NO_GAIN) is not is_gain
    assert shown[0].title == "Estimated step"
    assert result._headline(of).endswith(f"its fix is {result.NO_GAIN}.") is not is_gain


def test_the_headline_adds_that_every_fix_is_worse(opened):
    _, first, _, wrong = opened
    of = wrong([first.model_copy(update={"specs": ()})])
    assert "worse" not in result._headline(of), "nothing was compared"
    worse = {fix.key(first): [(dict(first.specs), None)]}
    spent = replace(of, fixes=replace(of.fixes, worse=worse))
    assert result._headline(spent).endswith("; its fix is worse.")


def test_the_card_keeps_the_step_time_of_the_fixes_that_were_used(opened):
    experiment, _, twice, wrong = opened
    made = WhatIf(
        experiment, experiment.vary(target="tpu:v5e:2x2"), (answered(6.0, 2.0), answered(5.0, 1.0))
    )
    shown, _ = result._figures(wrong([twice], None, made), None, "")
    by_title = {each.title: each for each in shown}
    assert [*by_title][:2] == ["Estimated step", "Peak memory per device"]
    assert by_title["Estimated step"].value == "2 → 1 s"
    assert by_title["Estimated step"].more.startswith("as opened → now")
    shown, _ = result._figures(wrong([twice]), None, "")
    assert "Estimated step" not in [each.title for each in shown], "nothing was changed"


@pytest.mark.parametrize(
    ("peak_bytes", "first"),
    [(4.0, "Estimated step"), (20.0, "Peak memory per device")],  # GiB, of 16
)
def test_the_step_is_the_large_figure_of_what_fits(opened, peak_bytes, first):
    experiment, _, _, wrong = opened
    as_is = WhatIf(experiment, experiment, (answered(peak_bytes, 1.0), answered(peak_bytes, 1.0)))
    shown, _ = result._figures(replace(wrong([]), as_is=as_is), None, "")
    assert shown[0].title == first


@pytest.mark.parametrize(
    ("kinds", "count"), [("rule rule", 2), ("rule replicated", 0), ("rule", 0)]
)
def test_fixes_of_one_kind_are_one_press(opened, kinds, count):
    _, first, _, wrong = opened
    listed = [
        first.model_copy(update={"kind": kind, "path": str(at), "specs": ((str(at), ((),)),)})
        for at, kind in enumerate(kinds.split())
    ]
    assert [*wrong(listed).fixes.alike] == [str(at) for at in range(count)]


def held_now(screen) -> float:
    """GiB of arguments on a device, as the screen has it above its card."""
    (text,) = [
        each.help.replace("\\", "")
        for each in screen.caption
        if "arguments take" in (each.help or "")
    ]
    return float(re.search(r"take ([\d.]+) GiB", text)[1])


def test_the_fix_that_is_offered_first_lowers_arguments_and_peak_and_takes_no_longer(screen):
    button(screen, "Try an example").click().run()
    mend = next(each for each in screen.button if is_card(each))
    before = held_now(screen)
    as_read = link.decode(screen.query_params["experiment"])
    mend.click().run(timeout=240)
    settled(screen)
    assert not screen.exception and held_now(screen) < before
    mended = link.decode(screen.query_params["experiment"])
    was, now = lab().what_if(as_read, mended).programs
    assert was.peak_bytes and now.peak_bytes and now.peak_bytes < was.peak_bytes
    assert was.predicted_s and now.predicted_s
    assert now.predicted_s.estimate <= was.predicted_s.estimate


@pytest.mark.parametrize(("peak", "step_s"), [(2.0, 1.0), (1.0, 2.0)])
def test_a_fix_that_raises_peak_or_time_is_not_taken(screen, monkeypatch, peak, step_s):
    described = programs.take(door.EXAMPLE.read_bytes(), "example")
    screen.query_params["experiment"] = link.encode(as_exported(described))
    screen.run()  # of a link nothing is partitioned before a press
    as_read = held_now(screen)

    def partitioned(before, after, *_, **__):
        return WhatIf(before, after, (answered(1.0, 1.0), answered(peak, step_s)))

    monkeypatch.setattr(lab(), "what_if", partitioned)
    monkeypatch.setattr(lab(), "is_partitioned", lambda *_, **__: True)
    is_offered = lambda: [each for each in screen.button if is_card(each)]  # noqa: E731
    as_linked = screen.query_params["experiment"]
    is_offered()[0].click().run()
    assert not screen.exception and held_now(screen) == as_read
    (refusal,) = (each.value.replace("\\", "") for each in screen.info)
    assert refusal.startswith("Not used: P(None, ('fsdp', 'tensor')) for params/embed and")
    rises = "memory per device rises 1.0 → 2.0 GiB" if peak > 1 else "step rises 1 → 2 s"
    assert rises in refusal
    assert not is_offered() and headline(screen).endswith("moments is held twice on each device.")
    (first,) = findings(screen)
    assert first.startswith("1. Not donated"), "what is worse is a note"
    (note,) = (
        each.value for each in screen.markdown if each.value.startswith(":gray[**Replicated")
    )
    assert "try P" not in note, "what is worse is not recommended"
    assert "6 specs are worse: " in captions(screen) and rises in captions(screen)
    assert "Its fix is worse: " in captions(screen), "of the odd one, compared without a press"
    assert not [each for each in screen.button if (each.key or "").startswith("mend")]
    all_the_same(screen)[0].click().run()
    assert held_now(screen) < as_read and not screen.info
    fixed = screen.query_params["experiment"]
    for linked, is_fixed in ((as_linked, False), (fixed, True)):  # of another program it is no undo
        screen.query_params["experiment"] = linked
        screen.run()
        assert ("Undo" in [each.label for each in screen.button]) == is_fixed
    button(screen, "Undo").click().run()
    assert held_now(screen) == as_read and not screen.exception
    assert "Undo" not in [each.label for each in screen.button]


def test_the_next_spec_is_offered_where_the_first_is_worse_and_a_worse_change_is_told(
    screen, monkeypatch
):
    first = {"params/embed": [None, ["fsdp", "tensor"]]}

    def partitioned(before, after, *_, **__):
        given = after.to_json()["specs"] or {}
        is_worse = given.get("params/embed") == first["params/embed"]
        return WhatIf(before, after, (answered(2.0, 1.0), answered(3.0 if is_worse else 1.5, 1.0)))

    monkeypatch.setattr(lab(), "what_if", partitioned)
    monkeypatch.setattr(lab(), "what_if_now", partitioned)
    monkeypatch.setattr(lab(), "is_partitioned", lambda *_, **__: True)
    button(screen, "Try an example").click().run()
    assert not screen.exception
    (mend,) = (each for each in screen.button if is_card(each))
    assert mend.label.replace("\\", "").startswith(
        "Use P(('fsdp', 'tensor'), None) for params/embed"
    )
    assert figures(screen).startswith("Estimated step 1 s ")
    assert "Peak memory per device 2.0 → 1.5 GiB" in figures(screen)
    assert "Compared first: P(None, ('fsdp', 'tensor')), worse: peak memory" in captions(screen)
    (words,) = (each.help for each in screen.markdown if each.help and "Replicated" in each.value)
    assert "try P(('fsdp', 'tensor'), None)" in words.replace("\\", "")
    experiment = link.decode(screen.query_params["experiment"])
    screen.query_params["experiment"] = link.encode(experiment.vary(specs=first))
    screen.run()  # as somebody who used it all the same sends it
    assert headline(screen).endswith("Worse than before: peak memory per device rises.")
    assert figures(screen).startswith("Peak memory per device 2.0 → 3.0 GiB")
    assert not [each for each in screen.button if is_card(each)]
    slower = (answered(2.0, 1.0), answered(1.5, 3.0))
    told = lambda before, after, *_, **__: WhatIf(before, after, slower)  # noqa: E731
    monkeypatch.setattr(lab(), "what_if", told)
    screen.run()
    assert headline(screen).endswith("Worse than before: estimated step rises.")
    assert figures(screen).startswith("Estimated step 1 → 3 s"), "what is worse is large"


def fixable(screen):
    """The findings that some spec mends, whose buttons are in the card or in their rows."""
    experiment = link.decode(screen.query_params["experiment"])
    return sorted(":".join(fix.key(e)) for e in all_findings(experiment.exported) if e.specs)


def pressable(screen):
    """The findings whose fixes have a button, and whether one of them is in the card."""
    keys_ = [each.key for each in screen.button if (each.key or "").startswith("mend")]
    named = sorted(each.partition(":")[2] for each in keys_ if each != "mend-alike")
    return named, any(each.startswith("mend-card:") for each in keys_)


def test_each_fix_has_one_button_in_the_card_or_in_its_row(screen, monkeypatch):
    """A row points to the card where that has its button: in each state of a program."""

    def partitioned(before, after, *_, **__):
        is_resized = before.mesh != after.mesh
        step_s = 2.0 if is_resized else 0.5 if before != after else 1.0
        return WhatIf(before, after, (answered(2.0, 1.0), answered(2.0, step_s)))

    for name in ("what_if", "what_if_now", "what_if_known"):
        monkeypatch.setattr(lab(), name, partitioned)
    monkeypatch.setattr(lab(), "is_partitioned", lambda *_, **__: True)

    def check(is_in_card):
        named, has_card = pressable(screen)
        assert not screen.exception
        assert named == fixable(screen) and has_card == is_in_card
        above = [each.value for each in screen.caption if each.value.endswith("Above")]
        in_card = is_in_card or "first" in str([e.key for e in screen.button])
        assert len(above) == in_card, "a row that points to no button"

    button(screen, "Try an example").click().run()
    check(True)
    for at, size in ((0, 8), (1, 1)):
        screen.number_input[at].set_value(size).run()
    assert headline(screen).endswith("Worse than before: estimated step rises.")
    assert "Estimated step 1 → 2 s 100% slower" in figures(screen)
    assert "mesh fsdp=4 tensor=2 → fsdp=8 tensor=1" in since_opened(screen)
    check(True)
    kinds = {each.key: each.proto.type for each in screen.button}
    assert kinds["fix:undo"] == "primary" and "primary" not in [
        kind for name, kind in kinds.items() if (name or "").startswith("mend-card:")
    ]
    button(screen, "Undo").click().run()
    assert "mesh fsdp=4 tensor=2" in captions(screen), "both sizes are one change"
    check(True)
    while rows := [each for each in screen.button if (each.key or "").startswith("mend:")]:
        rows[-1].click().run()
        check(bool(fixable(screen)))
        assert re.search(r"P\(.* for ", since_opened(screen))
        told = f"{captions(screen)} {since_opened(screen)} {figures(screen)}".lower()
        assert "estimated step 1 → 0.5 s" in told, "which the fix has brought"
    button(screen, "Undo").click().run()
    check(True)


def test_rows_keep_their_places_while_fixes_are_compared(screen, monkeypatch):
    """What is compared fills in figures."""
    known = {}

    def partitioned(before, after, *_, **__):
        return WhatIf(before, after, (answered(2.0, 1.0), answered(2.0, known.get(after.id, 1.0))))

    def is_known(before, after, *_, **__):
        return after.id in known or before == after

    def only_known(before, after, *_, **__):
        return partitioned(before, after) if is_known(before, after) else None

    monkeypatch.setattr(lab(), "what_if", partitioned)
    monkeypatch.setattr(lab(), "what_if_now", partitioned)
    monkeypatch.setattr(lab(), "what_if_known", only_known)
    monkeypatch.setattr(lab(), "is_partitioned", is_known)
    button(screen, "Try an example").click().run()
    opened_ = link.decode(screen.query_params["experiment"])
    titles = [each.split("`")[0] for each in findings(screen)]
    listed = [each for each in all_findings(opened_.exported) if each.specs]
    assert len(listed) > 1 and titles[0].startswith("1. Replicated")
    for each, step_s in zip(listed, (0.9, 0.1), strict=False):  # the later fix is the faster one
        known[opened_.vary(specs={n: [*map(list, s)] for n, s in each.specs}).id] = step_s
        screen.run()
        assert not screen.exception and [e.split("`")[0] for e in findings(screen)] == titles
    assert "**step 1 → 0.1 s**" in [each.value for each in screen.markdown], "compared unasked"
    assert "Compare and use its fix" not in [each.label for each in screen.button]
    again = AppTest.from_file(str(ROOT / "home.py"), default_timeout=120)
    again.switch_page("pages/programs.py")
    again.query_params["experiment"] = screen.query_params["experiment"]
    again.run()
    assert [e.split("`")[0] for e in findings(again)] == titles, (
        "whoever opens it, whatever is known"
    )
    next(each for each in screen.button if (each.key or "").startswith("mend:rule")).click().run()
    assert not any("Sharded differently" in each for each in findings(screen)), (
        "the row that was read"
    )


def after_comparing(screen):
    """The buttons of fixes, once none is being compared."""
    for _ in range(600):
        if not any(each.value.startswith("Comparing") for each in screen.caption):
            break
        time.sleep(0.2)
        screen.run(timeout=240)
    return [each for each in screen.button if (each.key or "").startswith("mend")]


def settled(screen):
    """Waits for what the compiler makes of a pressed fix."""
    for _ in range(600):
        if not [each for each in screen.button if each.key == "fix:cancel"]:
            return
        time.sleep(0.2)
        screen.run(timeout=240)
    raise AssertionError("the fix was not partitioned")


def captions(screen):
    return " ".join(each.value.replace("\\", "") for each in screen.caption)


def all_the_same(screen):
    return [each for each in screen.button if each.key == "fix:anyway"]


def answered(gibibytes, step_s):
    """What the compiler answers of a program with this peak and time."""
    return Partitioned(
        seconds=1.0,
        collectives=(),
        peak_bytes=int(gibibytes * 2**30),
        predicted_s=Estimate(low=step_s, estimate=step_s, high=step_s),
    )


def test_a_long_partition_of_a_fix_is_followed_and_cancelled_and_not_taken_silently(
    screen, monkeypatch
):
    button(screen, "Try an example").click().run()
    as_read = held_now(screen)
    monkeypatch.setattr(lab(), "is_partitioned", lambda *_, **__: False)
    pressed = lambda key: next(  # noqa: E731
        each for each in screen.button if (each.key or "").startswith(key)
    )
    pressed("mend-card:").click().run()
    assert not screen.exception and held_now(screen) == as_read
    (bar,) = screen.get("progress")
    assert "Partitioning P(None, ('fsdp', 'tensor')) for params/embed" in bar.proto.text.replace(
        "\\", ""
    )
    assert all(each.disabled for each in screen.button if (each.key or "").startswith("mend:"))
    pressed("fix:cancel").click().run()
    assert (
        pressed("mend-card:")
        and held_now(screen) == as_read
        and "Not checked" not in captions(screen)
    )

    def refused(*_, **__):
        raise WorkerError("the process that partitions the program took more than 120 s")

    pressed("mend-card:").click().run()
    monkeypatch.setattr(lab(), "is_partitioned", lambda *_, **__: True)
    monkeypatch.setattr(lab(), "what_if", refused)
    screen.run()
    assert not screen.exception and held_now(screen) < as_read
    assert "Not checked: the process that partitions the program took more than 120 s." in re.sub(
        r":orange\[\*\*|\*\*\]", "", captions(screen)
    )


def test_given_specs_come_before_a_pattern_that_matches_too(screen):
    button(screen, "Try an example").click().run()
    as_read = link.decode(screen.query_params["experiment"])
    screen.query_params["experiment"] = link.encode(as_read.vary(specs={"*/embed": [None, None]}))
    screen.run()
    next(each for each in screen.button if is_card(each)).click().run()
    settled(screen)
    ci, as_opened, accepting, expected = (
        each.value
        for each in screen.code
        if each.value.startswith(("spmd-lab program", "import pytest"))
    )
    assert ci == "spmd-lab program step.jaxexport --fail-on any --target tpu:v5e:2x4"
    opened = " --accept replicated:params/embed --accept missing_donation:moments --accept rule:"
    assert opened in as_opened, "of the file, which has not changed"
    assert " --accept missing_donation:moments --accept rule:params/layers/3/up " in accepting
    assert "--accept replicated" not in accepting, "of the file that is exported again"
    (specs,) = (each.value for each in screen.code if "\nspecs = {" in each.value)
    assert specs.startswith("from jax.sharding import PartitionSpec as P\n")
    assert "    'moments/embed': P(None, ('fsdp', 'tensor'))," in specs.splitlines()
    compile(specs, "specs.py", "exec")
    assert "expected.is_sharded('params/embed', P(None, ('fsdp', 'tensor')))" in expected
    assert "expected.is_sharded('params/layers/*/down', P('tensor', 'fsdp'))" in expected, (
        "kept, too"
    )
    compile(expected, "test_step.py", "exec")
    given = link.decode(screen.query_params["experiment"]).to_json()["specs"]
    assert [*given] == ["params/embed", "moments/embed", "*/embed"]
    assert not any("Replicated" in each for each in findings(screen))


def test_the_command_names_the_file_that_was_dropped(screen, monkeypatch):
    experiment = as_exported(programs.take(sgd_step(), "i2_step"))
    assert gate_words(experiment, "my step.bin").startswith("spmd-lab program 'my step.bin' --fail")
    asked = {f"file.{experiment.program}": "my step.bin"}
    monkeypatch.setattr(door.state, "aside", lambda _, name: asked.get(name))
    assert door.file_name(experiment) == "my step.bin"
    asked.clear()
    assert door.file_name(experiment) == "i2_step.jaxexport"


def test_a_program_that_is_opened_again_continues_with_its_changes(screen):
    described = programs.take(door.EXAMPLE.read_bytes(), "example")
    other = programs.take(sgd_step(), "other")
    as_read = as_exported(described)
    changed = as_read.vary(specs={"params/embed": ["fsdp", None], "moments/embed": ["fsdp", None]})
    for each in (changed, as_exported(other)):
        screen.query_params["experiment"] = link.encode(each)
        screen.run()
        assert not screen.exception
    key = f"programs:continue:{described.program}"
    (back,) = (each for each in screen.button if each.key == key)
    assert back.label == "Continue with 2 changes"
    back.click().run()
    assert not screen.exception
    assert link.decode(screen.query_params["experiment"]) == changed


@pytest.mark.parametrize(("free_gib", "is_said"), [(100, False), (20, True), (None, False)])
def test_a_run_that_needs_more_memory_than_is_free_is_told_before_it_starts(free_gib, is_said):
    described = programs.take(door.EXAMPLE.read_bytes(), "example")
    experiment = as_exported(described, "cpu:8")
    free = free_gib and int(free_gib * 2**30)
    words = result.room(result.judged(experiment, None, experiment), experiment, free)
    assert bool(words) == is_said == ("Compile it instead" in words)
    if is_said:
        assert words.startswith("A run needs 56.8 GiB, 7.1 GiB on each of 8 devices: 20.0 GiB are")


def test_a_pattern_that_matches_no_argument_is_a_finding_that_no_specs_mend(screen):
    button(screen, "Try an example").click().run()
    as_read = link.decode(screen.query_params["experiment"])
    screen.query_params["experiment"] = link.encode(as_read.vary(specs={"*/bias": [None]}))
    screen.run()
    assert not screen.exception
    assert "correct the pattern" in "".join(each.value for each in screen.markdown)


@pytest.mark.parametrize(
    ("shape", "mesh", "spec"),
    [
        ((50257, 768), (("data", 8),), ((), ("data",))),
        ((768, 768), (("data", 8),), ((), ("data",))),
        ((6, 4), (("x", 4), ("y", 2), ("z", 3)), (("y", "z"), ())),
        ((7, 5), (("x", 1), ("y", 2)), ((), ())),
    ],
)
def test_the_dim_that_the_most_devices_divide_is_sharded_over_them(shape, mesh, spec):
    described = door.described_example()
    assert over_most(shape, Program(described, mesh)) == spec


def test_a_link_meets_a_process_that_propagates_and_no_fix_is_compared(screen):
    described = programs.take(door.EXAMPLE.read_bytes(), "example")
    experiment = as_exported(described)
    screen.query_params["experiment"] = link.encode(experiment)
    screen.run()
    held = lab()
    assert len(held._propagating._known) == 1
    assert [each for each, _ in held._partitioning._known] == [experiment.id], "as it is, alone"
    assert figures(screen).startswith("Estimated step")


def test_what_was_compared_before_is_shown_of_a_link_and_nothing_is_compared_anew(
    screen, monkeypatch
):
    described = programs.take(door.EXAMPLE.read_bytes(), "example")
    screen.query_params["experiment"] = link.encode(as_exported(described))

    def known(before, after, *_, **__):
        return WhatIf(before, after, (answered(2.0, 1.0), answered(1.5, 1.0)))

    monkeypatch.setattr(lab(), "what_if_known", known)
    screen.run()
    assert figures(screen).startswith("Estimated step 1 s ")
    assert "Peak memory per device 2.0 → 1.5 GiB" in figures(screen)
    assert not lab()._partitioning._known
    (mend,) = (each for each in screen.button if is_card(each))
    assert mend.label.startswith("Use ")


@pytest.mark.parametrize("name", ["tensor parallelism", "the batch not divided"])
def test_one_button_compiles_a_program_that_is_not_compiled_and_it_is_in_the_card(screen, name):
    cases = planted_accidents.CLEAN | {k: each[0] for k, each in planted_accidents.PLANTED.items()}
    experiment = as_exported(programs.take(cases[name].exported())).vary(target="tpu:v5e:2x4")
    screen.query_params["experiment"] = link.encode(experiment)
    screen.run()
    labels = [each.label for each in screen.button]
    assert labels.count("Compile and predict") == 1 and "Recompile" not in labels
    first = next(each for each in screen.button if each.proto.type == "primary")
    has_fix = "Compare and use its fix" in labels
    assert first.label == ("Compare and use its fix" if has_fix else "Compile and predict")


@pytest.mark.usefixtures("partitions_anew")
def test_the_first_fix_of_an_opened_step_leads_with_step_and_peak_before_and_after(screen):
    button(screen, "Try an example").click().run()
    assert figures(screen) == "Estimated step … being compared", "the one quantity"
    first, second = (key for key, _ in lab()._partitioning._known)
    programs_ = {each.experiment.id: each for each in lab()._partitioning._known.values()}
    lab().what_if(programs_[first].experiment, programs_[second].experiment)
    screen.run()
    assert not screen.exception
    pattern = (
        r"Estimated step ([\d.]+) → ([\d.]+) ms range (\d+) to (\d+) → (\d+) to (\d+) ms "
        r"Peak memory per device ([\d.]+) → ([\d.]+) GiB of 15.8 GiB HBM "
    )
    peak = re.match(pattern, figures(screen))
    assert peak, figures(screen)
    was_s, now_s, *ends, before, after = map(float, peak.groups())
    assert after < before and now_s < was_s
    assert ends[0] < was_s < ends[1] and ends[2] < now_s < ends[3]
    now, fixed = drawn_peaks(screen)
    for end, row in ((before, now), (after, fixed)):
        assert row["held"] + row["temporary"] == pytest.approx(end, abs=0.11), "each is rounded"
        assert sum(row.values()) == pytest.approx(15.8, abs=0.16)
    assert any(each.value.endswith("Above") for each in screen.caption)
    assert any("is replicated on" in (each.help or "") for each in screen.markdown)
    assert "mend:replicated:params/embed" not in [each.key for each in screen.button]


def drawn_peaks(screen):
    """GiB of what fills each bar of memory, by kind; its width is its share of 15.8 GiB."""
    (body,) = [each.proto.body for each in screen.get("html") if 'class="peaks"' in each.proto.body]
    parts = r'<i class="(\w+)" style="width: ([\d.]+)%" title="([\d.]+) GiB'
    rows = [re.findall(parts, bar) for bar in body.split("<small>")[1:]]
    for _, share, size in (part for row in rows for part in row):
        assert float(share) == pytest.approx(100 * float(size) / 15.75, abs=0.5)
    return [{kind: float(size) for kind, _, size in row} for row in rows]


def test_a_peak_above_the_limit_is_marked_and_nothing_is_free():
    drawn = peak.bars({"now": (6 << 30, 20 << 30), "fixed": (1 << 30, 8 << 30)}, 16 << 30)
    now, fixed = drawn.split("<small>")[1:]
    assert 'class="gauge over"' in now and 'class="limit" style="left: 80.0%"' in now
    assert '"temporary" style="width: 70.0%"' in now and "14.0 GiB temporary" in now
    assert "over" not in fixed and "limit" not in fixed and "8.0 GiB free" in fixed
    named = [" ".join(re.sub("<[^>]*>", "", each).split()) for each in drawn.split("<li>")[1:]]
    assert named == ["held 6.0 → 1.0 GiB", "temporary 14.0 → 7.0 GiB", "free 0 B → 8.0 GiB"]
    only_held = peak.bars({"now": (6 << 30, None)}, 16 << 30)
    assert "6.0 GiB held" in only_held and "10.0 GiB free or temporary" in only_held


def figures(screen):
    """The figures of the card, as text."""
    (body,) = [each.proto.body for each in screen.get("html") if 'class="five"' in each.proto.body]
    return " ".join(re.sub("<[^>]*>", " ", body).split())


def test_what_is_known_of_the_compiled_program_is_a_finding_too(data_folder):
    described = programs.take(PLANTED["plain"].exported(), "lost")
    experiment = as_exported(described).vary(target="cpu:8", specs={"params/emb": [None, "data"]})
    with closing(Lab.open(data_folder)) as lab:
        run = lab.submit(experiment.vary(timing={"samples": 2, "min_seconds": 0}))
        status = lab.wait(run, 120)
    test = AppTest.from_file(str(ROOT / "home.py"), default_timeout=120)
    test.query_params["run"] = run
    test.switch_page("pages/programs.py").run()
    assert not test.exception and status.state == "succeeded"
    assert "**gain not compared yet**" in [each.value for each in test.markdown]
    uses = [each.label for each in test.button if is_card(each)]
    assert uses == ["Compare and use its fix"], "which nobody compared"
    shown = [each.value for each in test.subheader]
    wrong, answer = shown[1:3]
    assert "Automatic" in answer and "sharded" in wrong, "the worst finding is first"
    assert "63% of the matmul FLOPs" in wrong
    assert "Compile it" not in [each.label for each in test.button]
    # what costs time is before what costs memory that is there
    assert findings(test)[0].startswith("1. Batch no longer sharded")
    assert "constrain the value of lost_batches.py:" in sentences(test)[0]


def test_an_unsharded_batch_is_the_headline_before_a_compile_and_its_rows_are_offered(data_folder):
    described = programs.take(planted_accidents.PLANTED["the batch not divided"][0].exported())
    test = AppTest.from_file(str(ROOT / "home.py"), default_timeout=120)
    test.query_params["experiment"] = link.encode(as_exported(described))
    test.switch_page("pages/programs.py").run()
    assert not test.exception and "Devices along axis data repeat the same work." in headline(test)
    (found,) = findings(test)
    assert found.startswith("1. Unused mesh axis No spec names mesh axis data=4")
    assert "shard the rows of tokens over it" in sentences(test)[0]
    assert "Compare and use its fix" in [each.label for each in test.button]


def test_a_program_that_nobody_compiled_is_not_called_clean(data_folder):
    described = programs.take(planted_accidents.CLEAN["tensor parallelism"].exported())
    test = AppTest.from_file(str(ROOT / "home.py"), default_timeout=120)
    test.query_params["experiment"] = link.encode(as_exported(described))
    test.switch_page("pages/programs.py").run()
    assert "Nothing wrong in its arguments" in headline(test)
    assert any(
        "Compile it to check 10 more, of its batch and its work" in e.value for e in test.caption
    )


def unsharded_batch():
    """A training step whose only fault is that its batch is replicated over `data`."""
    mesh = abstract_mesh({"data": 4, "model": 2})

    def array(shape, *spec):
        return jax.ShapeDtypeStruct(shape, "float32", sharding=NamedSharding(mesh, P(*spec)))

    def step(params, batch):
        loss = lambda w: ((batch["tok"] @ w - batch["tgt"]) ** 2).mean()  # noqa: E731
        return params - 0.1 * jax.grad(loss)(params)

    batch = {"tok": array((128, 256)), "tgt": array((128, 512))}
    arguments = {"params": array((256, 512), None, "model"), "batch": batch}
    return programs.take(written(step, arguments, donated=("params",)), "step")


def test_a_program_opens_with_what_was_compiled_of_it_and_the_specs_of_its_batch(screen):
    experiment = as_exported(unsharded_batch()).vary(target="cpu:8")
    run = lab().submit(experiment.vary(timing={"samples": 2, "min_seconds": 0}))
    assert lab().wait(run, 120).state == "succeeded"
    came = history.came_out(lab().facts(run))
    assert came.judged[:2] == ("wrong", "1 finding"), "not that it fits"
    screen.query_params["experiment"] = link.encode(lab().result(run).experiment)
    screen.run()
    assert not screen.exception
    assert "Devices along axis data repeat the same work: 4 times the work." in headline(screen)
    (first,) = (each for each in screen.button if is_card(each))
    assert first.label == "Compare and use its fix"
    first.click().run(timeout=240)
    settled(screen)
    specs = link.decode(screen.query_params["experiment"]).to_json()["specs"]
    assert specs == {f"batch/{name}": ["data", None] for name in ("tgt", "tok")}
    for _ in range(100):  # the figures of the change, once both are partitioned
        if figures(screen).startswith("Peak memory per device"):
            break
        time.sleep(0.1)
        screen.run()
    assert "Nothing wrong." in headline(screen)
    assert "Matmul FLOPs per device 33.6 → 8.39 MFLOP" in figures(screen)


def test_a_parser_is_ready_where_programs_are_taken(screen, monkeypatch):
    monkeypatch.setattr(programs, "_parser", PARSER)
    ready = screen.run() and PARSER._child
    assert ready is not None and ready.is_there
    button(screen, "Try an example").click().run()
    assert programs.held(), "which it read"
    assert PARSER._child is not ready and not ready.is_there
    PARSER._child.end()
    monkeypatch.setenv("SPMD_LAB_UPLOADS", "off")
    screen.run()
    assert not PARSER._child.is_there


def test_a_program_without_shardings_opens_on_a_mesh_to_choose(screen):
    struct = jax.ShapeDtypeStruct((64, 64), "float32")
    programs.take(written(lambda x, w: x @ w, {"x": struct, "w": struct}))
    screen.run()
    button(screen, "Open").click().run()
    assert not screen.exception
    (held_words,) = (
        each.help.replace("\\", "")
        for each in screen.caption
        if "arguments take" in (each.help or "")
    )
    assert "on each of 8 devices: mesh x=8, the file has no shardings" in held_words
    assert "Every device holds all of it" in screen.info[0].value
    rows = next(each for each in screen.multiselect if each.label.startswith("Dim 0"))
    rows.set_value(["x"]).run()
    assert not screen.exception and not screen.error
    assert not [each for each in screen.info if "Every device holds all" in each.value]


def test_a_spec_of_a_group_makes_another_experiment(screen):
    button(screen, "Try an example").click().run()
    group = next(each for each in screen.selectbox if each.label == "Argument")
    options = group.options
    group.select("params/embed").run()
    sharded = next(each for each in screen.multiselect if each.label.startswith("Dim 0"))
    as_read = link.decode(screen.query_params["experiment"])
    sharded.select("fsdp").run()
    experiment = link.decode(screen.query_params["experiment"])
    assert experiment.to_json()["specs"] == {
        path: ["fsdp", None] for path in ("params/embed", "moments/embed")
    }
    assert any("params/embed" in each.value and "fsdp" in each.value for each in screen.caption)
    # the browser selects an option by its text: where that changes, another is selected
    (again,) = (each for each in screen.selectbox if each.label == "Argument")
    assert again.value == "params/embed" and again.options == options
    assert not [each for each in findings(screen) if each.startswith("Replicated `params/embed")]
    lab().what_if(as_read, experiment)  # the screen is drawn again once both are partitioned
    screen.run()
    assert "Partitioned, not compiled" in captions(screen)
    (effect,) = (each for each in screen.expander if each.label.startswith("**Since it was opened"))
    assert "P('fsdp', None) for params/embed and moments/embed" in since_opened(screen)
    assert "Last change" not in captions(screen), "one account of one change"
    assert "adds " in effect.markdown[0].value and "GiB per step" in effect.markdown[0].value
    changes = next(each.value for each in screen.table if "Change" in each.value)
    assert set(changes["Change"]) >= {"appears", "vanishes"}
    assert "`what-if` lists" not in captions(screen)
    (fold,) = [each for each in screen.expander if each.label.endswith(" more")]
    (rest,) = [each.value for each in fold.table]
    assert fold.label == f"{len(rest)} more", "which are there"


def test_the_last_of_several_changes_is_told_beside_all_of_them(screen, monkeypatch):
    button(screen, "Try an example").click().run()

    def told(before, after, *_, **__):  # of more specs the peak is lower
        numbers = (len(each.to_json()["specs"] or ()) for each in (before, after))
        return WhatIf(before, after, tuple(answered(9 - number, 1.0) for number in numbers))

    for name in ("what_if", "what_if_now"):
        monkeypatch.setattr(lab(), name, told)
    monkeypatch.setattr(lab(), "is_partitioned", lambda *_, **__: True)
    lasts = lambda: [e.value for e in screen.markdown if e.value.startswith("**Last change")]  # noqa: E731
    for path in ("params/layers/*/up", "params/embed"):
        (group,) = (each for each in screen.selectbox if each.label == "Argument")
        assert not lasts(), "of one change the figures tell all"
        group.select(next(each for each in group.options if path in each)).run()
        fields = [each for each in screen.multiselect if each.label.startswith("Dim 0")]
        fields[0].set_value(["tensor"] if "embed" in path else []).run()
        assert not screen.exception
    (last,) = lasts()
    assert "peak memory per device 7.0 → 5.0 GiB" in last
    assert any("9.0 → 5.0 GiB" in each.label.replace("\\", "") for each in screen.expander)


def test_a_finding_of_several_layers_is_called_by_their_pattern():
    described = door.described_example()
    specs = (("params/layers/*/up", ((), ())), ("moments/layers/*/up", ((), ())))
    program = Program(described, described.mesh, specs)
    listed = all_findings(program)
    (at,) = (at for at, e in enumerate(listed) if e.path.startswith("params/layers/"))
    first = result._first(listed[at])
    assert first == "Each device holds all of params/layers/*/up and its optimizer state."


def test_a_run_is_listed_by_the_name_of_its_program(data_folder):
    experiment = as_exported(programs.take(door.EXAMPLE.read_bytes(), "bad layer"))
    assert cards.short_words(experiment).startswith("bad layer · ")


def test_a_link_to_a_program_that_is_not_held_asks_for_its_file(data_folder):
    held = programs.take(door.EXAMPLE.read_bytes(), "example")
    code = link.encode(as_exported(held))
    programs.delete(held.program)
    test = AppTest.from_file(str(ROOT / "home.py"), default_timeout=120)
    test.query_params["experiment"] = code
    test.switch_page("pages/programs.py").run()
    assert not test.exception
    assert any("is not held here" in each.value for each in [*test.error, *test.warning])


def held(path, size, axes=()):
    leaf = Leaf(path=path, sizes=(str(size),), dtype="float32")
    return Held(leaf, (size,), (axes,), 4 * size, 4 * size, 1, divided=(axes,))


def test_the_description_beside_the_example_is_of_its_file(data_folder):
    example = door.described_example()
    assert programs.take(door.EXAMPLE.read_bytes(), example.name) == example


def test_an_array_that_is_sharded_otherwise_than_its_layers_is_marked(data_folder):
    program = Program(door.described_example(), door.described_example().mesh)
    odd = arrays.odd(program)
    assert {"params/layers/3/up", "moments/layers/3/up"} <= odd and "params/embed" not in odd
    placed = treemap.tiles(arrays.on_device(program))
    rows = treemap.chart(placed, odd)["data"]["values"]
    marked = {row["path"] for row in rows if "odd" in row["label"]}
    roots = "params", "moments", "updated moments"
    assert marked == {f"{root}/layers/3/up" for root in roots}
    by_path = {row["path"]: row for row in rows}
    for root in roots:
        odd_one, usual = (by_path[f"{root}/layers/{each}/up"] for each in ("3", "*"))
        assert odd_one["label"].split("\n")[:3] == ["up", "layer 3", "odd one"]
        assert odd_one["sharded"] == "over tensor, unlike the arrays beside it"
        assert usual["label"].split("\n")[:2] == ["up", "5 layers"]
        assert usual["sharded"] == "over fsdp, tensor" and usual["spec"] == "P('fsdp', 'tensor')"
        assert usual["shape"] == "5 of 4,096 × 14,336"


def test_arrays_of_several_layers_that_are_sharded_alike_are_one_rectangle():
    arrays = [held(f"layers/{n}/up", 8, ("x",) if n == 3 else ()) for n in range(6)]
    assert {tile.path: len(tile.arrays) for tile in treemap.tiles(arrays)} == {
        "layers/*/up": 5,
        "layers/3/up": 1,
    }


def test_a_narrow_screen_has_the_last_part_of_a_path_and_the_name_of_each_argument():
    arrays_ = [held(f"{root}/layers/up", 8, ("x",)) for root in ("state", "moments")]
    drawn = treemap.chart(treemap.tiles(arrays_))
    rows = drawn["data"]["values"]
    assert {row["short"].split("\n")[0] for row in rows} == {"up"}
    assert all(row["short_pixels"] <= row["pixels"] for row in rows)
    heads = drawn["layer"][-1]["data"]["values"]
    assert {row["short"] for row in heads} == {"state\n32 B", "moments\n32 B"}


def test_each_heading_has_its_size_however_little_room_its_name_leaves():
    sizes = {"moments": 2**22, "params": 2**20, "updated moments": 2**20, "updated params": 2**19}
    arrays_ = [held(f"{root}/up", size, ("x",)) for root, size in sizes.items()]
    heads = treemap._heads(treemap.tiles(arrays_))
    assert any("\n" in row["label"] for row in heads.values()), "some have little"
    for root, row in heads.items():
        assert row["label"].split() == row["short"].split()
        assert row["label"].endswith(treemap.bytes_text(4 * sizes[root]))


def test_a_rectangle_is_named_by_what_tells_it_from_those_beside_it_and_keeps_its_bytes():
    roots = ("params", "m", "v")
    arrays_ = [
        held(f"state/{root}/layers/{at}/wo", 2**20, ("x",)) for root in roots for at in range(4)
    ]
    rows = treemap.chart(treemap.tiles(arrays_))["data"]["values"]
    narrow = [
        treemap._lines(tile, False, treemap._name(tile, True))
        for root in roots
        for tile in [treemap.Tile(f"state/{root}/layers/*/wo", tuple(arrays_), (0, 0, 0.09, 0.15))]
    ]
    assert [lines[0] for lines in narrow] == ["params/wo", "m/wo", "v/wo"]
    assert all(lines[-1] == "48.0 MiB" for lines in narrow), "before the number of layers"
    assert len({row["label"].split("\n")[0] for row in rows}) == 3


def test_a_leaf_has_one_name_under_every_argument():
    wide, narrow = (0, 0, 0.4, 0.5), (0, 0, 0.08, 0.5)
    places = {"params": narrow, "mom": wide, "nu": (0, 0, 0.01, 0.01)}
    placed = [
        treemap.Tile(f"{root}/layers/up", (held(f"{root}/layers/up", 8),), place)
        for root, place in places.items()
    ]
    assert treemap._names_of(placed, {*places}) == ["up", "up", ""]
    assert treemap._names_of(placed[1:], {*places}) == ["up", ""], "however much room it has"
    many = [
        treemap.Tile(f"params/{of}/up", (held(f"params/{of}/up", 8),), wide) for of in ("a", "b")
    ]
    assert treemap._names_of(many, {"params"}) == ["a/up", "b/up"], "the last part tells none"


def test_an_axis_has_its_color_in_every_program():
    few = [held("a", 8, ("model",)), held("b", 8)]
    more = [*few, held("c", 8, ("data",)), held("d", 8, ("data", "model")), held("e", 8, ("x",))]
    scales = [treemap._colors(treemap.tiles(each)) for each in (few, more)]
    first, second = (dict(zip(e["domain"], e["range"], strict=True)) for e in scales)
    assert first["over model"] == second["over model"] and len({*second.values()}) == 5


@pytest.mark.parametrize("count", [1, 2, 7, 480, 5000])
def test_rectangles_are_as_large_as_their_bytes_and_do_not_overlap(count):
    arrays = [held(f"params/layers/{n}/{'ab'[n % 2]}", 1 + n * n % 97) for n in range(count)]
    placed = treemap.tiles(arrays)
    assert len(placed) <= treemap.MOST
    total = sum(tile.weight for tile in placed)
    assert total == sum(each.bytes for each in arrays)
    for tile in placed:
        assert math.isclose(tile.place[2] * tile.place[3], tile.weight / total, rel_tol=1e-6)
    assert math.isclose(sum(tile.place[2] * tile.place[3] for tile in placed), 1.0)
    edges = sorted(tile.place for tile in placed)
    for one, other in itertools.pairwise(edges):
        x, y, width, height = one
        apart = (
            other[0] >= x + width - 1e-9
            or other[1] >= y + height - 1e-9
            or other[1] + other[3] <= y + 1e-9
        )
        assert apart


def test_the_program_on_its_mesh_is_the_experiment(data_folder):
    described = programs.take(door.EXAMPLE.read_bytes(), "example")
    experiment = as_exported(described)
    assert (experiment.target, dict(experiment.mesh)) == ("tpu:v5e:2x4", {"fsdp": 4, "tensor": 2})
    assert experiment.exported == Program(described, experiment.mesh, (), {})


DECLARED = """
import jax, jax.numpy as jnp
from spmd_core.declare import workload

@workload(mesh={"x": 2})
def own_step():
    arrays = {name: jax.ShapeDtypeStruct((8, 8), "float32") for name in "ab"}
    return (lambda a, b: a @ b), arrays, [("^a$", (None, "x")), ("^b$", ("x", None))]
"""


def test_errors_of_explicit_axes_of_a_declared_step_are_listed_with_the_patch(
    data_folder, tmp_path, monkeypatch
):
    (tmp_path / "own_step.py").write_text(DECLARED)
    monkeypatch.setenv("SPMD_LAB_WORKLOADS", str(tmp_path / "own_step.py"))
    test = AppTest.from_file(str(ROOT / "home.py"), default_timeout=240)
    screen = test.switch_page("pages/programs.py").run()
    next(each for each in screen.button if each.label.startswith("List the errors")).click().run()
    assert not screen.exception
    headings = " ".join(each.value.replace("\\", "") for each in screen.subheader)
    assert "1 sharding type error; the patch traces: equal results" in headings
    (patch,) = (each.value for each in screen.code if each.language == "diff")
    assert "jnp.matmul(a, b, out_sharding=jax.P())" in patch


def test_state_on_the_host_is_no_hbm_and_its_return_to_the_device_is_what_is_wrong(screen):
    mesh = abstract_mesh({"x": 8})
    placed = lambda kind: NamedSharding(mesh, P("x"), memory_kind=kind)  # noqa: E731
    array = lambda kind: jax.ShapeDtypeStruct((1024, 1024), "float32", sharding=placed(kind))  # noqa: E731

    def step(params, opt_state, batch):
        gradient = jax.grad(lambda w: ((batch @ w) ** 2).mean())(params)
        moment = 0.9 * jax.device_put(opt_state, placed("device")) + 0.1 * gradient
        return params - 0.01 * moment, moment

    arguments = {
        "params": array("device"),
        "opt_state": array("pinned_host"),
        "batch": array("device"),
    }
    described = programs.take(written(step, arguments, donated=("params", "opt_state")))
    screen.query_params["experiment"] = link.encode(as_exported(described))
    screen.run()
    assert not screen.exception
    (held,) = [each.value for each in screen.markdown if "Held on each device" in each.value]
    assert "1.0 MiB, 512.0 KiB on the host" in held.replace("\\", "")
    assert headline(screen).endswith("Each call moves opt_state to another memory.")


def waits(seconds):
    """A prediction of a step of 10 ms, so much of which waits for an all-reduce over `data`."""
    moved = Collective.model_validate(
        {
            "kind": "all-reduce",
            "axes": ["data"],
            "bytes": 1 << 20,
            "count": 1,
            "exposed_s": seconds,
        }
    )
    memory = PredictedMemory(peak=3 << 28, capacity=1 << 34)
    return Prediction(
        fits=True,
        memory_bytes=memory,
        predicted_s=Estimate(low=0.009, estimate=0.010, high=0.011),
        bounds_s=Bounds(overlapped=0.010 - seconds, sequential=0.010),
        shares_s={"matmul": 0.010 - seconds, "wait: all-reduce": seconds},
        collectives=(moved,),
    )


def test_a_program_in_which_nothing_is_wrong_is_told_by_what_limits_its_step(data_folder, capsys):
    of = lambda seconds: StrategyResult(status="ok", prediction=waits(seconds))  # noqa: E731
    assert clean_words(None) == "Nothing wrong in its arguments."
    all_reduce = "60% of the step waits for all-reduce over data."
    assert clean_words(of(0.006)) == f"Nothing wrong; {all_reduce}"
    assert clean_words(of(0.0005)) == "Nothing wrong; the step is compute-bound."
    assert clean_words(StrategyResult(status="ok", prediction=TOO_LARGE)) == (
        "Nothing wrong; 20.0 GiB of 16.0 GiB per device: does not fit, 4.0 GiB too much."
    )
    taken = programs.take(planted_accidents.CLEAN["tensor parallelism"].exported())
    program = Program(taken, taken.mesh)
    lines = command._lines(program, of(0.006))
    assert f"Nothing wrong; {all_reduce}" in lines
    assert (
        "None of 18 kinds of mistakes in " in lines[lines.index(f"Nothing wrong; {all_reduce}") + 1]
    )


def test_a_finished_program_has_one_card_of_opened_and_now_and_what_to_try(screen, data_folder):
    taken = programs.take(planted_accidents.CLEAN["tensor parallelism"].exported())
    experiment = as_exported(taken).vary(target="tpu:v5e:2x4")
    collectives = waits(0.006).collectives
    result_ = predicted(experiment, auto=waits(0.006))
    own = result_.strategies["auto"].model_copy(
        update={
            "collectives": collectives,
            "memory_bytes": MemoryBytes(peak=3 << 28),
        }
    )
    store(data_folder, result_.model_copy(update={"strategies": {"auto": own}}))
    screen.query_params["experiment"] = link.encode(experiment)
    screen.run()
    assert not screen.exception
    assert "60% of the step waits for all-reduce over data." in headline(screen)
    assert headline(screen).count("Step time") == 0, "one card"
    told = [each.proto.body for each in screen.get("html") if 'class="five"' in each.proto.body]
    told = [" ".join(re.sub("<[^>]*>", " ", each).split()) for each in told]
    assert [each for each in told if each.startswith("Estimated step 10 ms")]
    assert "Peak memory per device 768.0 MiB of 15.8 GiB HBM" in " ".join(told)
    assert "10.0 ms as scheduled; 4.00 ms if all communication" in captions(screen)
    main = [each.label for each in screen.button if each.proto.type == "primary"]
    assert main == ["Try changes"]
    assert "Recompile" in [each.label for each in screen.button]


def test_a_program_without_a_fix_opens_with_its_step_peak_and_bytes(screen, monkeypatch):
    answers = [None]
    described = programs.take(planted_accidents.CLEAN["tensor parallelism"].exported(), "clean")
    experiment = as_exported(described)

    def as_it_is(now, *_, **__):
        of = answered(4.0, 0.5).model_copy(update={"shares_s": {"matmul": 0.3, "memory": 0.2}})
        return WhatIf(now, now, (of, of)) if answers[0] else None

    monkeypatch.setattr(lab(), "as_it_is", as_it_is)
    screen.query_params["experiment"] = link.encode(experiment)
    screen.run()
    assert figures(screen) == "Estimated step … being estimated"
    answers[0] = WhatIf
    screen.run()
    assert not screen.exception
    assert figures(screen).startswith("Estimated step 500 ms")
    assert "Peak memory per device 4.0 GiB of 15.8 GiB HBM" in figures(screen)
    drawn = " ".join(each.proto.body for each in screen.get("html"))
    assert "matrix products" in drawn and "60.0%" in drawn, "what takes it"
    assert "Nothing wrong in its arguments" in headline(screen)


def test_a_program_that_is_refused_an_estimate_is_not_estimated_anew(screen, monkeypatch):
    described = programs.take(planted_accidents.CLEAN["tensor parallelism"].exported(), "clean")
    experiment, requested = as_exported(described), []

    def as_it_is(now, *_, **__):
        requested.append(now)
        raise RequestError("refused")

    monkeypatch.setattr(lab(), "as_it_is", as_it_is)
    screen.query_params["experiment"] = link.encode(experiment)
    screen.run()
    screen.run()
    assert not screen.exception and len(requested) == 1
    assert not [each for each in screen.get("html") if "being estimated" in each.proto.body]


def test_what_a_finished_step_waits_for_is_the_headline_and_the_first_of_what_is_wrong():
    program = Program(door.described_example(), door.described_example().mesh)
    listed = [each for each in all_findings(program) if each.kind == "missing_donation"]
    fixes = fix.Fixes(listed, {}, {})

    def wrong(waited_s):
        of = StrategyResult(
            status="ok", prediction=waits(waited_s), memory_bytes=MemoryBytes(peak=1 << 30)
        )
        run = Result.model_construct(run="none", strategies={"auto": of}, order=("auto",))
        return result.Wrong(program, fixes, None, [0], 1000 << 30, of, run)

    assert result._headline(wrong(0.006)) == "60% of the step waits for all-reduce over data."
    assert result._limit(wrong(0.006)) == "60% of the step waits for all-reduce over data"
    at = waits(0.006)
    moved = [each.model_copy(update={"source": "f.py:3"}) for each in at.collectives]
    of = wrong(0.006).compiled.model_copy(
        update={"prediction": at.model_copy(update={"collectives": tuple(moved)})}
    )
    named = result._headline(replace(wrong(0.006), compiled=of))
    assert named == "60% of the step waits for all-reduce over data at f.py:3."
    assert not result._limit(wrong(0.0001)), "what computes is not wrong"
    assert result._headline(wrong(0.0001)).startswith("moments is held twice"), "1. Not donated"


@pytest.mark.parametrize("best_s", [0.3, 0.6, 1.2])
@pytest.mark.parametrize("fixed_s", [None, 0.5, 0.9])
def test_the_best_of_a_search_is_first_where_no_known_fix_is_as_fast(
    opened, monkeypatch, best_s, fixed_s
):
    experiment, first, _, wrong = opened
    after = answered(4.0, fixed_s) if fixed_s else None
    known = after and WhatIf(
        experiment, experiment.vary(target="tpu:v5e:2x2"), (answered(4.0, 1.0), after)
    )
    best = SimpleNamespace(seconds=best_s, stage="compiled", experiment=None)
    own = experiment.vary(target="tpu:v5e:2x2")
    best.experiment = experiment
    over = SimpleNamespace(is_over=True, answer=SimpleNamespace(winner=best))
    monkeypatch.setattr(better, "_search", lambda _: over)
    mine = better.own(own, Estimate(low=0.9, estimate=1.0, high=1.1), None)
    is_first = best_s < min(1.0, fixed_s or 1.0)
    of = wrong([first], known) if known else replace(wrong([first], None), change=None)
    assert (result.offered_best(of, mine) is best) is is_first
    assert result.offered_best(of, better.own(experiment, None, None)) is None, "of no known time"
    best.stage = "estimated"
    assert result.offered_best(of, mine) is None, "which is known less well than the program"


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_compiled_program_has_its_peak_among_its_figures_while_a_fix_is_compared(
    opened, is_changed
):
    experiment, first, _, wrong = opened
    compared = (answered(4.0, 1.0), answered(3.0, 0.9))
    change = WhatIf(experiment, experiment.vary(target="tpu:v5e:2x2"), compared)
    of = StrategyResult(
        status="ok", prediction=waits(0.003), memory_bytes=MemoryBytes(peak=3 << 30), collectives=()
    )
    run = Result.model_construct(run="none", strategies={"auto": of}, order=("auto",))
    fixes = fix.Fixes([first], {}, {})
    program = wrong([first], None).program
    now = result.Wrong(program, fixes, change if is_changed else None, [0], 1 << 34, of, run)
    figures, _ = result._figures(now, None, "of 15.8 GiB HBM")
    peak = next(each for each in figures if each.title == PEAK)
    assert peak.value == ("4.0 → 3.0 GiB" if is_changed else "3.0 GiB")
    assert peak.more == "as opened → now, " * is_changed + "of 15.8 GiB HBM"
    assert PEAK in now.titles or not is_changed


@pytest.mark.parametrize("waited_s", [0.0001, 0.003, 0.006])
@pytest.mark.parametrize("others", [0, 1, 2])
def test_what_saves_nothing_beside_donations_moves_no_headline_and_no_button(waited_s, others):
    program = Program(door.described_example(), door.described_example().mesh)
    listed = [each for each in all_findings(program) if each.kind == "missing_donation"]
    first = listed[0].model_copy(update={"specs": ((listed[0].path, ()),)})
    idle = [
        first.model_copy(update={"kind": "replicated", "path": f"w{at}"}) for at in range(others)
    ]
    answers = {
        fix.key(each): SimpleNamespace(is_no_gain=True, is_faster=False, raised=()) for each in idle
    }
    for each in answers.values():
        each.programs = (answered(4.0, 1.0), answered(4.0, 1.0))
    of = StrategyResult(
        status="ok", prediction=waits(waited_s), memory_bytes=MemoryBytes(peak=1 << 30)
    )
    run = Result.model_construct(run="none", strategies={"auto": of}, order=("auto",))
    fixes = fix.Fixes([*listed, *idle], {}, answers)
    wrong = result.Wrong(program, fixes, None, [0], 1000 << 30, of, run)
    assert wrong.is_finished
    is_waiting = waited_s > 0.005  # for most of the step: what is wrong is named else
    assert ("waits for all-reduce" in result._headline(wrong)) is is_waiting
    assert (result._in_card(wrong) is None) is is_waiting, (
        "the headline's fix is a button beside it"
    )


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_donations_that_one_line_makes_are_one_thing_that_is_wrong(number, is_compiled):
    program = Program(door.described_example(), door.described_example().mesh)
    twice = [
        StepFinding(kind="missing_donation", path=path, bytes_per_device=1 << 30, sentence="")
        for path in ("moments", "params", "cache")[:number]
    ]
    other = StepFinding(kind="constant", path="f.py:3", bytes_per_device=1 << 20, sentence="")
    of = StrategyResult(
        status="ok", prediction=waits(0.003), memory_bytes=MemoryBytes(peak=1 << 30)
    )
    run = Result.model_construct(run="none", strategies={"auto": of}, order=("auto",))
    fixes, held = fix.Fixes(twice, {}, {}), [5 << 29, 5 << 28]
    known = (of, run) if is_compiled else (None, None)
    wrong = result.Wrong(program, fixes, None, held, 1 << 34, *known)
    many = f"{number} groups are not donated: 2.5 → 1.2 GiB held."
    one = "moments is held twice on each device."
    assert result._headline(wrong) == (many if number > 1 else one)
    assert result._numbers([other, *twice]) == [1, *[2] * number]
    assert result._numbers([*twice, other]) == [*[1] * number, 2]


def test_a_step_whose_every_fix_is_worse_leads_with_what_it_waits_for(opened):
    """Whose fix no press would give: its row has the figures, and what to press is another change."""
    experiment, first, twice, wrong = opened
    spent = first.model_copy(update={"specs": ()})
    worse = WhatIf(
        experiment, experiment.vary(target="tpu:v5e:2x2"), (answered(2.0, 1.0), answered(2.0, 1.4))
    )
    of = StrategyResult(
        status="ok", prediction=waits(0.006), memory_bytes=MemoryBytes(peak=1 << 30)
    )
    run = Result.model_construct(run="none", strategies={"auto": of}, order=("auto",))
    fixes = fix.Fixes([spent, twice], {fix.key(spent): [(dict(first.specs), worse)]}, {})
    shown = replace(wrong([spent, twice]), fixes=fixes, compiled=of, result=run)
    assert shown.is_finished
    assert result._headline(shown) == "60% of the step waits for all-reduce over data."
    assert not replace(shown, compiled=None, result=None).is_finished
    same = replace(worse, programs=(answered(2.0, 1.0), answered(2.0, 1.0)))
    idle = fix.Fixes([first, twice], {}, {fix.key(first): same})
    assert replace(shown, fixes=idle).is_finished, "a fix that saves nothing, too"
    saves = replace(worse, programs=(answered(2.0, 1.0), answered(2.0, 0.5)))
    assert not replace(shown, fixes=replace(idle, answers={fix.key(first): saves})).is_finished


@pytest.mark.parametrize(
    ("gains", "lead"), [("no yes", 1), ("no no", 0), ("yes yes", 0), ("no", 0)]
)
def test_the_card_has_the_first_fix_that_saves_something(opened, gains, lead):
    experiment, first, _, _ = opened
    listed = [
        first.model_copy(update={"path": f"params/{at}"}) for at, _ in enumerate(gains.split())
    ]
    answers = {
        fix.key(each): WhatIf(
            experiment,
            experiment.vary(target="tpu:v5e:2x2"),
            (answered(2.0, 1.0), answered(2.0, 0.5 if gain == "yes" else 1.0)),
        )
        for each, gain in zip(listed, gains.split(), strict=True)
    }
    assert fix.Fixes(listed, {}, answers).lead is listed[lead]


@pytest.mark.parametrize(("peak_gib", "is_finished"), [(5, False), (200, True)])
def test_a_fix_that_saves_much_of_the_peak_stays_in_front_after_a_compile(peak_gib, is_finished):
    program = Program(door.described_example(), door.described_example().mesh)
    listed = [each for each in all_findings(program) if each.kind == "replicated"]
    of = StrategyResult(
        status="ok", prediction=waits(0.006), memory_bytes=MemoryBytes(peak=peak_gib << 30)
    )
    fixes = fix.Fixes(listed, {}, {})
    wrong = result.Wrong(program, fixes, None, [0], capacity=1000 << 30, compiled=of)
    assert wrong.is_finished == is_finished


def test_the_finding_that_is_first_is_the_one_that_is_compared(data_folder, monkeypatch):
    """Else its figure would never come, and the screen would be drawn again for it without end."""
    described = programs.take(planted_accidents.CLEAN["tensor parallelism"].exported())
    program = Program(described, described.mesh)
    mended = max(
        (
            StepFinding(
                kind="replicated",
                path=name,
                bytes_per_device=0,
                sentence="",
                specs=((name, (("data", "model"), *((),) * (len(spec) - 1))),),
            )
            for name, spec in program.array_specs().items()
            if len(spec) > 1
        ),
        key=lambda each: saved_bytes(each, program),
    )
    more = int(1.5 * saved_bytes(mended, program))
    twice = StepFinding(kind="missing_donation", path="params", bytes_per_device=more, sentence="")
    assert more > 0
    opened_first = [twice, mended]  # by the bytes that they save
    compared = []
    monkeypatch.setattr(fix, "is_opened", lambda: True)
    monkeypatch.setattr(fix, "_tried", list)
    monkeypatch.setattr(fix, "_checked", compared.append)
    kept = {}
    monkeypatch.setattr(fix.state, "experiment", lambda _: as_exported(described))
    monkeypatch.setattr(fix.state, "aside", lambda _, name: kept.get(name))
    monkeypatch.setattr(fix.state, "set_aside", lambda _, name, value: kept.update({name: value}))
    for order in (opened_first, opened_first[::-1]):
        kept.clear()
        compared.clear()
        fixes = fix.judged(lambda refuted, order=order: list(order))
        assert fixes.listed == [mended, twice]
        assert compared == [dict(mended.specs)]


@pytest.mark.parametrize("after", [0.008, 0.012, None])
def test_the_seconds_of_the_fix_and_of_a_tried_change_are_not_swapped(monkeypatch, after):
    tried = after and SimpleNamespace(predicted_s=Predicted(before=0.03, after=after))
    monkeypatch.setattr(result.remedies, "best", lambda _: tried)
    fixed = SimpleNamespace(predicted_s=Estimate(low=0.009, estimate=0.010, high=0.011))
    known = SimpleNamespace(programs=(None, fixed))
    wrong = SimpleNamespace(result=object(), fixes=SimpleNamespace(known=known))
    assert result._fix_and_tried_s(wrong) == (0.010, after or math.inf)


def test_the_best_of_the_changes_that_were_tried_is_given_in_the_card(screen, data_folder):
    taken = programs.take(planted_accidents.CLEAN["tensor parallelism"].exported())
    experiment = as_exported(taken).vary(target="tpu:v5e:2x4")
    name, spec = next(iter(Program(taken, taken.mesh).array_specs().items()))
    given = {name: [[] for _ in spec]}
    result_ = predicted(experiment, auto=waits(0.006))
    own = result_.strategies["auto"].model_copy(update={"collectives": waits(0.006).collectives})
    store(data_folder, result_.model_copy(update={"strategies": {"auto": own}}))
    remedy = Remedy(
        changes=(Change(field="specs", name=name, before=[*spec], after=given[name]),),
        experiment=experiment.vary(specs=given),
        memory_bytes=1 << 20,
        predicted_s=Predicted(before=0.010, after=0.006),
    )
    kept = Remedies(data_folder)
    kept.keep(result_.run, to_stored("done", {"auto": {0: remedy}}))
    kept.close()
    screen.query_params["experiment"] = link.encode(experiment)
    screen.run()
    assert not screen.exception
    (first,) = [each for each in screen.button if each.proto.type == "primary"]
    assert first.label.replace("\\", "").startswith("Use P(") and name in first.label
    change = change_text(seconds_text(0.010), seconds_text(0.006))
    assert f"{change} predicted: no all-reduce over `data`; +1.0 MiB" in captions(screen)
    assert "Use this change" not in [each.label for each in screen.button], "its button is above"
    first.click().run()
    assert not screen.exception
    now = link.decode(screen.query_params["experiment"])
    assert now.to_json()["specs"] == {name: [None] * len(spec)}
    assert "Undo" in [each.label for each in screen.button]


def test_a_search_that_is_over_has_its_card_below_that_of_the_compiled_program(screen, data_folder):
    taken = programs.take(planted_accidents.CLEAN["tensor parallelism"].exported())
    experiment = as_exported(taken).vary(target="tpu:v5e:2x4")
    store(data_folder, predicted(experiment, auto=waits(0.006)))
    search = searches.start(lab(), better._question(experiment), None)
    while not search.is_over:
        time.sleep(0.05)
    assert search.answer.winner is not None
    screen.query_params["experiment"] = link.encode(experiment)
    screen.run()
    assert not screen.exception and not screen.error
    assert "Keep searching" in [each.label for each in screen.button]
    assert (
        len([each for each in screen.get("popover") if each.proto.popover.label == "How sure?"])
        == 2
    )
    is_open = lambda: [e.proto.expanded for e in screen.expander if e.label == better.TITLE]  # noqa: E731
    assert is_open() == [False]
    screen.query_params["panel"] = "search"  # as of one who searched, and shared
    screen.run()
    assert is_open() == [True] and screen.query_params["panel"] == "search"
    labels = [each.label for each in screen.button]
    assert sum("earch" in each and "Cancel" not in each for each in labels) == 1, "one goes on"
    use = [each for each in screen.button if each.label == "Use its mesh and specs"]
    is_own = search.answer.winner.experiment == experiment
    assert bool(use) != is_own
    if use:
        use[0].click().run()
        assert "Undo" in [each.label for each in screen.button]
        now = link.decode(screen.query_params["experiment"])
        assert screen.session_state["screen.programs.aside.opened"] == now.id, (
            "its fixes are compared"
        )


@pytest.mark.parametrize(
    ("mesh", "axes", "words"),
    [
        (None, ["", ""], "P(None, None) for {0} and {1}"),
        ((1, 8), ["", ""], "mesh fsdp=4 tensor=2 → fsdp=1 tensor=8, P(None, None) for {0} and {1}"),
        ((1, 8), ["", "tensor"], "P(None, None) for {0}, P('tensor', None) for {1}"),
        ((1, 8), ["", "tensor", "both"], "fsdp=1 tensor=8, 3 specs changed"),
        ((1, 8), [], "mesh fsdp=4 tensor=2 → fsdp=1 tensor=8"),
    ],
)
def test_a_change_has_its_mesh_and_every_kind_of_its_specs(mesh, axes, words):
    before = as_exported(programs.take(planted_accidents.CLEAN["tensor parallelism"].exported()))
    before = before.vary(target="tpu:v5e:2x4")
    before = before.vary(mesh=dict(zip(before.axis_sizes, (4, 2), strict=True)))
    program = before.exported
    names = [leaf.path for leaf in program.described.arguments if len(leaf.sizes) == 2][:3]
    first, second = before.axis_sizes
    kinds = {"": [[], []], "tensor": [[second], []], "both": [[first], [second]]}
    after = before.vary(
        mesh=dict(zip(before.axis_sizes, mesh or (4, 2), strict=True)),
        specs={name: kinds[of] for name, of in zip(names, axes, strict=False)},
    )
    shown = words.format(*names).replace("fsdp", first).replace("tensor", second)
    assert shown in fix.made_of(before, after).replace("\\", "")


def test_a_mesh_that_the_program_does_not_fit_is_mended_by_its_axis(screen):
    button(screen, "Try an example").click().run()
    screen.number_input[1].set_value(3).run()
    assert "mesh fsdp=4, tensor=3 of 12 devices is larger than" in error(screen)
    assert "Use tensor=2" in [each.label for each in screen.button]
    screen.number_input[0].set_value(2).run()
    assert re.search(
        r"=\d+ of \S+ does not divide over mesh ax\S+ .*: use tensor=2 or 4", error(screen)
    )
    button(screen, "Use tensor=2").click().run()
    assert not screen.error and not screen.exception
    assert any("mesh fsdp=2 tensor=2" in each.value.replace("\\", "") for each in screen.caption)


def error(screen):
    return " ".join(each.value.replace("\\", "") for each in screen.error)


def test_a_program_is_limited_by_the_same_words_on_each_screen(data_folder):
    taken = programs.take(planted_accidents.CLEAN["tensor parallelism"].exported())
    experiment = as_exported(taken).vary(target="tpu:v5e:2x4")
    by_axis = {"matmul": 0.004, "exposed: data": 0.006}
    step = waits(0.006).model_copy(update={"shares_by_axis": by_axis, "binds": "interconnect"})
    found = predicted(experiment, auto=step)
    limit = "60% of the step waits for all-reduce over data"
    assert limit in run_headline(found) and "compute-bound" not in run_headline(found)
    assert limit in clean_words(found.strategies["auto"])
    assert limit in history.came_out(found).judged[2]


@pytest.mark.parametrize(
    ("last", "every", "shown"),
    [
        ("less", "more", "less"),
        ("more", "less", "more"),
        ("less", "less", "every"),
        ("", "more", "every"),
    ],
)
def test_a_change_that_helps_is_not_called_worse_for_one_before_it(monkeypatch, last, every, shown):
    """A mesh that costs 10 ms, then a fix that saves 2 of them."""
    answers = {
        name: SimpleNamespace(raised=("Estimated step",) * (kind == "more"))
        for name, kind in (("last", last), ("every", every))
        if kind
    }
    stand_in = SimpleNamespace(
        is_partitioned=lambda old, now: old in answers, what_if=lambda old, now: answers[old]
    )
    monkeypatch.setattr(fix, "lab", lambda: stand_in)
    monkeypatch.setattr(fix, "as_viewer", lambda ask, *of: ask(*of))
    monkeypatch.setattr(fix.state, "before_change", lambda _: "last")
    monkeypatch.setattr(fix.state, "experiment", lambda _: "now")
    assert fix.changed("every") is answers["every" if shown == "every" else "last"]


@pytest.mark.parametrize(
    ("named", "followed", "words"),
    [
        ("a", (), "b is replicated now, +14.0 KiB on each device, since no out_shardings name it"),
        ("a", ("x",), ""),  # where it was
        ("b", (), ""),  # which the change names
    ],
)
def test_outputs_that_a_change_does_not_name_and_moves_are_told(named, followed, words):
    leaf = lambda path, **more: Leaf(path=path, sizes=("64", "64"), dtype="float32", **more)  # noqa: E731
    spec, mesh = (("x",), ()), (("x", 8),)
    described = Described(
        program="", name="", function="f", platforms=("tpu",), mesh=mesh, devices=8, bytes=0,
        arguments=tuple(leaf(path, spec=((), ())) for path in "ab"),
        outputs=tuple(leaf(f"0/{path}", propagated=spec, replaces=path, is_update=True) for path in "ab"),
    )  # fmt: skip
    before = Program(described, mesh)
    follows = {"0/a": spec, "0/b": (followed, ())}
    after = Program(described, mesh, ((named, spec),), followed=follows)
    assert outputs.followed_words(before, after) == words
    back = after.with_specs((*after.specs, ("b", spec)))
    assert ("0/b" in back.followed) == (named == "b"), "another spec: not known what it follows"


@pytest.fixture(params=[0.5])
def compiled_example(screen, data_folder, monkeypatch, request):
    """The example, compiled, with a constraint that drops an axis; what a fix brings is known. The
    parameter: the seconds of a step without it.
    """

    def partitioned(before, after, *_, **__):
        is_constrained = any(name.startswith("@") for name, _ in after.specs)
        step_s = request.param if is_constrained else 0.5
        return WhatIf(before, after, (answered(2.0, 1.0), answered(2.0, step_s)))

    for name in ("what_if", "what_if_now", "what_if_known"):
        monkeypatch.setattr(lab(), name, partitioned)
    monkeypatch.setattr(lab(), "is_partitioned", lambda *_, **__: True)
    described = programs.take(door.EXAMPLE.read_bytes(), "example")
    experiment = as_exported(described)
    dropped = Accident(
        kind="dropped_batch",
        source="example_program.py:3",
        axes=("fsdp",),
        spec=(("fsdp",), ()),
        share=0.5,
    )
    result_ = predicted(experiment, auto=waits(0.006))
    own = result_.strategies["auto"].model_copy(update={"accidents": (dropped,)})
    store(data_folder, result_.model_copy(update={"strategies": {"auto": own}}))
    screen.query_params["experiment"] = link.encode(experiment)
    return screen.run()


def heads(screen):
    bodies = [each.proto.body for each in screen.get("html")]
    return " ".join(re.sub("<[^>]*>", " ", each) for each in bodies if "wrong" in each)


def test_what_only_a_compile_finds_stays_listed_until_the_next_compile(compiled_example):
    screen = compiled_example
    assert not screen.exception and "4 things are wrong " in heads(screen)
    pressed = lambda kind: next(  # noqa: E731
        each for each in screen.button if f":{kind}:" in (each.key or "")
    )
    pressed("replicated").click().run()
    assert not screen.exception and "so far" not in heads(screen)
    assert "2 things are wrong, 1 to check again" in heads(screen)
    assert ":gray[**Constraint drops the batch**]" in " ".join(
        each.value for each in screen.markdown
    )
    assert "Found before the change. Compile to check." in captions(screen)
    button(screen, "Undo").click().run()
    assert "4 things are wrong " in heads(screen), "as it was compiled"
    pressed("dropped_batch").click().run()
    assert "to check again" not in heads(screen), "whose fix it has"
    assert ":gray[**" not in " ".join(each.value for each in screen.markdown)


@pytest.mark.parametrize("compiled_example", [1.0, 2.0], indirect=True)
def test_what_no_fix_improves_is_a_note_behind_what_is_counted_as_wrong(compiled_example):
    screen = compiled_example
    assert "3 things are wrong, 1 note " in heads(screen)
    assert not [each for each in findings(screen) if "Constraint drops" in each], "no number"
    shown = [each.value for each in screen.markdown]
    (note,) = [at for at, each in enumerate(shown) if each.startswith(":gray[**Constraint drops")]
    numbered = [at for at, each in enumerate(shown) if re.match(r":(red|orange)\[\*\*\d", each)]
    assert note > max(numbered)


def test_what_a_search_compiled_changes_no_finding_unasked(data_folder, monkeypatch):
    experiment = as_exported(programs.take(door.EXAMPLE.read_bytes(), "example"))
    runs = [
        SimpleNamespace(run="of-search", batch="search 1"),
        SimpleNamespace(run="own", batch=None),
    ]
    shown = {}
    search = SimpleNamespace(batch="search 1", is_over=True, budget_s=120.0)
    monkeypatch.setattr(better, "_search", lambda _: search)
    monkeypatch.setattr(better.live, "joined", lambda *_: None)
    monkeypatch.setattr(better.state, "run", lambda _: None)
    monkeypatch.setattr(better.state, "set_run", lambda _, run: shown.update(run=run))
    for stored, run in ((runs, "own"), (runs[:1], None)):
        monkeypatch.setattr(better.cards, "stored_runs", lambda _, stored=stored: stored)
        assert better.run_of(experiment) == run == shown["run"]
    monkeypatch.setattr(better, "_search", lambda _: None)
    monkeypatch.setattr(better.cards, "stored_runs", lambda _: runs[1:])
    assert better.run_of(experiment) == "own"
    at_work = SimpleNamespace(batch="search 1", is_over=False, budget_s=120.0)
    monkeypatch.setattr(better, "_search", lambda _: at_work)
    monkeypatch.setattr(better.live, "joined", lambda *_: "of-search")
    monkeypatch.setattr(better.cards, "stored_runs", lambda _: [])
    assert better.run_of(experiment) is None, "whose program it compiles just now"


@pytest.mark.usefixtures("recompiles")
def test_a_press_that_changes_a_compiled_program_compiles_it_again(compiled_example, monkeypatch):
    screen, asked = compiled_example, []
    monkeypatch.setattr(constrain.live, "ask", lambda _, experiment: asked.append(experiment))
    screen.number_input[0].set_value(8).run()
    screen.number_input[1].set_value(1).run()
    assert not asked, "of each size that is typed"
    button(screen, "Undo").click().run()
    assert "4 things are wrong " in heads(screen) and not asked
    next(each for each in screen.button if (each.key or "").startswith("mend")).click().run()
    assert asked == [link.decode(screen.query_params["experiment"])]


def test_wide_products_of_no_known_line_are_a_sentence():
    wide = StepFinding(kind="wide_products", path="", bytes_per_device=0, sentence="", specs=())
    assert result._first(wide) == "Products are of a wider dtype than the weights."
    at = wide.model_copy(update={"path": "f.py:3"})
    assert result._first(at) == "Products at f.py:3 are of a wider dtype than the weights."


@pytest.mark.parametrize("matmul_s", [0.01, 0.5])
def test_products_that_take_little_of_the_step_are_not_what_is_wrong_first(matmul_s):
    program = Program(door.described_example(), door.described_example().mesh)
    wide = StepFinding(kind="wide_products", path="f.py:3", bytes_per_device=0, sentence="wide")
    prediction = waits(0.0).model_copy(update={"shares_s": {"matmul": matmul_s, "memory": 0.5}})
    of = StrategyResult(status="ok", prediction=prediction, memory_bytes=MemoryBytes(peak=1 << 30))
    run = Result.model_construct(run="none", strategies={"auto": of}, order=("auto",))
    wrong = result.Wrong(program, fix.Fixes([wide], {}, {}), None, [0], 1000 << 30, of, run)
    words = result._headline(wrong)
    assert words.startswith("The step is HBM-bound; products") is (matmul_s < 0.02)
    assert ("products of a wider dtype take 2.0% of it" in words) is (matmul_s < 0.02)
    among = prediction.model_copy(update={"mfu": 0.99})  # others are bound by HBM
    seen = replace(wrong, compiled=of.model_copy(update={"prediction": among}))
    assert result._headline(seen).startswith("Products at f.py:3 are of a wider dtype")


@pytest.mark.parametrize("waited_s", [0.003, 0.006])
def test_what_waits_for_less_than_half_is_behind_a_finding(waited_s):
    program = Program(door.described_example(), door.described_example().mesh)
    listed = [each for each in all_findings(program) if each.kind == "replicated"][:1]
    spent = [each.model_copy(update={"specs": ()}) for each in listed]
    worse = {fix.key(spent[0]): []}
    prediction = waits(waited_s)
    of = StrategyResult(status="ok", prediction=prediction, memory_bytes=MemoryBytes(peak=1 << 30))
    run = Result.model_construct(run="none", strategies={"auto": of}, order=("auto",))
    wrong = result.Wrong(program, fix.Fixes(spent, worse, {}), None, [0], 1000 << 30, of, run)
    assert wrong.is_finished
    assert bool(result._limit(wrong)) is (waited_s > 0.005)


def test_a_link_has_what_is_done_in_code(screen):
    button(screen, "Try an example").click().run()
    held = [each for each in findings(screen) if "Not donated" in each]
    assert held
    code = screen.query_params["experiment"]
    opened = AppTest.from_file(str(ROOT / "home.py"), default_timeout=120)
    opened.query_params["experiment"] = code
    opened.query_params["done"] = "moments,nothing_of_it,../x"
    opened.switch_page("pages/programs.py").run()
    assert not opened.exception
    assert not [each for each in findings(opened) if "Not donated" in each]
    assert "moments donated in your code" in captions(opened)
    assert opened.query_params["done"] == "moments", "names of its arguments alone"
    button(opened, "Take back").click().run()
    assert "done" not in opened.query_params
    assert [each for each in findings(opened) if "Not donated" in each]


@pytest.mark.parametrize("text", ["a," * 400, "moments" * 20, ",", "%00", "moments,,moments"])
def test_a_hostile_mark_of_what_is_done_is_left_out(screen, text):
    button(screen, "Try an example").click().run()
    opened = AppTest.from_file(str(ROOT / "home.py"), default_timeout=120)
    opened.query_params["experiment"] = screen.query_params["experiment"]
    opened.query_params["done"] = text
    opened.switch_page("pages/programs.py").run()
    assert not opened.exception and "done" not in opened.query_params
    assert [each for each in findings(opened) if "Not donated" in each]


def test_what_a_search_chose_to_replicate_is_no_finding(screen, monkeypatch):
    button(screen, "Try an example").click().run()
    chosen = screen.session_state["screen.programs.experiment"]
    program = chosen.exported
    kinds = lambda: {  # noqa: E731
        each.kind for each in result._left(program, None, better.is_chosen(chosen), ())
    }
    monkeypatch.setattr(result.done, "donated", lambda _: ())
    answer = SimpleNamespace(winner=SimpleNamespace(experiment=chosen))
    over = SimpleNamespace(is_over=True, answer=answer)
    monkeypatch.setattr(better, "_search", lambda _: over)
    assert "replicated" not in kinds() and kinds(), "the rest stays"
    answer.winner = SimpleNamespace(experiment=chosen.vary(specs={"params/embed": ["fsdp", None]}))
    assert "replicated" in kinds(), "another program than the one that was chosen"
