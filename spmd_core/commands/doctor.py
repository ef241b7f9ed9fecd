"""Tests this machine: what works, what each reading means, and what to do."""

import json
from argparse import Namespace

from spmd_core.lab import doctor

MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL", "unknown": "?   "}


ARGUMENTS = {}


def main(arguments: Namespace) -> int:
    """Print each line as it is known; 1 where one failed."""
    checks = []
    for each in doctor.examine():
        checks.append(each)
        if not arguments.json:
            name = each.name.replace("_", " ")
            print(f"{MARKS[each.status]}  {name}: {each.value or '–'}", flush=True)
            print(f"      {each.meaning}")
            if each.do:
                print(f"      do: {each.do}")
    if arguments.json:
        print(json.dumps(doctor.as_json(checks)))
    return int(any(each.status == "fail" for each in checks))
