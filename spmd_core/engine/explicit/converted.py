"""Finds every sharding type error of a step, and edits its files until it traces under Explicit
axes, in a process of its own: `python -m spmd_core.engine.explicit.converted FD REQUEST`.
"""

import difflib
import json
import os
import sys
from contextlib import suppress
from typing import Any

import jax
from jax.sharding import AxisType

from spmd_core.base import LabError, answer, refuse
from spmd_core.engine.explicit.judged import judge
from spmd_core.engine.explicit.loading import Loader, read_request
from spmd_core.engine.explicit.propagated import wanted_specs
from spmd_core.engine.explicit.watch import Key, Watch, error_words
from spmd_core.engine.explicit.ways import Mended, Ways
from spmd_core.engine.step import here, tracing
from spmd_core.facts import ExplicitReport


def reported(loader: Loader) -> ExplicitReport:
    """The errors of a step, and its patch.

    Raises:
        RequestError: the step cannot be taken.
        LabError: it does not trace under Auto axes, by JAX's own words.
    """
    auto, given, mesh = _auto(loader)
    if mesh.size == 1:
        raise refuse(f"mesh {dict(mesh.shape)}", "has one device", "give an axis a size above 1")
    ways = Ways(loader, _wanted(loader), here.compiled_step(auto).collectives or ())
    mended = ways.chosen()
    notes = _notes(auto, given, mended)
    loader.use(mended.texts)
    traced, wrong, compared = None, None, 0
    try:
        traced = loader.trace(None)[0]
    except Exception as error:  # whatever JAX raises: the report has it
        mended.unmended = mended.unmended or error_words(error)
        if not mended.is_of_sharding:
            notes.insert(0, f"the patch ends at what is no sharding type error: {mended.unmended}")
    if traced is not None:
        wrong, compared = judge(auto, traced, notes)
    return ExplicitReport(
        function=auto.function,
        mesh=tuple(mesh.shape.items()),
        errors=ways.errors(mended),
        patch=_patch(loader),
        texts={
            path: each.finished()
            for path, each in loader.sources.items()
            if each.finished() != each.original
        },
        traces=traced is not None,
        wrong=wrong,
        compared=compared,
        beyond=ways.beyond(mended),
        outputs=_outputs(traced) if traced else {},
        notes=tuple(notes),
    )


def _outputs(traced: tracing.TracedStep) -> dict[str, str]:
    types = (aval.str_short(short_dtypes=True) for aval in traced.traced.jaxpr.out_avals)
    return dict(zip(traced.outputs, types, strict=False))


def _auto(loader: Loader) -> tuple[tracing.TracedStep, Any, Any]:
    try:
        return loader.trace(Watch(AxisType.Auto))
    except LabError:
        raise
    except Exception as error:  # the step's own, or JAX's: as they are
        raise LabError(f"{type(error).__name__}: {error}") from error


def _wanted(loader: Loader) -> dict[Key, list[Any]]:
    """The specs that values have under Auto axes; none where a probe or a pass fails."""
    watch = Watch(AxisType.Auto, probes=True)
    with suppress(Exception):  # what is not known so is guessed by sizes
        return wanted_specs(loader.trace(watch)[0].traced, watch)
    return {}


def _notes(auto: tracing.TracedStep, given: Any, mended: Mended) -> list[str]:
    notes = [f"{each}: the mesh has Auto axes, and the patch makes them Explicit" for each in mended.meshes]  # fmt: skip
    text = str(auto.traced.jaxpr)
    if "shard_map" in text:
        notes.append("the bodies of shard_map have Manual axes, and stay as they are")
    shardings = (getattr(leaf, "sharding", None) for leaf in jax.tree.leaves(given))
    if not any(any(each.spec) for each in shardings if each is not None):
        notes.append("no spec of an argument names an axis: every type is replicated")
    notes.append(
        "call the step, and what initializes it, under `with jax.set_mesh(mesh):`, by which specs "
        "find their mesh"
    )
    return notes


def _patch(loader: Loader) -> str:
    lines: list[str] = []
    for path, source in loader.sources.items():
        name = os.path.relpath(path, loader.root)
        before, after = (text.splitlines(keepends=True) for text in (source.original, source.finished()))  # fmt: skip
        lines += difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)  # fmt: skip


if __name__ == "__main__":
    answer(lambda: reported(read_request(json.loads(sys.argv[2]))).model_dump_json())
