"""The answer of a search at a moment: what is reported, compared and archived. No search goes on
from it, and it answers for no machine but its own.
"""

import hashlib
from contextlib import suppress
from typing import Annotated, Literal

from pydantic import Field, JsonValue, ValidationError

from spmd_core.base import Frozen, refuse, shorten
from spmd_core.search.answer import TOP
from spmd_core.search.candidate import Stage
from spmd_core.search.link import path, question_of
from spmd_core.search.question import ModelQuestion

MOST_CHARACTERS = 2**16  # of its JSON: that of a collection's part
_MOST_COUNT, _MOST_VALUE = 2**63 - 1, 1e15
_ID = r"^[A-Za-z0-9_-]{1,48}$"
Count = Annotated[int, Field(ge=0, le=_MOST_COUNT)]
Value = Annotated[float, Field(ge=0, le=_MOST_VALUE)]
Name = Annotated[str, Field(pattern=_ID)]


class KeptCandidate(Frozen):
    """A row of the ranking. `cost`: what is minimized, where that is neither time nor memory;
    `tokens` of a step; `why`: what it costs beside the winner, in a sentence.
    """

    name: str
    target: str
    stage: Stage
    known_by: str
    seconds: Value
    low_s: Value | None = None
    high_s: Value | None = None
    tokens: Annotated[int, Field(ge=1, le=_MOST_COUNT)] = 1
    memory_bytes: Count | None = None
    host_bytes: Count | None = None
    fits: str = ""
    mfu: Value | None = None
    mfu_causal: Value | None = None
    cost: str = ""
    alike: Count = 0
    why: str = ""


class KeptSearch(Frozen):
    """A question with its answer, as sentences in `title` and `words`. `standards` compares the
    winner with the standard shardings; `runs` are of the winner and of its proof. Of serving what the
    answer does: `token_s`, seconds of a token by what takes them, and `held_bytes` of a
    device of `capacity_bytes` by what they are.

    `origin`: the installation of a search that was foreign where it was exported.
    """

    search: Name
    title: str = "A search"
    question: dict[str, JsonValue] = {}
    state: Literal["running", "paused", "cancelled", "done"] = "done"
    at: Annotated[float, Field(ge=0, lt=2.0**33)] = 0.0
    spent_s: Value = 0.0
    space: Count = 0
    words: str = "It had no answer yet."
    has_winner: bool = False
    complete: bool = False
    ranking: tuple[KeptCandidate, ...] = Field(default=(), max_length=TOP)
    standards: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    counts: dict[str, Count] = {}
    pruned: dict[str, Count] = {}
    runs: tuple[Name, ...] = Field(default=(), max_length=2)
    token_s: dict[str, Value] = {}
    held_bytes: dict[str, Count] = {}
    capacity_bytes: Count = 0
    origin: Name | None = None

    @property
    def id(self) -> str:
        """Its question's id, of a foreign search with a hash of its answer behind it."""
        return f"{self.search}-{self.digest}" if self.origin else self.search

    @property
    def is_drawn(self) -> bool:
        """True if it has the parts of a token and of the memory, as an answer on serving has."""
        return sum(self.token_s.values()) > 0 and self.capacity_bytes > 0

    @property
    def digest(self) -> str:
        """A hash of the answer (8 hex digits), wherever it is stored."""
        added = {"host_bytes", "mfu_causal"}  # later than digests were made
        parts = dict.fromkeys(("origin", "token_s", "held_bytes", "capacity_bytes"), True)
        text = self.model_dump_json(exclude=parts | {"ranking": {"__all__": added}})
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def rows(self) -> tuple[KeptCandidate, ...]:
        """The ranking with causal MFU, also where it was kept before that was."""
        missing = any(each.mfu and each.mfu_causal is None for each in self.ranking)
        with suppress(ValueError, TypeError, ZeroDivisionError):  # a question that cannot be read
            asked = question_of(self.question) if missing else None
            if isinstance(asked, ModelQuestion):
                of = asked.sequence, asked.sequence
                share = asked.size.causal_flops(*of) / asked.size.train_flops(*of)
                return tuple(
                    each.model_copy(update={"mfu_causal": share * (each.mfu or 0)})
                    for each in self.ranking
                )
        return self.ranking

    @property
    def winner(self) -> KeptCandidate | None:
        """The first of the ranking, where it is sure to run."""
        return self.rows[0] if self.has_winner and self.ranking else None

    @property
    def link(self) -> str:
        """Path and query that open its question; "" of one that this version cannot read."""
        try:
            return path(self.question)
        except (ValueError, TypeError):
            return ""

    def within(self, most: int = MOST_CHARACTERS) -> "KeptSearch":
        """The search with as much of its ranking as fits into so many characters of JSON."""
        kept = self
        while kept.ranking and len(kept.model_dump_json()) > most:
            kept = kept.model_copy(update={"ranking": kept.ranking[:-1]})
        return kept


def read_kept(text: str | bytes, name: str = "search") -> KeptSearch:
    """The search of its JSON; RequestError where it is none, or too long."""
    if len(text) > MOST_CHARACTERS:
        raise refuse(name, f"has more than {MOST_CHARACTERS:,} characters", "export it again")
    try:
        read = KeptSearch.model_validate_json(text)
        read.model_dump_json().encode()
    except (ValidationError, UnicodeError, RecursionError) as error:
        why = shorten(str(error).replace("\n", " "), 100)
        rule = f"cannot be read by this version ({why})"
        raise refuse(name, rule, "import it with the version that exported it") from error
    return read
