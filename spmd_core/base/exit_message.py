"""The line that names why a process aborted, among dumps of threads and frames."""

import re

# glog's prefix of a fatal line, e.g. `F1121 17:15:50.123456  42 rendezvous.cc:12] Check failed: …`
_FATAL = re.compile(r"^F\d{4} (?:[\d:.]+ +\d+ )?(?:[^\]\s]+:\d+\] )?|^F(?=\d{4}\b)")
_CHECK = re.compile(
    r"check fail|LLVM ERROR|terminate called|what\(\):|assertion .{0,200}fail"
    r"|^[\w.]*Error: |rendezvous",
    re.IGNORECASE,
)
# first lines of dumps of faulthandler, glog and the kernel, which do not name the cause
_DUMP = re.compile(
    r"^(Fatal Python error|\*\*\* |Current thread|Thread 0x|Extension modules:"
    r"|  File \"|\s*@ +0x|PC: @|<no Python frame>|#\d+ )"
)
# what libtpu writes wherever it is loaded without its chips, and as it ends
_LOADING = re.compile(
    r"^(WARNING: Logging before |Failed to find host bounds|[IWE]\d{4} .* common_lib\.cc:"
    r"|=== Source Location Trace|[\w./-]+\.cc:\d+$"
    r"|https://symbolize|[IWE]\d{4} .*\] RAW: )"
)
MAX_CHARACTERS = 500
SILENT = "it said nothing"


def failing_line(text: str) -> str:
    """The line that names why a process ended: its failed check, else the last line before a dump.

    >>> failing_line("starting\\nF1121 17:15:50.1 42 a.cc:7] Check failed: x\\nFatal Python error: Aborted")
    'Check failed: x'
    """
    written = [line.rstrip() for line in text.splitlines() if line.strip()]
    lines = [line for line in written if not _LOADING.match(line)]
    kept = [line for line in lines if not _DUMP.match(line)]
    for is_cause in (_FATAL.match, _CHECK.search):
        if cause := next((line for line in kept if is_cause(line)), None):
            words = _FATAL.sub("", cause).strip() or cause
            return words[:MAX_CHARACTERS]
    if not kept:
        return lines[0].strip()[:MAX_CHARACTERS] if lines else SILENT
    return (_before_dump(lines) or kept[-1]).strip()[:MAX_CHARACTERS]


def _before_dump(lines: list[str]) -> str | None:
    """The last line before the first line of a dump; None where there is no dump."""
    dumped = (place for place, line in enumerate(lines) if _DUMP.match(line) and line[0] != " ")
    at = next(dumped, None)  # frames alone are those of an exception, which its last line names
    return lines[at - 1] if at else None


def tail_with(line: str, tail: str) -> str:
    """The tail of what was written, led by the failing line where the tail no longer holds it."""
    return tail if line in tail or line == SILENT else f"{line}\n…\n{tail}"
