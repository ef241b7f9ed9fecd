"""Text as Markdown."""

import pytest

from spmd_lab.ui.markdown import as_sentence, code, coded, plain


@pytest.mark.parametrize(
    "name",
    ["<img src=x>", "[a](b)", "![a](b)", "`code`", "$x$", "**b**", "# h", "_a_", "1. x"],
)
def test_plain_leaves_no_markup(name):
    shown = plain(name)
    assert shown.replace("\\", "").replace("`", "") == name.replace("`", "")
    assert not any(
        shown[at] in "<[`$:*#_" and (at == 0 or shown[at - 1] != "\\") for at in range(len(shown))
    )


@pytest.mark.parametrize(
    "name", ["kv_heads", "num_kv_heads over x", "all-reduce", "v5.2", "a1_b-c.d"]
)
def test_what_is_no_markup_is_read_out_as_it_is(name):
    assert plain(name) == name  # the name of a widget is its label, escapes and all
    assert plain(f"_{name}") == f"\\_{name}"


@pytest.mark.parametrize(
    ("text", "live"),
    [
        ("Log in at https://evil.example/now, please", "https://evil.example/now,"),
        ("see HTTP://e.x", "HTTP://e.x"),
        ("xhttps://e.x", "https://e.x"),
        ("at www.evil.example.", "www.evil.example."),
        ("mail a.b+c@evil.example now", "a.b+c@evil.example"),
        ("a :smile: b", ":smile:"),
        ("a :+1: b", ":+1:"),
        ("a :100: b", ":100:"),
        ("a :streamlit: b", ":streamlit:"),
        ("a :material_home: b", ":material_home:"),
    ],
)
def test_what_markdown_makes_live_after_the_escapes_is_code(text, live):
    before, after = text.split(live)
    assert plain(text) == f"{plain(before)}{' ' * before.endswith(' ')}`{live}`" + (
        f"{' ' * after.startswith(' ')}{plain(after)}" if after else ""
    )


@pytest.mark.parametrize(
    "text",
    [
        "tpu:v5e:4x4",
        "gpu:gb200:2x72: no",
        "tpu:tpu7x:2x2x1",
        "on gpu:h100:8.",
        "target cpu:8: use",
        "at 12:30:45",
        "v5p:64",
    ],
)
def test_names_of_targets_and_times_are_not_code(text):
    assert "`" not in plain(text)


def test_names_of_icons_stay_words():
    assert ":material/" not in plain(":material/home: x")


def test_marks_that_are_not_seen_are_shown_by_their_numbers():
    assert plain("a\u202eb\ud800c\x1bd").replace("\\\\", "\\") == r"a\u202eb\ud800c\u001bd"


def test_code_holds_backticks():
    assert code("a`b") == "``a`b``" and code("`") == "`` ` ``"
    assert coded("in `https://a.b` and `:smile:`") == "in `https://a.b` and `:smile:`"


def test_a_message_after_a_sentence_is_one_itself():
    assert (
        as_sentence("the worker process died: run it again")
        == "The worker process died: run it again."
    )
    assert as_sentence("Already one.") == "Already one." and as_sentence("") == ""
    assert as_sentence("batch=30 does not divide") == "batch=30 does not divide."
    assert as_sentence("xla_flag is unknown") == "xla_flag is unknown."


def test_a_target_before_a_colon_is_no_emoji():
    assert "`" not in plain("v5e:4x4: 16 chips, v5p:4x4x4*2: more")
