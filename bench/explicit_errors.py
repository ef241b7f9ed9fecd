"""Sharding type errors of Explicit axes, and whether the patch of `spmd-lab explicit` mends them.

    python -m bench.explicit_errors [--part K/N]

Each of 30 steps, of 16 further ones and of 33 as reported is patched. It counts where it has an error,
the patched file traces, its results are equal to those under Auto axes by the bound of the lab, and no
collective moves more bytes.
"""

import os
import tempfile
from pathlib import Path

from bench.explicit_snippets import FURTHER, HEAD, REPORTED, SNIPPETS
from bench.figures import Asked, Figures, measure, of_part
from spmd_core.base import LabError
from spmd_core.own import explicit

LEAST = 0.9
SETS = {"written first": SNIPPETS, "further": FURTHER, "as reported": REPORTED}
STEPS = SNIPPETS | FURTHER | REPORTED


def main(asked: Asked, figures: Figures) -> None:
    """Patch every step, and print those that are not mended."""
    names, errors = of_part(list(STEPS), asked.part), 0
    mended: list[str] = []
    for name in names:
        answer, count = _answer(name)
        errors += count
        mended += [name] if not answer else []
        print(f"{name}: {count} errors, {answer or 'mended'}", flush=True)
    for title, steps in SETS.items():
        if own := [name for name in names if name in steps]:
            share = len(set(mended) & set(own)) / len(own)
            note = f"patches trace, equal, no new collective: of {len(own)}"
            figures.add(f"steps mended, {title}", share, least=LEAST, note=note)
    figures.add("steps", len(names))
    figures.add("errors", errors)


def _answer(name: str) -> tuple[str, int]:
    """Why a step is not mended, "" where it is, and its errors."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "snippet.py").write_text(HEAD + STEPS[name])
        os.chdir(folder)
        try:
            report = explicit("snippet.py")
        except LabError as error:
            return str(error)[:300], 0
        finally:
            os.chdir("/")
    reasons = {
        "has no error": not report.errors,
        "does not trace: "
        + (report.errors[-1].message if report.errors else ""): not report.traces,
        f"{report.wrong} of {report.compared} wrong": bool(report.wrong),
        f"not compared: {report.notes}": report.wrong is None,
        f"new: {', '.join(report.beyond)}": bool(report.beyond),
    }
    return next((reason for reason, holds in reasons.items() if holds), ""), len(report.errors)


if __name__ == "__main__":
    measure(main, __doc__, part=("1/1", "K/N: every Nth, from the Kth on"))
