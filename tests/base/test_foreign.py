"""Files and text of others: no pipe is waited for without end, no text steers a terminal."""

import io
import os
import threading

import pytest

from spmd_core.base import CLEAR, plain_streams, read_file, visible


def test_a_pipe_to_which_nobody_writes_is_not_waited_for(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match=r"nobody wrote to this pipe within 0\.05 s"):
        read_file(pipe, 10, pipe_s=0.05)


def test_a_pipe_is_read_as_a_file_is(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"x" * 200_000,))
    writer.start()
    assert read_file(pipe, 300_000) == b"x" * 200_000
    writer.join()


def test_no_more_is_read_than_is_asked_for():
    assert read_file("/dev/zero", 5) == bytes(5)


@pytest.mark.parametrize("text", ["plain é 漢字 😀\n\tx", '{"a": 1}'])
def test_text_stays_text(text):
    assert visible(text, "\n\t") == text


def test_what_is_printed_steers_no_terminal():
    out, err = io.StringIO(), io.StringIO()
    with plain_streams(out, err):
        print("\x1b]0;title\x07\x9b31m \u202egnp.exe\r over")
        print(CLEAR + "50%", end="")
    assert out.getvalue() == "\\u001b]0;title\\u0007\\u009b31m \\u202egnp.exe\\u000d over\n" + (
        "\r\x1b[K50%"
    )
