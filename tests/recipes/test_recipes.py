"""Every recipe gives its expected numbers, through the real worker process."""

import dataclasses

import pytest

from spmd_core.base import RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.experiment.link import decode, link_path
from spmd_core.recipes import RECIPES, get_recipe, groups
from spmd_core.recipes.recipe import Expected
from spmd_core.script import program_text
from spmd_core.script.program import with_mesh
from spmd_core.workloads.small_programs import RANGES, program_names, program_sizes, with_sizes
from tests.cover import whole

pytestmark = pytest.mark.newer
# the longest, which compute what others do
LONGEST = ("numpy_against_jit", "ten_million_rows", "network_gradient", "six_timings")
PROCESSES = ("two_processes", "hosts_sum_within")
# on the newer JAX the first of each workload, and a fourth of the others
FIRST = {each.experiment.workload: name for name, each in reversed(RECIPES.items())}
NEWER = {*FIRST.values(), *[*RECIPES][::4]}


def marks(name):
    if name in LONGEST:
        return whole
    if name in PROCESSES:
        return pytest.mark.this_python
    return () if name in NEWER else pytest.mark.newer_whole


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=marks(name)) for name in RECIPES if RECIPES[name].claims is None],
)
def test_a_recipe_gives_its_numbers(name, run):
    recipe = RECIPES[name]
    result = run(dict(recipe.spec))
    assert recipe.expected.differences(result) == ()
    assert all(found.correct is not False for found in result.strategies.values())


def test_another_number_is_noticed(run):
    result = run(dict(RECIPES["contraction"].spec))
    expected = RECIPES["contraction"].expected
    for changed, words in (
        (
            {"values": {"y": (48.0, 52.0, 56.0, 60.0, 64.0, 68.0, 72.0, 77.0)}},
            "not (48.0, 52.0, 56.0, 60.0, 64.0, 68.0, 72.0, 77.0)",
        ),
        ({"values": {"y": (48.0,)}}, "not (48.0,)"),
        ({"values": {"z": ()}}, "there is no result z"),
        ({"specs": {"y": ("x",)}}, "the spec of y is ('y',), not ('x',)"),
        ({"shapes": {"y": (9,)}}, "not (9,)"),
        ({"memory": {"y": "pinned_host"}}, "not pinned_host"),
        ({"printed": {"words": "yes"}}, "prints None for words, not 'yes'"),
        ({"shards": {0: ((0, 1),)}}, "holds ((0, 2),) of y, not ((0, 1),)"),
        ({"collectives": {"auto": frozenset()}}, "auto contains all-reduce, not none"),
    ):
        differences = dataclasses.replace(expected, **changed).differences(result)
        assert any(words in sentence for sentence in differences), (words, differences)


def test_a_failed_strategy_is_a_difference(run):
    result = run(dict(RECIPES["contraction"].spec))
    failed = result.model_copy(
        update={
            "strategies": {"auto": result.strategies["auto"].model_copy(update={"status": "error"})}
        }
    )
    assert Expected().differences(failed) == ("auto ended as error: no reason given",)


def test_every_recipe_has_its_words_and_its_link():
    for recipe in RECIPES.values():
        assert recipe.title and recipe.look_at.endswith(".") and len(recipe.why) > 100
        assert decode(link_path(recipe.experiment, screen=recipe.screen)) == recipe.experiment
        assert (recipe.screen == "layout") == (recipe.experiment.workload == "array")
        assert (recipe.expected != Expected()) == (recipe.claims is None), recipe.name
        assert (recipe.screen == "predict") == (recipe.claims is not None)
    assert sum(len(recipes) for recipes in groups().values()) == len(RECIPES)


def test_an_unknown_recipe_is_refused_with_the_choices():
    with pytest.raises(
        RequestError,
        match=r"recipe 'tutrial' does not exist: use \w+, \w+, \w+$",
    ):
        get_recipe("tutrial")


def test_an_unknown_program_is_refused_with_the_choices():
    for name in ("../layer", "nothing", 7, None):
        with pytest.raises(
            RequestError, match=r"^program .* is not registered: use \w+, \w+, \w+$"
        ):
            parse_experiment(
                {"workload": "program", "mesh": {"x": 8}, "options": {"program": name}}
            )


def test_every_program_is_shown_with_its_mesh():
    for name in program_names():
        experiment = parse_experiment(
            {
                "workload": "program",
                "mesh": {"x": 2, "y": 4},
                "options": {"program": name},
                "target": "cpu:8",
            }
        )
        text = program_text(experiment, "as_written")
        assert "mesh = jax.make_mesh((2, 4), ('x', 'y')" in text and "def program(mesh" in text
        compile(text, name, "exec")


def test_what_a_program_and_its_mesh_both_import_is_imported_once():
    text = with_mesh(
        '"""Says."""\n\nimport jax\nfrom jax.sharding import Mesh\n\n\ndef program(mesh):\n    '
        "return {}\n",
        "import jax\nfrom jax.sharding import AxisType, Mesh",
        ["mesh = None"],
    )
    assert text == (
        '"""Says."""\n\nimport jax\nfrom jax.sharding import AxisType, Mesh\n\nmesh = None\n\n\n'
        "def program(mesh):\n    return {}\n"
    )


def test_each_range_is_of_a_constant_of_its_program_and_stands_beside_its_value():
    assert set(RANGES) <= set(program_names())
    for program, ranges in RANGES.items():
        sizes = program_sizes(program)
        assert list(sizes) == [each.name.lower() for each in ranges]
        assert all(size.low <= size.default <= size.high for size in sizes.values())
        text = with_sizes(program, {name: size.high for name, size in sizes.items()})
        for each in ranges:
            assert f"{each.name} = {each.high:_}  # {each.low:_} to {each.high:_}" in text
