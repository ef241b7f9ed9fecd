"""The command line: the same Lab as the dashboard, without Streamlit."""

from __future__ import annotations  # an old Python gets as far as the sentence about it

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # a Ctrl-C during the imports ends the process without a traceback; `main` catches later ones
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import argparse
import errno
import gc
import os
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import NoReturn

SUCCESS, FAILURE, BAD_REQUEST, INTERRUPTED = 0, 1, 2, 130
SCRIPT = "spmd-lab"  # as an installed wheel has it
PROGRAM = SCRIPT if os.path.basename(sys.argv[0]) == SCRIPT else "python -m spmd_core"

if sys.version_info < (3, 11):  # noqa: UP036 - before what an older Python cannot import
    python = ".".join(map(str, sys.version_info[:2]))
    print(
        f"Python {python} is too old: SPMD Lab needs 3.11 or newer, which README.md says how to get",
        file=sys.stderr,
    )
    sys.exit(BAD_REQUEST)

from spmd_core.base import (  # noqa: E402
    LabError,
    RequestError,
    capital,
    check_known,
    imported,
    plain_streams,
    shorten,
)
from spmd_core.commands import numbers  # noqa: E402

# A command is a module of `spmd_core.commands`, or a value in one, imported only when it is called: its `ARGUMENTS` by
# name, as `add_argument` takes them (those of one `group` exclude one another), and
# `main(arguments) -> exit code`.
COMMANDS = {
    "devices": "what the devices of a target say of themselves",
    "layout": "who holds what, without any device",
    "run": "run an experiment, and print its result",
    "program": "what each device holds of a program that jax.export wrote",
    "what-if": "what other specs, axis sizes or constraints do to a program, before a compile",
    "history": "the runs that are stored",
    "name": "name a stored run",
    "note": "write the note of a stored run",
    "tag": "add tags to a stored run, remove them, or pin it",
    "compare": "two to eight stored runs: which is faster, and what differs",
    "collection": "pages of runs, searches and text: list, show, new, add, edit, move, remove, …",
    "report": "stored runs as one HTML file, or as Markdown",
    "export": "write stored runs into one archive, for another installation",
    "import": "take in the runs of an archive, as foreign ones",
    "script": "a script of plain JAX that reproduces an experiment",
    "predict": "what a program or a training step would cost on TPUs and GPUs that are not attached",
    "search": "which sharding is best for a model on chips, or for a spec",
    "serve": "which chips, mesh and dtypes serve a model, for a load and its limits",
    "collectives": "time and bandwidth of each collective, size by size",
    "calibrate": "the ceilings of this machine: copies, matmuls, collectives",
    "explain": "a step of your own code: what it communicates, holds and costs, with its lines",
    "versions": "a step of your own code under several releases of JAX, side by side",
    "explicit": "a step's sharding type errors under Explicit axes, and the patch that mends them",
    "check": "steps of your own code against their goldens, as Markdown for a pull request",
    "mcp": "serve answers to agents, over standard input and output",
    "dashboard": "serve the screens on this machine",
    "doctor": "a self-test of this machine: what works, and what to do",
    "link": "the link that opens an experiment in the dashboard",
    "who": "who did what on the dashboard",
    "audit": "who did what, on the dashboard and the command line",
    "login": "whether the dashboard requires a login, and how to end that",
}

_LONG = 60  # characters
_OWN = re.compile(r"argument (\S+): ('.*)", re.DOTALL)  # a refusal of `numbers`, not of argparse
_NEGATIVE = re.compile(r"-\.?\d")
_INSIDE = {  # modules of commands that are in a folder, or values in a module
    "check": "own.check",
    "explain": "own.explain",
    "versions": "own.versions",
    "explicit": "own.explicit",
    "what-if": "own.what_if",
    "mcp": "own.tools",
    "calibrate": "collectives.CALIBRATE",
    "serve": "serving.serve",
    "dashboard": "owner.dashboard",
    "who": "owner.audit.WHO",
    "login": "owner.login",
    "audit": "owner.audit",
    "name": "notebook.label.NAME",
    "note": "notebook.label.NOTE",
    "tag": "notebook.label.TAG",
    "compare": "notebook.compare",
    "collection": "notebook.collection",
    "report": "notebook.report",
    "export": "notebook.export",
    "import": "notebook.take_in",
}


class _Parser(argparse.ArgumentParser):
    """Refuses in one sentence, in which no word of the user is long."""

    words: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        for word in self.words:
            if len(word) > _LONG:
                message = message.replace(repr(word), shorten(word)).replace(word, shorten(word))
        if own := _OWN.fullmatch(message):
            raise RequestError(" ".join(own.groups()))
        raise RequestError(f"{message[0].lower()}{message[1:]}: see {self.prog} --help")


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; the exit code: 0, 1 for a failed run, 2 for a bad request (one line on
    standard error), 130 when interrupted.
    """
    if words is None:  # of a process of its own: `imported` allows collections again
        gc.disable()
    words = list(sys.argv[1:] if words is None else words)
    _open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    with plain_streams(sys.stdout, sys.stderr):
        return _carried_out(words)


def _carried_out(words: list[str]) -> int:
    try:
        return _call(words)
    except RequestError as error:
        return _say(error, BAD_REQUEST)
    except LabError as error:
        return _say(error, FAILURE)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            if isinstance(error, BrokenPipeError):
                # the rest is for nobody
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return FAILURE
            raise
        return _say(
            LabError("too many files are open: close other programs, or raise `ulimit -n`"), FAILURE
        )
    except KeyboardInterrupt as stop:
        print(str(stop) or "interrupted before there was an answer", file=sys.stderr)
        return INTERRUPTED


def _open_standard_streams() -> None:
    """Point closed standard streams at the null device: a database must not get their numbers."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def _say(error: LabError, code: int) -> int:
    print(" ".join(str(error).split()), file=sys.stderr)
    return code


def _call(words: list[str]) -> int:
    if not words:
        raise RequestError(f"no command was given: use one of {', '.join(COMMANDS)}, or --help")
    if words[0] in ("-h", "--help"):
        print(_overview())
        return SUCCESS
    check_known("command", words[0], COMMANDS, "does not exist")
    meaning = COMMANDS[words[0]]
    command = pkgutil.resolve_name(f"spmd_core.commands.{_INSIDE.get(words[0], words[0])}")
    imported()
    parser = _Parser(
        prog=f"{PROGRAM} {words[0]}",
        description=f"{capital(meaning)}.",
        allow_abbrev=False,
    )
    for kind, read in ((int, numbers.integer), (float, numbers.number)):
        parser.register("type", kind, read)
    parser.words = [part for word in words for part in (word, *word.split("=", 1)[1:])]
    groups = defaultdict(parser.add_mutually_exclusive_group)
    for name, keywords in command.ARGUMENTS.items():
        group = keywords.get("group")
        own = {key: value for key, value in keywords.items() if key != "group"}
        (groups[group] if group else parser).add_argument(name, **own)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    code = command.main(parser.parse_args(_values_joined(words[1:])))
    sys.stdout.flush()
    return code


def _values_joined(words: list[str]) -> list[str]:
    """Values that begin with a dash, as one word with their option: argparse takes a lone `--xla_…`
    or `-1ms` for an option of its own.
    """
    joined: list[str] = []
    for word in words:
        is_flag = joined and joined[-1] == "--compiler-flags" and word.startswith("--xla")
        if is_flag or (joined and joined[-1].startswith("--") and _NEGATIVE.match(word)):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _overview() -> str:
    lines = [
        f"usage: {PROGRAM} COMMAND [SPEC] [--json]",
        "",
        "SPEC is a spec file, - for standard input, a link, or recipe:NAME.",
        "",
    ]
    lines += [f"  {name:12}{meaning}" for name, meaning in COMMANDS.items()]
    return "\n".join(
        [
            *lines,
            "",
            f"{PROGRAM} COMMAND --help says more. Exit code: 0, 1 for a failed run, 2 for a bad request.",
        ]
    )


if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
