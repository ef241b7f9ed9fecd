"""Which renderings run a function, and whether some of them are as recorded:

python -m tests.golden.touched map          prints `path:line<TAB>door`, the functions of each door
python -m tests.golden.touched check        of the doors on standard input; 1 at the first change
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from tests.golden import changes
from tests.golden.doors import doors
from tests.golden.folder import opened
from tests.layers import ROOT


def functions_of(door, root: str) -> Iterator[tuple[str, float]]:
    """`path:line` of the functions that a door runs, and its seconds."""
    seen: set[tuple[str, int]] = set()

    def called(frame: FrameType, event: str, argument: object) -> None:
        del event, argument
        seen.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    begun = time.perf_counter()
    sys.settrace(called)
    import threading

    threading.settrace(called)
    try:
        door()
    finally:
        sys.settrace(None)
        threading.settrace(None)  # pyright: ignore[reportArgumentType]
    took = time.perf_counter() - begun
    for file, line in seen:
        if file.startswith(root):
            yield f"{os.path.relpath(file, root)}:{line}", took


def print_map() -> None:
    """Print the functions of every door, quick doors first."""
    found = []
    with tempfile.TemporaryDirectory() as temporary, opened(Path(temporary) / "data") as lab:
        for name, door in doors(lab):
            found += [(took, function, name) for function, took in functions_of(door, str(ROOT))]
    for _, function, name in sorted(found):
        print(f"{function}\t{name}")


def check(names: list[str]) -> int:
    """1 where a door shows something else than was recorded, or nothing."""
    recorded = {name: lines for kind in changes.recorded().values() for name, lines in kind.items()}
    with tempfile.TemporaryDirectory() as temporary, opened(Path(temporary) / "data") as lab:
        known = dict(doors(lab))
        for name in names:
            now = known[name]()
            found = changes.changed_values(name, recorded[name], now)
            found += changes.changed_texts(name, recorded[name], now)
            if found:
                print(found[0])
                return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "map":
        print_map()
    else:
        sys.exit(check(sys.stdin.read().splitlines()))
