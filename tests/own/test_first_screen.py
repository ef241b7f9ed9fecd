"""The first screen of an explained step, as lines of text."""

from spmd_core.own import first_screen
from spmd_core.results import StepFinding


def test_a_finding_is_followed_by_the_argument_that_tries_its_fix():
    mended = StepFinding(
        kind="replicated",
        path="params/up",
        bytes_per_device=1,
        sentence="params/up is replicated",
        specs=(("params/*/up", ((), ("fsdp", "tensor"))),),
    )
    other = mended.model_copy(update={"specs": (("@model.py:8", (("data",),)),)})
    assert list(first_screen._accidents((mended, other))) == [
        "",
        "Accidents",
        "  replicated: params/up is replicated",
        "    try specs={'params/*/up': P(None, ('fsdp', 'tensor'))}",
        "  replicated: params/up is replicated",
    ]
    assert not [*first_screen._accidents(())]
