"""The chart of time against memory: what may not fit is named, and the first is in sight."""

from dataclasses import replace

from spmd_core.search import Answer, read_question
from spmd_core.search.models import candidates
from spmd_lab.ui.search.charts import front_chart


def test_what_may_not_fit_is_named_and_the_first_is_drawn_over_the_others():
    question = read_question(
        {"model": "scaled:1", "chips": ["v5e:4x4"], "global_batch": 32, "remat": ["minimal"]}
    )
    found = list(candidates(question))
    known = Answer(question, len(found), found, True)
    on_front = {each.number for each in known.front}
    ranked = [each.candidate for each in known.ranking[1:] if not each.alike]
    other = next(each for each in ranked if each.number not in on_front)
    found[found.index(other)] = replace(other, fits="likely")
    answer = Answer(question, len(found), found, True)
    chart = front_chart(answer.ranking, answer.front)
    every, _, first = chart["layer"]
    kinds = {row["name"]: row["kind"] for row in every["data"]["values"]}
    assert kinds[other.name] == "may not fit" and kinds[answer.winner.name] == "first"
    assert [row["name"] for row in first["data"]["values"]] == [answer.winner.name]
    assert first["mark"]["size"] > every["mark"]["size"]
