"""`--remedies`: tries what would remove the collectives of a result, and prints it."""

from spmd_core.advice import doing_words
from spmd_core.commands.waiting import show_progress
from spmd_core.lab import Lab
from spmd_core.results import Result
from spmd_core.trials import RemedySearch, carried_out, store, with_remedies

HELP = (
    "compile what would remove each collective worth more than 2%% of the time, and say "
    "what that costs"
)


def with_tried(lab: Lab, result: Result) -> tuple[Result, bool]:
    """The result with what would remove its collectives, with a note where not all were tried, and
    whether Ctrl-C ended that: what was done until then is kept.
    """
    search = RemedySearch(lab, store(lab), result)
    tried = carried_out(
        search,
        "remedies",
        lambda each: show_progress(doing_words(each.done, each.of, each.doing)),
    )
    show_progress()
    result = with_remedies(result, tried.answers)
    if search.state != "done":
        why = search.problem or f"{search.of - search.done} of {search.of} collectives are left"
        notes = (*result.notes, f"what removes collectives was not tried to the end: {why}")
        result = result.model_copy(update={"notes": notes})
    return result, search.state == "cancelled"
