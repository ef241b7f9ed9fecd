"""Texts that are pasted into Layout, by grammar and mutation: each is read or refused in a
sentence, and soon.

    .venv/bin/python -m bench.pasted_texts
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator

from bench.figures import Asked, Figures, measure
from spmd_core.base import RequestError
from spmd_core.experiment.pasted.pasted_syntax import MAX_CHARACTERS
from spmd_core.experiment.pasted.pasted_text import read_pasted
from spmd_lab.ui.layout.paste import filled

_ARRAYS = {"x": ("batch", "in"), "weights": ("in", "out"), "y": ("batch", "out")}
_NAMES = ("x", "y", "data", "a b", "", "\\ud800", "\\x00", "é", "None", "x" * 40, "\\N{BULLET}")
_SEEDS = (
    "P('x', None)",
    "jax.sharding.PartitionSpec(('x', 'y'), None)",
    "NamedSharding(mesh, P('x'))",
    "x = jax.device_put(x, NamedSharding(mesh, P('x', None)))",
    "mesh = jax.make_mesh((2, 4), ('x', 'y'))",
    "Mesh(np.array(jax.devices()).reshape(2, 4), ('x', 'y'))",
    "NamedSharding(mesh=Mesh('x': 2, 'y': 4), spec=P('x', ('y',)), memory_kind=device)",
    "jax.jit(f, in_shardings=(P('x'), P(None)), out_shardings=P('y'))",
    "x_spec = P('x')\nw_spec = P(None, 'y')",
    "('x', None)",
)
_PIECES = (
    *("(", ")", "[", "]", "{", "}", ",", ":", "=", "==", "*", "**", "-", "~", "not ", "lambda:"),
    *(
        "'",
        '"',
        '"""',
        "\\",
        "\n",
        "\r",
        "\t",
        "\x00",
        "\f",
        "#",
        ";",
        "@",
        "f'{",
        "}'",
        "0x",
        "1e9",
    ),
    *("P(", "PartitionSpec(", "make_mesh(", "Mesh(", "AbstractMesh(", "Mesh('x': 2", "None", "'x'"),
    *("\ud800", "\u202e", "\u2028", "é", "😀", "９", "await ", "yield ", "if 1 else ", ".b", "[0]"),
)
# texts that repeat a piece, as deep or as long as the box takes them
_DEEP: tuple[Callable[[int], str], ...] = (
    lambda n: "-" * n + "1",
    lambda n: f"P({'-' * n}1)",
    lambda n: f"P({'f(' * n}{')' * n})",
    lambda n: f"P({'(' * n}'x'{')' * n})",
    lambda n: f"P(a{'.b' * n})",
    lambda n: f"P(a{'[0]' * n})",
    lambda n: f"P(a{'()' * n})",
    lambda n: f"P({'1+' * n}1)",
    lambda n: f"P({'2**' * n}2)",
    lambda n: f"P({'not ' * n}1)",
    lambda n: f"P({'lambda:' * n}1)",
    lambda n: f"P({'1 if 1 else ' * n}1)",
    lambda n: f"P(0x{'f' * n})",
    lambda n: f"P({'9' * n})",
    lambda n: f"make_mesh((0x{'f' * n},), ('x',))",
    lambda n: f"({'P(),' * n})",
    lambda n: "P('x')\n" * n,
    lambda n: f"x = {'x = ' * n}P('x')",
    lambda n: f"P({'None,' * n})",
    lambda n: f"P('x'{', *a' * n})",
    lambda n: "Mesh(" + "'x': 2, " * n,
    lambda n: "Mesh('x': " * n,
    lambda n: "{" * n,
    lambda n: "f'{" * n,
    lambda n: "if 1:\n" + " if 1:\n" * n,
)


def texts(count: int, seed: int) -> Iterator[str]:
    """So many texts: by grammar, by mutation of what is read, deep ones and long ones, in turn."""
    dice = random.Random(seed)
    for number in range(count):
        kind = number % 4
        if kind == 0:
            text = _call(dice, dice.randrange(1, 6))
        elif kind == 1:
            text = _mutated(dice, dice.choice(_SEEDS))
        elif kind == 2:
            text = "".join(dice.choice(_PIECES) for _ in range(dice.choice((3, 12, 60, 900))))
        else:
            make, most = dice.choice(_DEEP), dice.choice((5, 50, 300, 900, 5000))
            while len(text := make(most)) > MAX_CHARACTERS and dice.random() < 0.98:
                most = most * 3 // 4
        yield text


def _call(dice: random.Random, depth: int) -> str:
    """A nested piece of code as somebody might write it, with odd names and numbers."""
    if depth == 0:
        return dice.choice(
            (f"'{dice.choice(_NAMES)}'", "None", "x", str(dice.randrange(-3, 2**40)), "...", "b'x'")
        )
    inner = ", ".join(_call(dice, depth - 1) for _ in range(dice.randrange(4)))
    return dice.choice(
        (
            "P({})",
            "({},)",
            "[{}]",
            "f({})",
            "x = {}",
            "NamedSharding(mesh, P({}))",
            "make_mesh({})",
            "device_put({})",
            "f(out_shardings={})",
        )
    ).format(inner)


def _mutated(dice: random.Random, text: str) -> str:
    for _ in range(dice.randrange(1, 6)):
        at, upto = sorted(dice.randrange(len(text) + 1) for _ in range(2))
        piece = dice.choice((dice.choice(_PIECES), text[at:upto] * dice.randrange(1, 9), ""))
        text = text[:at] + piece + text[dice.choice((at, upto)) :]
    return text


def judged(text: str) -> str | None:
    """What is wrong with how a text is taken; None where it is read, or refused in a sentence."""
    try:
        filled({}, read_pasted(text), _ARRAYS)
    except RequestError as error:
        said = str(error)
        if "\n" in said or len(said) > 400 or not said.isprintable():
            return f"a refusal that is not one short line: {said[:60]!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:80]}"
    return None


def timed(text: str) -> tuple[float, str | None]:
    """Seconds of this thread alone, since others work on the machine; and what `judged` says."""
    begun = time.thread_time()
    problem = judged(text)
    return time.thread_time() - begun, problem


def main(options: Asked, figures: Figures) -> None:
    bad = Counter[str]()
    slowest, slowest_text = 0.0, ""
    for text in texts(options.texts, options.seed):
        took, problem = timed(text)
        if took > slowest:  # anew: once may have been garbage collection, or another's work
            took = min(took, *(timed(text)[0] for _ in range(2)))
        if took > slowest:
            slowest, slowest_text = took, text
        if problem is not None:
            bad[problem] += 1
    for problem, times in bad.most_common(20):
        print(f"{times:5}  {problem}")
    print(f"slowest: {slowest_text[:60]!r}, {len(slowest_text):,} characters")
    figures.add(
        "neither read nor refused in a sentence", bad.total(), f"of {options.texts}", most=0
    )
    figures.add("the slowest, in ms", slowest * 1e3, most=50)


if __name__ == "__main__":
    measure(main, __doc__, texts=20_000, seed=1)
