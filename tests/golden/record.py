"""Records the goldens again: `python -m tests.golden.record [--values]`.

Texts are recorded as they are now. Where a number, a flag or the order of rows changed, nothing is
written and the changes are printed; with `--values` they are printed and recorded, for the commit's
message to list.
"""

import argparse
import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.golden import changes as stored, folder
from tests.golden.doors import Door, doors
from tests.golden.values import Line

MOST = 200  # changes that are printed


def main() -> int:
    """Record; 1 where values changed and may not, or a door raised."""
    ask = argparse.ArgumentParser(prog="python -m tests.golden.record", description=__doc__)
    ask.add_argument("--values", action="store_true", help="record changed values, too")
    may_change = ask.parse_args().values
    with tempfile.TemporaryDirectory() as temporary, folder.opened(Path(temporary) / "data") as lab:
        now, raised = rendered(dict(doors(lab)))
    before = {name: lines for texts in stored.recorded().values() for name, lines in texts.items()}
    now |= {name: before[name] for name in raised if name in before}
    changes = [
        each
        for name in before
        for each in stored.changed_values(name, before[name], now.get(name, []))
    ]
    print("\n".join(changes[:MOST]))
    failed = f"; {len(raised)} raised: {' '.join(raised)}" if raised else ""
    print(f"{len(changes)} values changed{failed}", file=sys.stderr)
    if changes and not may_change:
        return 1
    kinds = defaultdict(dict)
    for name, lines in now.items():
        kinds[stored.kind_of(name)][name] = lines
    for path in stored.RECORDED.glob("*.xz"):
        path.unlink()
    for kind, texts in kinds.items():
        stored.write(kind, texts)
    return 1 if raised else 0


def rendered(every: Mapping[str, Door]) -> tuple[dict[str, list[Line]], dict[str, Exception]]:
    """Returns what each door shows, and what those raised that show nothing, which are printed."""
    now, raised = dict[str, list[Line]](), dict[str, Exception]()
    for name, door in every.items():
        try:
            now[name] = door()
        except Exception as error:  # the others are recorded
            raised[name] = error
            print(f"{name} raised, and stays as it was recorded:", file=sys.stderr)
            traceback.print_exception(error)
    return now, raised


if __name__ == "__main__":
    sys.exit(main())
