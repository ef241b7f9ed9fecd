"""The syntax of pasted code, bounded in length and depth."""

import ast
import re
import textwrap
import warnings

from spmd_core.base import RequestError, parsed, refuse, shorten
from spmd_core.experiment.pasted.specs import READ

MAX_CHARACTERS = 4000
MAX_BRACKETS = 24  # one inside the other
MAX_MARKS = 400  # operators and brackets: a chain of them is as deep as it is long
MAX_DEPTH = 60  # levels of syntax
_MARKS = re.compile(r"[-+*/%@&|^~(\[{:]|\b(?:not|if|else|await|yield|and|or|in|is)\b")
# as JAX prints a mesh: no Python, but for its pairs
_PRINTED = re.compile(r"Mesh\(((?:'[^'()]*': ?\d+(?:, ?)?)+)")


def no_spec(text: str) -> RequestError:
    """Returns the refusal of a text without a spec, mesh or array."""
    return refuse(
        shorten(text, 60) if text.strip() else "an empty text",
        "has no PartitionSpec",
        f"write {READ}; it is read, not evaluated",
    )


def check_length(text: str) -> None:
    """Raises RequestError where a text is too long to be read."""
    if len(text) > MAX_CHARACTERS:
        raise refuse(
            f"a text of {len(text):,} characters",
            f"is longer than {MAX_CHARACTERS:,}",
            "paste the line with the PartitionSpec alone",
        )


def syntax_of(text: str) -> tuple[ast.Module, str]:
    """The syntax of a text, and the code that it was read from; size and depth are bounded before
    and after Python's parser, which spends long on some texts.
    """
    if _brackets(text) > MAX_BRACKETS or len(_MARKS.findall(text)) > MAX_MARKS:
        raise _too_much(text)
    code = _PRINTED.sub(
        lambda match: f"Mesh({{{match[1].rstrip(', ')}}}, ", textwrap.dedent(text).strip()
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parsed(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise no_spec(text) from error
    if _is_deep(tree):
        raise _too_much(text)
    return tree, code


def _too_much(text: str) -> RequestError:
    return refuse(
        shorten(text),
        "has too many brackets or operators to be read",
        "paste the line with the PartitionSpec alone",
    )


def _brackets(text: str) -> int:
    """How deep brackets are nested, counting those inside of texts too."""
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}" and depth > 0)
        deepest = max(deepest, depth)
    return deepest


def _is_deep(tree: ast.AST) -> bool:
    level = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True
