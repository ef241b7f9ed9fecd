"""Text as Markdown."""

import pytest

from ui.markdown import as_sentence, plain


@pytest.mark.parametrize(
    "name",
    ["<img src=x>", "[a](http://b)", "`code`", "$x$", ":smile:", "**b**", "# h", "a_b", "1. x"],
)
def test_plain_leaves_no_markup(name):
    shown = plain(name)
    assert shown.replace("\\", "") == name
    assert not any(
        shown[at] in "<[`$:*#_" and (at == 0 or shown[at - 1] != "\\") for at in range(len(shown))
    )


def test_a_message_after_a_sentence_is_one_itself():
    assert (
        as_sentence("the worker process died: run it again")
        == "The worker process died: run it again."
    )
    assert as_sentence("Already one.") == "Already one." and as_sentence("") == ""
    assert as_sentence("batch=30 does not divide") == "batch=30 does not divide."
    assert as_sentence("xla_flag is unknown") == "xla_flag is unknown."
