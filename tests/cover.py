"""Sweeps over products of parameters: the part of every check, and the rest, which `python -m
tests.check --whole` adds.
"""

import itertools
from collections.abc import Collection
from typing import Any

import pytest

whole = pytest.mark.whole


def cover(*values: Collection[Any]) -> list[Any]:
    """Returns a product as parameters. All have the mark `whole` but a few in which each value is
    met, with as many pairs of values as so few can have.
    """
    lists = [list(each) for each in values]
    product = list(itertools.product(*(range(len(each)) for each in lists)))
    picked, met, pairs = set(), set(), set()

    def new(places: tuple[int, ...]) -> tuple[int, int]:
        at = set(enumerate(places))
        return len(at - met), len(set(itertools.combinations(sorted(at), 2)) - pairs)

    while len(met) < sum(map(len, lists)):
        best = max(product, key=new)
        picked.add(best)
        met |= set(enumerate(best))
        pairs |= set(itertools.combinations(enumerate(best), 2))
    return [
        pytest.param(
            *(each[i] for each, i in zip(lists, places, strict=True)),
            marks=() if places in picked else whole,
        )
        for places in product
    ]
