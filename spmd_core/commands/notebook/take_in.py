"""Imports the runs of an archive; they are marked as foreign."""

import json
import os
import stat
import sys
from argparse import Namespace

from spmd_core.base import open_file, refuse, shorten, visible
from spmd_core.history import imported_words
from spmd_core.lab import Lab

ARGUMENTS = {
    "file": {"metavar": "FILE", "help": "an archive that `export` wrote"},
}


def main(arguments: Namespace) -> int:
    """Import the archive; 1 where not one of its runs was taken."""
    try:
        with open_file(arguments.file) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # others may have no end
                raise OSError("it is no regular file")
            taken = Lab.open(serve=False).archives.import_file(file, arguments.file)
    except (OSError, ValueError) as error:
        if not isinstance(error, OSError) and "null byte" not in str(error):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        rule = f"cannot be read ({reason.lower()})"
        raise refuse(f"archive {shorten(arguments.file)}", rule, "name a .spmdlab file") from None
    print(
        json.dumps(taken.to_json())
        if arguments.json
        else imported_words(len(taken.imported), len(taken.present), len(taken.refused))
    )
    if taken.refused and not arguments.json:
        for each in taken.refused:
            print(visible(each.reason), file=sys.stderr)
    return 1 if taken.refused and not (taken.imported or taken.present) else 0
