"""Models, targets and workloads that installed packages add by their entry points."""

from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import TypeVar


def package_version(package: str) -> str | None:
    """The version of a package as it is installed now; None where it is not."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


Value = TypeVar("Value")
_MOST = 300  # characters of a problem


def plugins(
    kind: str, read: Callable[[EntryPoint], Value]
) -> tuple[dict[str, Value], tuple[str, ...]]:
    """Returns what packages add, by name in lower case, and a sentence for each that is left out.

    Args:
        kind: `model` for the entry points of the group `spmd_lab.models`, and so on.
        read: returns the value of an entry point; whatever it raises leaves that one out.
    """
    values, problems = dict[str, Value](), list[str]()
    for each in _points(kind):
        what = f"{kind} {each.name} of package {each.dist.name if each.dist else 'unknown'}"
        try:
            if values.setdefault(each.name.lower(), value := read(each)) is not value:
                problems.append(f"{what} is left out: another package has that name")
        except Exception as error:
            reason = " ".join(str(error).split())[:_MOST] or type(error).__name__
            problems.append(f"{what} is left out: {reason}")
    return values, tuple(problems)


@cache
def _points(kind: str) -> tuple[EntryPoint, ...]:
    return tuple(sorted(entry_points(group=f"spmd_lab.{kind}s"), key=lambda each: each.name))
