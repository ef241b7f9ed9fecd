"""What is offered is not called wrong once it is taken."""

import pytest

from bench.planted_accidents import PLANTED, taken
from spmd_core.advice import all_findings, opened
from spmd_core.results import StepFinding


def finding(kind, path, **specs):
    return StepFinding(
        kind=kind, path=path, bytes_per_device=1, sentence="", specs=tuple(specs.items())
    )


@pytest.mark.filterwarnings("ignore:Some donated buffers")  # one accident is that
@pytest.mark.parametrize("name", PLANTED)
def test_the_first_fix_of_what_a_file_shows_opens_nothing_on_what_it_changes(name):
    given, _ = PLANTED[name]
    experiment = taken(given() if callable(given) else given.exported())
    before = all_findings(experiment.exported)
    first = next((each for each in before if each.specs), None)
    if first:
        specs = {path: [*map(list, spec)] for path, spec in first.specs}
        after = all_findings(experiment.vary(specs=specs).exported)
        assert not opened(before, after, specs)


def test_a_finding_that_was_there_and_one_that_moved_to_another_line_are_not_opened():
    before = [finding("replicated", "w"), finding("repeated_work", "a.py:1")]
    after = [finding("replicated", "w"), finding("repeated_work", "a.py:9")]
    assert not opened(before, after, ["x"])


@pytest.mark.parametrize(
    "new",
    [
        finding("unused_axis", "dp", x=(("dp",),)),  # its fix is of what was changed
        finding("replicated", "x"),
        finding("repeated_work", "a.py:9"),  # of a line that was constrained
        finding("resharded_donation", "p/down"),  # of a kind that was not there
    ],
)
def test_a_finding_of_what_was_changed_is_opened(new):
    before = [finding("repeated_work", "a.py:1"), finding("replicated", "w")]
    assert opened(before, [*before, new], ["x", "@a.py:9"]) == [new]
