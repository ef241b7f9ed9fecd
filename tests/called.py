"""Runs the program that is its first argument as `python -c` does: a module, which can be forked."""

import sys

if __name__ == "__main__":
    exec(sys.argv.pop(1), {"__name__": "__main__"})
