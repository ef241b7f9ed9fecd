"""The recipes as a course: found by words, in order, with the way back from a change, on the
screens themselves.
"""

import re
from dataclasses import replace
from urllib.parse import parse_qs

import pytest

from bench.values import result, strategy
from spmd_core.base import bytes_text, seconds_text
from spmd_core.experiment import link, parse_experiment
from spmd_core.facts import sent_per_step
from spmd_core.lab import Lab, examples
from spmd_core.lab.store.store import Store
from spmd_core.recipes import FEATURED, LEVELS, RECIPES, START, groups, of_level
from spmd_core.recipes.recipe import program_spec
from spmd_core.recipes.variations import VARIATIONS, variation_of
from spmd_core.words import parts
from spmd_lab.ui import course, exports, state
from spmd_lab.ui.history.listing import ONLY_EXAMPLES
from spmd_lab.ui.shell import QUESTIONS
from tests.ui import opened
from tests.ui.predictions import store

pytestmark = pytest.mark.slow


def test_every_recipe_has_one_variation_that_is_another_experiment():
    assert set(VARIATIONS) == set(RECIPES)
    plain, varied = (
        {recipe.experiment.id for recipe in RECIPES.values()},
        {variation_of(recipe).id for recipe in RECIPES.values()},
    )
    assert len(varied) == len(RECIPES) and not plain & varied


def test_recipes_are_found_by_words_and_by_group():
    assert [recipe.name for recipe in course.matching("psum total")] == [
        "psum_total",
        "pmap_axes_out",
    ]
    assert "pmap_in_axes" in [recipe.name for recipe in course.matching("IN_AXES none columns")]
    assert course.matching("") == tuple(RECIPES.values())
    assert course.matching("", ["vmap"]) == groups()["vmap"]
    assert course.matching("psum", ["vmap"]) == course.matching("quaternion") == ()


def test_recipes_are_found_by_the_short_and_unhyphenated_names_of_the_field():
    with_all_reduce = [recipe.name for recipe in course.matching("all-reduce")]
    assert with_all_reduce == [recipe.name for recipe in course.matching("AllReduce")]
    assert "contraction" in with_all_reduce
    assert "mixture_of_experts" in [recipe.name for recipe in course.matching("MoE")]


@pytest.mark.parametrize(
    "question",
    [
        "reduce_scatter",
        "expert parallelism",
        "ring attention",
        "how do I shard a layer?",
        "how do I shard experts?",  # which no recipe names together
    ],
)
def test_recipes_are_found_by_a_question_and_by_other_names(question):
    assert course.matching(question)
    assert len(course.matching(question)) < len(RECIPES)


def test_the_course_has_a_beginning_a_next_and_an_end():
    names = list(RECIPES)
    assert [recipe and recipe.name for recipe in course.neighbors(RECIPES[names[0]])] == [
        None,
        names[1],
    ]
    assert [recipe and recipe.name for recipe in course.neighbors(RECIPES[names[-1]])] == [
        names[-2],
        None,
    ]
    assert course.position(RECIPES[names[4]]) == 5


def test_a_change_is_traced_to_its_recipe():
    squares = RECIPES["pmap_squares"]
    assert course.varied(variation_of(squares), None) == squares
    other = parse_experiment(program_spec("pmap_squares", {"x": 2}) | {"target": "cpu:8"})
    assert (
        course.varied(other, "pmap_squares"),
        course.varied(other, "quadratic"),
        course.varied(other, None),
    ) == (squares, None, None)
    larger = parse_experiment(dict(RECIPES["layer"].spec) | {"dims": {"in": 64, "out": 4}})
    assert (course.varied(larger, "layer"), course.varied(larger, "psum")) == (
        RECIPES["layer"],
        None,
    )


def labels(shown):
    return [element.proto.label.replace("\\", "").strip("*") for element in shown.get("page_link")]


def read(shown):
    assert not shown.exception
    return " ".join(
        element.value.replace("\\", "")
        for kind in ("markdown", "caption", "info", "subheader")
        for element in shown.get(kind)
    )


def _listed(shown):
    titles = {recipe.title for recipe in RECIPES.values()}
    names = (label.partition("** ")[0] for label in labels(shown))
    listed = (re.sub(r"^\d\. ", "", name) for name in names)
    return [label for label in listed if label in titles]


def test_a_recipe_that_ran_here_is_marked(data_folder):
    here = Lab.open()
    assert here.wait(here.submit(RECIPES["local_shape"].experiment), 120).state == "succeeded"
    shown = opened("recipes")
    assert f"1 of {len(RECIPES)} done here" in read(shown)
    shown.text_input[0].set_value("What one device sees").run()
    assert sum(each.value == ":material/check: Done" for each in shown.caption) == 1


def test_the_screen_shows_a_gallery_then_all_of_a_level_and_a_search_leaves_few(data_folder):
    shown = opened("recipes")
    assert _listed(shown) == [RECIPES[name].title for name in FEATURED]
    numbered = [f"{at + 1}. {RECIPES[name].title}" for at, name in enumerate(FEATURED[:START])]
    assert [each for each in labels(shown) if each in numbered] == numbered and START == 4  # a path
    lines = [each.value.replace("\\", "") for each in shown.caption]
    # the model, chips and step of a plan: another batch takes other memory
    models = {name: plan.model for name in FEATURED if (plan := RECIPES[name].experiment.plan)}
    named = [line.partition(" · ")[2] for line in lines if " · " in line]
    assert [words.partition(" on ")[0] for words in named] == [*models.values()]
    steps = [RECIPES[name].experiment.plan for name in models]
    assert [words.partition(", ")[2] for words in named] == [
        f"{each.batch:,} × {each.sequence:,} tokens" for each in steps
    ]
    pills = shown.get("button_group")[0]
    assert pills.value == "Start here" and pills.options[0] == f"Start here · {len(FEATURED)}"
    bodies = [each.proto.body for each in shown.get("html")]
    pictures = [each for each in bodies if '<img class="glimpse"' in each]
    steps = [each for each in bodies if 'class="fit"' in each]
    assert len(pictures) + len(steps) == len({*pictures, *steps}) == len(FEATURED) == 8
    assert sum("/token" in each for each in steps) == len(steps) - 1  # else the share of memory
    assert sum("8 devices, value_and_grad(…), pmean" in each for each in pictures) == 1
    assert len(steps) == sum(RECIPES[name].experiment.plan is not None for name in FEATURED)
    every = []
    for level in LEVELS:
        shown.get("button_group")[0].set_value(level).run()
        headings = [heading.value.replace("\\", "") for heading in shown.subheader]
        counted = {f"{group} ({len(each)})": group for group, each in groups().items()}
        assert headings == [words for words, group in counted.items() if group in of_level(level)]
        every += _listed(shown)
    shown.get("button_group")[0].set_value("All").run()
    assert (
        sorted(every) == sorted(_listed(shown)) == sorted(each.title for each in RECIPES.values())
    )
    shown.text_input[0].set_value("ConcretizationTypeError").run()
    assert _listed(shown) == ["An if on a traced value"]
    assert shown.get("button_group")[0].value == "All"  # of which these are found
    assert not shown.subheader, "what is found is no group"
    assert f"1 of {len(RECIPES)} recipes" in read(shown)
    shown.text_input[0].set_value("zebra").run()
    assert "No recipe has the words “zebra”. Recipes are about:" in read(shown)
    topics = [each for each in shown.button if each.key.startswith("topic:")]
    assert [each.label for each in topics] == [*groups()]
    pages = [each.proto.page for each in shown.get("page_link") if "**" in each.proto.label]
    assert not {"programs", "collectives", "search"} & {*pages}, "which nobody asked for"
    shown.text_input[0].set_value("ragged").run()
    assert _listed(shown) == [RECIPES["mixture_of_experts"].title]


@pytest.mark.parametrize("search", ["", "psum"])
def test_small_programs_of_which_many_are_shown_are_lines_without_a_picture(data_folder, search):
    shown = opened("recipes", search=search) if search else opened("recipes")
    shown.get("button_group")[0].set_value("All").run()
    small = [each for each in RECIPES.values() if each.experiment.what.is_small_program]
    lines = [each for each in labels(shown) if "** " in each]
    titles = {each.title for each in small}
    assert {line.partition("** ")[0] for line in lines} == titles & {*_listed(shown)} != set()
    pictures = [each for each in shown.get("html") if 'class="glimpse"' in each.proto.body]
    assert len({each.proto.body for each in pictures}) == len(pictures)
    pill = shown.get("button_group")[0].options[0 if search else 1]
    assert pill == f"All · {len(_listed(shown))}"


def test_a_topic_of_recipes_is_searched_by_a_press(data_folder):
    shown = opened("recipes", search="zebra")
    next(each for each in shown.button if each.label == "Convolution").click().run()
    titles = {each.title for each in groups()["Convolution"]}
    assert titles <= {*_listed(shown)} and "No recipe" not in read(shown)


@pytest.mark.parametrize(
    ("words", "first"), [("jax.export", "programs"), ("NCCL bandwidth", "collectives")]
)
def test_words_of_no_recipe_lead_to_the_screen_that_they_ask_for(data_folder, words, first):
    shown = opened("recipes", search=words)
    pages = [each.proto.page for each in shown.get("page_link") if each.proto.label.startswith("*")]
    assert first in pages[0] and len(pages) == len({*pages}) < 3, "those that the words ask for"


def test_a_recipe_says_why_what_to_try_and_what_comes_next(data_folder):
    recipe = RECIPES["six_ways"]
    shown = opened("compare", experiment=link.encode(recipe.experiment))
    said = read(shown)
    assert all(
        words in said
        for words in (
            recipe.title,
            f"recipe {course.position(recipe)} of {len(RECIPES)}",
        )
    )
    assert recipe.look_at not in said and recipe.why not in said, "the answer is not given away"
    assert {"Previous: One dot product", "Next: What each way traces to"} <= set(labels(shown))
    assert any(label.startswith("Try: the same as a workload") for label in labels(shown))


def test_the_recipes_to_begin_with_keep_their_order(data_folder):
    shown = opened("recipes")
    second, third = (RECIPES[name] for name in FEATURED[1:3])
    shown.query_params["experiment"] = link.encode(second.experiment)
    shown.switch_page("pages/compare.py").run()
    assert f"recipe 2 of {len(FEATURED)}, Start here" in read(shown)
    assert f"Next: {third.title}" in labels(shown)
    alone = opened("compare", experiment=link.encode(second.experiment))
    assert f"of {len(RECIPES)}, {second.group}" in read(alone)


def test_a_stop_of_the_tour_opens_the_tab_that_it_is_about(data_folder, monkeypatch):
    monkeypatch.setenv("SPMD_LAB_EXAMPLES", "on")
    stops = [stop for stop in examples.stops() if stop.tab]
    shown = opened("compare", run=stops[0].runs[0])
    for stop in stops:
        (status,) = Lab.open().history(runs=stop.runs)
        shown.query_params["experiment"] = link.encode(status.experiment)
        shown.query_params["run"] = status.run
        shown.run()
        assert [tab.label for tab in shown.tabs if tab.children] == [stop.tab]
    assert {stop.tab for stop in stops} == {"Fastest", "Why"}


def test_a_recipe_that_asks_why_opens_on_the_answer(data_folder):
    rows = {"single": strategy(1e-5), "auto": strategy(2e-5, collectives=[])}
    recipe = RECIPES["why_all_gather"]
    tabs = []
    for experiment in (recipe.experiment, variation_of(recipe)):
        store(
            data_folder,
            result(rows, experiment=experiment, run=f"20260101-00000{len(tabs)}-abcdef"),
        )
        shown = opened("compare", run=f"20260101-00000{len(tabs)}-abcdef")
        tabs.append([tab.label for tab in shown.tabs if tab.children])
    assert tabs == [["Why"], ["Fastest"]]


def test_the_tour_has_a_way_back_and_out(data_folder, monkeypatch):
    monkeypatch.setenv("SPMD_LAB_EXAMPLES", "on")
    stops = examples.stops()
    at = next(at for at, stop in enumerate(stops) if stop.title == "Who holds what?")
    shown = opened("layout", run=stops[at].runs[0])
    back, onward = (
        next(each for each in shown.get("page_link") if words in each.proto.label)
        for words in ("Back", "Next")
    )
    runs = [parse_qs(each.proto.query_string)["run"] for each in (back, onward)]
    assert runs == [[*stops[at - 1].runs], [*stops[at + 1].runs]]
    shown.button("tour:dismiss").click().run()
    assert "Tour, " not in read(shown) and not shown.exception
    assert "Take the tour" not in labels(shown.switch_page("home.py").run())


def test_a_tour_that_is_over_is_not_on_a_screen_that_it_showed_before(data_folder, monkeypatch):
    monkeypatch.setenv("SPMD_LAB_EXAMPLES", "on")
    stops = examples.stops()
    at = next(at for at, stop in enumerate(stops) if stop.title == "Who holds what?")
    shown = opened("layout", run=stops[at].runs[0])
    assert "Tour, " in read(shown)
    for name, value in (("over", True), ("stop", at + 1)):
        shown.session_state[state._durable("tour", f"aside.{name}")] = value
    assert "Tour, " in read(shown.run())  # back from its last stop
    shown.session_state[state._durable("tour", "aside.stop")] = at + 2
    assert "Tour, " not in read(shown.run())


def test_a_change_to_a_recipe_keeps_the_way_back_and_on(data_folder):
    shown = opened("compare", experiment=link.encode(RECIPES["quadratic"].experiment))
    next(field for field in shown.number_input if field.label == "X").set_value(5).run()
    assert "A variation of recipe" in read(shown) and "**A quadratic, traced**" in read(shown)
    assert {"Back to it as it stands", "Next: In x, in y, in both"} <= set(labels(shown))
    assert not any(label.startswith("Try:") for label in labels(shown))


def test_a_problem_on_predict_shows_the_estimates_of_it_and_of_its_variation(data_folder):
    recipe = RECIPES["host_memory"]
    said = read(opened("predict", experiment=link.encode(recipe.experiment)))
    assert recipe.look_at in said and f"recipe {course.position(recipe)} of {len(RECIPES)}" in said
    here, varied = recipe.numbers(variation_of(recipe))
    assert f"**By the estimate:** {here}" in said
    assert f"**Offload the block inputs:** {varied}" in said


def test_a_stop_of_the_tour_has_one_next_and_no_recipe_beside_it(data_folder, monkeypatch):
    monkeypatch.setenv("SPMD_LAB_EXAMPLES", "on")
    stops = examples.stops()
    at = next(at for at, stop in enumerate(stops) if stop.title == "One layer, five strategies")
    shown = opened("compare", run=stops[at].runs[0])
    said = read(shown)
    assert f"Tour, {at + 1} of {len(stops)}:" in said and "Look at:" not in said
    onward = [label for label in labels(shown) if label.startswith("Next: ")]
    assert onward == [f"Next: {stops[at + 1].title}"]
    # two steps beside one another have a plan that beats both
    beside = opened("history", runs=",".join(stops[0].runs))
    assert "A faster plan than fsdp=16: " in read(beside)
    plan = next(label for label in labels(beside) if "Try this plan: " in label)
    (saved,) = map(float, re.findall(r"[\d.]+", plan))
    assert 0 < saved < 100 and "less time" in plan
    # the collectives that the chip waits for over the axis, with their bytes
    slower = next(iter(Lab.open().result(stops[0].runs[1]).strategies.values())).prediction
    over = [each for each in slower.collectives if each.axes == ("tensor",)]
    sizes = [
        f"{kind} of {bytes_text(sent_per_step([e for e in over if kind in (e.kind, e.asked)]))}"
        for kind in ("reduce-scatter", "all-gather")
    ]
    cause = f"of exposed communication: {' and '.join(sizes)} per device."
    assert f"The tensor axis adds {seconds_text(parts(slower)['exposed over tensor'])} {cause}" in (
        read(beside)
    )
    # the notebook can begin with a page of them
    page = opened("notebook")
    said, sections = read(page), examples.stops("page")
    assert all(each.title in said for each in sections) and " faster than " in said
    (link,) = [each for each in page.get("page_link") if "side by side" in each.proto.label]
    assert parse_qs(link.proto.query_string)["runs"] == [",".join(sections[0].runs)]
    # the numbers that are written in its texts are those of its runs
    faster, slower = (
        next(iter(Lab.open().result(run).strategies.values())).prediction
        for run in sections[0].runs
    )
    longer = slower.predicted_s.estimate - faster.predicted_s.estimate
    added = parts(slower)["exposed over tensor"]
    numbers = [seconds_text(added), seconds_text(added - longer)]
    assert re.findall(r"[\d.]+ ms", sections[0].look) == numbers
    assert not any(re.search(r"\d", each.title + each.look) for each in sections[1:])
    assert "Export" in [each.proto.popover.label for each in page.get("popover")]
    page.button(key="collection:example").click().run()
    (made,) = Lab.open().collections.listed()
    assert made.runs == tuple(run for each in sections for run in each.runs)
    assert sum(each.kind == "text" for each in made.items) == len(sections)
    assert exports.stored_as(made) == [made.id]
    assert exports.stored_as(replace(made, id="")) == made.runs  # of the example page
    assert made.title.endswith(" (copy)")
    assert page.toggle(key="edit").value  # who copies a page goes on to change it


def test_runs_that_a_search_made_take_neither_the_examples_nor_the_tour_away(
    data_folder, monkeypatch
):
    monkeypatch.setenv("SPMD_LAB_EXAMPLES", "on")
    opened("history")  # takes the examples in
    place = Store(data_folder)
    asked = RECIPES["local_shape"].experiment
    place.submit("20260101-000004-eeeeee", asked, batch="search a")
    place.close()
    shown = opened("history")
    ticks = [each.key.removeprefix("tick:") for each in shown.checkbox]
    assert set(ticks) == set(examples.run_ids()) and not shown.exception
    assert ONLY_EXAMPLES in read(shown)  # they are not taken for runs of one's own


def test_the_first_stop_of_the_tour_shows_a_win_beside_own_runs_and_deletes_none(
    data_folder, monkeypatch
):
    monkeypatch.setenv("SPMD_LAB_EXAMPLES", "on")
    opened("history")  # takes the examples in
    own = result({"auto": strategy(1e-5)})
    store(data_folder, own)
    stop = examples.stops()[0]
    shown = opened("history", runs=",".join(stop.runs))
    said = read(shown)
    assert "Tour, 1 of" in said and "16 TPUs" in stop.title and "not stored here" not in said
    assert not [each for each in shown.button if each.label.startswith("Delete")]
    other = opened("history", runs=own.run)
    assert [each for each in other.button if each.label.startswith("Delete")]


def test_a_recipe_opens_by_its_link_and_never_above_what_was_typed(data_folder):
    recipe = RECIPES["layer"]
    dim, size = next(iter(recipe.experiment.sizes.items()))
    near = recipe.experiment.vary(dims=recipe.experiment.sizes | {dim: 2 * size})
    shown = opened(recipe.screen, experiment=link.encode(near))
    next(field for field in shown.number_input if field.label == dim).set_value(size).run()
    assert recipe.look_at not in read(shown) and "recipe" not in read(shown)
    shown = opened(recipe.screen, experiment=link.encode(recipe.experiment))
    assert recipe.title in read(shown)
    next(field for field in shown.number_input if field.label == dim).set_value(2 * size).run()
    assert "A variation of recipe" in read(shown)
    next(field for field in shown.number_input if field.label == dim).set_value(size).run()
    assert f"recipe {course.position(recipe)} of" in read(shown), "the way back"


def test_the_tour_is_the_first_card_beside_own_runs_until_it_is_finished(data_folder, monkeypatch):
    monkeypatch.setenv("SPMD_LAB_EXAMPLES", "on")

    def offered(screen):
        return "Take the tour" in labels(screen)

    screen = opened()
    clicks = f"{len(examples.stops())} clicks through stored results."
    assert offered(screen) and clicks in read(screen)
    assert QUESTIONS["recipes"] not in labels(screen)  # one place to begin
    first, *_ = [each for each in labels(screen) if each in {"Take the tour", *QUESTIONS.values()}]
    assert first == "Take the tour"
    store(data_folder, result({"auto": strategy(1e-5)}))
    assert offered(screen.run())
    other = opened("history", runs=",".join(examples.stops()[0].runs))  # of another viewer
    assert offered(other.switch_page("home.py").run())
    hidden = opened()
    hidden.button("tour:dismiss").click().run()
    assert not offered(hidden) and QUESTIONS["recipes"] in labels(hidden)
    last = examples.stops()[-1].runs
    ended = opened("compare", run=last[0])
    ends = [each.proto for each in ended.get("page_link") if "Finish" in each.proto.label]
    assert [each.page for each in ends] == [""], "Overview, where nothing waits to be computed"
    assert "Next: a step of your own" in labels(ended)
    over = ended.switch_page("home.py").run()
    assert not offered(over) and QUESTIONS["recipes"] in labels(over)
    before = over.switch_page("pages/compare.py")
    before.query_params["run"] = last[0]
    assert "Tour," not in read(before.run()), "the tour is over"
    assert offered(over.switch_page("pages/recipes.py").run())


def test_a_copy_of_the_example_page_does_not_take_its_place(data_folder, monkeypatch):
    monkeypatch.setenv("SPMD_LAB_EXAMPLES", "on")
    opened("notebook").button(key="collection:example").click().run()
    listed = opened("notebook")
    links = {each.proto.label: each.proto.query_string for each in listed.get("page_link")}
    assert links["Which sharding, and why?"] == "collection=example"
    assert any("(copy" in label for label in links)
    assert opened("notebook", collection="example").button(key="collection:example")


def test_the_example_page_is_there_beside_runs_of_ones_own_until_it_is_hidden(
    data_folder, monkeypatch
):
    monkeypatch.setenv("SPMD_LAB_EXAMPLES", "on")
    own = result({"auto": strategy(1e-5)})
    store(data_folder, own)
    screen, first = opened("notebook"), examples.stops("page")[0]
    assert first.title in read(screen) and screen.button(key=f"begin:{own.run}")
    screen.button(key="example:hide").click().run()
    assert first.title not in read(screen)
    links = {each.proto.label: each.proto.query_string for each in screen.get("page_link")}
    assert links["Which sharding, and why?"] == "collection=example"
    page = opened("notebook", collection="example")
    assert first.title in read(page) and "Hide" not in [each.label for each in page.button]
