"""Numbers on their way into a sentence that no stored run shows: each by its value."""

from types import SimpleNamespace

import pytest

from spmd_core.commands import run
from spmd_core.surveys.search.answer import doing
from spmd_core.surveys.sweep.curves import _why_above


def row(efficiency, **shares_s):
    return SimpleNamespace(efficiency=efficiency, numbers=SimpleNamespace(shares_s=shares_s))


def test_what_takes_less_is_named_with_both_shares():
    first, last = row(1.0, matmul=6.0, memory=4.0), row(1.2, matmul=3.0, memory=1.0)
    assert _why_above(first, last) == (
        "; above 100% since HBM-bound operations take 40% of the first step, and for the same "
        "work 21% of it at the end"
    )
    assert _why_above(last, first) == ""


@pytest.mark.parametrize(
    ("spent_s", "budget_s", "words"),
    [
        (2.0, 10.0, "2 s of at most 10 s: estimating, 1,501 of 4,002 looked at, 1 compiled"),
        (10.7, 10.0, "10 s of at most 10 s: estimating, 1,501 of 4,002 looked at, 1 compiled"),
        (3.0, None, "3 s, about 5 s left: estimating, 1,501 of 4,002 looked at, 1 compiled"),
    ],
)
def test_a_search_counts_what_it_looked_at(spent_s, budget_s, words):
    found = [SimpleNamespace(stage="estimated")] * 1500 + [SimpleNamespace(stage="compiled")]
    counts = {"measured": 0, "compiled": 1, "failed": 0}
    answer = SimpleNamespace(found=found, counts=counts, space=4002, winner=None)
    assert doing(answer, "estimating", spent_s, budget_s) == words


def test_sizes_that_were_canceled_are_counted(monkeypatch, capsys):
    monkeypatch.setattr(run.Lab, "open", lambda **_: SimpleNamespace(latest=lambda _: None))
    monkeypatch.setattr(run, "at_sizes", lambda experiment, count: list(range(count)))
    monkeypatch.setattr(run, "points_of", lambda lab, experiments: experiments[:2])
    monkeypatch.setattr(run, "sizes_json", lambda points: {"sizes": len(points)})
    assert run.run_sizes(None, 5, as_json=True) == 130
    told = capsys.readouterr()
    assert told.out == '{"sizes": 2}\n'
    assert told.err == "cancelled: 2 of 5 sizes computed\n"
