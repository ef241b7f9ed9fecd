"""Mutations of shown values change what is shown, and nothing else of a module."""

import ast

import pytest

from spmd_core.terms import costs
from tests.house import mutate
from tests.house.mutations import mutated, mutations
from tests.layers import ROOT

pytestmark = pytest.mark.slow  # it imports every renderer


@pytest.mark.parametrize("what", mutate.NAMED)
def test_a_named_mutation_is_of_the_code_that_is_there(what):
    mutation = mutate.NAMED[what]
    before = ast.parse((ROOT / mutation.path).read_text("utf-8"))
    assert ast.dump(mutated(mutation)) != ast.dump(before)
    assert mutate.mirrors_of(mutation.path)


def test_a_planted_mutation_is_what_runs_and_can_be_taken_out():
    (mutation,) = [
        each
        for each in mutations("spmd_core/terms/costs.py")
        if each.rule == "inverted" and "_HOUR_S" in each.text and "tokens_per_s" in each.text
    ][:1]
    module = ast.parse((ROOT / mutation.path).read_text("utf-8"))
    before = {name: getattr(costs, name).__code__ for name in ("mfu_words",)}
    names = {node.name: node.lineno for node in module.body if isinstance(node, ast.FunctionDef)}
    (changed,) = [name for name, line in names.items() if line == mutation.functions[0]]
    own = getattr(costs, changed).__code__
    assert mutate.replace_code({mutation.path: mutated(mutation)}) >= 1
    assert getattr(costs, changed).__code__ != own
    assert before == {name: getattr(costs, name).__code__ for name in before}
    getattr(costs, changed).__code__ = own
