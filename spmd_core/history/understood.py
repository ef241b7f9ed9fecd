"""A search of History as it is understood: terms, collectives, a day, and the text that is left."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from time import time

from spmd_core.history.cells import TERMS, fits, plain_text, row_text, terms, when_words
from spmd_core.runs import RunSummary
from spmd_core.terms import listed
from spmd_core.words import SHARDING
from spmd_core.workloads import TRANSFERS

_DAYS = {"today": 0, "yesterday": 1}
# what a reader types of a verdict -> its kind
_VERDICTS = {head.lower(): kind for kind, head in SHARDING.items()}
_VERDICTS |= {kind: kind for kind in ("faster", "slower")}
_WORD = re.compile(rf"(?<!\S)({'|'.join([*_DAYS, *TRANSFERS, *_VERDICTS])})(?!\S)", re.IGNORECASE)

# looks like a term and is none; targets have colons too
_NO_TERM = re.compile(r"(?<!\S)(?!(?:tpu|gpu|cpu):)([A-Za-z]+:)(?=\S)")


@dataclass(frozen=True, slots=True)
class Reading:
    """The parts of a search.

    Attributes:
      terms: field and value of each term such as `tag:v5p`.
      kinds: collectives that the compiled programs have.
      verdicts: whether sharding helped, as kinds of `sharding_verdict`.
      days: days as rows of History have them.
      phrase: text that a row has.
    """

    terms: tuple[tuple[str, str], ...]
    kinds: tuple[str, ...]
    verdicts: tuple[str, ...]
    days: tuple[str, ...]
    phrase: str

    @property
    def words(self) -> str:
        """What was understood in words, and what looks like a term and is none; "" of no search."""
        parts = [f"with {listed(self.kinds)}" if self.kinds else ""]
        parts.append(f"on {listed(self.days)}" if self.days else "")
        parts += [f"with the verdict {SHARDING[each]}" for each in self.verdicts]
        parts += [f"{field} {value}" for field, value in self.terms]
        parts = [part for part in parts if part]
        unknown = dict.fromkeys(_NO_TERM.findall(self.phrase))
        parts += [f"with the text “{self.phrase}”"] if self.phrase else []
        if not parts:
            return ""
        notes = [f"{each} is no term: use {', '.join(TERMS)}." for each in unknown]
        return " ".join([f"Runs {', '.join(parts)}.", *notes])


def read_search(text: str, zone: str | None = None, now: float | None = None) -> Reading:
    """Returns a search as it is understood.

    Args:
      text: as typed.
      zone: the time zone of the reader's days; None: this machine's.
      now: the present moment in seconds, before whose day `yesterday` is.

    >>> read_search("all-reduce v5e tag:ring").kinds
    ('all-reduce',)
    """
    wanted, phrase = terms(text)
    named = [word.lower() for word in _WORD.findall(phrase)]
    moment = time() if now is None else now
    return Reading(
        wanted,
        tuple(dict.fromkeys(word for word in named if word in TRANSFERS)),
        tuple(dict.fromkeys(_VERDICTS[word] for word in named if word in _VERDICTS)),
        tuple(
            when_words(moment - timedelta(days=_DAYS[word]).total_seconds(), zone)[:10]
            for word in dict.fromkeys(named)
            if word in _DAYS
        ),
        " ".join(_WORD.sub(" ", phrase).split()),
    )


def matches(
    text: str,
    zone: str | None = None,
    facts_of: Callable[[str], Collection[str]] = lambda _: (),
) -> Callable[[RunSummary], bool]:
    """Returns the predicate of a search: a run fits its terms, `facts_of` its id has its
    collectives and verdicts, and its row has a day of it and the phrase, case and spacing aside.
    """
    wanted = read_search(text, zone)
    rest = plain_text(wanted.phrase)

    def is_match(run: RunSummary) -> bool:
        if not fits(run, wanted.terms):
            return False  # before the row's text is made
        row = row_text(run, zone) if wanted.days or rest or wanted.verdicts else ""
        return (
            rest in row
            and (not wanted.days or any(day in row for day in wanted.days))
            and _has(wanted, row, lambda: facts_of(run.run))
        )

    return is_match


def text_matches(text: str, row: str, at: float, zone: str | None = None) -> bool:
    """Returns True if a row that is of no run, with this text and moment, fits a search: a day, and
    collectives and a phrase in its text. A run's terms and verdicts fit none.
    """
    wanted, shown = read_search(text, zone), plain_text(row)
    return (
        not (wanted.terms or wanted.verdicts)
        and (not wanted.days or when_words(at, zone)[:10] in wanted.days)
        and all(each in shown for each in (*wanted.kinds, plain_text(wanted.phrase)))
    )


def _has(wanted: Reading, row: str, facts: Callable[[], Collection[str]]) -> bool:
    """Returns True if a run has the collectives and verdicts of a search; a note may have the words of
    a verdict too.
    """
    verdicts = {each for each in wanted.verdicts if each not in row}
    return not (wanted.kinds or verdicts) or {*wanted.kinds, *verdicts} <= {*facts()}
